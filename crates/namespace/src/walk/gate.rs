//! When the next call to a metadata server may be made: one gate for each MDT of a Lustre, and one
//! on other file systems.
//!
//! A gate lets names through one after the other, at the requested distance; and farther apart
//! while the server answers late, since other clients feel it too: the server of a busy file system
//! answers late whoever asks. That is additive increase and multiplicative decrease of a rate, as
//! the removal of files has it. After each window of names: where more than one in a hundred was
//! late, half the rate of that window; otherwise a little more, until the limit or, without one,
//! twice the rate that passes anyway.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Names of a window: enough for a hundredth of them.
const WINDOW: u64 = 400;
/// A window that takes longer is judged with the names that it has.
const WINDOW_LONGEST: Duration = Duration::from_secs(2);
/// The rate grows by this part of the highest that there was.
const STEP: f64 = 1.0 / 16.0;
/// Names a second at least: a walk at rest learns nothing of the server, and never ends.
const LEAST: f64 = 100.0;

/// Gate of one MDT, shared by the threads of a walk.
#[derive(Debug)]
pub struct Gate {
    began: Instant,
    /// How far apart names are, whatever the server answers.
    apart: Duration,
    /// A call that takes longer is late.
    latest: Option<Duration>,
    /// How far apart they are now.
    apart_now_ns: AtomicU64,
    /// When the next name may pass, since the beginning.
    next_ns: AtomicU64,
    window: Mutex<Window>,
}

#[derive(Debug)]
struct Window {
    began: Instant,
    names: u64,
    late: u64,
    /// Names a second at most; `None`: as many as it can.
    limit: Option<f64>,
    /// The most names a second that there were in a window.
    best: f64,
}

impl Gate {
    /// Creates a gate with names at least `apart` from one another; calls are late after `latest`.
    pub fn new(apart: Duration, latest: Option<Duration>) -> Self {
        let began = Instant::now();
        Self {
            began,
            apart,
            latest,
            apart_now_ns: AtomicU64::new(nanoseconds(apart)),
            // Parts of a scan follow one another: each begins as far from the last call of another.
            next_ns: AtomicU64::new(nanoseconds(apart)),
            window: Mutex::new(Window::begun(began, None, 0.0)),
        }
    }

    /// Takes the next turn; returns how long it is until then.
    pub fn take_turn(&self) -> Duration {
        match self.apart_now_ns.load(Relaxed) {
            0 => Duration::ZERO,
            apart_ns => self.turn_at(apart_ns, Instant::now()),
        }
    }

    fn turn_at(&self, apart_ns: u64, now: Instant) -> Duration {
        let now_ns = nanoseconds(now.saturating_duration_since(self.began));
        let after = |next_ns: u64| Some(next_ns.max(now_ns).saturating_add(apart_ns));
        let taken = self.next_ns.fetch_update(Relaxed, Relaxed, after);
        let (Ok(turn_ns) | Err(turn_ns)) = taken;
        Duration::from_nanos(turn_ns.saturating_sub(now_ns))
    }

    /// Makes a call, and takes note of how long it took.
    pub fn timed<T>(&self, call: impl FnOnce() -> T) -> T {
        let Some(latest) = self.latest else { return call() };
        let began = Instant::now();
        let answer = call();
        let now = Instant::now();
        self.took(now - began > latest, now);
        answer
    }

    fn took(&self, late: bool, now: Instant) {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        window.names += 1;
        window.late += u64::from(late);
        let elapsed = now.saturating_duration_since(window.began);
        if window.names < WINDOW && elapsed < WINDOW_LONGEST {
            return;
        }
        #[allow(clippy::cast_precision_loss, reason = "a few hundred")]
        let rate = window.names as f64 / elapsed.as_secs_f64().max(1e-9);
        let best = window.best.max(rate);
        let limit = window.next_limit(rate, best * STEP);
        let apart = limit.map_or(Duration::ZERO, |limit| Duration::from_secs_f64(1.0 / limit));
        self.apart_now_ns.store(nanoseconds(apart.max(self.apart)), Relaxed);
        *window = Window::begun(now, limit, best);
    }
}

/// Those of a walk, and by how much every call is held up besides.
#[derive(Debug)]
pub struct Gates {
    delay: Duration,
    by_mdt: Vec<Gate>,
}

impl Gates {
    /// Creates `count` gates; MDTs with the same number modulo `count` share one.
    pub fn new(count: usize, delay: Duration, apart: Duration, latest: Option<Duration>) -> Self {
        Self { delay, by_mdt: (0..count).map(|_| Gate::new(apart, latest)).collect() }
    }

