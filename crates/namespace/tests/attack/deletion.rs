//! The deletion that is attacked: by one process from the first row to the last, or by processes that
//! are killed at random moments, with a journal.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use namespace::index::Shard;
use namespace::removal::{Outcome, Removal, Settings};
use namespace::rules::Exemptions;
use namespace::{Root, Rules};

use super::ledger::Ended;
use super::log::now_ns;
use super::world::Scene;
use super::{EXEMPT, Random};
use crate::planned::{note, rules, settings, whole_lines};

/// A cut-off before all times: a remover with it puts back and deletes nothing.
pub const BEFORE_ALL_TIMES_S: i64 = i64::MIN / 4;

/// The usual rules, and a directory that is exempt.
fn exempting() -> Rules {
    Rules { exempt: Exemptions::default().with_path(EXEMPT.as_bytes()), ..rules() }
}

fn open(world: &Path, plan: &Path, before_s: i64, by_component: bool) -> Removal {
    open_in(world, plan, before_s, by_component, ".quarantine")
}

/// A remover that puts files aside in a directory of this name.
pub fn open_in(
    world: &Path,
    plan: &Path,
    before_s: i64,
    by_component: bool,
    quarantine: &str,
) -> Removal {
    let root = Root::open(&world.join("root")).unwrap();
    let root = if by_component { root.without_openat2() } else { root };
    let quarantine = quarantine.as_bytes().to_vec();
    let plan = Shard::open(plan).unwrap();
    Removal::open(plan, root, exempting(), Settings { before_s, quarantine, ..settings() }).unwrap()
}

/// How long the next batch is: few rows or hundreds.
pub fn length(random: &mut Random) -> usize {
    match random.below(4) {
        0 => 1 + random.below(8),
        1 => 1 + random.below(400),
        _ => 1 + random.below(60),
    }
}

/// Tells the attackers where it is.
pub fn tell(position: &File, first: usize, count: usize) {
    let words = [(first as u64).to_le_bytes(), (count as u64).to_le_bytes()].concat();
    position.write_all_at(&words, 0).unwrap();
}

pub fn position_of(world: &Path) -> File {
    OpenOptions::new().write(true).open(world.join("position")).unwrap()
}

pub fn name_of(code: u8) -> &'static str {
    Outcome::TABLE[usize::from(code) - 1].1
}

pub fn whole(scene: &Scene, seed: u64) -> Vec<Ended> {
    let mut removal = scene.world.removal_by(&scene.plan, exempting(), settings());
    let (position, mut random) = (position_of(scene.directory()), Random(seed | 1));
    let mut ended: Vec<Ended> = Vec::new();
    while (ended.len() as u64) < removal.rows() {
        let first = ended.len();
        let count = length(&mut random).min(scene.ids.len() - first);
        tell(&position, first, count);
        let began_ns = now_ns();
        let batch = removal.delete(first as u64, count as u64).unwrap();
        assert!(batch.unexplained.is_empty() && batch.outcomes.len() == count);
        let mut freed_bytes = 0;
        for (row, code) in (first..).zip(&batch.outcomes) {
            let outcome = name_of(*code);
            freed_bytes += if outcome == "deleted" { scene.allocated[row] } else { 0 };
            ended.push(Ended { id: scene.ids[row], outcome, began_ns });
        }
        assert_eq!(batch.freed_bytes, freed_bytes, "rows from {first} on");
    }
    ended
}

/// How often a deletion was killed, and how many batches that cut.
#[derive(Clone, Copy, Default)]
pub struct Kills {
    pub kills: usize,
    pub batches_cut: usize,
}

