//! Changes in the gaps: between the look at a name and the taking of it, and after.

#[path = "tests/directories.rs"]
mod directories;
#[path = "tests/aside.rs"]
mod lies_aside;
#[path = "tests/takeover.rs"]
mod takes_over;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rustix::fs::{AtFlags, CWD, statx};

use super::aside::{Fate, aside, quarantines};
use super::check::Checks;
use super::exempted::Exempted;
use super::origin::Origin;
use super::outcome::Outcome;
use super::parent::Parent;
use super::quarantine::{Cell, Quarantine, WANTED};
use super::until::Until;
use super::worker::{Job, Worker};
use crate::beneath::Root;
use crate::entry::{Entry, ObjectId};
use crate::index::Row;
use crate::rules::{Counted, Exemptions, Rules};

const LATER_S: i64 = 4_000_000_000;

struct World {
    directory: tempfile::TempDir,
    /// The directory of the planned file.
    parent: &'static str,
}

impl World {
    /// A root with one planned file, `run/file`.
    fn new() -> Self {
        Self::with("run")
    }

    /// A root with one planned file in a directory.
    fn with(parent: &'static str) -> Self {
        let world = Self { directory: tempfile::tempdir().unwrap(), parent };
        fs::create_dir_all(world.at(parent)).unwrap();
        fs::write(world.at(parent).join("file"), "planned").unwrap();
        world
    }

    fn at(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    fn content(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.at(path)).ok()
    }

    fn row(&self) -> Row {
        self.row_of("file")
    }

    fn row_of(&self, name: &'static str) -> Row {
        let path = self.at(self.parent).join(name);
        let stat = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, WANTED).unwrap();
        Row {
            parent: Bytes::from_static(self.parent.as_bytes()),
            name: Bytes::from_static(name.as_bytes()),
            entry: Entry::of_statx(&stat),
            last_use_s: None,
        }
    }

    /// Gives a worker with a quarantine some rows of one directory, and returns what `act` does.
    fn with_worker<T>(&self, rows: &[Row], act: impl FnOnce(Worker<'_>, &Parent, &Root) -> T) -> T {
        super::lease::ignore_signal();
        let root = Root::open(self.directory.path()).unwrap();
        let checks = checks(&root);
        let job = job(&root, &checks, rows);
        let quarantine = Quarantine::open(&root, b".q").unwrap();
        let mut cell = quarantine.cell(&root, 0).unwrap();
        let worker = Worker::new(&job, Some((&quarantine, &mut cell)), Default::default());
        let parent = Parent::open(&root, &rows[0].parent).unwrap();
        act(worker, &parent, &root)
    }

    /// Looks at the file, does something, takes it, does something, and settles it.
    fn settle(&self, between: impl FnOnce(&Self), in_quarantine: impl FnOnce(&Self)) -> Outcome {
        self.with_worker(&[self.row()], |mut worker, parent, _| {
            assert!(worker.approach(parent));
            let looked = worker.look(0, parent).unwrap();
            between(self);
            match worker.take(&looked, parent, Some(0)) {
                Ok(slot) => {
                    in_quarantine(self);
                    let whereabouts = worker.whereabouts(parent);
                    worker.settle(slot, &looked, parent, whereabouts);
                }
                Err(refusal) => return refusal.outcome,
            }
            worker.finish();
            worker.verdicts[0].outcome
        })
    }

    /// Settles the file, looks at `run/next`, does something, and has that replace the file in its
    /// slot; returns the outcomes of the file and of the next.
    fn settle_next(&self, between: impl FnOnce(&Self)) -> (Outcome, Outcome) {
        fs::write(self.at("run/next"), "next").unwrap();
        self.with_worker(&[self.row(), self.row_of("next")], |mut worker, parent, root| {
            let looked = worker.look(0, parent).unwrap();
            worker.take(&looked, parent, Some(0)).unwrap();
            worker.settle(0, &looked, parent, parent.whereabouts(root));
            drop(looked);
            let looked = worker.look(1, parent).unwrap();
            between(self);
            let next = match worker.take(&looked, parent, Some(0)) {
                Ok(slot) => {
                    worker.settle(slot, &looked, parent, parent.whereabouts(root));
                    None
                }
                Err(refusal) => Some(refusal.outcome),
            };
            worker.finish();
            let of =
                |row| worker.verdicts.iter().find(|verdict| verdict.row == row).unwrap().outcome;
            (of(0), next.unwrap_or_else(|| of(1)))
        })
    }

    /// The contents of what waits for a person.
    fn stranded(&self) -> Vec<String> {
        let entries = fs::read_dir(self.at(".q/stranded")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let files = paths.filter(|path| path.extension().is_none());
        files.map(|path| fs::read_to_string(path).unwrap()).collect()
    }
}

fn checks(root: &Root) -> Checks {
    let rules = Rules {
        counted: Counted::ALL,
        as_of_s: LATER_S,
        old_enough_before_s: LATER_S,
        minimum_size_bytes: 0,
        exempt: Exemptions::default(),
        linked: false,
    };
    Checks {
        rules,
        exempted: Exempted::default(),
        before_s: LATER_S,
        time_resolution_ns: 1,
        exact_sizes: true,
        device: root.device(),
        listed_s: None,
    }
}

fn job<'a>(root: &'a Root, checks: &'a Checks, rows: &'a [Row]) -> Job<'a> {
    let until = Until::default();
    Job { root, checks, rows, first: 70, open_files: false, leases: true, names: None, until }
}

