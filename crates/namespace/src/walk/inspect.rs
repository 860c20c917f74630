//! Metadata of one name: `statx` relative to its directory, and attributes that it leaves out.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::fs::{AtFlags, Statx, StatxFlags, statx};
use rustix::io::Errno;

use crate::entry::{Entry, FileType, Layout, ObjectId};
use crate::error::{Error, Result as CrateResult};
use crate::lustre;
use crate::patience::Patience;
use crate::project::Projects;
use crate::system::{fid_of_name, last_errno};

use super::gate::Gate;

/// Attributes that a walk asks for besides `statx`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Wanted {
    /// The project of each file and directory, which `statx` does not say.
    pub project: bool,
    /// The location of a file's data, on Lustre.
    pub layout: bool,
    /// Whether this is a Lustre: identities are FIDs, and times and sizes are what the MDS knows.
    pub lustre: bool,
    /// Whether sizes are asked of every server that has a part of a file, not of the MDS alone.
    #[serde(default)]
    pub exact_sizes: bool,
}

pub struct Inspector {
    wanted: Wanted,
    flags: AtFlags,
    home: (u64, u64),
    /// The device number that entries of the root's device get.
    listed_device: u64,
    /// Bound on the time of a question to every server of a file, one of which may be lost.
    patience: Option<Patience>,
    projects: Projects,
    trusted_lov: AtomicBool,
}

impl Inspector {
    /// Creates the inspector of a root: entries on another device or mount are elsewhere.
    pub fn new(root: BorrowedFd<'_>, wanted: Wanted) -> CrateResult<Self> {
        let sync = match (wanted.lustre, wanted.exact_sizes) {
            (true, false) => AtFlags::STATX_DONT_SYNC,
            (_, true) => AtFlags::STATX_FORCE_SYNC,
            (false, false) => AtFlags::empty(),
        };
        let mut inspector = Self {
            wanted,
            flags: AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | sync,
            home: (0, 0),
            listed_device: 0,
            patience: (wanted.lustre && wanted.exact_sizes).then(Patience::default),
            projects: Projects::Unknown,
            trusted_lov: AtomicBool::new(false),
        };
        let failed = |call: &'static str| move |errno| Error::system(call, ".", errno);
        let stat = inspector.stat(root, c".").map_err(failed("statx"))?;
        inspector.home = whereabouts(&stat);
        inspector.listed_device = inspector.home.0;
        if wanted.project {
            inspector.projects = Projects::of(root).map_err(failed("statfs"))?;
            inspector.projects.of_name(root, c".").map_err(|errno| {
                Error::Usage(format!(
                    "projects cannot be read here without opening files, which may move their \
                     times: {errno}"
                ))
            })?;
        }
        if wanted.lustre {
            fid(root, c".").map_err(|errno| {
                Error::Usage(format!("the root has no Lustre identifier that can be read: {errno}"))
            })?;
        }
        Ok(inspector)
    }

    /// The same, with another number for the root's device: where several hosts scan, each may have
    /// its own, and a file is known again by the number and its inode.
    pub fn listing_device(mut self, device: Option<u64>) -> Self {
        self.listed_device = device.unwrap_or(self.listed_device);
        self
    }

    /// The entry of a name in a directory; a link itself, never its target. `None` where another
    /// file system, or this one once more, is mounted there.
    ///
    /// `EXDEV` where nothing is mounted and the device is another all the same: a subvolume of
    /// Btrfs is part of the file system and numbers its inodes by itself. An overlay gives files
    /// the device of their layer; those are listed with it.
    pub fn look(&self, directory: BorrowedFd<'_>, name: &CStr) -> Result<Option<Entry>, Errno> {
        self.entry(directory, name, &self.stat(directory, name)?)
    }

    /// The same, by a gate that takes note of how long it took.
    #[inline]
    pub fn look_by(
        &self,
        gate: &Gate,
        directory: BorrowedFd<'_>,
        name: &CStr,
    ) -> Result<Option<Entry>, Errno> {
        self.entry(directory, name, &gate.timed(|| self.stat(directory, name))?)
    }

