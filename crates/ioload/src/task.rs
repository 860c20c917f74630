//! One task of one phase: open, transfer, flush, close, each timed.

use crate::buffer::AlignedBuffer;
use crate::control::{Conductor, Control};
use crate::error::{Error, Result};
use crate::latency::{Latencies, PackedLatencies};
use crate::pattern::{Identity, Pattern};
use crate::schedule::Schedule;
use crate::sys;
use crate::timeline::Timeline;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    Write,
    Read,
}

impl Access {
    pub fn word(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

/// Settings that all tasks of a phase have in common.
#[derive(Clone, Copy, Debug)]
pub struct PhaseSettings {
    pub access: Access,
    pub transfer_bytes: usize,
    pub direct: bool,
    pub fsync: bool,
    pub verify: bool,
    /// Stonewall, nanoseconds after the task's file was opened.
    pub deadline_ns: Option<i64>,
    /// Go on to the greatest number of transfers.
    pub wear_out: bool,
    /// Repeat until so many nanoseconds after the task's file was opened.
    pub minimum_duration_ns: Option<i64>,
}

#[derive(Debug)]
pub struct TaskPlan {
    pub task: u64,
    pub path: PathBuf,
    /// The file must not exist yet: the task makes it, and so may remove it.
    pub create_new: bool,
    pub schedule: Schedule,
    pub identity: Identity,
}

/// Progress of a task that the supervisor may read while it runs.
#[derive(Debug, Default)]
pub struct TaskProgress {
    pub bytes: AtomicU64,
    /// The task created its file: it may be removed.
    pub created: AtomicBool,
}

/// Where the stonewall met a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stonewall {
    pub bytes: u64,
    /// When, monotonic nanoseconds.
    pub at_ns: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    pub checked_bytes: u64,
    pub mismatches: u64,
    pub first_offset: Option<u64>,
}

/// Outcome of one task, for its own rank and for rank 0.
///
/// Moments are monotonic nanoseconds of its host while it runs, and since the common beginning of
/// the phase once that is over ([`TaskOutcome::count_from`]).
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct TaskOutcome {
    pub task: u64,
    pub path: String,
    pub transfers_per_pass: u64,
    pub bytes: u64,
    /// Whole transfers.
    pub transfers: u64,
    /// Time just before the open call.
    pub opened_ns: Option<i64>,
    /// Time just after the close call.
    pub closed_ns: Option<i64>,
    pub open_ns: Option<i64>,
    pub transfer_ns: Option<i64>,
    pub fsync_ns: Option<i64>,
    pub close_ns: Option<i64>,
    /// Where the deadline ended the task's own loop.
    pub stonewall: Option<Stonewall>,
    pub latencies: PackedLatencies,
    /// Bytes per interval since the phase began.
    pub timeline: Timeline,
    pub verification: Option<Verification>,
    #[serde(skip)]
    pub error: Option<Error>,
}

impl TaskOutcome {
    pub fn begin(plan: &TaskPlan) -> Self {
        Self {
            task: plan.task,
            path: plan.path.to_string_lossy().into_owned(),
            transfers_per_pass: plan.schedule.transfers_per_pass(),
            ..Self::default()
        }
    }

    /// Counts moments from the beginning of the phase.
    pub fn count_from(&mut self, origin_ns: i64) {
        let stonewall = self.stonewall.as_mut().map(|stonewall| &mut stonewall.at_ns);
        let moments = self.opened_ns.iter_mut().chain(&mut self.closed_ns).chain(stonewall);
        moments.for_each(|moment_ns| *moment_ns -= origin_ns);
    }
}

/// Runs one task from its buffers to its close; a failure stops the other tasks and is in the
/// outcome.
pub fn run(
    settings: &PhaseSettings,
    plan: &TaskPlan,
    progress: &TaskProgress,
    conductor: &Conductor,
    control: &Control,
) -> TaskOutcome {
    let _finished = FinishOnDrop { conductor, control };
    let mut outcome = TaskOutcome::begin(plan);
    let worker = Worker::new(settings, plan, progress, conductor, control);
    let result = worker.and_then(|mut worker| worker.run(&mut outcome));
    if let Err(error) = result {
        control.fail();
        outcome.error = Some(error);
    }
    outcome
}

/// Marks a task as finished even if it panics, so that no other task waits for ever.
struct FinishOnDrop<'a> {
    conductor: &'a Conductor,
    control: &'a Control,
}

