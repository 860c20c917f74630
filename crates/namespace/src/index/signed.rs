//! A shard whose bytes are signed: one hash for each group of rows, one for the rest of the file.
//!
//! ```text
//!   magic, group 0 │ group 1 │ ... │ group n-1 │ indexes of pages, footer, magic
//!   ──── part 0 ───┼─ part 1 ┼─    ┼─ part n-1 ┼────────────── part n ──────────
//! ```
//! A part begins where the one before it ends, so that no byte of the file is in none. Each is read
//! into memory once, hashed there, and decoded from there: whatever happens to the file afterwards.

use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use parquet::file::metadata::RowGroupMetaData;
use sha2::{Digest, Sha256};

use super::chunk::{Shared, metadata};
use crate::error::{Error, Result};

/// A SHA-256.
pub type Hash = [u8; 32];

/// Bytes read of a file at once while it is hashed.
const HASHED_BYTES: usize = 1 << 20;

/// A stretch of a file: a group of rows, or the footer behind the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePart {
    /// How many rows; 0 of the last.
    pub rows: u64,
    /// How long it is; it begins where the one before ends.
    pub bytes: u64,
    /// The hash of these bytes.
    pub sha256: Hash,
}

/// A whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileParts {
    /// The hash of the file.
    pub sha256: Hash,
    /// Its parts, one behind another.
    pub parts: Vec<FilePart>,
}

/// Returns the hashes of a Parquet file, of which each byte is read once.
pub fn parts_of(path: &Path, file: File) -> Result<FileParts> {
    let system = |operation| move |error| Error::system(operation, path, error);
    let length = file.metadata().map_err(system("fstat"))?.len();
    let shared = Shared::new(file.try_clone().map_err(system("dup"))?, length);
    let metadata = metadata(path, &shared)?;
    let (mut whole, mut parts, mut start) = (Sha256::new(), Vec::new(), 0);
    let ends = metadata.row_groups().iter().map(|group| (group.num_rows() as u64, end_of(group)));
    for (rows, end) in ends.chain([(0, length)]) {
        if end < start || end > length {
            return Err(Error::data(path, "has its groups of rows in another order"));
        }
        let mut part = Sha256::new();
        let mut piece = vec![0; HASHED_BYTES];
        for at in (start..end).step_by(HASHED_BYTES) {
            let piece = &mut piece[..HASHED_BYTES.min((end - at) as usize)];
            file.read_exact_at(piece, at).map_err(system("read"))?;
            part.update(&piece);
            whole.update(&piece);
        }
        parts.push(FilePart { rows, bytes: end - start, sha256: part.finalize().into() });
        start = end;
    }
    Ok(FileParts { sha256: whole.finalize().into(), parts })
}

/// Where the last column of a group of rows ends.
fn end_of(group: &RowGroupMetaData) -> u64 {
    let ends = group.columns().iter().map(|column| {
        let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
        start.saturating_add(column.compressed_size())
    });
    ends.max().and_then(|end| u64::try_from(end).ok()).unwrap_or(0)
}

/// A file that is believed part by part.
#[derive(Debug)]
pub(super) struct Signed {
    path: PathBuf,
    file: File,
    parts: Vec<FilePart>,
    /// Where each part begins, and the length of the file.
    starts: Vec<u64>,
    held: Mutex<Held>,
}

/// Verified groups in memory.
#[derive(Debug, Default)]
struct Held {
    /// The groups that stay.
    wanted: Range<usize>,
    groups: Vec<(usize, Bytes)>,
}

impl Signed {
    /// A file that has to be as long as its parts are together.
    pub(super) fn new(path: &Path, file: File, parts: Vec<FilePart>) -> Result<Self> {
        let mut starts = vec![0u64];
        for part in &parts {
            let start = starts.last().and_then(|start| start.checked_add(part.bytes));
            starts.push(start.ok_or_else(|| Error::Usage("parts are too long".into()))?);
        }
        if parts.last().is_none_or(|last| last.rows != 0) {
            return Err(Error::Usage("the last part must be the footer behind the rows".into()));
        }
        let length = file.metadata().map_err(|error| Error::system("fstat", path, error))?.len();
        let signed = Self { path: path.to_path_buf(), file, parts, starts, held: Mutex::default() };
        if length == signed.length() {
            return Ok(signed);
        }
        let what = format!("its length, {length} bytes in place of {}", signed.length());
        Err(Error::Changed { path: signed.path, what })
    }

    fn length(&self) -> u64 {
        self.starts[self.parts.len()]
    }

    /// How many rows each group has.
    pub(super) fn group_rows(&self) -> impl Iterator<Item = u64> {
        self.parts[..self.parts.len() - 1].iter().map(|part| part.rows)
    }

