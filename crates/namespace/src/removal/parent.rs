//! The directory of a candidate, opened beneath the root, and whether it is still there.

use bytes::Bytes;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, Statx, StatxAttributes, StatxFlags, fstat, openat, readlinkat,
    statx,
};
use rustix::io::Errno;

use super::origin::Mark;
use super::outcome::Outcome;
use super::quarantine::{QUARANTINE_PREFIX, is_quarantine};
use crate::beneath::{Answer, Identity, Root};
use crate::system::project_of;

/// An open directory of the plan.
#[derive(Debug)]
pub(super) struct Parent {
    path: Bytes,
    pub(super) descriptor: OwnedFd,
    pub(super) identity: Identity,
    /// Its identity for later runs.
    pub(super) mark: Mark,
    /// Nothing can be taken out of it.
    pub(super) fixed: bool,
    /// The project that everything put into it must have.
    pub(super) project: Option<u32>,
    /// It is in a quarantine, of whichever plan: the files there wait for an operator.
    pub(super) aside: bool,
    /// It, or a directory above it, is one that an exempt path leads to.
    pub(super) exempt: bool,
}

/// Where a directory that was opened by its path is by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whereabouts {
    /// Its path leads to it still, or again.
    InPlace,
    /// It was removed from its place: it was empty, and nothing can be put back into it.
    Removed,
    /// It was moved, or its path leads elsewhere.
    Elsewhere,
}

impl Parent {
    /// Opens the directory at a path beneath the root.
    pub(super) fn open(root: &Root, path: &Bytes) -> Result<Self, (Outcome, Errno)> {
        let refused = |errno| (of_errno(errno), errno);
        let descriptor = root.directory(path, OFlags::RDONLY).map_err(refused)?;
        let identity = Identity::of(descriptor.as_fd()).map_err(refused)?;
        let flags = AtFlags::EMPTY_PATH;
        let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let stat = statx(&descriptor, c"", flags, mask).map_err(refused)?;
        let project = project_of(&descriptor).filter(|project| project.inherited);
        Ok(Self {
            path: path.clone(),
            descriptor,
            identity,
            mark: Mark::of_stat(&stat),
            fixed: is_fixed(&stat),
            project: project.map(|project| project.number),
            aside: lies_in_quarantine(root, path).map_err(refused)?,
            exempt: false,
        })
    }

    /// Where it is now.
    pub(super) fn whereabouts(&self, root: &Root) -> Whereabouts {
        if self.is_in_place(root) {
            return Whereabouts::InPlace;
        }
        match self.was_removed_from_its_place(root) {
            Ok(true) => Whereabouts::Removed,
            _ => Whereabouts::Elsewhere,
        }
    }

    /// How many directories there are from the root down to it.
    pub(super) fn depth(&self) -> usize {
        self.path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).count()
    }

    /// Whether it has no name any more and had its own when it lost it: the kernel keeps with an open
    /// directory that was removed which one it was in, and how it was called there. One that was moved
    /// away and then removed was somewhere else.
    fn was_removed_from_its_place(&self, root: &Root) -> Answer<bool> {
        if fstat(&self.descriptor)?.st_nlink != 0 {
            return Ok(false);
        }
        let (above, name) = match self.path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&self.path[..slash], &self.path[slash + 1..]),
            None => (&b""[..], &*self.path),
        };
        let shown = format!("/proc/self/fd/{}", self.descriptor.as_raw_fd());
        let shown = readlinkat(CWD, shown, Vec::new())?.into_bytes();
        if !shown.ends_with(&[b"/", name, b" (deleted)"].concat()) {
            return Ok(false);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let held = openat(&self.descriptor, c"..", flags, Mode::empty())?;
        let planned = root.directory(above, OFlags::PATH)?;
        Ok(Identity::of(held.as_fd())? == Identity::of(planned.as_fd())?)
    }

    /// Whether this is the directory that a file was taken out of. Where that was not noted, as a
    /// power cut leaves it, at least one that there was before the run.
    pub(super) fn is_where(&self, from: Option<Mark>, since_ns: Option<i64>) -> bool {
        match from {
            Some(from) => from == self.mark,
            None => match (self.mark.birth_ns, since_ns) {
                (Some(birth_ns), Some(since_ns)) => birth_ns <= since_ns,
                _ => false,
            },
        }
    }

    /// Whether its path leads to it still, or again.
    pub(super) fn is_in_place(&self, root: &Root) -> bool {
        let opened = root.directory(&self.path, OFlags::PATH);
        opened.and_then(|opened| Identity::of(opened.as_fd())).is_ok_and(|now| now == self.identity)
    }
}

/// Whether a path leads through a directory of ours where files are put aside. The name alone says
/// nothing: any user may give it to a directory of theirs.
fn lies_in_quarantine(root: &Root, path: &[u8]) -> Result<bool, Errno> {
    let mut end = 0;
    for component in path.split(|byte| *byte == b'/') {
        end += component.len();
        if component.starts_with(QUARANTINE_PREFIX) {
            let stat = fstat(root.directory(&path[..end], OFlags::PATH)?)?;
            if is_quarantine(component, stat.st_uid, stat.st_mode) {
                return Ok(true);
            }
        }
        end += 1;
    }
    Ok(false)
}

/// Whether a file, or a directory that it would be taken from, refuses to be changed.
pub(super) fn is_fixed(stat: &Statx) -> bool {
    stat.stx_attributes.intersects(StatxAttributes::IMMUTABLE | StatxAttributes::APPEND)
}

fn of_errno(errno: Errno) -> Outcome {
    match errno {
        Errno::NOENT => Outcome::Gone,
        // Something else has its place: a file, a link, a mount.
        Errno::NOTDIR | Errno::LOOP | Errno::XDEV => Outcome::Moved,
        Errno::ACCESS | Errno::PERM => Outcome::Denied,
        _ => Outcome::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_was_exchanged_is_not_in_place() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("a/b")).unwrap();
        let root = Root::open(tree.path()).unwrap();
        let parent = Parent::open(&root, &Bytes::from_static(b"a/b")).unwrap();
        assert!(parent.is_in_place(&root));
        std::fs::rename(tree.path().join("a"), tree.path().join("c")).unwrap();
        assert!(!parent.is_in_place(&root));
        std::fs::create_dir_all(tree.path().join("a/b")).unwrap();
        assert!(!parent.is_in_place(&root));
        std::fs::remove_dir_all(tree.path().join("a")).unwrap();
        std::fs::rename(tree.path().join("c"), tree.path().join("a")).unwrap();
        assert!(parent.is_in_place(&root));
    }
}
