//! The values of a page as they are packed: whole numbers and strings of bytes.

use std::ops::Range;

use bytes::Bytes;
use parquet::basic::{Encoding, Type as Physical};

use super::bits::Delta;
use super::schema::{self, Location};

type Result<T> = std::result::Result<T, String>;

/// Values of one kind.
pub(crate) trait Kind: Sized {
    /// Unpacker of the values of a page.
    type Values;
    /// A value as it is handed out.
    type Item<'a>;

    fn of(location: &Location, holds: schema::Kind) -> Self;

    /// Begins to unpack a page of at most `count` values.
    fn open(&self, encoding: Encoding, values: Bytes, count: usize) -> Result<Self::Values>;

    /// Passes over the next `count` values.
    fn skip(&self, values: &mut Self::Values, count: usize) -> Result<()> {
        self.unpack(values, count, &mut Vec::new(), &mut |_: Self::Item<'_>| ())
    }

    /// Appends the next `count` values, mapped.
    fn unpack<T, M>(
        &self,
        values: &mut Self::Values,
        count: usize,
        out: &mut Vec<T>,
        map: &mut M,
    ) -> Result<()>
    where
        M: for<'a> FnMut(Self::Item<'a>) -> T;

    /// Appends the next `rows` values as the parquet crate's own readers have them.
    #[cfg(feature = "library-readers")]
    fn read_library<T: Clone, M>(
        library: &mut super::library::Library<T>,
        rows: usize,
        out: &mut Vec<T>,
        map: &mut M,
    ) -> Result<()>
    where
        M: for<'a> FnMut(Self::Item<'a>) -> T;
}

/// Whole numbers of either size and sign.
pub(crate) struct Integers {
    pub(super) wide: bool,
    pub(super) signed: bool,
    pub(super) holds: schema::Kind,
}

pub(crate) enum PackedIntegers {
    Plain(Bytes),
    Delta(Delta),
}

impl Integers {
    /// Whether a number as it is stored cannot be one of this column.
    #[inline]
    fn refuses(&self, stored: i64) -> bool {
        match self.holds {
            schema::Kind::Unsigned => self.signed && stored < 0,
            schema::Kind::Small | schema::Kind::Smalls => {
                !(0..=i64::from(u32::MAX)).contains(&stored)
            }
            _ => !self.signed && self.wide && stored < 0,
        }
    }

    fn refusal(&self, refused: Option<i64>) -> Result<()> {
        let Some(stored) = refused else { return Ok(()) };
        let shown = if self.signed { stored.to_string() } else { (stored as u64).to_string() };
        Err(format!("holds {shown}, which is out of range"))
    }

    #[inline]
    fn of_four(&self, bytes: [u8; 4]) -> i64 {
        let number = u32::from_le_bytes(bytes);
        if self.signed { i64::from(number as i32) } else { i64::from(number) }
    }

    /// Differences of narrow numbers wrap at 32 bits.
    #[inline]
    fn of_difference(&self, number: i64) -> i64 {
        if self.wide { number } else { self.of_four((number as u32).to_le_bytes()) }
    }

    /// Takes so many numbers off a page.
    fn take(&self, page: &mut Bytes, count: usize) -> Result<Bytes> {
        let size = if self.wide { 8 } else { 4 };
        let length = count.checked_mul(size).filter(|length| *length <= page.len());
        Ok(page.split_to(length.ok_or("ends early")?))
    }
}

impl Kind for Integers {
    type Values = PackedIntegers;
    type Item<'a> = i64;

    fn of(location: &Location, holds: schema::Kind) -> Self {
        let wide = location.physical == Physical::INT64;
        Self { wide, signed: location.signed, holds }
    }

    #[cfg(feature = "library-readers")]
    fn read_library<T: Clone, M>(
        library: &mut super::library::Library<T>,
        rows: usize,
        out: &mut Vec<T>,
        map: &mut M,
    ) -> Result<()>
    where
        M: for<'a> FnMut(i64) -> T,
    {
        library.numbers(rows, out, map)
    }

    fn open(&self, encoding: Encoding, values: Bytes, _count: usize) -> Result<PackedIntegers> {
        match encoding {
            Encoding::PLAIN => Ok(PackedIntegers::Plain(values)),
            Encoding::DELTA_BINARY_PACKED => Ok(PackedIntegers::Delta(Delta::new(values)?)),
            other => Err(format!("is packed as {other}, which is not read here")),
        }
    }

    fn unpack<T, M>(
        &self,
        values: &mut PackedIntegers,
        count: usize,
        out: &mut Vec<T>,
        map: &mut M,
    ) -> Result<()>
    where
        M: for<'a> FnMut(i64) -> T,
    {
        let mut refused = None;
        let mut checked = |stored: i64| {
            if self.refuses(stored) {
                refused = Some(stored);
            }
            map(stored)
        };
        match values {
            PackedIntegers::Delta(delta) => {
                delta.read(count, out, |number| checked(self.of_difference(number)))?;
            }
            PackedIntegers::Plain(bytes) => {
                let bytes = self.take(bytes, count)?;
                if self.wide {
                    let words =
                        bytes.chunks_exact(8).map(|word| word.try_into().unwrap_or_default());
                    out.extend(words.map(|word| checked(i64::from_le_bytes(word))));
                } else {
                    let words =
                        bytes.chunks_exact(4).map(|word| word.try_into().unwrap_or_default());
                    out.extend(words.map(|word| checked(self.of_four(word))));
                }
            }
        }
        self.refusal(refused)
    }
}

