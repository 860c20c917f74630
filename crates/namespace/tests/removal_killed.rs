//! A deletion that is killed at any moment and goes on: every row once, nothing else.
//!
//! `TRIMTAB_KILLS` is how many moments, `TRIMTAB_SEED` their seed (the commit without it).

mod planned;
mod seeded;

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use planned::{World, entry_of, files_below, names, note, whole_lines};

const BATCH_ROWS: u64 = 64;

/// Not a test: runs as the process that is killed. Its journal is one line before and one after
/// each batch.
#[test]
fn child() {
    let Ok(plan) = std::env::var("TRIMTAB_KILLED_PLAN") else { return };
    let root = std::env::var("TRIMTAB_KILLED_ROOT").unwrap();
    let journal = std::env::var("TRIMTAB_KILLED_JOURNAL").unwrap();
    let mut journal = OpenOptions::new().append(true).create(true).open(journal).unwrap();
    let root = namespace::Root::open(Path::new(&root)).unwrap();
    let plan = namespace::index::Shard::open(Path::new(&plan)).unwrap();
    let mut removal =
        namespace::removal::Removal::open(plan, root, planned::rules(), planned::settings())
            .unwrap();
    let mut first = std::env::var("TRIMTAB_KILLED_FIRST").unwrap().parse().unwrap();
    let mut recover = std::env::var("TRIMTAB_KILLED_RECOVER").is_ok();
    while first < removal.rows() {
        let count = BATCH_ROWS.min(removal.rows() - first);
        note(&mut journal, &format!("begin {first} {count}"));
        let batch = match std::mem::take(&mut recover) {
            true => removal.recover(first, count).unwrap(),
            false => removal.delete(first, count).unwrap(),
        };
        assert_eq!(batch.unexplained, Vec::<Vec<u8>>::new());
        let outcomes = names(&batch).join(",");
        note(&mut journal, &format!("end {first} {} {outcomes}", batch.freed_bytes));
        first += count;
    }
    // Killed after its last batch, a run leaves empty directories: the next one removes them.
    removal.delete(first, 0).unwrap();
}

/// Where a journal says that the next run begins, and whether it has to recover.
fn next(journal: &Path) -> (u64, bool) {
    let lines = whole_lines(journal);
    let Some(words) = lines.last() else { return (0, false) };
    let first: u64 = words[1].parse().unwrap();
    match words[0].as_str() {
        "begin" => (first, true),
        _ => (first + words[3].split(',').count() as u64, false),
    }
}

/// Runs until it ends or is killed; says whether it ended.
fn run(world: &World, plan: &Path, journal: &Path, killed_after: Option<Duration>) -> bool {
    let (first, recover) = next(journal);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "child", "--nocapture"])
        .env("TRIMTAB_KILLED_PLAN", plan)
        .env("TRIMTAB_KILLED_ROOT", world.root())
        .env("TRIMTAB_KILLED_JOURNAL", journal)
        .env("TRIMTAB_KILLED_FIRST", first.to_string())
        .stdout(std::process::Stdio::null());
    if recover {
        command.env("TRIMTAB_KILLED_RECOVER", "1");
    }
    let mut child = command.spawn().unwrap();
    if let Some(moment) = killed_after {
        std::thread::sleep(moment);
        child.kill().unwrap();
        return child.wait().unwrap().success();
    }
    assert!(child.wait().unwrap().success(), "the run that goes on failed");
    true
}

fn outcomes(journal: &Path) -> (Vec<String>, u64) {
    let (mut outcomes, mut freed_bytes) = (Vec::new(), 0);
    for words in whole_lines(journal).iter().filter(|words| words[0] == "end") {
        assert_eq!(words[1].parse::<usize>().unwrap(), outcomes.len(), "a row twice or never");
        freed_bytes += words[2].parse::<u64>().unwrap();
        outcomes.extend(words[3].split(',').map(String::from));
    }
    (outcomes, freed_bytes)
}

#[test]
fn a_killed_deletion_goes_on() {
    let moments = std::env::var("TRIMTAB_KILLS").map_or(20, |text| text.parse().unwrap());
    let mut random = seeded::seed("a killed deletion");
    let mut kills = 0;
    while kills < moments {
        let world = World::new();
        for number in 0..1500 {
            world.file(&format!("d{}/f{number}", number % 9), &"x".repeat(3000));
        }
        let planned = files_below(&world.root());
        let plan = world.plan();
        let bytes: u64 = planned.values().map(|entry| entry.allocated_bytes).sum();
        world.file("d0/later", "y");
        // One that is used after the plan.
        let used = planned.keys().nth(700).unwrap();
        fs::write(world.root().join(used), "used").unwrap();
        let lost = entry_of(&world.root().join(used)).allocated_bytes;
        let journal = world.directory.path().join("journal");
        let mut ended = false;
        while !ended && kills < moments {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let moment = Duration::from_micros((random >> 33) % 60_000);
            ended = run(&world, &plan, &journal, Some(moment));
            kills += 1;
        }
        if !ended {
            run(&world, &plan, &journal, None);
        }
        let (outcomes, freed_bytes) = outcomes(&journal);
        assert_eq!(outcomes.len(), 1500);
        let retained: Vec<_> = outcomes.iter().filter(|name| *name != "deleted").collect();
        assert_eq!(retained, ["changed_size"], "every row but the one that was used");
        assert_eq!(freed_bytes, bytes - lost);
        let left: Vec<_> = files_below(&world.root()).into_keys().collect();
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(!world.at(".quarantine").exists());
    }
}
