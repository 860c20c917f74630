//! One column of one row group, read a stretch of rows at a time.
//!
//! ```text
//!   page ──▶ levels ──▶ which rows have a value
//!        └─▶ values ──▶ map ──▶ one T a row, `missing` for a null
//! ```
//! `map` is applied to a value of a dictionary once, however many rows have it: an exempt directory is
//! judged once and not for each of its files.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Encoding;

use super::bits::Hybrid;
use super::chunk::{Data, Next, Pages};
use super::packed::{Integers, Kind, Strings};
use super::schema::{self, Location, Name};
use crate::error::{Error, Result as CrateResult};

type Result<T> = std::result::Result<T, String>;

/// How the values of the current page are packed.
enum Packed<V> {
    /// Places in the dictionary.
    Places(Hybrid),
    /// Otherwise.
    Values(V),
}

/// Common part of the decoders of numbers and bytes: pages, levels, a dictionary of mapped values.
struct Column<K: Kind, T> {
    kind: K,
    location: Location,
    pages: Pages,
    /// Stand-in for a null; `None` where every row must have a value.
    missing: Option<T>,
    /// Rows of the current page that were not read yet.
    left: usize,
    definition: Option<Hybrid>,
    packed: Option<Packed<K::Values>>,
    dictionary: Option<Vec<T>>,
    places: Vec<u32>,
}

impl<K: Kind, T: Clone> Column<K, T> {
    fn new(kind: K, location: Location, pages: Pages, missing: Option<T>) -> Self {
        Self {
            kind,
            location,
            pages,
            missing,
            left: 0,
            definition: None,
            packed: None,
            dictionary: None,
            places: Vec::new(),
        }
    }

