//! The block allocator of ldiskfs and ext4: which blocks a request gets, and how many groups it
//! searched.
//!
//! ```text
//!  goal ── free there? ──▶ taken
//!   │ no
//!   ▼
//!  a buddy that large       ┐
//!  average run that long    │ criterion after criterion, each through groups: all of them in turn,
//!  (a shorter request)      │ or those that lists by order hold ready (`Family`)
//!  that much free in all    │
//!  anything                 ┘
//! ```
//!
//! A full scan without a result is a useless loop; it costs a look at each group.
//! The criteria to begin with follow from the length and, with Lustre's thresholds (`mb_c1_threshold`
//! to `mb_c3_threshold`, `Settings::enter`), from how much is free.

mod bitmap;
mod families;
mod groups;
mod index;
mod search;
mod settings;
#[cfg(test)]
mod tests;

use crate::error::{Error, require};
use groups::{Groups, Summary};
use index::{Arrays, Index, Lists};
use search::{Search, State};
pub use settings::{Family, LOOPS, Settings};

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

/// Request for an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Units, as the request was normalised.
    pub len: u32,
    /// Units before it was normalised, which a family that cuts requests down leaves whole.
    pub least: u32,
    /// Where they are wanted: group and unit.
    pub goal: Option<(u32, u32)>,
    /// Whether just that place is tried first, as for what follows a file's last extent.
    pub exact: bool,
    /// The stream goal of a large request: it goes on from where the last one of that goal was
    /// served.
    pub stream: Option<u32>,
    /// Whether it is for a file's data; extent trees and directories are not.
    pub data: bool,
}

/// Counters since the allocator was created; criteria in the order of [`Family`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that got something.
    pub requests: u64,
    /// Those that got what they asked for.
    pub whole: u64,
    /// Those that got it where they wanted it.
    pub goals: u64,
    /// Those that each criterion served.
    pub hits: [u64; LOOPS],
    /// Full scans of a criterion over its groups without a result (useless loops).
    pub useless: [u64; LOOPS],
    /// Groups that each criterion looked at.
    pub considered: [u64; LOOPS],
    /// Groups that the lists gave and that had nothing; only concurrent requests bring it about.
    pub bad_suggestions: [u64; LOOPS],
    /// Free stretches that were looked at.
    pub scanned: u64,
    /// Searches that were cut short.
    pub breaks: u64,
}

/// One file system's blocks.
#[derive(Debug, Clone)]
pub struct Allocator {
    groups: Groups,
    /// Groups by the order of their largest buddy, for families that look them up.
    largest: Index,
    /// Groups by the order of their average free run.
    average: Index,
    settings: Settings,
    /// The groups where the last large requests were served, from which the next ones look.
    last: Vec<u32>,
    counts: Counts,
}

impl Request {
    /// Returns a request for data that was not normalised and has nowhere to be.
    pub fn of(len: u32) -> Self {
        Self { len, least: len, goal: None, exact: true, stream: None, data: true }
    }
}

impl Allocator {
    /// Returns an empty file system of `groups` groups of `units` units, a power of two.
    pub fn new(groups: u32, units: u32, settings: Settings) -> Result<Self, Error> {
        let count = (1..=1 << 24).contains(&groups);
        require(count, "groups", groups, "there are one and more, up to 2^24")?;
        let size = units.is_power_of_two() && units <= 1 << 16;
        require(size, "units of a group", units, "a group has a power of two, up to 2^16")?;
        settings.check(units)?;
        let mut all = Self {
            largest: Index::Lists(Lists::new(0, 0)),
            average: Index::Lists(Lists::new(0, 0)),
            groups: Groups::new(groups, units),
            settings,
            last: Vec::new(),
            counts: Counts::default(),
        };
        all.begin();
        Ok(all)
    }

    /// Makes lists and goals as they are after a mount.
    fn begin(&mut self) {
        let (groups, orders) = (self.groups.count(), self.groups.top() + 1);
        let empty = || match self.settings.family {
            Family::Ordered => Index::Arrays(Arrays::new(groups, orders)),
            Family::Classic => Index::Lists(Lists::new(0, 0)),
            _ => Index::Lists(Lists::new(groups, orders)),
        };
        (self.largest, self.average) = (empty(), empty());
        self.last = vec![0; self.settings.stream_goals as usize];
        for group in 0..groups {
            self.list(group, Summary { free: 0, runs: 0, orders: 0 });
        }
    }

    /// Goes on with other settings: with the same family as writing to its parameters does, with
    /// another one as after a mount by another kernel. Counts go on.
    pub fn configure(&mut self, settings: Settings) -> Result<(), Error> {
        settings.check(self.groups.units())?;
        let before = std::mem::replace(&mut self.settings, settings);
        if (before.family, before.stream_goals) != (settings.family, settings.stream_goals) {
            self.begin();
        }
        Ok(())
    }

    /// Units that are free.
    pub fn free_units(&self) -> u64 {
        self.groups.free()
    }

    /// Returns the counters since creation.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the settings it was created with.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Free units, free runs and the order of the largest buddy of a group (-1: nothing is free).
    pub fn group(&self, number: u32) -> Option<(u32, u32, i32)> {
        let summary = (number < self.groups.count()).then(|| self.groups.summary(number))?;
        Some((summary.free, summary.runs, summary.largest()))
    }

    /// Yields where each free run of a group begins and ends.
    pub(crate) fn free_runs(&self, group: u32) -> impl Iterator<Item = (u32, u32)> {
        self.groups.runs(group).map(|run| (run.start, run.end))
    }

