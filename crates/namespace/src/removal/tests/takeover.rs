//! A host is stopped at every step, another takes its rows over, and then the first goes on.

use rustix::fs::CWD;

use super::*;
use crate::index::{Shard, ShardWriter};
use crate::removal::parent::Whereabouts;
use crate::removal::until::Until;
use crate::removal::{Removal, Settings};

/// The row of the planned file, as `job` counts.
const ROW: u64 = 70;

impl World {
    /// The remover of another host, for which nothing may go.
    fn other(&self) -> Removal {
        self.other_in(b".trimtab-purge-r")
    }

    fn other_in(&self, quarantine: &[u8]) -> Removal {
        let plans = tempfile::tempdir().unwrap();
        let mut writer = ShardWriter::create(plans.path(), "plan").unwrap();
        let entry = self.row().entry;
        for number in 0..ROW {
            writer.row(b"none", number.to_string().as_bytes(), &entry).unwrap();
        }
        writer.row(b"run", b"file", &entry).unwrap();
        writer.finish().unwrap();
        let root = Root::open(self.directory.path()).unwrap();
        let rules = checks(&root).rules;
        let settings = Settings {
            before_s: i64::MIN / 4,
            quarantine: quarantine.to_vec(),
            time_resolution_ns: 1,
            exact_sizes: true,
            threads: 1,
            open_files: false,
            listed_s: None,
        };
        let plan = Shard::open(&plans.path().join("plan")).unwrap();
        Removal::open(plan, root, rules, settings).unwrap()
    }

    fn waits(&self) -> usize {
        let listed = aside(&Root::open(self.directory.path()).unwrap(), false, None);
        listed.unwrap().len()
    }
}

fn taken_over(other: &mut Removal) -> Outcome {
    let batch = other.take_over(ROW, 1, &[b".q".to_vec()]).unwrap();
    Outcome::TABLE[usize::from(batch.outcomes[0]) - 1].0
}

/// Deletes the file; before the step of this number another host takes its row over. Returns what
/// that found, and what the first host believes.
fn stopped_before(step: usize, world: &World) -> (Outcome, Outcome) {
    let mut other = world.other();
    world.with_worker(&[world.row()], |mut worker, parent, root| {
        let mut found = None;
        let mut reached = |at: usize| {
            if at == step {
                found = Some(taken_over(&mut other));
            }
        };
        reached(0);
        let looked = worker.look(0, parent);
        reached(1);
        let taken = looked.and_then(|l| worker.take(&l, parent, Some(0)).map(|slot| (slot, l)));
        reached(2);
        let believed = match taken {
            Err(refusal) => refusal.outcome,
            Ok((slot, looked)) => {
                worker.settle(slot, &looked, parent, parent.whereabouts(root));
                drop(looked);
                reached(3);
                worker.finish();
                worker.verdicts[0].outcome
            }
        };
        reached(4);
        (found.unwrap(), believed)
    })
}

#[test]
fn whoever_is_taken_over_removes_nothing_from_then_on() {
    let found = |step| {
        let world = World::new();
        let (found, _) = stopped_before(step, &world);
        (found, world.content("run/file").is_some(), world.waits())
    };
    // The other host's count holds, whatever the first one does later.
    assert_eq!(found(0), (Outcome::TooYoung, true, 0));
    // The first host is about to take it, and has it open.
    assert_eq!(found(1), (Outcome::Open, true, 0));
    assert_eq!(found(2), (Outcome::PutBack, true, 0));
    assert_eq!(found(3), (Outcome::PutBack, true, 0));
    assert_eq!(found(4), (Outcome::Gone, false, 0));
}

/// Deletes the file; the cell is left as after a kill, since its use was not ended.
fn deleted_by_one_that_is_lost(world: &World) {
    world.with_worker(&[world.row()], |mut worker, parent, _| {
        worker.round(parent, &[0]);
        worker.finish();
        assert_eq!(worker.verdicts[0].outcome, Outcome::Deleted);
    });
}

#[test]
fn what_it_had_noted_as_taken_counts_as_deleted_by_it() {
    let world = World::new();
    let mut other = world.other();
    deleted_by_one_that_is_lost(&world);
    assert_eq!(taken_over(&mut other), Outcome::Deleted);
    assert_eq!(world.content("run/file"), None);
}

