//! A scan: a walk whose rows go into shards of an index, and that goes on where it was stopped.
//!
//! ```text
//!   workers ──────────┬──── pause ────┬──────────────┬──── pause ────┬───── end
//!   this thread       │ flush, write  │              │ flush, write  │ flush, write
//!                     ▼               ▼              ▼               ▼
//!   index     shards 0,1 · checkpoint      shards 2,3 · checkpoint      ...
//! ```
//!
//! In a pause no worker is within a buffer: what was seen is in the sinks, what was not is on the
//! scheduler. The sinks are flushed, then the checkpoint is written, in this order.

mod checkpoint;
mod shards;

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::beneath::Root;
use crate::error::{Error, Result};
use crate::walk::{
    Base, BaseIndex, Counts, Left, Quiet, Record, Scheduler, Settings, Shard, Sink, Unread, Walk,
};
use crate::work::on_threads;

pub use checkpoint::{CHECKPOINT, Checkpoint, Home, sync_directory};

/// How often a scan looks whether it is to stop.
const POLL: Duration = Duration::from_millis(50);
/// The time between two checkpoints is at least this part of the time that the scan took so far: a
/// scan of hours then has hundreds of shards, not hundreds of thousands, and loses as little to a
/// kill.
const CHECKPOINT_PART: f64 = 0.05;
/// Writing a row takes about a third of what reading one takes, so few sinks serve many workers;
/// each holds a row group in memory.
const SINKS_MAX: usize = 8;
/// A file of the index that says that it is whole.
const MANIFEST: &str = "manifest.json";
/// Prefix of every shard of a scan.
pub const SHARD_PREFIX: &str = "scan-";

/// Source, target and settings of a scan.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The directory that the scan begins at.
    pub root: PathBuf,
    /// The directory of the index; made if it is not there.
    pub index: PathBuf,
    /// How the walk goes about it.
    pub settings: Settings,
    /// The time between checkpoints, at first.
    pub checkpoint_every: Duration,
    /// An earlier index of the same root: directories that did not change since are not read, and
    /// the rows of their entries, directories excepted, are left to it.
    pub base: Option<BaseIndex>,
}

/// A scan as others see it while it goes on.
#[derive(Debug, Default)]
pub struct Control {
    record: Record,
    waiting: AtomicUsize,
    stop: AtomicBool,
    clock: Mutex<Clock>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    before_s: f64,
    started: Option<Instant>,
    ended: Option<Instant>,
}

/// How far a scan is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Counts so far.
    pub counts: Counts,
    /// How many known directories are not yet being read.
    pub waiting: usize,
    /// How long it has taken, earlier runs included.
    pub elapsed_s: f64,
}

/// Result of a scan.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Counts of the scan.
    pub counts: Counts,
    /// The first of the paths that it could not read; with any, the index is incomplete.
    pub unread: Vec<Unread>,
    /// When it began, in nanoseconds since 1970: no row is older.
    pub started_ns: i64,
    /// When it ended or was stopped: no row is younger.
    pub ended_ns: i64,
    /// How long it took, all its runs together, in seconds.
    pub elapsed_s: f64,
    /// The shards of the index.
    pub shards: Vec<Shard>,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

