//! Who does what next: a deque for each worker, work stealing, an end, and pauses.
//!
//! ```text
//!   own end (newest: deep, near)             far end (oldest: shallow, large)
//!   push, pop ─▶ [ ... | ... | ... | ... ] ─▶ others steal
//! ```
//!
//! **When it ends.** `unfinished` counts what lies in a deque or is being worked on. Work is
//! counted before it can be seen, and what comes of a piece of work is pushed before the piece
//! itself is finished; so the count is 0 only once there is nothing and nothing can come.
//!
//! **Why nobody sleeps through work.** A worker first says that it is waiting and then looks
//! whether anything is queued; a pusher first queues and then looks whether anybody is waiting.
//! All four are sequentially consistent, so at least one of the two sees the other.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::directory::Directory;
use super::names::Names;

pub enum Task {
    /// Read a directory from a cookie on; 0 is its beginning.
    Read(Arc<Directory>, u64),
    /// Look at names of a directory that somebody else reads.
    Stat(Arc<Directory>, Names),
    /// Look at the directories in one that holds the names that it did, from a place in its listing
    /// on.
    Known(Arc<Directory>, u64),
}

/// Directories that are left, and where each goes on.
#[derive(Debug, Default)]
pub struct Left {
    /// With a cookie: to be read.
    pub read: Vec<(Arc<Directory>, u64)>,
    /// With a place in its listing: they hold the names that they did.
    pub known: Vec<(Arc<Directory>, u64)>,
}

impl Left {
    pub fn into_tasks(self) -> Vec<Task> {
        let read = self.read.into_iter().map(|(directory, cookie)| Task::Read(directory, cookie));
        let known = self.known.into_iter().map(|(directory, place)| Task::Known(directory, place));
        read.chain(known).collect()
    }
}

/// What became of waiting for the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quiet {
    /// There is no more work, or the end was called.
    Ended,
    Paused,
    Working,
}

pub struct Scheduler {
    deques: Vec<Mutex<VecDeque<Task>>>,
    queued: AtomicUsize,
    unfinished: AtomicUsize,
    waiting: AtomicUsize,
    pausing: AtomicBool,
    ended: AtomicBool,
    sleepers: Mutex<()>,
    wake: Condvar,
    quiet: Condvar,
}

impl Scheduler {
    /// A scheduler for so many workers, who all find the first tasks.
    pub fn new(workers: usize, first: Vec<Task>) -> Self {
        let mut deques: Vec<VecDeque<Task>> = (0..workers).map(|_| VecDeque::new()).collect();
        let count = first.len();
        for (index, task) in first.into_iter().enumerate() {
            deques[index % workers].push_back(task);
        }
        Self {
            deques: deques.into_iter().map(Mutex::new).collect(),
            queued: AtomicUsize::new(count),
            unfinished: AtomicUsize::new(count),
            waiting: AtomicUsize::new(0),
            pausing: AtomicBool::new(false),
            ended: AtomicBool::new(count == 0),
            sleepers: Mutex::new(()),
            wake: Condvar::new(),
            quiet: Condvar::new(),
        }
    }

    /// Adds work; the last of it is done first.
    pub fn push(&self, worker: usize, tasks: impl IntoIterator<Item = Task>) {
        let mut deque = lock(&self.deques[worker]);
        let before = deque.len();
        for task in tasks {
            self.unfinished.fetch_add(1, SeqCst);
            deque.push_back(task);
        }
        let added = deque.len() - before;
        self.queued.fetch_add(added, SeqCst);
        drop(deque);
        if added > 0 && self.waiting.load(SeqCst) > 0 {
            let _asleep = lock(&self.sleepers);
            if added == 1 { self.wake.notify_one() } else { self.wake.notify_all() }
        }
    }

    /// The next task of a worker, waited for; `None` at the end.
    pub fn next(&self, worker: usize) -> Option<Task> {
        loop {
            if self.has_ended() {
                return None;
            }
            let pausing = self.pausing.load(SeqCst);
            let task = if pausing { self.own_stat(worker) } else { self.take(worker) };
            if task.is_some() {
                return task;
            }
            self.sleep();
        }
    }

    /// Says that a task is done, and what came of it pushed.
    pub fn finished(&self) {
        if self.unfinished.fetch_sub(1, SeqCst) == 1 {
            self.end();
        }
    }

    /// Ends it: nobody gets another task.
    pub fn end(&self) {
        self.ended.store(true, SeqCst);
        let _asleep = lock(&self.sleepers);
        self.wake.notify_all();
        self.quiet.notify_all();
    }

