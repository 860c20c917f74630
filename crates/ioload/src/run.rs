//! A run from its first look at the directory to the removal of its files.
//!
//! ```text
//! arrive ─> [start-write ─> tasks ─> written] ─> [start-read ─> tasks] ─> end ─> remove ─> report
//! ```
//! Every arrow between two words is a barrier of all ranks. A rank that fails leaves the line, removes its files
//! and reports; the others follow as soon as they see its mark.

use crate::args::Options;
use crate::arrival::{self, Arrival};
use crate::control::Control;
use crate::direct::DirectReport;
use crate::error::{Error, ErrorReport, Result};
use crate::files::{self, Guard};
use crate::pattern::Identity;
use crate::phase::{self, Clock, PhaseContext, RankPhase};
use crate::rendezvous::Rendezvous;
use crate::report::{self, Parameters, Part, Report, Status};
use crate::schedule::{Layout, Schedule};
use crate::signals::{self, Handlers};
use crate::sys;
use crate::task::{Access, PhaseSettings, TaskPlan, TaskProgress};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Report of a rank to rank 0 at the end.
#[derive(Debug, Serialize, Deserialize)]
struct RankReport {
    phases: Vec<RankPhase>,
    error: Option<ErrorReport>,
}

#[derive(Debug)]
pub struct Outcome {
    pub report: Option<Report>,
    pub error: Option<ErrorReport>,
    pub exit_code: u8,
}

/// Runs what `options` ask for.
///
/// The handlers must live until the report is out: a signal that comes after the last look at it
/// must not end the process with files kept but not reported.
///
/// # Errors
/// Wrong use that shows only on the file system. Failed input or output is part of the outcome instead.
pub fn run(options: &Options, _handlers: &Handlers) -> Result<Outcome> {
    let control = Arc::new(Control::default());
    let place = (options.rank.rank, options.rank.size);
    let opened = Rendezvous::open(
        &options.rendezvous,
        &options.run_id,
        place,
        options.rendezvous_timeout_s,
        Arc::clone(&control),
    );
    let mut rendezvous = match opened {
        Ok(rendezvous) => rendezvous,
        Err(error @ Error::Usage(_)) => return Err(error),
        Err(error) => return Ok(failed_early(options, &error.report())),
    };
    let arrival_here = arrival::look_around(options);
    let arrivals = match rendezvous.exchange("arrive", arrival_here) {
        Ok(gathered) => gathered.payloads,
        Err(error) => {
            rendezvous.abort();
            rendezvous.withdraw()?;
            return Ok(failed_early(options, &error.report()));
        }
    };
    if let Err(error) = arrival::admit(&arrivals) {
        // Rank 0 stays until all have read why, because it removes the directory.
        if place.0 == 0 {
            rendezvous.collect_reports::<()>(true);
        } else {
            rendezvous.leave_report(&())?;
        }
        rendezvous.close(place.0 == 0)?;
        if error.exit_code() == crate::error::EXIT_USAGE {
            return Err(Error::Usage(error.message));
        }
        return Ok(failed_early(options, &error));
    }
    Runner::new(options, control, rendezvous, arrivals).run()
}

/// The outcome of a run that ended before its first phase.
fn failed_early(options: &Options, error: &ErrorReport) -> Outcome {
    let direct = DirectReport {
        asked: options.direct,
        used: false,
        reason: options.direct.then(|| "the run ended before it was tried".to_string()),
    };
    let report = (options.rank.rank == 0).then(|| Report {
        hosts: vec![sys::host_name()],
        status: report::status_of_error(error),
        error: Some(error.clone()),
        ..empty_report(options, Clock::Monotonic, direct)
    });
    Outcome { report, error: Some(error.clone()), exit_code: error.exit_code() }
}

fn empty_report(options: &Options, clock: Clock, direct: DirectReport) -> Report {
    Report {
        ioload: env!("CARGO_PKG_VERSION"),
        argv: options.argv.clone(),
        run_id: options.run_id.clone(),
        hosts: Vec::new(),
        ranks: options.rank.size,
        tasks: options.geometry.tasks,
        clock,
        status: Status::Ok,
        error: None,
        parameters: Parameters::new(options),
        direct,
        phases: Vec::new(),
    }
}

struct Runner<'a> {
    options: &'a Options,
    control: Arc<Control>,
    rendezvous: Rendezvous,
    arrivals: Vec<Arrival>,
    clock: Clock,
    direct: DirectReport,
    guard: Guard,
    phases: Vec<RankPhase>,
    /// Transfers of each task in the write phase of this run.
    written: Option<Vec<u64>>,
}

impl<'a> Runner<'a> {
    fn new(
        options: &'a Options,
        control: Arc<Control>,
        rendezvous: Rendezvous,
        arrivals: Vec<Arrival>,
    ) -> Self {
        let boot = &arrivals[0].boot_id;
        let one_boot = arrivals.len() == 1
            || (boot.is_some() && arrivals.iter().all(|arrival| &arrival.boot_id == boot));
        let reason = arrivals.iter().find_map(|arrival| arrival.direct_refused.clone());
        let direct = DirectReport {
            asked: options.direct,
            used: options.direct && reason.is_none(),
            reason,
        };
        Self {
            options,
            control,
            rendezvous,
            clock: if one_boot { Clock::Monotonic } else { Clock::Realtime },
            direct,
            arrivals,
            guard: Guard::default(),
            phases: Vec::new(),
            written: None,
        }
    }

