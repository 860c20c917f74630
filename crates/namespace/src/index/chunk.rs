//! The pages of one column of one row group, read from a file that several threads share.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length, SerializedPageReader};

use super::bits::{Broken, Hybrid};
use super::schema::Location;
use crate::error::{Error, Result};

/// A column of up to so many bytes is read at once, a larger one page by page.
const AT_ONCE_BYTES: u64 = 16 << 20;

/// Limit on the values of a page; no writer puts more into one.
const LEVELS_MAX: usize = 1 << 26;

/// A file without a position of its own, so that threads do not move it for one another.
#[derive(Debug)]
pub(crate) struct Shared {
    /// `None` where only bytes in memory may be read.
    file: Option<File>,
    length: u64,
    /// The bytes in memory, after the offset at which they begin.
    held: (u64, Bytes),
}

impl Shared {
    /// A file of which nothing is held yet.
    pub(crate) fn new(file: File, length: u64) -> Self {
        Self { file: Some(file), length, held: (0, Bytes::new()) }
    }

    /// A stretch of a file in memory: the rest of the file cannot be read.
    pub(crate) fn of_memory(start: u64, bytes: Bytes, length: u64) -> Self {
        Self { file: None, length, held: (start, bytes) }
    }

    fn file(&self) -> std::io::Result<&File> {
        let outside = || std::io::Error::other("is outside its group of rows");
        self.file.as_ref().ok_or_else(outside)
    }

    fn held(&self, start: u64) -> Option<Bytes> {
        let skipped = usize::try_from(start.checked_sub(self.held.0)?).ok()?;
        (skipped < self.held.1.len()).then(|| self.held.1.slice(skipped..))
    }

    fn at(&self, start: u64, length: usize) -> std::io::Result<Bytes> {
        if let Some(held) = self.held(start).filter(|held| held.len() >= length) {
            return Ok(held.slice(..length));
        }
        let mut bytes = vec![0; length];
        self.file()?.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }

    /// The same file with one column of it held.
    fn holding(&self, start: u64, length: u64) -> std::io::Result<Self> {
        let file = self.file.as_ref().map(File::try_clone).transpose()?;
        let held = if length <= AT_ONCE_BYTES || file.is_none() {
            // At most the limit of the constant, or in memory already.
            self.at(start, length as usize)?
        } else {
            Bytes::new()
        };
        Ok(Self { file, length: self.length, held: (start, held) })
    }
}

impl Length for Shared {
    fn len(&self) -> u64 {
        self.length
    }
}

/// Reads on from a place; a page's header is short, so little is asked for at once.
pub(crate) struct From {
    shared: Bytes,
    file: Option<File>,
    at: u64,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if let Some(file) = &self.file {
            if self.shared.is_empty() {
                let mut ahead = vec![0; 512];
                let length = file.read_at(&mut ahead, self.at)?;
                ahead.truncate(length);
                self.at += length as u64;
                self.shared = ahead.into();
            }
        }
        let taken = buffer.len().min(self.shared.len());
        buffer[..taken].copy_from_slice(&self.shared.split_to(taken));
        Ok(taken)
    }
}

impl ChunkReader for Shared {
    type T = From;

    fn get_read(&self, start: u64) -> parquet::errors::Result<From> {
        match self.held(start) {
            Some(shared) => Ok(From { shared, file: None, at: start }),
            None => {
                let file = self.file()?.try_clone()?;
                Ok(From { shared: Bytes::new(), file: Some(file), at: start })
            }
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        Ok(self.at(start, length)?)
    }
}

/// One page: its levels, the encoding of its values, and the values.
pub(crate) struct Data {
    /// Rows of a flat column; of a nested one, levels.
    pub(crate) count: usize,
    /// Which values exist; `None` where all do.
    pub(crate) definition: Option<Hybrid>,
    /// Which values begin a row; `None` where all do.
    pub(crate) repetition: Option<Hybrid>,
    pub(crate) encoding: Encoding,
    pub(crate) values: Bytes,
}

/// Next page of a column.
pub(crate) enum Next {
    /// The values of the dictionary.
    Dictionary { values: Bytes, count: usize },
    /// Rows.
    Data(Data),
}

/// The pages of a column, one after another.
pub(crate) struct Pages {
    reader: SerializedPageReader<Shared>,
    #[cfg(feature = "library-readers")]
    column: parquet::schema::types::ColumnDescPtr,
    definition: i16,
    repetition: i16,
    /// Levels that the metadata promise and no page has brought yet.
    promised: u64,
}

impl Pages {
    /// Begins to read a column of a file.
    pub(crate) fn new(
        shared: &Shared,
        chunk: &ColumnChunkMetaData,
        location: &Location,
        rows: usize,
    ) -> std::result::Result<Self, String> {
        let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
        let number = |value: i64| u64::try_from(value).map_err(|_| "is outside the file");
        let (start, length) = (number(start)?, number(chunk.compressed_size())?);
        if start.checked_add(length).is_none_or(|end| end > shared.length) {
            return Err("is outside the file".into());
        }
        let held = shared.holding(start, length).map_err(|error| error.to_string())?;
        let reader = SerializedPageReader::new(Arc::new(held), chunk, rows, None)
            .map_err(|error| error.to_string())?;
        let promised = number(chunk.num_values())?;
        let (definition, repetition) = (location.definition, location.repetition);
        if repetition == 0 && promised != rows as u64 {
            return Err(format!("has {promised} values for {rows} rows"));
        }
        Ok(Self {
            reader,
            #[cfg(feature = "library-readers")]
            column: chunk.column_descr_ptr(),
            definition,
            repetition,
            promised,
        })
    }

