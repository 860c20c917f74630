//! A deletion among processes that write, read, touch, rename, exchange, link, save, replace and change
//! the same files as fast as they can, and swap the directories for links that lead elsewhere.
//!
//! Each of them writes down what it begins and what is certain once it has ended ([`attack::log`]).
//! In the end every name of every file is accounted for ([`attack::ledger`]): the deletion has
//! removed the only name of planned files that no process was seen to have used, and nothing else.
//!
//! `TRIMTAB_ATTACK_FILES` is the number of planned files, `TRIMTAB_ATTACK_KILLS` how often a
//! deletion is killed, `TRIMTAB_ATTACK_LOST` how often one of two is lost, `TRIMTAB_ATTACK_PLACE` a
//! directory to do it in, `TRIMTAB_ATTACK_REPORT` a file for the figures, `TRIMTAB_SEED` the seed
//! (the commit without it).

mod attack;
mod planned;
mod seeded;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use attack::deletion::Kills;
use attack::ledger::{Ended, Ledger, aside_below, complaints, living, names_below, undecided};
use attack::log::Fact;
use attack::world::Scene;
use attack::{ROLES, deletion, hosts, world};

/// One attack at a time: two would share the processors, and fewer would come in between.
static ALONE: Mutex<()> = Mutex::new(());

/// Not a test: runs as an attacker's process.
#[test]
fn attacker() {
    world::attack_if_asked();
}

/// Not a test: runs as the process that deletes and is killed.
#[test]
fn remover() {
    deletion::remove_if_asked();
}

/// Not a test: runs as the process that deletes beside another.
#[test]
fn host() {
    hosts::host_if_asked();
}

struct Told {
    seed: u64,
    kills: Kills,
    ended: Vec<Ended>,
    ledger: Ledger,
    aside: usize,
    /// Deleted files that live on under another name.
    living: usize,
    elapsed: Duration,
    wrong: Vec<String>,
}

/// How the rows are deleted.
#[derive(Clone, Copy)]
enum By {
    One,
    Killed(usize),
    /// By two processes at once, one of which is lost this many times.
    Two(usize),
}

fn attack(rows: usize, by: By) -> Told {
    let place = std::env::var_os("TRIMTAB_ATTACK_PLACE").map_or(std::env::temp_dir(), From::from);
    let seed = seeded::seed("attack");
    let _alone = ALONE.lock();
    let scene = Scene::new(&place, rows);
    let attackers = scene.attackers(seed);
    let began = Instant::now();
    let (ended, kills) = match by {
        By::One => (deletion::whole(&scene, seed), Kills::default()),
        By::Killed(most) => deletion::killed(&scene, seed, most),
        By::Two(lost) => hosts::together(&scene, seed, lost),
    };
    let elapsed = began.elapsed();
    scene.stop(attackers);
    let ledger = Ledger::read(scene.directory());
    let aside = aside_below(&scene.world.root());
    let after = names_below(&scene.places());
    let wrong = complaints(&scene.before, &after, &ended, &ledger);
    let living = living(&ended, &after);
    Told { seed, kills, ended, ledger, aside, living, elapsed, wrong }
}

impl Told {
    fn outcomes(&self) -> BTreeMap<&'static str, usize> {
        let mut outcomes = BTreeMap::new();
        self.ended.iter().for_each(|file| *outcomes.entry(file.outcome).or_default() += 1);
        outcomes
    }

    /// Prints the figures, writes them to the report, and checks them.
    fn check(&self) {
        let count = |fact| self.ledger.facts.get(fact).copied().unwrap_or(0);
        let facts: BTreeMap<_, _> =
            Fact::ALL.iter().map(|(fact, name)| (*name, count(fact))).collect();
        let outcomes = self.outcomes();
        let text = serde_json::json!({
            "files": self.ended.len(),
            "seed": self.seed,
            "elapsed_s": self.elapsed.as_secs_f64(),
            "kills": self.kills.kills,
            "batches_cut": self.kills.batches_cut,
            "outcomes": outcomes,
            "acts": self.ledger.acts,
            "certain": facts,
            "left_aside": self.aside,
            "deleted_while_moved": undecided(&self.ended, &self.ledger),
            "deleted_while_linked": self.living,
            "complaints": self.wrong.len(),
        });
        println!("{text}");
        if let Some(path) = std::env::var_os("TRIMTAB_ATTACK_REPORT") {
            std::fs::write(path, format!("{text}\n")).unwrap();
        }
        let first: Vec<_> = self.wrong.iter().take(20).collect();
        assert!(first.is_empty(), "{} (seed {}): {first:#?}", self.wrong.len(), self.seed);
        let deleted = outcomes.get("deleted").copied().unwrap_or(0);
        assert!(deleted > 0, "nothing was deleted: {outcomes:?}");
        assert!(deleted < self.ended.len(), "no attacker came in between: {outcomes:?}");
        for role in ROLES {
            assert!(self.ledger.acts[role] > 0, "the {role} did nothing");
        }
    }
}

fn setting(name: &str, usual: usize) -> usize {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

#[test]
fn nothing_but_planned_and_unused_files_goes() {
    attack(setting("TRIMTAB_ATTACK_FILES", 8_000), By::One).check();
}

#[test]
fn nor_does_it_when_the_deletion_is_killed() {
    let kills = setting("TRIMTAB_ATTACK_KILLS", 20);
    let report = attack(setting("TRIMTAB_ATTACK_FILES", 8_000), By::Killed(kills));
    report.check();
    assert!(report.kills.batches_cut > 0, "no kill came while a batch was under way");
}

#[test]
fn nor_does_it_when_two_delete_and_one_is_lost() {
    let lost = setting("TRIMTAB_ATTACK_LOST", 6);
    let report = attack(setting("TRIMTAB_ATTACK_FILES", 4_000), By::Two(lost));
    report.check();
    assert!(report.kills.batches_cut > 0, "no host was lost while it had a batch");
}