    fn read<M>(&mut self, mut rows: usize, out: &mut Vec<T>, map: &mut M) -> Result<()>
    where
        M: for<'a> FnMut(K::Item<'a>) -> T,
    {
        while rows > 0 {
            let (taken, present, count) = self.stretch(rows, map)?;
            let from = out.len();
            self.unpack(count, out, map)?;
            if let Some(there) = present {
                let missing = self.missing.as_ref().ok_or("has a row without a value")?;
                spread(out, from, &there, missing);
            }
            rows -= taken;
        }
        Ok(())
    }

    /// Passes over rows; what they hold is not looked at more than it takes.
    fn skip<M>(&mut self, mut rows: usize, map: &mut M) -> Result<()>
    where
        M: for<'a> FnMut(K::Item<'a>) -> T,
    {
        while rows > 0 {
            let (taken, _, count) = self.stretch(rows, map)?;
            match self.packed.as_mut().ok_or("ends early")? {
                Packed::Values(packed) => self.kind.skip(packed, count)?,
                Packed::Places(places) => places.skip(count)?,
            }
            rows -= taken;
        }
        Ok(())
    }

    /// The next rows of one page, so many at most: how many they are, which have a value where some
    /// may have none, and how many do.
    fn stretch<M>(&mut self, rows: usize, map: &mut M) -> Result<(usize, Option<Vec<bool>>, usize)>
    where
        M: for<'a> FnMut(K::Item<'a>) -> T,
    {
        while self.left == 0 {
            let page = self.pages.next()?.ok_or("ends early")?;
            // A dictionary is a page without rows.
            if let Some((levels, definition)) = self.turn(page, map)? {
                self.left = levels;
                self.definition = definition;
            }
        }
        let taken = rows.min(self.left);
        let present = self.present(taken)?;
        let count = match &present {
            Some(there) => there.iter().filter(|is_there| **is_there).count(),
            None => taken,
        };
        self.left -= taken;
        Ok((taken, present, count))
    }

    /// Opens a page; returns how many levels it has, and they, where it is one of data.
    fn turn<M>(&mut self, page: Next, map: &mut M) -> Result<Option<(usize, Option<Hybrid>)>>
    where
        M: for<'a> FnMut(K::Item<'a>) -> T,
    {
        match page {
            Next::Dictionary { .. } if self.dictionary.is_some() => {
                Err("has two dictionaries".into())
            }
            Next::Dictionary { values, count } => {
                let mut mapped = Vec::new();
                let mut values = self.kind.open(Encoding::PLAIN, values, count)?;
                self.kind.unpack(&mut values, count, &mut mapped, map)?;
                self.dictionary = Some(mapped);
                Ok(None)
            }
            Next::Data(Data { count, definition, encoding, values, .. }) => {
                self.packed = Some(self.open(encoding, values, count)?);
                Ok(Some((count, definition)))
            }
        }
    }

    fn open(&self, encoding: Encoding, values: Bytes, count: usize) -> Result<Packed<K::Values>> {
        #[allow(deprecated, reason = "the old name for the same")]
        if !matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY) {
            return Ok(Packed::Values(self.kind.open(encoding, values, count)?));
        }
        let Some(width) = values.first().copied() else {
            // A page of nothing but missing values may leave out the width.
            return Ok(Packed::Places(Hybrid::new(Bytes::new(), 0)?));
        };
        Ok(Packed::Places(Hybrid::new(values.slice(1..), u32::from(width))?))
    }

    /// Which of the next rows have a value; `None` where all have one.
    fn present(&mut self, rows: usize) -> Result<Option<Vec<bool>>> {
        let Some(levels) = &mut self.definition else { return Ok(None) };
        let highest = u32::from(self.location.definition.unsigned_abs());
        if let Some(level) = levels.same(rows)? {
            return Ok((level != highest).then(|| vec![false; rows]));
        }
        self.places.clear();
        levels.read(rows, &mut self.places)?;
        Ok(Some(self.places.iter().map(|level| *level == highest).collect()))
    }

    fn unpack<M>(&mut self, count: usize, out: &mut Vec<T>, map: &mut M) -> Result<()>
    where
        M: for<'a> FnMut(K::Item<'a>) -> T,
    {
        if count == 0 {
            return Ok(());
        }
        let places = match self.packed.as_mut().ok_or("ends early")? {
            Packed::Values(packed) => return self.kind.unpack(packed, count, out, map),
            Packed::Places(places) => places,
        };
        let dictionary = self.dictionary.as_deref().ok_or("has no dictionary")?;
        let outside = "points outside its dictionary";
        if let Some(place) = places.same(count)? {
            let value = dictionary.get(place as usize).ok_or(outside)?;
            out.resize(out.len() + count, value.clone());
            return Ok(());
        }
        self.places.clear();
        places.read(count, &mut self.places)?;
        let highest = self.places.iter().fold(0, |highest, place| highest.max(*place));
        if highest as usize >= dictionary.len() {
            return Err(outside.into());
        }
        out.extend(self.places.iter().map(|place| dictionary[*place as usize].clone()));
        Ok(())
    }
}

/// Moves consecutive values to the rows that have one.
fn spread<T: Clone>(out: &mut Vec<T>, from: usize, present: &[bool], missing: &T) {
    let mut source = out.len();
    out.resize(from + present.len(), missing.clone());
    for (row, _) in present.iter().enumerate().rev().filter(|(_, is_there)| **is_there) {
        source -= 1;
        out.swap(source, from + row);
    }
}

/// Reader of a column: the decoder or, to compare it, the parquet crate's own readers.
enum Source<K: Kind, T> {
    Decoder(Column<K, T>),
    #[cfg(feature = "library-readers")]
    Library(super::library::Library<T>),
}

/// A column of a group of rows, each value mapped to a `T`.
pub(crate) struct Reader<K: Kind, T> {
    source: Source<K, T>,
    path: Arc<Path>,
    name: Name,
}

/// A column of whole numbers.
pub(crate) type Numbers<T> = Reader<Integers, T>;
/// A column of strings of bytes.
pub(crate) type Binary<T> = Reader<Strings, T>;

/// A string: its page, and where in it.
pub(crate) type Piece<'a> = (&'a Bytes, Range<usize>);

/// A string that shares the memory of its page.
pub(crate) fn slice((page, range): Piece<'_>) -> Bytes {
    page.slice(range)
}

