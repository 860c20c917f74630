//! Permitted shapes of the fields of a record, and their values.
//!
//! No value is rounded, wrapped or guessed: an invalid one is `None`.

use crate::columns::{Column, Values, Views};

const NS_PER_S: i64 = 1_000_000_000;

/// Shape of a directive's output, as a rule of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `[0-9]+`
    Number,
    /// `[0-9]*`
    Digits,
    /// `-?[0-9]*`
    Signed,
    /// `[0-7]+`
    Octal,
    /// `-?[0-9]+(\.-?[0-9]+)?`
    Time,
    /// `-?[0-9]*(\.-?[0-9]+)?`
    Birth,
    /// `[a-zA-Z?]`
    Letter,
    /// `[0-9a-fA-Fx:]*`
    Fid,
    /// `[0-9,?\[\]]*`
    Indices,
    /// `[^\t\n]+`
    Words,
    /// `[^\t\n]*`
    Name,
}

impl Shape {
    /// Returns the shape of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "number" => Self::Number,
            "digits" => Self::Digits,
            "signed" => Self::Signed,
            "octal" => Self::Octal,
            "time" => Self::Time,
            "birth" => Self::Birth,
            "letter" => Self::Letter,
            "fid" => Self::Fid,
            "indices" => Self::Indices,
            "words" => Self::Words,
            "name" => Self::Name,
            _ => return None,
        })
    }

    /// Returns whether bytes have this shape.
    #[must_use]
    pub fn fits(self, text: &[u8]) -> bool {
        let no_break = |byte: &u8| !matches!(byte, b'\t' | b'\n');
        match self {
            Self::Number => !text.is_empty() && text.iter().all(u8::is_ascii_digit),
            Self::Digits => text.iter().all(u8::is_ascii_digit),
            Self::Signed => unsigned(text).iter().all(u8::is_ascii_digit),
            Self::Octal => !text.is_empty() && text.iter().all(|byte| matches!(byte, b'0'..=b'7')),
            Self::Time => timed(text).is_some_and(|whole| !whole.is_empty()),
            Self::Birth => timed(text).is_some(),
            Self::Letter => {
                matches!(text, [letter] if letter.is_ascii_alphabetic() || *letter == b'?')
            }
            Self::Fid => text.iter().all(|byte| byte.is_ascii_hexdigit() || b"x:".contains(byte)),
            Self::Indices => {
                text.iter().all(|byte| byte.is_ascii_digit() || b",?[]".contains(byte))
            }
            Self::Words => !text.is_empty() && text.iter().all(no_break),
            Self::Name => text.iter().all(no_break),
        }
    }
}

fn unsigned(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"-").unwrap_or(text)
}

/// Returns the whole part of digits that may have a sign before it, and a signed fraction after it.
fn timed(text: &[u8]) -> Option<&[u8]> {
    let text = unsigned(text);
    let (whole, places) = parted(text);
    let places = places.map_or(Some(b"0".as_slice()), |places| Some(unsigned(places)));
    let places = places.filter(|places| Shape::Number.fits(places));
    (places.is_some() && Shape::Digits.fits(whole)).then_some(whole)
}

fn parted(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    // Most times of now have ten digits before it.
    let dot = match text.get(10) {
        Some(b'.') if !text[..10].contains(&b'.') => Some(10),
        _ => text.iter().position(|&byte| byte == b'.'),
    };
    match dot {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// Conversion of a field to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Nothing.
    Passed,
    /// A number of 32 bits.
    Small,
    /// A number of 64 bits, times a unit.
    Unsigned(u64),
    /// An inode number.
    Inode,
    /// A FID in hexadecimal digits.
    Fid,
    /// Seconds since 1970.
    Seconds(Fraction),
    /// The same, of a birth: 0 where it is not known.
    Birth(Fraction),
    /// The letter of a type; one that the index does not know becomes `?`.
    Letter,
    /// A name of bytes; empty if missing.
    Name,
    /// A number of 32 bits; anything else means that it is missing.
    Stripes,
    /// All numbers in a text.
    Indices,
}

/// Meaning of `-2.5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fraction {
    /// Two and a half seconds before 1970.
    Decimal,
    /// `-2 + 0.5` seconds: seconds and nanoseconds side by side.
    Timespec,
}

