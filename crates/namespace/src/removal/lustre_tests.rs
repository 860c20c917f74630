//! Deletion by FID on a Lustre in memory, which answers as a running one did.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::*;
use crate::ShardWriter;
use crate::beneath::Answer;
use crate::entry::{Entry, FileType, ObjectId, Times};
use crate::patience::Patience;
use crate::rmfid::{Bounded, Found, Removed};
use crate::rules::{Counted, Exemptions};

const DAY_S: i64 = 86_400;
const NOW_S: i64 = 1000 * DAY_S;

/// A file of the file system in memory.
#[derive(Clone, Debug)]
struct File {
    entry: Entry,
    /// Relative to the root; `None` for a name outside it.
    paths: Vec<Option<Vec<u8>>>,
    open: bool,
    fixed: bool,
}

/// Mock of the behaviour seen on a running Lustre 2.17: a removal takes every name, follows a file
/// wherever it was moved, takes links and empty directories, looks at no time, refuses open files,
/// and answers 0 to an invalid identifier.
#[derive(Default)]
struct Memory {
    files: Mutex<BTreeMap<Fid, File>>,
    /// The most that one call was given.
    largest: Mutex<usize>,
    /// Answers that all went well and does nothing.
    idle: bool,
    /// Refuses every call, as where rights are missing.
    forbidden: bool,
}

impl ByFid for Memory {
    fn stat(&self, fid: Fid) -> Answer<Found> {
        let files = self.files.lock().unwrap();
        let file = files.get(&fid).ok_or(Errno::NOENT)?;
        let entry = Entry { project: None, ..file.entry.clone() };
        Ok(Found { entry, fixed: file.fixed })
    }

    fn project(&self, fid: Fid) -> Answer<u32> {
        let files = self.files.lock().unwrap();
        files.get(&fid).ok_or(Errno::NOENT)?.entry.project.ok_or(Errno::OPNOTSUPP)
    }

    fn paths(&self, fid: Fid) -> Answer<Vec<Option<Vec<u8>>>> {
        let files = self.files.lock().unwrap();
        Ok(files.get(&fid).ok_or(Errno::NOENT)?.paths.clone())
    }

    fn remove(&self, fids: &[Fid]) -> Answer<Vec<Removed>> {
        if self.forbidden {
            return Err(Errno::PERM);
        }
        let mut largest = self.largest.lock().unwrap();
        *largest = fids.len().max(*largest);
        let mut files = self.files.lock().unwrap();
        let mut remove = |fid: &Fid| {
            if self.idle || Fid::of_file((*fid).into()).is_none() {
                return Ok(());
            }
            match files.get(fid) {
                None => Err(Errno::NOENT),
                Some(file) if file.open => Err(Errno::BUSY),
                Some(file) if file.fixed => Err(Errno::PERM),
                Some(_) => {
                    files.remove(fid);
                    Ok(())
                }
            }
        };
        Ok(fids.iter().map(&mut remove).collect())
    }
}

fn fid(object: u32) -> Fid {
    Fid { sequence: 0x2_0000_0402, object, version: 0 }
}

fn file(object: u32, paths: &[&str]) -> File {
    let at = Some(100 * DAY_S * 1_000_000_000 + i64::from(object));
    let entry = Entry {
        id: fid(object).into(),
        device: 7,
        uid: 1000,
        gid: 1000,
        size_bytes: 10,
        allocated_bytes: 4096,
        links: paths.len() as u32,
        times: Times { access_ns: at, modification_ns: at, change_ns: at, birth_ns: at },
        kind: FileType::Regular,
        ..Entry::default()
    };
    let paths = paths.iter().map(|path| Some(path.as_bytes().to_vec())).collect();
    File { entry, paths, open: false, fixed: false }
}

/// A plan of files as they are, then something happens, then the plan is carried out.
struct World {
    directory: tempfile::TempDir,
    lustre: Memory,
    rules: Rules,
    exact_sizes: bool,
}

impl World {
    fn new(files: Vec<File>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = ShardWriter::create(directory.path(), "plan.parquet").unwrap();
        for file in &files {
            for path in &file.paths {
                let (parent, name) = split(path.as_ref().unwrap());
                writer.row(parent, name, &file.entry).unwrap();
            }
        }
        writer.finish().unwrap();
        let lustre = Memory::default();
        for file in files {
            let fid = Fid::of_file(file.entry.id).unwrap_or(fid(0));
            lustre.files.lock().unwrap().insert(fid, file);
        }
        let rules = Rules {
            counted: Counted::ALL,
            as_of_s: NOW_S,
            old_enough_before_s: NOW_S - 56 * DAY_S,
            minimum_size_bytes: 0,
            exempt: Exemptions::default().with_path(b"keep"),
            linked: false,
        };
        Self { directory, lustre, rules, exact_sizes: true }
    }

