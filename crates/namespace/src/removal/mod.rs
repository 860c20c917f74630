//! Deletion of planned files, each verified at the last moment, by the identity of the object.
//!
//! # By name, on any POSIX file system
//!
//! | step | what it proves |
//! |---|---|
//! | 1. the directory is opened beneath the root, `openat2` without links, `..` and mounts; not in a quarantine; a fanotify mark on it and on each directory above it, and its path is resolved again | it has the planned path, neither it nor a directory above it is one that an exempt path leads to, by whatever name, and a move of one of them is reported |
//! | 2. the name is opened, without a link; a fanotify mark on the file; `F_SETLEASE` | no other process has it open on this host, and one that wants to must wait; what others do to it from here on is reported |
//! | 3. `statx` of the descriptor: type, inode, birth, device, owner, size, every time, links; the rules again | it is the planned file, unused and unchanged since the plan, and it may still go |
//! | 4. `renameat2(RENAME_NOREPLACE)` into a directory of ours alone | from here on no name leads to it but ours |
//! | 5. the directory's path is resolved again; no event of another process on the way | it was in place from step 1 on, or was removed from its place since, empty |
//! | 6. `statx` in quarantine: the same object, size, mode, owner, links, atime, mtime; the lease is whole; no event of another process | the file that is removed next was checked, and is unchanged since |
//! | 7. the next file is renamed over it, or `unlinkat` at the end of the batch | |
//!
//! Between a check of a name and `unlinkat` of that name another file can come to have it: by an
//! attacker, or by an editor that saves through a rename. Step 4 takes that gap away: in quarantine
//! no other user can exchange a file. A file that was taken by mistake in the gap between steps 2
//! and 4 is seen in step 6 and put back, again without replacing; if its name is taken by then it
//! stays in quarantine, with a note of its origin, and is reported.
//!
//! Extended attributes, a mode that is set and set back, a move to another directory and back: such
//! acts move only the ctime, which step 4 moves as well. The mark of step 2 reports them
//! ([`watch`]). The remaining risks:
//!
//! - where the kernel or the file system has no such marks (a process without `CAP_SYS_ADMIN`), and
//!   where files are not opened since leases say nothing there (overlay, FUSE, NFS), an act that
//!   moves only the ctime, between steps 3 and 4;
//! - where there are no such marks, a directory that its owner moves away and back between steps 1
//!   and 5;
//! - a write through a descriptor from before, where policy lets open files go, or where other
//!   hosts mount the file system and leases and marks say nothing about them;
//! - a time or a link set through an `O_PATH` descriptor from before, or by a call that had found the
//!   name before step 4, between steps 6 and 7: what was linked so lives on under its new name;
//! - a file that was taken by mistake and put back was out of sight for about a millisecond, and
//!   its ctime is now.
//!
//! After `kill -9` at any moment, what was in quarantine is still there: [`Removal::recover`] ends
//! what was begun. What no row explains is reported and never removed.
//!
//! # By FID, on Lustre
//!
//! [`lustre`] has the steps and what they leave.

mod aside;
mod batch;
mod candidates;
mod check;
mod exempted;
mod lease;
pub mod lustre;
mod names;
mod origin;
mod outcome;
mod parent;
mod quarantine;
mod recovery;
mod sweep;
mod takeover;
#[cfg(test)]
mod tests;
mod until;
mod watch;
mod worker;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub use aside::{Aside, Fate, aside, quarantines};
pub use batch::Batch;
pub use candidates::{Listed, listed};
pub use outcome::Outcome;
pub use quarantine::{CELL_FILES, QUARANTINE_PREFIX, READY, RESERVE, STRANDED, is_quarantine};
pub use sweep::Swept;

use candidates::Candidates;
use check::Checks;
use exempted::Exempted;
use names::Names;
use quarantine::{Cell, Leftover, Quarantine};
use until::Until;
use watch::Reach;
use worker::{Job, Verdict, Worker};

use crate::beneath::Root;
use crate::entry::{Entry, ObjectId};
use crate::error::{Error, Result};
use crate::index::{Row, Shard};
use crate::rules::Rules;
use crate::work::on_threads;

/// Rows of one directory that one thread takes at once: a directory is locked by the thread that
/// changes it, so that two threads in it would wait for each other.
const UNIT_ROWS: usize = 1024;

