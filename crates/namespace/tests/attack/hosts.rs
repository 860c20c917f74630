//! Two deletions of one plan at once, each a process with a quarantine of its own, of which one is
//! killed or stopped again and again. Its batches are taken over, and a stopped one goes on.
//!
//! Which host deletes a batch, and whose report of it holds, is decided by links that never
//! replace, as the journal of several hosts decides it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use namespace::removal::Removal;
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};

use super::Random;
use super::deletion::{
    BEFORE_ALL_TIMES_S, Kills, codes, length, name_of, open_in, position_of, tell,
};
use super::ledger::Ended;
use super::log::now_ns;
use super::world::Scene;
use crate::planned::settings;

/// How long a claim holds.
const LEASE: Duration = Duration::from_millis(400);

/// The batches of the plan, the same for every host: the first row of each, and how many.
fn batches(rows: usize, seed: u64) -> Vec<(usize, usize)> {
    let (mut random, mut first, mut all) = (Random(seed | 1), 0, Vec::new());
    while first < rows {
        let count = length(&mut random).min(rows - first);
        all.push((first, count));
        first += count;
    }
    all
}

fn quarantine(host: &str) -> String {
    format!(".quarantine-{host}")
}

/// Writes a file that exists completely or not at all; `false` if there is one of that name.
fn publish(world: &Path, name: &str, host: &str, text: &str) -> bool {
    let part = world.join(format!("part-{host}"));
    fs::write(&part, text).unwrap();
    let was_first = fs::hard_link(&part, world.join(name)).is_ok();
    fs::remove_file(part).unwrap();
    was_first
}

/// Runs the process of one host, if this is one: takes batches that no other host has.
pub fn host_if_asked() {
    let Some(plan) = std::env::var_os("TRIMTAB_HOST_PLAN").map(PathBuf::from) else { return };
    let world = PathBuf::from(std::env::var_os("TRIMTAB_ATTACK_WORLD").unwrap());
    let host = std::env::var("TRIMTAB_HOST").unwrap();
    let seed: u64 = std::env::var("TRIMTAB_SEED").unwrap().parse().unwrap();
    let position = position_of(&world);
    let mut removal = open_in(&world, &plan, settings().before_s, false, &quarantine(&host));
    for (number, (first, count)) in batches(removal.rows() as usize, seed).iter().enumerate() {
        let until = up() + LEASE;
        if !publish(&world, &format!("claim-{number}"), &host, &format!("{host} {}", now_ns())) {
            continue;
        }
        tell(&position, *first, *count);
        removal.lasts_until(Some(until));
        let batch = removal.delete(*first as u64, *count as u64).unwrap();
        if !publish(&world, &format!("done-{number}"), &host, &codes(&batch.outcomes)) {
            // Another host took it over: the result of this one does not count.
            return;
        }
    }
}

fn up() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

struct Host {
    name: String,
    child: Child,
}

impl Host {
    fn start(scene: &Scene, seed: u64, number: usize) -> Self {
        let name = format!("h{number}");
        let variables = [
            ("TRIMTAB_HOST_PLAN", scene.plan.display().to_string()),
            ("TRIMTAB_HOST", name.clone()),
            ("TRIMTAB_SEED", seed.to_string()),
        ];
        let child = scene.process("host", &variables);
        Self { name, child }
    }

    /// Waits until it has begun a batch, or none is left.
    fn wait_for_a_batch(&self, world: &Path, all: &[(usize, usize)]) {
        let claim = |number: usize| fs::read_to_string(world.join(format!("claim-{number}")));
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(60) {
            let claims: Vec<_> = (0..all.len()).filter_map(|number| claim(number).ok()).collect();
            let has_begun = claims.iter().any(|text| text.split(' ').next() == Some(&self.name));
            if has_begun || claims.len() == all.len() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn tell(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

/// Deletes all rows by two hosts, one of which is lost so many times at most.
pub fn together(scene: &Scene, seed: u64, most: usize) -> (Vec<Ended>, Kills) {
    let (world, mut random) = (scene.directory(), Random(seed.wrapping_mul(37) | 1));
    let (mut kills, all) = (Kills::default(), batches(scene.ids.len(), seed));
    let mut hosts: Vec<Host> = (0..2).map(|number| Host::start(scene, seed, number)).collect();
    let is_done = |number: usize| world.join(format!("done-{number}")).exists();
    while kills.kills < most && !(0..all.len()).all(is_done) {
        let lost = random.below(2);
        hosts[lost].wait_for_a_batch(world, &all);
        std::thread::sleep(Duration::from_micros(random.below(50_000) as u64));
        let host = std::mem::replace(&mut hosts[lost], Host::start(scene, seed, 2 + kills.kills));
        kills.kills += 1;
        let is_killed = random.below(2) == 0;
        host.tell(if is_killed { Signal::KILL } else { Signal::STOP });
        kills.batches_cut += usize::from(lose(scene, &all, host, is_killed));
    }
    for host in hosts {
        end(host);
    }
    // Batches of the last hosts that were killed, and those that were never taken, go to one more.
    end(Host::start(scene, seed, 2 + most));
    let ended = account(scene, &all);
    (ended, kills)
}

fn end(mut host: Host) {
    assert!(host.child.wait().unwrap().success(), "{} failed", host.name);
}

/// Takes over the open batches of a lost host, and then lets it go on; returns whether it had any.
fn lose(scene: &Scene, all: &[(usize, usize)], mut host: Host, is_killed: bool) -> bool {
    let world = scene.directory();
    // Longer than the lease, as every host waits before it takes over.
    std::thread::sleep(LEASE + LEASE / 4);
    let claim = |number: usize| fs::read_to_string(world.join(format!("claim-{number}")));
    let is_its = |number: &usize| {
        claim(*number).is_ok_and(|text| text.split(' ').next() == Some(&host.name))
            && !world.join(format!("done-{number}")).exists()
    };
    let open = (0..all.len()).find(is_its);
    if let Some(number) = open {
        let (first, count) = all[number];
        let mut restorer: Removal =
            open_in(world, &scene.plan, BEFORE_ALL_TIMES_S, false, ".quarantine-restorer");
        let names = [quarantine(&host.name).into_bytes()];
        let batch = restorer.take_over(first as u64, count as u64, &names).unwrap();
        let is_first =
            publish(world, &format!("done-{number}"), "restorer", &codes(&batch.outcomes));
        assert!(is_first, "it was stopped, and said what became of its rows");
    }
    if is_killed {
        host.child.wait().unwrap();
    } else {
        host.tell(Signal::CONT);
        end(host);
    }
    open.is_some()
}

/// The outcome of each row.
fn account(scene: &Scene, all: &[(usize, usize)]) -> Vec<Ended> {
    let world = scene.directory();
    let read = |name: String| fs::read_to_string(world.join(name)).unwrap();
    let mut ended = Vec::new();
    for (number, (first, count)) in all.iter().enumerate() {
        let began_ns = read(format!("claim-{number}")).split(' ').nth(1).unwrap().parse().unwrap();
        let outcomes = read(format!("done-{number}"));
        let outcomes: Vec<&str> =
            outcomes.split(',').map(|c| name_of(c.parse().unwrap())).collect();
        assert_eq!(outcomes.len(), *count);
        for (row, outcome) in (*first..).zip(outcomes) {
            ended.push(Ended { id: scene.ids[row], outcome, began_ns });
        }
    }
    assert_eq!(ended.len(), scene.ids.len());
    ended
}
