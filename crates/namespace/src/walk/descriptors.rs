//! How many directories stay open: a budget, and the oldest goes first.
//!
//! A descriptor that is kept makes opening a subdirectory one step from its parent. One that was
//! let go costs a longer way from the nearest directory above that is open, at worst the root.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::process::{Resource, getrlimit};

use super::directory::{Directory, Open};

/// Descriptors left to the rest of the process.
const RESERVE: u64 = 64;
/// Descriptors that a worker has open at most at one time besides those that are kept.
const OF_A_WORKER: u64 = 4;
const BUDGET_MIN: usize = 16;

pub struct Descriptors {
    budget: usize,
    kept: Mutex<VecDeque<Weak<Directory>>>,
}

impl Descriptors {
    /// Keeps as many as asked for, or as the limit of the process leaves.
    pub fn new(requested: usize, workers: usize) -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let left = limit.saturating_sub(RESERVE + OF_A_WORKER * workers as u64);
        let budget = requested.min(usize::try_from(left).unwrap_or(usize::MAX)).max(BUDGET_MIN);
        Self { budget, kept: Mutex::default() }
    }

    /// Keeps a directory open, and closes the one that was opened first when there are too many.
    pub fn keep(&self, directory: &Arc<Directory>, open: &Arc<Open>) {
        if directory.set_kept(Some(Arc::clone(open))) {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(Arc::downgrade(directory));
        let oldest = if kept.len() > self.budget { kept.pop_front() } else { None };
        drop(kept);
        close(oldest);
    }

    /// Closes the older half, when the system has no more to give; returns whether there was any.
    pub fn close_half(&self) -> bool {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let half = kept.len().div_ceil(2);
        let older: Vec<_> = kept.drain(..half).collect();
        drop(kept);
        let any = !older.is_empty();
        older.into_iter().for_each(|directory| close(Some(directory)));
        any
    }

    /// The nearest directory at or above this one that is open, and where the rest of the path
    /// begins; `None`: only the root is.
    pub fn nearest(directory: &Arc<Directory>) -> Option<(Arc<Open>, usize)> {
        let mut ancestor = directory;
        loop {
            if let Some(open) = ancestor.kept() {
                let length = ancestor.path_length();
                return Some((open, if length == 0 { 0 } else { length + 1 }));
            }
            ancestor = ancestor.parent()?;
        }
    }
}

fn close(directory: Option<Weak<Directory>>) {
    if let Some(directory) = directory.and_then(|weak| weak.upgrade()) {
        directory.set_kept(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> Arc<Open> {
        Arc::new(Open::new(std::fs::File::open("/").unwrap().into()))
    }

    #[test]
    fn the_oldest_is_closed_and_the_nearest_found() {
        let descriptors = Descriptors::new(0, 1);
        let root = Directory::root();
        descriptors.keep(&root, &open());
        let chain: Vec<_> = (0..BUDGET_MIN)
            .scan(Arc::clone(&root), |above, _| {
                *above = above.child(b"dir", 0);
                Some(Arc::clone(above))
            })
            .collect();
        chain[..BUDGET_MIN - 1].iter().for_each(|directory| descriptors.keep(directory, &open()));
        assert!(root.kept().is_some());
        let last = chain.last().unwrap();
        assert_eq!(Descriptors::nearest(last).unwrap().1, 4 * (BUDGET_MIN - 1));
        descriptors.keep(last, &open());
        assert!(root.kept().is_none());
        assert!(descriptors.close_half());
        assert!(chain[0].kept().is_none() && last.kept().is_some());
        while descriptors.close_half() {}
        assert!(Descriptors::nearest(last).is_none());
    }
}
