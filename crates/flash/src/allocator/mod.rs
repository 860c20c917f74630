//! The block allocator of ldiskfs and ext4 before its lists of groups: every loop walks all groups.
//!
//! ```text
//!  goal ── free there? ──▶ taken
//!   │ no
//!   ▼
//!  c0  a buddy that large        ┐ each loop goes once around all groups from the goal group on;
//!  c1  average run that long     │ one that comes around in vain was useless, and its cost is
//!  c2  that much free in all     │ that of looking at every group
//!  c3  anything                  ┘
//! ```
//!
//! The loops to begin with follow from how much is free (`Settings::enter`): Lustre's thresholds,
//! `mb_c1_threshold` to `mb_c3_threshold`, the parts under which c0, c0 to c1, c0 to c2 are left out.

mod bitmap;

use crate::Error;
use bitmap::{Bitmap, Run};

/// Loops, c0 to c3.
pub const LOOPS: usize = 4;

/// How the allocator looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Free parts under which the search begins at c1, c2, c3; `None` where there are no thresholds.
    pub enter: Option<[f64; 3]>,
    /// Free stretches that are looked at before the best one is taken, however short.
    pub max_to_scan: u32,
    /// Those after which the best one is taken if it is long enough.
    pub min_to_scan: u32,
    /// Bits of the shortest request that c0 is for, if it is a power of two.
    pub order2_bits: u32,
}

impl Default for Settings {
    /// Those of Lustre's series for RHEL 8.
    fn default() -> Self {
        Self { enter: Some([0.25, 0.15, 0.05]), max_to_scan: 200, min_to_scan: 10, order2_bits: 8 }
    }
}

/// A stretch of one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The group.
    pub group: u32,
    /// Its first unit in the group.
    pub start: u32,
    /// How many units.
    pub len: u32,
}

/// What the allocator did since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that got something.
    pub requests: u64,
    /// Those that got what they asked for.
    pub whole: u64,
    /// Those that got it where they wanted it.
    pub goals: u64,
    /// Those that each loop served.
    pub hits: [u64; LOOPS],
    /// Times that a loop went around all groups in vain.
    pub useless: [u64; LOOPS],
    /// Groups that each loop looked at.
    pub considered: [u64; LOOPS],
    /// Free stretches that were looked at.
    pub scanned: u64,
    /// Searches that were cut short.
    pub breaks: u64,
}

#[derive(Debug, Clone)]
struct Group {
    bitmap: Bitmap,
    free: u32,
    runs: u32,
    /// Order of its largest buddy, -1 where nothing is free.
    largest: i32,
}

/// One file system's blocks.
#[derive(Debug, Clone)]
pub struct Allocator {
    groups: Vec<Group>,
    units: u32,
    free: u64,
    settings: Settings,
    /// The group where the last large request was served, from which the next one looks.
    last: u32,
    counts: Counts,
}

/// A search as it goes on.
struct Search {
    len: u32,
    best: Option<Extent>,
    found: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Goes,
    Found,
    Broken,
}

impl Allocator {
    /// Returns an empty file system of `groups` groups of `units` units, a power of two.
    ///
    /// # Errors
    /// No groups, or a size that is no power of two.
    pub fn new(groups: u32, units: u32, settings: Settings) -> Result<Self, Error> {
        if groups == 0 || groups > 1 << 24 {
            return Err(Error::impossible(
                "groups",
                groups.into(),
                "there are one and more, up to 2^24",
            ));
        }
        if !units.is_power_of_two() || units > 1 << 16 {
            return Err(Error::impossible(
                "units of a group",
                units.into(),
                "a group has a power of two, up to 2^16",
            ));
        }
        check_thresholds(settings.enter)?;
        let empty = Group {
            bitmap: Bitmap::new(units),
            free: units,
            runs: 1,
            largest: units.trailing_zeros() as i32,
        };
        Ok(Self {
            groups: vec![empty; groups as usize],
            units,
            free: u64::from(groups) * u64::from(units),
            settings,
            last: 0,
            counts: Counts::default(),
        })
    }

    /// Units that are free.
    #[must_use]
    pub fn free_units(&self) -> u64 {
        self.free
    }