    #[inline]
    fn entry(
        &self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        stat: &Statx,
    ) -> Result<Option<Entry>, Errno> {
        let (device, mount) = whereabouts(stat);
        if (device, mount) != self.home {
            let directory = FileType::of_mode(stat.stx_mode.into()) == FileType::Directory;
            match (mount == 0, mount == self.home.1, directory) {
                (false, true, false) => {}
                (false, true, true) | (true, _, false) => return Err(Errno::XDEV),
                _ => return Ok(None),
            }
        }
        let mut entry = Entry::of_statx(stat);
        if entry.device == self.home.0 {
            entry.device = self.listed_device;
        }
        if self.wanted != Wanted::default() {
            self.ask_more(directory, name, &mut entry)?;
        }
        Ok(Some(entry))
    }

    fn stat(&self, directory: BorrowedFd<'_>, name: &CStr) -> Result<Statx, Errno> {
        let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
        let Some(patience) = &self.patience else {
            let stat = statx(directory, name, self.flags, mask)?;
            // A Lustre client may hold attributes of a directory from before its own last change of
            // it; to ask the MDT costs no OST.
            let is_directory = FileType::of_mode(stat.stx_mode.into()) == FileType::Directory;
            if is_directory && self.flags.contains(AtFlags::STATX_DONT_SYNC) {
                return statx(directory, name, self.flags - AtFlags::STATX_DONT_SYNC, mask);
            }
            return Ok(stat);
        };
        let (flags, name) = (self.flags, name.to_owned());
        let directory = directory.try_clone_to_owned().map_err(|_| last_errno())?;
        patience.call(move || statx(&directory, &*name, flags, mask))
    }

    /// A file whose project or identity cannot be read is an error, not a file without one: it
    /// would slip through an exemption.
    fn ask_more(
        &self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        entry: &mut Entry,
    ) -> Result<(), Errno> {
        let has_project = matches!(entry.kind, FileType::Regular | FileType::Directory);
        if self.wanted.project && has_project {
            entry.project = Some(self.projects.of_name(directory, name)?);
        }
        if self.wanted.lustre {
            entry.id = fid(directory, name)?;
        }
        if self.wanted.layout && entry.kind == FileType::Regular {
            entry.layout = self.layout(directory, name)?;
        }
        Ok(())
    }

    fn layout(&self, directory: BorrowedFd<'_>, name: &CStr) -> Result<Option<Layout>, Errno> {
        let path = path_of(directory, name);
        if !self.trusted_lov.load(Relaxed) {
            match attribute(&path, c"lustre.lov") {
                Err(Errno::OPNOTSUPP) => self.trusted_lov.store(true, Relaxed),
                answer => return Ok(answer?.as_deref().and_then(lustre::layout)),
            }
        }
        Ok(attribute(&path, c"trusted.lov")?.as_deref().and_then(lustre::layout))
    }
}

/// An extended attribute of a name in a directory; `None` if it does not exist.
pub(crate) fn attribute_of(
    directory: BorrowedFd<'_>,
    name: &CStr,
    which: &CStr,
) -> Result<Option<Vec<u8>>, Errno> {
    attribute(&path_of(directory, name), which)
}

/// The device and mount of a name; the mount is 0 where the kernel does not say (before 5.8).
fn whereabouts(stat: &Statx) -> (u64, u64) {
    let mount = if stat.stx_mask & StatxFlags::MNT_ID.bits() != 0 { stat.stx_mnt_id } else { 0 };
    (rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor), mount)
}

/// Reads the FID from the server's attribute, or from the handle where only root may read that.
/// The file is not opened: that could move its ctime (`project.rs`).
fn fid(directory: BorrowedFd<'_>, name: &CStr) -> Result<ObjectId, Errno> {
    if let Ok(Some(bytes)) = attribute(&path_of(directory, name), c"trusted.lma") {
        return lustre::identity_of_lma(&bytes).ok_or(Errno::BADMSG);
    }
    lustre::identity(&fid_of_name(directory, name)?).ok_or(Errno::BADMSG)
}

/// A path to a name of an open directory, for calls that take no directory.
fn path_of(directory: BorrowedFd<'_>, name: &CStr) -> CString {
    let mut path = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
    path.extend_from_slice(name.to_bytes());
    CString::new(path).expect("a name has no NUL")
}

