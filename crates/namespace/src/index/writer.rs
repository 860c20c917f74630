//! Entries become a shard: a Parquet file that appears under its name only once it is whole.

use std::fs::File;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType, Int32Type,
    Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};

use super::schema;
use crate::entry::{Entry, NS_PER_S, ObjectId, Times};
use crate::error::{Error, Result};

/// How much a writer holds before it writes a group of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// So many rows at most.
    pub rows: usize,
    /// About so many bytes at most; a path of 200 kB fills a group sooner than its rows do.
    pub bytes: usize,
}

impl Default for Limits {
    /// Groups large enough to be read quickly, small enough that a writer takes some 20 MiB.
    fn default() -> Self {
        Self { rows: 131_072, bytes: 32 << 20 }
    }
}

/// Writes one shard of an index.
///
/// The file grows beside its name, as `NAME.partial`; [`ShardWriter::finish`] makes it durable and
/// gives it its name. A writer that is dropped before leaves nothing.
pub struct ShardWriter {
    directory: PathBuf,
    name: String,
    limits: Limits,
    output: Option<SerializedFileWriter<File>>,
    group: Group,
    written: u64,
}

/// A shard that is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its file's name in the directory of the index.
    pub name: String,
    /// How many rows it has.
    pub rows: u64,
    /// How large the file is.
    pub bytes: u64,
}

impl ShardWriter {
    /// Begins a shard in a directory; one of that name that is there already is replaced at the end.
    pub fn create(directory: &Path, name: &str) -> Result<Self> {
        Self::create_within(directory, name, Limits::default())
    }

    /// The same, with other limits: where many threads write, each can hold less.
    pub fn create_within(directory: &Path, name: &str, limits: Limits) -> Result<Self> {
        let partial = partial(directory, name);
        let file =
            File::create(&partial).map_err(|error| Error::system("open", &partial, error))?;
        let output = SerializedFileWriter::new(file, schema::message(), schema::properties())
            .map_err(|source| Error::Parquet { path: partial, source })?;
        Ok(Self {
            directory: directory.to_path_buf(),
            name: name.to_owned(),
            limits,
            output: Some(output),
            group: Group::default(),
            written: 0,
        })
    }

    /// Adds a row; writes a group of them when enough are held.
    pub fn row(&mut self, parent: &[u8], name: &[u8], entry: &Entry) -> Result<()> {
        self.row_used(parent, name, entry, last_use_s(&entry.times))
    }

    /// Adds a row whose last use is not simply the most recent of the three times.
    pub(crate) fn row_used(
        &mut self,
        parent: &[u8],
        name: &[u8],
        entry: &Entry,
        last_use_s: Option<i64>,
    ) -> Result<()> {
        self.group.push(parent, name, entry, last_use_s);
        if self.group.rows() >= self.limits.rows || self.group.bytes() >= self.limits.bytes {
            self.flush()?;
        }
        Ok(())
    }

    /// How many rows it has.
    pub fn rows(&self) -> u64 {
        self.written + self.group.rows() as u64
    }

    /// Writes what is held, makes the file durable and gives it its name.
    pub fn finish(mut self) -> Result<Finished> {
        self.end(true)
    }

    /// The same without waiting for the disk: for what nobody misses after a crash.
    pub(crate) fn finish_for_now(mut self) -> Result<()> {
        self.end(false).map(drop)
    }

    fn end(&mut self, durable: bool) -> Result<Finished> {
        self.flush()?;
        let partial = partial(&self.directory, &self.name);
        let done = self.directory.join(&self.name);
        let output = self.output.take().ok_or(Error::Stopped)?;
        let file = output
            .into_inner()
            .map_err(|source| Error::Parquet { path: partial.clone(), source })?;
        if durable {
            file.sync_all().map_err(|error| Error::system("fsync", &partial, error))?;
        }
        let bytes = file.metadata().map_err(|error| Error::system("fstat", &partial, error))?.len();
        std::fs::rename(&partial, &done)
            .map_err(|error| Error::system("rename", &partial, error))?;
        if durable {
            File::open(&self.directory)
                .and_then(|directory| directory.sync_all())
                .map_err(|error| Error::system("fsync", &self.directory, error))?;
        }
        Ok(Finished { name: self.name.clone(), rows: self.written, bytes })
    }

    fn flush(&mut self) -> Result<()> {
        let rows = self.group.rows();
        let Some(output) = self.output.as_mut().filter(|_| rows > 0) else { return Ok(()) };
        let written = output.next_row_group().and_then(|group| self.group.write(group));
        self.written += rows as u64;
        written
            .map_err(|source| Error::Parquet { path: partial(&self.directory, &self.name), source })
    }
}

impl Drop for ShardWriter {
    fn drop(&mut self) {
        if self.output.take().is_some() {
            // Nobody is left to be told; a scan that goes on removes what it does not know.
            let _ = std::fs::remove_file(partial(&self.directory, &self.name));
        }
    }
}

fn partial(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.partial"))
}