fn nothing(_: &World) {}

fn save(world: &World) {
    fs::write(world.at("run/.file.tmp"), "saved").unwrap();
    fs::rename(world.at("run/.file.tmp"), world.at("run/file")).unwrap();
}

#[test]
fn the_planned_file_goes() {
    let world = World::new();
    assert_eq!(world.settle(nothing, nothing), Outcome::Deleted);
    assert_eq!(world.content("run/file"), None);
}

#[test]
fn a_file_saved_between_look_and_take_is_put_back() {
    let world = World::new();
    assert_eq!(world.settle(save, nothing), Outcome::NotSame);
    assert_eq!(world.content("run/file").as_deref(), Some("saved"));
    assert!(world.stranded().is_empty());
}

#[test]
fn a_file_saved_while_the_planned_one_is_in_quarantine_stays() {
    let world = World::new();
    assert_eq!(world.settle(nothing, save), Outcome::Deleted);
    assert_eq!(world.content("run/file").as_deref(), Some("saved"));
}

#[test]
fn a_file_taken_by_mistake_whose_place_is_taken_too_waits_for_a_person() {
    let world = World::new();
    let again = |world: &World| fs::write(world.at("run/file"), "third").unwrap();
    assert_eq!(world.settle(save, again), Outcome::InQuarantine);
    assert_eq!(world.content("run/file").as_deref(), Some("third"));
    assert_eq!(world.stranded(), ["saved"]);
}

#[test]
fn a_file_taken_by_mistake_whose_directory_is_gone_waits_for_a_person() {
    let world = World::new();
    let gone = |world: &World| fs::remove_dir(world.at("run")).unwrap();
    assert_eq!(world.settle(save, gone), Outcome::InQuarantine);
    assert_eq!(world.stranded(), ["saved"]);
}

#[test]
fn a_file_whose_directory_moves_is_put_back_into_it() {
    let away = |world: &World| fs::rename(world.at("run"), world.at("keep")).unwrap();
    for early in [true, false] {
        let world = World::new();
        let outcome = if early { world.settle(away, nothing) } else { world.settle(nothing, away) };
        assert_eq!(outcome, Outcome::Moved, "early {early}");
        assert_eq!(world.content("keep/file").as_deref(), Some("planned"));
    }
}

#[test]
fn a_round_looks_again_whether_the_directory_is_in_place() {
    let world = World::new();
    let root = Root::open(world.directory.path()).unwrap();
    let (checks, rows) = (checks(&root), [world.row()]);
    let job = job(&root, &checks, &rows);
    let quarantine = Quarantine::open(&root, b".q").unwrap();
    let mut cell = quarantine.cell(&root, 0).unwrap();
    let mut worker = Worker::new(&job, Some((&quarantine, &mut cell)), Default::default());
    let parent = Parent::open(&root, &rows[0].parent).unwrap();
    fs::rename(world.at("run"), world.at("keep")).unwrap();
    worker.round(&parent, &[0]);
    assert_eq!(worker.verdicts[0].outcome, Outcome::Moved);
    assert_eq!(world.content("keep/file").as_deref(), Some("planned"));
}

