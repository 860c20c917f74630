//! Entries become a shard: a Parquet file that appears under its name only once it is whole.

use std::fs::File;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType, Int32Type,
    Int64Type,
};
use parquet::errors::{ParquetError, Result as Written};
use parquet::file::writer::{
    SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter,
};

use super::schema::{self, Access, COLUMNS, Kind, Name};
use crate::entry::{Entry, NS_PER_S, ObjectId, Times};
use crate::error::{Error, Result};

/// How much a writer holds before it writes a group of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of rows.
    pub rows: usize,
    /// Approximate maximum of bytes; a path of 200 kB fills a group sooner than its rows do.
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
/// The file grows as `NAME.partial`; [`ShardWriter::finish`] makes it durable and
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
    /// Begins a shard in a directory; an existing one of that name is replaced at the end.
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
            group: Group::new(),
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

    /// Writes the rows in memory, makes the file durable and gives it its name.
    pub fn finish(mut self) -> Result<Finished> {
        self.end(true)
    }

    /// The same without waiting for the disk: for data that may be lost in a crash.
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
            // An error here cannot be reported; a scan that goes on removes files it does not know.
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

/// Values of a column and, where a row may have none, which have one.
struct Optional<T> {
    values: Vec<T>,
    levels: Option<Vec<i16>>,
}

impl<T> Optional<T> {
    fn new(column: &schema::Column) -> Self {
        Self { values: Vec::new(), levels: column.is_nullable().then(Vec::new) }
    }

    fn push(&mut self, value: Option<T>) {
        if let Some(levels) = &mut self.levels {
            levels.push(i16::from(value.is_some()));
        }
        self.values.extend(value);
    }

