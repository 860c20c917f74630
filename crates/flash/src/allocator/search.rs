//! State of a search: which groups it looks into, and the best extent so far.

use super::groups::Groups;
use super::settings::{Criterion, Settings};
use super::{Extent, Request};

/// State of a search in progress.
pub(crate) struct Search {
    /// Units to find; fewer than requested while the request is cut down.
    pub(crate) len: u32,
    /// Units that must not be cut.
    pub(crate) least: u32,
    /// Whether it is for a file's data.
    pub(crate) data: bool,
    pub(crate) first: u32,
    pub(crate) criterion: Criterion,
    pub(crate) best: Option<Extent>,
    pub(crate) found: u32,
    pub(crate) state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Goes,
    Found,
    Broken,
}

impl Search {
    pub(crate) fn new(request: &Request, first: u32) -> Self {
        Self {
            len: request.len,
            least: request.least.min(request.len),
            data: request.data,
            first,
            criterion: Criterion::Any,
            best: None,
            found: 0,
            state: State::Goes,
        }
    }

    pub(crate) fn goes(&self) -> bool {
        self.state == State::Goes
    }

    /// Returns whether it looks into a group.
    pub(crate) fn is_good(&self, group: u32, groups: &Groups, settings: &Settings) -> bool {
        let summary = groups.summary(group);
        match self.criterion {
            Criterion::Aligned => {
                let is_for_metadata = self.data
                    && settings.flex_groups >= FLEX_GROUPS_MIN
                    && group % settings.flex_groups == 0;
                !is_for_metadata && summary.orders >> self.len.ilog2() != 0
            }
            Criterion::Fast | Criterion::Best => summary.has_runs_of(self.len),
            Criterion::Slow => summary.free >= self.len,
            Criterion::Any => summary.free > 0,
        }
    }

    /// Looks into a group if it is good.
    pub(crate) fn visit(&mut self, group: u32, groups: &Groups, settings: &Settings) {
        if !self.is_good(group, groups, settings) {
            return;
        }
        let is_whole_stripes = settings.stripe > 0 && self.len % settings.stripe == 0;
        match self.criterion {
            Criterion::Aligned => self.buddy(group, groups),
            Criterion::Fast | Criterion::Best if is_whole_stripes => {
                self.stripe(group, groups, settings.stripe);
                // The older ones look no further in this group.
                if self.goes() && settings.family.skips_short_runs() {
                    self.stretches(group, groups, settings);
                }
            }
            _ => self.stretches(group, groups, settings),
        }
    }

    /// Takes the smallest buddy that is large enough; of several the first.
    fn buddy(&mut self, group: u32, groups: &Groups) {
        if let Some((start, order)) = groups.smallest_buddy(group, self.len.ilog2()) {
            self.found += 1;
            self.best = Some(Extent { group, start, len: 1 << order });
            self.state = State::Found;
        }
    }

    /// Takes the first free stripe that begins where a stripe of the device does.
    fn stripe(&mut self, group: u32, groups: &Groups, stripe: u32) {
        let before = u64::from(group) * u64::from(groups.units());
        let mut start =
            ((u64::from(stripe) - before % u64::from(stripe)) % u64::from(stripe)) as u32;
        while start < groups.units() {
            let free = groups.free_from(group, start);
            if free >= stripe {
                self.found += 1;
                self.best = Some(Extent { group, start, len: free });
                self.state = State::Found;
                return;
            }
            start += stripe;
        }
    }

    /// Looks at every free stretch of a group, and keeps the one that suits best.
    fn stretches(&mut self, group: u32, groups: &Groups, settings: &Settings) {
        let skips = settings.family.skips_short_runs() && self.criterion.is_listed();
        for run in groups.runs(group) {
            let mut from = run.start;
            for stretch in run.stretches(self.len, groups.top()) {
                // Families that skip short runs treat the rest of a run after a stretch as a
                // separate run.
                if skips && run.end - from < self.len {
                    break;
                }
                from = stretch.end;
                self.measure(Extent {
                    group,
                    start: stretch.start,
                    len: stretch.end - stretch.start,
                });
                if self.goes() {
                    self.check(group, settings, false);
                }
                if !self.goes() {
                    return;
                }
            }
        }
        self.check(group, settings, true);
    }

    fn measure(&mut self, stretch: Extent) {
        self.found += 1;
        let better = self.best.is_none_or(|best| {
            if best.len < self.len {
                stretch.len > best.len
            } else {
                stretch.len >= self.len && stretch.len < best.len
            }
        });
        if better || stretch.len == self.len {
            self.best = Some(stretch);
        }
        if stretch.len == self.len {
            self.state = State::Found;
        }
    }

    /// Ends the search where enough was looked at.
    fn check(&mut self, group: u32, settings: &Settings, whole_group: bool) {
        if self.found > settings.max_to_scan {
            self.state = State::Broken;
            return;
        }
        let enough = whole_group || self.found > settings.min_to_scan;
        let suits = |best: Extent| best.len >= self.len && best.group == group;
        if enough && self.best.is_some_and(suits) {
            self.state = State::Found;
        }
    }
}

/// Groups that have to share their metadata for the first of them to be kept for it.
const FLEX_GROUPS_MIN: u32 = 4;
