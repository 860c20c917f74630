//! Where files in quarantine came from, as a cell notes it: enough to put each back without the plan.
//!
//! ```text
//!   length u32 | row u64 | inode u64 | birth i64 | path length u32 | path | name
//! ```
//! of the directory that it was taken out of, little-endian; a length of 0 ends them, as does what a
//! power cut left unwritten.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;

use super::parent::Mark;

const FIXED_BYTES: usize = 8 + 8 + 8 + 4;
/// So much is read at most: a cell notes what one batch took.
const READ_BYTES_MAX: u64 = 1 << 28;

/// The place of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin<'a> {
    /// Its number in the plan.
    pub(super) row: u64,
    /// The directory that it was taken out of.
    pub(super) from: Mark,
    /// The path of that directory, relative to the root.
    pub(super) path: &'a [u8],
    /// Its name there.
    pub(super) name: &'a [u8],
}

pub(super) fn write(to: &mut Vec<u8>, origin: &Origin<'_>) {
    let length = FIXED_BYTES + origin.path.len() + origin.name.len();
    to.extend((length as u32).to_le_bytes());
    to.extend(origin.row.to_le_bytes());
    to.extend(origin.from.inode.to_le_bytes());
    to.extend(origin.from.birth_ns.unwrap_or(i64::MIN).to_le_bytes());
    to.extend((origin.path.len() as u32).to_le_bytes());
    to.extend(origin.path);
    to.extend(origin.name);
}

/// The places that were noted, up to the first that is not whole.
pub(super) fn read(mut words: &[u8]) -> Vec<Origin<'_>> {
    let mut origins = Vec::new();
    while let Some(origin) = first_of(&mut words) {
        origins.push(origin);
    }
    origins
}

fn first_of<'a>(words: &mut &'a [u8]) -> Option<Origin<'a>> {
    let length = number(words)? as usize;
    let (record, rest) = words.get(4..)?.split_at_checked(length)?;
    let row = u64::from_le_bytes(record.get(..8)?.try_into().ok()?);
    let inode = u64::from_le_bytes(record.get(8..16)?.try_into().ok()?);
    let birth_ns = i64::from_le_bytes(record.get(16..24)?.try_into().ok()?);
    let path_bytes = number(record.get(24..)?)? as usize;
    let (path, name) = record.get(FIXED_BYTES..)?.split_at_checked(path_bytes)?;
    if name.is_empty() {
        return None;
    }
    *words = rest;
    let birth_ns = (birth_ns != i64::MIN).then_some(birth_ns);
    Some(Origin { row, from: Mark { inode, birth_ns }, path, name })
}

fn number(words: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(words.get(..4)?.try_into().ok()?))
}

/// The directories that rows came from.
pub(super) fn marks(file: File) -> HashMap<u64, Mark> {
    let mut words = Vec::new();
    // What cannot be read is as if it had not been noted.
    let _ = file.take(READ_BYTES_MAX).read_to_end(&mut words);
    read(&words).iter().map(|origin| (origin.row, origin.from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_survive_and_what_is_torn_ends_them() {
        let from = Mark { inode: 7, birth_ns: Some(-1) };
        let unborn = Mark { inode: u64::MAX, birth_ns: None };
        let origins = [
            Origin { row: 0, from, path: b"a/b", name: b"f" },
            Origin { row: u64::MAX, from: unborn, path: b"", name: b"\xff\n" },
        ];
        let mut words = Vec::new();
        origins.iter().for_each(|origin| write(&mut words, origin));
        assert_eq!(read(&words), origins);
        words.extend([0; 64]);
        assert_eq!(read(&words), origins);
        for length in 0..words.len() - 64 {
            let known = read(&words[..length]).len();
            assert!(known < 2, "{length}");
            assert_eq!(read(&words[..length]), origins[..known]);
        }
    }

    #[test]
    fn no_bytes_make_it_fail() {
        for byte in [1, 4, 28, 29, 127, 255] {
            for length in 0..80 {
                read(&vec![byte; length]);
            }
        }
    }
}