    pub(crate) fn is_taken(&self, group: u32, unit: u32) -> bool {
        self.groups.is_taken(group, unit, 1)
    }

    /// Sends the next large requests to a group, as writing to `mb_last_group` does.
    pub fn reset(&mut self, group: u32) -> Result<(), Error> {
        require(group < self.groups.count(), "group", group, "there is no such group")?;
        self.last.fill(group);
        Ok(())
    }

    /// The group from which the next large request of the first stream is searched.
    pub fn last_group(&self) -> u32 {
        self.last.first().copied().unwrap_or(0)
    }

    /// Takes up to the units of a request; `None`: nothing is free.
    pub fn serve(&mut self, request: &Request) -> Result<Option<Extent>, Error> {
        self.check(request)?;
        if let Some((group, start)) = request.goal.filter(|_| request.exact) {
            let stripe = self.settings.stripe;
            let place = u64::from(group) * u64::from(self.groups.units()) + u64::from(start);
            let is_astray = request.len == stripe && place % u64::from(stripe) != 0;
            if !is_astray && self.groups.free_from(group, start) >= request.len {
                self.counts.goals += 1;
                let extent = Extent { group, start, len: request.len };
                return Ok(Some(self.take(extent, request.len, request)));
            }
        }
        let first = match request.stream {
            Some(stream) => self.last[stream as usize % self.last.len()],
            None => request.goal.map_or(0, |(group, _)| group),
        };
        let mut search = Search::new(request, first);
        let from = self.first_loop(request.len);
        let served = match self.settings.family {
            Family::Classic => self.search_all(&mut search, from),
            Family::OptimizeScan | Family::El9 => self.search_lists(&mut search, from),
            Family::Ordered => self.search_ordered(&mut search, from),
        };
        self.counts.scanned += u64::from(search.found);
        if search.state == State::Broken {
            self.counts.breaks += 1;
        }
        Ok(search.best.map(|best| {
            self.counts.hits[served] += 1;
            self.take(best, search.len, request)
        }))
    }

    /// Takes a stretch for good and counts nothing, as for the metadata of a new file system.
    pub fn occupy(&mut self, extent: Extent) -> Result<(), Error> {
        let is_free =
            self.exists(extent) && self.groups.free_from(extent.group, extent.start) >= extent.len;
        require(is_free, "extent", extent.group, "not all of what is to be occupied is free")?;
        let before = self.groups.summary(extent.group);
        self.groups.take(extent.group, extent.start, extent.len);
        self.list(extent.group, before);
        Ok(())
    }

    /// Gives a stretch back.
    pub fn release(&mut self, extent: Extent) -> Result<(), Error> {
        let is_taken =
            self.exists(extent) && self.groups.is_taken(extent.group, extent.start, extent.len);
        require(is_taken, "extent", extent.group, "not all of what is given back is taken")?;
        let before = self.groups.summary(extent.group);
        self.groups.give(extent.group, extent.start, extent.len);
        self.list(extent.group, before);
        Ok(())
    }

    fn check(&self, request: &Request) -> Result<(), Error> {
        let fits = (1..=self.groups.units()).contains(&request.len);
        let range = "a request is for one unit and more, up to a group";
        require(fits, "length", request.len, range)?;
        let Some((group, start)) = request.goal else { return Ok(()) };
        let exists = group < self.groups.count() && start < self.groups.units();
        require(exists, "goal", group, "it does not exist")
    }

    fn exists(&self, extent: Extent) -> bool {
        let end = u64::from(extent.start) + u64::from(extent.len);
        extent.group < self.groups.count()
            && extent.len > 0
            && end <= u64::from(self.groups.units())
    }

    /// Returns the loop to begin with: c0 is for powers of two, and the fuller the later.
    fn first_loop(&self, len: u32) -> usize {
        if let Some(enter) = self.settings.enter {
            let size = f64::from(self.groups.count()) * f64::from(self.groups.units());
            let part = self.groups.free() as f64 / size;
            for number in (1..=enter.len()).rev() {
                if part < enter[number - 1] {
                    return number;
                }
            }
        }
        usize::from(!self.is_for_buddies(len))
    }

    fn is_for_buddies(&self, len: u32) -> bool {
        let order = len.ilog2();
        len > 1
            && len.is_power_of_two()
            && order + 1 >= self.settings.order2_bits
            && order <= self.groups.top()
    }

    /// Takes the beginning of the extent that was found.
    fn take(&mut self, stretch: Extent, len: u32, request: &Request) -> Extent {
        let extent = Extent { len: stretch.len.min(len), ..stretch };
        let before = self.groups.summary(extent.group);
        self.groups.take(extent.group, extent.start, extent.len);
        self.list(extent.group, before);
        self.counts.requests += 1;
        self.counts.whole += u64::from(extent.len >= request.least.min(request.len));
        if let Some(stream) = request.stream {
            let goals = self.last.len();
            self.last[stream as usize % goals] = extent.group;
        }
        extent
    }

    /// Updates the lists for the free units of a group.
    fn list(&mut self, group: u32, before: Summary) {
        if self.settings.family == Family::Classic {
            return;
        }
        let now = self.groups.summary(group);
        let top = self.groups.top();
        let largest = |summary: Summary| u32::try_from(summary.largest()).ok();
        self.largest.shift(group, largest(before), largest(now));
        self.average.shift(group, before.average_order(top), now.average_order(top));
    }
}
