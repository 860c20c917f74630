//! A page-mapped drive: units written out of place, superblocks cleaned when erased ones run out.

mod geometry;
mod victims;

pub use geometry::Geometry;
pub(crate) use victims::below;
pub use victims::{Policy, SAMPLES};

use crate::Error;
use crate::cells::{Cells, fetch};
use std::collections::VecDeque;
use victims::Victims;

const NIL: u32 = u32::MAX;

/// Superblocks that stay erased: the copies of a victim need one before the victim is erased.
const RESERVE: usize = 1;

/// Units of a victim whose places are on their way while others are copied.
const AHEAD: usize = 16;

/// The frontier that the host writes to.
const HOST: usize = 0;

/// How a drive cleans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Which superblock next.
    pub policy: Policy,
    /// Whether copies fill a superblock of their own. Mixed with new data, what is seldom rewritten
    /// is copied again and again with what is rewritten soon.
    pub separate: bool,
    /// Seed of the policy's random draws.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { policy: Policy::Greedy, separate: false, seed: 0 }
    }
}

/// Counters since the drive was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Units that the host wrote.
    pub written: u64,
    /// Units that collection wrote again.
    pub copied: u64,
    /// Superblocks that were erased.
    pub erased: u64,
    /// Units that the host gave back.
    pub trimmed: u64,
}

/// A superblock that is being filled: places from `next` to `end` are free.
#[derive(Debug, Clone, Copy)]
struct Frontier {
    superblock: u32,
    next: u32,
    end: u32,
}

impl Frontier {
    const NONE: Self = Self { superblock: NIL, next: 0, end: 0 };

    #[inline]
    fn is_full(&self) -> bool {
        self.next == self.end
    }
}

/// One drive.
#[derive(Debug, Clone)]
pub struct Drive {
    geometry: Geometry,
    shift: u32,
    /// Place of each unit.
    map: Cells,
    /// Valid unit at each place.
    owner: Cells,
    /// Valid units of each superblock.
    valid: Cells,
    /// How often each superblock was erased.
    wear: Cells,
    victims: Victims,
    /// Erased superblocks, in the order of their erasure, so that all wear alike.
    erased: VecDeque<u32>,
    /// The host's first. The second is for copies, or never opened.
    frontiers: [Frontier; 2],
    /// Which of them copies go to.
    copies: usize,
    counts: Counts,
}

impl Drive {
    /// Returns an empty drive, all of it erased.
    pub fn new(geometry: Geometry, settings: Settings) -> Self {
        Self::several(geometry, &[settings]).pop().expect("one was asked for")
    }

    /// Returns empty drives, one for each of the settings, side by side in memory.
    pub(crate) fn several(geometry: Geometry, settings: &[Settings]) -> Vec<Self> {
        let lengths = settings.iter().flat_map(|settings| {
            let superblocks = superblocks_of(geometry, *settings) as usize;
            let places = superblocks << geometry.shift();
            [geometry.logical() as usize, places, superblocks, superblocks]
        });
        let mut cells = Cells::block(&lengths.collect::<Vec<_>>(), NIL).into_iter();
        let drive = |settings: &Settings| Self::of(geometry, *settings, &mut cells);
        settings.iter().map(drive).collect()
    }

    fn of(geometry: Geometry, settings: Settings, cells: &mut impl Iterator<Item = Cells>) -> Self {
        let superblocks = superblocks_of(geometry, settings);
        let mut next = || cells.next().expect("four for each drive");
        let mut drive = Self {
            geometry,
            shift: geometry.shift(),
            map: next(),
            owner: next(),
            valid: next(),
            wear: next(),
            victims: Victims::new(settings.policy, superblocks, geometry.units(), settings.seed),
            erased: (0..superblocks).collect(),
            frontiers: [Frontier::NONE; 2],
            copies: if settings.separate { 1 } else { HOST },
            counts: Counts::default(),
        };
        drive.valid.fill(0);
        drive.wear.fill(0);
        drive
    }

