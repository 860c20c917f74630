//! A miniature OST: files that come and go, the block allocator that places them, and a drive.
//!
//! ```text
//!  write, burst ──▶ Files ──request──▶ Allocator ──extents──▶ Drive
//!  delete, purge ──▶ Files ──extents──▶ Allocator      discard ──▶ trimmed
//!  trim ──────────────▶ free units of groups that were freed in ──▶ trimmed
//! ```
//!
//! One space of addresses: `groups` groups of [`GROUP_UNITS`] units. A unit is the allocator's block
//! and what the drive maps, 64 KiB where a group is 128 MiB. Amounts are parts of that space, so that
//! an OST of 133 TB and its miniature share them; a fraction of a request is carried on.
//!
//! Invariant: no unit is of two files, and every unit of a file is taken in the allocator and held
//! valid by the drive. A write that finds no room is counted, never an error.

mod files;
mod fleet;
mod resets;
mod settings;
mod sizes;
mod state;
#[cfg(test)]
mod tests;
mod visit;

pub use fleet::{Fleet, Step};
pub use settings::Settings;
pub use sizes::Sizes;

use crate::allocator::{Allocator, Extent, Family, Request};
use crate::drive::below;
use crate::{Drive, Error};
use files::Files;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use resets::Resets;
use visit::Visit;

/// Units of a block group: 128 MiB of 64 KiB.
pub const GROUP_UNITS: u32 = 2048;
const GROUP_SHIFT: u32 = GROUP_UNITS.trailing_zeros();

/// Units of the largest request, 1 MiB. It is placed as a stream: from the group of the last one on.
pub const REQUEST_UNITS: u32 = 16;

/// Units written between two looks at pending deletions: a step's deletions are spread
/// over it, so that a long step does not run out of room that it would have had.
const SLICE_UNITS: f64 = 64.0;

/// One OST.
#[derive(Debug, Clone)]
pub struct Ost {
    allocator: Allocator,
    drive: Drive,
    files: Files,
    writers: Vec<Writer>,
    sizes: Sizes,
    stream_units: u32,
    /// Thresholds as they were given, kept for a family that has them.
    enter: Option<[f64; 3]>,
    discard: bool,
    draws: Xoshiro256PlusPlus,
    owed: Owed,
    resets: Resets,
    visit: Visit,
    /// Groups in which something was freed since they were last trimmed.
    freed: Box<[bool]>,
    requests: u64,
    /// Units for which there was no room.
    refused_units: u64,
}

/// Who has one file open at a time.
#[derive(Debug, Clone, Copy)]
struct Writer {
    /// Its file, and the units that are yet to come; none of either between two files.
    open: Option<(u32, u32)>,
    /// Where its next small file begins: after the last one, as in a processor's own preallocation.
    near: u32,
}

/// Units that were asked for and not yet done; under 0 where a whole request or file was more.
#[derive(Debug, Clone, Copy, Default)]
struct Owed {
    written: f64,
    deleted: f64,
    purged: f64,
    burst: f64,
}

impl Ost {
    /// Returns an empty OST; what it draws follows from `seed`.
    pub fn new(settings: &Settings, seed: u64) -> Result<Self, Error> {
        Ok(Self::several(settings, &[seed])?.pop().expect("one was asked for"))
    }

    /// Returns empty OSTs, one for each of the seeds, their drives side by side in memory.
    pub(crate) fn several(settings: &Settings, seeds: &[u64]) -> Result<Vec<Self>, Error> {
        settings.check()?;
        let of_drives: Vec<_> = seeds.iter().map(|seed| settings.drive(*seed)).collect();
        let drives = Drive::several(settings.geometry()?, &of_drives);
        drives
            .into_iter()
            .zip(seeds)
            .map(|(drive, seed)| Self::of(settings, drive, *seed))
            .collect()
    }

    fn of(settings: &Settings, drive: Drive, seed: u64) -> Result<Self, Error> {
        let homes = (0..settings.writers)
            .map(|number| number * settings.groups / settings.writers * GROUP_UNITS);
        Ok(Self {
            allocator: Allocator::new(
                settings.groups,
                GROUP_UNITS,
                settings::allocator(settings.family, settings.enter),
            )?,
            drive,
            files: Files::default(),
            // Each near another group at first, as the directories of objects are.
            writers: homes.map(|near| Writer { open: None, near }).collect(),
            sizes: settings.sizes(),
            stream_units: settings.stream_units,
            enter: settings.enter,
            discard: settings.discard,
            draws: Xoshiro256PlusPlus::seed_from_u64(seed),
            owed: Owed::default(),
            resets: Resets::default(),
            visit: Visit::default(),
            freed: vec![false; settings.groups as usize].into_boxed_slice(),
            requests: 0,
            refused_units: 0,
        })
    }

    /// Units of it.
    pub fn units(&self) -> u32 {
        (self.freed.len() as u32) << GROUP_SHIFT
    }