    fn run(mut self) -> Result<Outcome> {
        let error = self.phases_and_end().err();
        if error.is_some() {
            self.rendezvous.abort();
        }
        if error.is_none() && self.options.keep {
            self.guard.keep();
        }
        if error.as_ref().is_some_and(|error| error.report().kind == "rank_silent") {
            self.adopt_all();
        }
        let removed = self.guard.remove();
        let error = error.or(removed.err()).map(|error| error.report());
        if self.options.rank.rank == 0 { self.conclude(error) } else { self.leave(error) }
    }

    /// The phases and the barrier after them; the first failure ends them.
    fn phases_and_end(&mut self) -> Result<()> {
        if self.options.write {
            self.phase(Access::Write)?;
        }
        if self.options.read {
            self.share_written()?;
            self.phase(Access::Read)?;
        }
        self.rendezvous.exchange("end", ())?;
        match signals::received() {
            Some(name) => Err(Error::Interrupted(name)),
            None => Ok(()),
        }
    }

    fn phase(&mut self, access: Access) -> Result<()> {
        let settings = self.settings(access);
        let plans = self.plans(access)?;
        let progress: Vec<TaskProgress> = plans.iter().map(|_| TaskProgress::default()).collect();
        if access == Access::Write {
            self.adopt_shared();
        }
        let context = PhaseContext {
            rendezvous: &self.rendezvous,
            control: &self.control,
            clock: self.clock,
            progress: self.options.progress && self.options.rank.rank == 0,
        };
        let mut phase = phase::run(&settings, &plans, &progress, &context);
        for (plan, progress) in plans.iter().zip(&progress) {
            if progress.created.load(Ordering::Acquire) {
                self.guard.add(plan.path.clone());
            }
        }
        if phase.error.is_none() {
            phase.error = mismatch(&phase).map(|error| error.report());
        }
        let failed = phase.error.clone();
        self.phases.push(phase);
        match failed {
            Some(error) => Err(Error::Reported(error)),
            None => Ok(()),
        }
    }

    fn settings(&self, access: Access) -> PhaseSettings {
        let options = self.options;
        let nanoseconds = |seconds: f64| (seconds * 1e9) as i64;
        PhaseSettings {
            access,
            transfer_bytes: options.geometry.transfer_bytes as usize,
            direct: self.direct.used,
            fsync: options.fsync,
            verify: options.verify && access == Access::Read,
            deadline_ns: options.deadline_s.map(nanoseconds),
            wear_out: options.wear_out,
            minimum_duration_ns: options.minimum_duration_s.map(nanoseconds),
        }
    }

    fn plans(&self, access: Access) -> Result<Vec<TaskPlan>> {
        let options = self.options;
        let plan = |task: u64| {
            let shift = if access == Access::Read { options.reorder } else { 0 };
            let owner = (task + shift) % options.geometry.tasks;
            let path = files::path_of(options, owner);
            let schedule = match access {
                Access::Write => Schedule::write(options.geometry, task, self.shuffle_seed()),
                Access::Read => self.read_schedule(owner, &path)?,
            };
            let identity = Identity { seed: options.seed, file: files::number_of(options, owner) };
            Ok(TaskPlan {
                task,
                path,
                create_new: access == Access::Write && self.makes_file_of(task),
                schedule,
                identity,
            })
        };
        files::tasks_of(options, options.rank.rank).map(plan).collect()
    }

    /// A file of its own that was not there before; a shared one is opened by all tasks at once.
    fn makes_file_of(&self, task: u64) -> bool {
        let own_rank = self.options.rank.rank;
        let index = task - files::tasks_of(self.options, own_rank).start;
        let existed = self.arrivals[own_rank as usize].existed[index as usize];
        self.options.geometry.layout == Layout::FilePerProcess && !existed
    }

    fn shuffle_seed(&self) -> Option<u64> {
        self.options.random.then_some(self.options.seed)
    }

    /// Schedule for reading the data of `owner`: as this run wrote them, or as found on disk.
    fn read_schedule(&self, owner: u64, path: &Path) -> Result<Schedule> {
        let geometry = self.options.geometry;
        let size_bytes =
            path.metadata().map_err(|source| Error::io("look at", path, source))?.len();
        let available = match &self.written {
            Some(written) => written[owner as usize].min(geometry.transfers_per_task()),
            None => geometry.transfers_within(owner, size_bytes),
        };
        if available == 0 {
            return Err(Error::NothingToRead { path: path.to_path_buf(), size_bytes });
        }
        Ok(match self.written {
            Some(_) => Schedule::read_written(geometry, owner, available, self.shuffle_seed()),
            None => Schedule::read_found(geometry, owner, available, self.shuffle_seed()),
        })
    }

