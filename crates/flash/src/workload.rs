//! Writes of hosts: units at random, all alike or some of them hot, a part of them live.

use crate::Drive;
use crate::drive::below;
use crate::error::{Error, require};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::hint::black_box;

/// Units that are looked up before the first of them is written: memory answers many at once.
const AHEAD: usize = 16;

/// Hot units: a part of all, and the share of writes that goes to them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hot {
    /// Part of the live units, over 0 and under 1.
    pub part: f64,
    /// Share of the writes, over 0 and under 1.
    pub share: f64,
}

/// A host that writes at random for ever.
#[derive(Debug, Clone)]
pub struct Workload {
    draws: Xoshiro256PlusPlus,
    logical: u32,
    /// Units that hold data come first, those that were given back after them.
    units: Vec<u32>,
    live: u32,
    hot: Option<(u32, u32)>,
}

impl Workload {
    /// Returns a host of a drive with `logical` units, of which the part `live` holds data.
    ///
    /// With `live` 1 every write replaces existing data. Under 1 each write is to an empty unit,
    /// after a unit with data was given back: files come and go. With hot units, writes replace
    /// existing data, and the rest of the drive is never written.
    pub fn new(logical: u32, live: f64, hot: Option<Hot>, seed: u64) -> Result<Self, Error> {
        let is_part = live > 0.0 && live <= 1.0;
        require(is_part, "live", live, "must be a fraction of the drive, above 0 and at most 1")?;
        let units = part_of(logical, live).max(1);
        let hot = hot.map(|hot| split(units, hot)).transpose()?;
        let listed =
            if units < logical && hot.is_none() { (0..logical).collect() } else { Vec::new() };
        Ok(Self {
            draws: Xoshiro256PlusPlus::seed_from_u64(seed),
            logical,
            units: listed,
            live: units,
            hot,
        })
    }

    /// Writes every live unit once, in order: the drive as it is filled for the first time.
    pub fn fill(&self, drive: &mut Drive) -> Result<(), Error> {
        self.check(drive)?;
        for unit in 0..self.live {
            drive.put(unit);
        }
        Ok(())
    }

    fn check(&self, drive: &Drive) -> Result<(), Error> {
        let logical = drive.geometry().logical();
        let other = "the workload was made for a drive of another size";
        require(logical == self.logical, "units of the drive", logical, other)
    }

    /// Writes so many units.
    pub fn run(&mut self, drive: &mut Drive, writes: u64) -> Result<(), Error> {
        self.check(drive)?;
        let mut left = writes;
        let mut next = [0_u32; AHEAD];
        while left > 0 {
            let count = left.min(AHEAD as u64) as usize;
            if self.units.is_empty() {
                for unit in &mut next[..count] {
                    *unit = self.draw();
                }
                let seen = next[..count].iter().fold(0, |seen, unit| seen ^ drive.glance(*unit));
                black_box(seen);
                for unit in &next[..count] {
                    drive.put(*unit);
                }
            } else {
                for _ in 0..count {
                    self.replace(drive);
                }
            }
            left -= count as u64;
        }
        Ok(())
    }

    #[inline]
    fn draw(&mut self) -> u32 {
        let Some((hot, threshold)) = self.hot else {
            return below(&mut self.draws, self.live).unwrap_or(0);
        };
        let is_hot = below(&mut self.draws, u32::MAX).unwrap_or(0) < threshold;
        if is_hot {
            below(&mut self.draws, hot).unwrap_or(0)
        } else {
            hot + below(&mut self.draws, self.live - hot).unwrap_or(0)
        }
    }

    /// Gives one live unit back and writes one that holds nothing in its place.
    fn replace(&mut self, drive: &mut Drive) {
        let dead = self.units.len() as u32 - self.live;
        let gone = below(&mut self.draws, self.live).unwrap_or(0) as usize;
        let fresh = (self.live + below(&mut self.draws, dead).unwrap_or(0)) as usize;
        drive.trim(self.units[gone]).expect("all units are of the drive");
        drive.put(self.units[fresh]);
        self.units.swap(gone, fresh);
    }
}

fn split(units: u32, hot: Hot) -> Result<(u32, u32), Error> {
    for (name, value) in [("hot part", hot.part), ("hot share", hot.share)] {
        require(value > 0.0 && value < 1.0, name, value, "must be above 0 and below 1")?;
    }
    let part = part_of(units, hot.part);
    let both = part > 0 && part < units;
    require(both, "hot part", hot.part, "at least one unit must be hot, and one not")?;
    Ok((part, part_of(u32::MAX, hot.share)))
}

fn part_of(whole: u32, part: f64) -> u32 {
    (f64::from(whole) * part).round() as u32
}
