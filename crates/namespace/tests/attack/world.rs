//! The world that is attacked, and the attackers' processes.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::fs::CWD;

use super::log::{Identity, seen};
use super::{
    Attacker, BYSTANDERS_PER_DIRECTORY, DIRECTORIES_PER_USER, EXEMPT, FILES_PER_DIRECTORY,
    OTHER_QUARANTINE, ROLES, age, directory_path, log_path, name_in_directory, planned_path,
};
use crate::planned::{World, entry_of};

/// A tree, the plan of the files to delete in it, and the identities of all its files.
pub struct Scene {
    pub world: World,
    pub plan: PathBuf,
    /// The planned files, one a row.
    pub ids: Vec<Identity>,
    pub allocated: Vec<u64>,
    /// All files that there are at first.
    pub before: HashSet<Identity>,
}

impl Scene {
    pub fn new(place: &Path, rows: usize) -> Self {
        let world = World::within(place);
        let before = populate(&world, rows);
        let planned: Vec<PathBuf> = (0..rows).map(|row| planned_path(row).into()).collect();
        let full = |path: &PathBuf| world.root().join(path);
        let plan =
            world.plan_of(planned.iter().map(|path| (path.as_path(), entry_of(&full(path)))));
        let ids = planned.iter().map(|path| seen(&CWD, &full(path)).unwrap().id).collect();
        let allocated = planned.iter().map(|path| entry_of(&full(path)).allocated_bytes).collect();
        fs::write(world.directory.path().join("position"), [0; 16]).unwrap();
        Self { world, plan, ids, allocated, before }
    }

    pub fn directory(&self) -> &Path {
        self.world.directory.path()
    }

    /// Where files of this world can be.
    pub fn places(&self) -> [PathBuf; 2] {
        [self.world.root(), self.directory().join("outside")]
    }

    /// Starts one process for each role, and waits until all have begun.
    pub fn attackers(&self, seed: u64) -> Attackers {
        let start = |role: &&str| {
            let variables = [
                ("TRIMTAB_ATTACKER", role.to_string()),
                ("TRIMTAB_ATTACKER_SEED", seed.to_string()),
                ("TRIMTAB_ATTACKER_ROWS", self.ids.len().to_string()),
            ];
            self.process("attacker", &variables)
        };
        let started = Attackers(ROLES.iter().map(start).collect());
        let began = Instant::now();
        let ready = |role: &&str| {
            log_path(self.directory(), role).metadata().is_ok_and(|log| log.len() > 0)
        };
        while !ROLES.iter().all(ready) {
            assert!(began.elapsed() < Duration::from_secs(60), "the attackers did not start");
            std::thread::sleep(Duration::from_millis(1));
        }
        started
    }

    pub fn stop(&self, mut attackers: Attackers) {
        fs::write(self.directory().join("stop"), "").unwrap();
        for (attacker, role) in attackers.0.iter_mut().zip(ROLES) {
            assert!(attacker.wait().unwrap().success(), "the {role} saw what must not be");
        }
    }

    /// A process that runs one of this program's tests.
    pub fn process(&self, test: &str, variables: &[(&str, String)]) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env("TRIMTAB_ATTACK_WORLD", self.directory())
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    }
}

/// The processes that attack; none is left when a test fails.
pub struct Attackers(Vec<Child>);

impl Drop for Attackers {
    fn drop(&mut self) {
        for attacker in &mut self.0 {
            let _ = attacker.kill();
            let _ = attacker.wait();
        }
    }
}

/// Runs an attacker's process, if this is one.
pub fn attack_if_asked() {
    let Ok(role) = std::env::var("TRIMTAB_ATTACKER") else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let (rows, seed) = (number("TRIMTAB_ATTACKER_ROWS"), number("TRIMTAB_ATTACKER_SEED"));
    let world = PathBuf::from(std::env::var_os("TRIMTAB_ATTACK_WORLD").unwrap());
    let mut attacker = Attacker::new(&world, &role, rows as usize, seed);
    let parent = std::os::unix::process::parent_id();
    while !world.join("stop").exists() && std::os::unix::process::parent_id() == parent {
        (0..20).for_each(|_| attacker.act());
    }
}

/// Makes a file as all are: of the same length, owner, mode and times as its neighbours.
fn make(path: &Path, content: &str) -> Identity {
    fs::write(path, content).unwrap();
    age(path);
    seen(&CWD, path).unwrap().id
}

/// A tree of planned files and bystanders, and one outside with the same names: who they are.
fn populate(world: &World, rows: usize) -> HashSet<Identity> {
    let mut all = HashSet::new();
    let outside = world.directory.path().join("outside");
    fs::create_dir_all(world.at(EXEMPT)).unwrap();
    let left = world.at(OTHER_QUARANTINE);
    fs::create_dir_all(left.join("cell-1-2-0")).unwrap();
    fs::set_permissions(left, fs::Permissions::from_mode(0o700)).unwrap();
    for number in 0..rows.div_ceil(FILES_PER_DIRECTORY) {
        let directory = world.at(&directory_path(number));
        fs::create_dir_all(directory.join("lone")).unwrap();
        // Blocks are what takes long to write: every eighth directory has some.
        let content = if number % 8 == 0 { "content\n" } else { "" };
        let first = number * FILES_PER_DIRECTORY;
        for row in first..rows.min(first + FILES_PER_DIRECTORY) {
            all.insert(make(&world.at(&planned_path(row)), content));
        }
        for bystander in 0..BYSTANDERS_PER_DIRECTORY {
            all.insert(make(&directory.join(format!("b{bystander}")), content));
        }
        if number < DIRECTORIES_PER_USER {
            let directory = outside.join(format!("u/d{number}"));
            fs::create_dir_all(directory.join("lone")).unwrap();
            for file in 0..FILES_PER_DIRECTORY {
                all.insert(make(&directory.join(name_in_directory(file)), content));
            }
        }
    }
    all
}
