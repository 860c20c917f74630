//! Files taken aside and replaced there; files in quarantine, listed and put back.

use super::*;

#[test]
fn a_file_whose_directory_was_removed_goes_if_it_is_the_planned_one() {
    let gone = |world: &World| fs::remove_dir(world.at("run")).unwrap();
    let world = World::new();
    assert_eq!(world.settle(nothing, gone), Outcome::Deleted);
    assert!(world.stranded().is_empty() && world.content("run/file").is_none());
}

#[test]
fn a_stranded_file_is_listed_with_its_path_and_restored() {
    let world = World::new();
    let gone = |world: &World| fs::remove_dir(world.at("run")).unwrap();
    assert_eq!(world.settle(save, gone), Outcome::InQuarantine);
    assert_eq!(world.stranded(), ["saved"]);
    fs::rename(world.at(".q"), world.at(".trimtab-purge-q")).unwrap();
    let root = Root::open(world.directory.path()).unwrap();
    let fates = |restore, into| fate_of_the_only_one(&root, restore, into);
    assert_eq!(fates(false, None), Fate::DirectoryGone);
    // Another directory that has the path by now is not where it was.
    fs::create_dir(world.at("run")).unwrap();
    assert_eq!(fates(true, None), Fate::DirectoryGone);
    fs::create_dir(world.at("elsewhere")).unwrap();
    assert_eq!(fates(true, Some(b"elsewhere")), Fate::Restored);
    assert_eq!(world.content("elsewhere/file").as_deref(), Some("saved"));
    assert_eq!(world.content("run/file"), None);
    assert!(!world.at(".trimtab-purge-q").exists());
}

#[test]
fn the_note_of_a_stranded_file_is_no_file_that_waits_and_stays_no_longer_than_it() {
    let world = World::new();
    let gone = |world: &World| fs::remove_dir(world.at("run")).unwrap();
    assert_eq!(world.settle(save, gone), Outcome::InQuarantine);
    let root = Root::open(world.directory.path()).unwrap();
    let waiting = || Quarantine::open(&root, b".q").unwrap().stranded().unwrap();
    assert_eq!(waiting(), [b".q/stranded/70-0".to_vec()]);
    Quarantine::open(&root, b".q").unwrap().remove(&root);
    assert_eq!(world.stranded(), ["saved"]);
    assert!(world.at(".q/stranded/70-0.origin").exists());
    // A person moves it back by hand, and does not know of the note.
    fs::rename(world.at(".q/stranded/70-0"), world.at("saved")).unwrap();
    Quarantine::open(&root, b".q").unwrap().remove(&root);
    assert!(world.at("saved").exists() && !world.at(".q/stranded").exists());
}

fn fate_of_the_only_one(root: &Root, restore: bool, into: Option<&[u8]>) -> Fate {
    let listed = aside(root, restore, into).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].origin.as_deref(), Some(&b"run/file"[..]));
    assert_eq!(listed[0].row, Some(70));
    listed[0].fate
}

#[test]
fn the_next_file_replaces_the_one_that_passed() {
    let world = World::new();
    assert_eq!(world.settle_next(nothing), (Outcome::Deleted, Outcome::Deleted));
    assert_eq!((world.content("run/file"), world.content("run/next")), (None, None));
    assert!(world.stranded().is_empty());
}

#[test]
fn what_replaces_by_mistake_is_put_back() {
    let saved = |world: &World| {
        fs::write(world.at("new"), "saved").unwrap();
        fs::rename(world.at("new"), world.at("run/next")).unwrap();
    };
    let directory = |world: &World| {
        fs::remove_file(world.at("run/next")).unwrap();
        fs::create_dir(world.at("run/next")).unwrap();
    };
    let link = |world: &World| {
        fs::remove_file(world.at("run/next")).unwrap();
        std::os::unix::fs::symlink("file", world.at("run/next")).unwrap();
    };
    let becomes = |between: &dyn Fn(&World), outcome| {
        let world = World::new();
        assert_eq!(world.settle_next(between), (Outcome::Deleted, outcome));
        assert!(fs::symlink_metadata(world.at("run/next")).is_ok());
        assert!(world.content("run/file").is_none() && world.stranded().is_empty());
    };
    becomes(&saved, Outcome::NotSame);
    becomes(&directory, Outcome::ChangedType);
    becomes(&link, Outcome::NotSame);
}

/// A rename between two names of one file does nothing and says that it worked.
#[test]
fn another_name_of_the_file_that_passed_does_not_replace_it() {
    use std::os::fd::{AsRawFd, OwnedFd};
    let world = World::new();
    let flags = rustix::fs::OFlags::PATH;
    let held: OwnedFd =
        rustix::fs::open(world.at("run/file"), flags, rustix::fs::Mode::empty()).unwrap();
    let linked = |world: &World| {
        fs::remove_file(world.at("run/next")).unwrap();
        let from = format!("/proc/self/fd/{}", held.as_raw_fd());
        let follow = AtFlags::SYMLINK_FOLLOW;
        rustix::fs::linkat(CWD, from, CWD, world.at("run/next"), follow).unwrap();
    };
    assert_eq!(world.settle_next(linked), (Outcome::Deleted, Outcome::NotSame));
    assert_eq!(world.content("run/next").as_deref(), Some("planned"));
    assert!(world.content("run/file").is_none() && world.stranded().is_empty());
}

