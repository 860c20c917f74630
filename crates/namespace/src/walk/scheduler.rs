//! Who does what next: deques of work, an end, and pauses.
//!
//! ```text
//!   newest: deep, near                       oldest: shallow, large
//!   push, pop ─▶ [ ... | ... | ... | ... ] ─▶ others steal
//! ```
//!
//! **Whose deques.** Without MDTs each worker has one: its own newest work is near, and one with
//! none steals the oldest of another. On a Lustre each MDT has one, and a worker takes of the MDT
//! at which fewest are at work, so that all are loaded alike while there is work for them; a worker
//! that reads a large directory lets the others come first when it is one of too many.
//!
//! **Memory.** With more tasks than a limit the newest of all is next, whatever deque it is in: the
//! tree is walked by depth until they are fewer.
//!
//! **When it ends.** `unfinished` counts tasks that are in a deque or being worked on. Work is
//! counted before it can be seen, and tasks that follow from a task are pushed before the task
//! itself is finished; so the count is 0 only once all is done and no more can come.
//!
//! **Why no worker sleeps through work.** A worker first marks itself as waiting and then looks for
//! a task; a pusher first queues, and a worker that has done its task first leaves its MDT, and
//! then looks for waiting workers. All are sequentially consistent, so at least one of the two sees
//! the other.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::directory::Directory;
use super::mdt::MDTS;
use super::names::Names;

pub enum Task {
    /// Read a directory from a cookie on; 0 is its beginning.
    Read(Arc<Directory>, u64),
    /// Look at names of a directory that another worker reads.
    Stat(Arc<Directory>, Names),
    /// Look at the subdirectories of a directory whose names are unchanged, from a place in its
    /// listing on.
    Known(Arc<Directory>, u64),
}

impl Task {
    fn directory(&self) -> &Arc<Directory> {
        match self {
            Self::Read(directory, _) | Self::Stat(directory, _) | Self::Known(directory, _) => {
                directory
            }
        }
    }
}

/// Directories that are left, and where each goes on.
#[derive(Debug, Default)]
pub struct Left {
    /// Directories to read, each from a cookie on.
    pub read: Vec<(Arc<Directory>, u64)>,
    /// Directories whose names are unchanged, each from a place in its listing on.
    pub known: Vec<(Arc<Directory>, u64)>,
}

impl Left {
    pub fn into_tasks(self) -> Vec<Task> {
        let read = self.read.into_iter().map(|(directory, cookie)| Task::Read(directory, cookie));
        let known = self.known.into_iter().map(|(directory, place)| Task::Known(directory, place));
        read.chain(known).collect()
    }
}

/// Result of waiting for the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quiet {
    /// There is no more work, or the end was called.
    Ended,
    Paused,
    Working,
}

/// Order in which workers take work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// One's own, then that of the other workers.
    Own,
    /// That of the MDT at which fewest are at work.
    Mdts {
        /// Maximum number of workers at one MDT.
        workers_each: usize,
        /// Number of tasks from which on the newest is next.
        queue_limit: usize,
    },
}

#[derive(Default)]
struct Deque {
    /// Tasks, each with a number: one that was pushed later has a higher one.
    tasks: Mutex<VecDeque<(u64, Task)>>,
    queued: AtomicUsize,
    /// How many workers are at a task of it.
    at_work: AtomicUsize,
}

pub struct Scheduler {
    order: Order,
    deques: Vec<Deque>,
    /// Deques from this one on never had a task.
    used: AtomicUsize,
    /// The deque that each worker has its task from.
    places: Vec<AtomicUsize>,
    numbers: AtomicU64,
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
    pub fn new(workers: usize, order: Order, first: Vec<Task>) -> Self {
        let count = if order == Order::Own { workers } else { MDTS };
        let scheduler = Self {
            order,
            deques: (0..count).map(|_| Deque::default()).collect(),
            used: AtomicUsize::new(0),
            places: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
            numbers: AtomicU64::new(0),
            queued: AtomicUsize::new(0),
            unfinished: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            pausing: AtomicBool::new(false),
            ended: AtomicBool::new(first.is_empty()),
            sleepers: Mutex::new(()),
            wake: Condvar::new(),
            quiet: Condvar::new(),
        };
        for (index, task) in first.into_iter().enumerate() {
            scheduler.put(index % workers, task);
        }
        scheduler
    }

