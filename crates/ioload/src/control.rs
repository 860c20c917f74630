//! Stopping: one place that workers ask between two transfers.

use crate::error::Error;
use crate::signals;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    TaskFailed,
    PeerFailed(u64),
    Signal(&'static str),
}

impl Stop {
    /// The error that a part of the run which has none of its own reports.
    pub fn error(self) -> Option<Error> {
        match self {
            Self::TaskFailed => None,
            Self::PeerFailed(rank) => Some(Error::PeerFailed(rank)),
            Self::Signal(name) => Some(Error::Interrupted(name)),
        }
    }
}

#[derive(Debug, Default)]
pub struct Control {
    task_failed: AtomicU8,
    /// Rank + 1 of the peer that failed, 0 for none.
    peer_failed: AtomicI64,
}

impl Control {
    /// Asks all tasks of this rank to stop because one failed.
    pub fn fail(&self) {
        self.task_failed.store(1, Ordering::Relaxed);
    }

    /// Asks all tasks of this rank to stop because another rank failed.
    pub fn peer_failed(&self, rank: u64) {
        self.peer_failed.store(rank as i64 + 1, Ordering::Relaxed);
    }

    /// Why to stop now, if there is a reason; a signal comes first, because then nothing else matters.
    pub fn stop(&self) -> Option<Stop> {
        if let Some(name) = signals::received() {
            return Some(Stop::Signal(name));
        }
        if self.task_failed.load(Ordering::Relaxed) != 0 {
            return Some(Stop::TaskFailed);
        }
        match self.peer_failed.load(Ordering::Relaxed) {
            0 => None,
            rank => Some(Stop::PeerFailed(rank as u64 - 1)),
        }
    }
}

/// Keeps the tasks of one phase in step: start together, agree on the wear-out, end.
#[derive(Debug, Default)]
pub struct Conductor {
    state: Mutex<State>,
    changed: Condvar,
}

/// How far the tasks of this rank are.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    /// Tasks with their buffers ready.
    pub ready: u64,
    /// Tasks at the end of their own loop.
    pub reached: u64,
    /// Most transfers among those.
    pub most_transfers: u64,
    pub finished: u64,
    /// When to begin (monotonic nanoseconds), once known.
    start_at_ns: Option<i64>,
    /// Transfers that every task goes on to, once known.
    target_transfers: Option<u64>,
}

/// How often a waiting thread looks for a reason to stop.
const LOOK_AROUND: Duration = Duration::from_millis(20);

impl Conductor {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock only means that another thread panicked; the counters stay valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn wait_for<T>(&self, control: &Control, pick: impl Fn(&State) -> Option<T>) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(value) = pick(&state) {
                return Some(value);
            }
            if control.stop().is_some() {
                return None;
            }
            state = self
                .changed
                .wait_timeout(state, LOOK_AROUND)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Task: its buffers are ready; returns when to begin, or nothing if the run stops first.
    pub fn wait_for_start(&self, control: &Control) -> Option<i64> {
        self.change(|state| state.ready += 1);
        self.wait_for(control, |state| state.start_at_ns)
    }

    /// Task: its own loop ended after `transfers`; returns how many all go on to, or nothing if the run stops first.
    pub fn agree(&self, transfers: u64, control: &Control) -> Option<u64> {
        self.change(|state| {
            state.reached += 1;
            state.most_transfers = state.most_transfers.max(transfers);
        });
        self.wait_for(control, |state| state.target_transfers)
    }

    pub fn finish(&self) {
        self.change(|state| state.finished += 1);
    }

    pub fn start(&self, at_ns: i64) {
        self.change(|state| state.start_at_ns = Some(at_ns));
    }

    pub fn set_target(&self, transfers: u64) {
        self.change(|state| state.target_transfers = Some(transfers));
    }

    /// Supervisor: waits until all tasks are ready; false if the run stops first.
    pub fn wait_until_ready(&self, tasks: u64, control: &Control) -> bool {
        self.wait_for(control, |state| (state.ready == tasks).then_some(())).is_some()
    }

    /// Supervisor: how far the tasks are, after something changed or the time passed.
    pub fn wait_a_little(&self, longest: Duration, known: &State) -> State {
        let state = self.lock();
        let unchanged =
            |state: &mut State| state.finished == known.finished && state.reached == known.reached;
        let state = self
            .changed
            .wait_timeout_while(state, longest, unchanged)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
        *state
    }
}
