//! Attackers: each a process that does one thing to files that are just being deleted, as fast as it
//! can, and writes down what it did.

pub mod deletion;
mod directories;
mod files;
pub mod hosts;
pub mod ledger;
pub mod log;
pub mod world;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use files::age;
use log::{Log, Seen, seen};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::fs::{linkat, openat, renameat_with, unlinkat};

/// Role of each process.
pub const ROLES: [&str; 11] = [
    "toucher", "changer", "mender", "writer", "reader", "renamer", "linker", "saver", "replacer",
    "swapper", "sweeper",
];
/// Where another plan's run has left files.
pub const OTHER_QUARANTINE: &str = ".trimtab-purge-0123456789abcdef0123456789abcdef";
/// A directory that the policy exempts.
pub const EXEMPT: &str = "kept";
pub const FILES_PER_DIRECTORY: usize = 50;
pub const DIRECTORIES_PER_USER: usize = 10;
pub const BYSTANDERS_PER_DIRECTORY: usize = 10;
/// How many rows from the first of a batch on are attacked most; batches are longer.
const WINDOW_ROWS: usize = 12;

pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % limit as u64) as usize
    }
}

pub fn directory_path(number: usize) -> String {
    format!("u{}/d{}", number / DIRECTORIES_PER_USER, number % DIRECTORIES_PER_USER)
}

/// The path of a planned file: with others, alone in its directory, or left by another plan's run.
pub fn planned_path(row: usize) -> String {
    let (directory, number) =
        (directory_path(row / FILES_PER_DIRECTORY), row % FILES_PER_DIRECTORY);
    if is_left_by_another_plan(row) {
        format!("{OTHER_QUARANTINE}/cell-1-2-0/p{row}")
    } else {
        format!("{directory}/{}", name_in_directory(number))
    }
}

/// Whether a planned file is in the quarantine of another plan: it must never go.
pub fn is_left_by_another_plan(row: usize) -> bool {
    row % 997 == 5
}

/// The last of a directory is alone in one of its own, which its removal leaves empty.
pub fn name_in_directory(number: usize) -> String {
    let directory = if number == FILES_PER_DIRECTORY - 1 { "lone/" } else { "" };
    format!("{directory}p{number}")
}

/// State of one attacker.
pub struct Attacker {
    root: PathBuf,
    outside: PathBuf,
    rows: usize,
    random: Random,
    log: Log,
    /// The rows that the deletion is at: the first, and how many.
    position: File,
    role: String,
    number: usize,
}

impl Attacker {
    pub fn new(world: &Path, role: &str, rows: usize, seed: u64) -> Self {
        // So that two of them do not go for the same rows in the same order.
        let place = ROLES.iter().position(|name| *name == role).unwrap() as u64 + 1;
        Self {
            root: world.join("root"),
            outside: world.join("outside"),
            rows,
            random: Random((seed ^ place.wrapping_mul(0x9E37_79B9_7F4A_7C15)) | 1),
            log: Log::create(&log_path(world, role)),
            position: File::open(world.join("position")).unwrap(),
            role: role.to_string(),
            number: 0,
        }
    }

    /// Performs one act of its role.
    pub fn act(&mut self) {
        self.number += 1;
        self.log.intend();
        match self.role.as_str() {
            "toucher" => self.touch(),
            "changer" => self.change(),
            "mender" => self.mend(),
            "writer" => self.write(),
            "reader" => self.read(),
            "renamer" => self.rename(),
            "linker" => self.link(),
            "saver" => self.save(),
            "replacer" => self.replace(),
            "sweeper" => self.sweep(),
            _ => self.swap(),
        }
        self.log.ended();
    }

    /// A planned file that is about to be deleted: among all of them no two would ever meet. Some
    /// are of the next batch, so that there is much of which is certain that it came before.
    fn any_row(&mut self) -> usize {
        let (first, count) = self.position();
        let row = match self.random.below(8) {
            0 => first + count + self.random.below(2 * WINDOW_ROWS),
            1 | 2 => first + self.random.below(count),
            _ => first + self.random.below(WINDOW_ROWS),
        };
        row % self.rows
    }

    /// The first row of the batch that is under way, and how many they are.
    fn position(&self) -> (usize, usize) {
        let mut words = [0; 16];
        self.position.read_exact_at(&mut words, 0).unwrap();
        let word = |at: usize| u64::from_le_bytes(words[at..at + 8].try_into().unwrap()) as usize;
        (word(0), word(8).max(1))
    }

    fn any(&mut self) -> PathBuf {
        let row = self.any_row();
        self.root.join(planned_path(row))
    }

    /// A name in a directory that no other process uses.
    fn own(&self, directory: &Path) -> Option<Own> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, directory, flags, Mode::empty()).ok()?;
        Some(Own { directory, name: format!("{}-{}", self.role, self.number) })
    }

    /// A name of its own beside a file.
    fn own_beside(&self, path: &Path) -> Option<Own> {
        self.own(path.parent()?)
    }

    /// A name of its own beside a file, in another directory, or outside of the root.
    fn own_somewhere(&mut self, path: &Path) -> Option<Own> {
        match self.random.below(3) {
            0 => self.own_beside(path),
            1 => {
                let other = self.any();
                self.own_beside(&other)
            }
            _ => self.own(&self.outside),
        }
    }
}

/// A name that one attacker alone uses. Its directory is held open, so that its file can be
/// identified whatever is done to the path.
struct Own {
    directory: OwnedFd,
    name: String,
}

impl Own {
    fn seen(&self) -> Option<Seen> {
        seen(&self.directory, Path::new(&self.name))
    }

    fn take(&self, path: &Path) -> bool {
        let flags = RenameFlags::NOREPLACE;
        renameat_with(CWD, path, &self.directory, &self.name, flags).is_ok()
    }

    /// Moves the file with this name to a path.
    fn give(&self, path: &Path) -> bool {
        let flags = RenameFlags::NOREPLACE;
        renameat_with(&self.directory, &self.name, CWD, path, flags).is_ok()
    }

    fn exchange(&self, path: &Path) -> bool {
        let flags = RenameFlags::EXCHANGE;
        renameat_with(&self.directory, &self.name, CWD, path, flags).is_ok()
    }

    fn link(&self, path: &Path) -> bool {
        linkat(CWD, path, &self.directory, &self.name, AtFlags::empty()).is_ok()
    }

    fn remove(&self) {
        unlinkat(&self.directory, &self.name, AtFlags::empty()).unwrap();
    }
}

pub fn log_path(world: &Path, role: &str) -> PathBuf {
    world.join(format!("log-{role}"))
}

/// Moves, and replaces nothing.
fn move_to(from: &Path, to: &Path) -> bool {
    renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE).is_ok()
}

fn exchange(one: &Path, other: &Path) -> bool {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok()
}
