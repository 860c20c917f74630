//! Fewer calls while the metadata server answers late, as others feel it too.
//!
//! Additive increase and multiplicative decrease of a rate, as the removal of files has it: the
//! server of a busy file system answers late whoever asks. After each window of names: where more
//! than one in a hundred was late, half the rate of that window; otherwise a little more, until
//! the limit is twice what the walk takes anyway, when there is none.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Names of a window: enough for a hundredth of them.
const WINDOW: u64 = 400;
/// A window that takes longer is judged with the names that it has.
const WINDOW_LONGEST: Duration = Duration::from_secs(2);
/// The rate grows by this part of the highest that there was.
const STEP: f64 = 1.0 / 16.0;
/// Names a second at least: a walk that stands still tells nothing of the server, and never ends.
const LEAST: f64 = 100.0;

/// Of one walk, shared by its threads.
#[derive(Debug)]
pub struct Pace {
    latest: Duration,
    threads: f64,
    /// By how long each thread holds up each name.
    hold_ns: AtomicU64,
    window: Mutex<Window>,
}

#[derive(Debug)]
struct Window {
    began: Instant,
    names: u64,
    late: u64,
    /// How long all their calls took.
    spent: Duration,
    /// Names a second at most; `None`: as many as it can.
    limit: Option<f64>,
    /// The most names a second that there were in a window.
    best: f64,
}

impl Pace {
    /// For calls that are late after `latest`.
    pub fn new(latest: Duration, threads: usize) -> Self {
        let window = Window::begun(Instant::now(), None, 0.0);
        #[allow(clippy::cast_precision_loss, reason = "a few hundred")]
        let threads = threads as f64;
        Self { latest, threads, hold_ns: AtomicU64::new(0), window: Mutex::new(window) }
    }

    /// How long the next name is held up.
    pub fn hold(&self) -> Duration {
        Duration::from_nanos(self.hold_ns.load(Relaxed))
    }

    /// Takes note of a call that took so long.
    pub fn took(&self, latency: Duration) {
        self.took_at(latency, Instant::now());
    }

    fn took_at(&self, latency: Duration, now: Instant) {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        window.names += 1;
        window.late += u64::from(latency > self.latest);
        window.spent += latency;
        let elapsed = now.saturating_duration_since(window.began);
        if window.names < WINDOW && elapsed < WINDOW_LONGEST {
            return;
        }
        #[allow(clippy::cast_precision_loss, reason = "a few hundred")]
        let rate = window.names as f64 / elapsed.as_secs_f64().max(1e-9);
        let best = window.best.max(rate);
        let limit = window.next_limit(rate, best * STEP);
        let hold_s = limit.map_or(0.0, |limit| self.threads / limit - window.each_s());
        let hold = Duration::from_secs_f64(hold_s.max(0.0));
        self.hold_ns.store(u64::try_from(hold.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        *window = Window::begun(now, limit, best);
    }
}

impl Window {
    fn begun(began: Instant, limit: Option<f64>, best: f64) -> Self {
        Self { began, names: 0, late: 0, spent: Duration::ZERO, limit, best }
    }

    /// The limit after this window, which had so many names a second.
    fn next_limit(&self, rate: f64, step: f64) -> Option<f64> {
        if self.late > self.names / 100 {
            return Some((rate / 2.0).max(LEAST));
        }
        self.limit.filter(|limit| *limit < 2.0 * rate).map(|limit| limit + step)
    }

    fn each_s(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "a few hundred")]
        let names = self.names as f64;
        self.spent.as_secs_f64() / names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATEST: Duration = Duration::from_millis(20);

    /// Passes names at a rate by one thread that is held up as it is told; returns the rate.
    fn pass(pace: &Pace, now: &mut Instant, latency: Duration, names: u64) -> f64 {
        let began = *now;
        for _ in 0..names {
            *now += latency + pace.hold();
            pace.took_at(latency, *now);
        }
        #[allow(clippy::cast_precision_loss, reason = "a few thousand")]
        let rate = names as f64 / (*now - began).as_secs_f64();
        rate
    }

    #[test]
    fn nothing_is_held_up_while_answers_come_in_time() {
        let (pace, mut now) = (Pace::new(LATEST, 1), Instant::now());
        pass(&pace, &mut now, Duration::from_millis(19), 10 * WINDOW);
        assert_eq!(pace.hold(), Duration::ZERO);
    }

    #[test]
    fn a_late_server_gets_half_after_each_window_and_never_nothing() {
        let (pace, mut now) = (Pace::new(Duration::from_micros(500), 1), Instant::now());
        let late = Duration::from_millis(1);
        let first = pass(&pace, &mut now, late, WINDOW);
        let second = pass(&pace, &mut now, late, WINDOW);
        assert!((second / first - 0.5).abs() < 0.01, "{second} of {first}");
        let third = pass(&pace, &mut now, late, WINDOW);
        assert!((third / first - 0.25).abs() < 0.01, "{third} of {first}");
        pass(&pace, &mut now, late, 10 * WINDOW);
        let least = pass(&pace, &mut now, late, WINDOW);
        assert!((least / LEAST - 1.0).abs() < 0.01, "{least}");
    }

    #[test]
    fn one_late_answer_in_a_hundred_changes_nothing() {
        let (pace, mut now) = (Pace::new(LATEST, 4), Instant::now());
        for name in 0..4 * WINDOW {
            let latency = Duration::from_millis(if name % 100 == 7 { 500 } else { 1 });
            now += Duration::from_micros(250);
            pace.took_at(latency, now);
        }
        assert_eq!(pace.hold(), Duration::ZERO);
    }

    #[test]
    fn the_rate_comes_back_when_the_server_does() {
        let (pace, mut now) = (Pace::new(Duration::from_micros(500), 1), Instant::now());
        let quick = Duration::from_micros(100);
        let before = pass(&pace, &mut now, quick, 2 * WINDOW);
        pass(&pace, &mut now, Duration::from_micros(600), 2 * WINDOW);
        assert!(pace.hold() > quick);
        let mut rates = Vec::new();
        for _ in 0..400 {
            rates.push(pass(&pace, &mut now, quick, WINDOW));
        }
        assert!(rates[0] < rates[3] && rates[3] < rates[8], "by steps, not at once");
        assert_eq!(pace.hold(), Duration::ZERO);
        assert!((rates[399] / before - 1.0).abs() < 0.01);
    }
}