#[test]
fn a_file_that_is_changed_between_look_and_take_is_put_back() {
    let write = |world: &World| {
        // Through a name without a lease: the trace of a write when it is seen.
        let path = world.at("run/file");
        rustix::fs::utimensat(CWD, path, &epoch(), AtFlags::empty()).unwrap();
    };
    let owner = |world: &World| {
        std::os::unix::fs::chown(world.at("run/file"), Some(1234), None).unwrap();
    };
    let mode = |world: &World| {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(world.at("run/file"), fs::Permissions::from_mode(0o640)).unwrap();
    };
    let link = |world: &World| fs::hard_link(world.at("run/file"), world.at("run/l")).unwrap();
    type Act<'a> = &'a dyn Fn(&World);
    let cases: [(Act, Outcome); 4] = [
        (&write, Outcome::ChangedMtime),
        (&owner, Outcome::ChangedOwner),
        (&mode, Outcome::CtimeOnly),
        (&link, Outcome::OtherLinks),
    ];
    for (act, outcome) in cases {
        let world = World::new();
        assert_eq!(world.settle(act, nothing), outcome);
        assert_eq!(world.content("run/file").as_deref(), Some("planned"));
    }
}

fn epoch() -> rustix::fs::Timestamps {
    let zero = rustix::fs::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::fs::Timestamps { last_access: zero, last_modification: zero }
}

#[test]
fn a_file_that_somebody_wants_to_open_is_put_back() {
    let world = World::new();
    let path = world.at("run/file");
    let mut waiting = None;
    let outcome = world.settle(
        |_| {
            waiting = Some(std::thread::spawn(move || fs::read_to_string(path).unwrap()));
            // Long enough for the other thread to come to the lease and wait there.
            std::thread::sleep(std::time::Duration::from_millis(300));
        },
        nothing,
    );
    assert_eq!(outcome, Outcome::Open);
    assert_eq!(waiting.unwrap().join().unwrap(), "planned");
    assert_eq!(world.content("run/file").as_deref(), Some("planned"));
}

/// How long the kernel has an opener wait for the holder of a lease.
const LEASE_BREAK_TIME: &str = "/proc/sys/fs/lease-break-time";

/// Sets it for a while.
struct LeaseBreakTime(String);

impl LeaseBreakTime {
    fn set(seconds: &str) -> Self {
        let usual = fs::read_to_string(LEASE_BREAK_TIME).unwrap();
        fs::write(LEASE_BREAK_TIME, seconds).unwrap();
        Self(usual)
    }
}

impl Drop for LeaseBreakTime {
    fn drop(&mut self) {
        fs::write(LEASE_BREAK_TIME, &self.0).unwrap();
    }
}

#[test]
fn a_file_that_was_open_since_its_lease_ran_out_is_put_back() {
    let _short = LeaseBreakTime::set("1");
    let world = World::new();
    let path = world.at("run/file");
    let began = std::time::Instant::now();
    // Opened after the time that a holder has, and closed again: no time of the file has moved.
    let outcome = world.settle(|_| drop(fs::File::open(path).unwrap()), nothing);
    assert!(began.elapsed() >= std::time::Duration::from_millis(900), "no process had to wait");
    assert_eq!(outcome, Outcome::Open);
    assert_eq!(world.content("run/file").as_deref(), Some("planned"));
}

#[test]
fn a_name_that_is_gone_between_look_and_take_is_gone() {
    let world = World::new();
    let gone = |world: &World| fs::remove_file(world.at("run/file")).unwrap();
    assert_eq!(world.settle(gone, nothing), Outcome::Gone);
}

/// Leftovers of a killed run: the planned file in a cell of its own.
fn interrupted(world: &World, act: impl FnOnce(&World, &Path)) -> (Outcome, Vec<Vec<u8>>) {
    interrupted_before(world, LATER_S, act)
}

