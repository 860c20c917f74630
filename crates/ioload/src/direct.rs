//! Does O_DIRECT work here? Tried before the run, so that the report can say what was used and why.

use crate::buffer::AlignedBuffer;
use crate::error::{Error, Result, removed};
use crate::sys;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Direct I/O in the JSON report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectReport {
    /// `--direct` was given.
    pub asked: bool,
    /// Transfers bypassed the page cache.
    pub used: bool,
    /// Why it was not used although asked for.
    pub reason: Option<String>,
}

/// Tries direct writes in a small file of its own, which it removes again; the reason if they do not work.
pub fn probe_write(path: &Path, transfer_bytes: u64) -> Result<Option<String>> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).custom_flags(libc::O_DIRECT).mode(0o600);
    let outcome = match options.open(path) {
        Err(error) => refusal(path, error, "open"),
        Ok(file) => try_transfer(&file, path, transfer_bytes, |buffer| file.write_at(buffer, 0)),
    };
    // Before Linux 6.x an open that refuses O_DIRECT may still have created the file.
    removed(path, fs::remove_file(path)).and(outcome)
}

/// Tries a direct read of an existing file; the reason if it does not work.
pub fn probe_read(path: &Path, transfer_bytes: u64) -> Result<Option<String>> {
    match OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path) {
        Err(error) => refusal(path, error, "open"),
        Ok(file) => try_transfer(&file, path, transfer_bytes, |buffer| file.read_at(buffer, 0)),
    }
}

/// EINVAL and EOPNOTSUPP are how a file system refuses O_DIRECT (open(2)); anything else is a real failure.
fn refusal(path: &Path, error: io::Error, action: &'static str) -> Result<Option<String>> {
    match error.raw_os_error() {
        Some(libc::EINVAL | libc::EOPNOTSUPP) => {
            Ok(Some(format!("the file system refuses O_DIRECT ({action}: {error})")))
        }
        _ => Err(Error::io(action, path, error)),
    }
}

fn try_transfer(
    file: &File,
    path: &Path,
    transfer_bytes: u64,
    transfer: impl FnOnce(&mut [u8]) -> io::Result<usize>,
) -> Result<Option<String>> {
    // From here on a failure of statx or statfs only means that the kernel does not say.
    let alignment = sys::direct_alignment_bytes(file).ok().flatten();
    if alignment == Some(0) {
        return Ok(Some("the kernel says that this file takes no direct I/O (statx)".to_string()));
    }
    if sys::filesystem_magic(path).is_ok_and(|magic| magic == sys::TMPFS_MAGIC) {
        return Ok(Some("tmpfs accepts O_DIRECT and ignores it".to_string()));
    }
    let alignment = u64::from(alignment.unwrap_or(512));
    if transfer_bytes % alignment != 0 {
        return Err(Error::Usage(format!(
            "--direct needs a --transfer-size that is a multiple of {alignment} bytes here, not {transfer_bytes}"
        )));
    }
    let length =
        usize::try_from(transfer_bytes).unwrap_or(usize::MAX).min(4096.max(alignment as usize));
    let mut buffer = AlignedBuffer::new(length)
        .map_err(|source| Error::Resource { what: "a buffer".to_string(), source })?;
    match transfer(&mut buffer) {
        Ok(_) => Ok(None),
        Err(error) => refusal(path, error, "first transfer"),
    }
}
