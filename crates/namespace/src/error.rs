//! Errors of this crate, each with its place.

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
        /// The path of the call.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A shard, a list of candidates or a checkpoint is invalid.
    #[error("{}: {problem}", path.display())]
    Data {
        /// The file.
        path: PathBuf,
        /// The problem with it.
        problem: String,
    },
    /// A signed file differs from its signature.
    #[error("{}: {what} is not what was signed: it was changed, or damaged", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// The part that differs.
        what: String,
    },
    /// Parquet could not be written or read.
    #[error("{}: {source}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The error of the library.
        source: parquet::errors::ParquetError,
    },
    /// An invalid argument.
    #[error("{0}")]
    Usage(String),
    /// A safety rule refuses the request: it would put other files at risk.
    #[error("{0}")]
    Refused(String),
    /// Stopped on request; the work so far is retained.
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

    /// An invalid file.
    pub fn data(path: impl Into<PathBuf>, problem: impl Into<String>) -> Self {
        Self::Data { path: path.into(), problem: problem.into() }
    }
}