#[test]
fn what_it_deleted_counts_whatever_has_the_path_by_now() {
    let away = |world: &World| fs::rename(world.at("run"), world.at("keep")).unwrap();
    let exchanged = |world: &World| {
        fs::rename(world.at("run"), world.at("keep")).unwrap();
        fs::create_dir(world.at("run")).unwrap();
    };
    let saved = |world: &World| fs::write(world.at("run/file"), "saved").unwrap();
    let link = |world: &World| std::os::unix::fs::symlink("x", world.at("run/file")).unwrap();
    let afterwards: [fn(&World); 4] = [away, exchanged, saved, link];
    for (number, afterwards) in afterwards.iter().enumerate() {
        let world = World::new();
        let mut other = world.other();
        deleted_by_one_that_is_lost(&world);
        afterwards(&world);
        assert_eq!(taken_over(&mut other), Outcome::Deleted, "{number}");
    }
}

#[test]
fn what_it_put_back_is_not_deleted_wherever_its_directory_is() {
    let world = World::new();
    let (mut other, rows) = (world.other(), [world.row()]);
    let root = Root::open(world.directory.path()).unwrap();
    let checks = checks(&root);
    let job = job(&root, &checks, &rows);
    let parent = Parent::open(&root, &rows[0].parent).unwrap();
    let quarantine = Quarantine::open(&root, b".q").unwrap();
    let mut cell = quarantine.cell(&root, 0).unwrap();
    let mut worker = Worker::new(&job, Some((&quarantine, &mut cell)), Default::default());
    let looked = worker.look(0, &parent).unwrap();
    let slot = worker.take(&looked, &parent, Some(0)).unwrap();
    fs::rename(world.at("run"), world.at("keep")).unwrap();
    worker.settle(slot, &looked, &parent, Whereabouts::Elsewhere);
    assert_eq!(worker.verdicts[0].outcome, Outcome::Moved);
    drop((worker, looked));
    cell.note(std::iter::once(ROW));
    assert_eq!(taken_over(&mut other), Outcome::Gone);
    assert_eq!(world.content("keep/file").as_deref(), Some("planned"));
}

#[test]
fn what_was_taken_by_mistake_waits_with_its_path() {
    let world = World::new();
    let (mut other, rows) = (world.other(), [world.row()]);
    let root = Root::open(world.directory.path()).unwrap();
    let checks = checks(&root);
    let parent = Parent::open(&root, &rows[0].parent).unwrap();
    let cell = Quarantine::open(&root, b".q").unwrap().cell(&root, 0).unwrap();
    let origin = job(&root, &checks, &rows).origin(0, Some(parent.mark));
    cell.intend(std::iter::once((0, origin)));
    save(&world);
    cell.take(&parent.descriptor, b"file", 0, false).unwrap();
    assert_eq!((taken_over(&mut other), world.content("run/file")), (Outcome::Gone, None));
    drop(other);
    let fates: Vec<_> = aside(&root, true, None).unwrap().iter().map(|file| file.fate).collect();
    assert_eq!(fates, [Fate::Restored]);
    assert_eq!(world.content("run/file").as_deref(), Some("saved"));
}

#[test]
fn whoever_takes_over_later_finds_the_file_back() {
    let world = World::new();
    let (mut other, mut third) = (world.other(), world.other_in(b".trimtab-purge-s"));
    let found = world.with_worker(&[world.row()], |mut worker, parent, _| {
        let looked = worker.look(0, parent).unwrap();
        worker.take(&looked, parent, Some(0)).unwrap();
        taken_over(&mut other)
    });
    // The first that took over is lost before it could report; its notes are left.
    let names = [b".q".to_vec(), b".trimtab-purge-r".to_vec()];
    let batch = third.take_over(ROW, 1, &names).unwrap();
    let again = Outcome::TABLE[usize::from(batch.outcomes[0]) - 1].0;
    assert_eq!((found, again), (Outcome::PutBack, Outcome::PutBack));
    assert_eq!(world.content("run/file").as_deref(), Some("planned"));
}

#[test]
fn nothing_is_taken_once_the_time_is_over() {
    let world = World::new();
    let rows = [world.row()];
    let root = Root::open(world.directory.path()).unwrap();
    let checks = checks(&root);
    let (in_time, over) = (
        job(&root, &checks, &rows),
        Job { until: Until(Some(Default::default())), ..job(&root, &checks, &rows) },
    );
    let quarantine = Quarantine::open(&root, b".q").unwrap();
    let mut cell = quarantine.cell(&root, 0).unwrap();
    let parent = Parent::open(&root, &rows[0].parent).unwrap();
    let looked = Worker::new(&in_time, None, Default::default()).look(0, &parent).unwrap();
    let mut late = Worker::new(&over, Some((&quarantine, &mut cell)), Default::default());
    assert_eq!(late.look(0, &parent).err().unwrap().outcome, Outcome::TooLate);
    let refused = late.take(&looked, &parent, Some(0)).unwrap_err();
    assert_eq!(refused.outcome, Outcome::TooLate);
    assert!(statx(CWD, world.at("run/file"), AtFlags::empty(), WANTED).is_ok());
}
