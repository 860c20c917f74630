//! A deletion among processes that rename, exchange, link, touch, write and hold the same files as
//! fast as they can, and swap the directories for links that lead outside.
//!
//! No attacker removes anything. So whatever is missing in the end was removed by the deletion, and
//! it may have removed only planned files that nobody was seen to have used since the plan.
//!
//! `TRIMTAB_ATTACK_FILES` is the number of planned files (600 without it), `TRIMTAB_SEED` the seed.

mod planned;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use namespace::removal::Outcome;
use planned::{World, entry_of, files_below};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, StatxFlags, openat, renameat_with, statx,
};

const ROLES: [&str; 6] = ["toucher", "writer", "holder", "renamer", "swapper", "saver"];
const FILES_PER_DIRECTORY: usize = 50;
/// How many rows from the first of a batch on are attacked; batches are longer.
const WINDOW_ROWS: usize = 12;

/// Inode and birth: what no later file shares.
type Identity = (u64, i64);

fn identity(descriptor: &impl std::os::fd::AsFd, path: &Path) -> Option<(Identity, u32)> {
    let flags = match path.as_os_str().is_empty() {
        true => AtFlags::EMPTY_PATH,
        false => AtFlags::SYMLINK_NOFOLLOW,
    };
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let stat = statx(descriptor, path, flags, wanted).ok()?;
    let birth_ns = stat.stx_btime.tv_sec * 1_000_000_000 + i64::from(stat.stx_btime.tv_nsec);
    Some(((stat.stx_ino, birth_ns), stat.stx_nlink))
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

fn planned_path(directory: usize, file: usize) -> String {
    format!("d{directory}/p{file}")
}

/// What one attacker knows.
struct Attacker {
    world: PathBuf,
    directories: usize,
    random: Random,
    log: File,
    /// The row that the deletion has come to.
    position: File,
    number: usize,
}

impl Attacker {
    fn at(&self, path: &str) -> PathBuf {
        self.world.join("root").join(path)
    }

    /// A planned file that is about to be deleted: among all of them no two would ever meet.
    fn any_row(&mut self) -> (usize, usize) {
        let mut position = [0; 8];
        self.position.read_exact_at(&mut position, 0).unwrap();
        let row = u64::from_le_bytes(position) as usize + self.random.below(WINDOW_ROWS);
        (row / FILES_PER_DIRECTORY % self.directories, row % FILES_PER_DIRECTORY)
    }

    fn any(&mut self) -> PathBuf {
        let (directory, file) = self.any_row();
        self.at(&planned_path(directory, file))
    }

    /// Notes that a file was used: from now on it has to stay.
    fn used(&mut self, (inode, birth_ns): Identity) {
        writeln!(self.log, "{inode} {birth_ns}").unwrap();
    }

    fn act(&mut self, role: &str) {
        match role {
            "toucher" => self.touch(),
            "writer" => self.write(),
            "holder" => self.hold(),
            "renamer" => self.rename(),
            "swapper" => self.swap(),
            _ => self.save(),
        }
        self.number += 1;
    }

    fn touch(&mut self) {
        let path = self.any();
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(file) = openat(CWD, &path, flags, Mode::empty()) else { return };
        let Some((before, _)) = identity(&file, Path::new("")) else { return };
        let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let times = rustix::fs::Timestamps { last_access: now, last_modification: now };
        let by_descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
        if rustix::fs::utimensat(CWD, by_descriptor, &times, AtFlags::empty()).is_err() {
            return;
        }
        // Seen under a name after it was touched: nobody may say that it was old.
        if identity(&CWD, &path).is_some_and(|(after, _)| after == before) {
            self.used(before);
        }
    }

    fn write(&mut self) {
        let path = self.any();
        let Ok(mut file) = OpenOptions::new().append(true).open(path) else { return };
        let _ = file.write_all(b" w");
        if let Some((id, 1..)) = identity(&file, Path::new("")) {
            self.used(id);
        }
    }

    fn hold(&mut self) {
        let path = self.any();
        let Ok(file) = File::open(path) else { return };
        let names = |file: &File| identity(file, Path::new("")).unwrap().1;
        if names(&file) == 0 {
            return;
        }
        std::thread::sleep(Duration::from_micros(self.random.below(500) as u64));
        assert!(names(&file) > 0, "a file was removed while it was open");
    }

    fn rename(&mut self) {
        let (one, elsewhere) = (self.any(), self.random.below(self.directories));
        let other = match self.random.below(3) {
            0 => one.with_extension("renamed"),
            1 => self.at(&format!("d{elsewhere}/moved-{}", self.number)),
            _ => {
                let _ = fs::hard_link(&one, one.with_extension(format!("link{}", self.number)));
                return;
            }
        };
        let move_to = |from: &Path, to: &Path| {
            renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE).is_ok()
        };
        if move_to(&one, &other) && self.random.below(4) > 0 {
            move_to(&other, &one);
        }
    }

    fn swap(&mut self) {
        let exchange = |one: &Path, other: &Path| {
            let _ = renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
        };
        let (number, file) = self.any_row();
        let directory = self.at(&format!("d{number}"));
        match self.random.below(6) {
            // The directory becomes a link that leads outside, where files have the same names.
            0 => {
                let link = self.at(&format!("link{number}"));
                let _ = symlink(self.world.join(format!("outside/d{number}")), &link);
                exchange(&link, &directory);
                exchange(&link, &directory);
                let _ = fs::remove_file(&link);
            }
            1 => {
                let other = self.at(&format!("d{}", (number + 1) % self.directories));
                exchange(&directory, &other);
                exchange(&directory, &other);
            }
            // A bystander gets the name of a planned file.
            _ => exchange(&directory.join(format!("p{file}")), &directory.join(format!("b{file}"))),
        }
    }

    /// As an editor that keeps the old version under another name.
    fn save(&mut self) {
        let path = self.any();
        let new = path.with_extension(format!("save{}", self.number));
        if fs::write(&new, format!("saved-{}\n", self.number)).is_ok() {
            let exchanged = renameat_with(CWD, &new, CWD, &path, RenameFlags::EXCHANGE);
            writeln!(self.log, "saved-{}", self.number).unwrap();
            let _ = exchanged;
        }
    }
}