impl Drop for FinishOnDrop<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.control.fail();
        }
        self.conductor.finish();
    }
}

struct Worker<'a> {
    settings: &'a PhaseSettings,
    plan: &'a TaskPlan,
    progress: &'a TaskProgress,
    conductor: &'a Conductor,
    control: &'a Control,
    /// Pattern to write, or to expect when reading is verified.
    pattern: Option<Pattern>,
    /// Where reads go; empty when writing.
    buffer: AlignedBuffer,
    latencies: Latencies,
}

impl<'a> Worker<'a> {
    fn new(
        settings: &'a PhaseSettings,
        plan: &'a TaskPlan,
        progress: &'a TaskProgress,
        conductor: &'a Conductor,
        control: &'a Control,
    ) -> Result<Self> {
        let memory = |source: io::Error| Error::Resource {
            what: format!("memory for transfers of {} bytes", settings.transfer_bytes),
            source,
        };
        let writes = settings.access == Access::Write;
        let pattern = if writes || settings.verify {
            Some(Pattern::new(plan.identity, settings.transfer_bytes).map_err(memory)?)
        } else {
            None
        };
        let length_bytes = if writes { 0 } else { settings.transfer_bytes };
        Ok(Self {
            settings,
            plan,
            progress,
            conductor,
            control,
            pattern,
            buffer: AlignedBuffer::new(length_bytes).map_err(memory)?,
            latencies: Latencies::default(),
        })
    }

    fn run(&mut self, outcome: &mut TaskOutcome) -> Result<()> {
        let Some(start_ns) = self.conductor.wait_for_start(self.control) else {
            return Ok(());
        };
        sleep_until(start_ns, self.control);
        if self.control.stop().is_some() {
            return Ok(());
        }
        let opened_ns = sys::monotonic_ns();
        outcome.opened_ns = Some(opened_ns);
        let file = self.open()?;
        outcome.open_ns = Some(sys::monotonic_ns() - opened_ns);
        let transferred = self.transfer_all(&file, start_ns, outcome);
        outcome.latencies = self.latencies.pack();
        let flushed = transferred.and_then(|()| self.flush(&file, outcome));
        let before_close_ns = sys::monotonic_ns();
        let closed = sys::close(file).map_err(|source| self.error("close", source));
        let closed_ns = sys::monotonic_ns();
        outcome.close_ns = Some(closed_ns - before_close_ns);
        outcome.closed_ns = Some(closed_ns);
        // The first failure is the cause; a failing close after it says nothing new.
        flushed.and(closed)
    }

    fn error(&self, action: &'static str, source: io::Error) -> Error {
        Error::io(action, &self.plan.path, source)
    }

    fn open(&self) -> Result<File> {
        let mut options = OpenOptions::new();
        let writes = self.settings.access == Access::Write;
        options.read(!writes).write(writes).mode(0o644);
        if writes {
            options.create(true).create_new(self.plan.create_new);
        }
        if self.settings.direct {
            options.custom_flags(libc::O_DIRECT);
        }
        let file = options.open(&self.plan.path).map_err(|source| {
            if source.kind() == io::ErrorKind::AlreadyExists {
                Error::Exists(self.plan.path.clone())
            } else {
                self.error("open", source)
            }
        })?;
        if writes && self.plan.create_new {
            self.progress.created.store(true, Ordering::Release);
        }
        Ok(file)
    }

