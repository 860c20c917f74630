//! Recovery of a quarantine after a run was killed: files are removed, put back, or shown to an
//! operator.

use std::collections::{HashMap, HashSet};

use rustix::fs::{AtFlags, Statx, statx};
use rustix::io::Errno;

use super::lease::{self, Told};
use super::origin::{Mark, Origin};
use super::outcome::{Outcome, Refusal};
use super::parent::Parent;
use super::quarantine::{Cell, Leftover, Place, Quarantine, WANTED};
use super::worker::{Held, Job, Verdict, freed_bytes, open, remove_if_same};
use crate::entry::{Entry, ObjectId};

#[derive(Debug, Default)]
pub(super) struct Recovered {
    /// One for each row whose file was in quarantine.
    pub(super) verdicts: Vec<Verdict>,
    /// The rows that had come into quarantine, whether they are still in it or not.
    pub(super) taken: HashSet<usize>,
    /// Those of them that were put back, or were about to be.
    pub(super) back: HashSet<usize>,
    /// Paths relative to the root of files that no row explains: an operator decides.
    pub(super) unexplained: Vec<Vec<u8>>,
}

/// Finds the rows whose files were left and settles them.
///
/// Each step is noted in `own` first: the run that was killed may not have come to it, and this one
/// can be killed as well.
///
/// `numbers` are those of the job's rows in the plan.
pub(super) fn recover(
    job: &Job<'_>,
    numbers: &[u64],
    quarantine: &Quarantine,
    cell_of_ours: &mut Cell,
    left: &[Leftover],
) -> Recovered {
    let mut rows: HashMap<ObjectId, Vec<usize>> = HashMap::new();
    for (row, candidate) in job.rows.iter().enumerate() {
        rows.entry(candidate.entry.id).or_default().push(row);
    }
    let mut recovered = Recovered::default();
    for cell in left {
        for name in &cell.files {
            let place = Place { directory: &cell.directory, name };
            match explain(job, place, &rows, &recovered.verdicts) {
                Some((row, stat)) => {
                    let number = numbers[row];
                    let from = cell.origin_of(name, stat.stx_ino).and_then(|noted| noted.from);
                    cell_of_ours.note(std::iter::once(number));
                    let home = Home { number, from, since_ns: cell.since_ns };
                    let verdict = end(job, quarantine, cell_of_ours, row, place, &stat, home);
                    recovered.verdicts.push(verdict);
                }
                None => recovered.unexplained.push(quarantine.path_of(&cell.name, name)),
            }
        }
        // Last: the host that is taken over from may still be at work, and notes before it puts
        // back.
        for (number, is_back) in cell.taken() {
            let Ok(row) = numbers.binary_search(&number) else { continue };
            recovered.taken.insert(row);
            // Noted here too: the cells that were left go one by one, and the one that says this may
            // be gone already when this run is killed, and the one that the file was taken into not.
            if is_back && recovered.back.insert(row) {
                cell_of_ours.note_back(number);
            }
        }
    }
    recovered
}

/// Which row a file in quarantine belongs to: the same object, whose name is free now.
fn explain(
    job: &Job<'_>,
    place: Place<'_>,
    rows: &HashMap<ObjectId, Vec<usize>>,
    ended: &[Verdict],
) -> Option<(usize, Statx)> {
    let stat = place.stat().ok()?;
    let present = Entry::of_statx(&stat);
    let named = rows.get(&present.id)?;
    let is_of = |row: &&usize| {
        let candidate = &job.rows[**row];
        job.checks.is_same(candidate, &present).is_ok()
            && !ended.iter().any(|verdict| verdict.row == **row)
    };
    let same: Vec<usize> = named.iter().filter(is_of).copied().collect();
    let row = same.iter().find(|row| is_free(job, **row)).or(same.first())?;
    Some((*row, stat))
}

fn is_free(job: &Job<'_>, row: usize) -> bool {
    let candidate = &job.rows[row];
    let Ok(parent) = Parent::open(job.root, &candidate.parent) else { return false };
    let name = &*candidate.name;
    let stat = statx(&parent.descriptor, name, AtFlags::SYMLINK_NOFOLLOW, WANTED);
    stat.is_err_and(|errno| errno == Errno::NOENT)
}

/// The row of a file, and the directory that it was taken out of.
#[derive(Clone, Copy)]
struct Home {
    number: u64,
    from: Option<Mark>,
    since_ns: Option<i64>,
}

fn end(
    job: &Job<'_>,
    quarantine: &Quarantine,
    cell_of_ours: &mut Cell,
    row: usize,
    place: Place<'_>,
    stat: &Statx,
    home: Home,
) -> Verdict {
    let Home { number, from, since_ns } = home;
    let origin = Origin { row: number, ..job.origin(row, from) };
    let verdict =
        |outcome, freed_bytes, errno| Verdict { row, outcome, freed_bytes, errno, latency_s: 0.0 };
    // The host that is taken over from may still be at work, and have removed files that passed all
    // checks.
    let went = || matches!(place.stat(), Err(Errno::NOENT));
    let strand = || match quarantine.strand(place, origin) || !went() {
        true => verdict(Outcome::InQuarantine, 0, 0),
        false => verdict(Outcome::Deleted, freed_bytes(stat), 0),
    };
    let parent = match Parent::open(job.root, &job.rows[row].parent) {
        Ok(parent) if parent.is_where(from, since_ns) => Some(parent),
        // It was emptied and removed: its file may go all the same.
        Err((Outcome::Gone, _)) => None,
        // Another directory has the path by now: in there the file would be another user's.
        _ => {
            cell_of_ours.note_back(number);
            return strand();
        }
    };
    let removed = remove_if_allowed(job, row, place, stat);
    if removed.is_err() {
        cell_of_ours.note_back(number);
    }
    match (removed, parent) {
        (Ok(freed_bytes), _) => verdict(Outcome::Deleted, freed_bytes, 0),
        // There is no place to put it back to.
        (Err(_), None) => strand(),
        (Err(refusal), Some(parent)) => {
            match quarantine.returns(place, &parent.descriptor, origin) {
                // Only the cut-off spoke against it; but from now on its ctime does.
                true if refusal.outcome == Outcome::TooYoung => verdict(Outcome::PutBack, 0, 0),
                true => verdict(refusal.outcome, 0, refusal.errno),
                false => strand(),
            }
        }
    }
}

/// Everything that is asked under its name is asked here again, but for the ctime, which the move
/// into quarantine has moved; it was right just before that.
fn remove_if_allowed(
    job: &Job<'_>,
    row: usize,
    place: Place<'_>,
    stat: &Statx,
) -> Result<u64, Refusal> {
    let planned = &job.rows[row];
    let mut present = Entry::of_statx(stat);
    present.times.change_ns = planned.entry.times.change_ns;
    present.project = planned.entry.project;
    job.checks.allow(planned, &present)?;
    job.allow_name(row, stat.stx_nlink)?;
    if job.open_files {
        return remove_if_same(job.checks, place, stat, Held::default());
    }
    let file = open(place.directory, place.name)?;
    match if job.leases { lease::take(&file) } else { Told::Nothing } {
        Told::Closed => {
            remove_if_same(job.checks, place, stat, Held { lease: Some(&file), watch: None })
        }
        Told::Open => Err(Outcome::Open.into()),
        Told::Nothing => Err(Outcome::OpenUnknown.into()),
    }
}
