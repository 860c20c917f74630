//! A parallel walk of everything beneath a root.
//!
//! ```text
//!              ┌── worker: read ─▶ look at each name ─▶ rows ─▶ a sink ──▶ shards
//!   scheduler ─┼── worker                     └─▶ subdirectories ─▶ scheduler
//!   (deques)   └── worker
//! ```
//!
//! A piece of work is *(directory, cookie)*: read on from there. Three things follow from its
//! being that small.
//!
//! - **Memory is bounded whatever the tree.** One read fills one buffer. When more directories
//!   wait than a limit, a worker puts the one that it reads back, with its cookie, and takes what
//!   it just found first; so there are never more than the limit and one buffer a level.
//! - **A walk can go on after a kill.** Between two buffers, all rows so far and all remaining work
//!   together are the state of the walk (`scan` writes that down).
//! - **One large directory does not hold up the others.** Workers with nothing to do are handed
//!   names of a buffer that another has read.
//!
//! A walk never follows a link, leaves the device or the mount of the root (both are compared for
//! every name), or trusts a path twice (a directory is opened from one that is open).

mod base;
mod descriptors;
pub(crate) mod directory;
mod gate;
mod inspect;
mod mdt;
mod names;
mod record;
pub(crate) mod scheduler;
mod sink;
mod worker;

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::beneath::Root;
use crate::error::{Error, Result};
use crate::work::on_threads;

pub(crate) use base::Base;
pub use base::{BaseIndex, whole};
pub use inspect::Wanted;
pub(crate) use inspect::{Inspector, attribute_of};
pub(crate) use record::Record;
pub use record::{Counts, Unread};
pub(crate) use scheduler::{Left, Order, Quiet, Scheduler};
pub use sink::{Rows, Shard, Sink};

use descriptors::Descriptors;
use gate::Gates;
pub(crate) use mdt::MDTS;
use mdt::Mdts;

/// How a walk goes about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How many calls are under way at a time; latency rules on a parallel file system, not cores.
    pub threads: usize,
    /// Attributes asked for besides `statx`.
    pub wanted: Wanted,
    /// How many directories may stay open.
    pub descriptors: usize,
    /// Delay of every call: to limit calls, and to try out the latency of a distant server.
    pub delay: Option<Duration>,
    /// A call that takes longer is late; fewer are made while more than one in a hundred is, on a
    /// Lustre of the same MDT.
    pub latest: Option<Duration>,
    /// Limits on the load of each MDT of a Lustre.
    pub each_mdt: EachMdt,
    /// The device number of rows; `None`: that of the root on this host.
    pub device: Option<u64>,
    /// Size of the buffer for one read of a directory.
    pub buffer_bytes: usize,
    /// Number of waiting directories from which on a worker puts back the one that it reads.
    pub queue_limit: usize,
}

/// Limits on the load of each MDT of a Lustre.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EachMdt {
    /// Time between two names that it is asked for.
    pub apart: Duration,
    /// How many threads ask it.
    pub threads: usize,
}

impl Default for EachMdt {
    fn default() -> Self {
        Self { apart: Duration::ZERO, threads: THREADS_MAX }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            threads: 2,
            wanted: Wanted::default(),
            descriptors: 1024,
            delay: None,
            latest: None,
            each_mdt: EachMdt::default(),
            device: None,
            buffer_bytes: 32 << 10,
            queue_limit: 16 << 10,
        }
    }
}

/// The most threads that a walk takes.
pub const THREADS_MAX: usize = 256;
/// A name of 255 bytes and what goes with it fit twice.
const BUFFER_BYTES_MIN: usize = 1 << 10;

impl Settings {
    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<()> {
        if self.threads == 0 || self.threads > THREADS_MAX {
            let threads = self.threads;
            return Err(Error::Usage(format!("threads must be 1 to {THREADS_MAX}, not {threads}")));
        }
        if self.each_mdt.threads == 0 {
            return Err(Error::Usage("threads of an MDT must be at least 1".into()));
        }
        if self.buffer_bytes < BUFFER_BYTES_MIN {
            return Err(Error::Usage(format!(
                "buffers of {} bytes are too small",
                self.buffer_bytes
            )));
        }
        Ok(())
    }

    /// The same, and refuses attributes that the file system cannot provide.
    pub fn check_on(&self, root: &Root) -> Result<()> {
        self.check()?;
        Inspector::new(root.descriptor(), self.wanted).map(drop)
    }

