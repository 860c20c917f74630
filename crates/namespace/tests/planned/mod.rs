//! Real trees, plans of their files, and the usual way to delete them.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use namespace::index::Shard;
use namespace::removal::{Batch, Outcome, Removal, Settings};
use namespace::rules::{Counted, Exemptions};
use namespace::{Entry, Root, Rules, ShardWriter};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// A time after everything that a test does.
pub const LATER_S: i64 = 4_000_000_000;

/// The entry of a path as it is now.
pub fn entry_of(path: &Path) -> Entry {
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    Entry::of_statx(&statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, mask).unwrap())
}

/// Every file with data below a directory, by its path relative to it, in the order of the paths.
pub fn files_below(root: &Path) -> BTreeMap<PathBuf, Entry> {
    let (mut files, mut pending) = (BTreeMap::new(), vec![root.to_path_buf()]);
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                pending.push(entry.path());
            } else if kind.is_file() {
                let path = entry.path().strip_prefix(root).unwrap().to_path_buf();
                files.insert(path, entry_of(&entry.path()));
            }
        }
    }
    files
}

/// A directory for a tree and, beside it, one for the plan.
pub struct World {
    pub directory: tempfile::TempDir,
    plans: std::cell::Cell<u32>,
}

impl World {
    pub fn new() -> Self {
        Self::within(&std::env::temp_dir())
    }

    /// Creates it in a directory of another file system than the usual one.
    pub fn within(place: &Path) -> Self {
        let world =
            Self { directory: tempfile::tempdir_in(place).unwrap(), plans: Default::default() };
        std::fs::create_dir(world.root()).unwrap();
        world
    }

    pub fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    /// Makes a file and the directories that lead to it.
    pub fn file(&self, path: &str, content: &str) -> PathBuf {
        let path = self.at(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// A plan of all files that exist now.
    pub fn plan(&self) -> PathBuf {
        let files = files_below(&self.root());
        self.plan_of(files.iter().map(|(path, entry)| (path.as_path(), entry.clone())))
    }

    pub fn plan_of<'a>(&self, rows: impl Iterator<Item = (&'a Path, Entry)>) -> PathBuf {
        let number = self.plans.replace(self.plans.get() + 1);
        let name = format!("candidates-{number}.parquet");
        let mut writer = ShardWriter::create(self.directory.path(), &name).unwrap();
        for (path, entry) in rows {
            let parent = path.parent().unwrap().as_os_str().as_bytes();
            writer.row(parent, path.file_name().unwrap().as_bytes(), &entry).unwrap();
        }
        writer.finish().unwrap();
        self.directory.path().join(name)
    }

    /// The usual deletion of a plan.
    pub fn removal(&self, plan: &Path) -> Removal {
        self.removal_by(plan, rules(), settings())
    }

    pub fn removal_by(&self, plan: &Path, rules: Rules, settings: Settings) -> Removal {
        let root = Root::open(&self.root()).unwrap();
        Removal::open(Shard::open(plan).unwrap(), root, rules, settings).unwrap()
    }

    /// Plans nothing more: deletes all rows of a plan.
    pub fn delete(&self, plan: &Path) -> Batch {
        let mut removal = self.removal(plan);
        let rows = removal.rows();
        removal.delete(0, rows).unwrap()
    }
}

/// Rules that let everything go that is older than the end of the test.
pub fn rules() -> Rules {
    Rules {
        counted: Counted::ALL,
        as_of_s: LATER_S,
        old_enough_before_s: LATER_S,
        minimum_size_bytes: 0,
        exempt: Exemptions::default(),
        linked: false,
    }
}

pub fn settings() -> Settings {
    Settings {
        before_s: LATER_S,
        quarantine: b".quarantine".to_vec(),
        time_resolution_ns: 1,
        exact_sizes: true,
        threads: 2,
        open_files: false,
        listed_s: None,
    }
}

/// The outcomes of a batch by their names.
pub fn names(batch: &Batch) -> Vec<&'static str> {
    let name = |code: &u8| Outcome::TABLE[usize::from(*code) - 1].1;
    batch.outcomes.iter().map(name).collect()
}

/// Adds a line to a journal, between two newlines, so that one which was torn spoils no other; its
/// end says that it is whole.
pub fn note(journal: &mut std::fs::File, line: &str) {
    journal.write_all(format!("\n{line} .\n").as_bytes()).unwrap();
}

/// The words of every line of a journal that is whole.
pub fn whole_lines(journal: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(journal).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix(" .\n"));
    whole.map(|line| line.split(' ').map(String::from).collect()).collect()
}
