//! A deletion among processes that write, read, touch, rename, exchange, link, save, replace and change
//! the same files as fast as they can, and swap the directories for links that lead elsewhere.
//!
//! Each of them writes down what it begins and what is certain once it has ended ([`attack::log`]).
//! In the end every name of every file is accounted for ([`attack::ledger`]): the deletion has
//! removed the only name of files that were planned and that nobody was seen to have used, and
//! nothing else.
//!
//! `TRIMTAB_ATTACK_FILES` is the number of planned files, `TRIMTAB_ATTACK_PLACE` a directory to do it
//! in, `TRIMTAB_ATTACK_REPORT` a file for the figures, `TRIMTAB_SEED` the seed (the commit without it).

mod attack;
mod planned;
mod seeded;

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use attack::ledger::{Ended, Ledger, complaints, names_below, undecided};
use attack::log::{Fact, Identity, now_ns, seen};
use attack::{
    Attacker, BYSTANDERS_PER_DIRECTORY, DIRECTORIES_PER_USER, FILES_PER_DIRECTORY, ROLES, Random,
};
use namespace::removal::Outcome;
use planned::{World, entry_of};
use rustix::fs::CWD;

/// Not a test: what an attacker's process runs.
#[test]
fn attacker() {
    let Ok(role) = std::env::var("TRIMTAB_ATTACKER") else { return };
    let setting = |name: &str| std::env::var(name).unwrap();
    let number = |name: &str| setting(name).parse::<u64>().unwrap();
    let world = PathBuf::from(setting("TRIMTAB_ATTACKER_WORLD"));
    let (rows, seed) = (number("TRIMTAB_ATTACKER_ROWS"), number("TRIMTAB_ATTACKER_SEED"));
    let mut attacker = Attacker::new(&world, &role, rows as usize, seed);
    while !world.join("stop").exists() {
        (0..20).for_each(|_| attacker.act());
    }
}

fn start(world: &World, role: &str, seed: u64, rows: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "attacker", "--nocapture"])
        .env("TRIMTAB_ATTACKER", role)
        .env("TRIMTAB_ATTACKER_WORLD", world.directory.path())
        .env("TRIMTAB_ATTACKER_SEED", seed.to_string())
        .env("TRIMTAB_ATTACKER_ROWS", rows.to_string())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

/// Makes a file as all are: of the same length, owner, mode and times as its neighbours.
fn make(path: &Path, content: &str) -> Identity {
    fs::write(path, content).unwrap();
    attack::age(path);
    seen(&CWD, path).unwrap().id
}

/// A tree of planned files and bystanders, and one outside with the same names: who they are.
fn populate(world: &World, rows: usize) -> HashSet<Identity> {
    let mut all = HashSet::new();
    let outside = world.directory.path().join("outside");
    fs::create_dir_all(world.at("kept")).unwrap();
    for number in 0..rows.div_ceil(FILES_PER_DIRECTORY) {
        let directory = world.at(&attack::directory_path(number));
        fs::create_dir_all(&directory).unwrap();
        // Blocks are what takes long to write: every eighth directory has some.
        let content = if number % 8 == 0 { "content\n" } else { "" };
        let first = number * FILES_PER_DIRECTORY;
        for row in first..rows.min(first + FILES_PER_DIRECTORY) {
            all.insert(make(&world.at(&attack::planned_path(row)), content));
        }
        for bystander in 0..BYSTANDERS_PER_DIRECTORY {
            all.insert(make(&directory.join(format!("b{bystander}")), content));
        }
        if number < DIRECTORIES_PER_USER {
            let directory = outside.join(format!("u/d{number}"));
            fs::create_dir_all(&directory).unwrap();
            for file in 0..FILES_PER_DIRECTORY {
                all.insert(make(&directory.join(format!("p{file}")), content));
            }
        }
    }
    all
}

/// What one attack came to.
struct Told {
    outcomes: BTreeMap<&'static str, usize>,
    ledger: Ledger,
    undecided: usize,
    elapsed: Duration,
    wrong: Vec<String>,
}

