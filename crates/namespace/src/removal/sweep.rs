//! Contents of the quarantine before anything is begun, checked against the whole plan.
//!
//! A kill leaves files of the batch that was under way, and the journal says which that was. A
//! power cut can undo earlier removals: a file that had been removed is in quarantine again, of a
//! batch that has its end in the journal.

use std::collections::HashSet;

use super::names::READ_ROWS;
use super::quarantine::{self, Leftover, Place};
use super::{Removal, recovery};
use crate::entry::{Entry, ObjectId};
use crate::error::Result;
use crate::index::Row;

/// Findings in quarantine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// The rows of the plan whose files were there, each with the code of its outcome.
    pub rows: Vec<(u64, u8)>,
    /// Paths, relative to the root, of files that no row explains and of files that wait for an
    /// operator.
    pub waiting: Vec<Vec<u8>>,
}

impl Removal {
    /// Settles the files in quarantine, by the whole plan; does nothing without a quarantine. After
    /// an interruption within a batch that batch is recovered first: it knows which rows were
    /// taken.
    pub fn sweep(&mut self) -> Result<Swept> {
        if !quarantine::is_there(&self.root, &self.settings.quarantine) {
            return Ok(Swept::default());
        }
        self.settle_in()?;
        let left = self.leftovers()?;
        let (numbers, rows): (Vec<u64>, Vec<Row>) = self.rows_of(&ids(&left))?.into_iter().unzip();
        self.begin(rows.len());
        let Some((quarantine, mut cells)) = self.quarantine.take() else {
            return Ok(Swept::default());
        };
        let job = self.job(&rows, 0);
        let recovered = recovery::recover(&job, &numbers, &quarantine, &mut cells[0], &left);
        let row_and_outcome =
            |verdict: &super::Verdict| (numbers[verdict.row], verdict.outcome as u8);
        let mut waiting = recovered.unexplained;
        waiting.extend(quarantine.stranded().unwrap_or_default());
        let swept =
            Swept { rows: recovered.verdicts.iter().map(row_and_outcome).collect(), waiting };
        self.quarantine = Some((quarantine, cells));
        self.ended = left;
        Ok(swept)
    }

    /// The rows of the plan that are of these files, with their numbers; in order.
    fn rows_of(&mut self, ids: &HashSet<ObjectId>) -> Result<Vec<(u64, Row)>> {
        let (mut rows, mut first) = (Vec::new(), 0);
        while first < self.rows() && !ids.is_empty() {
            let count = READ_ROWS.min(self.rows() - first);
            let read = (first..).zip(self.read(first, count)?);
            rows.extend(read.filter(|(_, row)| ids.contains(&row.entry.id)));
            first += count;
        }
        Ok(rows)
    }
}

fn ids(left: &[Leftover]) -> HashSet<ObjectId> {
    let files = left.iter().flat_map(|cell| cell.files.iter().map(move |name| (cell, name)));
    let stat = |(cell, name): (&Leftover, &Vec<u8>)| {
        Place { directory: &cell.directory, name }.stat().ok()
    };
    files.filter_map(stat).map(|stat| Entry::of_statx(&stat).id).collect()
}