    /// How it is laid out.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the counters since creation.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Superblock and place in it of a unit; `None` where it holds nothing.
    pub fn place(&self, unit: u32) -> Result<Option<(u32, u32)>, Error> {
        let place = *self.map.get(unit as usize).ok_or_else(|| no_unit(unit))?;
        let within = (1 << self.shift) - 1;
        Ok((place != NIL).then(|| (place >> self.shift, place & within)))
    }

    /// Valid units of each superblock, and how often each was erased.
    pub fn superblocks(&self) -> (&[u32], &[u32]) {
        (&self.valid, &self.wear)
    }

    /// Writes a unit, and returns how many others were copied to make room for it.
    pub fn write(&mut self, unit: u32) -> Result<u64, Error> {
        if unit as usize >= self.map.len() {
            return Err(no_unit(unit));
        }
        Ok(self.put(unit))
    }

    /// Gives a unit back, and returns whether it held anything.
    pub fn trim(&mut self, unit: u32) -> Result<bool, Error> {
        let place = *self.map.get(unit as usize).ok_or_else(|| no_unit(unit))?;
        if place == NIL {
            return Ok(false);
        }
        self.map[unit as usize] = NIL;
        self.owner[place as usize] = NIL;
        self.lower(place >> self.shift, 1);
        self.counts.trimmed += 1;
        Ok(true)
    }

    /// Reads where a unit is, so that the entry is cached for a write that follows soon.
    #[inline]
    pub(crate) fn glance(&self, unit: u32) -> u32 {
        self.map[unit as usize]
    }

    /// Prefetches a unit's place, for a write that follows soon.
    #[inline]
    pub(crate) fn expect_write(&self, unit: u32) {
        fetch(&self.map, unit as usize);
    }

    /// Prefetches the entries at a unit's place; the place itself is cached already.
    #[inline]
    pub(crate) fn expect_overwrite(&self, unit: u32) {
        let place = self.map[unit as usize] as usize;
        fetch(&self.owner, place);
        fetch(&self.valid, place >> self.shift);
    }

    #[inline]
    pub(crate) fn put(&mut self, unit: u32) -> u64 {
        let before = self.counts.copied;
        if self.frontiers[HOST].is_full() {
            self.make_room();
        }
        let old = self.map[unit as usize];
        if old != NIL {
            self.owner[old as usize] = NIL;
            self.lower(old >> self.shift, 1);
        }
        self.store(HOST, unit);
        self.counts.written += 1;
        self.counts.copied - before
    }

    /// Writes units that follow one another: what [`Drive::put`] does with each, in the same order.
    pub(crate) fn put_all(&mut self, first: u32, units: u32) {
        let (mut unit, end) = (first, first + units);
        while unit < end {
            if self.frontiers[HOST].is_full() {
                self.make_room();
            }
            let frontier = &mut self.frontiers[HOST];
            let (place, superblock) = (frontier.next, frontier.superblock);
            let fits = (end - unit).min(frontier.end - place);
            frontier.next += fits;
            self.forget_all(unit, fits);
            let owner = &mut self.owner[place as usize..(place + fits) as usize];
            owner.iter_mut().zip(unit..).for_each(|(owner, unit)| *owner = unit);
            let map = &mut self.map[unit as usize..(unit + fits) as usize];
            map.iter_mut().zip(place..).for_each(|(map, place)| *map = place);
            self.valid[superblock as usize] += fits;
            self.counts.written += u64::from(fits);
            unit += fits;
        }
    }

    /// Takes back units that follow one another; what holds nothing is left.
    pub(crate) fn give_back(&mut self, first: u32, units: u32) {
        self.counts.trimmed += u64::from(self.forget_all(first, units));
        self.map[first as usize..(first + units) as usize].fill(NIL);
    }

