//! The names that one read of a directory gave.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ops::Range;

use rustix::fs::RawDir;
use rustix::io::Errno;

use super::directory::Open;

/// Names with the inodes that the directory says they have, in the order of these: the inodes
/// are then one after the other on the disk, which is faster with a cold cache.
#[derive(Debug, Default)]
pub struct Names {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    inode: u64,
    start: u32,
    /// The NUL at the end counted.
    length: u32,
    /// Where the directory goes on after it.
    next: u64,
}

impl Names {
    /// Fills itself with what one call gives and returns where the next one begins; `None` at the
    /// end of the directory.
    pub fn read(
        &mut self,
        open: &Open,
        buffer: &mut [MaybeUninit<u8>],
    ) -> Result<Option<u64>, Errno> {
        self.bytes.clear();
        self.places.clear();
        let mut next = None;
        let mut entries = RawDir::new(open, buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            self.push(entry.ino(), entry.file_name(), entry.next_entry_cookie());
            next = Some(entry.next_entry_cookie());
            if entries.is_buffer_empty() {
                break;
            }
        }
        if let Some(next) = next {
            open.read_up_to(next);
        }
        Ok(next)
    }

    fn push(&mut self, inode: u64, name: &CStr, next: u64) {
        let bytes = name.to_bytes_with_nul();
        if matches!(bytes, b".\0" | b"..\0") {
            return;
        }
        let (start, length) = (self.bytes.len() as u32, bytes.len() as u32);
        self.bytes.extend_from_slice(bytes);
        self.places.push(Place { inode, start, length, next });
    }

    /// Fills itself with up to `count` names, whose inodes are not known.
    pub fn fill<'a>(&mut self, names: impl Iterator<Item = &'a [u8]>, count: usize) {
        self.bytes.clear();
        self.places.clear();
        for name in names.take(count) {
            let start = self.bytes.len() as u32;
            self.bytes.extend_from_slice(name);
            self.bytes.push(0);
            let length = name.len() as u32 + 1;
            self.places.push(Place { inode: 0, start, length, next: 0 });
        }
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Where the directory goes on after some of them; before those are sorted.
    pub fn next_after(&self, some: &Range<usize>) -> u64 {
        self.places[some.end - 1].next
    }

    /// Puts some of them in the order of their inodes.
    pub fn sort(&mut self, some: Range<usize>) {
        self.places[some].sort_unstable_by_key(|place| place.inode);
    }

    pub fn get(&self, index: usize) -> &CStr {
        let place = self.places[index];
        let bytes = &self.bytes[place.start as usize..(place.start + place.length) as usize];
        debug_assert!(CStr::from_bytes_with_nul(bytes).is_ok());
        // SAFETY: `push` copied a whole C string, its NUL at the end, to this place.
        unsafe { CStr::from_bytes_with_nul_unchecked(bytes) }
    }

    /// The inode number that the directory gives a name; 0 where it is not known.
    pub fn inode(&self, index: usize) -> u64 {
        self.places[index].inode
    }

    /// Takes some of them apart, so many at a time.
    pub fn split(&self, some: Range<usize>, at_a_time: usize) -> Vec<Names> {
        let part = |places: &[Place]| {
            let mut part = Names::default();
            for place in places {
                let start = part.bytes.len() as u32;
                let bytes = place.start as usize..(place.start + place.length) as usize;
                part.bytes.extend_from_slice(&self.bytes[bytes]);
                part.places.push(Place { start, ..*place });
            }
            part
        };
        self.places[some].chunks(at_a_time.max(1)).map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(count: usize) -> Names {
        let mut names = Names::default();
        for index in 0..count {
            let name = format!("{}\0", "x".repeat(index % 255 + 1));
            let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap();
            names.push((count - index) as u64, name, index as u64);
        }
        names
    }

    #[test]
    fn the_parts_are_the_whole() {
        let mut whole = some(1000);
        whole.sort(0..1000);
        let parts = whole.split(0..1000, 7);
        let again: Vec<_> =
            parts.iter().flat_map(|part| (0..part.len()).map(|place| part.get(place))).collect();
        assert_eq!(again, (0..1000).map(|place| whole.get(place)).collect::<Vec<_>>());
        assert_eq!(again[0].to_bytes().len(), 999 % 255 + 1);
    }

    #[test]
    fn some_are_sorted_and_taken_apart_for_themselves() {
        let mut names = some(10);
        assert_eq!(names.next_after(&(0..4)), 3);
        names.sort(0..4);
        let inodes: Vec<_> = (0..10).map(|index| names.inode(index)).collect();
        assert_eq!(inodes, [7, 8, 9, 10, 6, 5, 4, 3, 2, 1]);
        let parts = names.split(4..9, 3);
        assert_eq!(parts.iter().map(Names::len).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(parts[1].inode(0), 3);
    }

    #[test]
    fn a_directory_does_not_hold_itself() {
        let mut names = some(0);
        for name in [c".", c"..", c"...", c".a"] {
            names.push(1, name, 0);
        }
        assert_eq!(
            (0..names.len()).map(|place| names.get(place)).collect::<Vec<_>>(),
            [c"...", c".a"]
        );
    }
}
