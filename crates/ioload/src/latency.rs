//! How long single transfers took.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Longest latency that is recorded; longer ones count as this: one hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Three significant digits: a value is known to 0.1 %.
const SIGNIFICANT_DIGITS: u8 = 3;
const BUCKETS_PER_DECADE: f64 = 10.0;

/// Latencies of transfers in nanoseconds, in an HDR histogram, with the exact minimum, maximum and sum.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u128,
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS)
            .expect("bounds and digits are constants that the histogram takes");
        Self { histogram, min_ns: u64::MAX, max_ns: 0, sum_ns: 0 }
    }
}

/// Latencies in a form that travels between ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackedLatencies {
    counts: Vec<(u64, u64)>,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u64,
}

/// Latencies of a phase in the JSON report; null where nothing was transferred.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencyReport {
    pub count: u64,
    pub min_s: Option<f64>,
    pub mean_s: Option<f64>,
    pub p50_s: Option<f64>,
    pub p90_s: Option<f64>,
    pub p99_s: Option<f64>,
    pub p999_s: Option<f64>,
    pub max_s: Option<f64>,
    /// Upper edge in seconds and count of the buckets that are not empty, ten to a decade.
    pub histogram: Vec<(f64, u64)>,
}

impl Latencies {
    pub fn record(&mut self, latency_ns: u64) {
        self.histogram.saturating_record(latency_ns.max(1));
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
        self.sum_ns += u128::from(latency_ns);
    }

    /// All of it in a form that travels between ranks.
    pub fn pack(&self) -> PackedLatencies {
        let counts = self
            .histogram
            .iter_recorded()
            .map(|value| (value.value_iterated_to(), value.count_at_value()))
            .collect();
        PackedLatencies {
            counts,
            min_ns: self.min_ns,
            max_ns: self.max_ns,
            // 584 years of waiting fit.
            sum_ns: u64::try_from(self.sum_ns).unwrap_or(u64::MAX),
        }
    }

    /// Adds what another task or rank measured.
    pub fn merge(&mut self, other: &PackedLatencies) {
        if other.counts.is_empty() {
            return;
        }
        for &(value, count) in &other.counts {
            self.histogram.saturating_record_n(value, count);
        }
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns += u128::from(other.sum_ns);
    }

    pub fn report(&self) -> LatencyReport {
        let count = self.histogram.len();
        let known = |value: f64| (count > 0).then_some(value);
        // A bucket's edge may be beyond the longest latency that was really seen.
        let quantile = |q: f64| {
            let value = self.histogram.value_at_quantile(q);
            known(seconds(value.clamp(self.min_ns.min(self.max_ns), self.max_ns)))
        };
        LatencyReport {
            count,
            min_s: known(seconds(self.min_ns)),
            mean_s: known(self.sum_ns as f64 / 1e9 / count.max(1) as f64),
            p50_s: quantile(0.5),
            p90_s: quantile(0.9),
            p99_s: quantile(0.99),
            p999_s: quantile(0.999),
            max_s: known(seconds(self.max_ns)),
            histogram: self.buckets(),
        }
    }

    fn buckets(&self) -> Vec<(f64, u64)> {
        let mut buckets: Vec<(i32, u64)> = Vec::new();
        for value in self.histogram.iter_recorded() {
            let exponent = bucket_of(value.value_iterated_to());
            let count = value.count_at_value();
            match buckets.last_mut() {
                Some(last) if last.0 == exponent => last.1 += count,
                _ => buckets.push((exponent, count)),
            }
        }
        let edge = |exponent: i32| 10_f64.powf(f64::from(exponent) / BUCKETS_PER_DECADE) * 1e-9;
        buckets.into_iter().map(|(exponent, count)| (edge(exponent), count)).collect()
    }
}

/// Number of the tenth of a decade (counted from 1 ns) whose upper edge is at or above the value; all below 100 ns share one.
fn bucket_of(latency_ns: u64) -> i32 {
    let exponent = (BUCKETS_PER_DECADE * (latency_ns.max(1) as f64).log10()).ceil() as i32;
    exponent.max(20)
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn merged_ranks_equal_one_sorted_list(parts in prop::collection::vec(prop::collection::vec(100_u64..10_u64.pow(12), 1..60), 1..5)) {
            let mut merged = Latencies::default();
            for part in &parts {
                let mut latencies = Latencies::default();
                part.iter().for_each(|&value| latencies.record(value));
                merged.merge(&latencies.pack());
            }
            let mut all: Vec<u64> = parts.concat();
            all.sort_unstable();
            let report = merged.report();
            prop_assert_eq!(report.count, all.len() as u64);
            prop_assert_eq!(report.min_s, Some(seconds(all[0])));
            prop_assert_eq!(report.max_s, Some(seconds(all[all.len() - 1])));
            let mean = all.iter().map(|&v| v as f64).sum::<f64>() / all.len() as f64 * 1e-9;
            prop_assert!((report.mean_s.unwrap() / mean - 1.0).abs() < 1e-9);
            let median = seconds(all[all.len().div_ceil(2) - 1]);
            prop_assert!((report.p50_s.unwrap() / median - 1.0).abs() < 2e-3, "{:?} {median}", report.p50_s);
            prop_assert_eq!(report.histogram.iter().map(|row| row.1).sum::<u64>(), report.count);
            prop_assert!(report.histogram.windows(2).all(|pair| pair[0].0 < pair[1].0));
            prop_assert!(report.histogram.len() <= 110);
        }
    }

    #[test]
    fn nothing_measured_is_null() {
        let report = Latencies::default().report();
        assert_eq!((report.count, report.min_s, report.p99_s, report.max_s), (0, None, None, None));
        assert!(report.histogram.is_empty());
    }
}