    /// What it did since it was made.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Free units, free runs and the order of the largest buddy of a group (-1: nothing is free).
    #[must_use]
    pub fn group(&self, number: u32) -> Option<(u32, u32, i32)> {
        let group = self.groups.get(number as usize)?;
        Some((group.free, group.runs, group.largest))
    }

    /// Yields where each free run of a group begins and ends; nothing where there is no such group.
    pub(crate) fn free_runs(&self, number: u32) -> impl Iterator<Item = (u32, u32)> {
        let group = self.groups.get(number as usize);
        group.into_iter().flat_map(|group| group.bitmap.runs()).map(|run| (run.start, run.end))
    }

    /// Returns whether a unit is taken.
    pub(crate) fn is_taken(&self, group: u32, unit: u32) -> bool {
        self.groups[group as usize].bitmap.is_taken(unit, 1)
    }

    /// Sets the free parts under which the search begins at c1, c2, c3, as writing to
    /// `mb_c1_threshold` and so on does.
    ///
    /// # Errors
    /// What is no part.
    pub fn set_enter(&mut self, enter: Option<[f64; 3]>) -> Result<(), Error> {
        check_thresholds(enter)?;
        self.settings.enter = enter;
        Ok(())
    }

    /// Sends the next large request to a group, as writing to `mb_last_group` does.
    ///
    /// # Errors
    /// There is no such group.
    pub fn reset(&mut self, group: u32) -> Result<(), Error> {
        if group as usize >= self.groups.len() {
            return Err(Error::impossible("group", group.into(), "there is no such group"));
        }
        self.last = group;
        Ok(())
    }

    /// Takes up to `len` units; `None`: nothing is free.
    ///
    /// `goal` is where they are wanted, after the file's last extent; `stream` marks a large
    /// request, which begins where the last one was served.
    ///
    /// # Errors
    /// A length that no group can have, or a goal that does not exist.
    pub fn allocate(
        &mut self,
        len: u32,
        goal: Option<(u32, u32)>,
        stream: bool,
    ) -> Result<Option<Extent>, Error> {
        if len == 0 || len > self.units {
            return Err(Error::impossible(
                "length",
                len.into(),
                "a request is for one unit and more, up to a group",
            ));
        }
        if let Some((group, start)) = goal {
            if group as usize >= self.groups.len() || start >= self.units {
                return Err(Error::impossible("goal", group.into(), "it does not exist"));
            }
            if self.groups[group as usize].bitmap.free_from(start) >= len {
                self.counts.goals += 1;
                return Ok(Some(self.take(Extent { group, start, len }, len, stream)));
            }
        }
        let first = if stream { self.last } else { goal.map_or(0, |(group, _)| group) };
        let mut search = Search { len, best: None, found: 0, state: State::Goes };
        let mut served = LOOPS - 1;
        for number in self.first_loop(len)..LOOPS {
            self.walk(number, first, &mut search);
            if search.state != State::Goes {
                served = number;
                break;
            }
        }
        self.counts.scanned += u64::from(search.found);
        if search.state == State::Broken {
            self.counts.breaks += 1;
        }
        Ok(search.best.map(|best| {
            self.counts.hits[served] += 1;
            self.take(best, len, stream)
        }))
    }

    /// Gives a stretch back.
    ///
    /// # Errors
    /// It does not exist, or not all of it is taken.
    pub fn release(&mut self, extent: Extent) -> Result<(), Error> {
        let end = u64::from(extent.start) + u64::from(extent.len);
        let group = self.groups.get_mut(extent.group as usize);
        let taken = group.filter(|group| {
            end <= u64::from(self.units) && group.bitmap.is_taken(extent.start, extent.len)
        });
        let Some(group) = taken else {
            return Err(Error::impossible(
                "extent",
                extent.group.into(),
                "not all of what is given back is taken",
            ));
        };
        group.bitmap.set(extent.start, extent.len, false);
        group.count();
        self.free += u64::from(extent.len);
        Ok(())
    }

    /// Returns the loop to begin with: c0 is for powers of two, and the fuller the later.
    #[allow(clippy::cast_precision_loss)]
    fn first_loop(&self, len: u32) -> usize {
        let size = self.groups.len() as f64 * f64::from(self.units);
        let part = self.free as f64 / size;
        if let Some(enter) = self.settings.enter {
            for number in (1..LOOPS).rev() {
                if part < enter[number - 1] {
                    return number;
                }
            }
        }
        usize::from(!self.is_for_buddies(len))
    }

