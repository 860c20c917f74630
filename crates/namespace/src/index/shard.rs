//! A shard that is open for reading: its groups of rows and their columns.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::file::metadata::ParquetMetaData;

use super::chunk::{Pages, Shared, metadata};
use super::column::{Lists, Reader, unreadable};
use super::packed::Kind;
use super::schema::{Location, Name, locate};
use super::signed::{FilePart, Signed};
use crate::error::{Error, Result};

/// Location of a shard, and which of its rows later shards replace.
pub trait Source: Sync {
    /// The Parquet file.
    fn path(&self) -> &Path;

    /// The file with the numbers of the replaced rows: 32 bits each, little-endian, increasing.
    fn superseded(&self) -> Option<&Path> {
        None
    }
}

impl Source for PathBuf {
    fn path(&self) -> &Path {
        self
    }
}

/// A shard of an index that is kept up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The Parquet file.
    pub path: PathBuf,
    /// The file with the numbers of its rows that count no more.
    pub superseded: Option<PathBuf>,
}

impl Source for Part {
    fn path(&self) -> &Path {
        &self.path
    }

    fn superseded(&self) -> Option<&Path> {
        self.superseded.as_deref()
    }
}

/// One Parquet file of an index. Clones share it.
#[derive(Clone, Debug)]
pub struct Shard(Arc<Open>);

#[derive(Debug)]
struct Open {
    path: Arc<Path>,
    content: Content,
    metadata: ParquetMetaData,
    superseded: Vec<u32>,
}

/// Where the bytes of a shard come from.
#[derive(Debug)]
enum Content {
    /// Read where and when they are needed.
    File(Shared),
    /// Read a group of rows at a time, and believed only if they match the signature.
    Signed(Signed),
}

impl Shard {
    /// Opens a file and reads its metadata.
    pub fn open(path: &Path) -> Result<Self> {
        Self::opened(path, Vec::new())
    }

    /// The same, with the rows that later shards replace left out of a tally and a selection.
    pub(crate) fn open_source(source: &impl Source) -> Result<Self> {
        let superseded = source.superseded().map(read_superseded).transpose()?.unwrap_or_default();
        let shard = Self::opened(source.path(), superseded)?;
        let last = shard.0.superseded.last().copied();
        match (last, source.superseded()) {
            (Some(last), Some(path)) if u64::from(last) >= shard.rows() => Err(Error::data(
                path,
                format!("names row {last}, but the shard has {} rows", shard.rows()),
            )),
            _ => Ok(shard),
        }
    }

    fn opened(path: &Path, superseded: Vec<u32>) -> Result<Self> {
        let file = File::open(path).map_err(|error| Error::system("open", path, error))?;
        Self::of(path, file, superseded)
    }

    /// A file that is open already; the path is for messages.
    pub fn of_file(path: &Path, file: File) -> Result<Self> {
        Self::of(path, file, Vec::new())
    }

    /// The same of a file whose parts are signed. Its metadata are verified now, each group
    /// of rows when it is read; a group is decoded from the bytes that were verified.
    pub fn of_signed(path: &Path, file: File, parts: Vec<FilePart>) -> Result<Self> {
        let signed = Signed::new(path, file, parts)?;
        let metadata = metadata(path, &signed.footer()?)?;
        let counts = metadata.row_groups().iter().map(|group| group.num_rows() as u64);
        if !counts.eq(signed.group_rows()) {
            return Err(Error::data(path, "has other groups of rows than were signed"));
        }
        Self::checked(Open {
            path: path.into(),
            content: Content::Signed(signed),
            metadata,
            superseded: Vec::new(),
        })
    }

    fn of(path: &Path, file: File, superseded: Vec<u32>) -> Result<Self> {
        let length = file.metadata().map_err(|error| Error::system("fstat", path, error))?.len();
        let shared = Shared::new(file, length);
        let metadata = metadata(path, &shared)?;
        let content = Content::File(shared);
        Self::checked(Open { path: path.into(), content, metadata, superseded })
    }

    fn checked(open: Open) -> Result<Self> {
        let shard = Self(Arc::new(open));
        shard.check()?;
        Ok(shard)
    }

    /// Keeps the verified bytes of these groups until the next call, and of one group besides.
    pub(crate) fn hold(&self, groups: Range<usize>) {
        if let Content::Signed(signed) = &self.0.content {
            signed.hold(groups);
        }
    }

