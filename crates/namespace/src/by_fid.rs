//! Files of a Lustre looked at by their identifiers: the rows that a scan would list of each, under
//! every name.
//!
//! ```text
//!   FIDs ──▶ .lustre/fid/[FID]: statx and trusted.link ──▶ rows, one a name
//!                                                           the parent is its FID, not its path
//! ```
//! A name is found in `trusted.link`, the attribute that the server itself keeps: the FID of the
//! directory, and the name there. Paths follow from the FIDs of directories, so that no row is put
//! under a directory that was renamed in between.
//!
//! A striped directory is kept in several, one per MDT, and `trusted.link` names one of these
//! stripes. No client may look at a stripe: the path that the server reports for it leads to the
//! directory, and is believed where the directory's own `trusted.lmv` lists the stripe.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, StatxFlags, openat, statx};
use rustix::io::Errno;

use crate::beneath::{Answer, Root};
use crate::entry::{Entry, ObjectId};
use crate::error::{Error, Result};
use crate::index::ShardWriter;
use crate::lustre::{Links, links, stripes_of};
use crate::patience::Patience;
use crate::rmfid::{ByFid, Fid, Mounted};
use crate::walk::{Inspector, Wanted, attribute_of};
use crate::work::on_threads;

/// Objects that are not written as rows.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Which object the root is.
    pub root: ObjectId,
    /// Objects that have no name any more.
    pub gone: Vec<ObjectId>,
    /// Objects that could not be looked at, and why.
    pub failed: Vec<(ObjectId, Errno)>,
    /// Objects with more names than Lustre keeps with a file.
    pub overflowed: Vec<ObjectId>,
    /// Stripes, each with the directory that it is a part of.
    pub stripes: Vec<(ObjectId, ObjectId)>,
}

/// Lustre's answers to a question about a FID that no longer exists.
///
/// `ENOENT` is the MDT's answer where it has no such object (`obf_lookup`, `mdt_getattr_name_lock`).
/// `ESTALE` is that of `mdt_getattr` and of a client that has the inode still (`ll_intent_file_open`).
/// An open alone answers `EFAULT`, where one MDT finds the name and the next one no object
/// (`mdt_cross_open`); but it answers so too where it finds that the object is not its own. So that is no
/// proof: a stat decides, to which both give their own answers.
pub const GONE: [Errno; 2] = [Errno::NOENT, Errno::STALE];

/// An open `.lustre/fid`, and how its files are looked at.
struct Place {
    inspector: Inspector,
    fids: OwnedFd,
    root: Root,
    /// Asked for paths; only where there are stripes.
    mounted: OnceLock<Option<Mounted>>,
}

/// Looks at files with several threads, and writes a row for each of their names as the shard `out`:
/// its columns are those of an index, but `parent`, which is the FID of the directory in 16 bytes.
///
/// `device` is what an index of this file system has in that column.
pub fn look_up(
    root: &Root,
    ids: Vec<ObjectId>,
    (wanted, device): (Wanted, Option<u64>),
    threads: usize,
    patience: &Patience,
    out: (&Path, &str),
) -> Result<Looked> {
    let place = Arc::new(Place::open(root, wanted, device)?);
    let top = place.inspector.look(root.descriptor(), c".");
    let top = top.map_err(|errno| Error::system("look at", root.path(), errno))?;
    let mut looked =
        Looked { root: top.map(|entry| entry.id).unwrap_or_default(), ..Looked::default() };
    let mut writer = ShardWriter::create(out.0, out.1)?;
    let look = |place: &Place, id| place.look(id);
    for (id, answer) in answers(&place, ids, threads, patience, look) {
        match answer {
            Ok(Seen::StripeOf(directory)) => looked.stripes.push((id, directory)),
            Ok(Seen::File(entry, links)) => {
                for (parent, name) in &links.names {
                    writer.row(parent, name, &entry)?;
                }
                if links.overflowed {
                    looked.overflowed.push(id);
                }
                if links.names.is_empty() {
                    looked.gone.push(id);
                }
            }
            Err(errno) if GONE.contains(&errno) => looked.gone.push(id),
            Err(errno) => looked.failed.push((id, errno)),
        }
    }
    writer.finish()?;
    Ok(looked)
}

/// Contents of directories, and the directories that could not be read.
pub type Children = (Vec<ObjectId>, Vec<(ObjectId, Errno)>);

