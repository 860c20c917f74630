//! Compares every name that exists in the end with the deletion's outcomes and the attackers'
//! notes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;

use super::log::{Fact, Identity, seen};
use super::{ROLES, is_left_by_another_plan, log_path};

/// Notes of all attackers.
#[derive(Default)]
pub struct Ledger {
    pub facts: HashMap<Fact, usize>,
    /// How many acts each role completed.
    pub acts: BTreeMap<&'static str, u64>,
    /// The attacker that used each file, and when that was last certain.
    used: HashMap<Identity, (&'static str, u64)>,
    /// When it was certain for the first time.
    moved: HashMap<Identity, u64>,
    made: HashSet<Identity>,
    /// How many names were given to a file, less those that were removed.
    names: HashMap<Identity, i64>,
    removed: HashSet<Identity>,
    lost: Vec<Identity>,
    /// Put aside while their directory was away.
    away: HashSet<Identity>,
}

impl Ledger {
    /// Reads the logs; an act that began and did not end is an error.
    pub fn read(world: &Path) -> Self {
        let mut ledger = Self::default();
        for role in ROLES {
            let text = fs::read_to_string(log_path(world, role)).unwrap();
            let (mut intended, mut ended) = (0, 0);
            for line in text.lines() {
                let words: Vec<&str> = line.split(' ').collect();
                match words[..] {
                    ["?", _] => intended += 1,
                    [".", _] => ended += 1,
                    [word, at_ns, inode, birth_ns] => {
                        let id = (inode.parse().unwrap(), birth_ns.parse().unwrap());
                        ledger.note(role, word, at_ns.parse().unwrap(), id);
                    }
                    _ => panic!("{role}: {line}"),
                }
            }
            assert_eq!(intended, ended, "{role} ended within an act");
            ledger.acts.insert(role, ended);
        }
        ledger
    }

    fn note(&mut self, role: &'static str, word: &str, at_ns: u64, id: Identity) {
        let (fact, _) = *Fact::ALL.iter().find(|(_, name)| *name == word).unwrap();
        *self.facts.entry(fact).or_default() += 1;
        match fact {
            Fact::Used => drop(self.used.insert(id, (role, at_ns))),
            Fact::Moved => {
                let first = self.moved.entry(id).or_insert(at_ns);
                *first = at_ns.min(*first);
            }
            Fact::Made => drop(self.made.insert(id)),
            Fact::Linked => *self.names.entry(id).or_default() += 1,
            Fact::Removed => {
                *self.names.entry(id).or_default() -= 1;
                self.removed.insert(id);
            }
            Fact::Lost => self.lost.push(id),
            Fact::Away => drop(self.away.insert(id)),
            Fact::Late => {}
        }
    }
}

/// Outcome of a planned file, as the deletion reports it.
pub struct Ended {
    pub id: Identity,
    pub outcome: &'static str,
    /// When its batch began.
    pub began_ns: u64,
}

/// Names found and the number of links that the file system says.
pub type Names = HashMap<Identity, (i64, u32)>;

/// Every file below some directories, but for the notes of deletions that were killed.
pub fn names_below(places: &[PathBuf]) -> Names {
    let (mut by_file, mut pending) = (Names::new(), places.to_vec());
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                pending.push(entry.path());
            } else if kind.is_file() && !(is_aside(&entry.path()) && is_note(&entry.file_name())) {
                let file = seen(&CWD, &entry.path()).unwrap();
                let names = by_file.entry(file.id).or_insert((0, file.links));
                names.0 += 1;
            }
        }
    }
    by_file
}

/// Whether a path leads through the quarantine.
pub fn is_aside(path: &Path) -> bool {
    path.components().any(|part| is_ours(part.as_os_str()))
}

/// Whether it is the quarantine of a deletion; with several, each has its own.
fn is_ours(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".quarantine")
}

fn is_note(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    [b"taken", &b"origins"[..]].contains(&name)
        || name.starts_with(b"probe-")
        || name.ends_with(b".origin")
}

/// How many files wait in quarantine for a person.
pub fn aside_below(place: &Path) -> usize {
    let entries = fs::read_dir(place).unwrap().map(|entry| entry.unwrap());
    let quarantines = entries.filter(|entry| is_ours(&entry.file_name())).map(|entry| entry.path());
    names_below(&quarantines.collect::<Vec<_>>()).len()
}

/// All that is not as it should be.
pub fn complaints(
    before: &HashSet<Identity>,
    after: &Names,
    ended: &[Ended],
    ledger: &Ledger,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut deleted = HashSet::new();
    for (row, file) in ended.iter().enumerate() {
        if file.outcome != "deleted" {
            continue;
        }
        deleted.insert(file.id);
        if is_left_by_another_plan(row) {
            wrong.push(format!("row {row}: it lay in another plan's quarantine, and was deleted"));
        }
        if let Some((role, at_ns)) = ledger.used.get(&file.id) {
            let after_ns = i128::from(*at_ns) - i128::from(file.began_ns);
            let when = format!("{after_ns} ns after its batch began");
            wrong.push(format!("row {row}: used by the {role}, certain {when}, and deleted"));
        }
        if ledger.away.contains(&file.id) {
            wrong.push(format!("row {row}: put aside while its directory was away, and deleted"));
        }
        if ledger.moved.get(&file.id).is_some_and(|at_ns| *at_ns < file.began_ns) {
            wrong.push(format!("row {row}: moved before its batch began, and deleted"));
        }
    }
    for id in before.iter().chain(&ledger.made) {
        let expected = 1 + ledger.names.get(id).unwrap_or(&0) - i64::from(deleted.contains(id));
        let (names_left, links) = after.get(id).copied().unwrap_or((0, 0));
        if names_left != expected {
            let said = ended.iter().find(|file| file.id == *id).map_or("made", |file| file.outcome);
            wrong.push(format!("{id:?} ({said}) has {names_left} names, and not {expected}"));
        }
        if names_left != i64::from(links) {
            wrong.push(format!("{id:?} has {links} links, and {names_left} names"));
        }
    }
    for id in after.keys().filter(|id| !before.contains(id) && !ledger.made.contains(id)) {
        wrong.push(format!("{id:?} was made by no attacker"));
    }
    for id in ledger.lost.iter().filter(|id| !ledger.removed.contains(id)) {
        wrong.push(format!("{id:?} went while it was open or its directory away"));
    }
    wrong
}

/// How many deleted files were moved, or given an attribute, while their batch was under way:
/// whether before they were looked at or after is unknown.
pub fn undecided(ended: &[Ended], ledger: &Ledger) -> usize {
    let is_one = |file: &&Ended| file.outcome == "deleted" && ledger.moved.contains_key(&file.id);
    ended.iter().filter(is_one).count()
}

/// How many deleted files live on under a name that a link gave them as they went: it had found
/// them by their planned name before they were put aside.
pub fn living(ended: &[Ended], after: &Names) -> usize {
    let is_one = |file: &&Ended| file.outcome == "deleted" && after.contains_key(&file.id);
    ended.iter().filter(is_one).count()
}