    fn is_for_buddies(&self, len: u32) -> bool {
        len.is_power_of_two() && len.ilog2() + 1 >= self.settings.order2_bits
    }

    /// Goes around all groups once, or until something is found.
    fn walk(&mut self, number: usize, first: u32, search: &mut Search) {
        let groups = self.groups.len() as u32;
        for step in 0..groups {
            let at = (first + step) % groups;
            self.counts.considered[number] += 1;
            let group = &self.groups[at as usize];
            if !group.is_good(number, search.len) {
                continue;
            }
            if number == 0 {
                search.buddy(at, group);
            } else {
                search.stretches(at, group, &self.settings);
            }
            if search.state != State::Goes {
                return;
            }
        }
        self.counts.useless[number] += 1;
    }

    /// Takes the beginning of what was found.
    fn take(&mut self, found: Extent, len: u32, stream: bool) -> Extent {
        let extent = Extent { len: found.len.min(len), ..found };
        let group = &mut self.groups[extent.group as usize];
        group.bitmap.set(extent.start, extent.len, true);
        group.count();
        self.free -= u64::from(extent.len);
        self.counts.requests += 1;
        self.counts.whole += u64::from(extent.len == len);
        if stream {
            self.last = extent.group;
        }
        extent
    }
}

fn check_thresholds(enter: Option<[f64; 3]>) -> Result<(), Error> {
    for part in enter.into_iter().flatten() {
        if !(0.0..=1.0).contains(&part) {
            return Err(Error::impossible("threshold", part, "it is a part of the blocks, 0 to 1"));
        }
    }
    Ok(())
}

impl Group {
    /// Counts what is free in it again.
    fn count(&mut self) {
        (self.free, self.runs, self.largest) = (0, 0, -1);
        for run in self.bitmap.runs() {
            self.free += run.end - run.start;
            self.runs += 1;
            for (_, order) in run.buddies() {
                self.largest = self.largest.max(order as i32);
            }
        }
    }

    /// Returns whether a loop looks into it for so many units.
    fn is_good(&self, number: usize, len: u32) -> bool {
        if self.free == 0 || (number < LOOPS - 1 && self.free < len) {
            return false;
        }
        match number {
            0 => self.largest >= len.ilog2() as i32,
            1 => self.free / self.runs >= len,
            _ => true,
        }
    }
}

impl Search {
    /// Takes the smallest buddy that is large enough; of several the first.
    fn buddy(&mut self, number: u32, group: &Group) {
        let wanted = self.len.ilog2();
        let smallest = group
            .bitmap
            .runs()
            .flat_map(Run::buddies)
            .filter(|(_, order)| *order >= wanted)
            .min_by_key(|(start, order)| (*order, *start));
        if let Some((start, order)) = smallest {
            self.found += 1;
            self.best = Some(Extent { group: number, start, len: 1 << order });
            self.state = State::Found;
        }
    }

    /// Looks at every free stretch of a group, and keeps the one that suits best.
    fn stretches(&mut self, number: u32, group: &Group, settings: &Settings) {
        for run in group.bitmap.runs() {
            for stretch in run.stretches(self.len) {
                self.measure(Extent {
                    group: number,
                    start: stretch.start,
                    len: stretch.end - stretch.start,
                });
                if self.state == State::Goes {
                    self.check(number, settings, false);
                }
                if self.state != State::Goes {
                    return;
                }
            }
        }
        self.check(number, settings, true);
    }

    fn measure(&mut self, found: Extent) {
        self.found += 1;
        let better = self.best.is_none_or(|best| {
            if best.len < self.len {
                found.len > best.len
            } else {
                found.len >= self.len && found.len < best.len
            }
        });
        if better || found.len == self.len {
            self.best = Some(found);
        }
        if found.len == self.len {
            self.state = State::Found;
        }
    }

    /// Ends the search where enough was looked at.
    fn check(&mut self, number: u32, settings: &Settings, whole_group: bool) {
        if self.found > settings.max_to_scan {
            self.state = State::Broken;
            return;
        }
        let enough = whole_group || self.found > settings.min_to_scan;
        let suits = |best: Extent| best.len >= self.len && best.group == number;
        if enough && self.best.is_some_and(suits) {
            self.state = State::Found;
        }
    }
}
