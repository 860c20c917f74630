//! Files of a Lustre looked at by their identifiers: what a scan would list of each, under every name.
//!
//! ```text
//!   FIDs ──▶ .lustre/fid/[FID]: statx and trusted.link ──▶ rows, one a name
//!                                                           the parent is its FID, not its path
//! ```
//! A name is found in `trusted.link`, the attribute that the server itself keeps: the FID of the
//! directory, and the name there. Paths follow from the FIDs of directories, so that no row is put
//! under a directory that was renamed in between.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rustix::fs::{Dir, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::beneath::{Answer, Root};
use crate::entry::{Entry, FileType, ObjectId};
use crate::error::{Error, Result};
use crate::index::ShardWriter;
use crate::lustre::{Links, links};
use crate::patience::Patience;
use crate::walk::{Inspector, Wanted, attribute_of};
use crate::work::on_threads;

/// What is not written as rows.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Which object the root is.
    pub root: ObjectId,
    /// They have no name any more.
    pub gone: Vec<ObjectId>,
    /// They could not be looked at, and why.
    pub failed: Vec<(ObjectId, Errno)>,
    /// They have more names than Lustre keeps with a file.
    pub overflowed: Vec<ObjectId>,
    /// They are stripes of the directory that they are in, which nobody sees.
    pub stripes: Vec<ObjectId>,
}

/// An open `.lustre/fid`, and how its files are looked at.
struct Place {
    inspector: Inspector,
    fids: OwnedFd,
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
            Ok((entry, links, is_stripe)) => {
                if is_stripe {
                    looked.stripes.push(id);
                }
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
            // A file that lived for a moment answers with either.
            Err(Errno::NOENT | Errno::STALE) => looked.gone.push(id),
            Err(errno) => looked.failed.push((id, errno)),
        }
    }
    writer.finish()?;
    Ok(looked)
}

/// What lies in directories, and the directories that could not be read.
pub type Children = (Vec<ObjectId>, Vec<(ObjectId, Errno)>);

/// Which files and directories lie in directories now; one that is gone holds nothing,
/// nor does a file.
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
            Err(Errno::NOENT | Errno::STALE | Errno::NOTDIR) => {}
            Err(errno) => failed.push((id, errno)),
        }
    }
    Ok((found, failed))
}

/// A file or directory, its names, and whether it is a stripe.
type Seen = (Entry, Links, bool);

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
            openat(root.descriptor(), c".lustre/fid", DIRECTORY | OFlags::PATH, Mode::empty())
                .map_err(|errno| Error::system("open .lustre/fid of", root.path(), errno))?;
        Ok(Self { inspector, fids })
    }

    fn children(&self, id: ObjectId) -> Answer<Vec<ObjectId>> {
        let name = name_of(id)?;
        let directory = openat(&self.fids, &name, DIRECTORY | OFlags::RDONLY, Mode::empty())?;
        let mut found = Vec::new();
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            match self.inspector.look(directory.as_fd(), entry.file_name()) {
                Ok(entry) => found.extend(entry.map(|entry| entry.id)),
                Err(Errno::NOENT | Errno::STALE) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(found)
    }

    fn look(&self, id: ObjectId) -> Answer<Seen> {
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
        let is_stripe = match links.names.as_slice() {
            [(parent, own)] if entry.kind == FileType::Directory => {
                self.is_stripe(id, parent, own)?
            }
            _ => false,
        };
        Ok((entry, links, is_stripe))
    }

    /// Whether a directory is a stripe of the one that it is in.
    ///
    /// Lustre spreads a directory over MDTs by directories in it, each of them named after its own FID;
    /// files are in one of those. No client finds them under that name, as it does a directory which
    /// somebody named so.
    fn is_stripe(&self, id: ObjectId, parent: &[u8; 16], own: &[u8]) -> Answer<bool> {
        let stripe = name_of(id)?;
        let number = own.strip_prefix(stripe.to_bytes()).and_then(|end| end.strip_prefix(b":"));
        if !number.is_some_and(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
        {
            return Ok(false);
        }
        let parent = ObjectId::of_bytes(*parent, true);
        let above = openat(&self.fids, name_of(parent)?, DIRECTORY | OFlags::PATH, Mode::empty())?;
        let own = CString::new(own).map_err(|_| Errno::INVAL)?;
        match self.inspector.look(above.as_fd(), &own) {
            Err(Errno::NOENT) => Ok(true),
            Ok(Some(entry)) if entry.id == id => Ok(false),
            // It was renamed after its names were read.
            Ok(_) => Err(Errno::AGAIN),
            Err(errno) => Err(errno),
        }
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
    use crate::lustre::tests::link_bytes;
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

    /// What Lustre keeps in `trusted` attributes any file system keeps for root.
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

    /// A stripe is in its directory for the MDT alone; a directory with such a name is seen there.
    #[test]
    fn a_directory_that_somebody_named_like_a_stripe_is_none() {
        let tree = tempfile::tempdir().unwrap();
        let fids = tree.path().join(".lustre/fid");
        let name = |object: u32| format!("[0x200000402:{object:#x}:0x0]");
        let link = |parent: u32, name: &str| link_bytes(&[(fid(parent), name.as_bytes())], 0);
        for object in [1, 2, 3, 4] {
            fs::create_dir_all(fids.join(name(object))).unwrap();
        }
        if !attributes(tree.path(), ROOT, None) {
            return; // not root, or a file system without attributes
        }
        let (stripe, named, other) = (name(2) + ":0", name(3) + ":0", name(2) + ":1");
        attributes(&fids.join(name(1)), fid(1), Some(&link(9, "wide")));
        attributes(&fids.join(name(2)), fid(2), Some(&link(1, &stripe)));
        attributes(&fids.join(name(3)), fid(3), Some(&link(1, &named)));
        attributes(&fids.join(name(4)), fid(4), Some(&link(1, &other)));
        let seen = fids.join(name(1)).join(&named);
        fs::create_dir(&seen).unwrap();
        attributes(&seen, fid(3), None);
        let root = Root::open(tree.path()).unwrap();
        let wanted = Wanted { lustre: true, ..Wanted::default() };
        let patience = Patience::new(Duration::from_secs(60));
        let ids = [1, 2, 3, 4].map(fid).to_vec();
        let out = (tree.path(), "rows");
        let look = || look_up(&root, ids.clone(), (wanted, None), 2, &patience, out).unwrap();
        assert_eq!((look().stripes, look().failed), (vec![fid(2)], vec![]));
        // Another has the name by now: nothing is known of this one.
        attributes(&seen, fid(5), None);
        assert_eq!((look().stripes, look().failed), (vec![fid(2)], vec![(fid(3), Errno::AGAIN)]));
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
