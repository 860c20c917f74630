//! Lustre's calls on a file by its identifier: its state, its paths, and its removal.
//!
//! The numbers and layouts are those of `lustre/include/uapi/linux/lustre/lustre_user.h`
//! (`struct lu_fid`, `struct fid_array`, `OBD_MAX_FIDS_IN_ARRAY`, `struct getinfo_fid2path`,
//! `LL_IOC_RMFID`, `LL_IOC_PATH2FID`) and `lustre_ioctl.h` (`OBD_IOC_FID2PATH`) of Lustre 2.13 and
//! later. They are called directly: `lfs rmfid` answers 0 to an identifier that makes no sense, and
//! a shell would take the brackets for a pattern.

use std::ffi::CString;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, openat, statx};
use rustix::io::Errno;

use crate::beneath::{Answer, Identity, Root};
use crate::entry::{Entry, ObjectId};
use crate::error::{Error, Result};
use crate::patience::Patience;
use crate::project::{Projects, is_lustre};
use crate::system::{fid_of, last_errno};

/// `LL_IOC_RMFID`: `_IOR('f', 242, struct fid_array)`, of which the header has 16 bytes.
const REMOVE: libc::c_ulong = 0x8010_66F2;
/// `OBD_IOC_FID2PATH`: `_IOWR('f', 150, long)`.
const PATH_OF: libc::c_ulong = 0xC008_6696;

/// `OBD_MAX_FIDS_IN_ARRAY`: how many files one call removes at most.
pub const FIDS_MAX: usize = 4096;
/// `FID_SEQ_NORMAL`: the first sequence that files are numbered in.
const SEQUENCE_MIN: u64 = 0x2_0000_0400;
/// `PATH_MAX`, which is as much as `OBD_IOC_FID2PATH` is willing to return.
const PATH_BYTES: usize = 4096;
/// Bytes before the path in `struct getinfo_fid2path`.
const PATH_HEADER_BYTES: usize = 32;
/// A file with more names is not looked into: the attribute that holds them has less room anyway.
const NAMES_MAX: u32 = 1024;

/// A Lustre file identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fid {
    /// Which sequence it was taken from.
    pub sequence: u64,
    /// Its number within the sequence.
    pub object: u32,
    /// 0 for everything that a client sees.
    pub version: u32,
}

impl Fid {
    /// The identifier in an identity of the index, if it is that of a file that clients see.
    ///
    /// Nothing else may be passed to a removal: it would answer that all went well.
    pub fn of_file(id: ObjectId) -> Option<Self> {
        let ObjectId::Fid { sequence, object, version } = id else { return None };
        let sane = sequence >= SEQUENCE_MIN && object != 0 && version == 0;
        sane.then_some(Self { sequence, object, version })
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            sequence: u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?),
            object: u32::from_ne_bytes(bytes.get(8..12)?.try_into().ok()?),
            version: u32::from_ne_bytes(bytes.get(12..16)?.try_into().ok()?),
        })
    }

    fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.sequence.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.object.to_ne_bytes());
        bytes[12..].copy_from_slice(&self.version.to_ne_bytes());
        bytes
    }
}

impl From<Fid> for ObjectId {
    fn from(fid: Fid) -> Self {
        Self::Fid { sequence: fid.sequence, object: fid.object, version: fid.version }
    }
}

impl fmt::Display for Fid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:#x}:{:#x}:{:#x}]", self.sequence, self.object, self.version)
    }
}

/// Operations of a file system on files by their identifiers.
pub trait ByFid: Sync {
    /// The file as it is now, the times of its data included.
    fn stat(&self, fid: Fid) -> Answer<Found>;

    /// The project that it has now. It is no part of a stat, and a change of it moves no time.
    fn project(&self, fid: Fid) -> Answer<u32>;

    /// Every path it has now, relative to the root; `None` for one that is not beneath it.
    fn paths(&self, fid: Fid) -> Answer<Vec<Option<Vec<u8>>>>;