/// How files are deleted.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The cut-off: only files last used before this go.
    pub before_s: i64,
    /// The name of the directory beneath the root where files are looked at for the last time.
    pub quarantine: Vec<u8>,
    /// How finely the source of the index knew the times: 1 for `statx`, 10^9 for whole seconds.
    pub time_resolution_ns: i64,
    /// Whether the plan has actual sizes: lazy ones do not show changes of a file.
    pub exact_sizes: bool,
    /// Threads at work.
    pub threads: usize,
    /// Whether files may go that are open, or may be open.
    pub open_files: bool,
    /// When the index of the plan was begun, in seconds since 1970: a file that was born since
    /// replaced the planned one. `None`: not known.
    pub listed_s: Option<i64>,
}

/// The deletion of one plan's candidates.
pub struct Removal {
    root: Root,
    candidates: Candidates,
    checks: Checks,
    settings: Settings,
    leases: bool,
    quarantine: Option<(Quarantine, Vec<Cell>)>,
    /// Cells that interrupted runs have left. They record which rows were taken, and are needed
    /// again if this run is killed before the outcomes are in its journal: they go when the next
    /// batch comes.
    ended: Vec<Leftover>,
    /// Whether acts of others on a file are reported after the look at it; known with the
    /// quarantine.
    watches: Option<bool>,
    /// How files with several names were left that a batch has taken a name from.
    left: HashMap<ObjectId, Entry>,
    /// All names of files with several; read once a batch has such a file.
    names: Option<Names>,
    until: Until,
}