    fn change(&self, object: u32, act: impl FnOnce(&mut File)) {
        act(self.lustre.files.lock().unwrap().get_mut(&fid(object)).unwrap());
    }

    fn has(&self, object: u32) -> bool {
        self.lustre.files.lock().unwrap().contains_key(&fid(object))
    }

    fn open<F>(&self, lustre: F) -> RemovalByFid<F> {
        let (before_s, threads) = (NOW_S - 100 * DAY_S, 3);
        let checks = Checks {
            rules: self.rules.clone(),
            exempted: Default::default(),
            before_s,
            time_resolution_ns: 1,
            exact_sizes: self.exact_sizes,
            device: 7,
            listed_s: None,
        };
        let candidates =
            Candidates::of(Shard::open(&self.directory.path().join("plan.parquet")).unwrap());
        RemovalByFid { lustre, candidates, checks, threads, until: Default::default() }
    }

    fn go(&mut self, work: fn(&mut RemovalByFid<Memory>, u64, u64) -> Result<Batch>) -> Batch {
        let lustre = std::mem::take(&mut self.lustre);
        let mut removal = self.open(lustre);
        let rows = removal.rows();
        let batch = work(&mut removal, 0, rows).unwrap();
        self.lustre = removal.lustre;
        batch
    }

    fn delete(&mut self) -> Vec<&'static str> {
        named(&self.go(RemovalByFid::delete))
    }
}

fn named(batch: &Batch) -> Vec<&'static str> {
    batch.outcomes.iter().map(|code| Outcome::TABLE[usize::from(*code) - 1].1).collect()
}

#[test]
fn what_is_planned_goes_in_calls_of_few() {
    let mut world = World::new((1..=1000).map(|n| file(n, &[&format!("a/f{n}")])).collect());
    let batch = world.go(RemovalByFid::delete);
    assert_eq!((batch.deleted, batch.freed_bytes), (1000, 4_096_000));
    assert!(world.lustre.files.lock().unwrap().is_empty());
    assert_eq!(*world.lustre.largest.lock().unwrap(), FIDS_PER_CALL);
}

/// An OST is lost: a caller that asks for the size of a file on it waits until it is back.
struct Lost(Memory);

impl ByFid for Lost {
    fn stat(&self, fid: Fid) -> Answer<Found> {
        if fid.object % 4 == 3 {
            std::thread::sleep(std::time::Duration::from_secs(3600));
        }
        self.0.stat(fid)
    }

    fn project(&self, fid: Fid) -> Answer<u32> {
        self.0.project(fid)
    }

    fn paths(&self, fid: Fid) -> Answer<Vec<Option<Vec<u8>>>> {
        self.0.paths(fid)
    }

    fn remove(&self, fids: &[Fid]) -> Answer<Vec<Removed>> {
        self.0.remove(fids)
    }
}

#[test]
fn files_of_a_lost_target_hold_up_no_others() {
    let mut world = World::new((1..=40).map(|n| file(n, &[&format!("a/f{n}")])).collect());
    let patience = Patience::new(std::time::Duration::from_millis(200));
    let lost = Bounded::new(Lost(std::mem::take(&mut world.lustre)), patience);
    let batch = world.open(lost).delete(0, 40).unwrap();
    assert_eq!((batch.deleted, batch.errors.len()), (30, 10));
    assert!(batch.errors.iter().all(|(row, errno)| row % 4 == 2 && *errno == libc::ETIMEDOUT));
}

#[test]
fn a_check_touches_nothing() {
    let mut world = World::new(vec![file(1, &["a/f"])]);
    assert_eq!(named(&world.go(RemovalByFid::check)), ["would_delete"]);
    assert!(world.has(1));
}

#[test]
fn what_changed_is_kept() {
    type Change = fn(&mut File);
    let changes: [(Change, &str); 15] = [
        (|file| file.entry.times.access_ns = Some(NOW_S * 1_000_000_000), "changed_atime"),
        (|file| file.entry.times.modification_ns = Some(0), "changed_mtime"),
        (|file| file.entry.times.change_ns = Some(1), "ctime_only"),
        (|file| file.entry.times.birth_ns = Some(1), "not_same"),
        (|file| file.entry.size_bytes = 11, "changed_size"),
        (|file| file.entry.allocated_bytes = 0, "changed_size"),
        (|file| file.entry.uid = 7, "changed_owner"),
        (|file| file.entry.device = 8, "moved"),
        (|file| file.entry.kind = FileType::SymbolicLink, "changed_type"),
        (|file| file.entry.kind = FileType::Directory, "changed_type"),
        (|file| file.paths = vec![Some(b"a/other".to_vec())], "moved"),
        (|file| file.paths = vec![Some(b"keep/f".to_vec())], "exempt"),
        (|file| file.paths = vec![None], "moved"),
        (|file| file.open = true, "open"),
        (|file| file.fixed = true, "immutable"),
    ];
    for (change, outcome) in changes {
        let mut world = World::new(vec![file(1, &["a/f"]), file(2, &["a/g"])]);
        world.change(1, change);
        assert_eq!(world.delete(), [outcome, "deleted"]);
        assert!(world.has(1) && !world.has(2), "{outcome}");
    }
}