    /// Waits for the turn at the gate of an MDT; returns the gate.
    pub fn pass(&self, mdt: u16) -> &Gate {
        let gate = &self.by_mdt[usize::from(mdt) % self.by_mdt.len()];
        let wait = gate.take_turn().max(self.delay);
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
        gate
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Window {
    fn begun(began: Instant, limit: Option<f64>, best: f64) -> Self {
        Self { began, names: 0, late: 0, limit, best }
    }

    /// The limit after this window, which had so many names a second.
    fn next_limit(&self, rate: f64, step: f64) -> Option<f64> {
        if self.late > self.names / 100 {
            return Some((rate / 2.0).max(LEAST));
        }
        self.limit.filter(|limit| *limit < 2.0 * rate).map(|limit| limit + step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATEST: Duration = Duration::from_millis(20);

    fn paced(latest: Duration) -> Gate {
        Gate::new(Duration::ZERO, Some(latest))
    }

    fn apart(gate: &Gate) -> Duration {
        Duration::from_nanos(gate.apart_now_ns.load(Relaxed))
    }

    /// Passes names by one thread as it is let through; returns the rate.
    fn pass(gate: &Gate, now: &mut Instant, latency: Duration, names: u64) -> f64 {
        let began = *now;
        for _ in 0..names {
            *now += gate.turn_at(gate.apart_now_ns.load(Relaxed), *now);
            *now += latency;
            gate.took(latency > gate.latest.unwrap(), *now);
        }
        #[allow(clippy::cast_precision_loss, reason = "a few thousand")]
        let rate = names as f64 / (*now - began).as_secs_f64();
        rate
    }

    #[test]
    fn nothing_is_held_up_while_answers_come_in_time() {
        let (gate, mut now) = (paced(LATEST), Instant::now());
        pass(&gate, &mut now, Duration::from_millis(19), 10 * WINDOW);
        assert_eq!((apart(&gate), gate.take_turn()), (Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn a_late_server_gets_half_after_each_window_and_never_nothing() {
        let (gate, mut now) = (paced(Duration::from_micros(500)), Instant::now());
        let late = Duration::from_millis(1);
        let first = pass(&gate, &mut now, late, WINDOW);
        let second = pass(&gate, &mut now, late, WINDOW);
        assert!((second / first - 0.5).abs() < 0.01, "{second} of {first}");
        let third = pass(&gate, &mut now, late, WINDOW);
        assert!((third / first - 0.25).abs() < 0.01, "{third} of {first}");
        pass(&gate, &mut now, late, 10 * WINDOW);
        let least = pass(&gate, &mut now, late, WINDOW);
        assert!((least / LEAST - 1.0).abs() < 0.01, "{least}");
    }

    #[test]
    fn one_late_answer_in_a_hundred_changes_nothing() {
        let (gate, mut now) = (paced(LATEST), Instant::now());
        for name in 0..4 * WINDOW {
            now += Duration::from_micros(250);
            gate.took(name % 100 == 7, now);
        }
        assert_eq!(apart(&gate), Duration::ZERO);
    }

    #[test]
    fn the_rate_comes_back_when_the_server_does() {
        let (gate, mut now) = (paced(Duration::from_micros(500)), Instant::now());
        let quick = Duration::from_micros(100);
        let before = pass(&gate, &mut now, quick, 2 * WINDOW);
        pass(&gate, &mut now, Duration::from_micros(600), 2 * WINDOW);
        assert!(apart(&gate) > quick);
        let mut rates = Vec::new();
        for _ in 0..400 {
            rates.push(pass(&gate, &mut now, quick, WINDOW));
        }
        assert!(rates[0] < rates[3] && rates[3] < rates[8], "by steps, not at once");
        assert_eq!(apart(&gate), Duration::ZERO);
        assert!((rates[399] / before - 1.0).abs() < 0.01);
    }

    /// However many ask at once, and whatever time went by unused.
    #[test]
    fn turns_are_as_far_apart_as_was_asked_for() {
        let millisecond = Duration::from_millis(1);
        let gate = Gate::new(millisecond, None);
        let ns = nanoseconds(millisecond);
        let at = gate.began + Duration::from_secs(5);
        let turns: Vec<_> = (0..4).map(|_| gate.turn_at(ns, at)).collect();
        assert_eq!(turns, [0, 1, 2, 3].map(Duration::from_millis));
        let between = at + Duration::from_micros(2500);
        assert_eq!(gate.turn_at(ns, between), Duration::from_micros(1500));
        assert_eq!(gate.turn_at(ns, at + Duration::from_secs(9)), Duration::ZERO);
        // The first one, too: another scan may have made its last call just before.
        let first = Gate::new(millisecond, None);
        assert_eq!(first.turn_at(ns, first.began), millisecond);
    }

    #[test]
    fn an_mdt_that_answers_late_holds_up_no_other() {
        let gates = Gates::new(2, Duration::ZERO, Duration::ZERO, Some(LATEST));
        let mut now = Instant::now();
        for mdt in (0..2 * WINDOW).map(|name| name % 2) {
            now += Duration::from_millis(1);
            gates.pass(mdt as u16).took(mdt == 1, now);
        }
        assert_eq!(apart(&gates.by_mdt[0]), Duration::ZERO);
        assert!(apart(&gates.by_mdt[1]) >= Duration::from_millis(3));
    }

    /// A server that answers late gets less than was asked for; one in time no more than that.
    #[test]
    fn a_limit_holds_beneath_the_pace() {
        let gate = Gate::new(Duration::from_micros(500), Some(Duration::from_millis(1)));
        let mut now = gate.began;
        let quick = pass(&gate, &mut now, Duration::from_micros(100), 20 * WINDOW);
        assert!((quick / 2000.0 - 1.0).abs() < 0.01, "{quick}");
        pass(&gate, &mut now, Duration::from_millis(2), WINDOW);
        let late = pass(&gate, &mut now, Duration::from_millis(2), WINDOW);
        assert!(late < 260.0, "{late}");
        let again = pass(&gate, &mut now, Duration::from_micros(100), 400 * WINDOW);
        assert!(again < 2001.0 && apart(&gate) == Duration::from_micros(500), "{again}");
    }
}