impl Removal {
    /// Opens a plan's candidates; nothing is touched yet.
    pub fn open(
        candidates: Shard,
        root: Root,
        mut rules: Rules,
        settings: Settings,
    ) -> Result<Self> {
        let name = settings.quarantine.as_slice();
        if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') {
            return Err(Error::Usage("quarantine is the name of a directory, not a path".into()));
        }
        // Files that wait there for an operator must not be taken for a user's old files.
        rules.exempt = rules.exempt.with_path(name);
        let mut checks = Checks::new(rules, &settings, &root)?;
        checks.exempted = Exempted::look_up(&root, &checks.rules.exempt.lists().paths)?;
        lease::ignore_signal();
        let leases = lease::speaks_for_all(root.descriptor());
        let candidates = Candidates::of(candidates);
        let (quarantine, watches) = (None, None);
        let (ended, left, names, until) = (Vec::new(), HashMap::new(), None, Until(None));
        Ok(Self {
            root,
            candidates,
            checks,
            settings,
            leases,
            quarantine,
            ended,
            watches,
            left,
            names,
            until,
        })
    }

    /// How many candidates the plan has.
    pub fn rows(&self) -> u64 {
        self.candidates.rows()
    }

    /// Whether a change that moves only the ctime is seen between the last look and the removal;
    /// `None` before anything was deleted.
    pub fn watches(&self) -> Option<bool> {
        self.watches
    }

    /// Takes no row any more once this host has been up so long, sleep included; `None`: for ever.
    /// Rows that are not taken by then are `TooLate`.
    pub fn lasts_until(&mut self, up: Option<Duration>) {
        self.until = Until(up);
    }

    /// Checks what a deletion of these rows would do, as far as possible without touching them.
    pub fn check(&mut self, first: u64, count: u64) -> Result<Batch> {
        let began = Instant::now();
        let rows = self.read(first, count)?;
        let job = self.job(&rows, first);
        let workers = (0..self.settings.threads).map(|_| Worker::new(&job, None, HashMap::new()));
        let verdicts = work(workers.collect(), &order(&rows, |_| true));
        Batch::new(first, rows.len(), verdicts, Vec::new(), began.elapsed())
    }

    /// Deletes these rows, each if every check passes. After an interruption within a batch that
    /// batch is recovered first: what was noted about it is forgotten here.
    pub fn delete(&mut self, first: u64, count: u64) -> Result<Batch> {
        let began = Instant::now();
        let rows = self.read(first, count)?;
        let settled =
            self.settle_in().and_then(|is_new| if is_new { self.forget() } else { Ok(()) });
        let verdicts = match settled {
            Ok(()) => {
                self.begin(rows.len());
                self.remove(&rows, first, &|_| true)
            }
            // Stopped while it made its cells, it was taken over from, and they were removed.
            Err(_) if self.until.check().is_err() => {
                let late = |row| Verdict::of(row, Outcome::TooLate, 0, Duration::ZERO);
                (0..rows.len()).map(late).collect()
            }
            Err(error) => return Err(error),
        };
        Batch::new(first, rows.len(), verdicts, Vec::new(), began.elapsed())
    }

    /// Deletes these rows after a run was interrupted while it did so: ends what was begun in
    /// quarantine, then goes through the other rows. Nothing is deleted twice.
    pub fn recover(&mut self, first: u64, count: u64) -> Result<Batch> {
        let began = Instant::now();
        let rows = self.read(first, count)?;
        self.settle_in()?;
        self.begin(rows.len());
        let recovered = self.end_what_was_begun(&rows, first)?;
        self.account(&rows, first, recovered, began)
    }

    /// Goes through the rows that were not in quarantine, and returns the outcomes of all.
    fn account(
        &mut self,
        rows: &[Row],
        first: u64,
        recovered: recovery::Recovered,
        began: Instant,
    ) -> Result<Batch> {
        let ended: Vec<usize> = recovered.verdicts.iter().map(|verdict| verdict.row).collect();
        let mut verdicts = self.remove(rows, first, &|row| !ended.contains(&row));
        for verdict in &mut verdicts {
            match verdict.outcome {
                _ if !recovered.taken.contains(&verdict.row) => {}
                // It came into quarantine, was not put back, and is neither there nor where it was:
                // only we could remove it. Whether its directory is away now says nothing of that.
                Outcome::Gone
                | Outcome::ChangedType
                | Outcome::NotSame
                | Outcome::Moved
                | Outcome::Replaced
                    if !recovered.back.contains(&verdict.row) =>
                {
                    let entry = &rows[verdict.row].entry;
                    verdict.outcome = Outcome::Deleted;
                    verdict.freed_bytes = if entry.links == 1 { entry.allocated_bytes } else { 0 };
                }
                // An earlier recovery had put it back and was stopped before it could say so.
                Outcome::CtimeOnly => verdict.outcome = Outcome::PutBack,
                _ => {}
            }
        }
        verdicts.extend(recovered.verdicts);
        Batch::new(first, rows.len(), verdicts, recovered.unexplained, began.elapsed())
    }

    /// Removes empty cells that an earlier run has left between two batches.
    fn forget(&mut self) -> Result<()> {
        let left = self.leftovers()?;
        if let Some((quarantine, _)) = &self.quarantine {
            remove_cells(quarantine, left);
        }
        Ok(())
    }

    fn leftovers(&self) -> Result<Vec<Leftover>> {
        let Some((quarantine, cells)) = &self.quarantine else { return Ok(Vec::new()) };
        let ours: Vec<&Cell> = cells.iter().collect();
        quarantine.leftovers(&ours).map_err(|errno| Error::system("read", self.root.path(), errno))
    }

    fn end_what_was_begun(&mut self, rows: &[Row], first: u64) -> Result<recovery::Recovered> {
        let left = self.leftovers()?;
        let Some((quarantine, mut cells)) = self.quarantine.take() else {
            return Ok(Default::default());
        };
        let numbers: Vec<u64> = (first..first + rows.len() as u64).collect();
        let job = self.job(rows, first);
        let recovered = recovery::recover(&job, &numbers, &quarantine, &mut cells[0], &left);
        self.quarantine = Some((quarantine, cells));
        self.ended = left;
        Ok(recovered)
    }

    fn read(&mut self, first: u64, count: u64) -> Result<Vec<Row>> {
        let rows = self.candidates.read(first, count)?;
        if self.names.is_none() && rows.iter().any(|row| row.entry.links != 1) {
            self.names = Some(Names::read(&mut self.candidates)?);
        }
        Ok(rows)
    }

    fn job<'a>(&'a self, rows: &'a [Row], first: u64) -> Job<'a> {
        Job {
            root: &self.root,
            checks: &self.checks,
            rows,
            first,
            open_files: self.settings.open_files,
            leases: self.leases,
            names: self.names.as_ref(),
            until: self.until,
        }
    }

    /// Makes the quarantine and a cell for each thread, once; says whether it was now.
    fn settle_in(&mut self) -> Result<bool> {
        if let Some((quarantine, _)) = &self.quarantine {
            remove_cells(quarantine, std::mem::take(&mut self.ended));
            return Ok(false);
        }
        let quarantine = Quarantine::open(&self.root, &self.settings.quarantine)?;
        let mut cells = Vec::new();
        for number in 0..self.settings.threads {
            match quarantine.cell(&self.root, number) {
                Ok(cell) => cells.push(cell),
                Err(error) => {
                    leave(&self.root, quarantine, &cells);
                    return Err(error);
                }
            }
        }
        // Where files are not opened for a lease they are not watched either.
        let can_watch = cells.first().is_some_and(|cell| cell.reach != Reach::Nothing);
        self.watches = Some(self.leases && can_watch);
        self.quarantine = Some((quarantine, cells));
        Ok(true)
    }

    fn begin(&mut self, rows: usize) {
        if let Some((_, cells)) = &mut self.quarantine {
            cells.iter_mut().for_each(|cell| cell.begin(rows));
        }
    }

    fn remove(
        &mut self,
        rows: &[Row],
        first: u64,
        selects: &dyn Fn(usize) -> bool,
    ) -> Vec<Verdict> {
        let Some((quarantine, mut cells)) = self.quarantine.take() else { return Vec::new() };
        let left = std::mem::take(&mut self.left);
        let job = self.job(rows, first);
        let alone = order(rows, |row| selects(row) && rows[row].entry.links == 1);
        let worker = |cell| Worker::new(&job, Some((&quarantine, cell)), HashMap::new());
        let mut verdicts = work(cells.iter_mut().map(worker).collect(), &alone);
        // Files with several names come last and on one thread: each name changes the others'
        // ctime.
        let mut names: Vec<usize> =
            (0..rows.len()).filter(|row| selects(*row) && rows[*row].entry.links != 1).collect();
        names.sort_by_key(|row| rows[*row].entry.id);
        let cell = cells.first_mut().map(|cell| (&quarantine, cell));
        let mut worker = Worker::new(&job, cell, left);
        worker.names(&names);
        let Worker { left, verdicts: mut of_names, .. } = worker;
        verdicts.append(&mut of_names);
        self.left = left;
        self.quarantine = Some((quarantine, cells));
        verdicts
    }
}