/// An extended attribute of a name, a link not followed; `None` if it does not exist.
fn attribute(path: &CStr, name: &CStr) -> Result<Option<Vec<u8>>, Errno> {
    const LENGTH_MAX: usize = 1 << 16;
    let mut near = [MaybeUninit::<u8>::uninit(); 4096];
    match rustix::fs::lgetxattr(path, name, &mut near) {
        Ok((value, _)) => return Ok(Some(value.to_vec())),
        Err(Errno::NODATA) => return Ok(None),
        Err(Errno::RANGE) => {}
        Err(errno) => return Err(errno),
    }
    let mut value = vec![0; LENGTH_MAX];
    let length = rustix::fs::lgetxattr(path, name, value.as_mut_slice())?;
    value.truncate(length);
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{XattrFlags, setxattr};
    use std::fs;
    use std::os::fd::AsFd;

    fn look(root: &std::path::Path, wanted: Wanted, name: &CStr) -> Result<Entry, Errno> {
        let root = fs::File::open(root).unwrap();
        let inspector = Inspector::new(root.as_fd(), wanted).unwrap();
        Ok(inspector.look(root.as_fd(), name)?.expect("it is on the same file system"))
    }

    #[test]
    fn a_link_is_not_followed_and_what_is_gone_is_gone() {
        let tree = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", tree.path().join("link")).unwrap();
        let link = look(tree.path(), Wanted::default(), c"link").unwrap();
        assert_eq!((link.kind, link.size_bytes), (FileType::SymbolicLink, 11));
        assert_eq!(look(tree.path(), Wanted::default(), c"none"), Err(Errno::NOENT));
    }

    #[test]
    fn a_mount_is_elsewhere() {
        let root = fs::File::open("/").unwrap();
        let inspector = Inspector::new(root.as_fd(), Wanted::default()).unwrap();
        assert_eq!(inspector.look(root.as_fd(), c"proc"), Ok(None));
    }

    #[test]
    fn a_link_has_no_project() {
        let tree = tempfile::tempdir().unwrap();
        fs::write(tree.path().join("file"), b"x").unwrap();
        std::os::unix::fs::symlink("file", tree.path().join("link")).unwrap();
        let root = fs::File::open(tree.path()).unwrap();
        let wanted = Wanted { project: true, ..Wanted::default() };
        let Ok(inspector) = Inspector::new(root.as_fd(), wanted) else {
            return; // a file system without projects
        };
        let project = |name| inspector.look(root.as_fd(), name).unwrap().unwrap().project;
        assert_eq!((project(c"file"), project(c"link")), (Some(0), None));
    }

    /// Lustre keeps these `trusted` attributes; other file systems keep them for root as well.
    #[test]
    fn attributes_of_lustre_are_read() {
        let tree = tempfile::tempdir().unwrap();
        let file = tree.path().join("file");
        fs::write(&file, b"x").unwrap();
        let lov = lustre::tests::plain_bytes(0x0BD3_0BD0, 1, 300, &(0..300).collect::<Vec<_>>());
        assert!(lov.len() > 4096);
        let mut lma = vec![0; 8];
        lma.extend(0x2_0000_0402_u64.to_le_bytes());
        lma.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        for path in [tree.path(), file.as_path()] {
            if setxattr(path, c"trusted.lma", &lma, XattrFlags::empty()).is_err() {
                return; // not root, or a file system without attributes
            }
        }
        let wanted = Wanted { layout: true, lustre: true, ..Wanted::default() };
        // ext4 keeps no attribute of more than a block.
        let long = setxattr(&file, c"trusted.lov", &lov, XattrFlags::empty()).is_ok();
        let entry = look(tree.path(), wanted, c"file").unwrap();
        assert_eq!(entry.id, ObjectId::Fid { sequence: 0x2_0000_0402, object: 1, version: 0 });
        let osts = entry.layout.map(|layout| layout.osts.len());
        assert_eq!(osts, long.then_some(300));
        let short = lustre::tests::plain_bytes(0x0BD1_0BD0, 1, 2, &[3, 4]);
        setxattr(&file, c"trusted.lov", &short, XattrFlags::empty()).unwrap();
        let layout = look(tree.path(), wanted, c"file").unwrap().layout;
        assert_eq!(layout, Some(Layout { stripe_count: 2, osts: vec![3, 4], pool: None }));
        let pooled = lustre::tests::plain_bytes(0x0BD3_0BD0, 1, 2, &[3, 4]);
        setxattr(&file, c"trusted.lov", &pooled, XattrFlags::empty()).unwrap();
        let layout = look(tree.path(), wanted, c"file").unwrap().layout.unwrap();
        assert_eq!(layout.pool.as_deref(), Some(&b"flash"[..]));
        // Without an identifier there is no row, or it would be taken for another file's.
        fs::write(tree.path().join("other"), b"x").unwrap();
        assert!(look(tree.path(), wanted, c"other").is_err());
    }
}
