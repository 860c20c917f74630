//! Deletion by FID, for Lustre.
//!
//! | step | what it proves |
//! |---|---|
//! | 1. the identifier is one of a file that clients see | the call below answers 0 to any other and does nothing |
//! | 2. `.lustre/fid/FID` is asked, servers included: type, device, birth, owner, size, blocks, every time, links, project; the rules again | it is the planned file, unused and unchanged since the plan |
//! | 3. every path that it has now, as many as it has links | the planned path is among them, all are beneath the root and none is exempt |
//! | 4. `LL_IOC_RMFID` on a few files at once | a file that is open anywhere is refused by the server; each name is looked up again under a lock |
//! | 5. `.lustre/fid/FID` is asked again | it is gone, whatever step 4 answered |
//!
//! An identifier is never used again, so what is removed is what was checked, whatever its name.
//! The remaining risk: the call looks at no time and removes every name, so a file that is used,
//! linked or moved between steps 2 and 4 is removed all the same. [`FIDS_PER_CALL`] keeps that to
//! some milliseconds; if the file is still open then, the call refuses.
//!
//! After `kill -9`, rows that the interrupted batch removed are `gone`: nothing on the file system
//! shows whether this run or their owner removed them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::Settings;
use super::batch::Batch;
use super::candidates::Candidates;
use super::check::Checks;
use super::outcome::{Outcome, Refusal};
use super::until::Until;
use super::worker::Verdict;
use crate::beneath::Root;
use crate::error::Result;
use crate::index::{Row, Shard};
use crate::rmfid::{ByFid, FIDS_MAX, Fid};
use crate::rules::Rules;
use crate::work::on_threads;

/// How many files are checked and then removed together. More would save calls, and lengthen the
/// time between the check of the first and its removal.
pub const FIDS_PER_CALL: usize = 64;
const _: () = assert!(FIDS_PER_CALL <= FIDS_MAX);

/// The deletion of one plan's candidates by their FIDs.
pub struct RemovalByFid<F> {
    lustre: F,
    candidates: Candidates,
    checks: Checks,
    threads: usize,
    until: Until,
}

/// Context that all threads share.
struct Job<'a, F> {
    lustre: &'a F,
    checks: &'a Checks,
    rows: &'a [Row],
    remove: bool,
    until: Until,
}

/// A file that passed every check, and the rows that are names of it.
struct Passed<'a> {
    fid: Fid,
    rows: &'a [usize],
    allocated_bytes: u64,
    spent_s: f32,
}

impl<F: ByFid> RemovalByFid<F> {
    /// Opens a plan's candidates.
    pub fn open(
        candidates: Shard,
        root: &Root,
        lustre: F,
        rules: Rules,
        settings: &Settings,
    ) -> Result<Self> {
        let checks = Checks::new(rules, settings, root)?;
        let candidates = Candidates::of(candidates);
        let (threads, until) = (settings.threads, Until(None));
        Ok(Self { lustre, candidates, checks, threads, until })
    }

    /// How many candidates the plan has.
    pub fn rows(&self) -> u64 {
        self.candidates.rows()
    }

    /// As [`super::Removal::lasts_until`].
    pub fn lasts_until(&mut self, up: Option<Duration>) {
        self.until = Until(up);
    }

    /// Checks what a deletion of these rows would do; nothing is touched.
    pub fn check(&mut self, first: u64, count: u64) -> Result<Batch> {
        self.go(first, count, false)
    }

    /// Deletes these rows, each if every check passes.
    pub fn delete(&mut self, first: u64, count: u64) -> Result<Batch> {
        self.go(first, count, true)
    }

    /// Deletes these rows after a run was interrupted while it did so. There is nothing to end: a
    /// file is removed as a whole or not at all.
    pub fn recover(&mut self, first: u64, count: u64) -> Result<Batch> {
        self.go(first, count, true)
    }

    fn go(&mut self, first: u64, count: u64, remove: bool) -> Result<Batch> {
        let began = Instant::now();
        let rows = self.candidates.read(first, count)?;
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|row| rows[*row].entry.id);
        let same =
            |first_row: &usize, other: &usize| rows[*first_row].entry.id == rows[*other].entry.id;
        let files: Vec<&[usize]> = order.chunk_by(same).collect();
        let (lustre, checks, until) = (&self.lustre, &self.checks, self.until);
        let job = Job { lustre, checks, rows: &rows, remove, until };
        let verdicts = job.spread(&files, self.threads);
        Batch::new(first, rows.len(), verdicts, Vec::new(), began.elapsed())
    }
}