    /// The footer behind the rows.
    pub(super) fn footer(&self) -> Result<Shared> {
        let number = self.parts.len() - 1;
        Ok(self.in_memory(number, self.verified(number)?))
    }

    /// Lets go of all groups but these.
    pub(super) fn hold(&self, wanted: Range<usize>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.groups.retain(|(number, _)| wanted.contains(number));
        held.wanted = wanted;
    }

    /// A group of rows, as it was verified.
    pub(super) fn group(&self, number: usize) -> Result<Shared> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = held.groups.iter().find(|(there, _)| *there == number) {
            return Ok(self.in_memory(number, bytes.clone()));
        }
        let bytes = self.verified(number)?;
        let wanted = held.wanted.clone();
        held.groups.retain(|(there, _)| wanted.contains(there));
        held.groups.push((number, bytes.clone()));
        Ok(self.in_memory(number, bytes))
    }

    fn in_memory(&self, number: usize, bytes: Bytes) -> Shared {
        Shared::of_memory(self.starts[number], bytes, self.length())
    }

    /// Reads a part, and returns it if it matches the signature.
    fn verified(&self, number: usize) -> Result<Bytes> {
        let part = &self.parts[number];
        let length = usize::try_from(part.bytes)
            .map_err(|_| Error::Usage("a part does not fit in memory".into()))?;
        let mut bytes = vec![0; length];
        match self.file.read_exact_at(&mut bytes, self.starts[number]) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(self.changed(number)),
            Err(error) => Err(Error::system("read", &self.path, error)),
            Ok(()) if Sha256::digest(&bytes)[..] == part.sha256 => Ok(bytes.into()),
            Ok(()) => Err(self.changed(number)),
        }
    }

    fn changed(&self, number: usize) -> Error {
        let first: u64 = self.parts[..number].iter().map(|part| part.rows).sum();
        let what = match self.parts[number].rows {
            0 => "its footer".to_owned(),
            rows => format!(
                "row group {number} of {}, rows {first} to {}",
                self.parts.len() - 1,
                first + rows - 1
            ),
        };
        Error::Changed { path: self.path.clone(), what }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::entry::Entry;
    use crate::index::{Limits, Row, Shard, ShardWriter};

    const ROWS: u64 = 35;

    fn shard(directory: &Path) -> PathBuf {
        let limits = Limits { rows: 10, bytes: 1 << 20 };
        let mut writer = ShardWriter::create_within(directory, "shard", limits).unwrap();
        for row in 0..ROWS {
            writer.row(b"a", format!("{row:04}").as_bytes(), &Entry::default()).unwrap();
        }
        writer.finish().unwrap();
        directory.join("shard")
    }

    fn signed(path: &Path) -> Shard {
        let parts = parts_of(path, File::open(path).unwrap()).unwrap().parts;
        Shard::of_signed(path, File::open(path).unwrap(), parts).unwrap()
    }

    fn rows(shard: &Shard, first: u64, count: usize) -> Result<Vec<Row>> {
        shard.rows_from(first)?.read(count)
    }

    #[test]
    fn parts_cover_the_file_and_their_rows_are_those_of_the_shard() {
        let directory = tempfile::tempdir().unwrap();
        let path = shard(directory.path());
        let FileParts { sha256, parts } = parts_of(&path, File::open(&path).unwrap()).unwrap();
        let counts: Vec<u64> = parts.iter().map(|part| part.rows).collect();
        assert_eq!(counts, [10, 10, 10, 5, 0]);
        let whole = fs::read(&path).unwrap();
        assert_eq!(parts.iter().map(|part| part.bytes).sum::<u64>(), whole.len() as u64);
        assert_eq!(sha256[..], Sha256::digest(&whole)[..]);
        let (one, other) = (signed(&path), Shard::open(&path).unwrap());
        for first in 0..ROWS {
            assert_eq!(rows(&one, first, 99).unwrap(), rows(&other, first, 99).unwrap());
        }
    }

    #[test]
    fn groups_that_are_held_stay_what_was_verified() {
        let directory = tempfile::tempdir().unwrap();
        let path = shard(directory.path());
        let shard = signed(&path);
        shard.hold(0..2);
        let before = rows(&shard, 0, 20).unwrap();
        rows(&shard, 30, 1).unwrap();
        fs::write(&path, vec![0; fs::metadata(&path).unwrap().len() as usize]).unwrap();
        assert_eq!(rows(&shard, 0, 20).unwrap(), before);
        assert!(rows(&shard, 30, 1).is_ok(), "one more is held");
        assert!(matches!(rows(&shard, 20, 1), Err(Error::Changed { .. })));
        shard.hold(1..2);
        assert_eq!(rows(&shard, 10, 10).unwrap(), before[10..]);
        assert!(matches!(rows(&shard, 0, 1), Err(Error::Changed { .. })));
    }
}
