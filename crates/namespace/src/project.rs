//! The project of a name, queried in ways that move no time of its file.
//!
//! | file system | how |
//! |---|---|
//! | Lustre 2.15 or later | `LL_IOC_PROJECT` of its directory, with the name |
//! | local ones, whose times an open with `O_NOATIME` leaves alone | `file_getattr` (Linux 6.17), else an open |
//! | any other, and Lustre before 2.15 | not at all: unknown |
//!
//! On Lustre the client reports size and blocks when it closes a file, even one that was only read.
//! Where the MDS had a stale lazy size, it stores that, and the store sets the ctime to now: an old file
//! looks young, and a plan sees it as changed. A file system in user space may do the same, and
//! `file_getattr` opens the file there too.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::fs::{Mode, OFlags, fstatfs, openat};
use rustix::io::Errno;

use crate::beneath::Answer;
use crate::system::{Attributes, last_errno};

/// `LL_SUPER_MAGIC`, the number of Lustre in `statfs(2)`.
const LUSTRE: u32 = 0x0BD0_0BD0;

/// Numbers in `statfs(2)` of file systems of which an open that reads nothing moves no time:
/// ext4, XFS, F2FS, Btrfs, ZFS, bcachefs and tmpfs.
const LOCAL: [u32; 7] =
    [0xEF53, 0x5846_5342, 0xF2F5_2010, 0x9123_683E, 0x2FC1_2FC1, 0xCA45_1A4E, 0x0102_1994];

/// Whether a directory is on a mounted Lustre.
pub(crate) fn is_lustre(directory: BorrowedFd<'_>) -> Answer<bool> {
    Ok(magic(directory)? == LUSTRE)
}

/// How projects are asked for on one file system.
#[derive(Debug)]
pub(crate) enum Projects {
    /// By `LL_IOC_PROJECT`.
    Lustre,
    /// By `file_getattr`, or by an open once the kernel was found not to have the call.
    Local { no_file_getattr: AtomicBool },
    /// No query is known that moves no time.
    Unknown,
}

impl Projects {
    /// Returns the way for the file system of a directory.
    pub(crate) fn of(directory: BorrowedFd<'_>) -> Answer<Self> {
        Ok(match magic(directory)? {
            LUSTRE => Self::Lustre,
            number if LOCAL.contains(&number) => {
                Self::Local { no_file_getattr: AtomicBool::new(false) }
            }
            _ => Self::Unknown,
        })
    }

    /// The project of a file or directory by its name; `EOPNOTSUPP` or `ENOTTY` where it cannot be had.
    pub(crate) fn of_name(&self, directory: BorrowedFd<'_>, name: &CStr) -> Answer<u32> {
        match self {
            Self::Lustre => on_lustre(directory, name),
            Self::Local { no_file_getattr } => local(directory, name, no_file_getattr),
            Self::Unknown => Err(Errno::OPNOTSUPP),
        }
    }
}

fn magic(directory: BorrowedFd<'_>) -> Answer<u32> {
    Ok(fstatfs(directory)?.f_type as u32)
}

fn local(directory: BorrowedFd<'_>, name: &CStr, no_file_getattr: &AtomicBool) -> Answer<u32> {
    if !no_file_getattr.load(Relaxed) {
        match file_getattr(directory, name) {
            // EPERM: a container that does not know the call yet.
            Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM | Errno::NOTTY) => {
                no_file_getattr.store(true, Relaxed);
            }
            answer => return answer,
        }
    }
    // Only for a known file or directory: to open anything else could wait, or act.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = match openat(directory, name, flags | OFlags::NOATIME, Mode::empty()) {
        // A file of another user: nothing is read, so that no access is recorded.
        Err(Errno::PERM) => openat(directory, name, flags, Mode::empty()),
        answer => answer,
    }?;
    Ok(Attributes::of(&open)?.project)
}

/// `struct file_attr` of `linux/fs.h`, in its first version.
#[repr(C)]
#[derive(Default)]
struct FileAttr {
    flags: u64,
    extent_size: u32,
    extents: u32,
    project: u32,
    copy_on_write_extent_size: u32,
}

/// The same number on every architecture.
const SYS_FILE_GETATTR: libc::c_long = 468;