    /// The pages as the parquet crate's own readers take them.
    #[cfg(feature = "library-readers")]
    pub(super) fn into_library(
        self,
    ) -> (parquet::schema::types::ColumnDescPtr, Box<dyn PageReader>) {
        (self.column, Box::new(self.reader))
    }

    /// The next page; `None` at the end.
    pub(crate) fn next(&mut self) -> std::result::Result<Option<Next>, String> {
        let page = self.reader.get_next_page().map_err(|error| error.to_string())?;
        let next = match page {
            None if self.promised > 0 => return Err("ends early".into()),
            None => return Ok(None),
            Some(Page::DictionaryPage { buf, num_values, encoding, .. }) => {
                #[allow(deprecated, reason = "the old name for the same")]
                if !matches!(encoding, Encoding::PLAIN | Encoding::PLAIN_DICTIONARY) {
                    return Err(format!("has a dictionary packed as {encoding}"));
                }
                Next::Dictionary { values: buf, count: num_values as usize }
            }
            Some(page) => Next::Data(self.data(page)?),
        };
        Ok(Some(next))
    }

    fn data(&mut self, page: Page) -> std::result::Result<Data, String> {
        let data = match page {
            Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding,
                rep_level_encoding,
                ..
            } => {
                let mut values = buf;
                let count = num_values as usize;
                let repetition = first_levels(&mut values, self.repetition, rep_level_encoding)?;
                let definition = first_levels(&mut values, self.definition, def_level_encoding)?;
                Data { count, definition, repetition, encoding, values }
            }
            Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            } => {
                let mut values = buf;
                let count = num_values as usize;
                let repetition = levels(&mut values, self.repetition, rep_levels_byte_len)?;
                let definition = levels(&mut values, self.definition, def_levels_byte_len)?;
                Data { count, definition, repetition, encoding, values }
            }
            Page::DictionaryPage { .. } => return Err("has two dictionaries".into()),
        };
        if data.count > LEVELS_MAX {
            return Err("has a page of too many values".into());
        }
        self.promised = self
            .promised
            .checked_sub(data.count as u64)
            .ok_or("has more values than it declares")?;
        Ok(data)
    }
}

/// Takes off levels that follow their own length, as in pages of version 1.
fn first_levels(
    values: &mut Bytes,
    highest: i16,
    encoding: Encoding,
) -> std::result::Result<Option<Hybrid>, String> {
    if highest == 0 {
        return Ok(None);
    }
    if encoding != Encoding::RLE {
        return Err(format!("has levels packed as {encoding}"));
    }
    let length = values.get(..4).ok_or("ends early")?;
    let length = u32::from_le_bytes(length.try_into().map_err(|_| "ends early")?);
    drop(values.split_to(4));
    levels(values, highest, length)
}

fn levels(
    values: &mut Bytes,
    highest: i16,
    length: u32,
) -> std::result::Result<Option<Hybrid>, String> {
    let length = length as usize;
    if length > values.len() {
        return Err("ends early".into());
    }
    let levels = values.split_to(length);
    let width = i16::BITS - highest.leading_zeros();
    if highest == 0 { Ok(None) } else { Ok(Some(Hybrid::new(levels, width).map_err(told)?)) }
}

fn told(broken: Broken) -> String {
    broken.into()
}
/// Reads the metadata of a Parquet file.
pub(super) fn metadata(path: &Path, shared: &Shared) -> Result<ParquetMetaData> {
    ParquetMetaDataReader::new()
        .parse_and_finish(shared)
        .map_err(|source| Error::Parquet { path: path.to_path_buf(), source })
}