impl Control {
    /// Asks the scan to stop; it writes a checkpoint first.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        Progress {
            counts: self.record.counts(),
            waiting: self.waiting.load(Relaxed),
            elapsed_s: self.elapsed_s(),
        }
    }

    fn elapsed_s(&self) -> f64 {
        let clock = *self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        let end = clock.ended.unwrap_or_else(Instant::now);
        clock.before_s + clock.started.map_or(0.0, |started| (end - started).as_secs_f64())
    }

    fn set_clock(&self, set: impl FnOnce(&mut Clock)) {
        set(&mut self.clock.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Scans into Parquet shards, or goes on from the checkpoint in the index.
pub fn scan(options: &Options, control: &Control) -> Result<Summary> {
    scan_into(options, control, shards::ShardSink::new)
}

/// The same into sinks of another kind; each gets the index and the counter of shards.
pub fn scan_into<S: Sink>(
    options: &Options,
    control: &Control,
    sink: impl Fn(&Path, Arc<AtomicU64>) -> S,
) -> Result<Summary> {
    let root = Root::open(&options.root)?;
    // Before anything is written: a refusal leaves no index behind that was begun.
    options.settings.check_on(&root)?;
    let base = options.base.as_ref().map(Base::read).transpose()?;
    let _lock = lock(&options.index)?;
    let checkpoint = begin_or_go_on(options, home(&root, options.settings.device)?)?;
    if checkpoint.ended_ns.is_some() {
        return summary(checkpoint, false);
    }
    let numbers = Arc::new(AtomicU64::new(checkpoint.next_shard));
    let sinks = (0..sink_count(options.settings.threads))
        .map(|_| Mutex::new(sink(&options.index, Arc::clone(&numbers))))
        .collect::<Vec<_>>();
    control.record.go_on(checkpoint.counts, checkpoint.unread().unwrap_or_default());
    control.set_clock(|clock| {
        *clock =
            Clock { before_s: checkpoint.elapsed_s, started: Some(Instant::now()), ended: None };
    });
    let mut running = Running { options, control, numbers, sinks: &sinks, checkpoint, base };
    let ended = running.run(&root);
    control.set_clock(|clock| clock.ended = Some(Instant::now()));
    let stopped = ended?;
    summary(running.checkpoint, stopped)
}

struct Running<'a, S> {
    options: &'a Options,
    control: &'a Control,
    numbers: Arc<AtomicU64>,
    sinks: &'a [Mutex<S>],
    checkpoint: Checkpoint,
    base: Option<Base>,
}

impl<S: Sink> Running<'_, S> {
    /// Walks to the end, or until it is stopped; returns whether it was.
    fn run(&mut self, root: &Root) -> Result<bool> {
        let settings = &self.options.settings;
        let left = self.checkpoint.left().unwrap_or_default();
        let scheduler = Scheduler::new(settings.threads, settings.order(), left.into_tasks());
        let base = self.base.take();
        let walk = Walk::new(root, settings, &scheduler, &self.control.record, self.sinks)?
            .starting_from(base.as_ref());
        let coordinated = std::thread::scope(|scope| {
            let _end = scheduler.end_at_last();
            for worker in 0..settings.threads {
                let (walk, name) = (&walk, format!("scan-{worker}"));
                let started = std::thread::Builder::new()
                    .name(name)
                    .spawn_scoped(scope, move || walk.work(worker));
                if let Err(error) = started {
                    walk.fail(Error::system("clone", &self.options.root, error));
                    break;
                }
            }
            self.coordinate(&scheduler)
        });
        if let Some(error) = walk.failure() {
            return Err(error);
        }
        if coordinated? {
            return Ok(true);
        }
        self.keep(&Left::default(), true)?;
        Ok(false)
    }

    /// Has the workers pause now and then, and writes down where they stand.
    fn coordinate(&mut self, scheduler: &Scheduler) -> Result<bool> {
        let mut last = Instant::now();
        loop {
            if scheduler.wait(self.options.checkpoint_every.clamp(Duration::from_millis(1), POLL))
                == Quiet::Ended
            {
                return Ok(false);
            }
            self.control.waiting.store(scheduler.queued(), Relaxed);
            let stop = self.control.stop.load(Relaxed);
            let part = Duration::from_secs_f64(self.control.elapsed_s() * CHECKPOINT_PART);
            if !stop && last.elapsed() < self.options.checkpoint_every.max(part) {
                continue;
            }
            scheduler.set_pausing(true);
            let quiet = loop {
                match scheduler.wait(POLL) {
                    Quiet::Working => {}
                    quiet => break quiet,
                }
            };
            if quiet == Quiet::Ended {
                return Ok(false);
            }
            self.keep(&scheduler.left(), false)?;
            if stop {
                return Ok(true);
            }
            scheduler.set_pausing(false);
            last = Instant::now();
        }
    }

    /// Makes all rows so far durable, then writes down the remaining work.
    fn keep(&mut self, left: &Left, end: bool) -> Result<()> {
        let flushed = on_threads(self.sinks, |sink| {
            sink.lock().unwrap_or_else(PoisonError::into_inner).flush()
        });
        for shards in flushed {
            self.checkpoint.shards.extend(shards?);
        }
        sync_directory(&self.options.index)?;
        self.checkpoint.counts = self.control.record.counts();
        self.checkpoint.set_unread(&self.control.record.unread());
        self.checkpoint.set_left(left);
        self.checkpoint.next_shard = self.numbers.load(Relaxed);
        self.checkpoint.elapsed_s = self.control.elapsed_s();
        self.checkpoint.ended_ns = end.then(now_ns);
        self.checkpoint.write(&self.options.index)
    }
}

