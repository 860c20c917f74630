//! Errors, each with its kind in the report and its exit code.

use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// Error of a run; `Display` says what failed, where, and what to do next.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Usage(String),
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The verb: open, write, read, flush, close, remove ...
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A file ended, or took no more bytes, in the middle of a transfer.
    #[error("cannot {action} {}: only {done_bytes} of {wanted_bytes} bytes at offset {offset}", path.display())]
    ShortTransfer {
        action: &'static str,
        path: PathBuf,
        offset: u64,
        done_bytes: usize,
        wanted_bytes: usize,
    },
    /// A file was removed while the run used it.
    #[error("{} was removed by someone else during the run", .0.display())]
    Vanished(PathBuf),
    #[error("{} exists already; hint: --overwrite writes into it, --name PREFIX takes another name", .0.display())]
    Exists(PathBuf),
    #[error("nothing to read in {}: it holds {size_bytes} bytes, less than one transfer of this task", path.display())]
    NothingToRead { path: PathBuf, size_bytes: u64 },
    #[error("{} holds wrong data: {mismatches} bytes differ, the first at offset {offset}", path.display())]
    Mismatch { path: PathBuf, offset: u64, mismatches: u64 },
    #[error(
        "rank {rank} did not answer in {timeout_s} s ({waiting_for}); hint: was every rank started with the same --run-id and --dir?"
    )]
    RankSilent { rank: u64, timeout_s: f64, waiting_for: String },
    #[error("stopped because rank {0} failed")]
    PeerFailed(u64),
    #[error("interrupted by {0}")]
    Interrupted(&'static str),
    #[error("the rendezvous file {} is damaged: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    /// A failure that the report of a phase contains already.
    #[error("{}", .0.message)]
    Reported(ErrorReport),
    #[error("task {task} met a bug of ioload and stopped; please report it with the message above")]
    Bug { task: u64 },
    #[error("cannot get {what}: {source}")]
    Resource { what: String, source: io::Error },
}

pub type Result<T> = std::result::Result<T, Error>;

pub const EXIT_BUG: u8 = 1;
pub const EXIT_USAGE: u8 = 2;
pub const EXIT_FAILED: u8 = 3;
/// Exit code after SIGINT, SIGTERM or SIGHUP.
pub const EXIT_INTERRUPTED: u8 = 130;

impl Error {
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_path_buf(), source }
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => EXIT_USAGE,
            Self::Interrupted(_) => EXIT_INTERRUPTED,
            Self::Reported(error) => error.exit_code(),
            Self::Bug { .. } => EXIT_BUG,
            _ => EXIT_FAILED,
        }
    }

    /// The system's error number, if a system call failed.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Io { source, .. } | Self::Resource { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Usage(_) => "usage",
            Self::Io { source, .. } => io_kind(source),
            Self::ShortTransfer { .. } => "short_transfer",
            Self::Vanished(_) => "vanished",
            Self::Exists(_) => "exists",
            Self::NothingToRead { .. } => "nothing_to_read",
            Self::Mismatch { .. } => "mismatch",
            Self::RankSilent { .. } => "rank_silent",
            Self::PeerFailed(_) => "peer_failed",
            Self::Interrupted(_) => "interrupted",
            Self::Damaged { .. } => "damaged_rendezvous",
            Self::Resource { .. } => "resource",
            Self::Reported(_) => "reported",
            Self::Bug { .. } => "bug",
        }
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Self::Io { path, .. }
            | Self::ShortTransfer { path, .. }
            | Self::NothingToRead { path, .. }
            | Self::Mismatch { path, .. }
            | Self::Damaged { path, .. }
            | Self::Vanished(path)
            | Self::Exists(path) => Some(path),
            _ => None,
        }
    }

    pub fn report(&self) -> ErrorReport {
        if let Self::Reported(error) = self {
            return error.clone();
        }
        ErrorReport {
            kind: self.kind().to_string(),
            message: self.to_string(),
            path: self.path().map(|path| path.to_string_lossy().into_owned()),
            errno: self.errno(),
        }
    }
}

/// Result of removing a file or directory; one that is gone already is no error.
pub fn removed(path: &Path, answer: io::Result<()>) -> Result<()> {
    match answer {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", path, error))
        }
        _ => Ok(()),
    }
}

fn io_kind(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOSPC) => "no_space",
        Some(libc::EDQUOT) => "quota",
        Some(libc::EFBIG) => "file_too_large",
        Some(libc::EIO) => "io_error",
        Some(libc::EROFS) => "read_only",
        Some(libc::EACCES | libc::EPERM) => "permission",
        Some(libc::ENOENT | libc::ESTALE | libc::ENOTCONN | libc::ENODEV) => "vanished",
        Some(libc::EINVAL) => "invalid",
        _ => "system",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorReport {
    /// Stable word: `no_space`, `io_error`, `vanished`, `interrupted` ...
    pub kind: String,
    pub message: String,
    pub path: Option<String>,
    pub errno: Option<i32>,
}

impl ErrorReport {
    pub fn exit_code(&self) -> u8 {
        match self.kind.as_str() {
            "bug" => EXIT_BUG,
            "usage" => EXIT_USAGE,
            "interrupted" => EXIT_INTERRUPTED,
            _ => EXIT_FAILED,
        }
    }
}
