//! One phase on one rank: its tasks as threads, watched by the thread that called.

use crate::control::{Conductor, Control, State};
use crate::error::{Error, ErrorReport, Result};
use crate::rendezvous::Rendezvous;
use crate::sys;
use crate::task::{self, Access, PhaseSettings, TaskOutcome, TaskPlan, TaskProgress};
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Clock by which the times of different ranks are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// All ranks run on one boot of one host.
    Monotonic,
    /// Several hosts: as good as their clocks are synchronised.
    Realtime,
}

/// Report of a rank to rank 0 about a phase.
#[derive(Debug, Serialize, Deserialize)]
pub struct RankPhase {
    pub access: Access,
    pub began_realtime_ns: i64,
    pub cpu_user_s: f64,
    pub cpu_system_s: f64,
    pub tasks: Vec<TaskOutcome>,
    pub error: Option<ErrorReport>,
}

/// Context of a phase besides its settings and plans.
pub struct PhaseContext<'a> {
    pub rendezvous: &'a Rendezvous,
    pub control: &'a Control,
    pub clock: Clock,
    pub progress: bool,
}

/// Runs the phase; the result holds a failure and what was done until then.
pub fn run(
    settings: &PhaseSettings,
    plans: &[TaskPlan],
    progress: &[TaskProgress],
    context: &PhaseContext,
) -> RankPhase {
    let conductor = Conductor::default();
    let supervisor = Supervisor {
        settings,
        progress,
        context,
        conductor: &conductor,
        tasks: plans.len() as u64,
    };
    let (mut outcomes, (begun, supervised)) = thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut spawned = Ok(());
        for (plan, own_progress) in plans.iter().zip(progress) {
            let (conductor, control) = (&conductor, context.control);
            let work = move || task::run(settings, plan, own_progress, conductor, control);
            match thread::Builder::new()
                .name(format!("task {}", plan.task))
                .spawn_scoped(scope, work)
            {
                Ok(handle) => threads.push(handle),
                Err(source) => {
                    context.control.fail();
                    spawned = Err(Error::Resource {
                        what: format!("a thread for task {}", plan.task),
                        source,
                    });
                    break;
                }
            }
        }
        let supervised = match spawned {
            Ok(()) => supervisor.run(),
            Err(error) => (Begun::now(), Err(error)),
        };
        if supervised.1.is_err() {
            // The tasks may still wait for a start or an agreement that will not come.
            context.control.fail();
        }
        let outcomes: Vec<TaskOutcome> = threads
            .into_iter()
            .zip(plans)
            .map(|(handle, plan)| handle.join().unwrap_or_else(|_| panicked(plan)))
            .collect();
        (outcomes, supervised)
    });
    let (user_s, system_s) = sys::cpu_s();
    let error = supervised.err().or_else(|| first_error(&mut outcomes, context));
    outcomes.iter_mut().for_each(|outcome| outcome.count_from(begun.origin_ns));
    RankPhase {
        access: settings.access,
        began_realtime_ns: begun.realtime_ns,
        cpu_user_s: user_s - begun.cpu_s.0,
        cpu_system_s: system_s - begun.cpu_s.1,
        tasks: outcomes,
        error: error.map(|error| error.report()),
    }
}

/// The outcome of a task that met a bug of ours; the panic itself has been printed already.
fn panicked(plan: &TaskPlan) -> TaskOutcome {
    TaskOutcome { error: Some(Error::Bug { task: plan.task }), ..TaskOutcome::begin(plan) }
}

/// The error to report: that of a signal, then that of a task, then that of another rank.
fn first_error(outcomes: &mut [TaskOutcome], context: &PhaseContext) -> Option<Error> {
    if let Some(name) = crate::signals::received() {
        return Some(Error::Interrupted(name));
    }
    let of_task = outcomes.iter_mut().find_map(|outcome| outcome.error.take());
    if matches!(of_task, Some(Error::Vanished(_) | Error::Io { .. })) {
        // Another rank that failed removes shared files: then their absence is no error.
        context.rendezvous.look_for_abort();
    }
    match (of_task, context.control.stop().and_then(crate::control::Stop::error)) {
        (Some(Error::Vanished(_)), Some(peer @ Error::PeerFailed(_))) => Some(peer),
        (Some(of_task), _) => Some(of_task),
        (None, other) => other,
    }
}

/// The moment from which a phase counts.
struct Begun {
    /// Common beginning on this host's monotonic clock.
    origin_ns: i64,
    realtime_ns: i64,
    cpu_s: (f64, f64),
}

impl Begun {
    fn now() -> Self {
        Self {
            origin_ns: sys::monotonic_ns(),
            realtime_ns: sys::realtime_ns(),
            cpu_s: sys::cpu_s(),
        }
    }
}

struct Supervisor<'a> {
    settings: &'a PhaseSettings,
    progress: &'a [TaskProgress],
    context: &'a PhaseContext<'a>,
    conductor: &'a Conductor,
    tasks: u64,
}

impl Supervisor<'_> {
    /// Starts the tasks together with those of the other ranks and stays until the last one is through.
    fn run(&self) -> (Begun, Result<()>) {
        let word = self.settings.access.word();
        if !self.conductor.wait_until_ready(self.tasks, self.context.control) {
            return (Begun::now(), Ok(()));
        }
        let gathered = match self.context.rendezvous.exchange(&format!("start-{word}"), ()) {
            Ok(gathered) => gathered,
            Err(error) => return (Begun::now(), Err(error)),
        };
        self.context.rendezvous.note_bytes(0);
        let mut begun = Begun::now();
        begun.origin_ns += match self.context.clock {
            Clock::Monotonic => gathered.begin_monotonic_ns - begun.origin_ns,
            Clock::Realtime => gathered.begin_realtime_ns - begun.realtime_ns,
        };
        // Clocks that are far apart must not make this rank wait: then it begins when it hears of it.
        let now_ns = sys::monotonic_ns();
        self.conductor.start(begun.origin_ns.clamp(now_ns, now_ns + 1_000_000_000));
        (begun, self.watch())
    }

    fn watch(&self) -> Result<()> {
        let started = Instant::now();
        let mut reported = started;
        let mut agreed = !self.settings.wear_out;
        let mut state = State::default();
        while state.finished < self.tasks {
            state = self.conductor.wait_a_little(Duration::from_millis(100), &state);
            if !agreed && state.reached == self.tasks {
                let step = format!("wear-out-{}", self.settings.access.word());
                let gathered = self.context.rendezvous.exchange(&step, state.most_transfers)?;
                self.conductor.set_target(gathered.payloads.into_iter().max().unwrap_or(0));
                agreed = true;
            }
            if reported.elapsed() >= Duration::from_secs(1) {
                reported = Instant::now();
                self.report_progress(started.elapsed());
            }
        }
        Ok(())
    }

    fn report_progress(&self, elapsed: Duration) {
        let of_this_rank =
            self.progress.iter().map(|task| task.bytes.load(Ordering::Relaxed)).sum();
        self.context.rendezvous.note_bytes(of_this_rank);
        if self.context.progress {
            let line = serde_json::json!({
                "access": self.settings.access.word(),
                "elapsed_s": elapsed.as_secs_f64(),
                "bytes": self.context.rendezvous.bytes_of_all(of_this_rank),
            });
            crate::say(&line.to_string());
        }
    }
}
