//! Bytes per interval, so that a stall is visible, in bounded memory.

use serde::{Deserialize, Serialize};

/// Length of an interval at the start: 100 ms.
pub const INTERVAL_NS: u64 = 100_000_000;
/// Beyond this many intervals (20 minutes of 100 ms) two become one, again and again.
pub const INTERVALS_MAX: usize = 12_000;

/// Bytes that one task finished in each interval since the phase began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    interval_ns: u64,
    bytes: Vec<u64>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { interval_ns: INTERVAL_NS, bytes: Vec::new() }
    }
}

impl Timeline {
    /// Notes that `bytes` were finished `at_ns` after the phase began.
    pub fn add(&mut self, at_ns: u64, bytes: u64) {
        while at_ns / self.interval_ns >= INTERVALS_MAX as u64 {
            self.coarsen();
        }
        let index = (at_ns / self.interval_ns) as usize;
        if index >= self.bytes.len() {
            self.bytes.resize(index + 1, 0);
        }
        self.bytes[index] += bytes;
    }

    pub fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    pub fn bytes(&self) -> &[u64] {
        &self.bytes
    }

    /// Merges intervals until they are as long as those of the coarsest other task.
    pub fn coarsen_to(&mut self, interval_ns: u64) {
        while self.interval_ns < interval_ns {
            self.coarsen();
        }
    }

    fn coarsen(&mut self) {
        self.interval_ns *= 2;
        self.bytes = self.bytes.chunks(2).map(|pair| pair.iter().sum()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_fall_into_their_interval_and_gaps_are_zero() {
        let mut timeline = Timeline::default();
        timeline.add(0, 1);
        timeline.add(99_999_999, 2);
        timeline.add(350_000_000, 5);
        assert_eq!(timeline.bytes(), [3, 0, 0, 5]);
    }

    #[test]
    fn a_long_run_stays_bounded_and_loses_nothing() {
        let mut timeline = Timeline::default();
        let hour_s = 3600;
        for second in 0..10 * hour_s {
            timeline.add(second * 1_000_000_000, 7);
        }
        assert!(timeline.bytes().len() <= INTERVALS_MAX);
        assert_eq!(timeline.bytes().iter().sum::<u64>(), 7 * 10 * hour_s);
        assert_eq!(timeline.interval_ns(), INTERVAL_NS * 32);
    }
}
