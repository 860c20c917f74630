//! A sink that writes shards of an index.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::SHARD_PREFIX;
use crate::entry::Entry;
use crate::error::Result;
use crate::index::ShardWriter;
use crate::walk::{Shard, Sink};

/// Larger shards would only be harder to hand around.
const ROWS_MAX: u64 = 16 << 20;

/// Rows into one shard after the other.
pub struct ShardSink {
    index: PathBuf,
    numbers: Arc<AtomicU64>,
    writer: Option<ShardWriter>,
    finished: Vec<Shard>,
}

impl ShardSink {
    /// Writes into a directory, with numbers that no other sink takes.
    pub fn new(index: &Path, numbers: Arc<AtomicU64>) -> Self {
        Self { index: index.to_path_buf(), numbers, writer: None, finished: Vec::new() }
    }

    fn finish(&mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            let finished = writer.finish()?;
            self.finished.push(Shard { name: finished.name, rows: finished.rows });
        }
        Ok(())
    }
}

impl Sink for ShardSink {
    fn row(&mut self, parent: &[u8], name: &[u8], entry: &Entry) -> Result<()> {
        if self.writer.as_ref().is_some_and(|writer| writer.rows() >= ROWS_MAX) {
            self.finish()?;
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let number = self.numbers.fetch_add(1, Relaxed);
                let shard = format!("{SHARD_PREFIX}{number:06}.parquet");
                none.insert(ShardWriter::create(&self.index, &shard)?)
            }
        };
        writer.row(parent, name, entry)
    }

    fn flush(&mut self) -> Result<Vec<Shard>> {
        self.finish()?;
        Ok(std::mem::take(&mut self.finished))
    }
}