    /// Removes files with all their names, at most [`FIDS_MAX`]; an answer for each.
    ///
    /// An answer of success is not to be believed before [`ByFid::stat`] says `ENOENT`.
    fn remove(&self, fids: &[Fid]) -> Answer<Vec<Removed>>;
}

/// The answer about one file.
pub type Removed = std::result::Result<(), Errno>;

/// State of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its metadata now.
    pub entry: Entry,
    /// Whether it is immutable or append-only, as far as this version says so.
    pub fixed: bool,
}

/// A mounted Lustre.
#[derive(Debug)]
pub struct Mounted {
    mount: OwnedFd,
    /// `.lustre/fid`, where every identifier is a name.
    fids: OwnedFd,
    /// The root's path in the mount, as the server reports paths.
    prefix: Vec<u8>,
}

impl Mounted {
    /// Finds the mount that a root is on.
    pub fn open(root: &Root) -> Result<Self> {
        let system = |call| move |errno: Errno| Error::system(call, root.path(), errno);
        if !is_lustre(root.descriptor()).map_err(system("statfs"))? {
            let message = "it is not on Lustre: there are no FIDs to delete by";
            return Err(Error::Refused(format!("{}: {message}", root.path().display())));
        }
        let mount = mount_root(root).map_err(system("openat"))?;
        // Open, not a path alone: projects are asked of it.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fids = openat(&mount, c".lustre/fid", flags, Mode::empty())
            .map_err(system("open .lustre/fid of"))?;
        let of_root = fid_of(root.descriptor());
        let of_root = of_root.and_then(|bytes| Fid::of_bytes(&bytes).ok_or(Errno::INVAL));
        let of_root = of_root.map_err(system("LL_IOC_PATH2FID"))?;
        let mut mounted = Self { mount, fids, prefix: Vec::new() };
        mounted.prefix = mounted.path(of_root, &mut 0).map_err(system("OBD_IOC_FID2PATH"))?;
        Ok(mounted)
    }

    /// One path of a file; advances `link` to the next, or leaves it if there are no more.
    fn path(&self, fid: Fid, link: &mut u32) -> Answer<Vec<u8>> {
        let mut buffer = question(fid, *link);
        // SAFETY: the descriptor is open. The kernel reads the header and writes it and at most
        // `gf_pathlen` bytes behind it, and the buffer has room for that many.
        let answer = unsafe { libc::ioctl(self.mount.as_raw_fd(), PATH_OF, buffer.as_mut_ptr()) };
        if answer != 0 {
            return Err(last_errno());
        }
        *link = u32::from_ne_bytes(buffer[24..28].try_into().expect("four bytes"));
        Ok(told_path(&buffer[PATH_HEADER_BYTES..]))
    }
}

impl ByFid for Mounted {
    fn stat(&self, fid: Fid) -> Answer<Found> {
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC;
        let stat = statx(&self.fids, fid.to_string(), flags, wanted)?;
        let fixed = rustix::fs::StatxAttributes::IMMUTABLE | rustix::fs::StatxAttributes::APPEND;
        let entry = Entry { id: fid.into(), ..Entry::of_statx(&stat) };
        Ok(Found { entry, fixed: stat.stx_attributes.intersects(fixed) })
    }

    fn project(&self, fid: Fid) -> Answer<u32> {
        let name = CString::new(fid.to_string()).map_err(|_| Errno::INVAL)?;
        Projects::Lustre.of_name(self.fids.as_fd(), &name)
    }

    fn paths(&self, fid: Fid) -> Answer<Vec<Option<Vec<u8>>>> {
        let (mut found, mut link) = (Vec::new(), 0);
        loop {
            let asked = link;
            let path = self.path(fid, &mut link)?;
            found.push(beneath(&self.prefix, &path).map(<[u8]>::to_vec));
            if link == asked {
                return Ok(found);
            }
            if link > NAMES_MAX {
                return Err(Errno::MLINK);
            }
        }
    }

