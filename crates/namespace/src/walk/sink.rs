//! Where the rows of a walk go.

use crate::entry::Entry;
use crate::error::Result;

/// A file of rows that is safely on disk.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Shard {
    /// Its name within the index.
    pub name: String,
    /// How many rows it has.
    pub rows: u64,
}

/// Target of rows; a walk has several and uses each from one thread at a time.
pub trait Sink: Send {
    /// Takes the metadata of `name` in the directory `parent`, a path relative to the root.
    fn row(&mut self, parent: &[u8], name: &[u8], entry: &Entry) -> Result<()>;

    /// Makes everything since the last flush durable, and says in which files it is.
    fn flush(&mut self) -> Result<Vec<Shard>>;
}

/// Rows in memory, for tests and small trees.
pub type Rows = Vec<(Vec<u8>, Vec<u8>, Entry)>;

impl Sink for Rows {
    fn row(&mut self, parent: &[u8], name: &[u8], entry: &Entry) -> Result<()> {
        self.push((parent.to_vec(), name.to_vec(), entry.clone()));
        Ok(())
    }

    fn flush(&mut self) -> Result<Vec<Shard>> {
        Ok(Vec::new())
    }
}