    /// Refuses a file whose parts do not add up.
    fn check(&self) -> Result<()> {
        let promised = self.0.metadata.file_metadata().num_rows();
        let mut present = 0i64;
        for group in self.0.metadata.row_groups() {
            let rows = u32::try_from(group.num_rows()).map_err(|_| {
                Error::data(self.path(), format!("has a group of {} rows", group.num_rows()))
            })?;
            present += i64::from(rows);
        }
        if present == promised {
            return Ok(());
        }
        Err(Error::data(self.path(), format!("declares {promised} rows but has {present}")))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// How many rows it has.
    pub fn rows(&self) -> u64 {
        (0..self.groups()).map(|number| self.group(number).rows as u64).sum()
    }

    /// The number of the first row of a group.
    pub(crate) fn first_row(&self, number: usize) -> u64 {
        (0..number).map(|before| self.group(before).rows as u64).sum()
    }

    /// The rows of a group that later shards replace, numbered within the shard.
    pub(crate) fn superseded(&self, number: usize) -> &[u32] {
        let first = self.first_row(number);
        let end = first + self.group(number).rows as u64;
        let place = |row| self.0.superseded.partition_point(|gone| u64::from(*gone) < row);
        &self.0.superseded[place(first)..place(end)]
    }

    /// How many groups of rows it has.
    pub(crate) fn groups(&self) -> usize {
        self.0.metadata.num_row_groups()
    }

    pub(crate) fn group(&self, number: usize) -> Group<'_> {
        // Checked when it was opened.
        let rows = usize::try_from(self.0.metadata.row_group(number).num_rows()).unwrap_or(0);
        Group { shard: self, number, rows }
    }

    /// Where a column is; `None` where the file lacks one that it may lack.
    pub(crate) fn locate(&self, name: Name) -> Result<Option<Location>> {
        locate(self.0.metadata.file_metadata().schema_descr(), name, self.path())
    }

    /// An error of one of its columns.
    pub(crate) fn unreadable(&self, name: Name, problem: &str) -> Error {
        unreadable(self.path(), name, problem)
    }
}

fn read_superseded(path: &Path) -> Result<Vec<u32>> {
    let bytes = std::fs::read(path).map_err(|error| Error::system("read", path, error))?;
    let number = |row: &[u8]| u32::from_le_bytes([row[0], row[1], row[2], row[3]]);
    let rows: Vec<u32> = bytes.chunks_exact(4).map(number).collect();
    if bytes.len() % 4 == 0 && rows.is_sorted_by(|one, other| one < other) {
        return Ok(rows);
    }
    Err(Error::data(path, "is not an increasing list of row numbers"))
}

/// A group of rows of a shard.
pub(crate) struct Group<'a> {
    shard: &'a Shard,
    number: usize,
    pub(crate) rows: usize,
}

impl Group<'_> {
    /// A column; an error where the file may lack it and does. Where `missing` is `None` every row
    /// has to have a value.
    pub(crate) fn column<K: Kind, T: Clone>(
        &self,
        name: Name,
        missing: Option<T>,
    ) -> Result<Reader<K, T>> {
        let column = self.column_if_any(name, missing)?;
        column.ok_or_else(|| self.shard.unreadable(name, "is missing"))
    }

    /// The same; `None` where the file may lack it and does.
    pub(crate) fn column_if_any<K: Kind, T: Clone>(
        &self,
        name: Name,
        missing: Option<T>,
    ) -> Result<Option<Reader<K, T>>> {
        let place = self.pages(name)?;
        Ok(place.map(|place| Reader::new(&self.shard.0.path, name, place, missing)))
    }

    /// The OSTs of every row.
    pub(crate) fn osts(&self) -> Result<Lists> {
        let Some((location, pages)) = self.pages(Name::Osts)? else {
            return Ok(Lists::unknown(self.rows));
        };
        Lists::read(location, pages, self.rows)
            .map_err(|problem| self.shard.unreadable(Name::Osts, &problem))
    }

    fn pages(&self, name: Name) -> Result<Option<(Location, Pages)>> {
        let Some(location) = self.shard.locate(name)? else { return Ok(None) };
        let group = self.shard.0.metadata.row_group(self.number);
        let unreadable = |problem: &str| self.shard.unreadable(name, problem);
        let chunk = group.columns().get(location.leaf).ok_or_else(|| unreadable("has no data"))?;
        let verified;
        let shared = match &self.shard.0.content {
            Content::File(shared) => shared,
            Content::Signed(signed) => {
                verified = signed.group(self.number)?;
                &verified
            }
        };
        let pages = Pages::new(shared, chunk, &location, self.rows)
            .map_err(|problem| unreadable(&problem))?;
        Ok(Some((location, pages)))
    }
}