/// The same, recovered with another cut-off.
fn interrupted_before(
    world: &World,
    before_s: i64,
    act: impl FnOnce(&World, &Path),
) -> (Outcome, Vec<Vec<u8>>) {
    let root = Root::open(world.directory.path()).unwrap();
    let (checks, rows) = (Checks { before_s, ..checks(&root) }, [world.row()]);
    let job = job(&root, &checks, &rows);
    let quarantine = Quarantine::open(&root, b".q").unwrap();
    let left = quarantine.cell(&root, 0).unwrap();
    let parent = Parent::open(&root, &rows[0].parent).unwrap();
    left.take(&parent.descriptor, b"file", 3, false).unwrap();
    // Killed while it found out whether renaming refuses to replace: no user's file.
    let probe = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CREATE;
    rustix::fs::openat(&left.directory, c"probe-1", probe, rustix::fs::Mode::RUSR).unwrap();
    let held = world.at(".q").join(String::from_utf8(left.name.clone()).unwrap()).join("03");
    act(world, &held);
    let mut cell_of_ours = quarantine.cell(&root, 1).unwrap();
    let leftovers = quarantine.leftovers(&[&cell_of_ours]).unwrap();
    assert_eq!(leftovers.len(), 1);
    let recovered =
        super::recovery::recover(&job, &[0], &quarantine, &mut cell_of_ours, &leftovers);
    let outcome = recovered.verdicts.first().map_or(Outcome::Gone, |verdict| verdict.outcome);
    (outcome, recovered.unexplained)
}

#[test]
fn what_was_left_in_quarantine_is_ended() {
    let world = World::new();
    assert_eq!(interrupted(&world, |_, _| {}), (Outcome::Deleted, vec![]));
    assert_eq!((world.content("run/file"), world.stranded().len()), (None, 0));
}

#[test]
fn what_was_left_is_put_back_where_nothing_may_go() {
    let world = World::new();
    let outcome = interrupted_before(&world, 0, |_, _| {});
    assert_eq!(outcome, (Outcome::PutBack, vec![]));
    assert_eq!(world.content("run/file").as_deref(), Some("planned"));
}

#[test]
fn what_went_back_is_known_in_whichever_order_the_cells_go() {
    let world = World::new();
    let root = Root::open(world.directory.path()).unwrap();
    let (checks, rows) = (Checks { before_s: 0, ..checks(&root) }, [world.row()]);
    let job = job(&root, &checks, &rows);
    let quarantine = Quarantine::open(&root, b".q").unwrap();
    let cell = |number| quarantine.cell(&root, number).unwrap();
    let recover = |cell: &mut Cell| {
        let left = quarantine.leftovers(&[cell]).unwrap();
        super::recovery::recover(&job, &[0], &quarantine, cell, &left)
    };
    // Three runs that are killed: while the file is aside, when it is back, and while the third
    // removes what the first two have left.
    let (mut first, mut second, mut third) = (cell(0), cell(1), cell(2));
    let parent = Parent::open(&root, &rows[0].parent).unwrap();
    first.take(&parent.descriptor, b"file", 3, false).unwrap();
    first.note(std::iter::once(0));
    assert_eq!(recover(&mut second).verdicts[0].outcome, Outcome::PutBack);
    assert!(recover(&mut third).verdicts.is_empty());
    quarantine.remove_cell(&second.directory, &second.name);
    let recovered = recover(&mut cell(3));
    assert!(recovered.taken.contains(&0) && recovered.back.contains(&0), "{recovered:?}");
}

#[test]
fn what_was_left_and_is_not_as_planned_is_put_back() {
    let world = World::new();
    let used = |_: &World, path: &Path| {
        rustix::fs::utimensat(CWD, path, &epoch(), AtFlags::empty()).unwrap();
    };
    assert_eq!(interrupted(&world, used), (Outcome::ChangedMtime, vec![]));
    assert_eq!(world.content("run/file").as_deref(), Some("planned"));
}

#[test]
fn what_was_left_and_is_open_is_put_back() {
    let world = World::new();
    let mut held = None;
    let open = |_: &World, path: &Path| held = Some(fs::File::open(path).unwrap());
    assert_eq!(interrupted(&world, open), (Outcome::Open, vec![]));
    assert_eq!(world.content("run/file").as_deref(), Some("planned"));
}

#[test]
fn what_was_left_stays_if_its_place_is_taken() {
    let world = World::new();
    let mut held = None;
    let act = |world: &World, path: &Path| {
        held = Some(fs::File::open(path).unwrap());
        fs::write(world.at("run/file"), "new").unwrap();
    };
    assert_eq!(interrupted(&world, act), (Outcome::InQuarantine, vec![]));
    assert_eq!(world.content("run/file").as_deref(), Some("new"));
    assert_eq!(world.stranded(), ["planned"]);
}

