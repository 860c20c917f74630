//! The run's files: their names, and their removal whatever happens.

use crate::args::Options;
use crate::error::{Result, removed};
use crate::schedule::Layout;
use std::fs;
use std::path::PathBuf;

/// Path of the file that holds the data of a task.
pub fn path_of(options: &Options, task: u64) -> PathBuf {
    match options.geometry.layout {
        Layout::FilePerProcess => options.dir.join(format!("{}.{task:08}", options.name)),
        Layout::SharedFile => options.dir.join(&options.name),
    }
}

/// Number of the file that holds the data of a task: what its content depends on.
pub fn number_of(options: &Options, task: u64) -> u64 {
    match options.geometry.layout {
        Layout::FilePerProcess => task,
        Layout::SharedFile => 0,
    }
}

pub fn tasks_of(options: &Options, rank: u64) -> std::ops::Range<u64> {
    rank * options.tasks_per_rank..(rank + 1) * options.tasks_per_rank
}

/// Files that this process has to remove; they also go when it unwinds.
#[derive(Debug, Default)]
pub struct Guard {
    paths: Vec<PathBuf>,
}

impl Guard {
    pub fn add(&mut self, path: PathBuf) {
        if !self.paths.contains(&path) {
            self.paths.push(path);
        }
    }

    pub fn keep(&mut self) {
        self.paths.clear();
    }

    /// Removes the files; goes on after a failure and returns the first.
    pub fn remove(&mut self) -> Result<()> {
        let mut outcome = Ok(());
        for path in self.paths.drain(..) {
            outcome = outcome.and(removed(&path, fs::remove_file(&path)));
        }
        outcome
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Reached with files left only while unwinding from a bug: an error cannot be reported.
        let _ = self.remove();
    }
}
