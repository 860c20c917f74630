//! Rows are taken over from a host that has not reported on them in time, and that may still live.
//!
//! ```text
//!   the other host                          this one
//!     makes its cells                         empties its cells: their files go back
//!     is it still my time?                    removes its cells
//!     moves a file into a cell  ✗ ENOENT      only now: which of the rows exist?
//! ```
//! A file is only ever removed in a cell. Once the cells are gone the other host removes nothing any
//! more, wherever it was stopped and for however long: it has its cells before it asks whether its
//! time is over ([`super::until`]), so a host that asks too late stops, and one that asked in time
//! has no cell. So the rows are counted once nothing can change them. No lock and no clock is
//! needed for that, but a directory that goes only when it is empty.

use std::time::Instant;

use rustix::io::Errno;

use super::aside::Contents;
use super::batch::Batch;
use super::origin::Origin;
use super::quarantine::{self, Leftover, Place, STRANDED, is_own};
use super::{Removal, recovery};
use crate::entry::ObjectId;
use crate::error::{Error, Result};
use crate::index::Row;

/// How often the cells of another host are emptied, which may be filling them.
const ROUNDS: usize = 1000;

impl Removal {
    /// Puts back what another host has aside in these quarantines, sees that it removes nothing any
    /// more, and returns the outcomes of its rows. As [`Removal::recover`], for a remover for which
    /// nothing may go. A file that no row explains is stranded here, with its path.
    pub fn take_over(&mut self, first: u64, count: u64, names: &[Vec<u8>]) -> Result<Batch> {
        let began = Instant::now();
        let rows = self.read(first, count)?;
        self.settle_in()?;
        self.begin(rows.len());
        let mut recovered = recovery::Recovered::default();
        for name in names {
            self.evict(name, &rows, first, &mut recovered)?;
        }
        self.account(&rows, first, recovered, began)
    }

    fn evict(
        &mut self,
        name: &[u8],
        rows: &[Row],
        first: u64,
        recovered: &mut recovery::Recovered,
    ) -> Result<()> {
        for _ in 0..ROUNDS {
            if !quarantine::is_there(&self.root, name) {
                return Ok(());
            }
            let contents = match Contents::open(&self.root, name) {
                Err(Errno::NOENT) => return Ok(()),
                contents => {
                    contents.map_err(|errno| Error::system("read", self.root.path(), errno))?
                }
            };
            let cells = || contents.cells.iter().filter(|cell| cell.name != STRANDED);
            if cells().next().is_none() {
                contents.remove(&self.root, name);
                return Ok(());
            }
            let left: Vec<&Leftover> = cells().collect();
            self.empty(&left, rows, first, recovered);
            contents.remove(&self.root, name);
        }
        let shown = self.root.path().join(crate::beneath::as_path(name));
        Err(Error::Refused(format!("{}: contains files of unknown origin", shown.display())))
    }

    fn empty(
        &mut self,
        left: &[&Leftover],
        rows: &[Row],
        first: u64,
        recovered: &mut recovery::Recovered,
    ) {
        let Some((quarantine, mut cells)) = self.quarantine.take() else { return };
        let numbers: Vec<u64> = (first..first + rows.len() as u64).collect();
        let job = self.job(rows, first);
        for cell in left {
            let found = recovery::recover(
                &job,
                &numbers,
                &quarantine,
                &mut cells[0],
                std::slice::from_ref(*cell),
            );
            recovered.taken.extend(found.taken);
            recovered.back.extend(found.back);
            for verdict in found.verdicts {
                if recovered.verdicts.iter().all(|known| known.row != verdict.row) {
                    recovered.verdicts.push(verdict);
                }
            }
            // Files taken by mistake are stranded beside a note, for an operator to decide.
            for file in cell.files.iter().filter(|file| !is_own(file)) {
                let place = Place { directory: &cell.directory, name: file };
                let Ok(stat) = place.stat() else { continue };
                let Some(noted) = cell.origin_of(file, stat.stx_ino) else { continue };
                let origin = Origin {
                    row: noted.row,
                    id: ObjectId::Inode(stat.stx_ino),
                    from: noted.from,
                    parent: &noted.parent,
                    name: &noted.name,
                };
                quarantine.strand(place, origin);
            }
        }
        recovered.unexplained = quarantine.stranded().unwrap_or_default();
        self.quarantine = Some((quarantine, cells));
    }
}