    /// Adds work; the last of it is done first.
    pub fn push(&self, worker: usize, tasks: impl IntoIterator<Item = Task>) {
        let mut added = 0;
        for task in tasks {
            self.put(worker, task);
            added += 1;
        }
        if added > 0 && self.waiting.load(SeqCst) > 0 {
            let _asleep = lock(&self.sleepers);
            if added == 1 { self.wake.notify_one() } else { self.wake.notify_all() }
        }
    }

    fn put(&self, worker: usize, task: Task) {
        let place = match self.order {
            Order::Own => worker,
            Order::Mdts { .. } => usize::from(task.directory().mdt()),
        };
        let deque = &self.deques[place];
        self.unfinished.fetch_add(1, SeqCst);
        self.used.fetch_max(place + 1, SeqCst);
        let mut tasks = lock(&deque.tasks);
        tasks.push_back((self.numbers.fetch_add(1, SeqCst), task));
        deque.queued.fetch_add(1, SeqCst);
        self.queued.fetch_add(1, SeqCst);
    }

    /// The next task of a worker, waited for; `None` at the end.
    pub fn next(&self, worker: usize) -> Option<Task> {
        loop {
            if self.has_ended() {
                return None;
            }
            let pausing = self.pausing.load(SeqCst);
            let task = if pausing { self.take_stat(worker) } else { self.take(worker) };
            if task.is_some() {
                return task;
            }
            self.sleep();
        }
    }

    /// Says that the task of a worker is done, and what came of it pushed.
    pub fn finished(&self, worker: usize) {
        let place = self.places[worker].load(SeqCst);
        self.deques[place].at_work.fetch_sub(1, SeqCst);
        if self.unfinished.fetch_sub(1, SeqCst) == 1 {
            self.end();
        } else if self.order != Order::Own && self.waiting() > 0 {
            // There is room for another one at its MDT.
            let _asleep = lock(&self.sleepers);
            self.wake.notify_one();
        }
    }

    /// Ends it: no worker gets another task.
    pub fn end(&self) {
        self.ended.store(true, SeqCst);
        let _asleep = lock(&self.sleepers);
        self.wake.notify_all();
        self.quiet.notify_all();
    }

    /// Ends it when the returned guard is dropped: a thread that panics would otherwise leave the
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

    /// How many workers have nothing to do and could help with a directory.
    pub fn could_help(&self, directory: &Directory) -> usize {
        match self.order {
            Order::Own => self.waiting(),
            Order::Mdts { workers_each, .. } => {
                let at_work = self.deques[usize::from(directory.mdt())].at_work.load(SeqCst);
                self.waiting().min(workers_each.saturating_sub(at_work))
            }
        }
    }

    /// Whether a worker is one of too many at its MDT while there is work at another.
    pub fn is_wanted_elsewhere(&self, worker: usize) -> bool {
        let Order::Mdts { .. } = self.order else { return false };
        let here = self.deques[self.places[worker].load(SeqCst)].at_work.load(SeqCst);
        let wants =
            |other: &Deque| other.queued.load(SeqCst) > 0 && other.at_work.load(SeqCst) + 1 < here;
        self.deques[..self.used.load(SeqCst)].iter().any(wants)
    }

    fn waiting(&self) -> usize {
        self.waiting.load(SeqCst)
    }

    /// How many tasks are waiting for a worker.
    pub fn queued(&self) -> usize {
        self.queued.load(SeqCst)
    }

    /// Asks the workers to leave directories for later, or lets them go on.
    pub fn set_pausing(&self, pausing: bool) {
        self.pausing.store(pausing, SeqCst);
        let _asleep = lock(&self.sleepers);
        self.wake.notify_all();
    }

    /// Waits until it ended, until no worker is busy while a pause is asked for, or until the
    /// timeout.
    pub fn wait(&self, timeout: Duration) -> Quiet {
        let asleep = lock(&self.sleepers);
        let still = |_: &mut ()| self.state() == Quiet::Working;
        let waited = self.quiet.wait_timeout_while(asleep, timeout, still);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        self.state()
    }