/// Not a test: what an attacker's process runs.
#[test]
fn attacker() {
    let Ok(role) = std::env::var("TRIMTAB_ATTACKER") else { return };
    let setting = |name: &str| std::env::var(name).unwrap();
    let world = PathBuf::from(setting("TRIMTAB_ATTACKER_WORLD"));
    let mut attacker = Attacker {
        directories: setting("TRIMTAB_ATTACKER_DIRECTORIES").parse().unwrap(),
        random: Random(setting("TRIMTAB_ATTACKER_SEED").parse().unwrap()),
        log: File::create(world.join(format!("log-{role}"))).unwrap(),
        position: File::open(world.join("position")).unwrap(),
        number: 0,
        world,
    };
    let stop = attacker.world.join("stop");
    while !stop.exists() {
        (0..20).for_each(|_| attacker.act(&role));
    }
}

fn start(world: &World, role: &str, seed: u64, directories: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "attacker", "--nocapture"])
        .env("TRIMTAB_ATTACKER", role)
        .env("TRIMTAB_ATTACKER_WORLD", world.directory.path())
        .env("TRIMTAB_ATTACKER_SEED", (seed | 1).to_string())
        .env("TRIMTAB_ATTACKER_DIRECTORIES", directories.to_string())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

/// Every file's first line, by which it is known whatever its name.
fn tokens(world: &World) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for place in [world.root(), world.at("../outside")] {
        for path in files_below(&place).into_keys() {
            let text = fs::read_to_string(place.join(path)).unwrap();
            found.insert(text.lines().next().unwrap_or("").to_string());
        }
    }
    found
}

/// A tree of planned files and bystanders, and one outside with the same names.
fn populate(world: &World, directories: usize) {
    for directory in 0..directories {
        for file in 0..FILES_PER_DIRECTORY {
            let id = format!("{directory}-{file}");
            world.file(&planned_path(directory, file), &format!("planned-{id}\n"));
            world.file(&format!("d{directory}/b{file}"), &format!("bystander-{id}\n"));
            let outside = format!("../outside/{}", planned_path(directory, file));
            world.file(&outside, &format!("outside-{id}\n"));
        }
    }
}