    /// Tells all ranks how much each task wrote: a stonewalled write leaves less than a block.
    fn share_written(&mut self) -> Result<()> {
        let Some(phase) = self.phases.first() else {
            return Ok(());
        };
        let transfers_here: Vec<u64> = phase.tasks.iter().map(|task| task.transfers).collect();
        let gathered = self.rendezvous.exchange("written", transfers_here)?;
        self.written = Some(gathered.payloads.concat());
        Ok(())
    }

    /// The shared file is rank 0's to remove, if it was not there before.
    fn adopt_shared(&mut self) {
        if self.options.geometry.layout == Layout::SharedFile && self.options.rank.rank == 0 {
            self.adopt(0);
        }
    }

    /// Takes over the files of a rank; those that were there before the run are not ours.
    fn adopt(&mut self, rank: u64) {
        if !self.options.write {
            return;
        }
        let existed = self.arrivals[rank as usize].existed.clone();
        for (task, existed) in files::tasks_of(self.options, rank).zip(existed) {
            if !existed {
                self.guard.add(files::path_of(self.options, task));
            }
        }
    }

    fn adopt_all(&mut self) {
        for rank in 0..self.options.rank.size {
            self.adopt(rank);
        }
    }

    /// Rank other than 0: the report goes to rank 0, or, if that is silent, everything is cleared away here.
    fn leave(mut self, error: Option<ErrorReport>) -> Result<Outcome> {
        let rank_0_is_silent = error.as_ref().is_some_and(|error| error.kind == "rank_silent");
        let report = RankReport { phases: std::mem::take(&mut self.phases), error: error.clone() };
        let left = if rank_0_is_silent { Ok(()) } else { self.rendezvous.leave_report(&report) };
        let closed = self.rendezvous.close(rank_0_is_silent);
        let error = error.or(left.and(closed).err().map(|error| error.report()));
        Ok(Outcome {
            report: None,
            exit_code: error.as_ref().map_or(0, ErrorReport::exit_code),
            error,
        })
    }

    /// Rank 0: gathers the reports, clears away what silent ranks left, and puts the report together.
    fn conclude(mut self, error: Option<ErrorReport>) -> Result<Outcome> {
        let of_this_rank =
            RankReport { phases: std::mem::take(&mut self.phases), error: error.clone() };
        let others: Vec<Option<RankReport>> = if self.options.rank.size > 1 {
            self.rendezvous.collect_reports(error.is_some())
        } else {
            Vec::new()
        };
        let mut errors: Vec<ErrorReport> = of_this_rank.error.iter().cloned().collect();
        for (index, report) in others.iter().enumerate() {
            match report {
                Some(report) => errors.extend(report.error.clone()),
                None => {
                    let rank = index as u64 + 1;
                    errors.push(
                        Error::RankSilent {
                            rank,
                            timeout_s: self.options.rendezvous_timeout_s,
                            waiting_for: "waiting for its report".to_string(),
                        }
                        .report(),
                    );
                    self.adopt(rank);
                }
            }
        }
        let removed = self.guard.remove();
        let closed = self.rendezvous.close(true);
        errors.extend(removed.and(closed).err().map(|error| error.report()));
        let ranks: Vec<Option<RankReport>> =
            std::iter::once(Some(of_this_rank)).chain(others).collect();
        let error = report::worst_error(errors.iter()).cloned();
        Ok(Outcome {
            exit_code: error.as_ref().map_or(0, ErrorReport::exit_code),
            report: Some(self.report(&ranks, error.clone())),
            error,
        })
    }

    fn report(&self, ranks: &[Option<RankReport>], error: Option<ErrorReport>) -> Report {
        let mut phases = Vec::new();
        for access in [Access::Write, Access::Read] {
            let parts: Vec<Part> = ranks
                .iter()
                .enumerate()
                .filter_map(|(rank, report)| {
                    let phase =
                        report.as_ref()?.phases.iter().find(|phase| phase.access == access)?;
                    Some(Part { rank: rank as u64, host: &self.arrivals[rank].host, phase })
                })
                .collect();
            if !parts.is_empty() {
                phases.push(report::merge(self.options, &parts));
            }
        }
        let worst = phases.iter().map(|phase| phase.status).max().unwrap_or(Status::Ok);
        let mut hosts: Vec<String> =
            self.arrivals.iter().map(|arrival| arrival.host.clone()).collect();
        hosts.sort();
        hosts.dedup();
        Report {
            hosts,
            status: error.as_ref().map_or(worst, report::status_of_error),
            error,
            phases,
            ..empty_report(self.options, self.clock, self.direct.clone())
        }
    }
}

/// The error of a phase that read something else than was written.
fn mismatch(phase: &RankPhase) -> Option<Error> {
    let checked = || phase.tasks.iter().filter_map(|task| Some((task, task.verification?)));
    let mismatches: u64 = checked().map(|(_, outcome)| outcome.mismatches).sum();
    let (path, offset) =
        checked().find_map(|(task, outcome)| Some((&task.path, outcome.first_offset?)))?;
    Some(Error::Mismatch { path: path.into(), offset, mismatches })
}
