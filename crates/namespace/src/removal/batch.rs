//! Outcome of a batch of rows.

use std::time::Duration;

use super::outcome::Outcome;
use super::worker::Verdict;
use crate::error::{Error, Result};

/// Outcome of a batch of rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The code of an [`Outcome`] for each row, in their order.
    pub outcomes: Vec<u8>,
    /// Allocated bytes of the deleted files, files with names left not counted.
    pub freed_bytes: u64,
    /// How many rows were deleted.
    pub deleted: u64,
    /// The rows that were denied or failed, by their number in the plan, with the system's error.
    pub errors: Vec<(u64, i32)>,
    /// Paths, relative to the root, of files in quarantine that no row explains.
    pub unexplained: Vec<Vec<u8>>,
    /// How long the batch took.
    pub elapsed_s: f64,
    /// How long one row took, at the median; 0 for a batch without rows.
    pub latency_s_median: f64,
    /// How long one row took, at the 99th percentile.
    pub latency_s_p99: f64,
}

impl Batch {
    /// Puts the verdicts of all threads in order; each row has exactly one.
    pub(super) fn new(
        first: u64,
        rows: usize,
        verdicts: Vec<Verdict>,
        unexplained: Vec<Vec<u8>>,
        elapsed: Duration,
    ) -> Result<Self> {
        let mut batch = Self {
            outcomes: vec![0; rows],
            unexplained,
            elapsed_s: elapsed.as_secs_f64(),
            ..Self::default()
        };
        let mut latencies = Vec::with_capacity(rows);
        for verdict in verdicts {
            let outcome = &mut batch.outcomes[verdict.row];
            if *outcome != 0 {
                return Err(unaccounted(first, verdict.row, "has two outcomes"));
            }
            *outcome = verdict.outcome as u8;
            batch.freed_bytes += verdict.freed_bytes;
            batch.deleted += u64::from(verdict.outcome == Outcome::Deleted);
            if verdict.errno != 0 {
                batch.errors.push((first + verdict.row as u64, verdict.errno));
            }
            latencies.push(verdict.latency_s);
        }
        if let Some(row) = batch.outcomes.iter().position(|outcome| *outcome == 0) {
            return Err(unaccounted(first, row, "has no outcome"));
        }
        batch.errors.sort_unstable();
        batch.latency_s_median = quantile(&mut latencies, 0.5);
        batch.latency_s_p99 = quantile(&mut latencies, 0.99);
        Ok(batch)
    }
}

/// A bug of this crate, said aloud: a batch whose rows are not all accounted for ends the run.
fn unaccounted(first: u64, row: usize, what: &str) -> Error {
    Error::Refused(format!("row {} {what}: stop and report this", first + row as u64))
}

/// The value that a share of all values do not exceed.
fn quantile(values: &mut [f32], share: f64) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let place = (values.len() as f64 * share).ceil() as usize;
    let place = place.clamp(1, values.len()) - 1;
    let (_, value, _) = values.select_nth_unstable_by(place, f32::total_cmp);
    f64::from(*value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(row: usize, outcome: Outcome, latency_s: f32) -> Verdict {
        Verdict { row, outcome, freed_bytes: 4096, errno: 0, latency_s }
    }

    #[test]
    fn every_row_has_one_outcome() {
        let whole = |verdicts| Batch::new(10, 2, verdicts, Vec::new(), Duration::ZERO);
        let (one, two) = (verdict(1, Outcome::Deleted, 0.0), verdict(0, Outcome::Gone, 0.0));
        assert_eq!(whole(vec![one, two]).unwrap().outcomes, [3, 1]);
        assert!(whole(vec![one]).unwrap_err().to_string().contains("row 10 has no outcome"));
        assert!(whole(vec![one, two, one]).unwrap_err().to_string().contains("row 11 has two"));
    }

    #[test]
    fn latencies_are_of_the_rows() {
        let verdicts = (0..100).map(|row| verdict(row, Outcome::Deleted, row as f32 + 1.0));
        let batch = Batch::new(0, 100, verdicts.collect(), Vec::new(), Duration::ZERO).unwrap();
        assert_eq!((batch.latency_s_median, batch.latency_s_p99), (50.0, 99.0));
        assert_eq!((batch.deleted, batch.freed_bytes), (100, 409_600));
    }
}