impl Reader {
    /// Returns the reader of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "passed" => Self::Passed,
            "small" => Self::Small,
            "unsigned" => Self::Unsigned(1),
            "blocks" => Self::Unsigned(512),
            "inode" => Self::Inode,
            "fid" => Self::Fid,
            "seconds" => Self::Seconds(Fraction::Decimal),
            "timespec" => Self::Seconds(Fraction::Timespec),
            "birth-seconds" => Self::Birth(Fraction::Decimal),
            "birth-timespec" => Self::Birth(Fraction::Timespec),
            "letter" => Self::Letter,
            "name" => Self::Name,
            "stripes" => Self::Stripes,
            "indices" => Self::Indices,
            _ => return None,
        })
    }

    /// Whether a value has to be there: else only the shape of the field is looked at.
    pub(super) fn is_needed(self) -> bool {
        !matches!(self, Self::Passed | Self::Birth(_) | Self::Name | Self::Stripes | Self::Indices)
    }

    /// Whether it is a time of use or change, and the last of its column is after some moment.
    pub(super) fn is_after(self, moment_ns: i64, column: &Column) -> bool {
        match (self, &column.values) {
            (Self::Seconds(_), Values::Signed(values)) => {
                values.last().is_some_and(|&value_ns| value_ns > moment_ns)
            }
            _ => false,
        }
    }

    /// Whether a text with a value has the shape too.
    pub(super) fn is_exact(self) -> bool {
        matches!(self, Self::Birth(_) | Self::Stripes)
    }

    pub(super) fn column(self, name: &str) -> Column {
        Column::new(
            name,
            match self {
                Self::Small | Self::Stripes => Values::Small(Vec::new()),
                Self::Unsigned(_) => Values::Unsigned(Vec::new()),
                Self::Seconds(_) | Self::Birth(_) => Values::Signed(Vec::new()),
                Self::Letter => Values::Text(Views::default()),
                Self::Indices => Values::Lists(vec![0], Vec::new()),
                Self::Passed | Self::Inode | Self::Fid | Self::Name => {
                    Values::Bytes(Views::default())
                }
            },
        )
    }

    /// Adds a row to a column; returns whether it has a value.
    pub(super) fn push(self, text: &[u8], column: &mut Column) -> bool {
        let known = match (self, &mut column.values) {
            (Self::Small | Self::Stripes, Values::Small(values)) => {
                add(values, whole(text).and_then(|number| u32::try_from(number).ok()))
            }
            (Self::Unsigned(unit), Values::Unsigned(values)) => {
                add(values, whole(text).and_then(|number| number.checked_mul(unit)))
            }
            (Self::Seconds(fraction), Values::Signed(values)) => {
                add(values, seconds(text, fraction))
            }
            (Self::Birth(fraction), Values::Signed(values)) => {
                add(values, seconds(text, fraction).filter(|&time_ns| time_ns != 0))
            }
            (Self::Inode, Values::Bytes(views)) => {
                push(views, whole(text).map(|inode| u128::from(inode).to_be_bytes()).as_ref())
            }
            (Self::Fid, Values::Bytes(views)) => push(views, fid(text).as_ref()),
            (Self::Letter, Values::Text(views)) => push(views, letter(text)),
            (Self::Name, Values::Bytes(views)) => {
                push(views, Some(text).filter(|text| !text.is_empty()))
            }
            (Self::Indices, Values::Lists(ends, values)) => {
                let known = indices(text, values).is_some();
                if !known {
                    values.truncate(ends.last().map_or(0, |&end| end as usize));
                }
                ends.push(values.len() as i64);
                known
            }
            _ => return true,
        };
        if !self.is_needed() {
            column.known.push(known);
        }
        known
    }
}

fn add<T: Default>(values: &mut Vec<T>, value: Option<T>) -> bool {
    let known = value.is_some();
    values.push(value.unwrap_or_default());
    known
}

fn push<T: AsRef<[u8]> + ?Sized>(views: &mut Views, value: Option<&T>) -> bool {
    views.push(value.map_or(b"", AsRef::as_ref));
    value.is_some()
}

/// Returns decimal digits as a number.
pub(super) fn whole(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    if text.len() < 20 {
        return few(text);
    }
    text.iter().try_fold(0_u64, |number, &byte| number.checked_mul(10)?.checked_add(digit(byte)?))
}

fn digit(byte: u8) -> Option<u64> {
    let digit = byte.wrapping_sub(b'0');
    (digit <= 9).then_some(u64::from(digit))
}

/// Returns at most 19 digits as a number; 0 if there are no digits.
#[inline]
fn few(text: &[u8]) -> Option<u64> {
    let mut eights = text.chunks_exact(8);
    let mut number = 0;
    for eight in &mut eights {
        let word = u64::from_le_bytes(eight.try_into().ok()?);
        number = number * 100_000_000 + eight_digits(word)?;
    }
    for &byte in eights.remainder() {
        number = number * 10 + digit(byte)?;
    }
    Some(number)
}

