//! Amounts by hour or day, back from the newest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Files, and their allocated bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// How many.
    pub files: u64,
    /// Their allocated bytes.
    pub allocated_bytes: u64,
}

impl Amount {
    // Every sum is part of the sum of all, and that one is kept in 128 bits and checked: a sum that
    // wrapped never leaves this module.
    pub(crate) fn add(&mut self, other: Self) {
        self.files = self.files.wrapping_add(other.files);
        self.allocated_bytes = self.allocated_bytes.wrapping_add(other.allocated_bytes);
    }

    pub(crate) fn one(allocated_bytes: u64) -> Self {
        Self { files: 1, allocated_bytes }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Number of adjacent buckets: files used at about the same time are near in memory.
const CHUNK: usize = 32;

/// Buckets further back than these (30 years in hours) are too rare to have a place of their own.
const CHUNKS_MAX: u64 = 1 << 13;

/// Amounts by bucket; no bucket is newer than the newest, since no time is after the scan's end.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "Buckets", from = "Buckets")]
pub(crate) struct Curve {
    newest: i64,
    chunks: Vec<Option<Box<[Amount; CHUNK]>>>,
    far: BTreeMap<i64, Amount>,
}

/// The newest bucket, and what each holds that is not empty, the oldest first.
type Buckets = (i64, Vec<(i64, Amount)>);

impl From<Curve> for Buckets {
    fn from(curve: Curve) -> Self {
        (curve.newest, curve.ascending())
    }
}

impl From<Buckets> for Curve {
    fn from((newest, buckets): Buckets) -> Self {
        let mut curve = Self::new(newest);
        buckets.into_iter().for_each(|(bucket, amount)| curve.add(bucket, amount));
        curve
    }
}

impl Curve {
    pub(crate) fn new(newest: i64) -> Self {
        Self { newest, chunks: Vec::new(), far: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, bucket: i64, amount: Amount) {
        // As a number without a sign, so that the distance of any two fits.
        let back = self.newest.wrapping_sub(bucket) as u64;
        let (chunk, place) = (back / CHUNK as u64, (back % CHUNK as u64) as usize);
        if chunk >= CHUNKS_MAX {
            self.far.entry(bucket).or_default().add(amount);
            return;
        }
        let chunk = chunk as usize;
        if chunk >= self.chunks.len() {
            self.chunks.resize(chunk + 1, None);
        }
        self.chunks[chunk].get_or_insert_default()[place].add(amount);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if self.newest != other.newest {
            // Not within one tally: its curves go back from the same bucket.
            other.ascending().into_iter().for_each(|(bucket, amount)| self.add(bucket, amount));
            return;
        }
        self.chunks.resize(self.chunks.len().max(other.chunks.len()), None);
        for (mine, theirs) in self.chunks.iter_mut().zip(&other.chunks) {
            match (mine, theirs) {
                (_, None) => {}
                (mine @ None, Some(theirs)) => *mine = Some(theirs.clone()),
                (Some(mine), Some(theirs)) => {
                    mine.iter_mut().zip(theirs.iter()).for_each(|(amount, more)| amount.add(*more));
                }
            }
        }
        for (bucket, amount) in &other.far {
            self.far.entry(*bucket).or_default().add(*amount);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.far.is_empty() && self.chunks.iter().all(Option::is_none)
    }

    /// Every bucket that holds something, the oldest first.
    pub(crate) fn ascending(&self) -> Vec<(i64, Amount)> {
        let mut buckets_of_all: Vec<_> =
            self.far.iter().map(|(bucket, amount)| (*bucket, *amount)).collect();
        for (number, chunk) in self.chunks.iter().enumerate().rev() {
            let Some(chunk) = chunk else { continue };
            let first_back = (number * CHUNK) as i64;
            let buckets = chunk.iter().enumerate().rev();
            buckets_of_all.extend(
                buckets
                    .filter(|(_, amount)| !amount.is_nothing())
                    .map(|(place, amount)| (self.newest - first_back - place as i64, *amount)),
            );
        }
        buckets_of_all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_curve_is_a_sorted_map(
            added in prop::collection::vec((0i64..400_000, 1u64..9), 0..60),
            split in 0usize..60,
        ) {
            let newest = 100_000;
            let mut plain = BTreeMap::<i64, Amount>::new();
            let (mut one, mut other) = (Curve::new(newest), Curve::new(newest));
            for (place, (back, bytes)) in added.iter().enumerate() {
                let (bucket, amount) = (newest - back, Amount::one(*bytes));
                plain.entry(bucket).or_default().add(amount);
                let curve = if place < split { &mut one } else { &mut other };
                curve.add(bucket, amount);
            }
            let plain = plain.into_iter().collect::<Vec<_>>();
            let mut apart = Curve::new(newest + 7);
            [&one, &other].into_iter().for_each(|curve| apart.merge(curve));
            prop_assert_eq!(apart.ascending(), plain.clone());
            one.merge(&other);
            prop_assert_eq!(one.ascending(), plain);
        }
    }

    #[test]
    fn the_oldest_time_of_all_has_a_bucket() {
        let mut curve = Curve::new(i64::MAX / 3600);
        curve.add(i64::MIN / 3600, Amount::one(1));
        curve.add(i64::MAX / 3600, Amount::one(2));
        let buckets: Vec<i64> = curve.ascending().into_iter().map(|(bucket, _)| bucket).collect();
        assert_eq!(buckets, [i64::MIN / 3600, i64::MAX / 3600]);
    }
}