    fn remove(&self, fids: &[Fid]) -> Answer<Vec<Removed>> {
        if fids.len() > FIDS_MAX {
            return Err(Errno::TOOBIG);
        }
        let mut buffer = array(fids);
        // SAFETY: the descriptor is open. The kernel reads and writes a header of 16 bytes and as
        // many identifiers of 16 bytes as the header says, which is how long the buffer is.
        let answer = unsafe { libc::ioctl(self.mount.as_raw_fd(), REMOVE, buffer.as_mut_ptr()) };
        if answer != 0 {
            return Err(last_errno());
        }
        Ok(answers(&buffer))
    }
}

/// A Lustre of which OSTs may be lost: a stat asks each server of a file, and is not waited for
/// without end. All else is answered by an MDS alone; nothing is removed by a call that was given up.
#[derive(Debug)]
pub struct Bounded<F> {
    inner: Arc<F>,
    patience: Patience,
}

impl<F> Bounded<F> {
    /// Bounds the time of each stat.
    pub fn new(inner: F, patience: Patience) -> Self {
        Self { inner: Arc::new(inner), patience }
    }
}

impl<F: ByFid + Send + 'static> ByFid for Bounded<F> {
    fn stat(&self, fid: Fid) -> Answer<Found> {
        let inner = self.inner.clone();
        self.patience.call(move || inner.stat(fid))
    }

    fn project(&self, fid: Fid) -> Answer<u32> {
        self.inner.project(fid)
    }

    fn paths(&self, fid: Fid) -> Answer<Vec<Option<Vec<u8>>>> {
        self.inner.paths(fid)
    }

    fn remove(&self, fids: &[Fid]) -> Answer<Vec<Removed>> {
        self.inner.remove(fids)
    }
}

/// The directory where the mount begins that a root is on.
fn mount_root(root: &Root) -> Answer<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut directory = openat(root.descriptor(), c".", flags, Mode::empty())?;
    loop {
        let above = openat(&directory, c"..", flags, Mode::empty())?;
        let identity = Identity::of(above.as_fd())?;
        if !identity.is_beside(root.identity()) || identity == Identity::of(directory.as_fd())? {
            return Ok(directory);
        }
        directory = above;
    }
}

/// `struct getinfo_fid2path` with room for a path.
fn question(fid: Fid, link: u32) -> Vec<u8> {
    let mut buffer = vec![0; PATH_HEADER_BYTES + PATH_BYTES];
    buffer[..16].copy_from_slice(&fid.to_bytes());
    // The path as it is now, not as it was at some record of a changelog.
    buffer[16..24].copy_from_slice(&(-1_i64).to_ne_bytes());
    buffer[24..28].copy_from_slice(&link.to_ne_bytes());
    buffer[28..32].copy_from_slice(&(PATH_BYTES as u32).to_ne_bytes());
    buffer
}

/// The path that was written: up to the NUL, without empty components, which stand for the parts
/// of a striped directory.
fn told_path(buffer: &[u8]) -> Vec<u8> {
    let end = buffer.iter().position(|&byte| byte == 0).unwrap_or(buffer.len());
    let components = buffer[..end].split(|&byte| byte == b'/');
    components.filter(|component| !component.is_empty()).collect::<Vec<_>>().join(&b'/')
}

/// A path relative to the root that is at `prefix`; `None` if it is not beneath it.
fn beneath<'a>(prefix: &[u8], path: &'a [u8]) -> Option<&'a [u8]> {
    match path.strip_prefix(prefix)? {
        rest if prefix.is_empty() => (!rest.is_empty()).then_some(rest),
        [b'/', rest @ ..] if !rest.is_empty() => Some(rest),
        _ => None,
    }
}