/// Returns the number of eight digits, the first of them in the lowest byte: neighbours are added to pairs,
/// pairs to fours, fours to eight.
#[inline]
fn eight_digits(word: u64) -> Option<u64> {
    const HIGH: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    const SIXES: u64 = 0x0606_0606_0606_0606;
    if word & HIGH != ZEROS || word.wrapping_add(SIXES) & HIGH != ZEROS {
        return None;
    }
    let word = word ^ ZEROS;
    let pairs = word.wrapping_mul(10).wrapping_add(word >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff)
}

/// Returns seconds with up to nine places, and zeros behind them, as nanoseconds.
///
/// A time that does not fit into 64 bits becomes the last that does; more seconds than 64 bits are
/// invalid.
fn seconds(text: &[u8], fraction: Fraction) -> Option<i64> {
    let digits = unsigned(text);
    let negative = digits.len() < text.len();
    let (digits, places) = parted(digits);
    let number = whole(digits)?;
    let whole_s =
        if negative { 0_i64.checked_sub_unsigned(number)? } else { i64::try_from(number).ok()? };
    let rest_ns = places.map_or(Some(0), nanoseconds)?;
    let rest_ns = if negative && fraction == Fraction::Decimal { -rest_ns } else { rest_ns };
    Some(moment(whole_s, rest_ns))
}

/// Returns seconds and nanoseconds as nanoseconds; what does not fit is the last that does.
fn moment(whole_s: i64, rest_ns: i64) -> i64 {
    match whole_s.checked_mul(NS_PER_S) {
        Some(whole_ns) => whole_ns.saturating_add(rest_ns),
        None if whole_s < 0 => i64::MIN,
        None => i64::MAX,
    }
}

/// Returns decimal places as nanoseconds.
fn nanoseconds(places: &[u8]) -> Option<i64> {
    let (nine, finer) = places.split_at(places.len().min(9));
    if finer.iter().any(|&byte| byte != b'0') {
        return None;
    }
    let number = whole(nine)? as i64;
    Some(number * 10_i64.pow(9 - nine.len() as u32))
}

/// Returns the 16 bytes of a FID; tools print a sequence of 0 for a missing FID.
fn fid(text: &[u8]) -> Option<[u8; 16]> {
    let text = text.strip_prefix(b"[").unwrap_or(text);
    let text = text.strip_suffix(b"]").unwrap_or(text);
    let mut parts = text.split(|&byte| byte == b':');
    let mut part = |digits| hexadecimal(parts.next()?.strip_prefix(b"0x")?, digits);
    let (sequence, number, version) = (part(16)?, part(8)?, part(8)?);
    if sequence == 0 || parts.next().is_some() {
        return None;
    }
    Some(
        (u128::from(sequence) << 64 | u128::from(number) << 32 | u128::from(version)).to_be_bytes(),
    )
}

fn hexadecimal(text: &[u8], digits: usize) -> Option<u64> {
    if text.is_empty() || text.len() > digits {
        return None;
    }
    text.iter().try_fold(0, |sum, &byte| Some(sum << 4 | u64::from(char::from(byte).to_digit(16)?)))
}

fn letter(text: &[u8]) -> Option<&[u8]> {
    match text {
        [b'f' | b'd' | b'l' | b'p' | b's' | b'b' | b'c'] => Some(text),
        b"\n" => None,
        [byte] if byte.is_ascii() => Some(b"?"),
        _ => {
            let text = std::str::from_utf8(text).ok()?;
            (text.chars().count() == 1).then_some(b"?".as_slice())
        }
    }
}

/// Returns where the first bytes of a kind are, at most so many of them.
///
/// Eight bytes at once: fields are short, and a call for each costs more.
pub(super) fn places_of(byte: u8, text: &[u8], many: usize, places: &mut Vec<usize>) {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    places.clear();
    let pattern = u64::from_le_bytes([byte; 8]);
    let mut at = 0;
    while at < text.len() && places.len() < many {
        let word = match text[at..].first_chunk::<8>() {
            Some(eight) => u64::from_le_bytes(*eight),
            None => {
                let mut eight = [!byte; 8];
                eight[..text.len() - at].copy_from_slice(&text[at..]);
                u64::from_le_bytes(eight)
            }
        };
        let other = word ^ pattern;
        // The highest bit of each byte that is zero, and of no other.
        let mut zeros = !(((other & LOW) + LOW) | other | LOW);
        while zeros != 0 {
            places.push(at + zeros.trailing_zeros() as usize / 8);
            zeros &= zeros - 1;
        }
        at += 8;
    }
    places.truncate(many);
}

/// Adds all numbers in a text.
fn indices(text: &[u8], values: &mut Vec<u32>) -> Option<()> {
    let before = values.len();
    for digits in text.split(|byte| !byte.is_ascii_digit()) {
        if !digits.is_empty() {
            let number = whole(digits).and_then(|number| u32::try_from(number).ok());
            values.push(number?);
        }
    }
    (values.len() > before).then_some(())
}