/// Which files and directories are in directories now; one that is gone holds nothing, nor does a
/// file.
pub fn children(
    root: &Root,
    ids: Vec<ObjectId>,
    threads: usize,
    patience: &Patience,
) -> Result<Children> {
    let place = Arc::new(Place::open(root, Wanted { lustre: true, ..Wanted::default() }, None)?);
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    let list = |place: &Place, id| place.children(id);
    for (id, answer) in answers(&place, ids, threads, patience, list) {
        match answer {
            Ok(children) => found.extend(children),
            Err(errno) if GONE.contains(&errno) || errno == Errno::NOTDIR => {}
            Err(errno) => failed.push((id, errno)),
        }
    }
    Ok((found, failed))
}

/// Object that a FID names.
enum Seen {
    /// A file or directory, and its names.
    File(Box<Entry>, Links),
    /// A part of a directory.
    StripeOf(ObjectId),
}

fn answers<T: Send + 'static>(
    place: &Arc<Place>,
    ids: Vec<ObjectId>,
    threads: usize,
    patience: &Patience,
    ask: fn(&Place, ObjectId) -> Answer<T>,
) -> Vec<(ObjectId, Answer<T>)> {
    let next = AtomicUsize::new(0);
    let task = |_| {
        let mut answers = Vec::new();
        while let Some(id) = ids.get(next.fetch_add(1, Relaxed)).copied() {
            let place = place.clone();
            answers.push((id, patience.call(move || ask(&place, id))));
        }
        answers
    };
    on_threads(0..threads.clamp(1, 256), task).into_iter().flatten().collect()
}

impl Place {
    fn open(root: &Root, wanted: Wanted, device: Option<u64>) -> Result<Self> {
        let inspector = Inspector::new(root.descriptor(), wanted)?.listing_device(device);
        let fids =
            openat(root.descriptor(), c".lustre/fid", DIRECTORY | OFlags::RDONLY, Mode::empty())
                .map_err(|errno| Error::system("open .lustre/fid of", root.path(), errno))?;
        let root = Root::again(root.descriptor(), root.path())?;
        Ok(Self { inspector, fids, root, mounted: OnceLock::new() })
    }

    /// Contents of a directory; those of a stripe are read from the directory it is a part of.
    fn children(&self, id: ObjectId) -> Answer<Vec<ObjectId>> {
        match self.inside(id) {
            Err(Errno::PERM) => self.inside(self.directory_of(id)?),
            answer => answer,
        }
        .map_err(|errno| self.settled(id, errno))
    }

