//! The loop over rows that one thread runs.

use std::collections::HashMap;
use std::collections::btree_map::Entry;

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

/// Counts of one thread.
pub(crate) struct Counter<'a> {
    terms: &'a Terms,
    sums: Sums,
    users: Owners,
    projects: Owners,
    links: Links,
    stretch: Stretch,
    /// Which rows of the stretch are files with one name.
    usual: Vec<bool>,
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
            usual: Vec::new(),
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
            self.rows(&judge, &stretch);
        }
        self.stretch = stretch;
        Ok(())
    }

    /// Column by column: a curve by owner is far larger than the caches, and the shorter the loop, the more of its
    /// accesses are under way at once.
    fn rows(&mut self, judge: &Judge<'_>, stretch: &Stretch) {
        let terms = self.terms;
        let as_of_s = terms.rules.as_of_s;
        let mut usual = std::mem::take(&mut self.usual);
        usual.clear();
        usual.extend(stretch.kept.iter().zip(&stretch.links).map(|(kept, links)| {
            *links == 1 && *kept != SUPERSEDED && *kept != Kept::NotRegular as u8
        }));
        for (row, is_usual) in usual.iter().enumerate() {
            let (kept, last_use_s) = (stretch.kept[row], stretch.last_use_s[row]);
            if !is_usual {
                self.unusual(judge, stretch, row);
                continue;
            }
            let amount = Amount::one(stretch.allocated[row]);
            self.sums.total.add(amount);
            if last_use_s > as_of_s {
                self.sums.note_future(Some(last_use_s), as_of_s);
            }
            if kept == 0 {
                self.sums.hours.add(last_use_s.min(as_of_s).div_euclid(HOUR_S), amount);
            } else {
                self.sums.kept[usize::from(kept)].add(amount);
            }
        }
        if terms.options.users {
            add(&mut self.users, terms, stretch, &usual, |row| Some(stretch.uid(row)));
        }
        if terms.options.projects {
            add(&mut self.projects, terms, stretch, &usual, |row| stretch.project(row));
        }
        if terms.options.osts {
            for row in (0..usual.len()).filter(|row| usual[*row] && stretch.kept[*row] == 0) {
                let last_use_s = stretch.last_use_s[row].min(as_of_s);
                let osts = judge.osts(stretch, row);
                self.sums.add_placed(osts, stretch.allocated[row], last_use_s, terms);
            }
        }
        self.usual = usual;
    }

    /// Counts an entry other than a file with one name.
    fn unusual(&mut self, judge: &Judge<'_>, stretch: &Stretch, row: usize) {
        let kept = stretch.kept[row];
        if kept == Kept::NotRegular as u8 {
            self.sums.kept[usize::from(kept)].add(Amount::one(stretch.allocated[row]));
        } else if kept != SUPERSEDED {
            self.linked(judge, stretch, row);
        }
    }

    /// Counts one name of a file with several.
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
            // Its other names are unknown: it counts alone, and stays.
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
                match all.entry(id) {
                    Entry::Vacant(place) => _ = place.insert(owner),
                    Entry::Occupied(mut known) => known.get_mut().merge(&owner),
                }
            }
        }
        (self.sums, self.links)
    }
}

/// Counts the usual rows of a stretch by owner.
fn add(
    owners: &mut Owners,
    terms: &Terms,
    stretch: &Stretch,
    usual: &[bool],
    id_of: impl Fn(usize) -> Option<u32>,
) {
    let as_of_s = terms.rules.as_of_s;
    for row in (0..usual.len()).filter(|row| usual[*row]) {
        let Some(id) = id_of(row) else { continue };
        let amount = Amount::one(stretch.allocated[row]);
        let owner = owners.of(id, terms);
        owner.total.add(amount);
        if stretch.kept[row] == 0 {
            let last_use_s = stretch.last_use_s[row].min(as_of_s);
            owner.days.add(last_use_s.div_euclid(DAY_S), amount);
        }
    }
}
