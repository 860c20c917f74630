//! The rows of a plan, read back from its Parquet file a batch at a time.

use std::path::Path;

use crate::error::{Error, Result};
use crate::index::{Row, Rows, Shard};

/// The file of candidates of a plan.
pub(super) struct Candidates {
    shard: Shard,
    /// Where the last batch ended: batches come in order, so the next one mostly begins there.
    held: Option<(u64, Rows)>,
}

impl Candidates {
    pub(super) fn open(path: &Path) -> Result<Self> {
        Ok(Self { shard: Shard::open(path)?, held: None })
    }

    pub(super) fn rows(&self) -> u64 {
        self.shard.rows()
    }

    pub(super) fn read(&mut self, first: u64, count: u64) -> Result<Vec<Row>> {
        let end = first.checked_add(count).filter(|end| *end <= self.rows());
        let (Some(end), Ok(length)) = (end, usize::try_from(count)) else {
            let rows = self.rows();
            let message = format!("{count} rows from {first} on were asked for, of {rows}");
            return Err(Error::Usage(message));
        };
        let mut rows = match self.held.take() {
            Some((next, rows)) if next == first => rows,
            _ => self.shard.rows_from(first)?,
        };
        let read = rows.read(length)?;
        if read.len() != length {
            return Err(Error::data(self.shard.path(), "has fewer rows than it says"));
        }
        self.held = Some((end, rows));
        Ok(read)
    }
}