fn summary(checkpoint: Checkpoint, stopped: bool) -> Result<Summary> {
    Ok(Summary {
        counts: checkpoint.counts,
        unread: checkpoint.unread().unwrap_or_default(),
        started_ns: checkpoint.started_ns,
        ended_ns: checkpoint.ended_ns.unwrap_or_else(now_ns),
        elapsed_s: checkpoint.elapsed_s,
        shards: checkpoint.shards,
        stopped,
    })
}

fn sink_count(threads: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    threads.min(cores).min(SINKS_MAX)
}

/// Makes the directory of the index, and holds it as long as the answer lives: two scans into one
/// index would each remove the other's shards.
fn lock(index: &Path) -> Result<File> {
    use std::os::unix::fs::DirBuilderExt;
    // It lists the names of every user's files: no other user may read them.
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(index);
    made.map_err(|error| Error::system("mkdir", index, error))?;
    let directory = File::open(index).map_err(|error| Error::system("open", index, error))?;
    if !crate::lock::is_ours(&directory) {
        return Err(Error::Usage(format!("{}: another scan writes there", index.display())));
    }
    Ok(directory)
}

fn home(root: &Root, device: Option<u64>) -> Result<Home> {
    let failed = |call| move |errno| Error::system(call, root.path(), errno);
    let stat = rustix::fs::fstat(root.descriptor().as_fd()).map_err(failed("fstat"))?;
    let system = rustix::fs::fstatvfs(root.descriptor().as_fd()).map_err(failed("fstatvfs"))?;
    let device = device.unwrap_or(root.device());
    Ok(Home { device, file_system: system.f_fsid, inode: stat.st_ino })
}

/// The checkpoint in the index, after shards that it does not list are removed; or a new one.
fn begin_or_go_on(options: &Options, home: Home) -> Result<Checkpoint> {
    let index = &options.index;
    let refused = |why: &str| Err(Error::Usage(format!("{}: {why}", index.display())));
    if index.join(MANIFEST).exists() {
        return refused("holds a whole index already; scan into another directory");
    }
    let base = options.base.as_ref().map(|base| base.id.clone());
    let Some(checkpoint) = Checkpoint::read(index)? else {
        if !names_of_shards(index)?.is_empty() {
            return refused("holds shards but no checkpoint; scan into another directory");
        }
        let checkpoint = Checkpoint::begin(home, options.settings.wanted, base, now_ns());
        checkpoint.write(index)?;
        return Ok(checkpoint);
    };
    if checkpoint.home != home {
        return refused("was begun from another root; scan into another directory");
    }
    if checkpoint.wanted != options.settings.wanted {
        return refused("was begun with other options; use the same");
    }
    if checkpoint.base != base {
        return refused("was begun from another base index, or without one; use the same");
    }
    let listed = |name: &String| checkpoint.shards.iter().any(|shard| shard.name == *name);
    for shard in &checkpoint.shards {
        if !index.join(&shard.name).is_file() {
            return Err(Error::data(
                index.join(&shard.name),
                "the checkpoint lists it, but it is gone",
            ));
        }
    }
    for name in names_of_shards(index)?.into_iter().filter(|name| !listed(name)) {
        let path = index.join(name);
        std::fs::remove_file(&path).map_err(|error| Error::system("unlink", path, error))?;
    }
    Ok(checkpoint)
}

/// Shards of scans in an index, and parts of unfinished ones.
fn names_of_shards(index: &Path) -> Result<Vec<String>> {
    let failed = |error| Error::system("read", index, error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(index).map_err(failed)? {
        if let Ok(name) = entry.map_err(failed)?.file_name().into_string() {
            if name.trim_start_matches('.').starts_with(SHARD_PREFIX) {
                names.push(name);
            }
        }
    }
    Ok(names)
}

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