/// `struct fid_array`.
fn array(fids: &[Fid]) -> Vec<u8> {
    let mut buffer = Vec::with_capacity(16 + fids.len() * 16);
    buffer.extend_from_slice(&(fids.len() as u32).to_ne_bytes());
    buffer.resize(16, 0);
    fids.iter().for_each(|fid| buffer.extend_from_slice(&fid.to_bytes()));
    buffer
}

/// The call's answer for each identifier, from its version field: 0, or an error number, negative.
fn answers(buffer: &[u8]) -> Vec<Removed> {
    let answer = |fid: &[u8]| {
        let code = i32::from_ne_bytes(fid[12..16].try_into().expect("four bytes"));
        if code == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(code.saturating_abs())) }
    };
    buffer[16..].chunks_exact(16).map(answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FID: Fid = Fid { sequence: 0x2_0000_0402, object: 0x158, version: 0 };

    #[test]
    fn an_identifier_is_named_as_lustre_names_it() {
        assert_eq!(FID.to_string(), "[0x200000402:0x158:0x0]");
        assert_eq!(Fid::of_bytes(&FID.to_bytes()), Some(FID));
        assert_eq!(Fid::of_file(FID.into()), Some(FID));
    }

    #[test]
    fn what_is_no_file_of_a_client_is_never_asked_about() {
        for broken in [
            ObjectId::Inode(7),
            ObjectId::Fid { sequence: 0, object: 0, version: 0 },
            ObjectId::Fid { sequence: 0x2_0000_0402, object: 0, version: 0 },
            ObjectId::Fid { sequence: 0x2_0000_0402, object: 1, version: 1 },
            // The root and the other special ones.
            ObjectId::Fid { sequence: 0x2_0000_0007, object: 1, version: 0 },
        ] {
            assert_eq!(Fid::of_file(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn the_calls_carry_the_size_of_their_headers() {
        let size = |call: libc::c_ulong| (call >> 16 & 0x3FFF) as usize;
        let (group, number) = (|call: libc::c_ulong| call >> 8 & 0xFF, |call| call & 0xFF);
        for (call, known, bytes) in [(REMOVE, 242, 16), (PATH_OF, 150, 8)] {
            assert_eq!((group(call), number(call), size(call)), (b'f'.into(), known, bytes));
        }
    }

    #[test]
    fn an_array_is_laid_out_as_the_header_has_it() {
        let mut buffer = array(&[FID, FID]);
        assert_eq!((buffer.len(), buffer[0]), (48, 2));
        assert_eq!(answers(&buffer), [Ok(()), Ok(())]);
        buffer[44..48].copy_from_slice(&(-16_i32).to_ne_bytes());
        assert_eq!(answers(&buffer), [Ok(()), Err(Errno::BUSY)]);
    }

    #[test]
    fn a_question_has_room_for_the_longest_path() {
        let buffer = question(FID, 3);
        assert_eq!(buffer.len(), 32 + 4096);
        assert_eq!(buffer[16..24], [0xFF; 8]);
        assert_eq!((buffer[24], u16::from_ne_bytes([buffer[28], buffer[29]])), (3, 4096));
    }

    #[test]
    fn a_path_is_taken_as_it_was_told() {
        assert_eq!(told_path(b"a//b\nc/\xFF\0rest"), b"a/b\nc/\xFF");
        assert_eq!(told_path(b"/\0"), b"");
    }

    #[test]
    fn only_what_is_beneath_the_root_is_relative_to_it() {
        assert_eq!(beneath(b"", b"a/f"), Some(&b"a/f"[..]));
        assert_eq!(beneath(b"scratch", b"scratch/f"), Some(&b"f"[..]));
        for outside in [&b"scratch2/f"[..], b"home/f", b"scratch", b"scratch/", b""] {
            assert_eq!(beneath(b"scratch", outside), None);
        }
    }

    #[test]
    fn what_is_not_lustre_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let refused = Mounted::open(&Root::open(directory.path()).unwrap()).unwrap_err();
        assert!(refused.to_string().contains("not on Lustre"));
    }
}