/// The project of a name without opening it: Linux 6.17.
fn file_getattr(directory: BorrowedFd<'_>, name: &CStr) -> Answer<u32> {
    let mut attributes = FileAttr::default();
    // SAFETY: the name ends with a NUL, and the call writes no more than the size it is given.
    let answer = unsafe {
        libc::syscall(
            SYS_FILE_GETATTR,
            directory.as_raw_fd(),
            name.as_ptr(),
            &raw mut attributes,
            size_of::<FileAttr>(),
            libc::AT_SYMLINK_NOFOLLOW,
        )
    };
    if answer == 0 { Ok(attributes.project) } else { Err(last_errno()) }
}

/// `struct lu_project` of `lustre_user.h`.
#[repr(C)]
struct LuProject {
    what: u32,
    project: u32,
    flags: u32,
    reserved: u32,
    name: [u8; NAME_BYTES],
}

const NAME_BYTES: usize = 256;
/// `LU_PROJECT_GET`. The same call with 1 sets a project.
const GET: u32 = 2;
/// `LL_IOC_PROJECT`: `_IOW('f', 253, struct lu_project)`, since Lustre 2.15.
const PROJECT: libc::c_ulong = 0x4110_66FD;
const _: () = assert!(size_of::<LuProject>() == (PROJECT >> 16 & 0x3FFF) as usize);

/// The project as the client knows it under the locks of the MDS: a change elsewhere revokes those.
fn on_lustre(directory: BorrowedFd<'_>, name: &CStr) -> Answer<u32> {
    // An empty name is the directory itself, which the call knows by no other.
    let bytes = if name == c"." { &b""[..] } else { name.to_bytes() };
    let mut asked =
        LuProject { what: GET, project: 0, flags: 0, reserved: 0, name: [0; NAME_BYTES] };
    if bytes.len() >= NAME_BYTES {
        return Err(Errno::NAMETOOLONG);
    }
    asked.name[..bytes.len()].copy_from_slice(bytes);
    match ask(directory, &mut asked) {
        // Only a path: a call needs the directory open.
        Err(Errno::BADF) => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            ask(openat(directory, c".", flags, Mode::empty())?.as_fd(), &mut asked)?;
        }
        answer => answer?,
    }
    Ok(asked.project)
}

fn ask(directory: BorrowedFd<'_>, asked: &mut LuProject) -> Answer<()> {
    // SAFETY: the call reads and writes at most the bytes that its number names, which are those of
    // `struct lu_project`; its name ends with a NUL, for one that would fill it has been refused.
    let answer = unsafe { libc::ioctl(directory.as_raw_fd(), PROJECT, &raw mut *asked) };
    if answer == 0 { Ok(()) } else { Err(last_errno()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn both_ways_of_asking_for_a_project_say_the_same() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::write(tree.path().join("file"), b"x").unwrap();
        let root = File::open(tree.path()).unwrap();
        let projects = Projects::of(root.as_fd()).unwrap();
        let Ok(newer) = projects.of_name(root.as_fd(), c"file") else {
            return; // a file system without projects
        };
        let Projects::Local { no_file_getattr } = &projects else { panic!("{projects:?}") };
        no_file_getattr.store(true, Relaxed);
        assert_eq!((newer, projects.of_name(root.as_fd(), c"file")), (0, Ok(0)));
    }

    #[test]
    fn what_is_not_known_to_leave_times_alone_is_never_asked() {
        let other = File::open("/proc").unwrap();
        let projects = Projects::of(other.as_fd()).unwrap();
        assert!(matches!(projects, Projects::Unknown));
        assert_eq!(projects.of_name(other.as_fd(), c"self"), Err(Errno::OPNOTSUPP));
    }

    /// `ENOTTY` is what Lustre before 2.15 answers as well.
    #[test]
    fn a_name_that_is_too_long_or_a_call_that_is_not_known_is_an_error() {
        let tree = tempfile::tempdir().unwrap();
        let root = File::open(tree.path()).unwrap();
        let long = std::ffi::CString::new(vec![b'n'; NAME_BYTES]).unwrap();
        assert_eq!(on_lustre(root.as_fd(), &long), Err(Errno::NAMETOOLONG));
        assert_eq!(on_lustre(root.as_fd(), c"file"), Err(Errno::NOTTY));
    }
}