fn attack(place: &Path, seed: u64, rows: usize) -> Told {
    let world = World::within(place);
    let before = populate(&world, rows);
    let planned: Vec<PathBuf> = (0..rows).map(|row| attack::planned_path(row).into()).collect();
    let plan = world.plan_of(planned.iter().map(|path| {
        let full = world.root().join(path);
        (path.as_path(), entry_of(&full))
    }));
    let allocated: Vec<u64> =
        planned.iter().map(|path| entry_of(&world.root().join(path)).allocated_bytes).collect();
    let ids: Vec<Identity> =
        planned.iter().map(|path| seen(&CWD, &world.root().join(path)).unwrap().id).collect();
    let position = File::create(world.directory.path().join("position")).unwrap();
    position.write_all_at(&[0; 16], 0).unwrap();
    let attackers: Vec<_> = ROLES.iter().map(|role| start(&world, role, seed, rows)).collect();
    wait_for_logs(&world);
    let began = Instant::now();
    let ended = delete(&world, &plan, &position, seed, &ids, &allocated);
    let elapsed = began.elapsed();
    File::create(world.directory.path().join("stop")).unwrap();
    for (mut attacker, role) in attackers.into_iter().zip(ROLES) {
        assert!(attacker.wait().unwrap().success(), "the {role} saw what must not be");
    }
    let ledger = Ledger::read(world.directory.path());
    let after = names_below(&[world.root(), world.directory.path().join("outside")]);
    let mut outcomes = BTreeMap::new();
    ended.iter().for_each(|file| *outcomes.entry(file.outcome).or_default() += 1);
    let wrong = complaints(&before, &after, &ended, &ledger);
    Told { outcomes, undecided: undecided(&ended, &ledger), ledger, elapsed, wrong }
}

/// Deletes all rows in batches of many lengths; says where it is.
fn delete(
    world: &World,
    plan: &Path,
    position: &File,
    seed: u64,
    ids: &[Identity],
    allocated: &[u64],
) -> Vec<Ended> {
    let (mut removal, mut random) = (world.removal(plan), Random(seed | 1));
    let mut ended: Vec<Ended> = Vec::new();
    while (ended.len() as u64) < removal.rows() {
        let first = ended.len();
        let length = match random.below(4) {
            0 => 1 + random.below(8),
            1 => 1 + random.below(400),
            _ => 1 + random.below(60),
        };
        let count = length.min(ids.len() - first);
        let words = [(first as u64).to_le_bytes(), (count as u64).to_le_bytes()].concat();
        position.write_all_at(&words, 0).unwrap();
        let began_ns = now_ns();
        let batch = removal.delete(first as u64, count as u64).unwrap();
        assert!(batch.unexplained.is_empty() && batch.outcomes.len() == count);
        let mut freed_bytes = 0;
        for (row, code) in (first..).zip(&batch.outcomes) {
            let outcome = Outcome::TABLE[usize::from(*code) - 1].1;
            freed_bytes += if outcome == "deleted" { allocated[row] } else { 0 };
            ended.push(Ended { id: ids[row], outcome, began_ns });
        }
        assert_eq!(batch.freed_bytes, freed_bytes, "rows from {first} on");
    }
    ended
}

/// Waits until every attacker has begun.
fn wait_for_logs(world: &World) {
    let began = Instant::now();
    let ready = |role: &&str| {
        let log = attack::log_path(world.directory.path(), role);
        log.metadata().is_ok_and(|log| log.len() > 0)
    };
    while !ROLES.iter().all(ready) {
        assert!(began.elapsed() < Duration::from_secs(60), "the attackers did not start");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The figures, for whoever keeps them.
fn report(told: &Told, rows: usize, seed: u64) {
    let facts: BTreeMap<_, _> = Fact::ALL
        .iter()
        .map(|(fact, name)| (*name, told.ledger.facts.get(fact).copied().unwrap_or(0)))
        .collect();
    let text = serde_json::json!({
        "files": rows,
        "seed": seed,
        "elapsed_s": told.elapsed.as_secs_f64(),
        "outcomes": told.outcomes,
        "acts": told.ledger.acts,
        "certain": facts,
        "deleted_while_moved": told.undecided,
        "complaints": told.wrong.len(),
    });
    println!("{text}");
    if let Some(path) = std::env::var_os("TRIMTAB_ATTACK_REPORT") {
        fs::write(path, format!("{text}\n")).unwrap();
    }
}

#[test]
fn nothing_but_planned_and_unused_files_goes() {
    let files = std::env::var("TRIMTAB_ATTACK_FILES").map_or(6000, |text| text.parse().unwrap());
    let place = std::env::var_os("TRIMTAB_ATTACK_PLACE").map_or(std::env::temp_dir(), From::from);
    let seed = seeded::seed("attack");
    let told = attack(&place, seed, files);
    report(&told, files, seed);
    let first: Vec<_> = told.wrong.iter().take(20).collect();
    assert!(first.is_empty(), "{} (seed {seed}): {first:#?}", told.wrong.len());
    let deleted = told.outcomes.get("deleted").copied().unwrap_or(0);
    assert!(deleted > 0, "nothing was deleted: {:?}", told.outcomes);
    assert!(deleted < files, "nobody came in between: {:?}", told.outcomes);
    for role in ROLES {
        assert!(told.ledger.acts[role] > 0, "the {role} did nothing");
    }
}
