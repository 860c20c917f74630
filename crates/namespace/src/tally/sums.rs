//! Sums over an index: totals, why files are kept, the curves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::curve::{Amount, Curve};
use super::links::{Linked, Look};
use super::{Options, Terms};
use crate::rules::Kept;

pub(crate) const HOUR_S: i64 = 3600;
pub(crate) const DAY_S: i64 = 86_400;

/// One more than the number of the last reason.
const REASONS: usize = Kept::TooYoung as usize + 1;

/// Files of a user or a project.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// Every regular file.
    pub(crate) total: Amount,
    /// Eligible files, by day.
    pub(crate) days: Curve,
}

impl Owner {
    pub(crate) fn new(terms: &Terms) -> Self {
        let newest = terms.rules.as_of_s.div_euclid(DAY_S);
        Self { total: Amount::default(), days: Curve::new(newest) }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.total.add(other.total);
        self.days.merge(&other.days);
    }
}

/// Sums over any part of an index.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sums {
    /// The allocated bytes of all, in as many bits as it takes.
    pub(crate) every_byte: u128,
    pub(crate) total: Amount,
    pub(crate) kept: [Amount; REASONS],
    pub(crate) hours: Curve,
    pub(crate) users: BTreeMap<u32, Owner>,
    pub(crate) projects: BTreeMap<u32, Owner>,
    pub(crate) osts: BTreeMap<u32, Curve>,
    /// Eligible files on unknown OSTs.
    pub(crate) unplaced: Amount,
    pub(crate) future_files: u64,
    pub(crate) latest_future_s: Option<i64>,
}

impl Sums {
    pub(crate) fn new(terms: &Terms) -> Self {
        Self {
            every_byte: 0,
            total: Amount::default(),
            kept: [Amount::default(); REASONS],
            hours: hours(terms),
            users: BTreeMap::new(),
            projects: BTreeMap::new(),
            osts: BTreeMap::new(),
            unplaced: Amount::default(),
            future_files: 0,
            latest_future_s: None,
        }
    }

    pub(crate) fn merge(&mut self, other: &Self, terms: &Terms) {
        self.every_byte = self.every_byte.saturating_add(other.every_byte);
        self.total.add(other.total);
        for (mine, theirs) in self.kept.iter_mut().zip(&other.kept) {
            mine.add(*theirs);
        }
        self.hours.merge(&other.hours);
        let sides = [(&mut self.users, &other.users), (&mut self.projects, &other.projects)];
        for (mine, theirs) in sides {
            for (id, owner) in theirs {
                mine.entry(*id).or_insert_with(|| Owner::new(terms)).merge(owner);
            }
        }
        for (ost, curve) in &other.osts {
            self.osts.entry(*ost).or_insert_with(|| hours(terms)).merge(curve);
        }
        self.unplaced.add(other.unplaced);
        self.future_files += other.future_files;
        self.latest_future_s = self.latest_future_s.max(other.latest_future_s);
    }

    /// Counts a file that has several names.
    pub(crate) fn add_linked(&mut self, linked: &Linked, terms: &Terms) {
        let Options { users, projects, osts } = terms.options;
        let look = &linked.look;
        let amount = Amount::one(look.allocated_bytes);
        self.total.add(amount);
        self.note_future(look.last_use_s, terms.rules.as_of_s);
        let user = users.then_some(look.uid).map(|uid| (&mut self.users, uid));
        let project = look.project.filter(|_| projects).map(|id| (&mut self.projects, id));
        let eligible = match (linked.verdict(), look.last_use_s) {
            (None, Some(last_use_s)) => Ok(last_use_s.min(terms.rules.as_of_s)),
            (kept, _) => Err(kept.unwrap_or(Kept::TimeUnknown)),
        };
        for (owners, id) in user.into_iter().chain(project) {
            let owner = owners.entry(id).or_insert_with(|| Owner::new(terms));
            owner.total.add(amount);
            if let Ok(last_use_s) = eligible {
                owner.days.add(last_use_s.div_euclid(DAY_S), amount);
            }
        }
        match eligible {
            Err(kept) => self.kept[kept as usize].add(amount),
            Ok(last_use_s) => {
                self.hours.add(last_use_s.div_euclid(HOUR_S), amount);
                if osts {
                    self.place(look, last_use_s, terms);
                }
            }
        }
    }

    fn place(&mut self, look: &Look, last_use_s: i64, terms: &Terms) {
        self.add_placed(look.osts.as_deref(), look.allocated_bytes, last_use_s, terms);
    }

    /// Splits a file's allocated bytes evenly over its OSTs, the rest to the first.
    pub(crate) fn add_placed(
        &mut self,
        osts: Option<&[u32]>,
        allocated_bytes: u64,
        last_use_s: i64,
        terms: &Terms,
    ) {
        let Some(osts) = osts.filter(|osts| !osts.is_empty()) else {
            self.unplaced.add(Amount::one(allocated_bytes));
            return;
        };
        let (share, rest) =
            (allocated_bytes / osts.len() as u64, allocated_bytes % osts.len() as u64);
        let hour = last_use_s.div_euclid(HOUR_S);
        for (place, ost) in osts.iter().enumerate() {
            let curve = self.osts.entry(*ost).or_insert_with(|| hours(terms));
            // A file with several stripes on an OST is one file there.
            let files = u64::from(!osts[..place].contains(ost));
            let allocated_bytes = share + if place == 0 { rest } else { 0 };
            curve.add(hour, Amount { files, allocated_bytes });
        }
    }

    pub(crate) fn note_future(&mut self, last_use_s: Option<i64>, as_of_s: i64) {
        if let Some(time) = last_use_s.filter(|time| *time > as_of_s) {
            self.future_files += 1;
            self.latest_future_s = self.latest_future_s.max(Some(time));
        }
    }
}

fn hours(terms: &Terms) -> Curve {
    Curve::new(terms.rules.as_of_s.div_euclid(HOUR_S))
}
