//! Counts of a walk so far, which any thread may read at any time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// How many unread paths are kept with their reason; all are counted.
const UNREAD_KEPT_MAX: usize = 10_000;
/// How many bytes their paths may have together: one can have 200,000.
const UNREAD_BYTES_MAX: usize = 16 << 20;

/// A path that could not be read, and the system's error. The entries beneath it are unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Relative to the root.
    pub path: Vec<u8>,
    /// The error number.
    pub errno: i32,
}

/// Counts of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Names that were seen; the root has none.
    pub entries: u64,
    /// Directories that were read to their end, the root among them.
    pub directories: u64,
    /// Names that were gone when they were looked at.
    pub vanished: u64,
    /// Names on which something else is mounted.
    pub elsewhere: u64,
    /// Names and directories that could not be read.
    pub unread: u64,
    /// Allocated bytes of the entries, a file of several names with each.
    pub allocated_bytes: u64,
    /// Directories that were not read: they hold the names that an earlier index lists.
    #[serde(default)]
    pub unchanged: u64,
    /// Names in those other than directories, which were not looked at.
    #[serde(default)]
    pub carried: u64,
}

/// The same while it goes on.
#[derive(Debug, Default)]
pub struct Record {
    entries: AtomicU64,
    directories: AtomicU64,
    vanished: AtomicU64,
    elsewhere: AtomicU64,
    unread: AtomicU64,
    allocated_bytes: AtomicU64,
    unchanged: AtomicU64,
    carried: AtomicU64,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    unread: Vec<Unread>,
    bytes: usize,
}

impl Record {
    /// Begins with what an earlier run saw.
    pub fn go_on(&self, counts: Counts, unread: Vec<Unread>) {
        self.add(&counts);
        let bytes = unread.iter().map(|entry| entry.path.len()).sum();
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Kept { unread, bytes };
    }

    /// Adds what one piece of work saw.
    pub fn add(&self, seen: &Counts) {
        let add = |counter: &AtomicU64, count| {
            if count > 0 {
                counter.fetch_add(count, Relaxed);
            }
        };
        add(&self.entries, seen.entries);
        add(&self.directories, seen.directories);
        add(&self.vanished, seen.vanished);
        add(&self.elsewhere, seen.elsewhere);
        add(&self.unread, seen.unread);
        add(&self.allocated_bytes, seen.allocated_bytes);
        add(&self.unchanged, seen.unchanged);
        add(&self.carried, seen.carried);
    }

    /// Counts and keeps a path that could not be read.
    pub fn add_unread(&self, path: Vec<u8>, errno: Errno) {
        self.unread.fetch_add(1, Relaxed);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = kept.bytes + path.len();
        if kept.unread.len() < UNREAD_KEPT_MAX && bytes <= UNREAD_BYTES_MAX {
            kept.bytes = bytes;
            kept.unread.push(Unread { path, errno: errno.raw_os_error() });
        }
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        Counts {
            entries: self.entries.load(Relaxed),
            directories: self.directories.load(Relaxed),
            vanished: self.vanished.load(Relaxed),
            elsewhere: self.elsewhere.load(Relaxed),
            unread: self.unread.load(Relaxed),
            allocated_bytes: self.allocated_bytes.load(Relaxed),
            unchanged: self.unchanged.load(Relaxed),
            carried: self.carried.load(Relaxed),
        }
    }

    /// The first of the paths that could not be read.
    pub fn unread(&self) -> Vec<Unread> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).unread.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unread_path_is_counted_and_the_first_are_kept() {
        let record = Record::default();
        for _ in 0..UNREAD_KEPT_MAX + 5 {
            record.add_unread(b"p".to_vec(), Errno::ACCESS);
        }
        assert_eq!(record.counts().unread as usize, UNREAD_KEPT_MAX + 5);
        assert_eq!(record.unread().len(), UNREAD_KEPT_MAX);
        let long = Record::default();
        (0..3).for_each(|_| long.add_unread(vec![b'p'; UNREAD_BYTES_MAX / 2], Errno::IO));
        assert_eq!((long.counts().unread, long.unread().len()), (3, 2));
    }

    #[test]
    fn a_record_goes_on() {
        let counts = Counts {
            entries: 1,
            directories: 2,
            vanished: 3,
            elsewhere: 4,
            unread: 5,
            allocated_bytes: 6,
            unchanged: 7,
            carried: 8,
        };
        let unread = vec![Unread { path: b"a".to_vec(), errno: 13 }];
        let record = Record::default();
        record.go_on(counts, unread.clone());
        assert_eq!((record.counts(), record.unread()), (counts, unread));
    }
}