    /// Its own loop, then the wear-out up to the agreed number.
    fn transfer_all(
        &mut self,
        file: &File,
        phase_start_ns: i64,
        outcome: &mut TaskOutcome,
    ) -> Result<()> {
        outcome.transfer_ns = Some(0);
        outcome.verification = self.settings.verify.then(Verification::default);
        let begun_ns = sys::monotonic_ns();
        let mut now_ns = begun_ns;
        while !self.own_loop_ended(outcome, now_ns, begun_ns) {
            now_ns = self.transfer(file, phase_start_ns, outcome)?;
        }
        if !self.settings.wear_out {
            return Ok(());
        }
        let Some(target) = self.conductor.agree(outcome.transfers, self.control) else {
            return Ok(());
        };
        while outcome.transfers < target && self.control.stop().is_none() {
            self.transfer(file, phase_start_ns, outcome)?;
        }
        Ok(())
    }

    fn own_loop_ended(&self, outcome: &mut TaskOutcome, now_ns: i64, begun_ns: i64) -> bool {
        if self.control.stop().is_some() {
            return true;
        }
        let elapsed_ns = now_ns - begun_ns;
        let per_pass = self.plan.schedule.transfers_per_pass();
        let at_end_of_file = outcome.transfers > 0 && outcome.transfers % per_pass == 0;
        let long_enough = self.settings.minimum_duration_ns.is_none_or(|least| elapsed_ns >= least);
        let past_deadline = self.settings.deadline_ns.is_some_and(|most| elapsed_ns >= most);
        if past_deadline {
            outcome.stonewall = Some(Stonewall { bytes: outcome.bytes, at_ns: now_ns });
        }
        past_deadline || (at_end_of_file && long_enough)
    }

    /// Makes one transfer; returns the time at its end. Making and comparing data is outside the
    /// latency.
    fn transfer(
        &mut self,
        file: &File,
        phase_start_ns: i64,
        outcome: &mut TaskOutcome,
    ) -> Result<i64> {
        let offset = self.plan.schedule.offset(outcome.transfers);
        let length = self.settings.transfer_bytes;
        let path = &self.plan.path;
        let (before_ns, after_ns) = match self.settings.access {
            Access::Write => {
                let pattern = self.pattern.as_mut().expect("a writer has a pattern");
                let bytes = pattern.transfer(offset, length);
                let before_ns = sys::monotonic_ns();
                write_whole(file, bytes, offset)
                    .map_err(|failure| failure.into_error("write", path, offset, length))?;
                (before_ns, sys::monotonic_ns())
            }
            Access::Read => {
                let before_ns = sys::monotonic_ns();
                read_whole(file, &mut self.buffer, offset)
                    .map_err(|failure| failure.into_error("read", path, offset, length))?;
                (before_ns, sys::monotonic_ns())
            }
        };
        let latency_ns = after_ns - before_ns;
        self.latencies.record(latency_ns.max(0) as u64);
        outcome.transfers += 1;
        outcome.bytes += length as u64;
        *outcome.transfer_ns.get_or_insert(0) += latency_ns;
        outcome.timeline.add((after_ns - phase_start_ns).max(0) as u64, length as u64);
        self.progress.bytes.store(outcome.bytes, Ordering::Relaxed);
        if let Some(verification) = &mut outcome.verification {
            let pattern = self.pattern.as_mut().expect("a verifying reader has a pattern");
            let (different, first) = pattern.differences(offset, &self.buffer);
            verification.checked_bytes += length as u64;
            verification.mismatches += different;
            if let Some(differs_at) = first {
                let least =
                    verification.first_offset.map_or(differs_at, |known| known.min(differs_at));
                verification.first_offset = Some(least);
            }
        }
        Ok(after_ns)
    }

