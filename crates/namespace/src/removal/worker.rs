//! One thread at work: look, take, look again, remove or put back.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::fs::{AtFlags, Mode, OFlags, Statx, openat, statx};
use rustix::io::Errno;

use super::check::{Checks, is_as_before};
use super::lease::{self, Told};
use super::names::Names;
use super::origin::{Mark, Origin, ROUND};
use super::outcome::{Outcome, Refusal};
use super::parent::{Parent, Whereabouts, is_fixed};
use super::quarantine::{Cell, Place, Quarantine, WANTED};
use super::until::Until;
use super::watch::Watch;
use crate::beneath::Root;
use crate::entry::{Entry, ObjectId};
use crate::index::Row;
use crate::system::project_of;

/// Context that all threads of a batch share.
pub(super) struct Job<'a> {
    pub(super) root: &'a Root,
    pub(super) checks: &'a Checks,
    pub(super) rows: &'a [Row],
    /// The number of the first row in the plan.
    pub(super) first: u64,
    /// Whether files may go that may be open.
    pub(super) open_files: bool,
    /// Whether a lease on this file system covers every process that could open the file.
    pub(super) leases: bool,
    /// All names of files with several, if the batch has any.
    pub(super) names: Option<&'a Names>,
    /// Until when rows may be taken.
    pub(super) until: Until,
}

impl<'a> Job<'a> {
    /// Where the file of a row is taken from: out of the directory `from`, as far as known.
    pub(super) fn origin(&self, row: usize, from: Option<Mark>) -> Origin<'a> {
        let Row { parent, name, entry, .. } = &self.rows[row];
        Origin { row: self.first + row as u64, id: entry.id, from, parent, name }
    }

    /// Whether a file of so many names may lose this one; asked again when it has no other place left.
    pub(super) fn allow_name(&self, row: usize, links: u32) -> Result<(), Outcome> {
        match self.names {
            _ if links == 1 => Ok(()),
            Some(names) => names.allow(self.root, self.checks, &self.rows[row], links),
            None => Err(Outcome::NamesUnknown),
        }
    }
}

/// Outcome of one row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verdict {
    pub(super) row: usize,
    pub(super) outcome: Outcome,
    pub(super) freed_bytes: u64,
    /// The system's error number behind `Denied` and `Failed`; 0 for none.
    pub(super) errno: i32,
    pub(super) latency_s: f32,
}

impl Verdict {
    pub(super) fn of(row: usize, outcome: Outcome, freed_bytes: u64, spent: Duration) -> Self {
        Self { row, outcome, freed_bytes, errno: 0, latency_s: spent.as_secs_f32() }
    }
}

/// A file that passed every check under its name.
pub(super) struct Looked {
    row: usize,
    stat: Statx,
    /// Open where a lease or its project was asked for; closing it gives the lease up.
    opened: Option<OwnedFd>,
    /// How long it has taken so far.
    spent: Duration,
}

/// A file that passed every check and waits in its slot to be removed: the next file that is taken
/// replaces it, which changes one directory less than to remove the one and to move the other.
#[derive(Clone, Copy)]
struct Passed {
    row: usize,
    id: ObjectId,
    /// The directory that it was taken out of.
    from: Mark,
    freed_bytes: u64,
    spent: Duration,
}

impl Passed {
    /// The verdict once it is removed.
    fn ended(self, more: Duration) -> Verdict {
        Verdict::of(self.row, Outcome::Deleted, self.freed_bytes, self.spent + more)
    }
}