/// What became of the planned files, and how many were used according to the attackers' logs.
fn attack(seed: u64, directories: usize) -> BTreeMap<&'static str, usize> {
    let world = World::new();
    populate(&world, directories);
    let token = |directory, file| format!("planned-{directory}-{file}");
    // First of all: it reads the files, which moves their atimes.
    let before = tokens(&world);
    let mut rows = Vec::new();
    for directory in 0..directories {
        for file in 0..FILES_PER_DIRECTORY {
            let path = PathBuf::from(planned_path(directory, file));
            let full = world.root().join(&path);
            rows.push((
                path,
                entry_of(&full),
                identity(&CWD, &full).unwrap().0,
                token(directory, file),
            ));
        }
    }
    let plan = world.plan_of(rows.iter().map(|(path, entry, ..)| (path.as_path(), entry.clone())));
    let position = File::create(world.directory.path().join("position")).unwrap();
    position.write_all_at(&[0; 8], 0).unwrap();
    let attackers: Vec<_> =
        ROLES.iter().map(|role| start(&world, role, seed, directories)).collect();
    wait_for_logs(&world);
    let mut removal = world.removal(&plan);
    let mut outcomes = Vec::new();
    let mut random = Random(seed | 1);
    while (outcomes.len() as u64) < removal.rows() {
        let first = outcomes.len() as u64;
        let count = (1 + random.below(60) as u64).min(removal.rows() - first);
        position.write_all_at(&first.to_le_bytes(), 0).unwrap();
        outcomes.extend(removal.delete(first, count).unwrap().outcomes);
    }
    File::create(world.directory.path().join("stop")).unwrap();
    for mut attacker in attackers {
        assert!(attacker.wait().unwrap().success(), "an attacker saw what must not be");
    }
    drop(removal);
    settle_directories(&world, directories);

    let after = tokens(&world);
    let mut count = BTreeMap::new();
    let used = logs(&world);
    for ((path, _, id, token), code) in rows.iter().zip(&outcomes) {
        let outcome = Outcome::TABLE[usize::from(*code) - 1].1;
        *count.entry(outcome).or_default() += 1;
        let there = after.contains(token);
        let linked = there && outcome == "deleted";
        assert!(
            there || outcome == "deleted",
            "{path:?}: {outcome}, and it is nowhere (seed {seed})"
        );
        assert!(!linked, "{path:?}: deleted, and it is still there (seed {seed})");
        assert!(there || !used.0.contains(id), "{path:?}: used, and deleted (seed {seed})");
    }
    *count.entry("used").or_default() += used.0.len();
    for token in before.iter().chain(&used.1).filter(|token| !token.starts_with("planned-")) {
        assert!(after.contains(token), "{token} was not planned and is gone (seed {seed})");
    }
    count
}

/// Waits until every attacker has begun.
fn wait_for_logs(world: &World) {
    let began = Instant::now();
    let ready = |role: &&str| world.directory.path().join(format!("log-{role}")).exists();
    while !ROLES.iter().all(&ready) {
        assert!(began.elapsed() < Duration::from_secs(60), "the attackers did not start");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Undoes a swap that was half done, so that the tree can be walked.
fn settle_directories(world: &World, directories: usize) {
    for number in 0..directories {
        let link = world.at(&format!("link{number}"));
        if link.is_dir() && !link.is_symlink() {
            fs::rename(&link, world.at(&format!("left{number}"))).unwrap();
        }
    }
}

/// The files that were used, and the ones that were saved.
fn logs(world: &World) -> (BTreeSet<Identity>, BTreeSet<String>) {
    let (mut used, mut saved) = (BTreeSet::new(), BTreeSet::new());
    for role in ROLES {
        let path = world.directory.path().join(format!("log-{role}"));
        for line in fs::read_to_string(path).unwrap().lines() {
            match line.split_once(' ') {
                Some((inode, birth)) => {
                    used.insert((inode.parse().unwrap(), birth.parse().unwrap()));
                }
                None => drop(saved.insert(line.to_string())),
            }
        }
    }
    (used, saved)
}

#[test]
fn nothing_but_planned_and_unused_files_goes() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let files = number("TRIMTAB_ATTACK_FILES").unwrap_or(600) as usize;
    let seed = number("TRIMTAB_SEED").unwrap_or(1);
    // Few files at a time: the fewer there are, the more often two are at the same one.
    let directories = (files / FILES_PER_DIRECTORY).clamp(1, 6);
    let rounds = files.div_ceil(directories * FILES_PER_DIRECTORY);
    let mut all: BTreeMap<&str, usize> = BTreeMap::new();
    for round in 0..rounds as u64 {
        for (outcome, count) in attack(seed.wrapping_mul(1_000_003) + round * 7919, directories) {
            *all.entry(outcome).or_default() += count;
        }
    }
    println!("{all:?}");
    assert!(all.get("deleted").is_some_and(|count| *count > 0), "nothing was deleted: {all:?}");
    let kept: usize = all.iter().filter(|(name, _)| **name != "deleted").map(|(_, n)| n).sum();
    assert!(kept > 0, "nobody came in between: {all:?}");
}