    fn flush(&self, file: &File, outcome: &mut TaskOutcome) -> Result<()> {
        if self.control.stop().is_some() {
            return Ok(());
        }
        if self.settings.fsync && self.settings.access == Access::Write {
            let before_ns = sys::monotonic_ns();
            file.sync_all().map_err(|source| self.error("flush", source))?;
            outcome.fsync_ns = Some(sys::monotonic_ns() - before_ns);
        }
        let links = file.metadata().map_err(|source| self.error("look at", source))?.nlink();
        // An open file can be removed without any call on it failing: its numbers would be those of no file.
        if links == 0 {
            return Err(Error::Vanished(self.plan.path.clone()));
        }
        Ok(())
    }
}

#[derive(Debug)]
enum Failure {
    System(io::Error),
    Short { done_bytes: usize },
}

impl Failure {
    fn into_error(
        self,
        action: &'static str,
        path: &std::path::Path,
        offset: u64,
        wanted_bytes: usize,
    ) -> Error {
        match self {
            Self::System(source) => Error::io(action, path, source),
            Self::Short { done_bytes } => Error::ShortTransfer {
                action,
                path: path.to_path_buf(),
                offset,
                done_bytes,
                wanted_bytes,
            },
        }
    }
}

fn write_whole(file: &File, bytes: &[u8], offset: u64) -> std::result::Result<(), Failure> {
    continue_until_whole(bytes.len(), |done| file.write_at(&bytes[done..], offset + done as u64))
}

fn read_whole(file: &File, buffer: &mut [u8], offset: u64) -> std::result::Result<(), Failure> {
    continue_until_whole(buffer.len(), |done| {
        file.read_at(&mut buffer[done..], offset + done as u64)
    })
}

/// Repeats `call` (which gets the bytes done so far) until all of `length` is done.
fn continue_until_whole(
    length: usize,
    mut call: impl FnMut(usize) -> io::Result<usize>,
) -> std::result::Result<(), Failure> {
    let mut done = 0;
    while done < length {
        match call(done) {
            Ok(0) => return Err(Failure::Short { done_bytes: done }),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::System(error)),
        }
    }
    Ok(())
}

/// Waits for the common start, at most as long as clocks of one machine room can differ.
fn sleep_until(start_ns: i64, control: &Control) {
    loop {
        let left_ns = start_ns - sys::monotonic_ns();
        if left_ns <= 0 || control.stop().is_some() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_nanos(left_ns.min(20_000_000) as u64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_panics_counts_as_finished_and_stops_the_others() {
        let (conductor, control) = (Conductor::default(), Control::default());
        let outcome = std::thread::scope(|scope| {
            let task = scope.spawn(|| {
                let _finished = FinishOnDrop { conductor: &conductor, control: &control };
                std::panic::resume_unwind(Box::new("a bug"));
            });
            task.join().map(|()| "no panic")
        });
        assert!(outcome.is_err());
        assert!(control.stop().is_some());
        let wait = std::time::Duration::from_secs(5);
        assert_eq!(conductor.wait_a_little(wait, &crate::control::State::default()).finished, 1);
    }

    #[test]
    fn short_and_interrupted_calls_are_continued() {
        let mut script =
            vec![Ok(3), Err(io::ErrorKind::Interrupted.into()), Ok(5), Ok(2)].into_iter();
        let mut offsets = Vec::new();
        let outcome = continue_until_whole(10, |done| {
            offsets.push(done);
            script.next().unwrap()
        });
        assert!(outcome.is_ok());
        assert_eq!(offsets, [0, 3, 3, 8]);
    }

    #[test]
    fn the_end_of_a_file_and_a_full_disk_are_failures() {
        let mut script = vec![Ok(4), Ok(0)].into_iter();
        let outcome = continue_until_whole(10, |_| script.next().unwrap());
        assert!(matches!(outcome, Err(Failure::Short { done_bytes: 4 })));
        let outcome = continue_until_whole(10, |_| Err(io::Error::from_raw_os_error(libc::ENOSPC)));
        let Err(failure) = outcome else { panic!("a full disk must fail") };
        let error = failure.into_error("write", std::path::Path::new("/x"), 0, 10);
        assert_eq!(error.report().kind, "no_space");
        assert_eq!(error.errno(), Some(libc::ENOSPC));
    }
}