    /// Sets which allocator it is, and the free parts under which its search begins at c1, c2, c3;
    /// the latter say nothing to a family that has no such thresholds.
    pub fn set_allocator(&mut self, family: Family, enter: Option<[f64; 3]>) -> Result<(), Error> {
        self.allocator.configure(settings::allocator(family, enter))?;
        self.enter = enter;
        Ok(())
    }

    /// Which allocator it is, and the thresholds that it was given.
    pub fn allocator(&self) -> (Family, Option<[f64; 3]>) {
        (self.allocator.settings().family, self.enter)
    }

    /// Sets whether deleted units are trimmed at once.
    pub fn set_discard(&mut self, discard: bool) {
        self.discard = discard;
    }

    /// Sends the next large request to group 0.
    pub fn reset(&mut self) {
        self.allocator.reset(0).expect("there is a first group");
    }

    /// Writes users' files.
    pub fn write(&mut self, part: f64) {
        self.owed.written += self.share(part);
        while self.owed.written >= 1.0 {
            self.owed.written -= f64::from(self.user_request());
        }
    }

    /// Deletes files at random, until so much is free again; files that are still written, later.
    pub fn delete(&mut self, part: f64) {
        self.owed.deleted += self.share(part);
        while self.owed.deleted >= 1.0 {
            let Some(file) = self.files.any(&mut self.draws) else {
                self.owed.deleted = self.owed.deleted.min(f64::from(self.used_units()));
                return;
            };
            self.owed.deleted -= f64::from(self.remove(file));
        }
    }

    /// Deletes files, the one written last longest ago first, until so much is free again.
    pub fn purge(&mut self, part: f64) {
        self.owed.purged += self.share(part);
        while self.owed.purged >= 1.0 {
            let Some(file) = self.files.oldest() else {
                self.owed.purged = self.owed.purged.min(f64::from(self.used_units()));
                return;
            };
            self.owed.purged -= f64::from(self.remove(file));
        }
    }

    /// Writes a benchmark's files, all of them open at a time, and deletes them.
    pub fn burst(&mut self, part: f64, files: u32) {
        self.owed.burst += self.share(part);
        let units = self.owed.burst.floor();
        self.owed.burst -= units;
        let units = units as u64;
        let files = u64::from(files.max(1)).min(units);
        // Sizes that differ by one unit at most, and add up.
        let ends: Vec<u64> = (0..=files).map(|number| units * number / files.max(1)).collect();
        let written: Vec<u32> = (0..files).map(|_| self.files.open()).collect();
        let mut open: Vec<(u32, u64)> =
            written.iter().zip(ends.windows(2)).map(|(file, at)| (*file, at[1] - at[0])).collect();
        while let Some(number) = below(&mut self.draws, open.len() as u32) {
            let (file, left) = &mut open[number as usize];
            let len = (*left).min(u64::from(REQUEST_UNITS)) as u32;
            *left -= u64::from(len);
            let (file, ended) = (*file, *left == 0);
            self.request(file, len, None);
            if ended {
                open.swap_remove(number as usize);
            }
        }
        for file in written {
            self.release(file);
        }
    }

    /// Trims the free units of groups that were freed in; returns the part that the drive held.
    pub fn trim(&mut self) -> f64 {
        self.settle();
        let before = self.drive.counts().trimmed;
        for group in 0..self.freed.len() as u32 {
            if std::mem::take(&mut self.freed[group as usize]) {
                let first = group << GROUP_SHIFT;
                for (start, end) in self.allocator.free_runs(group) {
                    self.drive.give_back(first + start, end - start);
                }
            }
        }
        (self.drive.counts().trimmed - before) as f64 / f64::from(self.units())
    }

    /// Has the drive write all that was written, and ends the visit of streams to their group.
    pub fn settle(&mut self) {
        self.leave();
        self.drain(self.units());
    }

    /// Writes until the part `used` is taken, and then so many capacities over and over while as
    /// much is deleted: an OST that has been in use.
    pub fn fill(&mut self, used: f64, churn: f64) {
        let goal = self.share(used.min(1.0));
        while f64::from(self.used_units()) < goal && self.allocator.free_units() > 0 {
            self.user_request();
        }
        self.advance(&Step { written: churn, deleted: churn, ..Step::default() });
    }

    /// Lets one step of time pass: a benchmark first, then users, deletions spread among the writes.
    pub fn advance(&mut self, step: &Step) {
        self.resets.begin(step.resets, self.share(step.written + step.burst));
        self.burst(step.burst, step.burst_files);
        let slices = (self.share(step.written) / SLICE_UNITS).ceil().max(1.0);
        for _ in 0..slices as u64 {
            self.delete(step.deleted / slices);
            self.purge(step.purged / slices);
            self.write(step.written / slices);
        }
        if self.resets.end() {
            self.reset();
        }
    }