/// The most recent of the three times, in whole seconds; `None` where one of them is not known.
pub(crate) fn last_use_s(times: &Times) -> Option<i64> {
    let last_ns = times.access_ns?.max(times.modification_ns?).max(times.change_ns?);
    Some(last_ns.div_euclid(NS_PER_S))
}

/// Numbers of which some may be missing, as the writer takes them.
#[derive(Default)]
struct Optional<T> {
    values: Vec<T>,
    levels: Vec<i16>,
}

impl<T> Optional<T> {
    fn push(&mut self, value: Option<T>) {
        self.levels.push(i16::from(value.is_some()));
        self.values.extend(value);
    }

    fn clear(&mut self) {
        self.values.clear();
        self.levels.clear();
    }
}

/// Strings one behind another.
#[derive(Default)]
struct Strings {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Strings {
    fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len());
    }

    fn last(&self) -> Option<&[u8]> {
        let (end, before) = (self.ends.last()?, self.ends.len() - 1);
        Some(&self.bytes[self.start(before)..*end])
    }

    fn start(&self, place: usize) -> usize {
        place.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    /// Hands the strings out, and is empty again.
    fn take(&mut self) -> Vec<ByteArray> {
        let bytes = Bytes::from(std::mem::take(&mut self.bytes));
        let mut start = 0;
        let cut = self.ends.drain(..).map(|end| {
            let string = bytes.slice(start..end);
            start = end;
            ByteArray::from(string)
        });
        cut.collect()
    }
}

/// The rows of a group, a vector a column.
#[derive(Default)]
struct Group {
    /// Each directory that differs from the one of the row before, and the place of each row's.
    parents: Strings,
    parent_of: Vec<u32>,
    names: Strings,
    ids: Vec<u8>,
    fids: Vec<bool>,
    devices: Vec<i64>,
    uids: Vec<i32>,
    gids: Vec<i32>,
    projects: Optional<i32>,
    sizes: Vec<i64>,
    allocated: Vec<i64>,
    links: Vec<i32>,
    access: Optional<i64>,
    modification: Optional<i64>,
    change: Optional<i64>,
    birth: Optional<i64>,
    types: Vec<u8>,
    stripe_counts: Optional<i32>,
    osts: Vec<i32>,
    ost_levels: Vec<i16>,
    ost_begins: Vec<i16>,
    pools: Optional<ByteArray>,
    last_use: Optional<i64>,
}

/// Every byte, to be a string of its own.
static LETTERS: [u8; 256] = {
    let mut letters = [0; 256];
    let mut byte = 0;
    while byte < letters.len() {
        letters[byte] = byte as u8;
        byte += 1;
    }
    letters
};

/// Strings that are there for ever: copies of them count no references, of which a row has many.
fn fixed_strings(strings: impl IntoIterator<Item = &'static [u8]>) -> Vec<ByteArray> {
    strings.into_iter().map(|string| ByteArray::from(Bytes::from_static(string))).collect()
}

/// What a row takes besides its strings.
const ROW_BYTES: usize = 150;

impl Group {
    fn rows(&self) -> usize {
        self.parent_of.len()
    }

    fn bytes(&self) -> usize {
        self.parents.bytes.len()
            + self.names.bytes.len()
            + self.osts.len() * 8
            + self.pools.values.len() * size_of::<ByteArray>()
            + self.rows() * ROW_BYTES
    }

    // Numbers without a sign are stored as the bits of those with one, as Parquet has it.
    fn push(&mut self, parent: &[u8], name: &[u8], entry: &Entry, last_use_s: Option<i64>) {
        if self.parents.last() != Some(parent) {
            self.parents.push(parent);
        }
        self.parent_of.push(self.parents.ends.len() as u32 - 1);
        self.names.push(name);
        self.ids.extend_from_slice(&entry.id.to_bytes());
        self.fids.push(matches!(entry.id, ObjectId::Fid { .. }));
        self.devices.push(entry.device as i64);
        self.uids.push(entry.uid as i32);
        self.gids.push(entry.gid as i32);
        self.projects.push(entry.project.map(|project| project as i32));
        self.sizes.push(entry.size_bytes as i64);
        self.allocated.push(entry.allocated_bytes as i64);
        self.links.push(entry.links as i32);
        self.access.push(entry.times.access_ns);
        self.modification.push(entry.times.modification_ns);
        self.change.push(entry.times.change_ns);
        self.birth.push(entry.times.birth_ns);
        self.types.push(entry.kind.letter());
        self.last_use.push(last_use_s);
        self.push_layout(entry);
    }

    fn push_layout(&mut self, entry: &Entry) {
        let layout = entry.layout.as_ref();
        self.stripe_counts.push(layout.map(|layout| layout.stripe_count as i32));
        let osts = layout.map_or(&[][..], |layout| &layout.osts);
        if osts.is_empty() {
            // 0: there is no list; 1: it is empty; 2: a number of it.
            self.ost_levels.push(i16::from(layout.is_some()));
            self.ost_begins.push(0);
        }
        for (place, ost) in osts.iter().enumerate() {
            self.osts.push(*ost as i32);
            self.ost_levels.push(2);
            self.ost_begins.push(i16::from(place > 0));
        }
        self.push_pool(layout.and_then(|layout| layout.pool.as_deref()));
    }

