//! Files looked at exactly: their size as servers know it now, not as last reported to the MDS.
//!
//! Lustre keeps a lazy size with the MDT's inode: mostly right once a file is closed, and of a file
//! that was written shortly before often without its blocks. A walk takes what the MDS says, since a
//! question to every OST costs as many more. Here only some files are asked about, each of them with
//! all of its servers (`AT_STATX_FORCE_SYNC`). One that does not answer in time is an error of the
//! file ([`Patience`]).

use std::ffi::CString;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use rustix::fs::{AtFlags, OFlags, StatxFlags, statx};
use rustix::io::Errno;

use crate::beneath::{Answer, Root};
use crate::entry::{Entry, FileType, ObjectId};
use crate::patience::Patience;
use crate::project::Projects;
use crate::rmfid::{ByFid, Fid};
use crate::work::on_threads;

/// A file to look at: which object it was, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Which object it is.
    pub id: ObjectId,
    /// Its directory, relative to the root.
    pub parent: Vec<u8>,
    /// Its name there.
    pub name: Vec<u8>,
}

/// Exact attributes of a file, as of now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact {
    /// Its length.
    pub size_bytes: u64,
    /// Allocated bytes.
    pub allocated_bytes: u64,
    /// Its project, where it was asked for.
    pub project: Option<u32>,
}

/// Query for the exact attributes of one file.
pub trait Look: Send + Sync + 'static {
    /// Its attributes now; `ESTALE` where another file has its name.
    fn look(&self, asked: &Asked, project: bool) -> Answer<Exact>;
}

/// Looks at a file by its name, on any file system.
pub struct ByName {
    root: Root,
    /// Set when a project is first asked for: a question to the file system, which may hang.
    projects: OnceLock<Projects>,
}

impl ByName {
    /// Creates the look at files beneath a root.
    pub fn new(root: Root) -> Self {
        Self { root, projects: OnceLock::new() }
    }

    fn projects(&self) -> Answer<&Projects> {
        if self.projects.get().is_none() {
            let _ = self.projects.set(Projects::of(self.root.descriptor())?);
        }
        Ok(self.projects.get().expect("it was set"))
    }
}

impl Look for ByName {
    fn look(&self, asked: &Asked, project: bool) -> Answer<Exact> {
        let parent = self.root.directory(&asked.parent, OFlags::PATH)?;
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_FORCE_SYNC;
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let entry = Entry::of_statx(&statx(&parent, &*asked.name, flags, wanted)?);
        if entry.kind != FileType::Regular || entry.id != asked.id {
            return Err(Errno::STALE);
        }
        let project = match project {
            true => {
                let name = CString::new(&*asked.name).map_err(|_| Errno::INVAL)?;
                Some(self.projects()?.of_name(parent.as_fd(), &name)?)
            }
            false => None,
        };
        Ok(exact(&entry, project))
    }
}

/// Looks at a file by its identifier, on Lustre.
pub struct OnLustre<F>(pub F);

impl<F: ByFid + Send + 'static> Look for OnLustre<F> {
    fn look(&self, asked: &Asked, project: bool) -> Answer<Exact> {
        let fid = Fid::of_file(asked.id).ok_or(Errno::INVAL)?;
        let found = self.0.stat(fid)?;
        if found.entry.kind != FileType::Regular {
            return Err(Errno::STALE);
        }
        let project = if project { Some(self.0.project(fid)?) } else { None };
        Ok(exact(&found.entry, project))
    }
}

fn exact(entry: &Entry, project: Option<u32>) -> Exact {
    let Entry { size_bytes, allocated_bytes, .. } = *entry;
    Exact { size_bytes, allocated_bytes, project }
}

/// Looks at files with several threads; an answer for each, in their order.
pub fn glimpse(
    look: impl Look,
    files: Vec<Asked>,
    project: bool,
    threads: usize,
    patience: &Patience,
) -> Vec<Answer<Exact>> {
    let (look, files, next) = (Arc::new(look), Arc::new(files), AtomicUsize::new(0));
    let task = |_| {
        let mut answers = Vec::new();
        loop {
            let place = next.fetch_add(1, Relaxed);
            if place >= files.len() {
                return answers;
            }
            let (look, files) = (look.clone(), files.clone());
            answers.push((place, patience.call(move || look.look(&files[place], project))));
        }
    };
    let mut answers = on_threads(0..threads.clamp(1, 256), task).concat();
    answers.sort_unstable_by_key(|(place, _)| *place);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn files_are_looked_at_by_name_and_only_the_planned_ones() {
        let tree = tempfile::tempdir().unwrap();
        let asked: Vec<Asked> = (0..40_u64)
            .map(|number| {
                let name = format!("f{number}");
                let path = tree.path().join(&name);
                std::fs::write(&path, vec![1; number as usize * 100]).unwrap();
                let id = ObjectId::Inode(std::fs::metadata(&path).unwrap().ino());
                Asked { id, parent: Vec::new(), name: name.into_bytes() }
            })
            .collect();
        std::fs::remove_file(tree.path().join("f3")).unwrap();
        std::fs::rename(tree.path().join("f5"), tree.path().join("f4")).unwrap();
        let root = Root::open(tree.path()).unwrap();
        let answers = glimpse(ByName::new(root), asked, false, 7, &Patience::default());
        for (number, answer) in answers.iter().enumerate() {
            match number {
                3 | 5 => assert_eq!(*answer, Err(Errno::NOENT)),
                4 => assert_eq!(*answer, Err(Errno::STALE)),
                _ => assert_eq!(answer.unwrap().size_bytes, number as u64 * 100),
            }
        }
    }

    /// Mock of a file system where a server of every fourth file is lost, so that its caller waits.
    struct Lost;

    impl Look for Lost {
        fn look(&self, asked: &Asked, _project: bool) -> Answer<Exact> {
            let number = asked.name.len() as u64;
            if number % 4 == 3 {
                std::thread::sleep(std::time::Duration::from_secs(3600));
            }
            Ok(Exact { size_bytes: number, allocated_bytes: 0, project: None })
        }
    }

    #[test]
    fn files_of_a_lost_server_are_late_and_hold_up_no_other() {
        let named =
            |length| Asked { id: ObjectId::Inode(1), parent: Vec::new(), name: vec![b'n'; length] };
        let patience = Patience::new(std::time::Duration::from_millis(200));
        let answers = glimpse(Lost, (0..40).map(named).collect(), false, 4, &patience);
        assert_eq!(answers.len(), 40);
        for (number, answer) in answers.iter().enumerate() {
            match number % 4 {
                3 => assert_eq!(*answer, Err(Errno::TIMEDOUT)),
                _ => assert_eq!(answer.unwrap().size_bytes, number as u64),
            }
        }
        assert_eq!(patience.late(), 10);
    }
}