/// Lustre moves no time when a project is changed.
#[test]
fn a_project_counts_as_it_is_now() {
    let with = |project| {
        let mut planned = file(1, &["a/f"]);
        planned.entry.project = project;
        World::new(vec![planned])
    };
    let changed = |planned, now: Option<u32>, exempt: &[u32]| {
        let mut world = with(planned);
        let mut lists = world.rules.exempt.lists().clone();
        lists.projects.extend(exempt);
        world.rules.exempt = Exemptions::new(lists);
        world.change(1, |file| file.entry.project = now);
        world.delete()
    };
    assert_eq!(changed(Some(5), Some(5), &[]), ["deleted"]);
    assert_eq!(changed(Some(5), Some(6), &[]), ["changed_project"]);
    assert_eq!(changed(Some(0), Some(6), &[6]), ["changed_project"]);
    // The source did not know projects: an exemption holds for the one of now.
    assert_eq!(changed(None, Some(6), &[6]), ["exempt"]);
    assert_eq!(changed(None, Some(5), &[6]), ["deleted"]);
    // The project is unknown, and it counts.
    assert_eq!(changed(Some(5), None, &[]), ["failed"]);
    assert_eq!(changed(None, None, &[6]), ["failed"]);
    assert_eq!(changed(None, None, &[]), ["deleted"]);
}

#[test]
fn a_size_that_the_source_did_not_know_is_no_use_of_a_file() {
    for (exact_sizes, outcome, written) in
        [(true, "changed_size", "changed_size"), (false, "size_unknown", "changed_mtime")]
    {
        let mut world = World::new(vec![file(1, &["a/f"])]);
        world.exact_sizes = exact_sizes;
        world.change(1, |file| file.entry.size_bytes = 11);
        assert_eq!(world.delete(), [outcome]);
        world.change(1, |file| file.entry.times.modification_ns = Some(0));
        assert_eq!(world.delete(), [written]);
    }
}

#[test]
fn a_file_with_several_names_goes_only_whole_and_where_policy_lets_it() {
    let two = || World::new(vec![file(1, &["a/f", "b/g"])]);
    assert_eq!(two().delete(), ["other_links"; 2]);
    let linked = |mut world: World| {
        world.rules.linked = true;
        world
    };
    let mut world = linked(two());
    let batch = world.go(RemovalByFid::delete);
    assert_eq!((named(&batch), batch.freed_bytes), (vec!["deleted"; 2], 4096));
    let mut world = linked(two());
    world.change(1, |file| file.paths[1] = Some(b"keep/g".to_vec()));
    assert_eq!(world.delete(), ["exempt"; 2]);
    let mut world = linked(two());
    world.change(1, |file| file.paths.truncate(1));
    assert_eq!(world.delete(), ["names_unknown"; 2]);
    assert!(world.has(1));
}

#[test]
fn what_is_gone_already_is_gone() {
    let mut world = World::new(vec![file(1, &["a/f"])]);
    world.lustre.files.lock().unwrap().clear();
    assert_eq!(world.delete(), ["gone"]);
}

#[test]
fn an_answer_of_success_is_not_believed() {
    let mut world = World::new(vec![file(1, &["a/f"])]);
    world.lustre.idle = true;
    let batch = world.go(RemovalByFid::delete);
    assert_eq!((named(&batch), batch.freed_bytes), (vec!["failed"], 0));
}

#[test]
fn what_is_no_identifier_never_reaches_a_call() {
    let mut broken = file(1, &["a/f"]);
    broken.entry.id = ObjectId::Fid { sequence: 3, object: 1, version: 0 };
    let mut inode = file(2, &["a/g"]);
    inode.entry.id = ObjectId::Inode(2);
    let mut world = World::new(vec![broken, inode]);
    let batch = world.go(RemovalByFid::delete);
    assert_eq!(named(&batch), ["failed"; 2]);
    assert_eq!(batch.errors, [(0, libc::EINVAL), (1, libc::EINVAL)]);
    assert_eq!(*world.lustre.largest.lock().unwrap(), 0);
}

#[test]
fn missing_rights_are_said() {
    let mut world = World::new(vec![file(1, &["a/f"])]);
    world.lustre.forbidden = true;
    let batch = world.go(RemovalByFid::delete);
    assert_eq!((named(&batch), batch.errors), (vec!["denied"], vec![(0, libc::EPERM)]));
}
