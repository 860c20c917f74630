//! What can go wrong in this crate, each with the place.

use std::path::PathBuf;

/// Shorthand for a result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

/// Every error of the crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call on a path failed.
    #[error("{operation} {}: {source}", path.display())]
    System {
        /// The call, as its manual page names it.
        operation: &'static str,
        /// What it was asked about.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A shard, a list of candidates or a checkpoint is not what it should be.
    #[error("{}: {problem}", path.display())]
    Data {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Parquet could not be written or read.
    #[error("{}: {source}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What the library said.
        source: parquet::errors::ParquetError,
    },
    /// A value that was asked for makes no sense.
    #[error("{0}")]
    Usage(String),
    /// A safety rule says no: what was asked could not be done without risk to other files.
    #[error("{0}")]
    Refused(String),
    /// Somebody asked to stop; what was done so far is kept.
    #[error("stopped")]
    Stopped,
}

impl Error {
    /// A failed system call, from anything with an errno.
    pub fn system(
        operation: &'static str,
        path: impl Into<PathBuf>,
        source: impl Into<std::io::Error>,
    ) -> Self {
        Self::System { operation, path: path.into(), source: source.into() }
    }

    /// A file that is not what it should be.
    pub fn data(path: impl Into<PathBuf>, problem: impl Into<String>) -> Self {
        Self::Data { path: path.into(), problem: problem.into() }
    }
}