    fn clear(&mut self) {
        self.values.clear();
        self.levels.iter_mut().for_each(Vec::clear);
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

/// The numbers of a column, as wide as the file has them.
enum Numbers {
    Narrow(Optional<i32>),
    Wide(Optional<i64>),
}

impl Numbers {
    // Numbers without a sign are stored as the bits of those with one, as Parquet has it.
    fn push(&mut self, number: Option<i64>) {
        match self {
            Self::Narrow(column) => column.push(number.map(|number| number as i32)),
            Self::Wide(column) => column.push(number),
        }
    }
}

/// The rows of a group, a vector a column.
struct Group {
    /// Each directory that differs from the one of the row before, and the place of each row's.
    parents: Strings,
    parent_of: Vec<u32>,
    names: Strings,
    ids: Vec<u8>,
    fids: Vec<bool>,
    types: Vec<u8>,
    osts: Vec<i32>,
    ost_levels: Vec<i16>,
    ost_begins: Vec<i16>,
    last_use: Optional<i64>,
    /// The columns that are numbers of an entry, in the order of the schema.
    numbers: Vec<(&'static schema::Number, Numbers)>,
    /// The columns that are bytes shared by many entries, likewise.
    shared: Vec<(&'static schema::Shared, Optional<ByteArray>)>,
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

/// Static strings: copies of them count no references, of which a row has many.
fn fixed_strings(strings: impl IntoIterator<Item = &'static [u8]>) -> Vec<ByteArray> {
    strings.into_iter().map(|string| ByteArray::from(Bytes::from_static(string))).collect()
}

/// Estimated size of a row besides its strings.
const ROW_BYTES: usize = 150;

impl Group {
    fn new() -> Self {
        let (mut numbers, mut shared) = (Vec::new(), Vec::new());
        for column in &COLUMNS {
            match &column.access {
                Access::Number(number) if column.kind == Kind::Small => {
                    numbers.push((number, Numbers::Narrow(Optional::new(column))));
                }
                Access::Number(number) => {
                    numbers.push((number, Numbers::Wide(Optional::new(column))));
                }
                Access::Shared(bytes) => shared.push((bytes, Optional::new(column))),
                Access::Own => {}
            }
        }
        Self {
            parents: Strings::default(),
            parent_of: Vec::new(),
            names: Strings::default(),
            ids: Vec::new(),
            fids: Vec::new(),
            types: Vec::new(),
            osts: Vec::new(),
            ost_levels: Vec::new(),
            ost_begins: Vec::new(),
            last_use: Optional::new(Name::LastUse.column()),
            numbers,
            shared,
        }
    }

    fn rows(&self) -> usize {
        self.parent_of.len()
    }

    fn bytes(&self) -> usize {
        self.parents.bytes.len()
            + self.names.bytes.len()
            + self.osts.len() * 8
            + self.shared.iter().map(|(_, column)| column.values.len()).sum::<usize>()
                * size_of::<ByteArray>()
            + self.rows() * ROW_BYTES
    }

    fn push(&mut self, parent: &[u8], name: &[u8], entry: &Entry, last_use_s: Option<i64>) {
        if self.parents.last() != Some(parent) {
            self.parents.push(parent);
        }
        self.parent_of.push(self.parents.ends.len() as u32 - 1);
        self.names.push(name);
        self.ids.extend_from_slice(&entry.id.to_bytes());
        self.fids.push(matches!(entry.id, ObjectId::Fid { .. }));
        self.types.push(entry.kind.letter());
        self.last_use.push(last_use_s);
        for (number, column) in &mut self.numbers {
            column.push((number.get)(entry));
        }
        for (bytes, column) in &mut self.shared {
            let value = (bytes.get)(entry).map(|value| match column.values.last() {
                // Rows that follow one another mostly share it: a copy only counts a reference.
                Some(last) if last.data() == &value[..] => last.clone(),
                _ => ByteArray::from(&value[..]),
            });
            column.push(value);
        }
        self.push_osts(entry);
    }

    fn push_osts(&mut self, entry: &Entry) {
        let layout = entry.layout.as_ref();
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
    }

    /// Writes the columns in the order of the schema, and is empty again.
    fn write(&mut self, group: SerializedRowGroupWriter<'_, File>) -> Written<()> {
        let mut output = Output(group);
        let (mut numbers, mut shared) =
            (std::mem::take(&mut self.numbers), std::mem::take(&mut self.shared));
        let (mut next_number, mut next_shared) = (numbers.iter_mut(), shared.iter_mut());
        for column in &COLUMNS {
            match &column.access {
                Access::Own => self.write_own(column.id, &mut output)?,
                Access::Number(_) => match next_number.next() {
                    Some((_, Numbers::Narrow(column))) => output.optional::<Int32Type>(column)?,
                    Some((_, Numbers::Wide(column))) => output.optional::<Int64Type>(column)?,
                    None => {}
                },
                Access::Shared(_) => {
                    if let Some((_, column)) = next_shared.next() {
                        output.optional::<ByteArrayType>(column)?;
                    }
                }
            }
        }
        (self.numbers, self.shared) = (numbers, shared);
        output.0.close()?;
        Ok(())
    }

    fn write_own(&mut self, name: Name, output: &mut Output<'_>) -> Written<()> {
        match name {
            Name::Parent => {
                let parents = self.parents.take();
                let places = self.parent_of.drain(..);
                output.pieces::<ByteArrayType>(places.map(|place| parents[place as usize].clone()))
            }
            Name::Last => output.pieces::<ByteArrayType>(self.names.take().into_iter()),
            Name::Id => {
                let ids = Bytes::from(std::mem::take(&mut self.ids));
                let cut = (0..ids.len()).step_by(16).map(|at| ids.slice(at..at + 16));
                output.pieces::<FixedLenByteArrayType>(
                    cut.map(|id| FixedLenByteArray::from(ByteArray::from(id))),
                )
            }
            Name::IdKind => {
                let kinds = fixed_strings([b"inode".as_slice(), b"fid"]);
                output.pieces::<ByteArrayType>(
                    self.fids.drain(..).map(|fid| kinds[usize::from(fid)].clone()),
                )
            }
            Name::Type => {
                let letters = fixed_strings(LETTERS.chunks(1));
                let types = self.types.drain(..);
                output.pieces::<ByteArrayType>(
                    types.map(|letter| letters[usize::from(letter)].clone()),
                )
            }
            Name::Osts => {
                let levels = (Some(&self.ost_levels[..]), Some(&self.ost_begins[..]));
                output.column::<Int32Type>(&self.osts, levels.0, levels.1)?;
                self.osts.clear();
                self.ost_levels.clear();
                self.ost_begins.clear();
                Ok(())
            }
            Name::LastUse => output.optional::<Int64Type>(&mut self.last_use),
            other => unreachable!("{other:?} is a number or shared bytes"),
        }
    }
}

/// A group of rows that is being written, column by column.
struct Output<'a>(SerializedRowGroupWriter<'a, File>);

/// Number of values converted at a time where they are not held as the writer takes them.
const PIECE: usize = 4096;

impl Output<'_> {
    fn column<T: DataType>(
        &mut self,
        values: &[T::T],
        definition: Option<&[i16]>,
        repetition: Option<&[i16]>,
    ) -> Written<()> {
        let mut column = self.next()?;
        column.typed::<T>().write_batch(values, definition, repetition)?;
        column.close()
    }

    fn optional<T: DataType>(&mut self, values: &mut Optional<T::T>) -> Written<()> {
        self.column::<T>(&values.values, values.levels.as_deref(), None)?;
        values.clear();
        Ok(())
    }

    fn pieces<T: DataType>(&mut self, mut values: impl Iterator<Item = T::T>) -> Written<()> {
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

    fn next(&mut self) -> Written<SerializedColumnWriter<'_>> {
        let column = self.0.next_column()?;
        column.ok_or_else(|| ParquetError::General("the schema has fewer columns".into()))
    }
}
