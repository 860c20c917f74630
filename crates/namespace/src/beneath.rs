//! Directories opened beneath a root, without following a link or leaving the file system.
//!
//! Everything that reads or deletes below a root comes through here. A path is given in bytes,
//! relative to the root; the kernel resolves it with `openat2`, which refuses symbolic links,
//! `..` and mounts on the way. Where that call is missing (Linux before 5.6, RHEL 8) or forbidden
//! (containers whose filter is older than the call) the same is done component by component with
//! `O_NOFOLLOW`, and each directory's mount is compared.
//!
//! This proves that at some moment during the call each component was a directory of the root's
//! mount and had this name in the one before it. It cannot prove that all of them had it at the
//! same moment, or that they still have it. A caller that acts on the directory resolves the path
//! again afterwards and compares ([`Identity`]).

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, StatxFlags, openat, openat2, statx};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// Result of a system call.
pub(crate) type Answer<T> = std::result::Result<T, Errno>;

/// The longest path that one call takes, its final NUL left out.
const PATH_LENGTH_MAX: usize = 4095;

/// How often the kernel is asked again when it could not be sure because of a rename. An attacker
/// that renames all the time must not keep a caller for ever.
const ATTEMPTS_MAX: usize = 1000;

/// Identity of the directory behind a descriptor; no two directories that exist at once share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    device: u64,
    mount: u64,
    inode: u64,
}

impl Identity {
    /// The identity of an open directory.
    pub fn of(descriptor: BorrowedFd<'_>) -> Answer<Self> {
        let mask = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = statx(descriptor, c"", flags, mask)?;
        let mount = match stat.stx_mask & StatxFlags::MNT_ID.bits() {
            0 => mount_in_proc(descriptor)?,
            _ => stat.stx_mnt_id,
        };
        let device = rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
        Ok(Self { device, mount, inode: stat.stx_ino })
    }

    /// Whether both are on the same mount of the same file system.
    pub(crate) fn is_beside(self, other: Self) -> bool {
        (self.device, self.mount) == (other.device, other.mount)
    }
}

/// A directory that a scan or a deletion is confined to.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    descriptor: OwnedFd,
    identity: Identity,
    /// Once the kernel has said that it has no `openat2`, it is not asked again.
    by_component: AtomicBool,
}

impl Root {
    /// Opens the directory at an absolute path; its own last component may not be a link.
    pub fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|errno| Error::system("open", path, errno))?;
        Self::of(descriptor, path)
    }

    /// A directory that is open already, whatever its path leads to by now. It is opened anew, so
    /// that no position within it is shared.
    pub fn again(directory: BorrowedFd<'_>, path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = openat(directory, c".", flags, Mode::empty())
            .map_err(|errno| Error::system("open", path, errno))?;
        Self::of(descriptor, path)
    }

    fn of(descriptor: OwnedFd, path: &Path) -> Result<Self> {
        let identity = Identity::of(descriptor.as_fd())
            .map_err(|errno| Error::system("statx", path, errno))?;
        let by_component = AtomicBool::new(!has_openat2(descriptor.as_fd()));
        Ok(Self { path: path.to_path_buf(), descriptor, identity, by_component })
    }

    /// Where it was opened; for messages only.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its descriptor.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// The device number of its file system.
    pub fn device(&self) -> u64 {
        self.identity.device
    }

    /// Which directory it is.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Disables `openat2` from now on, as on a kernel that lacks it.
    pub fn without_openat2(self) -> Self {
        self.by_component.store(true, Ordering::Relaxed);
        self
    }

    /// Opens a directory at `path`, relative to the root; the empty path is the root itself.
    ///
    /// `flags` come on top of `O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC`. A path that is absolute, or
    /// has an empty component, `.`, `..` or a NUL, is `EINVAL`: no index holds such a one.
    pub fn directory(&self, path: &[u8], flags: OFlags) -> Answer<OwnedFd> {
        self.directory_from(self.descriptor(), path, flags)
    }

    /// The same, relative to a directory of this root that is open already.
    pub fn directory_from(
        &self,
        start: BorrowedFd<'_>,
        path: &[u8],
        flags: OFlags,
    ) -> Answer<OwnedFd> {
        if !is_plain(path) {
            return Err(Errno::INVAL);
        }
        let mut held: Option<OwnedFd> = None;
        let mut rest = path;
        loop {
            let (part, after) = split(rest);
            let last = after.is_empty();
            let here = held.as_ref().map_or(start, AsFd::as_fd);
            let opened = self.step(here, part, if last { flags } else { OFlags::PATH })?;
            if last {
                return Ok(opened);
            }
            held = Some(opened);
            rest = after;
        }
    }

    fn step(&self, start: BorrowedFd<'_>, part: &[u8], flags: OFlags) -> Answer<OwnedFd> {
        if !self.by_component.load(Ordering::Relaxed) {
            match open_beneath(start, part, flags) {
                Err(Errno::NOSYS) => self.by_component.store(true, Ordering::Relaxed),
                answer => return answer,
            }
        }
        self.open_by_component(start, part, flags)
    }

    fn open_by_component(
        &self,
        start: BorrowedFd<'_>,
        part: &[u8],
        flags: OFlags,
    ) -> Answer<OwnedFd> {
        let always = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut held: Option<OwnedFd> = None;
        let mut components = part.split(|&byte| byte == b'/').filter(|c| !c.is_empty()).peekable();
        if components.peek().is_none() {
            return openat(start, c".", flags | always, Mode::empty());
        }
        while let Some(component) = components.next() {
            let flags = if components.peek().is_some() { OFlags::PATH } else { flags };
            let here = held.as_ref().map_or(start, AsFd::as_fd);
            let opened = openat(here, component, flags | always, Mode::empty())?;
            if !Identity::of(opened.as_fd())?.is_beside(self.identity) {
                return Err(Errno::XDEV);
            }
            held = Some(opened);
        }
        held.ok_or(Errno::NOENT)
    }
}

