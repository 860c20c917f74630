//! All names of files with several: one that is kept by any of its names keeps all of them.
//!
//! A plan has every name that the index saw of such a file, or none of them. A move of a directory
//! above one of them moves no time of the file, so it does not show in the file itself that a name
//! is elsewhere now: every name is looked up again before one is removed.

use std::collections::HashMap;

use bytes::Bytes;
use rustix::fs::{AtFlags, statx};

use super::candidates::Candidates;
use super::check::Checks;
use super::outcome::Outcome;
use super::parent::Parent;
use super::quarantine::WANTED;
use crate::beneath::Root;
use crate::entry::{Entry, ObjectId};
use crate::error::Result;
use crate::index::Row;

/// Rows of a plan that are read at once.
pub(super) const READ_ROWS: u64 = 1 << 16;

/// A directory, and a name in it.
type Name = (Bytes, Bytes);

/// The names of each file with several, as the plan has them.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<ObjectId, Vec<Name>>);

impl Names {
    /// The names of a whole plan.
    pub(super) fn read(candidates: &mut Candidates) -> Result<Self> {
        let (mut names, mut first) = (Self::default(), 0);
        while first < candidates.rows() {
            let count = READ_ROWS.min(candidates.rows() - first);
            candidates.read(first, count)?.iter().for_each(|row| names.add(row));
            first += count;
        }
        Ok(names)
    }

    fn add(&mut self, row: &Row) {
        if row.entry.links != 1 {
            // Copies: a slice would keep the page that it was decoded from.
            let name = [&row.parent, &row.name].map(|text| Bytes::copy_from_slice(text));
            self.0.entry(row.entry.id).or_default().push(name.into());
        }
    }

    /// Whether every other name of a file lets this one go, of `links` that it has now: each is where
    /// the plan has it, and none is exempt. An unknown name may be anywhere: then none goes.
    pub(super) fn allow(
        &self,
        root: &Root,
        checks: &Checks,
        row: &Row,
        links: u32,
    ) -> std::result::Result<(), Outcome> {
        let known = self.0.get(&row.entry.id).map_or(&[][..], Vec::as_slice);
        let others =
            known.iter().filter(|(parent, name)| (parent, name) != (&row.parent, &row.name));
        let mut present = 1;
        for (parent, name) in others {
            if checks.rules.is_exempt_path(parent, name) {
                return Err(Outcome::Exempt);
            }
            match Parent::open(root, parent) {
                Ok(parent) if parent.aside => return Err(Outcome::Exempt),
                Ok(parent) if is_name_of(&parent, name, row, checks) => present += 1,
                _ => {}
            }
        }
        if present == links { Ok(()) } else { Err(Outcome::NamesUnknown) }
    }
}

fn is_name_of(parent: &Parent, name: &[u8], row: &Row, checks: &Checks) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let stat = statx(&parent.descriptor, name, flags, WANTED);
    stat.is_ok_and(|stat| checks.is_same(row, &Entry::of_statx(&stat)).is_ok())
}
