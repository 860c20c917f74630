//! Groups of rows handed out to threads.

use std::path::Path;
use std::sync::Mutex;
use std::thread::available_parallelism;

use crate::error::{Error, Result};
use crate::index::{Shard, Source};

/// Remaining work: the rest of the shard at hand, and the shards after it.
///
/// A shard is opened when the one before has been handed out, so that ten thousand of them need neither
/// descriptors nor memory at once.
struct Queue<'a, P> {
    shards: std::slice::Iter<'a, P>,
    open: Option<(Shard, usize)>,
    failed: Option<Error>,
}

impl<P: Source> Queue<'_, P> {
    fn next(&mut self) -> Result<Option<(Shard, usize)>> {
        loop {
            if self.failed.is_some() {
                return Ok(None);
            }
            if let Some((shard, next)) = &mut self.open {
                if *next < shard.groups() {
                    *next += 1;
                    return Ok(Some((shard.clone(), *next - 1)));
                }
            }
            let Some(source) = self.shards.next() else { return Ok(None) };
            self.open = Some((Shard::open_source(source)?, 0));
        }
    }
}

/// Lets `threads` threads (0: one a core) work on all groups of all shards, each with a state of its
/// own; returns the states. The first error ends the work of all.
pub(crate) fn over_groups<S: Send>(
    shards: &[impl Source],
    threads: usize,
    make: impl Fn() -> S + Sync,
    each: impl Fn(&mut S, &Shard, usize) -> Result<()> + Sync,
) -> Result<Vec<S>> {
    let queue = Mutex::new(Queue { shards: shards.iter(), open: None, failed: None });
    let locked = || queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let work = || {
        let mut state = make();
        loop {
            let next = locked().next();
            let done = match next {
                Ok(None) => return state,
                Ok(Some((shard, group))) => each(&mut state, &shard, group),
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                locked().failed.get_or_insert(error);
            }
        }
    };
    let states = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..count(threads)).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(|worker| worker.join());
        // A thread that panicked met a file that the decoder of a page could not take.
        ended.map(|state| state.map_err(|_| unreadable())).collect::<Result<Vec<S>>>()
    });
    match locked().failed.take() {
        Some(error) => Err(error),
        None => states,
    }
}

fn unreadable() -> Error {
    Error::data(Path::new("index"), "a shard could not be decoded")
}

/// Works on each item in a thread of its own; returns the results in the order of the items.
/// A panic goes on in the caller: no work may be said to have ended well after a bug.
pub(crate) fn on_threads<I: Send, T: Send>(
    items: impl IntoIterator<Item = I>,
    work: impl Fn(I) -> T + Sync,
) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            items.into_iter().map(|item| scope.spawn(move || work(item))).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// How many threads that is.
pub(crate) fn count(threads: usize) -> usize {
    if threads > 0 { threads } else { available_parallelism().map_or(1, usize::from) }
}
