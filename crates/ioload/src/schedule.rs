//! Where a task reads or writes: IOR's layout of segments, blocks and transfers.
//!
//! ```text
//! shared file   | segment 0                        | segment 1 ...
//!               | block of task 0 | block of task 1 | block of task 0 | ...
//!               | t | t | t | t   | t | t | t | t   |
//! own file      | block of segment 0 | block of segment 1 | ...
//! ```

use crate::pattern::mix64;

/// One file for each task, or one that all tasks share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// IOR `-F`.
    #[default]
    FilePerProcess,
    /// IOR's default.
    SharedFile,
}

/// Sizes of a run: what turns the number of a transfer into an offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Geometry {
    pub transfer_bytes: u64,
    /// Contiguous bytes of a task in each segment; a multiple of the transfer size.
    pub block_bytes: u64,
    pub segments: u64,
    pub tasks: u64,
    pub layout: Layout,
}

impl Geometry {
    pub fn transfers_per_task(&self) -> u64 {
        self.block_bytes / self.transfer_bytes * self.segments
    }

    /// File offset in bytes of the transfer `index` (file order, from 0) of a task.
    pub fn offset(&self, task: u64, index: u64) -> u64 {
        let per_block = self.block_bytes / self.transfer_bytes;
        let (segment, within) = (index / per_block, index % per_block);
        let block = match self.layout {
            Layout::FilePerProcess => segment,
            Layout::SharedFile => segment * self.tasks + task,
        };
        block * self.block_bytes + within * self.transfer_bytes
    }