    fn inside(&self, id: ObjectId) -> Answer<Vec<ObjectId>> {
        let name = name_of(id)?;
        let listed = |flags| openat(&self.fids, &name, DIRECTORY | flags, Mode::empty());
        // Listing a directory must not move its atime; for a directory of another user only root
        // may ask so.
        let directory = match listed(OFlags::NOATIME) {
            Err(Errno::PERM) => listed(OFlags::empty()),
            answer => answer,
        }?;
        let mut found = Vec::new();
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            match self.inspector.look(directory.as_fd(), entry.file_name()) {
                Ok(entry) => found.extend(entry.map(|entry| entry.id)),
                Err(errno) if GONE.contains(&errno) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(found)
    }

    fn look(&self, id: ObjectId) -> Answer<Seen> {
        match self.file(id) {
            Err(Errno::PERM) => self.directory_of(id).map(Seen::StripeOf),
            answer => answer.map(|(entry, links)| Seen::File(Box::new(entry), links)),
        }
        .map_err(|errno| self.settled(id, errno))
    }

    fn file(&self, id: ObjectId) -> Answer<(Entry, Links)> {
        let name = name_of(id)?;
        let entry = self.inspector.look(self.fids.as_fd(), &name)?.ok_or(Errno::XDEV)?;
        if entry.id != id {
            return Err(Errno::STALE);
        }
        let read = attribute_of(self.fids.as_fd(), &name, c"trusted.link")?;
        // Without the attribute it has no name: it was unlinked, and is open.
        let links = match read {
            Some(bytes) => links(&bytes).ok_or(Errno::BADMSG)?,
            None => Links::default(),
        };
        Ok((entry, links))
    }

    /// Settles the meaning of an error: if a stat fails too, its error replaces `EFAULT`.
    fn settled(&self, id: ObjectId, errno: Errno) -> Errno {
        if errno != Errno::FAULT {
            return errno;
        }
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let name = name_of(id);
        let stat = name.and_then(|name| statx(&self.fids, &name, flags, StatxFlags::TYPE));
        stat.err().unwrap_or(errno)
    }

    /// The directory that a stripe is a part of; `EPERM` where nothing shows that it is one.
    fn directory_of(&self, stripe: ObjectId) -> Answer<ObjectId> {
        let fid = Fid::of_file(stripe).ok_or(Errno::PERM)?;
        let mounted = self.mounted.get_or_init(|| Mounted::open(&self.root).ok());
        let paths = mounted.as_ref().ok_or(Errno::PERM)?.paths(fid)?;
        let [path] = paths.as_slice() else { return Err(Errno::PERM) };
        self.striped_at(path.as_deref().unwrap_or_default(), stripe)
    }

    /// The directory at a path, if the stripe is one of its own; else it was renamed in between.
    fn striped_at(&self, path: &[u8], stripe: ObjectId) -> Answer<ObjectId> {
        let moved = |errno| if GONE.contains(&errno) { Errno::AGAIN } else { errno };
        let directory = self.root.directory(path, OFlags::PATH).map_err(moved)?;
        let directory = self.inspector.look(directory.as_fd(), c".").map_err(moved)?;
        let directory = directory.ok_or(Errno::XDEV)?.id;
        let read = attribute_of(self.fids.as_fd(), &name_of(directory)?, c"trusted.lmv");
        let stripes = match read.map_err(moved)? {
            Some(bytes) => stripes_of(&bytes).ok_or(Errno::BADMSG)?,
            None => Vec::new(),
        };
        if stripes.contains(&stripe) { Ok(directory) } else { Err(Errno::AGAIN) }
    }
}

const DIRECTORY: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// The name of a file in `.lustre/fid`.
fn name_of(id: ObjectId) -> Answer<CString> {
    let ObjectId::Fid { sequence, object, version } = id else { return Err(Errno::INVAL) };
    CString::new(format!("[{sequence:#x}:{object:#x}:{version:#x}]")).map_err(|_| Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Shard;
    use crate::lustre::tests::{link_bytes, stripe_bytes};
    use rustix::fs::{XattrFlags, setxattr};
    use std::fs;
    use std::time::Duration;

    const ROOT: ObjectId = ObjectId::Fid { sequence: 0x2_0000_0007, object: 1, version: 0 };

    fn fid(object: u32) -> ObjectId {
        ObjectId::Fid { sequence: 0x2_0000_0402, object, version: 0 }
    }

    fn lma(id: ObjectId) -> Vec<u8> {
        let ObjectId::Fid { sequence, object, .. } = id else { panic!("a FID") };
        [&[0; 8][..], &sequence.to_le_bytes(), &object.to_le_bytes(), &[0; 4]].concat()
    }

    fn attributes(path: &Path, id: ObjectId, links: Option<&[u8]>) -> bool {
        let set = |name, value: &[u8]| setxattr(path, name, value, XattrFlags::empty()).is_ok();
        set(c"trusted.lma", &lma(id)) && links.is_none_or(|links| set(c"trusted.link", links))
    }

    /// Lustre keeps these `trusted` attributes; other file systems keep them for root as well.
    #[test]
    fn every_name_of_a_file_is_a_row_and_what_has_none_is_gone() {
        let tree = tempfile::tempdir().unwrap();
        let fids = tree.path().join(".lustre/fid");
        fs::create_dir_all(&fids).unwrap();
        let place = |object: u32| fids.join(format!("[0x200000402:{object:#x}:0x0]"));
        for object in [1, 2, 4, 6] {
            fs::write(place(object), vec![b'x'; object as usize]).unwrap();
        }
        let two = link_bytes(&[(ROOT, b"a\n"), (fid(9), b"b")], 0);
        let many = link_bytes(&[(ROOT, b"c")], 77);
        if !attributes(tree.path(), ROOT, None) {
            return; // not root, or a file system without attributes
        }
        attributes(&place(1), fid(1), Some(&two));
        attributes(&place(2), fid(2), None); // unlinked, and open
        attributes(&place(4), fid(4), Some(&many));
        attributes(&place(6), fid(7), Some(&two)); // another file by now
        let root = Root::open(tree.path()).unwrap();
        let wanted = Wanted { lustre: true, ..Wanted::default() };
        let patience = Patience::new(Duration::from_secs(60));
        let ids = [1, 2, 3, 4, 6].map(fid).to_vec();
        let out = (tree.path(), "rows");
        let mut looked = look_up(&root, ids.clone(), (wanted, Some(7)), 2, &patience, out).unwrap();
        looked.gone.sort_unstable();
        assert_eq!(looked.root, ROOT);
        assert_eq!(looked.gone, [2, 3, 6].map(fid));
        assert_eq!((looked.failed, looked.overflowed), (vec![], vec![fid(4)]));
        let shard = Shard::open(&tree.path().join("rows")).unwrap();
        assert_eq!(shard.rows(), 3);
        // A broken attribute is an error of the file, never a file without names.
        attributes(&place(1), fid(1), Some(&two[..two.len() - 1]));
        let looked = look_up(&root, vec![fid(1)], (wanted, None), 1, &patience, out).unwrap();
        assert_eq!(looked.failed, [(fid(1), Errno::BADMSG)]);
    }

    fn place(tree: &Path) -> Place {
        let root = Root::open(tree).unwrap();
        Place::open(&root, Wanted { lustre: true, ..Wanted::default() }, Some(7)).unwrap()
    }

    /// No name is ever taken for a sign of a stripe: people choose names.
    #[test]
    fn a_directory_that_somebody_named_like_a_stripe_is_none() {
        let tree = tempfile::tempdir().unwrap();
        let fids = tree.path().join(".lustre/fid");
        let own = fids.join("[0x200000402:0x2:0x0]");
        fs::create_dir_all(&own).unwrap();
        let name: &[u8] = b"[0x200000402:0x2:0x0]:0";
        let names = link_bytes(&[(fid(1), name)], 0);
        if !attributes(tree.path(), ROOT, None) || !attributes(&own, fid(2), Some(&names)) {
            return; // not root, or a file system without attributes
        }
        let Ok(Seen::File(_, links)) = place(tree.path()).look(fid(2)) else { panic!("a stripe") };
        assert_eq!(links.names, [(fid(1).to_bytes(), name.to_vec())]);
    }

    /// The server's path of a stripe is no more than a hint: the directory may be another by now.
    #[test]
    fn a_stripe_belongs_to_the_directory_that_lists_it() {
        let tree = tempfile::tempdir().unwrap();
        let (wide, other) = (tree.path().join("a/wide"), tree.path().join("a/other"));
        let fids = tree.path().join(".lustre/fid");
        for (at, object) in [(&wide, 1), (&other, 2)] {
            fs::create_dir_all(at).unwrap();
            fs::create_dir_all(fids.join(format!("[0x200000402:{object:#x}:0x0]"))).unwrap();
        }
        if !attributes(tree.path(), ROOT, None) {
            return; // not root, or a file system without attributes
        }
        attributes(&wide, fid(1), None);
        attributes(&other, fid(2), None);
        let listed = stripe_bytes(&[fid(11), fid(12)]);
        let master = fids.join("[0x200000402:0x1:0x0]");
        setxattr(&master, c"trusted.lmv", &listed, XattrFlags::empty()).unwrap();
        let place = place(tree.path());
        assert_eq!(place.striped_at(b"a/wide", fid(12)), Ok(fid(1)));
        assert_eq!(place.striped_at(b"a/wide", fid(13)), Err(Errno::AGAIN), "another's");
        assert_eq!(place.striped_at(b"a/other", fid(12)), Err(Errno::AGAIN), "not striped");
        assert_eq!(place.striped_at(b"a/away", fid(12)), Err(Errno::AGAIN), "renamed");
        assert_eq!(place.striped_at(b"../a/wide", fid(12)), Err(Errno::INVAL));
        setxattr(&master, c"trusted.lmv", &listed[..60], XattrFlags::empty()).unwrap();
        assert_eq!(place.striped_at(b"a/wide", fid(12)), Err(Errno::BADMSG));
        // Where no server reports a path, an unreadable stripe stays an error.
        assert_eq!(place.directory_of(fid(12)), Err(Errno::PERM));
    }

    /// An open answers EFAULT for an object that is gone, and for one that it was asked in the
    /// wrong place.
    #[test]
    fn a_bad_address_is_settled_by_a_stat() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join(".lustre/fid/[0x200000402:0x1:0x0]")).unwrap();
        if !attributes(tree.path(), ROOT, None) {
            return; // not root, or a file system without attributes
        }
        let place = place(tree.path());
        assert_eq!(place.settled(fid(1), Errno::FAULT), Errno::FAULT);
        assert_eq!(place.settled(fid(2), Errno::FAULT), Errno::NOENT);
        assert_eq!(place.settled(fid(2), Errno::IO), Errno::IO);
    }

    #[test]
    fn what_lies_in_a_directory_is_told_by_identifier() {
        let tree = tempfile::tempdir().unwrap();
        let directory = tree.path().join(".lustre/fid/[0x200000402:0x1:0x0]");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("a\nb"), b"x").unwrap();
        fs::create_dir(directory.join("c")).unwrap();
        if !attributes(tree.path(), ROOT, None) {
            return; // not root, or a file system without attributes
        }
        attributes(&directory.join("a\nb"), fid(2), None);
        attributes(&directory.join("c"), fid(3), None);
        let root = Root::open(tree.path()).unwrap();
        let patience = Patience::new(Duration::from_secs(60));
        let (mut found, failed) = children(&root, [1, 9].map(fid).to_vec(), 2, &patience).unwrap();
        found.sort_unstable();
        assert_eq!((found, failed), (vec![fid(2), fid(3)], vec![]));
    }
}