pub(super) struct Worker<'a> {
    job: &'a Job<'a>,
    /// Where files are taken to; `None` where nothing may be touched.
    cell: Option<(&'a Quarantine, &'a mut Cell)>,
    /// How a file with several names was left when one of them had been removed: its next name is
    /// compared with this and not with the plan, which our own removal has outdated.
    pub(super) left: HashMap<ObjectId, Entry>,
    pub(super) verdicts: Vec<Verdict>,
    watch: Option<Watch>,
    /// Files that passed their checks, by slot.
    passed: [Option<Passed>; ROUND],
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        job: &'a Job<'a>,
        cell: Option<(&'a Quarantine, &'a mut Cell)>,
        left: HashMap<ObjectId, Entry>,
    ) -> Self {
        let watch = cell.as_ref().and_then(|(_, cell)| Watch::new(cell.reach));
        Self { job, cell, left, verdicts: Vec::new(), watch, passed: [None; ROUND] }
    }

    /// Goes through rows of one directory.
    pub(super) fn directory(&mut self, rows: &[usize]) {
        let Some(path) = rows.first().map(|row| &self.job.rows[*row].parent) else { return };
        match self.open_parent(path) {
            Ok(parent) => rows.chunks(ROUND).for_each(|round| self.round(&parent, round)),
            Err((outcome, errno)) => {
                let refusal = Refusal { outcome, errno: errno.raw_os_error() };
                rows.iter().for_each(|row| self.keep(*row, refusal, Duration::ZERO));
            }
        }
    }

    fn open_parent(&self, path: &Bytes) -> Result<Parent, (Outcome, Errno)> {
        let mut parent = Parent::open(self.job.root, path)?;
        let exempt = self.job.checks.exempted.has_on_way(&parent);
        parent.exempt = exempt.map_err(|errno| (Outcome::Failed, errno))?;
        Ok(parent)
    }

    /// Goes through rows that are names of files with several, one by one: what is left of a file
    /// is known before its next name is looked at.
    pub(super) fn names(&mut self, rows: &[usize]) {
        for row in rows.chunks(1) {
            self.directory(row);
            self.finish();
        }
    }

    /// Removes what passed and waits: at the end of a batch nothing is in quarantine that may go.
    pub(super) fn finish(&mut self) {
        for slot in 0..ROUND {
            let Some((quarantine, cell)) = &mut self.cell else { return };
            let Some(passed) = self.passed[slot].take() else { continue };
            let (began, place) = (Instant::now(), cell.place(slot));
            match place.remove() {
                Ok(()) | Err(Errno::NOENT) => self.verdicts.push(passed.ended(began.elapsed())),
                Err(_) => {
                    let origin = self.job.origin(passed.row, Some(passed.from));
                    cell.note_back(origin.row);
                    quarantine.strand(cell.place(slot), origin);
                    cell.look_after(slot);
                    self.keep(passed.row, Outcome::InQuarantine.into(), passed.spent);
                }
            }
        }
    }

    /// From here on moves of directories on the way to this one are reported; `false` where this
    /// one is not in its place to begin with.
    pub(super) fn approach(&mut self, parent: &Parent) -> bool {
        let Some(watch) = &mut self.watch else { return true };
        watch.clear();
        watch.add_way(&parent.descriptor, parent.depth());
        // A move before the mark shows now; later ones are reported.
        parent.whereabouts(self.job.root) != Whereabouts::Elsewhere
    }

    /// Where the directory was all the time since `approach`.
    pub(super) fn whereabouts(&mut self, parent: &Parent) -> Whereabouts {
        let now = parent.whereabouts(self.job.root);
        // In this order: a directory can be moved back only after the first move was reported.
        let was_moved = self.watch.as_mut().is_some_and(Watch::way_was_changed);
        if was_moved { Whereabouts::Elsewhere } else { now }
    }

    /// Goes through as many rows of one directory as there are slots, at most.
    pub(super) fn round(&mut self, parent: &Parent, rows: &[usize]) {
        if !self.approach(parent) {
            let refusal = Outcome::Moved.into();
            return rows.iter().for_each(|row| self.keep(*row, refusal, Duration::ZERO));
        }
        let mut taken = Vec::with_capacity(rows.len());
        let slots: Vec<usize> =
            self.cell.as_ref().map_or_else(Vec::new, |(_, cell)| cell.slots().collect());
        if let Some((_, cell)) = &mut self.cell {
            let intended = rows.iter().map(|row| self.job.origin(*row, Some(parent.mark)));
            let waiting = self.passed.iter().enumerate().filter_map(|(slot, passed)| {
                passed.map(|passed| (slot, self.job.origin(passed.row, Some(passed.from))))
            });
            cell.intend(waiting.chain(slots.iter().copied().zip(intended)));
        }
        for (place, &row) in rows.iter().enumerate() {
            let began = Instant::now();
            match self.look(row, parent) {
                Err(refusal) => self.keep(row, refusal, began.elapsed()),
                Ok(_) if self.cell.is_none() => {
                    self.end(row, Outcome::WouldDelete, 0, began.elapsed());
                }
                Ok(looked) => match self.take(&looked, parent, slots.get(place).copied()) {
                    Err(refusal) => self.keep(row, refusal, began.elapsed()),
                    Ok(slot) => taken.push((slot, Looked { spent: began.elapsed(), ..looked })),
                },
            }
        }
        if taken.is_empty() {
            return;
        }
        if let Some((_, cell)) = &mut self.cell {
            cell.note(taken.iter().map(|(_, looked)| self.job.first + looked.row as u64));
        }
        // Their directory was there before they were taken; was it there all the time?
        let whereabouts = self.whereabouts(parent);
        for (slot, looked) in taken {
            self.settle(slot, &looked, parent, whereabouts);
        }
    }

    /// Looks at the file that has the name now: opened first, so that the one look at its times and
    /// at the rules comes just before it is taken, and a process that has it open after that is not
    /// missed.
    pub(super) fn look(&mut self, row: usize, parent: &Parent) -> Result<Looked, Refusal> {
        self.job.until.check()?;
        if parent.aside {
            return Err(Outcome::Exempt.into());
        }
        let planned = self.planned(row);
        let job = self.job;
        let with_project = planned.entry.project.is_some()
            || parent.project.is_some()
            || job.checks.rules.exempt.exempts_projects();
        let with_lease = !job.open_files;
        // Where a lease does not cover other processes, the file is not opened for one.
        let opens = job.leases || !with_lease && (with_project || planned.entry.links != 1);
        let mut lease = if with_lease { Told::Nothing } else { Told::Closed };
        let opened = match opens {
            true => Some(self.open(&planned, parent)?),
            false => None,
        };
        let stat = match &opened {
            Some(file) => {
                if let Some(watch) = &mut self.watch {
                    watch.add(file);
                }
                if with_lease {
                    lease = lease::take(file);
                }
                statx(file.as_fd(), c"", AtFlags::EMPTY_PATH, WANTED)?
            }
            None => stat_name(parent, &planned)?,
        };
        let mut present = Entry::of_statx(&stat);
        // Unknown, and no reason, where it was not asked for.
        present.project = planned.entry.project;
        if let Some(file) = opened.as_ref().filter(|_| with_project) {
            present.project = project_of(file).map(|project| project.number).or(present.project);
        }
        job.checks.allow(&planned, &present)?;
        if parent.exempt || job.checks.exempted.has_file(parent, stat.stx_ino) {
            return Err(Outcome::Exempt.into());
        }
        job.allow_name(row, stat.stx_nlink)?;
        if parent.fixed || is_fixed(&stat) {
            return Err(Outcome::Immutable.into());
        }
        if parent.project.is_some_and(|project| present.project != Some(project)) {
            return Err(Outcome::CannotReturn.into());
        }
        match lease {
            Told::Closed => Ok(Looked { row, stat, opened, spent: Duration::ZERO }),
            Told::Open => Err(Outcome::Open.into()),
            Told::Nothing => Err(Outcome::OpenUnknown.into()),
        }
    }

    /// Opens a planned file. Where that is denied, a reason of the file's own is given first: the
    /// name may refer to another user's file.
    fn open(&self, planned: &Row, parent: &Parent) -> Result<OwnedFd, Refusal> {
        let denied = match open(&parent.descriptor, &planned.name) {
            Err(refusal) if refusal.outcome == Outcome::Denied => refusal,
            opened => return opened,
        };
        let mut present = Entry::of_statx(&stat_name(parent, planned)?);
        present.project = planned.entry.project;
        self.job.checks.allow(planned, &present)?;
        Err(denied)
    }

    /// The row, as far as our own removals have not outdated it.
    fn planned(&self, row: usize) -> std::borrow::Cow<'a, Row> {
        let planned = &self.job.rows[row];
        let Some(left) = self.left.get(&planned.entry.id) else {
            return std::borrow::Cow::Borrowed(planned);
        };
        let mut planned = planned.clone();
        planned.entry.links = left.links;
        planned.entry.times.change_ns = left.times.change_ns;
        std::borrow::Cow::Owned(planned)
    }

    pub(super) fn take(
        &self,
        looked: &Looked,
        parent: &Parent,
        slot: Option<usize>,
    ) -> Result<usize, Refusal> {
        let (Some((_, cell)), Some(slot)) = (&self.cell, slot) else {
            return Err(Refusal { outcome: Outcome::Failed, errno: libc::ENOSPC });
        };
        let replaces = self.passed[slot].is_some();
        // The last thing before: a host that was stopped for an hour continues here.
        self.job.until.check()?;
        cell.take(&parent.descriptor, &self.job.rows[looked.row].name, slot, replaces)?;
        Ok(slot)
    }

    /// Lets a file in quarantine go, or puts it back.
    pub(super) fn settle(
        &mut self,
        slot: usize,
        looked: &Looked,
        parent: &Parent,
        whereabouts: Whereabouts,
    ) {
        let began = Instant::now();
        let Some((quarantine, cell)) = &mut self.cell else { return };
        let place = cell.place(slot);
        let present = place.stat();
        if let Some(passed) = self.passed[slot].take() {
            let id = present.as_ref().ok().map(|stat| Entry::of_statx(stat).id);
            if id == Some(passed.id) {
                // The name had come to be another one of the file that waits, and a rename between
                // two names of one file does nothing.
                self.passed[slot] = Some(passed);
                return self.keep(looked.row, Outcome::NotSame.into(), looked.spent);
            }
            self.verdicts.push(passed.ended(Duration::ZERO));
        }
        let held = Held {
            lease: looked.opened.as_ref().filter(|_| !self.job.open_files),
            watch: self.watch.as_mut().zip(looked.opened.as_ref()),
        };
        let allowed = match whereabouts {
            // A directory that was removed was empty: its file is here.
            Whereabouts::InPlace | Whereabouts::Removed => {
                present.map_err(Refusal::from).and_then(|present| {
                    self.job.allow_name(looked.row, looked.stat.stx_nlink)?;
                    pass(self.job.checks, &looked.stat, &present, held)?;
                    Ok(present)
                })
            }
            Whereabouts::Elsewhere => Err(Outcome::Moved.into()),
        };
        let row = looked.row;
        // A file with names left is removed at once: its next name is compared with its state after
        // that.
        let removed = allowed.and_then(|present| match present.stx_nlink {
            1 => Ok((Some(Entry::of_statx(&present).id), freed_bytes(&present))),
            _ => place.remove().map(|()| (None, 0)).map_err(Refusal::from),
        });
        match removed {
            Ok((Some(id), freed_bytes)) => {
                let spent = looked.spent + began.elapsed();
                let from = parent.mark;
                self.passed[slot] = Some(Passed { row, id, from, freed_bytes, spent });
            }
            Ok((None, freed_bytes)) => {
                self.leave(looked);
                self.end(row, Outcome::Deleted, freed_bytes, looked.spent + began.elapsed());
            }
            Err(refusal) => {
                let origin = self.job.origin(row, Some(parent.mark));
                cell.note_back(origin.row);
                let back = quarantine.put_back(cell.place(slot), &parent.descriptor, origin);
                cell.look_after(slot);
                let refusal_recorded = if back { refusal } else { Outcome::InQuarantine.into() };
                self.keep(row, refusal_recorded, looked.spent + began.elapsed());
            }
        }
    }

    /// Remembers how a file was left that has names still.
    fn leave(&mut self, looked: &Looked) {
        if looked.stat.stx_nlink < 2 {
            return;
        }
        let Some(file) = &looked.opened else { return };
        if let Ok(stat) = statx(file.as_fd(), c"", AtFlags::EMPTY_PATH, WANTED) {
            let entry = Entry::of_statx(&stat);
            self.left.insert(entry.id, entry);
        }
    }

    fn keep(&mut self, row: usize, refusal: Refusal, spent: Duration) {
        let Refusal { outcome, errno } = refusal;
        let has_errno =
            matches!(outcome, Outcome::Denied | Outcome::Failed | Outcome::CannotReturn);
        let errno = if has_errno { errno } else { 0 };
        self.verdicts.push(Verdict { errno, ..Verdict::of(row, outcome, 0, spent) });
    }

    fn end(&mut self, row: usize, outcome: Outcome, freed_bytes: u64, spent: Duration) {
        self.verdicts.push(Verdict::of(row, outcome, freed_bytes, spent));
    }
}