    /// Makes the places of consecutive units invalid; returns how many there were.
    fn forget_all(&mut self, first: u32, units: u32) -> u32 {
        let (mut superblock, mut gone, mut all) = (NIL, 0, 0);
        for unit in first..first + units {
            let old = self.map[unit as usize];
            if old == NIL {
                continue;
            }
            self.owner[old as usize] = NIL;
            // Neighbours were mostly written together: one step for all that a superblock loses.
            if old >> self.shift != superblock {
                if gone > 0 {
                    self.lower(superblock, gone);
                }
                (superblock, all, gone) = (old >> self.shift, all + gone, 0);
            }
            gone += 1;
        }
        if gone > 0 {
            self.lower(superblock, gone);
        }
        all + gone
    }

    /// Notes that a superblock has so many valid units fewer.
    #[inline]
    fn lower(&mut self, superblock: u32, units: u32) {
        let before = self.valid[superblock as usize];
        let left = before - units;
        self.valid[superblock as usize] = left;
        let [host, copies] = &self.frontiers;
        if superblock != host.superblock && superblock != copies.superblock {
            self.victims.lowered(superblock, before, left);
        }
    }

    /// Puts a unit where a frontier goes on.
    #[inline]
    fn store(&mut self, which: usize, unit: u32) {
        let frontier = &mut self.frontiers[which];
        let place = frontier.next;
        frontier.next += 1;
        self.owner[place as usize] = unit;
        self.map[unit as usize] = place;
        self.valid[frontier.superblock as usize] += 1;
    }

    /// Gives the host a superblock with room in it, and cleans others until there is one.
    #[cold]
    fn make_room(&mut self) {
        while self.frontiers[HOST].is_full() {
            // Copies may have filled it as well.
            self.close(HOST);
            if self.erased.len() > RESERVE {
                self.open(HOST);
            } else {
                self.collect();
            }
        }
    }

    /// Copies the valid units of one superblock and erases it.
    fn collect(&mut self) {
        let victim = self
            .victims
            .pick(&self.valid, self.counts.written)
            .expect("all but the erased and the open ones are filled");
        let first = (victim as usize) << self.shift;
        let end = first + self.geometry.units() as usize;
        for place in first..end.min(first + AHEAD) {
            fetch(&self.map, self.owner[place] as usize);
        }
        for place in first..end {
            if place + AHEAD < end {
                fetch(&self.map, self.owner[place + AHEAD] as usize);
            }
            let unit = self.owner[place];
            if unit != NIL {
                self.owner[place] = NIL;
                self.keep(unit);
            }
        }
        self.valid[victim as usize] = 0;
        self.wear[victim as usize] += 1;
        self.erased.push_back(victim);
        self.counts.erased += 1;
    }

    /// Writes a unit of a victim again.
    fn keep(&mut self, unit: u32) {
        if self.frontiers[self.copies].is_full() {
            self.close(self.copies);
            self.open(self.copies);
        }
        self.store(self.copies, unit);
        self.counts.copied += 1;
    }

    fn open(&mut self, which: usize) {
        let superblock = self.erased.pop_front().expect("one superblock stays erased for copies");
        let next = superblock << self.shift;
        self.frontiers[which] = Frontier { superblock, next, end: next + self.geometry.units() };
    }

    fn close(&mut self, which: usize) {
        let full = std::mem::replace(&mut self.frontiers[which], Frontier::NONE);
        if full.superblock != NIL {
            let valid = self.valid[full.superblock as usize];
            self.victims.closed(full.superblock, valid, self.counts.written);
        }
    }
}

/// Superblocks of a drive, with those that are being filled and the one that stays erased.
fn superblocks_of(geometry: Geometry, settings: Settings) -> u32 {
    let frontiers = if settings.separate { 2 } else { 1 };
    geometry.superblocks() + frontiers + RESERVE as u32
}

fn no_unit(unit: u32) -> Error {
    Error::impossible("unit", unit, "it is beyond the end of the drive")
}