    /// Ends it when what this returns is dropped: a thread that panics would otherwise leave the
    /// others waiting for ever.
    pub fn end_at_last(&self) -> AtLast<'_> {
        AtLast(self)
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(SeqCst)
    }

    /// Whether what can be left for later should be.
    pub fn wants_quiet(&self) -> bool {
        self.pausing.load(SeqCst) || self.has_ended()
    }

    /// How many workers have nothing to do.
    pub fn waiting(&self) -> usize {
        self.waiting.load(SeqCst)
    }

    /// How many tasks nobody works on yet.
    pub fn queued(&self) -> usize {
        self.queued.load(SeqCst)
    }

    /// Asks the workers to leave directories for later, or lets them go on.
    pub fn set_pausing(&self, pausing: bool) {
        self.pausing.store(pausing, SeqCst);
        let _asleep = lock(&self.sleepers);
        self.wake.notify_all();
    }

    /// Waits until it ended, until nobody works while a pause is asked for, or so long.
    pub fn wait(&self, timeout: Duration) -> Quiet {
        let asleep = lock(&self.sleepers);
        let still = |_: &mut ()| self.state() == Quiet::Working;
        let waited = self.quiet.wait_timeout_while(asleep, timeout, still);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        self.state()
    }

    /// The directories that are left, and where each goes on. While nobody works only.
    pub fn left(&self) -> Left {
        let mut left = Left::default();
        for deque in &self.deques {
            for task in lock(deque).iter() {
                match task {
                    Task::Read(directory, at) => left.read.push((Arc::clone(directory), *at)),
                    Task::Known(directory, at) => left.known.push((Arc::clone(directory), *at)),
                    Task::Stat(..) => unreachable!("names are looked at before a pause begins"),
                }
            }
        }
        left
    }

    fn state(&self) -> Quiet {
        if self.has_ended() {
            Quiet::Ended
        } else if self.pausing.load(SeqCst) && self.waiting() == self.deques.len() {
            Quiet::Paused
        } else {
            Quiet::Working
        }
    }

    fn sleep(&self) {
        let mut asleep = lock(&self.sleepers);
        self.waiting.fetch_add(1, SeqCst);
        self.quiet.notify_all();
        while !self.has_ended() && (self.pausing.load(SeqCst) || self.queued() == 0) {
            asleep = self.wake.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
        self.waiting.fetch_sub(1, SeqCst);
    }

    fn take(&self, worker: usize) -> Option<Task> {
        let newest = lock(&self.deques[worker]).pop_back();
        let count = self.deques.len();
        let task = newest.or_else(|| {
            (1..count).find_map(|step| lock(&self.deques[(worker + step) % count]).pop_front())
        })?;
        self.queued.fetch_sub(1, SeqCst);
        Some(task)
    }

    /// Names that this worker put on its deque: a pause begins when none are left.
    fn own_stat(&self, worker: usize) -> Option<Task> {
        let mut deque = lock(&self.deques[worker]);
        let place = deque.iter().rposition(|task| matches!(task, Task::Stat(..)))?;
        let task = deque.remove(place)?;
        self.queued.fetch_sub(1, SeqCst);
        Some(task)
    }
}

pub struct AtLast<'a>(&'a Scheduler);

impl Drop for AtLast<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directories(count: usize) -> Vec<Task> {
        let root = Directory::root();
        (0..count).map(|number| Task::Read(root.child(number.to_string().as_bytes()), 0)).collect()
    }

    #[test]
    fn a_worker_takes_its_newest_and_steals_the_oldest() {
        let scheduler = Scheduler::new(2, Vec::new());
        scheduler.ended.store(false, SeqCst);
        scheduler.push(0, directories(3));
        let name = |task: Option<Task>| match task {
            Some(Task::Read(directory, _)) => directory.name().to_vec(),
            _ => panic!("a directory was queued"),
        };
        assert_eq!(name(scheduler.next(0)), b"2");
        assert_eq!(name(scheduler.next(1)), b"0");
        assert_eq!(scheduler.queued(), 1);
    }

    /// Each task makes two smaller ones: all of them are done once, whatever the pauses.
    #[test]
    fn everything_is_done_once_through_pauses() {
        let scheduler = Scheduler::new(4, directories(1));
        let done = AtomicUsize::new(0);
        let mut pauses = 0;
        // All of it may be done before this thread runs again: the first pause is there before.
        scheduler.set_pausing(true);
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let (scheduler, done) = (&scheduler, &done);
                scope.spawn(move || {
                    while let Some(task) = scheduler.next(worker) {
                        if let Task::Read(directory, left) = task {
                            let level =
                                directory.path().iter().filter(|&&byte| byte == b'/').count();
                            if level < 12 {
                                let child = directory.child(b"x");
                                let names = Task::Stat(Arc::clone(&child), Names::default());
                                let again = Task::Read(Arc::clone(&child), left);
                                scheduler.push(worker, [Task::Read(child, left), names, again]);
                            }
                            done.fetch_add(1, SeqCst);
                        }
                        scheduler.finished();
                    }
                });
            }
            loop {
                scheduler.set_pausing(true);
                let quiet = scheduler.wait(Duration::from_secs(60));
                if quiet == Quiet::Ended {
                    break;
                }
                assert_eq!(quiet, Quiet::Paused);
                assert_eq!(scheduler.left().into_tasks().len(), scheduler.queued());
                pauses += 1;
                scheduler.set_pausing(false);
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        assert_eq!(done.load(SeqCst), (1 << 13) - 1);
        assert!(pauses > 0);
        assert_eq!(scheduler.unfinished.load(SeqCst), 0);
    }

    #[test]
    fn the_end_wakes_everybody() {
        let scheduler = &Scheduler::new(3, directories(1));
        let Some(_held) = scheduler.next(0) else { panic!("one was queued") };
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (1..3)
                .map(|worker| scope.spawn(move || scheduler.next(worker).is_none()))
                .collect();
            while scheduler.waiting() < 2 {
                std::thread::yield_now();
            }
            scheduler.end();
            assert!(waiters.into_iter().all(|worker| worker.join().unwrap()));
        });
    }
}