fn open_beneath(start: BorrowedFd<'_>, part: &[u8], flags: OFlags) -> Answer<OwnedFd> {
    let flags = flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    let part = if part.is_empty() { b"." } else { part };
    for _ in 0..ATTEMPTS_MAX {
        // EAGAIN: something was renamed while the kernel looked; it could not be sure, so it asks again.
        match openat2(start, OsStr::from_bytes(part), flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            answer => return answer,
        }
    }
    Err(Errno::AGAIN)
}

/// Whether `openat2` works here. Old filters of containers answer EPERM instead of ENOSYS; an
/// answer of EPERM about a directory that is open already can mean nothing else.
fn has_openat2(root: BorrowedFd<'_>) -> bool {
    !matches!(open_beneath(root, b"", OFlags::PATH), Err(Errno::NOSYS | Errno::PERM))
}

/// Whether a path is one that an index holds: components, none of them special.
fn is_plain(path: &[u8]) -> bool {
    path.is_empty()
        || path
            .split(|&byte| byte == b'/')
            .all(|component| !matches!(component, b"" | b"." | b"..") && !component.contains(&0))
}

/// Bytes as a path, for messages.
pub(crate) fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// The first part of a path that one call takes, and what comes after it.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    if path.len() <= PATH_LENGTH_MAX {
        return (path, b"");
    }
    match path[..=PATH_LENGTH_MAX].iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (path, b""),
    }
}

/// The mount of a descriptor as `/proc` has it, for kernels whose `statx` does not (before 5.8).
fn mount_in_proc(descriptor: BorrowedFd<'_>) -> Answer<u64> {
    let path = format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd());
    let text = std::fs::read_to_string(path)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOSYS))?;
    let mount = text.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    // Without it a bind mount looks like a directory, so the answer is an error.
    mount.and_then(|mount| mount.trim().parse().ok()).ok_or(Errno::NOSYS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn both(root: &Path, check: impl Fn(&Root)) {
        check(&Root::open(root).unwrap());
        check(&Root::open(root).unwrap().without_openat2());
    }

    #[test]
    fn a_directory_is_found_beneath_the_root() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join("a/b/c")).unwrap();
        both(tree.path(), |root| {
            for path in ["", "a", "a/b/c"] {
                root.directory(path.as_bytes(), OFlags::PATH).unwrap();
            }
            assert_eq!(root.directory(b"a/x", OFlags::PATH).unwrap_err(), Errno::NOENT);
        });
    }

    #[test]
    fn no_link_and_no_way_out_is_followed() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join("root/a/b")).unwrap();
        fs::create_dir(tree.path().join("outside")).unwrap();
        symlink("../../outside", tree.path().join("root/a/out")).unwrap();
        symlink("b", tree.path().join("root/a/inner")).unwrap();
        both(&tree.path().join("root"), |root| {
            for path in ["a/out", "a/inner", "a/out/x"] {
                assert!(root.directory(path.as_bytes(), OFlags::PATH).is_err(), "{path}");
            }
            for path in ["a/../..", "..", "a/../a", "a/./b", "a//b", "/a", "a/", ".", "a\0b"] {
                let refused = root.directory(path.as_bytes(), OFlags::PATH).unwrap_err();
                assert_eq!(refused, Errno::INVAL, "{path:?}");
            }
        });
        symlink("root", tree.path().join("alias")).unwrap();
        assert!(Root::open(&tree.path().join("alias")).is_err());
    }

    #[test]
    fn a_directory_that_is_open_stays_the_root_wherever_its_path_leads() {
        let tree = tempfile::tempdir().unwrap();
        let (path, away) = (tree.path().join("root"), tree.path().join("away"));
        fs::create_dir_all(path.join("inner")).unwrap();
        let held = fs::File::open(&path).unwrap();
        fs::rename(&path, &away).unwrap();
        fs::create_dir(&path).unwrap();
        let root = Root::again(held.as_fd(), &path).unwrap();
        root.directory(b"inner", OFlags::PATH).unwrap();
        assert_ne!(root.identity(), Root::open(&path).unwrap().identity());
        assert_eq!(root.identity(), Root::open(&away).unwrap().identity());
    }

    #[test]
    fn a_mount_on_the_way_is_refused() {
        let root = Path::new("/");
        both(root, |root| {
            assert_eq!(root.directory(b"proc", OFlags::PATH).unwrap_err(), Errno::XDEV);
        });
    }

    #[test]
    fn a_mount_is_the_same_by_statx_and_by_proc() {
        let here = Root::open(Path::new("/")).unwrap();
        assert_eq!(mount_in_proc(here.descriptor()).unwrap(), here.identity().mount);
        let there = Root::open(Path::new("/proc")).unwrap();
        assert_eq!(mount_in_proc(there.descriptor()).unwrap(), there.identity().mount);
        assert_ne!(here.identity().mount, there.identity().mount);
    }

    #[test]
    fn a_path_of_any_length_is_opened() {
        let tree = tempfile::tempdir().unwrap();
        let name = "n".repeat(200);
        let root = Root::open(tree.path()).unwrap();
        let mut path = String::new();
        for depth in 0..60 {
            let parent = root.directory(path.as_bytes(), OFlags::PATH).unwrap();
            rustix::fs::mkdirat(&parent, name.as_str(), Mode::RWXU).unwrap();
            path = if depth == 0 { name.clone() } else { format!("{path}/{name}") };
        }
        assert!(path.len() > 12_000);
        both(tree.path(), |root| {
            root.directory(path.as_bytes(), OFlags::RDONLY).unwrap();
        });
    }
}
