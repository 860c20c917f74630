//! The loop over rows that one thread runs.

use std::collections::HashMap;

use super::Terms;
use super::curve::Amount;
use super::judge::{Judge, Prepared, SUPERSEDED, Stretch, UNKNOWN};
use super::links::{Linked, Links, Look, first};
use super::sums::{DAY_S, HOUR_S, Owner, Sums};
use crate::error::Result;
use crate::index::Shard;
use crate::rules::Kept;

/// Owners by number, with the last one at hand: the files of a directory mostly belong to one.
struct Owners {
    places: HashMap<u32, usize>,
    owners: Vec<(u32, Owner)>,
    last: usize,
}

impl Owners {
    fn new() -> Self {
        Self { places: HashMap::new(), owners: Vec::new(), last: 0 }
    }

    fn of(&mut self, id: u32, terms: &Terms) -> &mut Owner {
        if self.owners.get(self.last).is_none_or(|(last, _)| *last != id) {
            self.last = *self.places.entry(id).or_insert_with(|| {
                self.owners.push((id, Owner::new(terms)));
                self.owners.len() - 1
            });
        }
        &mut self.owners[self.last].1
    }
}

/// What one thread has counted.
pub(crate) struct Counter<'a> {
    terms: &'a Terms,
    sums: Sums,
    users: Owners,
    projects: Owners,
    links: Links,
    stretch: Stretch,
}

impl<'a> Counter<'a> {
    pub(crate) fn new(terms: &'a Terms) -> Self {
        Self {
            terms,
            sums: Sums::new(terms),
            users: Owners::new(),
            projects: Owners::new(),
            links: Links::default(),
            stretch: Stretch::default(),
        }
    }

    pub(crate) fn group(
        &mut self,
        prepared: &Prepared,
        shard: &Shard,
        number: usize,
    ) -> Result<()> {
        let mut judge = Judge::open(prepared, shard, number)?;
        let mut stretch = std::mem::take(&mut self.stretch);
        while judge.next(&mut stretch)? {
            let sum = stretch.allocated.iter().map(|bytes| u128::from(*bytes)).sum::<u128>();
            self.sums.every_byte = self.sums.every_byte.saturating_add(sum);
            for row in 0..stretch.kept.len() {
                self.row(&judge, &stretch, row);
            }
        }
        self.stretch = stretch;
        Ok(())
    }

    fn row(&mut self, judge: &Judge<'_>, stretch: &Stretch, row: usize) {
        let terms = self.terms;
        let amount = Amount::one(stretch.allocated[row]);
        let kept = stretch.kept[row];
        if kept == SUPERSEDED {
            return;
        }
        if kept == Kept::NotRegular as u8 {
            self.sums.kept[usize::from(kept)].add(amount);
            return;
        }
        if stretch.links[row] != 1 {
            self.linked(judge, stretch, row);
            return;
        }
        let last_use_s = stretch.last_use_s[row];
        if last_use_s > terms.rules.as_of_s {
            self.sums.note_future(Some(last_use_s), terms.rules.as_of_s);
        }
        let last_use_s = last_use_s.min(terms.rules.as_of_s);
        self.sums.total.add(amount);
        let day = (kept == 0).then(|| last_use_s.div_euclid(DAY_S));
        if terms.options.users {
            add(self.users.of(stretch.uid(row), terms), day, amount);
        }
        if terms.options.projects {
            if let Some(project) = stretch.project(row) {
                add(self.projects.of(project, terms), day, amount);
            }
        }
        if kept != 0 {
            self.sums.kept[usize::from(kept)].add(amount);
            return;
        }
        self.sums.hours.add(last_use_s.div_euclid(HOUR_S), amount);
        if terms.options.osts {
            let osts = judge.osts(stretch, row);
            self.sums.add_placed(osts, amount.allocated_bytes, last_use_s, terms);
        }
    }

    /// One name of a file with several.
    fn linked(&mut self, judge: &Judge<'_>, stretch: &Stretch, row: usize) {
        let terms = self.terms;
        let last_use_s = stretch.last_use_s[row];
        let osts = terms.options.osts.then(|| judge.osts(stretch, row)).flatten();
        let linked = Linked {
            links: stretch.links[row],
            seen: 1,
            kept: Kept::of_number(stretch.kept[row]),
            look: Look {
                last_use_s: (last_use_s != UNKNOWN).then_some(last_use_s),
                allocated_bytes: stretch.allocated[row],
                uid: if terms.options.users { stretch.uid(row) } else { 0 },
                project: terms.options.projects.then(|| stretch.project(row)).flatten(),
                osts: osts.map(Box::from),
            },
        };
        match stretch.object(row) {
            Some(key) => self.links.add(key, linked),
            // Nobody can say which other names it has: it counts alone, and stays.
            None => {
                let kept = first(linked.kept, Some(Kept::OtherLinks));
                self.sums.add_linked(&Linked { kept, ..linked }, terms);
            }
        }
    }

    pub(crate) fn into_parts(mut self) -> (Sums, Links) {
        let sides = [(self.users, &mut self.sums.users), (self.projects, &mut self.sums.projects)];
        for (owners, all) in sides {
            for (id, owner) in owners.owners {
                all.entry(id).or_insert_with(|| Owner::new(self.terms)).merge(&owner);
            }
        }
        (self.sums, self.links)
    }
}

fn add(owner: &mut Owner, day: Option<i64>, amount: Amount) {
    owner.total.add(amount);
    if let Some(day) = day {
        owner.days.add(day, amount);
    }
}