    fn push_pool(&mut self, pool: Option<&[u8]>) {
        let name = pool.map(|name| match self.pools.values.last() {
            // Files that follow one another are mostly of one pool: a copy only counts a reference.
            Some(last) if last.data() == name => last.clone(),
            _ => ByteArray::from(name),
        });
        self.pools.push(name);
    }

    /// Writes the columns in the order of the schema, and is empty again.
    fn write(
        &mut self,
        group: SerializedRowGroupWriter<'_, File>,
    ) -> std::result::Result<(), ParquetError> {
        let mut output = Output(group);
        self.write_strings(&mut output)?;
        output.numbers::<Int64Type>(&mut self.devices)?;
        output.numbers::<Int32Type>(&mut self.uids)?;
        output.numbers::<Int32Type>(&mut self.gids)?;
        output.optional::<Int32Type>(&mut self.projects)?;
        output.numbers::<Int64Type>(&mut self.sizes)?;
        output.numbers::<Int64Type>(&mut self.allocated)?;
        output.numbers::<Int32Type>(&mut self.links)?;
        output.optional::<Int64Type>(&mut self.access)?;
        output.optional::<Int64Type>(&mut self.modification)?;
        output.optional::<Int64Type>(&mut self.change)?;
        output.optional::<Int64Type>(&mut self.birth)?;
        let letters = fixed_strings(LETTERS.chunks(1));
        output.repeated(self.types.drain(..).map(|letter| letters[usize::from(letter)].clone()))?;
        output.optional::<Int32Type>(&mut self.stripe_counts)?;
        output.column::<Int32Type>(&self.osts, Some(&self.ost_levels), Some(&self.ost_begins))?;
        self.osts.clear();
        self.ost_levels.clear();
        self.ost_begins.clear();
        output.optional::<ByteArrayType>(&mut self.pools)?;
        output.optional::<Int64Type>(&mut self.last_use)?;
        output.0.close()?;
        Ok(())
    }

    fn write_strings(&mut self, output: &mut Output<'_>) -> std::result::Result<(), ParquetError> {
        let parents = self.parents.take();
        output.repeated(self.parent_of.drain(..).map(|place| parents[place as usize].clone()))?;
        output.repeated(self.names.take().into_iter())?;
        let ids = Bytes::from(std::mem::take(&mut self.ids));
        let ids = (0..ids.len()).step_by(16).map(|at| ByteArray::from(ids.slice(at..at + 16)));
        output.fixed(ids.map(FixedLenByteArray::from))?;
        let kinds = fixed_strings([b"inode".as_slice(), b"fid"]);
        output.repeated(self.fids.drain(..).map(|fid| kinds[usize::from(fid)].clone()))
    }
}

/// A group of rows that is being written, column by column.
struct Output<'a>(SerializedRowGroupWriter<'a, File>);

/// So many values are made at a time where they are not held as the writer takes them.
const PIECE: usize = 4096;

impl Output<'_> {
    fn column<T: DataType>(
        &mut self,
        values: &[T::T],
        definition: Option<&[i16]>,
        repetition: Option<&[i16]>,
    ) -> std::result::Result<(), ParquetError> {
        let mut column = self.next()?;
        column.typed::<T>().write_batch(values, definition, repetition)?;
        column.close()
    }

    fn numbers<T: DataType>(
        &mut self,
        values: &mut Vec<T::T>,
    ) -> std::result::Result<(), ParquetError> {
        self.column::<T>(values, None, None)?;
        values.clear();
        Ok(())
    }

    fn optional<T: DataType>(
        &mut self,
        values: &mut Optional<T::T>,
    ) -> std::result::Result<(), ParquetError> {
        self.column::<T>(&values.values, Some(&values.levels), None)?;
        values.clear();
        Ok(())
    }

    fn repeated(
        &mut self,
        values: impl Iterator<Item = ByteArray>,
    ) -> std::result::Result<(), ParquetError> {
        self.pieces::<ByteArrayType>(values)
    }

    fn fixed(
        &mut self,
        values: impl Iterator<Item = FixedLenByteArray>,
    ) -> std::result::Result<(), ParquetError> {
        self.pieces::<FixedLenByteArrayType>(values)
    }

    fn pieces<T: DataType>(
        &mut self,
        mut values: impl Iterator<Item = T::T>,
    ) -> std::result::Result<(), ParquetError> {
        let mut column = self.next()?;
        let mut piece = Vec::with_capacity(PIECE);
        loop {
            piece.extend(values.by_ref().take(PIECE));
            if piece.is_empty() {
                return column.close();
            }
            column.typed::<T>().write_batch(&piece, None, None)?;
            piece.clear();
        }
    }

    fn next(
        &mut self,
    ) -> std::result::Result<parquet::file::writer::SerializedColumnWriter<'_>, ParquetError> {
        let column = self.0.next_column()?;
        column.ok_or_else(|| ParquetError::General("the schema has fewer columns".into()))
    }
}