/// Killed while a file that had passed waited in its slot for the next.
#[test]
fn a_slot_that_is_noted_twice_tells_both_files() {
    let world = World::new();
    fs::write(world.at("run/next"), "next").unwrap();
    let root = Root::open(world.directory.path()).unwrap();
    let (checks, rows) = (checks(&root), [world.row(), world.row_of("next")]);
    let job = job(&root, &checks, &rows);
    let quarantine = Quarantine::open(&root, b".q").unwrap();
    let cell = quarantine.cell(&root, 0).unwrap();
    let parent = Parent::open(&root, &rows[0].parent).unwrap();
    cell.intend([0, 1].map(|row| (4, job.origin(row, Some(parent.mark)))).into_iter());
    let left = quarantine.leftovers(&[]).unwrap();
    let row_of = |inode| left[0].origin_of(b"04", inode).unwrap().row;
    let inode = |row: usize| match rows[row].entry.id {
        ObjectId::Inode(inode) => inode,
        _ => unreachable!(),
    };
    assert_eq!((row_of(inode(0)), row_of(inode(1)), row_of(1)), (70, 71, 71));
}

#[test]
fn a_stranded_file_replaces_nothing() {
    let world = World::new();
    let taken = |world: &World| fs::write(world.at("run/file"), "new").unwrap();
    assert_eq!(world.settle(save, taken), Outcome::InQuarantine);
    fs::rename(world.at(".q"), world.at(".trimtab-purge-q")).unwrap();
    let root = Root::open(world.directory.path()).unwrap();
    assert_eq!(fate_of_the_only_one(&root, true, None), Fate::NameTaken);
    assert_eq!(world.content("run/file").as_deref(), Some("new"));
    fs::remove_file(world.at("run/file")).unwrap();
    assert_eq!(fate_of_the_only_one(&root, false, None), Fate::Waits);
    assert_eq!(fate_of_the_only_one(&root, true, None), Fate::Restored);
    assert_eq!(world.content("run/file").as_deref(), Some("saved"));
}

#[test]
fn what_a_killed_run_took_is_put_back_without_its_plan() {
    let world = World::new();
    let root = Root::open(world.directory.path()).unwrap();
    let (checks, rows) = (checks(&root), [world.row()]);
    let job = job(&root, &checks, &rows);
    let quarantine = Quarantine::open(&root, b".trimtab-purge-1").unwrap();
    let cell = quarantine.cell(&root, 0).unwrap();
    let parent = Parent::open(&root, &rows[0].parent).unwrap();
    cell.intend([(4, job.origin(0, Some(parent.mark)))].into_iter());
    // Another file by now: saved after the look.
    save(&world);
    cell.take(&parent.descriptor, b"file", 4, false).unwrap();
    assert_eq!(aside(&root, true, None).unwrap()[0].fate, Fate::InUse);
    drop((quarantine, cell));
    let listed = aside(&root, true, None).unwrap();
    assert_eq!((listed.len(), listed[0].fate), (1, Fate::Restored));
    assert_eq!(world.content("run/file").as_deref(), Some("saved"));
    assert!(quarantines(&root).unwrap().is_empty());
}

#[test]
fn what_lies_in_any_quarantine_is_exempt_and_in_a_directory_that_is_called_so_is_not() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    let root = Root::open(world.directory.path()).unwrap();
    let checks = checks(&root);
    for (mode, outcome) in [(0o700, Outcome::Exempt), (0o755, Outcome::WouldDelete)] {
        let name = format!("run/.trimtab-purge-{mode:o}");
        fs::create_dir_all(world.at(&name).join("stranded")).unwrap();
        fs::set_permissions(world.at(&name), fs::Permissions::from_mode(mode)).unwrap();
        let path = world.at(&name).join("stranded/file");
        fs::write(&path, "aside").unwrap();
        let stat = statx(CWD, &path, AtFlags::SYMLINK_NOFOLLOW, WANTED).unwrap();
        let parent = Bytes::from(format!("{name}/stranded"));
        let rows = [Row { parent, entry: Entry::of_statx(&stat), ..world.row() }];
        let job = job(&root, &checks, &rows);
        let mut worker = Worker::new(&job, None, Default::default());
        worker.directory(&[0]);
        assert_eq!(worker.verdicts[0].outcome, outcome);
    }
}

#[test]
fn nobody_stops_a_run_by_taking_the_name_of_its_quarantine() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    let root = Root::open(world.directory.path()).unwrap();
    let name = world.at(".trimtab-purge-n");
    fs::create_dir(&name).unwrap();
    fs::set_permissions(&name, fs::Permissions::from_mode(0o755)).unwrap();
    drop(Quarantine::open(&root, b".trimtab-purge-n").unwrap());
    let first = quarantines(&root).unwrap();
    assert_eq!(first.len(), 1);
    assert_ne!(first[0], b".trimtab-purge-n");
    // The next run finds the leftovers of this one.
    drop(Quarantine::open(&root, b".trimtab-purge-n").unwrap());
    assert_eq!(quarantines(&root).unwrap(), first);
}

#[test]
fn a_file_that_was_saved_after_it_was_listed_is_a_replacement() {
    let world = World::new();
    let planned = world.row();
    save(&world);
    let present = world.row().entry;
    let root = Root::open(world.directory.path()).unwrap();
    let outcome = |listed_s| Checks { listed_s, ..checks(&root) }.is_same(&planned, &present);
    assert_eq!(outcome(None), Err(Outcome::NotSame));
    assert_eq!(outcome(Some(1000)), Err(Outcome::Replaced));
    assert_eq!(outcome(Some(LATER_S)), Err(Outcome::NotSame));
}
