//! The origin of a file, kept beside it: it can be put back without the plan.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{AtFlags, Mode, OFlags, Statx, StatxFlags, openat, statx};
use rustix::io::Errno;

use crate::entry::{Entry, ObjectId};

/// How many files a thread takes before it looks again whether their directory is in place.
pub(super) const ROUND: usize = 32;

/// Identity of a directory that outlives the process that had it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) inode: u64,
    pub(super) birth_ns: Option<i64>,
}

impl Mark {
    pub(super) fn of(directory: &OwnedFd) -> Result<Self, Errno> {
        let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        Ok(Self::of_stat(&statx(directory, c"", AtFlags::EMPTY_PATH, mask)?))
    }

    pub(super) fn of_stat(stat: &Statx) -> Self {
        let entry = Entry::of_statx(stat);
        Self { inode: stat.stx_ino, birth_ns: entry.times.birth_ns }
    }
}

/// Origin of a planned file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    /// Its row in the plan.
    pub(super) row: u64,
    pub(super) id: ObjectId,
    /// The directory that it is taken out of; `None` where that is not known any more.
    pub(super) from: Option<Mark>,
    /// The path of that directory, relative to the root.
    pub(super) parent: &'a [u8],
    pub(super) name: &'a [u8],
}

/// The same as it is read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Noted {
    /// The name that the file has in quarantine.
    pub(super) slot: Vec<u8>,
    pub(super) row: u64,
    /// The inode of the planned file; 0 where it is known by something else.
    pub(super) inode: u64,
    pub(super) from: Option<Mark>,
    pub(super) parent: Vec<u8>,
    pub(super) name: Vec<u8>,
    /// Whether it was noted since this host was started: a note from before a power cut may be of an
    /// earlier round, and speaks for the planned file alone.
    pub(super) fresh: bool,
}

const BOOT_BYTES: usize = 36;
/// Slot, row and inode, inode and birth of the directory, and two lengths.
const FIXED_BYTES: usize = 4 + 8 + 8 + 8 + 8 + 4 + 4;
/// Stands for a birth that the file system does not know.
const UNBORN: i64 = i64::MIN;

/// A note of some slots; what an earlier and longer note has left behind it is not read.
pub(super) fn encode<'a>(slots: impl IntoIterator<Item = (usize, Origin<'a>)>) -> Vec<u8> {
    let mut note = boot().to_vec();
    for (slot, origin) in slots {
        let inode = if let ObjectId::Inode(inode) = origin.id { inode } else { 0 };
        note.extend((slot as u32 + 1).to_le_bytes());
        note.extend(origin.row.to_le_bytes());
        note.extend(inode.to_le_bytes());
        let from = origin.from.unwrap_or(Mark { inode: 0, birth_ns: None });
        note.extend(from.inode.to_le_bytes());
        note.extend(from.birth_ns.unwrap_or(UNBORN).to_le_bytes());
        for text in [origin.parent, origin.name] {
            note.extend((text.len() as u32).to_le_bytes());
        }
        note.extend(origin.parent);
        note.extend(origin.name);
    }
    note.extend([0; 4]);
    note
}

/// Reads a note; what cannot be read is not there.
pub(super) fn read(directory: impl AsFd, name: &[u8]) -> Vec<Noted> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut bytes = Vec::new();
    let Ok(file) = openat(directory, name, flags, Mode::empty()) else { return Vec::new() };
    match File::from(file).read_to_end(&mut bytes) {
        Ok(_) => decode(&bytes),
        Err(_) => Vec::new(),
    }
}

fn decode(bytes: &[u8]) -> Vec<Noted> {
    let Some((noted_in, mut rest)) = bytes.split_at_checked(BOOT_BYTES) else { return Vec::new() };
    let fresh = noted_in == boot();
    let mut notes = Vec::new();
    while let Some((fixed, texts)) = rest.split_at_checked(FIXED_BYTES) {
        let half = |at: usize| u32::from_le_bytes(fixed[at..at + 4].try_into().unwrap_or_default());
        let word = |at: usize| u64::from_le_bytes(fixed[at..at + 8].try_into().unwrap_or_default());
        let (slot, parent, name) = (half(0) as usize, half(36) as usize, half(40) as usize);
        if !(1..=ROUND).contains(&slot) || parent + name > texts.len() {
            break;
        }
        let birth_ns = Some(word(28) as i64).filter(|birth_ns| *birth_ns != UNBORN);
        let from = Mark { inode: word(20), birth_ns };
        notes.push(Noted {
            slot: slot_name(slot - 1).to_vec(),
            row: word(4),
            inode: word(12),
            from: (from.inode != 0).then_some(from),
            parent: texts[..parent].to_vec(),
            name: texts[parent..parent + name].to_vec(),
            fresh,
        });
        rest = &texts[parent + name..];
    }
    notes
}

pub(super) fn slot_name(slot: usize) -> &'static [u8] {
    const NAMES: &[u8; 2 * ROUND] =
        b"0001020304050607080910111213141516171819202122232425262728293031";
    &NAMES[2 * slot..2 * slot + 2]
}

/// Which start of this host it is.
fn boot() -> [u8; BOOT_BYTES] {
    static BOOT: OnceLock<[u8; BOOT_BYTES]> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let id = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        id.get(..BOOT_BYTES).and_then(|id| id.try_into().ok()).unwrap_or([b'-'; BOOT_BYTES])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_back_and_what_is_behind_it_is_not() {
        let from = Some(Mark { inode: 7, birth_ns: Some(-1) });
        let origin = |name| Origin { row: 70, id: ObjectId::Inode(9), from, parent: b"a/b", name };
        let long = encode([(3, origin(b"first\n")), (31, origin(b"second"))]);
        let read = decode(&long);
        let slots: Vec<_> = read.iter().map(|noted| (&*noted.slot, &*noted.name)).collect();
        assert_eq!(slots, [(&b"03"[..], &b"first\n"[..]), (b"31", b"second")]);
        let all = |noted: &Noted| (noted.row, noted.inode, noted.from, noted.fresh);
        assert!(read.iter().all(|noted| all(noted) == (70, 9, from, true)));
        for from in [None, Some(Mark { inode: u64::MAX, birth_ns: None })] {
            let note = encode([(0, Origin { from, ..origin(b"x") })]);
            assert_eq!(decode(&note)[0].from, from);
        }
        let short = encode([(0, origin(b"x"))]);
        let over = [&short, &long[short.len()..]].concat();
        assert_eq!(decode(&over).len(), 1);
        assert_eq!(decode(&long[..long.len() - 6]).len(), 1);
        for byte in [0, 1, 4, 28, 127, 255] {
            (0..160).for_each(|length| assert!(decode(&vec![byte; length]).is_empty()));
        }
        for length in 0..long.len() {
            assert!(decode(&long[..length]).len() <= 2, "{length}");
        }
        let earlier = [&[b'0'; BOOT_BYTES][..], &short[BOOT_BYTES..]].concat();
        assert!(!decode(&earlier)[0].fresh);
    }
}
