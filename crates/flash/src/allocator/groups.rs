//! The groups of a file system: the free units of each, kept up to date with every request.

use super::bitmap::{self, Run};

/// Orders of buddies that there may be.
const ORDERS: usize = 16;

/// Summary of a group that a search reads before it scans the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) free: u32,
    pub(crate) runs: u32,
    /// Bit set of the orders that have a free buddy.
    pub(crate) orders: u32,
}

/// All groups; the bits of each follow those of the one before.
#[derive(Debug, Clone)]
pub(crate) struct Groups {
    units: u32,
    top: u32,
    words: usize,
    bits: Vec<u64>,
    summaries: Vec<Summary>,
    buddies: Vec<[u16; ORDERS]>,
    free: u64,
}

impl Summary {
    /// Returns the order of the largest buddy, -1 where nothing is free.
    pub(crate) fn largest(self) -> i32 {
        31 - self.orders.leading_zeros() as i32
    }

    /// Returns whether the average free run has so many units.
    pub(crate) fn has_runs_of(self, len: u32) -> bool {
        u64::from(self.free) >= u64::from(len) * u64::from(self.runs) && self.free > 0
    }

    /// Returns under which order the group is listed by its average free run: one below that of the
    /// run, so that a list holds runs from its own length to less than four times that.
    pub(crate) fn average_order(self, top: u32) -> Option<u32> {
        (self.runs > 0).then(|| average_order(self.free / self.runs, top))
    }
}

/// Returns the list in which runs of a length are.
pub(crate) fn average_order(len: u32, top: u32) -> u32 {
    len.ilog2().saturating_sub(1).min(top)
}

impl Groups {
    /// Returns `count` empty groups of `units` units, a power of two.
    pub(crate) fn new(count: u32, units: u32) -> Self {
        let words = bitmap::words(units);
        let mut empty = vec![0; words];
        if units < 64 {
            bitmap::set(&mut empty, units, 64, true);
        }
        // A buddy bitmap takes one block as the block bitmap does, so a group is four of the largest.
        let top = units.trailing_zeros().saturating_sub(2);
        let mut buddies = [0; ORDERS];
        buddies[top as usize] = (units >> top) as u16;
        Self {
            units,
            top,
            words,
            bits: empty.repeat(count as usize),
            summaries: vec![Summary { free: units, runs: 1, orders: 1 << top }; count as usize],
            buddies: vec![buddies; count as usize],
            free: u64::from(count) * u64::from(units),
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.summaries.len() as u32
    }

    pub(crate) fn units(&self) -> u32 {
        self.units
    }

    /// Returns the order of the largest buddy that there can be.
    pub(crate) fn top(&self) -> u32 {
        self.top
    }

    /// Returns how many units are free in all.
    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    pub(crate) fn summary(&self, group: u32) -> Summary {
        self.summaries[group as usize]
    }

    fn bits(&self, group: u32) -> &[u64] {
        &self.bits[group as usize * self.words..][..self.words]
    }

    /// Returns how many units are free from `start` on.
    pub(crate) fn free_from(&self, group: u32, start: u32) -> u32 {
        bitmap::next(self.bits(group), self.units, start, true) - start
    }

    /// Returns whether all of a stretch is taken.
    pub(crate) fn is_taken(&self, group: u32, start: u32, len: u32) -> bool {
        bitmap::next(self.bits(group), self.units, start, false) >= start + len
    }

    /// Yields the free runs of a group.
    pub(crate) fn runs(&self, group: u32) -> impl Iterator<Item = Run> {
        bitmap::runs(self.bits(group))
    }

    /// Returns start and order of the smallest buddy that has at least this order; of several the first.
    pub(crate) fn smallest_buddy(&self, group: u32, order: u32) -> Option<(u32, u32)> {
        let enough = self.summary(group).orders & (u32::MAX << order);
        let order = enough.trailing_zeros();
        let buddy = (enough != 0).then(|| bitmap::first_buddy(self.bits(group), order, self.top));
        buddy.flatten().map(|start| (start, order))
    }

    /// Takes a stretch, all of which is free.
    pub(crate) fn take(&mut self, group: u32, start: u32, len: u32) {
        let end = start + len;
        let run = self.run_around(group, start, end);
        let counts = &mut self.buddies[group as usize];
        add(counts, run, self.top, u16::wrapping_sub);
        add(counts, Run { end: start, ..run }, self.top, u16::wrapping_add);
        add(counts, Run { start: end, ..run }, self.top, u16::wrapping_add);
        let parts = u32::from(run.start < start) + u32::from(end < run.end);
        let summary = &mut self.summaries[group as usize];
        summary.runs = summary.runs + parts - 1;
        summary.free -= len;
        self.free -= u64::from(len);
        self.mark(group, start, end, true);
    }

    /// Gives a stretch back, all of which is taken.
    pub(crate) fn give(&mut self, group: u32, start: u32, len: u32) {
        let end = start + len;
        let run = self.run_around(group, start, end);
        let counts = &mut self.buddies[group as usize];
        add(counts, Run { end: start, ..run }, self.top, u16::wrapping_sub);
        add(counts, Run { start: end, ..run }, self.top, u16::wrapping_sub);
        add(counts, run, self.top, u16::wrapping_add);
        let parts = u32::from(run.start < start) + u32::from(end < run.end);
        let summary = &mut self.summaries[group as usize];
        summary.runs = summary.runs + 1 - parts;
        summary.free += len;
        self.free += u64::from(len);
        self.mark(group, start, end, false);
    }

    /// Returns a stretch with the free units on both sides of it.
    fn run_around(&self, group: u32, start: u32, end: u32) -> Run {
        let bits = self.bits(group);
        Run {
            start: bitmap::run_start(bits, start),
            end: bitmap::next(bits, self.units, end, true),
        }
    }

    fn mark(&mut self, group: u32, start: u32, end: u32, taken: bool) {
        let words = self.words;
        bitmap::set(&mut self.bits[group as usize * words..][..words], start, end, taken);
        let counts = &self.buddies[group as usize];
        let orders = counts.iter().enumerate();
        self.summaries[group as usize].orders =
            orders.fold(0, |mask, (order, count)| mask | u32::from(*count > 0) << order);
    }
}

/// Counts the buddies of a run in or out.
fn add(counts: &mut [u16; ORDERS], run: Run, top: u32, change: fn(u16, u16) -> u16) {
    for (_, order) in run.buddies(top) {
        let count = &mut counts[order as usize];
        *count = change(*count, 1);
    }
}
