//! The same columns through the parquet crate's own readers, to measure what the decoder brings.
//!
//! Only with the feature `library-readers`: `make bench-readers` runs one tally through both.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parquet::column::page::PageReader;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{ByteArrayType, DataType, FixedLenByteArrayType, Int32Type, Int64Type};
use parquet::schema::types::ColumnDescPtr;

use super::chunk::Pages;
use super::schema::Location;

type Result<T> = std::result::Result<T, String>;

static CHOSEN: AtomicBool = AtomicBool::new(false);

/// Reads all columns that are opened from now on through these readers, or no longer.
pub fn choose(library: bool) {
    CHOSEN.store(library, Ordering::Relaxed);
}

pub(super) fn is_chosen() -> bool {
    CHOSEN.load(Ordering::Relaxed)
}

/// A column of one physical type, read in batches into buffers that are kept.
struct Batches<D: DataType> {
    reader: ColumnReaderImpl<D>,
    whole: i16,
    levels: Vec<i16>,
    values: Vec<D::T>,
}

impl<D: DataType> Batches<D> {
    fn new(column: ColumnDescPtr, pages: Box<dyn PageReader>, whole: i16) -> Self {
        let reader = ColumnReaderImpl::new(column, pages);
        Self { reader, whole, levels: Vec::new(), values: Vec::new() }
    }

    fn fill(&mut self, rows: usize) -> Result<()> {
        self.values.clear();
        self.levels.clear();
        let mut read = 0;
        while read < rows {
            let levels = (self.whole > 0).then_some(&mut self.levels);
            let batch = self.reader.read_records(rows - read, levels, None, &mut self.values);
            match batch.map_err(|error| error.to_string())?.0 {
                0 => return Err("ends early".into()),
                records => read += records,
            }
        }
        Ok(())
    }

    fn skip(&mut self, rows: usize) -> Result<()> {
        match self.reader.skip_records(rows).map_err(|error| error.to_string())? {
            skipped if skipped == rows => Ok(()),
            _ => Err("ends early".into()),
        }
    }

    fn read<T: Clone>(
        &mut self,
        rows: usize,
        missing: Option<&T>,
        out: &mut Vec<T>,
        mut map: impl FnMut(&D::T) -> T,
    ) -> Result<()> {
        self.fill(rows)?;
        if self.values.len() == rows {
            out.extend(self.values.iter().map(map));
            return Ok(());
        }
        let missing = missing.ok_or("has a row without a value")?;
        let mut values = self.values.iter();
        for level in &self.levels {
            let value = if *level == self.whole { values.next() } else { None };
            out.push(value.map_or_else(|| missing.clone(), &mut map));
        }
        Ok(())
    }
}

enum Reader {
    Narrow(Batches<Int32Type>, bool),
    Wide(Batches<Int64Type>),
    Fixed(Batches<FixedLenByteArrayType>),
    Strings(Batches<ByteArrayType>),
}

/// A column, each value mapped to a `T`.
pub(crate) struct Library<T> {
    reader: Reader,
    missing: Option<T>,
}

impl<T: Clone> Library<T> {
    pub(super) fn new(location: &Location, pages: Pages, missing: Option<T>) -> Self {
        use parquet::basic::Type;
        let (column, pages) = pages.into_library();
        let whole = location.definition;
        let reader = match location.physical {
            Type::INT32 => Reader::Narrow(Batches::new(column, pages, whole), location.signed),
            Type::INT64 => Reader::Wide(Batches::new(column, pages, whole)),
            Type::FIXED_LEN_BYTE_ARRAY => Reader::Fixed(Batches::new(column, pages, whole)),
            _ => Reader::Strings(Batches::new(column, pages, whole)),
        };
        Self { reader, missing }
    }

    pub(super) fn skip(&mut self, rows: usize) -> Result<()> {
        match &mut self.reader {
            Reader::Narrow(column, _) => column.skip(rows),
            Reader::Wide(column) => column.skip(rows),
            Reader::Fixed(column) => column.skip(rows),
            Reader::Strings(column) => column.skip(rows),
        }
    }

    pub(super) fn numbers(
        &mut self,
        rows: usize,
        out: &mut Vec<T>,
        mut map: impl FnMut(i64) -> T,
    ) -> Result<()> {
        let missing = self.missing.as_ref();
        match &mut self.reader {
            Reader::Narrow(column, true) => {
                column.read(rows, missing, out, |number| map((*number).into()))
            }
            Reader::Narrow(column, false) => {
                column.read(rows, missing, out, |number| map((*number as u32).into()))
            }
            Reader::Wide(column) => column.read(rows, missing, out, |number| map(*number)),
            _ => Err("holds no numbers".into()),
        }
    }

    pub(super) fn strings(
        &mut self,
        rows: usize,
        out: &mut Vec<T>,
        mut map: impl FnMut(&Bytes, std::ops::Range<usize>) -> T,
    ) -> Result<()> {
        let missing = self.missing.as_ref();
        // Rows that follow one another mostly have the same: it is mapped once.
        let mut last: Option<(Bytes, T)> = None;
        let mut remembered = |data: &[u8]| match &last {
            Some((string, value)) if string == data => value.clone(),
            _ => {
                let string = Bytes::copy_from_slice(data);
                let value = map(&string, 0..data.len());
                last = Some((string, value.clone()));
                value
            }
        };
        match &mut self.reader {
            Reader::Fixed(column) => column.read(rows, missing, out, |v| remembered(v.data())),
            Reader::Strings(column) => column.read(rows, missing, out, |v| remembered(v.data())),
            _ => Err("holds no strings".into()),
        }
    }
}