    /// Number of a task's transfers that are wholly within a file of `size_bytes`: the first in
    /// file order.
    pub fn transfers_within(&self, task: u64, size_bytes: u64) -> u64 {
        // Offsets grow with the index, so the border is found by bisection.
        let (mut low, mut high) = (0, self.transfers_per_task());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.offset(task, middle) + self.transfer_bytes <= size_bytes {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// A shuffle of `0..count` that needs no memory: a four-round Feistel network over the next even power of two,
/// applied again until the value falls below `count` (cycle walking; Black and Rogaway, CT-RSA 2002).
///
/// A list of all offsets, as IOR keeps, costs 8 bytes a transfer: 2 GiB for 1 TiB in 4 KiB transfers.
#[derive(Clone, Copy, Debug)]
pub struct Shuffle {
    count: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Shuffle {
    /// The shuffle of `0..count` that belongs to `seed`.
    pub fn new(count: u64, seed: u64) -> Self {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        let key = |round: u64| mix64(seed ^ mix64(round + 1));
        Self { count, half_bits: bits.div_ceil(2).max(1), keys: [key(0), key(1), key(2), key(3)] }
    }

    /// Where `index` (below `count`) goes; no two go to the same place.
    pub fn at(&self, index: u64) -> u64 {
        debug_assert!(index < self.count);
        let mut value = self.encrypt(index);
        while value >= self.count {
            value = self.encrypt(value);
        }
        value
    }

    fn encrypt(&self, value: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix64(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

/// The order in which one task goes through the transfers that exist.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    geometry: Geometry,
    owner: u64,
    available: u64,
    /// The order in which the owner wrote; its first `available` are what exists.
    written: Option<Shuffle>,
    /// The order of reading among those that exist.
    order: Option<Shuffle>,
}

impl Schedule {
    /// Schedule of a writing task: all its transfers, shuffled where a seed is given.
    pub fn write(geometry: Geometry, task: u64, seed: Option<u64>) -> Self {
        Self::new(geometry, task, u64::MAX, seed, None)
    }

    /// Schedule of a task that reads what `owner` wrote before it stopped after `available` transfers.
    ///
    /// A shuffled reader visits the same set as the writer, in an order of its own, so that read-ahead by history does not help.
    pub fn read_written(geometry: Geometry, owner: u64, available: u64, seed: Option<u64>) -> Self {
        Self::new(geometry, owner, available, seed, seed)
    }

    /// Schedule of a task that reads a file found on disk, of which the first `available` transfers in file order exist.
    pub fn read_found(geometry: Geometry, owner: u64, available: u64, seed: Option<u64>) -> Self {
        Self::new(geometry, owner, available, None, seed)
    }

    fn new(
        geometry: Geometry,
        owner: u64,
        available: u64,
        write_seed: Option<u64>,
        read_seed: Option<u64>,
    ) -> Self {
        let count = geometry.transfers_per_task();
        let available = available.min(count);
        let stream = |seed: u64, number: u64| mix64(seed ^ mix64(2 * owner + number));
        Self {
            geometry,
            owner,
            available,
            written: write_seed.map(|seed| Shuffle::new(count, stream(seed, 1))),
            order: read_seed.map(|seed| Shuffle::new(available, stream(seed, 2))),
        }
    }

    pub fn transfers_per_pass(&self) -> u64 {
        self.available
    }

    /// File offset in bytes of the transfer `step`, counted on through the passes.
    pub fn offset(&self, step: u64) -> u64 {
        let step = step % self.available;
        let step = self.order.map_or(step, |order| order.at(step));
        let index = self.written.map_or(step, |written| written.at(step));
        self.geometry.offset(self.owner, index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn geometries() -> impl Strategy<Value = Geometry> {
        (1_u64..5000, 1_u64..40, 1_u64..6, 1_u64..6, any::<bool>()).prop_map(
            |(transfer_bytes, per_block, segments, tasks, shared)| Geometry {
                transfer_bytes,
                block_bytes: transfer_bytes * per_block,
                segments,
                tasks,
                layout: if shared { Layout::SharedFile } else { Layout::FilePerProcess },
            },
        )
    }

    /// The slow obvious twin: nested loops over segments, tasks, and transfers of a block.
    fn offsets_by_loops(geometry: &Geometry, task: u64) -> Vec<u64> {
        let (mut offsets, mut position) = (Vec::new(), 0);
        for _segment in 0..geometry.segments {
            for owner in 0..geometry.tasks {
                if geometry.layout == Layout::FilePerProcess && owner != task {
                    continue;
                }
                for _ in 0..geometry.block_bytes / geometry.transfer_bytes {
                    if owner == task {
                        offsets.push(position);
                    }
                    position += geometry.transfer_bytes;
                }
            }
        }
        offsets
    }

    proptest! {
        #[test]
        fn sequential_offsets_are_those_of_the_loops(geometry in geometries(), pick in any::<u64>()) {
            let task = pick % geometry.tasks;
            let schedule = Schedule::write(geometry, task, None);
            let offsets: Vec<u64> = (0..schedule.transfers_per_pass()).map(|step| schedule.offset(step)).collect();
            prop_assert_eq!(offsets, offsets_by_loops(&geometry, task));
        }

        #[test]
        fn a_random_pass_visits_every_transfer_once(geometry in geometries(), pick in any::<u64>(), seed in any::<u64>()) {
            let task = pick % geometry.tasks;
            let schedule = Schedule::write(geometry, task, Some(seed));
            let count = schedule.transfers_per_pass();
            for pass in 0..2 {
                let visited: BTreeSet<u64> = (0..count).map(|step| schedule.offset(pass * count + step)).collect();
                let all: BTreeSet<u64> = offsets_by_loops(&geometry, task).into_iter().collect();
                prop_assert_eq!(visited, all);
            }
        }

        #[test]
        fn tasks_of_a_shared_file_tile_it(geometry in geometries()) {
            let geometry = Geometry { layout: Layout::SharedFile, ..geometry };
            let mut all: Vec<u64> = (0..geometry.tasks).flat_map(|task| offsets_by_loops(&geometry, task)).collect();
            all.sort_unstable();
            let tiles: Vec<u64> = (0..all.len() as u64).map(|index| index * geometry.transfer_bytes).collect();
            prop_assert_eq!(all, tiles);
        }

        #[test]
        fn a_reader_visits_exactly_what_a_stopped_writer_wrote(
            geometry in geometries(), pick in any::<u64>(), seed in any::<Option<u64>>(), stop in any::<u64>(),
        ) {
            let owner = pick % geometry.tasks;
            let available = 1 + stop % geometry.transfers_per_task();
            let writer = Schedule::write(geometry, owner, seed);
            let reader = Schedule::read_written(geometry, owner, available, seed);
            prop_assert_eq!(reader.transfers_per_pass(), available);
            let written: BTreeSet<u64> = (0..available).map(|step| writer.offset(step)).collect();
            let read: BTreeSet<u64> = (0..available).map(|step| reader.offset(step)).collect();
            prop_assert_eq!(read, written);
        }

        #[test]
        fn transfers_within_a_size_are_counted(geometry in geometries(), pick in any::<u64>(), size in 0_u64..9_000_000) {
            let task = pick % geometry.tasks;
            let by_loops = offsets_by_loops(&geometry, task).into_iter()
                .filter(|offset| offset + geometry.transfer_bytes <= size).count() as u64;
            prop_assert_eq!(geometry.transfers_within(task, size), by_loops);
        }

        #[test]
        fn shuffles_are_permutations(count in 1_u64..3000, seed in any::<u64>()) {
            let shuffle = Shuffle::new(count, seed);
            let places: BTreeSet<u64> = (0..count).map(|index| shuffle.at(index)).collect();
            prop_assert_eq!(places.len() as u64, count);
            prop_assert_eq!(places.last().copied(), Some(count - 1));
        }
    }

    #[test]
    fn a_shuffle_leaves_little_in_order() {
        let shuffle = Shuffle::new(100_000, 7);
        let neighbours =
            (1..100_000).filter(|&index| shuffle.at(index) == shuffle.at(index - 1) + 1).count();
        // A true shuffle has one on average (Poisson): more than 12 has a probability below 1e-9.
        assert!(neighbours <= 12, "{neighbours} neighbours stay neighbours");
    }
}
