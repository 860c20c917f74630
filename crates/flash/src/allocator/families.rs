//! The searches of the families: how each goes from group to group and from criterion to criterion.

use super::groups::average_order;
use super::search::Search;
use super::settings::Criterion;
use super::{Allocator, Index};
use std::ops::Range;

/// Orders to look up, the length to look for in each, and how many of both there are.
#[derive(Default)]
struct Lookups([(u32, u32); 17], usize);

impl Lookups {
    fn push(&mut self, order: u32, len: u32) {
        self.0[self.1] = (order, len);
        self.1 += 1;
    }

    fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.0[..self.1].iter().copied()
    }
}

impl Allocator {
    /// Linux before 5.13: each loop goes once around all groups from the first one on.
    pub(crate) fn search_all(&mut self, search: &mut Search, from: usize) -> usize {
        let criteria = self.settings.family.criteria();
        for (at, criterion) in criteria.iter().enumerate().skip(from) {
            search.criterion = *criterion;
            self.walk(at, search.first, self.groups.count(), search);
            if !search.goes() {
                return at;
            }
            self.counts.useless[at] += 1;
        }
        criteria.len() - 1
    }

    /// Linux 5.13 to 6.16: the first group, then what the lists suggest, one group after another.
    ///
    /// A criterion whose lists have nothing is left without a word: only one under which as many
    /// groups were looked into as there are counts as useless, which lists hardly let happen.
    pub(crate) fn search_lists(&mut self, search: &mut Search, from: usize) -> usize {
        let criteria = self.settings.family.criteria();
        let groups = self.groups.count();
        let request_len = search.len;
        let mut suggested = [false; super::LOOPS];
        let mut at = from;
        'criteria: while at < criteria.len() {
            search.criterion = criteria[at];
            let mut linear = self.settings.max_linear_groups;
            let mut group = search.first;
            for seen in 1..=groups {
                self.walk(at, group, 1, search);
                if !search.goes() {
                    return at;
                }
                if !search.criterion.is_listed() || linear > 0 {
                    linear = linear.saturating_sub(1);
                    group = (group + 1) % groups;
                    continue;
                }
                self.counts.bad_suggestions[at] += u64::from(suggested[at]);
                if let Some(next) = self.suggest(at, search) {
                    suggested[at] = true;
                    group = next;
                    continue;
                }
                if seen < groups {
                    search.len = request_len;
                    // Only data has a length that was normalised and can be cut down again.
                    let skips = !search.data && criteria.get(at + 1) == Some(&Criterion::Best);
                    at += if skips { 2 } else { 1 };
                    continue 'criteria;
                }
            }
            search.len = request_len;
            self.counts.useless[at] += 1;
            at += 1;
        }
        criteria.len() - 1
    }

    /// Linux from 6.17 on: from the first group up through each list in turn, then from zero on.
    pub(crate) fn search_ordered(&mut self, search: &mut Search, from: usize) -> usize {
        let criteria = self.settings.family.criteria();
        let groups = self.groups.count();
        let request_len = search.len;
        for (at, criterion) in criteria.iter().enumerate().skip(from) {
            if *criterion == Criterion::Best && !search.data {
                continue;
            }
            search.criterion = *criterion;
            if criterion.is_listed() {
                let linear = self.settings.max_linear_groups.min(groups);
                self.walk(at, search.first, linear, search);
                let start = (search.first + linear) % groups;
                let lists = self.lists(search);
                self.pass(at, &lists, start..groups, search);
                self.pass(at, &lists, 0..start, search);
            } else {
                self.walk(at, search.first, groups, search);
            }
            if !search.goes() {
                return at;
            }
            search.len = request_len;
            self.counts.useless[at] += 1;
        }
        criteria.len() - 1
    }

    /// Looks at so many groups, one after the other, or until something is found.
    fn walk(&mut self, at: usize, first: u32, count: u32, search: &mut Search) {
        let groups = self.groups.count();
        for step in 0..count {
            if !search.goes() {
                return;
            }
            self.counts.considered[at] += 1;
            search.visit((first + step) % groups, &self.groups, &self.settings);
        }
    }

    /// Looks at the groups of a range that are in the lists of a criterion.
    fn pass(&mut self, at: usize, lists: &Lookups, range: Range<u32>, search: &mut Search) {
        for (order, len) in lists.iter() {
            if !search.goes() {
                return;
            }
            search.len = len;
            let mut next = self.index(search.criterion).first(order, range.clone());
            while let Some(group) = next.filter(|group| *group < range.end) {
                // The kernel counts a group of a list twice: as it is met, and as it is looked at.
                self.counts.considered[at] += 1;
                self.walk(at, group, 1, search);
                if !search.goes() {
                    return;
                }
                next = self.index(search.criterion).after(order, group);
            }
        }
    }

    /// Returns the first good group of the lists, and cuts the request down to what it has.
    fn suggest(&mut self, at: usize, search: &mut Search) -> Option<u32> {
        for (order, len) in self.lists(search).iter() {
            search.len = len;
            let mut next = self.index(search.criterion).first(order, 0..self.groups.count());
            while let Some(group) = next {
                self.counts.considered[at] += 1;
                if search.is_good(group, &self.groups, &self.settings) {
                    return Some(group);
                }
                next = self.index(search.criterion).after(order, group);
            }
        }
        None
    }

    /// Returns the orders to look up for a criterion, and the length to look for in each.
    fn lists(&self, search: &Search) -> Lookups {
        let top = self.groups.top();
        let (len, order) = (search.len, search.len.ilog2());
        let mut lookups = Lookups::default();
        match search.criterion {
            Criterion::Aligned => (order..=top).for_each(|order| lookups.push(order, len)),
            Criterion::Fast => {
                (average_order(len, top)..=top).for_each(|order| lookups.push(order, len));
            }
            _ => (self.shortest_cut(search)..=order).rev().for_each(|order| {
                let cut = match self.settings.stripe {
                    0 => 1 << order,
                    stripe => (1_u32 << order).next_multiple_of(stripe),
                };
                lookups.push(average_order(cut, top), cut);
            }),
        }
        lookups
    }

    /// Returns the order of the shortest length that a request may be cut down to.
    fn shortest_cut(&self, search: &Search) -> u32 {
        let least = search.len.ilog2().saturating_sub(self.settings.max_trim_order);
        // A length below a stripe is rounded up to one afterwards.
        let stripe = self.settings.stripe;
        let least = if stripe > 1 << least { stripe.ilog2() } else { least };
        if search.least > 1 << least { search.least.ilog2() + 1 } else { least }
    }

    fn index(&self, criterion: Criterion) -> &Index {
        if criterion == Criterion::Aligned { &self.largest } else { &self.average }
    }
}
