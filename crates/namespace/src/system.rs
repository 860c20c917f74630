//! System calls that rustix lacks, each wrapped once.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};

/// `struct fsxattr` of `linux/fs.h`.
#[repr(C)]
pub(crate) struct Attributes {
    pub(crate) flags: u32,
    extent_bytes: u32,
    extents: u32,
    pub(crate) project: u32,
    copy_extent_bytes: u32,
    padding: [u8; 8],
}

/// `FS_IOC_FSGETXATTR`.
const GET: Opcode = opcode::read::<Attributes>(b'X', 31);
/// `FS_IOC_FSSETXATTR`.
const SET: Opcode = opcode::write::<Attributes>(b'X', 32);
/// `LL_IOC_PATH2FID`: `lustre_user.h` declares it with a `long`, and fills a `struct lu_fid`.
const PATH2FID: Opcode = opcode::read::<libc::c_long>(b'f', 173);

impl Attributes {
    /// Those of an open file or directory.
    pub(crate) fn of(file: impl AsFd) -> Result<Self, Errno> {
        // SAFETY: the call writes one `struct fsxattr`, which this is.
        unsafe { ioctl(file, Getter::<GET, Self>::new()) }
    }

    pub(crate) fn set(self, file: impl AsFd) -> Result<(), Errno> {
        // SAFETY: the call reads one `struct fsxattr`, which this is.
        unsafe { ioctl(file, Setter::<SET, Self>::new(self)) }
    }
}

/// Project of an inode, for quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Project {
    /// Its number; 0 where none was given.
    pub(crate) number: u32,
    /// Whether new entries of the directory belong to it too.
    pub(crate) inherited: bool,
}

/// `FS_XFLAG_PROJINHERIT`.
const INHERIT: u32 = 0x200;

/// The project of an open file or directory; `None` where the file system knows none.
pub(crate) fn project_of(file: &OwnedFd) -> Option<Project> {
    let attributes = Attributes::of(file).ok()?;
    Some(Project { number: attributes.project, inherited: attributes.flags & INHERIT != 0 })
}

/// Lets a directory take files of any project; `false` where that could not be done.
pub(crate) fn take_any_project(directory: &OwnedFd) -> bool {
    let Ok(mut attributes) = Attributes::of(directory) else { return true };
    if attributes.flags & INHERIT == 0 {
        return true;
    }
    attributes.flags &= !INHERIT;
    attributes.set(directory).is_ok()
}

/// The Lustre identifier of an open file or directory, as the kernel lays it out.
pub(crate) fn fid_of(file: impl AsFd) -> Result<[u8; 16], Errno> {
    // SAFETY: the call writes one `struct lu_fid`, 16 bytes without padding.
    unsafe { ioctl(file, Getter::<PATH2FID, [u8; 16]>::new()) }
}

/// `struct file_handle` with a `struct lustre_file_handle`.
#[repr(C)]
struct Handle {
    bytes: libc::c_uint,
    kind: libc::c_int,
    fid: [u8; 16],
    parent: [u8; 16],
}

/// `FILEID_LUSTRE`.
const OF_LUSTRE: libc::c_int = 0x97;

/// The Lustre identifier of a name, a link not followed, as the kernel lays it out: its handle begins
/// with it. Nothing is opened.
pub(crate) fn fid_of_name(directory: BorrowedFd<'_>, name: &CStr) -> Result<[u8; 16], Errno> {
    let mut handle = Handle { bytes: 32, kind: 0, fid: [0; 16], parent: [0; 16] };
    let mut mount = 0;
    // SAFETY: the name ends with a NUL, and the call writes a header and at most the bytes behind it
    // that the header names.
    let answer = unsafe {
        let place = (&raw mut handle).cast();
        libc::name_to_handle_at(directory.as_raw_fd(), name.as_ptr(), place, &raw mut mount, 0)
    };
    match answer {
        0 if handle.kind == OF_LUSTRE => Ok(handle.fid),
        0 => Err(Errno::NOTTY),
        _ => Err(last_errno()),
    }
}

/// `LL_IOC_FID2MDTIDX`, which reads a `struct lu_fid` and returns a number.
const FID2MDTIDX: libc::c_ulong = 0xC010_66F8;

/// The index of the MDT of a FID, as the Lustre client of a directory knows it.
pub(crate) fn mdt_of(directory: BorrowedFd<'_>, sequence: u64, object: u32) -> Result<u32, Errno> {
    let mut fid = [0; 16];
    fid[..8].copy_from_slice(&sequence.to_ne_bytes());
    fid[8..12].copy_from_slice(&object.to_ne_bytes());
    // SAFETY: the call reads and writes at most the 16 bytes that its number names.
    let index = unsafe { libc::ioctl(directory.as_raw_fd(), FID2MDTIDX, fid.as_mut_ptr()) };
    u32::try_from(index).map_err(|_| last_errno())
}

/// The error of the call of libc that failed last in this thread.
pub(crate) fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