/// Lease and watch that report on other processes while a file is in quarantine.
#[derive(Default)]
pub(super) struct Held<'a> {
    pub(super) lease: Option<&'a OwnedFd>,
    pub(super) watch: Option<(&'a mut Watch, &'a OwnedFd)>,
}

/// The last look, where no other user can exchange the file any more.
fn pass(checks: &Checks, before: &Statx, present: &Statx, held: Held<'_>) -> Result<(), Refusal> {
    is_as_before(before, present).map_err(|outcome| match outcome {
        Outcome::NotSame => checks.another(Entry::of_statx(present).times.birth_ns),
        outcome => outcome,
    })?;
    if held.lease.is_some_and(|file| !lease::is_whole(file)) {
        return Err(Outcome::Open.into());
    }
    if let Some(outcome) = held.watch.and_then(|(watch, file)| watch.disturbance(file)) {
        return Err(outcome.into());
    }
    Ok(())
}

/// The last look, and the removal if the file passes; returns the bytes that it frees.
pub(super) fn remove_if_same(
    checks: &Checks,
    place: Place<'_>,
    before: &Statx,
    held: Held<'_>,
) -> Result<u64, Refusal> {
    let present = place.stat()?;
    pass(checks, before, &present, held)?;
    place.remove()?;
    Ok(freed_bytes(&present))
}

/// Bytes that the removal of this name frees: none while the file has other names.
pub(super) fn freed_bytes(stat: &Statx) -> u64 {
    if stat.stx_nlink == 1 { stat.stx_blocks.saturating_mul(512) } else { 0 }
}

fn stat_name(parent: &Parent, planned: &Row) -> Result<Statx, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    statx(&parent.descriptor, &*planned.name, flags, WANTED)
}

/// Opens a name. Nothing is read, nothing is waited for and no time is moved.
pub(super) fn open(at: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Refusal> {
    let flags = OFlags::RDONLY
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::NOATIME
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    Ok(openat(at, name, flags, Mode::empty())?)
}