    fn share(&self, part: f64) -> f64 {
        part * f64::from(self.units())
    }

    fn used_units(&self) -> u32 {
        self.units() - self.allocator.free_units() as u32 - self.visit.held_units()
    }

    /// Writes the next request of one of the writers, and returns its units.
    fn user_request(&mut self) -> u32 {
        let number = below(&mut self.draws, self.writers.len() as u32).expect("one and more write");
        let Writer { open, near } = self.writers[number as usize];
        let (file, left) =
            open.unwrap_or_else(|| (self.files.open(), self.sizes.draw(&mut self.draws)));
        let len = left.min(REQUEST_UNITS);
        let is_small = len < self.stream_units;
        let written = self.request(file, len, is_small.then_some(near));
        let writer = &mut self.writers[number as usize];
        if let (true, Some(end)) = (is_small, self.files.end(file)) {
            writer.near = end;
        }
        // A writer that met a full OST gives up on its file.
        let ended = left == len || written < len;
        writer.open = (!ended).then_some((file, left - len));
        if ended {
            self.files.close(file);
        }
        len
    }

    /// Writes so many units of a file, and returns for how many there was room.
    fn request(&mut self, file: u32, len: u32, near: Option<u32>) -> u32 {
        self.requests += 1;
        let mut left = len;
        while left > 0 {
            let goal = self.files.end(file).or(near).map(|unit| self.place(unit));
            let Some(extent) = self.allocate(left, goal, near.is_none()) else {
                self.refused_units += u64::from(left);
                break;
            };
            let first = (extent.group << GROUP_SHIFT) + extent.start;
            self.files.append(file, first, extent.len);
            if near.is_some() {
                self.drive.put_all(first, extent.len);
            } else {
                if !self.visit.is_in(extent.group) {
                    self.leave();
                    self.visit.enter(extent.group);
                }
                self.visit.write(first, extent.len);
                self.drain(extent.len);
            }
            left -= extent.len;
        }
        if self.resets.pass(len) {
            self.reset();
        }
        len - left
    }

    /// Takes up to `len` units; if none are free, ends the visit, which releases the units freed
    /// during it, and retries.
    fn allocate(&mut self, len: u32, goal: Option<(u32, u32)>, stream: bool) -> Option<Extent> {
        let of_this = "lengths and goals are of this OST";
        let request = Request { goal, stream: stream.then_some(0), ..Request::of(len) };
        let extent = self.allocator.serve(&request).expect(of_this);
        if extent.is_some() || self.visit.held_units() == 0 {
            return extent;
        }
        self.leave();
        self.allocator.serve(&request).expect(of_this)
    }

    /// Ends the visit of streams to a group.
    fn leave(&mut self) {
        self.drain(self.units());
        self.visit.leave();
        while let Some((first, len)) = self.visit.freed() {
            self.free(first, len);
        }
    }

    /// Has the drive write so many units of the visit before.
    fn drain(&mut self, units: u32) {
        let mut left = units;
        while left > 0 {
            let Some((first, len)) = self.visit.next(left) else {
                return;
            };
            left -= len;
            // The drive looks units up in no order: those of the next requests are on their way
            // while this one is placed.
            if let Some(unit) = self.visit.ahead(0) {
                self.drive.expect_overwrite(unit);
            }
            if let Some(unit) = self.visit.ahead(1) {
                self.drive.expect_write(unit);
            }
            if !self.discard {
                self.drive.put_all(first, len);
                continue;
            }
            for unit in first..first + len {
                let (group, start) = self.place(unit);
                self.drive.put(unit);
                // Deleted before the drive had it: it was to write it and then to forget it.
                if !self.allocator.is_taken(group, start) {
                    self.drive.give_back(unit, 1);
                }
            }
        }
    }

    /// Group and place in it; behind the last unit the search begins again with the first.
    fn place(&self, unit: u32) -> (u32, u32) {
        let unit = if unit < self.units() { unit } else { 0 };
        (unit >> GROUP_SHIFT, unit & (GROUP_UNITS - 1))
    }

    /// Deletes a file that is closed, and returns its units.
    fn remove(&mut self, file: u32) -> u32 {
        self.files.unlist(file);
        self.release(file)
    }

    /// Frees the units of a file, and returns how many they were.
    fn release(&mut self, file: u32) -> u32 {
        let mut units = 0;
        while let Some((first, len)) = self.files.pop(file) {
            if self.visit.is_in(first >> GROUP_SHIFT) {
                self.visit.hold(first, len);
            } else {
                self.free(first, len);
            }
            units += len;
        }
        self.files.forget(file);
        units
    }

    fn free(&mut self, first: u32, len: u32) {
        let (group, start) = self.place(first);
        let freed = self.allocator.release(Extent { group, start, len });
        freed.expect("what a file has is taken");
        self.freed[group as usize] = true;
        if self.discard {
            self.drive.give_back(first, len);
        }
    }
}