    /// The directories that are left, and where each goes on. Only while no worker is busy.
    pub fn left(&self) -> Left {
        let mut left = Left::default();
        for deque in &self.deques {
            for (_, task) in lock(&deque.tasks).iter() {
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
        } else if self.pausing.load(SeqCst) && self.waiting() == self.places.len() {
            Quiet::Paused
        } else {
            Quiet::Working
        }
    }

    fn sleep(&self) {
        let mut asleep = lock(&self.sleepers);
        self.waiting.fetch_add(1, SeqCst);
        self.quiet.notify_all();
        while !self.has_ended() && (self.pausing.load(SeqCst) || !self.has_work()) {
            asleep = self.wake.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
        self.waiting.fetch_sub(1, SeqCst);
    }

    fn has_work(&self) -> bool {
        match self.order {
            Order::Own => self.queued() > 0,
            Order::Mdts { workers_each, queue_limit } => {
                self.next_mdt(0, workers_each, queue_limit).is_some()
            }
        }
    }

    fn take(&self, worker: usize) -> Option<Task> {
        let Order::Mdts { workers_each, queue_limit } = self.order else {
            let count = self.deques.len();
            return self.take_from(worker, worker, VecDeque::pop_back).or_else(|| {
                let others = (1..count).map(|step| (worker + step) % count);
                others.into_iter().find_map(|at| self.take_from(worker, at, VecDeque::pop_front))
            });
        };
        // Another worker may take the task first.
        while let Some(mdt) = self.next_mdt(worker, workers_each, queue_limit) {
            if let Some(task) = self.take_from(worker, mdt, VecDeque::pop_back) {
                return Some(task);
            }
        }
        None
    }

    /// The MDT whose task is next; of several alike another one for each worker.
    fn next_mdt(&self, worker: usize, workers_each: usize, queue_limit: usize) -> Option<usize> {
        let used = self.used.load(SeqCst);
        let turned = (0..used).map(|step| (worker + step) % used);
        let queued = turned.filter(|mdt| self.deques[*mdt].queued.load(SeqCst) > 0);
        if self.queued() >= queue_limit {
            let newest = |mdt: &usize| lock(&self.deques[*mdt].tasks).back().map(|task| task.0);
            return queued.max_by_key(newest);
        }
        let at_work = |mdt: &usize| self.deques[*mdt].at_work.load(SeqCst);
        queued.min_by_key(at_work).filter(|mdt| at_work(mdt) < workers_each)
    }

    fn take_from(
        &self,
        worker: usize,
        place: usize,
        end: impl FnOnce(&mut VecDeque<(u64, Task)>) -> Option<(u64, Task)>,
    ) -> Option<Task> {
        let (_, task) = end(&mut lock(&self.deques[place].tasks))?;
        self.taken(worker, place);
        Some(task)
    }

    /// Names that were handed over: a pause begins when none are left.
    fn take_stat(&self, worker: usize) -> Option<Task> {
        let own = if self.order == Order::Own { worker..worker + 1 } else { 0..self.deques.len() };
        own.into_iter().find_map(|place| {
            let mut tasks = lock(&self.deques[place].tasks);
            let at = tasks.iter().rposition(|(_, task)| matches!(task, Task::Stat(..)))?;
            let (_, task) = tasks.remove(at)?;
            drop(tasks);
            self.taken(worker, place);
            Some(task)
        })
    }

    fn taken(&self, worker: usize, place: usize) {
        let deque = &self.deques[place];
        self.places[worker].store(place, SeqCst);
        deque.at_work.fetch_add(1, SeqCst);
        deque.queued.fetch_sub(1, SeqCst);
        self.queued.fetch_sub(1, SeqCst);
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
        (0..count)
            .map(|number| Task::Read(root.child(number.to_string().as_bytes(), 0), 0))
            .collect()
    }

    #[test]
    fn a_worker_takes_its_newest_and_steals_the_oldest() {
        let scheduler = Scheduler::new(2, Order::Own, Vec::new());
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
    fn all_is_done_once(order: Order) {
        let scheduler = Scheduler::new(4, order, directories(1));
        let done = AtomicUsize::new(0);
        let mut pauses = 0;
        // All of it may be done before this thread runs again: so the first pause is set before.
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
                                let child = directory.child(b"x", (level % 3) as u16);
                                let names = Task::Stat(Arc::clone(&child), Names::default());
                                let again = Task::Read(Arc::clone(&child), left);
                                scheduler.push(worker, [Task::Read(child, left), names, again]);
                            }
                            done.fetch_add(1, SeqCst);
                        }
                        scheduler.finished(worker);
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
    fn everything_is_done_once_through_pauses() {
        all_is_done_once(Order::Own);
        for (workers_each, queue_limit) in [(1, 1000), (2, 50), (100, 0)] {
            all_is_done_once(Order::Mdts { workers_each, queue_limit });
        }
    }

    fn of_mdts(mdts: &[u16]) -> Vec<Task> {
        let root = Directory::root();
        let child = |(number, mdt): (usize, &u16)| root.child(number.to_string().as_bytes(), *mdt);
        mdts.iter().enumerate().map(child).map(|directory| Task::Read(directory, 0)).collect()
    }

    fn mdt(task: Option<Task>) -> Option<u16> {
        task.map(|task| task.directory().mdt())
    }

    #[test]
    fn workers_are_spread_over_mdts() {
        let order = Order::Mdts { workers_each: 100, queue_limit: 100 };
        let scheduler = Scheduler::new(6, order, of_mdts(&[0, 0, 0, 0, 0, 0, 1, 1, 7]));
        let mut taken: Vec<_> = (0..6).filter_map(|worker| mdt(scheduler.next(worker))).collect();
        taken.sort_unstable();
        assert_eq!(taken, [0, 0, 0, 1, 1, 7]);
        // One of three goes where there is work again and no worker.
        let at_first = (0..6).find(|worker| scheduler.places[*worker].load(SeqCst) == 0).unwrap();
        assert!(!scheduler.is_wanted_elsewhere(at_first));
        let at_last = (0..6).find(|worker| scheduler.places[*worker].load(SeqCst) == 7).unwrap();
        scheduler.push(at_last, of_mdts(&[7, 7]));
        assert!(scheduler.is_wanted_elsewhere(at_first));
        assert!(!scheduler.is_wanted_elsewhere(at_last));
        scheduler.finished(at_last);
        assert_eq!(mdt(scheduler.next(at_last)), Some(7));
    }

    #[test]
    fn no_more_workers_than_are_allowed_are_at_an_mdt() {
        let order = Order::Mdts { workers_each: 2, queue_limit: 100 };
        let scheduler = &Scheduler::new(3, order, of_mdts(&[5, 5, 5, 5]));
        let Some(held) = scheduler.next(0) else { panic!("one was queued") };
        assert_eq!(scheduler.could_help(held.directory()), 0);
        assert!(scheduler.next(1).is_some());
        std::thread::scope(|scope| {
            let third = scope.spawn(move || mdt(scheduler.next(2)));
            while scheduler.waiting() < 1 {
                std::thread::yield_now();
            }
            assert!(!third.is_finished());
            scheduler.finished(0);
            assert_eq!(third.join().unwrap(), Some(5));
        });
    }

    /// Each directory holds a thousand of the other MDT: by the MDT alone they would be listed
    /// level by level, all of them at a time.
    #[test]
    fn more_than_the_limit_are_walked_by_depth() {
        let queue_limit = 500;
        let order = Order::Mdts { workers_each: 1, queue_limit };
        let scheduler = Scheduler::new(1, order, of_mdts(&[0]));
        let (mut done, mut most) = (0, 0);
        while let Some(task) = scheduler.next(0) {
            let Task::Read(directory, from) = task else { panic!("names were not handed over") };
            let level = directory.path().iter().filter(|byte| **byte == b'/').count();
            if level < 3 && from < 1000 && done < 20_000 {
                let rest = Task::Read(Arc::clone(&directory), from + 100);
                let child = |number: u64| {
                    let name = (from + number).to_string();
                    Task::Read(directory.child(name.as_bytes(), 1 - directory.mdt()), 0)
                };
                scheduler.push(0, std::iter::once(rest).chain((0..100).map(child)));
            }
            most = most.max(scheduler.queued());
            scheduler.finished(0);
            done += 1;
        }
        assert!(done > 20_000);
        // A buffer of each level beyond the limit.
        assert!(most <= queue_limit + 4 * 101, "{most}");
    }

    #[test]
    fn the_end_wakes_everybody() {
        let scheduler = &Scheduler::new(3, Order::Own, directories(1));
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
