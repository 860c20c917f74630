//! Outcome of a file whose directory is moved or removed meanwhile.

use super::*;

fn removed(world: &World) {
    fs::remove_dir(world.at(world.parent)).unwrap();
}

#[test]
fn a_planned_file_goes_whose_directory_was_removed_from_its_place() {
    for parent in ["run", "users/anna/run"] {
        assert_eq!(World::with(parent).settle(nothing, removed), Outcome::Deleted, "{parent}");
    }
}

#[test]
fn one_goes_whose_directory_was_removed_and_made_again() {
    let world = World::with("anna/run");
    let again = |world: &World| {
        removed(world);
        fs::create_dir(world.at(world.parent)).unwrap();
    };
    assert_eq!(world.settle(nothing, again), Outcome::Deleted);
}

/// The planned file is not the one in the place that its directory was moved to.
#[test]
fn none_goes_whose_directory_was_moved_away_and_then_removed() {
    for (from, to) in [
        ("run", "away"),
        ("run", "kept/run"),
        ("anna/run", "anna/keep"),
        ("anna/run", "kept/run"),
        ("anna/run", "anna/run (deleted)"),
    ] {
        let world = World::with(from);
        fs::create_dir(world.at("kept")).unwrap();
        let away = |world: &World| fs::rename(world.at(from), world.at(to)).unwrap();
        let gone = |world: &World| fs::remove_dir(world.at(to)).unwrap();
        assert_eq!(world.settle(away, gone), Outcome::InQuarantine, "{from} to {to}");
        assert_eq!(world.stranded(), ["planned"], "{from} to {to}");
    }
}

/// The sweeper of an attack comes through the link that replaces a directory that is away.
#[test]
fn none_goes_whose_directory_was_removed_while_one_above_was_away() {
    let world = World::with("users/anna/run");
    let away = |world: &World| {
        fs::rename(world.at("users/anna"), world.at("away")).unwrap();
        std::os::unix::fs::symlink("../away", world.at("users/anna")).unwrap();
    };
    assert_eq!(world.settle(away, removed), Outcome::InQuarantine);
    assert_eq!(world.stranded(), ["planned"]);
}

/// A directory is in its place before and after, and was not when the file was taken.
#[test]
fn none_goes_whose_directory_was_moved_away_and_back() {
    let (run, above) = ("mv users/anna/run x", "mv users/anna x");
    let (run_back, above_back) = ("mv x users/anna/run", "mv x users/anna");
    let top = ("mv users x", "mv x users");
    for (away, back) in [(run, run_back), (above, above_back), top] {
        let world = World::with("users/anna/run");
        let outcome = world.settle(|world| other(world, away), |world| other(world, back));
        assert_eq!(outcome, Outcome::Moved, "{away}");
        assert_eq!(world.content("users/anna/run/file").as_deref(), Some("planned"), "{away}");
    }
}

#[test]
fn none_goes_whose_directory_was_removed_while_away_though_the_one_above_is_back() {
    let world = World::with("users/anna/run");
    let back = "rmdir x/run; mv x users/anna";
    let outcome = world.settle(|world| other(world, "mv users/anna x"), |world| other(world, back));
    assert_eq!(outcome, Outcome::InQuarantine);
    assert_eq!(world.stranded(), ["planned"]);
}

/// Changes on the way in one round do not count in the next, and those of neighbours never do.
#[test]
fn directories_beside_the_way_and_moves_before_it_do_not_count() {
    let world = World::with("users/anna/run");
    other(&world, "mkdir users/bob; mv users/anna x; mv x users/anna");
    let beside = |world: &World| other(world, "mv users/bob users/eve; mkdir users/anna/more");
    assert_eq!(world.settle(beside, nothing), Outcome::Deleted);
}

#[test]
fn nothing_is_taken_from_a_directory_that_is_not_in_its_place() {
    let world = World::with("users/anna/run");
    world.with_worker(&[world.row()], |mut worker, parent, _| {
        fs::rename(world.at("users/anna"), world.at("away")).unwrap();
        let before = fs::metadata(world.at("away/run/file")).unwrap().ctime_nsec();
        worker.round(parent, &[0]);
        assert_eq!(worker.verdicts[0].outcome, Outcome::Moved);
        assert_eq!(fs::metadata(world.at("away/run/file")).unwrap().ctime_nsec(), before);
    });
}