    /// The order in which workers take work.
    pub(crate) fn order(&self) -> Order {
        let EachMdt { threads: workers_each, .. } = self.each_mdt;
        match self.wanted.lustre {
            true => Order::Mdts { workers_each, queue_limit: self.queue_limit },
            false => Order::Own,
        }
    }

    /// Whether calls are held up, whatever the servers answer.
    fn holds_up(&self) -> bool {
        self.delay.is_some() || !self.each_mdt.apart.is_zero()
    }

    fn gates(&self) -> Gates {
        let count = if self.wanted.lustre { MDTS } else { 1 };
        Gates::new(count, self.delay.unwrap_or_default(), self.each_mdt.apart, self.latest)
    }
}

/// A walk that is under way: what its workers share.
pub(crate) struct Walk<'a, S> {
    root: &'a Root,
    settings: &'a Settings,
    scheduler: &'a Scheduler,
    record: &'a Record,
    sinks: &'a [Mutex<S>],
    inspector: Inspector,
    gates: Gates,
    /// Which MDT answers for a name, where there are any.
    mdts: Option<Mdts>,
    base: Option<&'a Base>,
    descriptors: Descriptors,
    /// Whether it was not allowed to read directories without a trace in their access times.
    leaves_access_times: AtomicBool,
    failure: Mutex<Option<Error>>,
}

impl<'a, S: Sink> Walk<'a, S> {
    /// Prepares a walk; only the root itself is read.
    pub fn new(
        root: &'a Root,
        settings: &'a Settings,
        scheduler: &'a Scheduler,
        record: &'a Record,
        sinks: &'a [Mutex<S>],
    ) -> Result<Self> {
        settings.check()?;
        let inspector =
            Inspector::new(root.descriptor(), settings.wanted)?.listing_device(settings.device);
        let mdts = settings.wanted.lustre.then(|| Mdts::new(root.descriptor())).transpose();
        let mdts = mdts.map_err(|error| Error::system("dup", root.path(), error))?;
        let descriptors = Descriptors::new(settings.descriptors, settings.threads);
        let leaves_access_times = AtomicBool::new(false);
        let failure = Mutex::new(None);
        Ok(Self {
            root,
            settings,
            scheduler,
            record,
            sinks,
            inspector,
            gates: settings.gates(),
            mdts,
            base: None,
            descriptors,
            leaves_access_times,
            failure,
        })
    }

    /// The same, without reading directories that hold the names which an earlier index lists.
    pub fn starting_from(mut self, base: Option<&'a Base>) -> Self {
        self.base = base;
        self
    }

    /// Works until the scheduler ends; one call a thread.
    pub fn work(&self, worker: usize) {
        let _end = self.scheduler.end_at_last();
        if self.settings.holds_up() || self.settings.latest.is_some() {
            be_punctual();
        }
        worker::Worker::new(self, worker).run();
    }

    /// The MDT that answers for an inode number; 0 on other file systems.
    fn mdt_of(&self, inode: u64) -> u16 {
        self.mdts.as_ref().map_or(0, |mdts| mdts.of_inode(inode))
    }

    /// The error that ended the walk before its time.
    pub fn failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends the walk with an error; the first one counts.
    pub fn fail(&self, error: Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.scheduler.end();
    }
}

/// Lets this thread sleep for as long as it says: by default the kernel adds up to 50 us.
fn be_punctual() {
    // SAFETY: it takes one number and changes only when this thread wakes up.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// Walks a whole tree at once into memory: for tests, and small trees.
pub fn walk(root: &Root, settings: &Settings) -> Result<(Rows, Counts, Vec<Unread>)> {
    let sinks: Vec<Mutex<Rows>> = (0..settings.threads).map(|_| Mutex::default()).collect();
    let (counts, unread) = walk_into(root, settings, &sinks)?;
    let rows = sinks.into_iter().flat_map(|sink| sink.into_inner().unwrap_or_default()).collect();
    Ok((rows, counts, unread))
}

/// Walks a whole tree at once, without checkpoints.
pub fn walk_into<S: Sink>(
    root: &Root,
    settings: &Settings,
    sinks: &[Mutex<S>],
) -> Result<(Counts, Vec<Unread>)> {
    settings.check()?;
    let first = vec![scheduler::Task::Read(directory::Directory::root(), 0)];
    let scheduler = Scheduler::new(settings.threads, settings.order(), first);
    let record = Record::default();
    let walk = Walk::new(root, settings, &scheduler, &record, sinks)?;
    on_threads(0..settings.threads, |worker| walk.work(worker));
    walk.failure().map_or_else(|| Ok((record.counts(), record.unread())), Err)
}