impl<F: ByFid> Job<'_, F> {
    fn spread(&self, files: &[&[usize]], threads: usize) -> Vec<Verdict> {
        let calls: Vec<_> = files.chunks(FIDS_PER_CALL).collect();
        let next = AtomicUsize::new(0);
        let task = |_| {
            let mut verdicts = Vec::new();
            while let Some(files) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.call(files, &mut verdicts);
            }
            verdicts
        };
        on_threads(0..threads, task).concat()
    }

    fn call(&self, files: &[&[usize]], verdicts: &mut Vec<Verdict>) {
        let mut passed = Vec::with_capacity(files.len());
        for &rows in files {
            let began = Instant::now();
            let looked = self.look(rows);
            let spent_s = began.elapsed().as_secs_f32();
            match looked {
                Ok((fid, allocated_bytes)) => {
                    passed.push(Passed { fid, rows, allocated_bytes, spent_s });
                }
                Err(refusal) => end(rows, refusal, 0, spent_s, verdicts),
            }
        }
        if !self.remove {
            let would = Refusal::from(Outcome::WouldDelete);
            passed.iter().for_each(|file| end(file.rows, would, 0, file.spent_s, verdicts));
            return;
        }
        self.settle(&passed, verdicts);
    }

    /// Steps 1 to 3 for the rows that are names of one file.
    fn look(&self, rows: &[usize]) -> std::result::Result<(Fid, u64), Refusal> {
        let planned = &self.rows[rows[0]];
        let fid = Fid::of_file(planned.entry.id)
            .ok_or(Refusal { outcome: Outcome::Failed, errno: libc::EINVAL })?;
        let mut present = self.lustre.stat(fid)?;
        // Not part of a stat, and a change of it moves no time: it is queried wherever it counts.
        // If it is unknown, nothing goes.
        let has_project =
            planned.entry.project.is_some() || self.checks.rules.exempt.exempts_projects();
        if has_project {
            present.entry.project = Some(self.lustre.project(fid)?);
        }
        self.checks.allow(planned, &present.entry)?;
        // A client that punches a hole or allocates blocks moves the ctime of the objects but goes
        // on answering with the ctime that it holds; the blocks it does know.
        let as_allocated = planned.entry.allocated_bytes == present.entry.allocated_bytes;
        if self.checks.exact_sizes && !as_allocated {
            return Err(Outcome::ChangedSize.into());
        }
        if present.fixed {
            return Err(Outcome::Immutable.into());
        }
        let paths = self.lustre.paths(fid)?;
        if paths.len() as u64 != u64::from(present.entry.links) {
            return Err(Outcome::NamesUnknown.into());
        }
        let paths: Option<HashSet<Vec<u8>>> = paths.into_iter().collect();
        let paths = paths.ok_or(Outcome::Moved)?;
        for path in &paths {
            let (parent, name) = split(path);
            self.checks.is_eligible(parent, name, &present.entry)?;
        }
        let planned_path = |row: &usize| joined(&self.rows[*row]);
        if !rows.iter().all(|row| paths.contains(&planned_path(row))) {
            return Err(Outcome::Moved.into());
        }
        Ok((fid, present.entry.allocated_bytes))
    }

    /// Steps 4 and 5.
    fn settle(&self, files: &[Passed<'_>], verdicts: &mut Vec<Verdict>) {
        if files.is_empty() {
            return;
        }
        // The last thing before: a host that was stopped for an hour continues here.
        if let Err(over) = self.until.check() {
            return files.iter().for_each(|file| end(file.rows, over, 0, file.spent_s, verdicts));
        }
        let began = Instant::now();
        let fids: Vec<Fid> = files.iter().map(|file| file.fid).collect();
        let answers = match self.lustre.remove(&fids) {
            Ok(answers) => answers,
            // An error of the whole call: rights that are missing, a Lustre before 2.13.
            Err(errno) => vec![Err(errno); files.len()],
        };
        let each_s = began.elapsed().as_secs_f32() / files.len() as f32;
        let none = Err(Errno::IO);
        for (place, file) in files.iter().enumerate() {
            let answer = answers.get(place).copied().unwrap_or(none);
            let became = match (answer, self.lustre.stat(file.fid)) {
                (Ok(()), Err(Errno::NOENT)) => Outcome::Deleted.into(),
                // It answered that all went well, and there it is.
                (Ok(()), _) => Refusal { outcome: Outcome::Failed, errno: 0 },
                (Err(errno), _) => of_answer(errno),
            };
            end(file.rows, became, file.allocated_bytes, file.spent_s + each_s, verdicts);
        }
    }
}

fn of_answer(errno: Errno) -> Refusal {
    let outcome = match errno {
        Errno::BUSY => Outcome::Open,
        Errno::NOENT => Outcome::Gone,
        // `EREMCHG`: the name refers to another file by now.
        errno if errno.raw_os_error() == libc::EREMCHG => Outcome::Moved,
        Errno::ACCESS | Errno::PERM => Outcome::Denied,
        _ => Outcome::Failed,
    };
    Refusal { outcome, errno: errno.raw_os_error() }
}

/// The same outcome for every name of a file; its room is counted once.
fn end(rows: &[usize], became: Refusal, bytes: u64, latency_s: f32, verdicts: &mut Vec<Verdict>) {
    let deleted = became.outcome == Outcome::Deleted;
    for (place, &row) in rows.iter().enumerate() {
        let freed_bytes = if deleted && place == 0 { bytes } else { 0 };
        let Refusal { outcome, errno } = became;
        let errno = if matches!(outcome, Outcome::Denied | Outcome::Failed) { errno } else { 0 };
        verdicts.push(Verdict { row, outcome, freed_bytes, errno, latency_s });
    }
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

fn joined(row: &Row) -> Vec<u8> {
    if row.parent.is_empty() {
        return row.name.to_vec();
    }
    [&*row.parent, &*row.name].join(&b'/')
}

#[cfg(test)]
#[path = "lustre_tests.rs"]
mod tests;
