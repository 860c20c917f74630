//! Counts of a window, and the figures computed from them.

/// Quantiles of how long something took, in seconds; each is a time that occurred.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latencies {
    /// How many ended.
    pub count: u64,
    /// Mean.
    pub mean_s: f64,
    /// Half took no longer.
    pub p50_s: f64,
    /// Nine in ten took no longer.
    pub p90_s: f64,
    /// 99 in 100.
    pub p99_s: f64,
    /// 999 in 1,000.
    pub p999_s: f64,
    /// 9,999 in 10,000.
    pub p9999_s: f64,
    /// The longest.
    pub max_s: f64,
}

impl Latencies {
    /// Returns the quantiles of times in nanoseconds; `None` if there are no times.
    pub(super) fn of(mut times: Vec<u64>) -> Option<Self> {
        times.sort_unstable();
        let longest = *times.last()?;
        let count = times.len();
        let seconds = |time: u64| time as f64 / 1e9;
        // The nearest rank: the least time that at least this part did not exceed.
        let rank = |per_10_000: usize| seconds(times[(count * per_10_000).div_ceil(10_000) - 1]);
        let total: u128 = times.iter().map(|time| u128::from(*time)).sum();
        Some(Self {
            count: count as u64,
            mean_s: total as f64 / count as f64 / 1e9,
            p50_s: rank(5_000),
            p90_s: rank(9_000),
            p99_s: rank(9_900),
            p999_s: rank(9_990),
            p9999_s: rank(9_999),
            max_s: seconds(longest),
        })
    }
}

/// How often drives were seen in a state, over all samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sampled {
    /// Samples of drives.
    pub looks: u64,
    /// Samples in an episode of collection.
    pub collecting: u64,
    /// Samples with a depth below the normal one.
    pub below: u64,
    /// The same, and not collecting.
    pub below_quiet: u64,
    /// Samples with a thread asleep until it may write.
    pub held: u64,
    /// The same, and not collecting.
    pub held_quiet: u64,
    /// Samples with nothing to do, and not collecting.
    pub starved_quiet: u64,
    /// Sum of the steps to the right of normal.
    pub steps_below: u64,
}

/// Results of a window.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Data written, without parity.
    pub write_bytes_per_s: f64,
    /// Data read by operations and other reads.
    pub read_bytes_per_s: f64,
    /// Throughput of healthy drives that never collect.
    pub ceiling_bytes_per_s: f64,
    /// Latencies of writing operations, measured from the request; `None`: none ended.
    pub writes: Option<Latencies>,
    /// Latencies of both kinds of reads.
    pub reads: Option<Latencies>,
    /// Part of the writing operations with a piece that waited for collection.
    pub met: Option<f64>,
    /// Operations begun, warm-up included.
    pub started: u64,
    /// Operations ended, warm-up included.
    pub ended: u64,
    /// Operations that were under way at the end.
    pub outstanding: u64,
    /// Sampled states of the drives.
    pub sampled: Sampled,
}

/// Counts as they grow.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) from: u64,
    pub(super) started: u64,
    pub(super) ended: u64,
    pub(super) written_bytes: u64,
    pub(super) read_bytes: u64,
    pub(super) met: u64,
    pub(super) writes: Vec<u64>,
    pub(super) reads: Vec<u64>,
    pub(super) sampled: Sampled,
}

impl Tally {
    pub(super) fn wrote(&mut self, now: u64, since: u64, bytes: u64, met: bool) {
        if now >= self.from {
            self.writes.push(now - since);
            self.written_bytes += bytes;
            self.met += u64::from(met);
        }
    }

    pub(super) fn read(&mut self, now: u64, since: u64, bytes: u64) {
        if now >= self.from {
            self.reads.push(now - since);
            self.read_bytes += bytes;
        }
    }

    pub(super) fn figures(self, duration_s: f64, ceiling: f64, outstanding: u64) -> Figures {
        let met = self.met as f64 / self.writes.len() as f64;
        Figures {
            write_bytes_per_s: self.written_bytes as f64 / duration_s,
            read_bytes_per_s: self.read_bytes as f64 / duration_s,
            ceiling_bytes_per_s: ceiling,
            met: (!self.writes.is_empty()).then_some(met),
            writes: Latencies::of(self.writes),
            reads: Latencies::of(self.reads),
            started: self.started,
            ended: self.ended,
            outstanding,
            sampled: self.sampled,
        }
    }
}
