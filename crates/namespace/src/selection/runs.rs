//! More rows than fit into memory, sorted: runs on disk, merged as they are read.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering as Order};

use bytes::Bytes;

use super::Chosen;
use crate::error::{Error, Result};
use crate::index::rows::{Row, Rows};
use crate::index::{Limits, Shard, ShardWriter};

/// So many runs are merged at once: each takes a group of rows of memory.
const AT_ONCE: usize = 64;

/// Small groups, so that a run that is merged takes little memory.
pub(super) const GROUP: Limits = Limits { rows: 8192, bytes: 2 << 20 };

/// Estimated size of a row besides its strings.
const ROW_BYTES: usize = 400;

/// Rows in memory.
pub(super) struct Sorted {
    rows: Vec<Chosen>,
    bytes: usize,
    most_bytes: usize,
}

impl Sorted {
    pub(super) fn new(most_bytes: usize) -> Self {
        Self { rows: Vec::new(), bytes: 0, most_bytes }
    }

    /// Holds a copy of a row; says whether that is all it can hold.
    pub(super) fn push(&mut self, last_use_s: i64, row: &Row) -> bool {
        // A string that was read keeps its whole page in memory: it is copied, the path of a directory
        // once for the rows that follow one another.
        let parent = match self.rows.last() {
            Some((_, last)) if last.parent == row.parent => last.parent.clone(),
            _ => {
                self.bytes += row.parent.len();
                Bytes::copy_from_slice(&row.parent)
            }
        };
        let name = Bytes::copy_from_slice(&row.name);
        let osts = row.entry.layout.as_ref().map_or(0, |layout| layout.osts.len());
        self.bytes += ROW_BYTES + name.len() + osts * 4;
        self.rows.push((last_use_s, Row { parent, name, ..row.clone() }));
        self.bytes >= self.most_bytes
    }

    fn take(&mut self) -> Vec<Chosen> {
        self.bytes = 0;
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_unstable_by(order);
        rows
    }
}

/// Within so long a time rows are in the order of their directories: a deletion that changes from
/// one directory to another with every file takes twice as long. A cut-off is a whole hour as well.
const BUCKET_S: i64 = 3600;

fn order(one: &Chosen, other: &Chosen) -> Ordering {
    let key = |chosen: &Chosen| chosen.0.div_euclid(BUCKET_S);
    key(one)
        .cmp(&key(other))
        .then_with(|| one.1.parent.cmp(&other.1.parent))
        .then_with(|| one.1.name.cmp(&other.1.name))
}

/// A directory of runs next to the file that they are merged into; dropping this value removes it.
pub(super) struct Runs {
    directory: PathBuf,
    next: AtomicUsize,
}

impl Runs {
    /// Makes the directory; what an interrupted selection has left there goes.
    pub(super) fn create(parent: &Path, name: &str) -> Result<Self> {
        let directory = parent.join(format!("{name}.runs"));
        match std::fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::system("rmdir", directory, error));
            }
            _ => {}
        }
        std::fs::create_dir(&directory)
            .map_err(|error| Error::system("mkdir", &directory, error))?;
        Ok(Self { directory, next: AtomicUsize::new(0) })
    }

    /// Writes the rows in memory as one run.
    pub(super) fn spill(&self, held: &mut Sorted) -> Result<()> {
        let mut rows = held.take().into_iter();
        self.write(&mut || Ok(rows.next()))
    }

    fn write(&self, next: &mut dyn FnMut() -> Result<Option<Chosen>>) -> Result<()> {
        let number = self.next.fetch_add(1, Order::Relaxed);
        let name = format!("{number:08}");
        let mut writer = ShardWriter::create_within(&self.directory, &name, GROUP)?;
        while let Some((last_use_s, row)) = next()? {
            writer.row_used(&row.parent, &row.name, &row.entry, Some(last_use_s))?;
        }
        writer.finish_for_now()
    }

    fn open(&self, number: usize) -> Result<Run> {
        let path = self.directory.join(format!("{number:08}"));
        let run = Run::of(&path)?;
        // The open file is enough to read it: its name is no longer needed.
        std::fs::remove_file(&path).map_err(|error| Error::system("unlink", path, error))?;
        Ok(run)
    }

    /// Merges files that are sorted as runs are; they stay.
    pub(super) fn merge_files(&self, files: &[PathBuf]) -> Result<Merged> {
        for at_once in files.chunks(AT_ONCE) {
            let mut merged =
                Merged::new(at_once.iter().map(|path| Run::of(path)).collect::<Result<_>>()?)?;
            if files.len() <= AT_ONCE {
                return Ok(merged);
            }
            self.write(&mut || merged.next())?;
        }
        self.merge(Vec::new())
    }

    /// Merges all runs with the rows still in memory.
    pub(super) fn merge(&self, held: Vec<Sorted>) -> Result<Merged> {
        let mut first = 0;
        while self.next.load(Order::Relaxed) - first > AT_ONCE {
            let runs =
                (first..first + AT_ONCE).map(|number| self.open(number)).collect::<Result<_>>()?;
            let mut merged = Merged::new(runs)?;
            self.write(&mut || merged.next())?;
            first += AT_ONCE;
        }
        let last = self.next.load(Order::Relaxed);
        let mut runs = (first..last).map(|number| self.open(number)).collect::<Result<Vec<_>>>()?;
        let rest = |mut held: Sorted| Run { held: held.take().into_iter(), rest: None };
        runs.extend(held.into_iter().map(rest));
        Merged::new(runs)
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        // An error here cannot be reported; the next selection to the same place removes it.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Sorted rows: those in memory, then those of a file.
struct Run {
    held: std::vec::IntoIter<Chosen>,
    rest: Option<Rows>,
}

impl Run {
    fn of(path: &Path) -> Result<Self> {
        let rows = Shard::open(path)?.rows_from(0)?;
        Ok(Self { held: Vec::new().into_iter(), rest: Some(rows) })
    }

    fn next(&mut self) -> Result<Option<Chosen>> {
        if let (None, Some(rest)) = (self.held.as_slice().first(), &mut self.rest) {
            let read = rest.read(1024)?;
            let rows = read.into_iter().map(|row| (row.last_use_s.unwrap_or(i64::MIN), row));
            self.held = rows.collect::<Vec<_>>().into_iter();
        }
        Ok(self.held.next())
    }
}

/// The next row of a run, in a heap that hands out the least first.
struct Head(Chosen, usize);

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        order(&other.0, &self.0)
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

pub(super) struct Merged {
    runs: Vec<Run>,
    heads: BinaryHeap<Head>,
}

impl Merged {
    fn new(mut runs: Vec<Run>) -> Result<Self> {
        let mut heads = BinaryHeap::new();
        for (number, run) in runs.iter_mut().enumerate() {
            heads.extend(run.next()?.map(|row| Head(row, number)));
        }
        Ok(Self { runs, heads })
    }

    /// The least row that is left.
    pub(super) fn next(&mut self) -> Result<Option<Chosen>> {
        let Some(Head(row, number)) = self.heads.pop() else { return Ok(None) };
        let next = self.runs[number].next()?;
        self.heads.extend(next.map(|row| Head(row, number)));
        Ok(Some(row))
    }
}