impl Drop for Removal {
    /// Leaves nothing behind but what waits for a person.
    fn drop(&mut self) {
        if let Some((quarantine, cells)) = self.quarantine.take() {
            remove_cells(&quarantine, std::mem::take(&mut self.ended));
            leave(&self.root, quarantine, &cells);
        }
    }
}

fn remove_cells(quarantine: &Quarantine, ended: Vec<Leftover>) {
    ended.iter().for_each(|cell| quarantine.remove_cell(&cell.directory, &cell.name));
}

/// Removes the empty directories of a quarantine.
fn leave(root: &Root, quarantine: Quarantine, cells: &[Cell]) {
    cells.iter().for_each(|cell| quarantine.end_cell(cell));
    quarantine.remove(root);
}

/// The wanted rows, directory by directory and in the order of their inodes, which is that of the
/// inode table; cut into what one thread does at once.
fn order(rows: &[Row], selects: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
    let mut sorted: Vec<usize> = (0..rows.len()).filter(|row| selects(*row)).collect();
    sorted.sort_by(|first, other| {
        let (first, other) = (&rows[*first], &rows[*other]);
        first.parent.cmp(&other.parent).then(first.entry.id.cmp(&other.entry.id))
    });
    let same = |first: &usize, other: &usize| rows[*first].parent == rows[*other].parent;
    sorted.chunk_by(same).flat_map(|run| run.chunks(UNIT_ROWS)).map(<[usize]>::to_vec).collect()
}

/// Has every unit done, by whichever worker is free.
fn work(workers: Vec<Worker<'_>>, units: &[Vec<usize>]) -> Vec<Verdict> {
    let next = AtomicUsize::new(0);
    let task = |mut worker: Worker<'_>| {
        while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
            worker.directory(unit);
        }
        worker.finish();
        worker.verdicts
    };
    on_threads(workers, task).concat()
}