impl<K: Kind, T: Clone> Reader<K, T> {
    /// Begins to read; `missing` stands in for nulls, if the column may have them.
    pub(super) fn new(
        path: &Arc<Path>,
        name: Name,
        (location, pages): (Location, Pages),
        missing: Option<T>,
    ) -> Self {
        let (path, kind) = (path.clone(), K::of(&location, name.column().kind));
        #[cfg(feature = "library-readers")]
        if super::library::is_chosen() {
            let library = super::library::Library::new(&location, pages, missing);
            return Self { source: Source::Library(library), path, name };
        }
        let source = Source::Decoder(Column::new(kind, location, pages, missing));
        Self { source, path, name }
    }

    /// Appends one `T` for each of the next rows.
    pub(crate) fn read<M>(&mut self, rows: usize, out: &mut Vec<T>, mut map: M) -> CrateResult<()>
    where
        M: for<'a> FnMut(K::Item<'a>) -> T,
    {
        let read = match &mut self.source {
            Source::Decoder(column) => column.read(rows, out, &mut map),
            #[cfg(feature = "library-readers")]
            Source::Library(column) => K::read_library(column, rows, out, &mut map),
        };
        read.map_err(|problem| self.unreadable(&problem))
    }

    /// Passes over rows; `map` as it is given to [`Reader::read`].
    pub(crate) fn skip<M>(&mut self, rows: usize, mut map: M) -> CrateResult<()>
    where
        M: for<'a> FnMut(K::Item<'a>) -> T,
    {
        let skipped = match &mut self.source {
            Source::Decoder(column) => column.skip(rows, &mut map),
            #[cfg(feature = "library-readers")]
            Source::Library(column) => column.skip(rows),
        };
        skipped.map_err(|problem| self.unreadable(&problem))
    }

    pub(crate) fn unreadable(&self, problem: &str) -> Error {
        unreadable(&self.path, self.name, problem)
    }
}

/// An error of a column of a shard.
pub(super) fn unreadable(path: &Path, name: Name, problem: &str) -> Error {
    Error::data(path, format!("column {} {problem}", name.text()))
}

/// A column of lists of small numbers, all rows of a group at once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Lists {
    /// Where the list of each row ends; it begins where the one before ends.
    ends: Vec<usize>,
    /// The numbers of all lists.
    values: Vec<u32>,
    /// Whether there is a list.
    known: Vec<bool>,
}

impl Lists {
    /// Returns `rows` rows without a list.
    pub(crate) fn unknown(rows: usize) -> Self {
        Self { ends: vec![0; rows], values: Vec::new(), known: vec![false; rows] }
    }

    /// The list of a row; `None` for a null.
    pub(crate) fn of(&self, row: usize) -> Option<&[u32]> {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.known[row].then(|| &self.values[start..self.ends[row]])
    }

    /// Reads a whole column of `rows` rows.
    pub(crate) fn read(location: Location, pages: Pages, rows: usize) -> Result<Self> {
        let kind = Integers::of(&location, schema::Kind::Smalls);
        let mut column = Column::new(kind, location, pages, None::<u32>);
        let mut lists = Self::default();
        while let Some(mut page) = column.pages.next()? {
            let mut begins = Vec::new();
            if let Next::Data(Data { count, repetition: Some(levels), .. }) = &mut page {
                levels.read(*count, &mut begins)?;
            }
            // The reader checks that every number fits.
            let mut map = |number: i64| number as u32;
            let Some((count, levels)) = column.turn(page, &mut map)? else { continue };
            let mut there = Vec::new();
            levels.ok_or("has no levels")?.read(count, &mut there)?;
            let whole = u32::from(location.definition.unsigned_abs());
            let values = there.iter().filter(|level| **level == whole).count();
            lists.add(&begins, &there, whole, location.optional)?;
            column.unpack(values, &mut lists.values, &mut map)?;
        }
        if lists.ends.len() != rows {
            return Err(format!("has {} lists for {rows} rows", lists.ends.len()));
        }
        Ok(lists)
    }

    fn add(&mut self, begins: &[u32], there: &[u32], whole: u32, optional: bool) -> Result<()> {
        if begins.len() != there.len() {
            return Err("ends early".into());
        }
        let mut end = self.values.len();
        for (begins, level) in begins.iter().zip(there) {
            if *begins == 0 {
                self.ends.push(end);
                self.known.push(*level > 0 || !optional);
            }
            if *level == whole {
                end += 1;
                *self.ends.last_mut().ok_or("begins within a list")? = end;
            }
        }
        Ok(())
    }
}