/// Its directory was noted, and another has its path when it is to go back.
#[test]
fn what_was_left_goes_back_into_its_own_directory_only() {
    for (exchanged, noted) in [(true, true), (false, true), (true, false), (false, false)] {
        let world = World::new();
        let act = |world: &World, held: &Path| {
            let cell = held.parent().unwrap();
            if noted {
                let run = fs::File::open(world.at("run")).unwrap().into();
                let from = Some(super::origin::Mark::of(&run).unwrap());
                let id = ObjectId::Inode(fs::metadata(held).unwrap().ino());
                let origin = Origin { row: 0, id, from, parent: b"run", name: b"file" };
                fs::write(cell.join("origins"), super::origin::encode([(3, origin)])).unwrap();
            }
            if exchanged {
                fs::rename(world.at("run"), world.at("away")).unwrap();
                fs::create_dir(world.at("run")).unwrap();
            }
        };
        let outcome = interrupted_before(&world, 0, act);
        let contents = [world.content("run/file"), world.content("away/file")];
        if exchanged {
            assert_eq!(outcome, (Outcome::InQuarantine, vec![]), "noted: {noted}");
            assert_eq!((contents, world.stranded()), ([None, None], vec!["planned".to_owned()]));
        } else {
            assert_eq!(outcome, (Outcome::PutBack, vec![]), "noted: {noted}");
            assert_eq!(contents[0].as_deref(), Some("planned"));
        }
    }
}

#[test]
fn what_was_left_and_has_no_directory_any_more_is_ended_or_waits() {
    let gone = |world: &World, _: &Path| fs::remove_dir(world.at("run")).unwrap();
    let world = World::new();
    assert_eq!(interrupted(&world, gone), (Outcome::Deleted, vec![]));
    assert!(world.stranded().is_empty());
    let world = World::new();
    assert_eq!(interrupted_before(&world, 0, gone), (Outcome::InQuarantine, vec![]));
    assert_eq!(world.stranded(), ["planned"]);
}

#[test]
fn what_no_row_explains_is_shown_and_stays() {
    let world = World::new();
    let act = |_: &World, path: &Path| {
        fs::remove_file(path).unwrap();
        fs::write(path.with_file_name("04"), "whose").unwrap();
    };
    let (outcome, unexplained) = interrupted(&world, act);
    assert_eq!((outcome, unexplained.len()), (Outcome::Gone, 1));
    let path = String::from_utf8(unexplained[0].clone()).unwrap();
    assert_eq!(world.content(&path).as_deref(), Some("whose"));
}

#[test]
fn a_slot_that_cannot_be_emptied_is_not_used_again() {
    let world = World::new();
    let root = Root::open(world.directory.path()).unwrap();
    let quarantine = Quarantine::open(&root, b".q").unwrap();
    let mut cell: Cell = quarantine.cell(&root, 0).unwrap();
    let parent = Parent::open(&root, &Bytes::from_static(b"run")).unwrap();
    cell.take(&parent.descriptor, b"file", 5, false).unwrap();
    cell.look_after(5);
    cell.look_after(6);
    assert_eq!(cell.slots().count(), 31);
    assert!(cell.slots().all(|slot| slot != 5));
}

/// Runs a command: what it does is another process's doing.
fn other(world: &World, script: &str) {
    let mut shell = std::process::Command::new("sh");
    shell.args(["-ec", script]).current_dir(world.directory.path());
    assert!(shell.status().unwrap().success(), "{script}");
}

#[test]
fn what_moves_only_the_ctime_between_look_and_take_is_seen() {
    let cases = [
        ("chmod 600 run/file; chmod 644 run/file", Outcome::Touched),
        ("touch -cr run/file run/file", Outcome::Touched),
        ("chgrp 1 run/file; chgrp 0 run/file", Outcome::Touched),
        ("ln run/file other; rm other", Outcome::Touched),
        ("mv run/file run/x; mv run/x run/file", Outcome::Moved),
        ("mkdir keep; mv run/file keep/file; mv keep/file run/file", Outcome::Moved),
        ("python3 -c 'import os; os.setxattr(\"run/file\", \"user.k\", b\"v\")'", Outcome::Touched),
    ];
    for (script, outcome) in cases {
        let world = World::new();
        assert_eq!(world.settle(|world| other(world, script), nothing), outcome, "{script}");
        assert_eq!(world.content("run/file").as_deref(), Some("planned"), "{script}");
    }
}