/// Strings of bytes, of any length or all of one.
pub(crate) struct Strings {
    pub(super) fixed: Option<usize>,
}

pub(crate) enum PackedStrings {
    Plain { page: Bytes, at: usize },
    Lengths { page: Bytes, at: usize, lengths: std::vec::IntoIter<usize> },
    Whole(std::vec::IntoIter<Bytes>),
}

impl Strings {
    /// Range of the next string of a page; moves on behind it.
    fn next(&self, page: &[u8], at: &mut usize) -> Result<Range<usize>> {
        let length = match self.fixed {
            Some(length) => length,
            None => {
                let length = take(page, at, 4)?;
                u32::from_le_bytes(page[length].try_into().map_err(|_| "ends early")?) as usize
            }
        };
        take(page, at, length)
    }
}

fn take(page: &[u8], at: &mut usize, length: usize) -> Result<Range<usize>> {
    let end = at.checked_add(length).filter(|end| *end <= page.len()).ok_or("ends early")?;
    let range = *at..end;
    *at = end;
    Ok(range)
}

/// Reads lengths that are packed in front of their strings.
fn lengths(values: Bytes, count: usize) -> Result<(Vec<usize>, Bytes)> {
    let mut delta = Delta::new(values)?;
    let left = delta.left();
    if left > count {
        return Err("has more values than it declares".into());
    }
    let mut lengths = Vec::new();
    delta.read(left, &mut lengths, |length| usize::try_from(length).unwrap_or(usize::MAX))?;
    Ok((lengths, delta.rest()))
}

/// Strings of which each repeats the beginning of the one before.
fn fronts(values: Bytes, count: usize) -> Result<Vec<Bytes>> {
    let (shared, rest) = lengths(values, count)?;
    let (lengths, page) = lengths(rest, count)?;
    if shared.len() != lengths.len() {
        return Err("ends early".into());
    }
    let (mut at, mut strings) = (0, Vec::new());
    let mut last = Bytes::new();
    for (shared, length) in shared.into_iter().zip(lengths) {
        let mut string = last.get(..shared).ok_or("ends early")?.to_vec();
        string.extend_from_slice(&page[take(&page, &mut at, length)?]);
        last = Bytes::from(string);
        strings.push(last.clone());
    }
    Ok(strings)
}

impl Kind for Strings {
    type Values = PackedStrings;
    type Item<'a> = (&'a Bytes, Range<usize>);

    fn of(location: &Location, _holds: schema::Kind) -> Self {
        let fixed = location.physical == Physical::FIXED_LEN_BYTE_ARRAY;
        Self { fixed: fixed.then_some(location.length) }
    }

    #[cfg(feature = "library-readers")]
    fn read_library<T: Clone, M>(
        library: &mut super::library::Library<T>,
        rows: usize,
        out: &mut Vec<T>,
        map: &mut M,
    ) -> Result<()>
    where
        M: for<'a> FnMut((&'a Bytes, Range<usize>)) -> T,
    {
        library.strings(rows, out, |page, range| map((page, range)))
    }

    fn open(&self, encoding: Encoding, values: Bytes, count: usize) -> Result<PackedStrings> {
        match encoding {
            Encoding::PLAIN => Ok(PackedStrings::Plain { page: values, at: 0 }),
            Encoding::DELTA_LENGTH_BYTE_ARRAY => {
                let (lengths, page) = lengths(values, count)?;
                Ok(PackedStrings::Lengths { page, at: 0, lengths: lengths.into_iter() })
            }
            Encoding::DELTA_BYTE_ARRAY => {
                Ok(PackedStrings::Whole(fronts(values, count)?.into_iter()))
            }
            other => Err(format!("is packed as {other}, which is not read here")),
        }
    }

    fn skip(&self, values: &mut PackedStrings, count: usize) -> Result<()> {
        if let (Some(length), PackedStrings::Plain { page, at }) = (self.fixed, &mut *values) {
            let length = count.checked_mul(length).ok_or("ends early")?;
            return take(page, at, length).map(drop);
        }
        self.unpack(values, count, &mut Vec::new(), &mut |_: (&Bytes, Range<usize>)| ())
    }

    fn unpack<T, M>(
        &self,
        values: &mut PackedStrings,
        count: usize,
        out: &mut Vec<T>,
        map: &mut M,
    ) -> Result<()>
    where
        M: for<'a> FnMut((&'a Bytes, Range<usize>)) -> T,
    {
        for _ in 0..count {
            out.push(match values {
                PackedStrings::Plain { page, at } => {
                    let range = self.next(page, at)?;
                    map((page, range))
                }
                PackedStrings::Lengths { page, at, lengths } => {
                    let length = lengths.next().ok_or("ends early")?;
                    let range = take(page, at, length)?;
                    map((page, range))
                }
                PackedStrings::Whole(strings) => {
                    let string = strings.next().ok_or("ends early")?;
                    map((&string, 0..string.len()))
                }
            });
        }
        Ok(())
    }
}
