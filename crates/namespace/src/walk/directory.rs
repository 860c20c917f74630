//! A directory of the walk: a link of the chain of names that leads to it.
//!
//! Paths are not kept, they would grow with the square of the depth; a directory knows its name and
//! its parent.
//!
//! ```text
//!   root ◀── a ◀── b ◀── c        c.path() == "a/b/c"
//!             ▲
//!             └── d               d.path() == "a/d"
//! ```

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// A directory that was found and is not done yet, or whose subdirectories are not.
pub struct Directory {
    parent: Option<Arc<Directory>>,
    name: Box<[u8]>,
    path_length: usize,
    /// The MDT that answers for it; 0 on other file systems.
    mdt: u16,
    kept: Mutex<Option<Arc<Open>>>,
}

/// A directory that is open for reading.
#[derive(Debug)]
pub struct Open {
    descriptor: OwnedFd,
    /// Where the next read begins. One worker reads a directory at a time, so nothing races.
    position: AtomicU64,
}

impl Open {
    pub fn new(descriptor: OwnedFd) -> Self {
        Self { descriptor, position: AtomicU64::new(0) }
    }

    /// Sets where the next read begins, with a call only where it does not begin there already:
    /// some file systems count entries when they seek, and lose count while names go.
    pub fn seek(&self, cookie: u64) -> Result<(), Errno> {
        if self.position.load(Ordering::Relaxed) != cookie {
            rustix::fs::seek(&self.descriptor, SeekFrom::Start(cookie))?;
            self.read_up_to(cookie);
        }
        Ok(())
    }

    /// Remembers where a read ended.
    pub fn read_up_to(&self, cookie: u64) {
        self.position.store(cookie, Ordering::Relaxed);
    }
}

impl AsFd for Open {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Directory {
    pub fn root() -> Arc<Self> {
        Arc::new(Self {
            parent: None,
            name: Box::default(),
            path_length: 0,
            mdt: 0,
            kept: Mutex::default(),
        })
    }

    pub fn child(self: &Arc<Self>, name: &[u8], mdt: u16) -> Arc<Self> {
        let separator = usize::from(self.parent.is_some());
        Arc::new(Self {
            parent: Some(Arc::clone(self)),
            name: name.into(),
            path_length: self.path_length + separator + name.len(),
            mdt,
            kept: Mutex::default(),
        })
    }

    /// Its parent; `None` for the root.
    pub fn parent(&self) -> Option<&Arc<Self>> {
        self.parent.as_ref()
    }

    /// Its last component; empty for the root.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    pub fn path_length(&self) -> usize {
        self.path_length
    }

    pub fn mdt(&self) -> u16 {
        self.mdt
    }

    pub fn path(&self) -> Vec<u8> {
        let mut path = Vec::new();
        self.write_path(&mut path);
        path
    }

    /// The same, over the previous contents of a buffer.
    pub fn write_path(&self, path: &mut Vec<u8>) {
        path.clear();
        path.resize(self.path_length, b'/');
        let mut ancestor = self;
        while let Some(parent) = &ancestor.parent {
            path[ancestor.path_length - ancestor.name.len()..ancestor.path_length]
                .copy_from_slice(&ancestor.name);
            ancestor = parent;
        }
    }

    /// Its descriptor, if one is kept.
    pub fn kept(&self) -> Option<Arc<Open>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps a descriptor or lets it go; returns whether there was one.
    pub fn set_kept(&self, open: Option<Arc<Open>>) -> bool {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *kept, open).is_some()
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", String::from_utf8_lossy(&self.path()))
    }
}

/// The last directory of a chain takes with it all that have no other holder: one after the other,
/// since a call within a call for each level would not fit the stack at 100,000 of them.
impl Drop for Directory {
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(directory) = next {
            next = Arc::into_inner(directory).and_then(|mut alone| alone.parent.take());
        }
    }
}

/// The path of the directory that a worker is in, made from the one before where that is near.
#[derive(Default)]
pub struct CurrentPath {
    at: Option<Arc<Directory>>,
    bytes: Vec<u8>,
}

impl CurrentPath {
    pub fn go_to(&mut self, directory: &Arc<Directory>) {
        let Some(at) = &self.at else { return self.make(directory) };
        if Arc::ptr_eq(at, directory) {
            return;
        }
        let parent = directory.parent();
        let is = |candidate: Option<&Arc<Directory>>| match (candidate, parent) {
            (Some(candidate), Some(parent)) => Arc::ptr_eq(candidate, parent),
            _ => false,
        };
        let above = if is(Some(at)) {
            at.path_length()
        } else if is(at.parent()) {
            at.parent().map_or(0, |parent| parent.path_length())
        } else {
            return self.make(directory);
        };
        self.bytes.truncate(above);
        if above > 0 {
            self.bytes.push(b'/');
        }
        self.bytes.extend_from_slice(directory.name());
        self.at = Some(Arc::clone(directory));
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn make(&mut self, directory: &Arc<Directory>) {
        directory.write_path(&mut self.bytes);
        self.at = Some(Arc::clone(directory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_is_the_names_on_the_way() {
        let root = Directory::root();
        assert_eq!(root.path(), b"");
        let a = root.child(b"a", 0);
        assert_eq!(a.path(), b"a");
        assert_eq!(a.child(b"bc", 0).child(b"\xff\n", 0).path(), b"a/bc/\xff\n");
    }

    #[test]
    fn a_chain_of_any_length_is_dropped() {
        let mut last = Directory::root();
        for _ in 0..1_000_000 {
            last = last.child(b"d", 0);
        }
        assert_eq!(last.path().len(), 1_999_999);
        drop(last);
    }

    #[test]
    fn a_chain_is_dropped_up_to_what_others_hold() {
        let root = Directory::root();
        let a = root.child(b"a", 0);
        drop(a.child(b"b", 0).child(b"c", 0));
        assert_eq!(Arc::strong_count(&a), 1);
        assert_eq!(a.path(), b"a");
    }

    proptest! {
        #[test]
        fn the_current_path_is_the_one_that_is_made_anew(moves in prop::collection::vec((0usize..40, 0usize..40), 1..60)) {
            let mut all = vec![Directory::root()];
            let mut current = CurrentPath::default();
            for (under, then) in moves {
                let made = all[under % all.len()].child(format!("n{}", all.len()).as_bytes(), 0);
                all.push(made);
                let next = &all[then % all.len()];
                current.go_to(next);
                prop_assert_eq!(current.bytes(), next.path());
                let newest = all.last().unwrap();
                current.go_to(newest);
                prop_assert_eq!(current.bytes(), newest.path());
            }
        }
    }
}
