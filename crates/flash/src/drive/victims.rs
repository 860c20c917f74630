//! Which superblock is cleaned next, found in a time that does not depend on how many there are.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::VecDeque;

const NIL: u32 = u32::MAX;

/// How a drive picks the superblock to clean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The one with the fewest valid units; of several the one that reached that number last.
    Greedy,
    /// The one that was filled first.
    Fifo,
    /// The one of [`SAMPLES`] drawn at random with the most room for its copies times its age (A.
    /// Kawaguchi et al., USENIX 1995): `(1 - u) / 2u * age`.
    CostBenefit,
}

/// Superblocks that cost-benefit looks at: of so many the best is among the best tenth of all in two
/// of three draws, and looking at all would take as many times as long as there are superblocks.
pub const SAMPLES: u32 = 10;

/// The filled superblocks of a drive, ready to be picked from.
#[derive(Debug, Clone)]
pub(crate) enum Victims {
    Greedy(Buckets),
    Fifo(VecDeque<u32>),
    CostBenefit(Aged),
}

impl Victims {
    pub(crate) fn new(policy: Policy, superblocks: u32, units: u32, seed: u64) -> Self {
        match policy {
            Policy::Greedy => Self::Greedy(Buckets::new(superblocks, units)),
            Policy::Fifo => Self::Fifo(VecDeque::with_capacity(superblocks as usize)),
            Policy::CostBenefit => Self::CostBenefit(Aged::new(superblocks, units, seed)),
        }
    }

    /// Takes in a superblock that was just filled.
    pub(crate) fn closed(&mut self, superblock: u32, valid: u32, now: u64) {
        match self {
            Self::Greedy(buckets) => buckets.push(superblock, valid),
            Self::Fifo(queue) => queue.push_back(superblock),
            Self::CostBenefit(aged) => aged.push(superblock, now),
        }
    }

    /// Notes that a filled superblock had `before` valid units, and now has `valid`.
    #[inline]
    pub(crate) fn lowered(&mut self, superblock: u32, before: u32, valid: u32) {
        if let Self::Greedy(buckets) = self {
            buckets.unlink(superblock, before);
            buckets.push(superblock, valid);
        }
    }

    /// Takes out the superblock to clean; `None` where none is filled.
    pub(crate) fn pick(&mut self, valid: &[u32], now: u64) -> Option<u32> {
        match self {
            Self::Greedy(buckets) => buckets.pop(),
            Self::Fifo(queue) => queue.pop_front(),
            Self::CostBenefit(aged) => aged.pop(valid, now),
        }
    }
}

/// Lists of superblocks with equally many valid units, doubly linked through arrays.
#[derive(Debug, Clone)]
pub(crate) struct Buckets {
    head: Box<[u32]>,
    next: Box<[u32]>,
    before: Box<[u32]>,
    /// Lower bound: no list below this number has a member.
    least: u32,
}

impl Buckets {
    fn new(superblocks: u32, units: u32) -> Self {
        let links = || vec![NIL; superblocks as usize].into_boxed_slice();
        Self {
            head: vec![NIL; units as usize + 1].into_boxed_slice(),
            next: links(),
            before: links(),
            least: units,
        }
    }

    #[inline]
    fn push(&mut self, superblock: u32, valid: u32) {
        let first = self.head[valid as usize];
        self.next[superblock as usize] = first;
        self.before[superblock as usize] = NIL;
        if first != NIL {
            self.before[first as usize] = superblock;
        }
        self.head[valid as usize] = superblock;
        self.least = self.least.min(valid);
    }

    #[inline]
    fn unlink(&mut self, superblock: u32, valid: u32) {
        let (before, next) = (self.before[superblock as usize], self.next[superblock as usize]);
        if before == NIL {
            self.head[valid as usize] = next;
        } else {
            self.next[before as usize] = next;
        }
        if next != NIL {
            self.before[next as usize] = before;
        }
    }

    fn pop(&mut self) -> Option<u32> {
        while self.head.get(self.least as usize) == Some(&NIL) {
            self.least += 1;
        }
        let fewest = *self.head.get(self.least as usize)?;
        self.unlink(fewest, self.least);
        Some(fewest)
    }
}

/// Superblocks with when each was filled, any of which can be drawn.
#[derive(Debug, Clone)]
pub(crate) struct Aged {
    members: Vec<u32>,
    filled_at: Box<[u64]>,
    units: u32,
    draws: Xoshiro256PlusPlus,
}

impl Aged {
    fn new(superblocks: u32, units: u32, seed: u64) -> Self {
        Self {
            members: Vec::with_capacity(superblocks as usize),
            filled_at: vec![0; superblocks as usize].into_boxed_slice(),
            units,
            draws: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    fn push(&mut self, superblock: u32, now: u64) {
        self.filled_at[superblock as usize] = now;
        self.members.push(superblock);
    }

    fn pop(&mut self, valid: &[u32], now: u64) -> Option<u32> {
        let mut best: Option<(f64, usize)> = None;
        for _ in 0..SAMPLES {
            let place = below(&mut self.draws, u32::try_from(self.members.len()).ok()?)? as usize;
            let superblock = self.members[place] as usize;
            let score = self.score(valid[superblock], now - self.filled_at[superblock]);
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, place));
            }
        }
        best.map(|(_, place)| self.members.swap_remove(place))
    }

    fn score(&self, valid: u32, age: u64) -> f64 {
        let used = f64::from(valid) / f64::from(self.units);
        // An empty one costs nothing: it is better than any other, the older the better.
        if valid == 0 {
            return 1e18 + age as f64;
        }
        (1.0 - used) / (2.0 * used) * age as f64
    }
}

/// Returns a number under `end`, all equally likely to one part in 2^32; `None` where `end` is 0.
#[inline]
pub(crate) fn below(draws: &mut Xoshiro256PlusPlus, end: u32) -> Option<u32> {
    let high = draws.next_u64() >> 32;
    (end > 0).then(|| ((high * u64::from(end)) >> 32) as u32)
}
