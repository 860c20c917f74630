//! Objects that exempt paths lead to, by identity: where a file system folds case or normalises
//! names, one directory is found under many names, and a comparison of paths knows it by one of
//! them only.

use std::collections::HashSet;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, openat, statx};
use rustix::io::Errno;

use super::parent::Parent;
use crate::beneath::{Answer, Identity, Root, as_path};
use crate::error::{Error, Result};

/// The directories and files that exempt paths led to when the removal was opened.
#[derive(Clone, Debug, Default)]
pub(super) struct Exempted {
    directories: HashSet<Identity>,
    /// Directory and inode: a name of the same file elsewhere is not exempt.
    files: HashSet<(Identity, u64)>,
}

impl Exempted {
    /// Looks exempt paths up beneath the root. One that leads nowhere exempts nothing; one that
    /// cannot be looked up is an error, for what it keeps would be deleted.
    pub(super) fn look_up(root: &Root, paths: &[Vec<u8>]) -> Result<Self> {
        let mut exempted = Self::default();
        for path in paths {
            match exempted.add(root, path) {
                Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => {}
                // No name that this file system can hold.
                Err(Errno::INVAL | Errno::ILSEQ | Errno::NAMETOOLONG) => {}
                Err(errno) => return Err(Error::system("open", as_path(path), errno)),
            }
        }
        Ok(exempted)
    }

    fn add(&mut self, root: &Root, path: &[u8]) -> Answer<()> {
        match root.directory(path, OFlags::PATH) {
            Ok(directory) => {
                self.directories.insert(Identity::of(directory.as_fd())?);
                return Ok(());
            }
            Err(Errno::NOTDIR | Errno::LOOP) => {}
            Err(errno) => return Err(errno),
        }
        let (above, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&b""[..], path),
        };
        let directory = root.directory(above, OFlags::PATH)?;
        let stat = statx(&directory, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::INO)?;
        self.files.insert((Identity::of(directory.as_fd())?, stat.stx_ino));
        Ok(())
    }

    /// Whether a directory, or one above it up to the root, is exempt.
    pub(super) fn has_on_way(&self, parent: &Parent) -> Answer<bool> {
        if self.directories.is_empty() {
            return Ok(false);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut here = openat(&parent.descriptor, c".", flags, Mode::empty())?;
        for _ in 0..parent.depth() {
            if self.directories.contains(&Identity::of(here.as_fd())?) {
                return Ok(true);
            }
            here = openat(&here, c"..", flags, Mode::empty())?;
        }
        Ok(self.directories.contains(&Identity::of(here.as_fd())?))
    }

    /// Whether a file is exempt under a name that it has in a directory.
    pub(super) fn has_file(&self, parent: &Parent, inode: u64) -> bool {
        self.files.contains(&(parent.identity, inode))
    }
}