/// Deletes all rows in processes that are killed, so many times at most.
pub fn killed(scene: &Scene, seed: u64, most: usize) -> (Vec<Ended>, Kills) {
    let (mut random, mut kills) = (Random(seed.wrapping_mul(31) | 1), Kills::default());
    let variables =
        [("TRIMTAB_REMOVER", scene.plan.display().to_string()), ("TRIMTAB_SEED", seed.to_string())];
    while kills.kills < most {
        let mut child = scene.process("remover", &variables);
        // Half of the moments are after its first batch has begun: starting takes as long as that.
        if random.below(2) == 0 {
            wait_for_a_batch(scene.directory());
        }
        std::thread::sleep(Duration::from_micros(random.below(100_000) as u64));
        child.kill().unwrap();
        if child.wait().unwrap().success() {
            break;
        }
        kills.kills += 1;
    }
    assert!(scene.process("remover", &variables).wait().unwrap().success());
    let mut ended: Vec<Ended> = Vec::new();
    let (mut began, mut deleted_before) = (Vec::new(), HashSet::new());
    for words in whole_lines(&path(scene.directory())) {
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        match words[0].as_str() {
            "begin" => began.push(number(3)),
            "recovered" => deleted_before.extend(
                (number(1)..)
                    .zip(words[2].split(','))
                    .filter(|(_, code)| name_of(code.parse().unwrap()) == "deleted")
                    .map(|(row, _)| row),
            ),
            _ => {
                assert_eq!(number(1), ended.len() as u64, "a row twice or never");
                let began_ns = began[0];
                kills.batches_cut += usize::from(began.len() > 1);
                for code in words[2].split(',') {
                    let (id, said) = (scene.ids[ended.len()], name_of(code.parse().unwrap()));
                    let is_before = deleted_before.contains(&(ended.len() as u64));
                    assert!(!(is_before && said == "deleted"), "row {} twice", ended.len());
                    let outcome = if is_before { "deleted" } else { said };
                    ended.push(Ended { id, outcome, began_ns });
                }
                began.clear();
            }
        }
    }
    assert_eq!(ended.len(), scene.ids.len());
    (ended, kills)
}

/// Waits until something is added to the journal, or nothing seems to be any more.
fn wait_for_a_batch(world: &Path) {
    let length = || path(world).metadata().map_or(0, |journal| journal.len());
    let (before, began) = (length(), Instant::now());
    while length() == before && began.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Runs the process that is killed, if this is one: as `purge run`, it first puts back files that
/// an interrupted batch had taken aside, deleting nothing, and then does that batch again.
pub fn remove_if_asked() {
    let Some(plan) = std::env::var_os("TRIMTAB_REMOVER").map(PathBuf::from) else { return };
    let world = PathBuf::from(std::env::var_os("TRIMTAB_ATTACK_WORLD").unwrap());
    let seed: u64 = std::env::var("TRIMTAB_SEED").unwrap().parse().unwrap();
    let position = position_of(&world);
    let (mut first, open_batch) = next(&world);
    let mut random = Random((seed ^ first).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut journal = OpenOptions::new().append(true).create(true).open(path(&world)).unwrap();
    // Half of them as on a kernel without `openat2`.
    let by_component = random.below(2) == 0;
    if let Some(count) = open_batch {
        let mut restorer = open(&world, &plan, BEFORE_ALL_TIMES_S, by_component);
        let batch = restorer.recover(first, count).unwrap();
        // Before the notes of the killed process go with its cells.
        note(&mut journal, &format!("recovered {first} {}", codes(&batch.outcomes)));
    }
    let mut removal = open(&world, &plan, settings().before_s, by_component);
    let mut again = open_batch;
    while first < removal.rows() {
        let count = again.take().unwrap_or_else(|| length(&mut random) as u64);
        let count = count.min(removal.rows() - first);
        tell(&position, first as usize, count as usize);
        note(&mut journal, &format!("begin {first} {count} {}", now_ns()));
        let batch = removal.delete(first, count).unwrap();
        note(&mut journal, &format!("end {first} {}", codes(&batch.outcomes)));
        first += count;
    }
}

/// Outcomes as they are written down.
pub fn codes(outcomes: &[u8]) -> String {
    outcomes.iter().map(u8::to_string).collect::<Vec<_>>().join(",")
}

fn path(world: &Path) -> PathBuf {
    world.join("journal")
}

/// The row at which the next process begins, and the length of a batch that was cut.
fn next(world: &Path) -> (u64, Option<u64>) {
    let lines = whole_lines(&path(world));
    let Some(words) = lines.last() else { return (0, None) };
    let first: u64 = words[1].parse().unwrap();
    let rows = || words[2].split(',').count() as u64;
    match words[0].as_str() {
        "begin" => (first, Some(words[2].parse().unwrap())),
        "recovered" => (first, Some(rows())),
        _ => (first + rows(), None),
    }
}
