//! Records whose values stand between texts, as the SHOW clause of a GPFS policy prints them.
//!
//! What may follow a value may look like more of it, so that a shorter value is tried where the rest does
//! not fit: the leftmost alternative, and the longest of it, that lets the record be whole is taken.

/// What a record is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// At least that many blanks.
    Blanks(usize),
    /// These bytes.
    Text(Vec<u8>),
    /// A value.
    Value(Value),
}

/// What a value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// `[0-9]+`
    Number,
    /// `[-dlpsbcDM?][-rwxsStTlL]{9}[.+]?`
    Mode,
    /// A local time, or `-?[0-9]+(\.[0-9]{1,9})?`
    Moment,
    /// A local time, or `-?[0-9.]+`
    Days,
    /// A local time, or `[^ |]*`
    Plain,
}

impl Piece {
    /// Returns the piece of a name; a text is given beside it.
    #[must_use]
    pub fn named(name: &str, text: &[u8]) -> Option<Self> {
        Some(match name {
            "blanks" => Self::Blanks(1),
            "no-blanks" => Self::Blanks(0),
            "text" => Self::Text(text.to_vec()),
            "number" => Self::Value(Value::Number),
            "mode" => Self::Value(Value::Mode),
            "moment" => Self::Value(Value::Moment),
            "days" => Self::Value(Value::Days),
            "plain" => Self::Value(Value::Plain),
            _ => return None,
        })
    }
}

/// More attempts at one record are not made: no list has one that needs as many.
const ATTEMPTS_MOST: usize = 100_000;

/// Parts records.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) pieces: Vec<Piece>,
    /// Whether blanks, colons and the like may be written as `%XX` in times.
    pub(super) escaped: bool,
}

impl Shown {
    /// Returns where the values of a record are, the path behind them; whether it is a record at all.
    pub(super) fn part(&self, text: &[u8], cuts: &mut Vec<(usize, usize)>) -> bool {
        cuts.clear();
        let mut attempts = ATTEMPTS_MOST;
        self.rest(0, text, 0, cuts, &mut attempts)
    }

    fn rest(
        &self,
        piece: usize,
        text: &[u8],
        at: usize,
        cuts: &mut Vec<(usize, usize)>,
        attempts: &mut usize,
    ) -> bool {
        if *attempts == 0 {
            return false;
        }
        *attempts -= 1;
        match self.pieces.get(piece) {
            None => {
                let is_path = text.get(at).is_some_and(|&byte| byte != b' ');
                if is_path {
                    cuts.push((at, text.len()));
                }
                is_path
            }
            Some(Piece::Text(part)) => {
                text[at..].starts_with(part)
                    && self.rest(piece + 1, text, at + part.len(), cuts, attempts)
            }
            Some(&Piece::Blanks(least)) => {
                let most = run(text, at, |byte| byte == b' ');
                let mut ends = (at + least..=most).rev();
                ends.any(|end| self.rest(piece + 1, text, end, cuts, attempts))
            }
            Some(&Piece::Value(value)) => self.each_end(value, text, at, &mut |end| {
                let before = cuts.len();
                cuts.push((at, end));
                let fits = self.rest(piece + 1, text, end, cuts, attempts);
                if !fits {
                    cuts.truncate(before);
                }
                fits
            }),
        }
    }

    /// Returns whether any end of a value will do, the preferred ones first.
    fn each_end(
        &self,
        value: Value,
        text: &[u8],
        at: usize,
        will_do: &mut dyn FnMut(usize) -> bool,
    ) -> bool {
        let digit = |byte: u8| byte.is_ascii_digit();
        let signed = at + usize::from(text.get(at) == Some(&b'-'));
        if !matches!(value, Value::Number | Value::Mode) {
            if let Some(end) = local_end(text, at, self.escaped) {
                if fractions(text, end, will_do) {
                    return true;
                }
            }
        }
        match value {
            Value::Number => (at + 1..=run(text, at, digit)).rev().any(will_do),
            Value::Mode => mode_end(text, at).is_some_and(|end| {
                (matches!(text.get(end), Some(b'.' | b'+')) && will_do(end + 1)) || will_do(end)
            }),
            Value::Moment => {
                let mut ends = (signed + 1..=run(text, signed, digit)).rev();
                ends.any(|end| fractions(text, end, will_do))
            }
            Value::Days => {
                let most = run(text, signed, |byte| digit(byte) || byte == b'.');
                (signed + 1..=most).rev().any(will_do)
            }
            Value::Plain => {
                let most = run(text, at, |byte| !matches!(byte, b' ' | b'|'));
                (at..=most).rev().any(will_do)
            }
        }
    }
}

/// Returns where bytes of a kind end.
fn run(text: &[u8], at: usize, is: impl Fn(u8) -> bool) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().position(|&byte| !is(byte)).unwrap_or(rest.len())
}

/// Tries a value with its fraction, of at most nine places, and without.
fn fractions(text: &[u8], end: usize, will_do: &mut dyn FnMut(usize) -> bool) -> bool {
    if text.get(end) == Some(&b'.') {
        let most = run(text, end + 1, |byte| byte.is_ascii_digit()).min(end + 10);
        if (end + 2..=most).rev().any(&mut *will_do) {
            return true;
        }
    }
    will_do(end)
}

fn mode_end(text: &[u8], at: usize) -> Option<usize> {
    let mode = text.get(at..at + 10)?;
    let fits = b"-dlpsbcDM?".contains(&mode[0])
        && mode[1..].iter().all(|byte| b"-rwxsStTlL".contains(byte));
    fits.then_some(at + 10)
}

/// Returns where a local time ends, its fraction left out.
fn local_end(text: &[u8], at: usize, escaped: bool) -> Option<usize> {
    let rest = text.get(at..)?;
    if rest.get(4) != Some(&b'-') {
        return None;
    }
    Local::of(rest, escaped).map(|local| at + local.length)
}

/// A local time, its parts as they stand there.
struct Local {
    date: [u64; 3],
    time: [u64; 3],
    length: usize,
}

impl Local {
    fn of(text: &[u8], escaped: bool) -> Option<Self> {
        let number = |from: usize, digits: usize| super::whole(text.get(from..from + digits)?);
        let date = [number(0, 4)?, number(5, 2)?, number(8, 2)?];
        if text[4] != b'-' || text[7] != b'-' {
            return None;
        }
        let parted = |at: usize, plain: &[u8], written: &[&[u8]]| match text.get(at) {
            Some(byte) if plain.contains(byte) => Some(at + 1),
            Some(b'%') if escaped && written.contains(&text.get(at..at + 3)?) => Some(at + 3),
            _ => None,
        };
        let hour = parted(10, b" @", &[b"%20", b"%40"])?;
        let minute = parted(hour + 2, b":", &[b"%3A"])?;
        let second = parted(minute + 2, b":", &[b"%3A"])?;
        let time = [number(hour, 2)?, number(minute, 2)?, number(second, 2)?];
        Some(Self { date, time, length: second + 2 })
    }

    /// Returns seconds since 1970 as if the clock showed UTC.
    fn seconds(&self) -> Option<i64> {
        let [year, month, day] = self.date;
        let [hour, minute, second] = self.time;
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days = match month {
            2 => 28 + u64::from(leap),
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => 0,
        };
        if day == 0 || day > days || hour >= 24 || minute >= 60 || second >= 60 {
            return None;
        }
        // Years that begin in March: the day that leap years have is their last. 719,468 days are from
        // March of the year 0 to 1970; 400 years are added, so that no part is negative.
        let year = year + 400 - u64::from(month < 3);
        let month = (month + 9) % 12;
        let of_year = (153 * month + 2) / 5 + day - 1;
        let days = year * 365 + year / 4 - year / 100 + year / 400 + of_year;
        let days = days as i64 - 146_097 - 719_468;
        Some(days * 86_400 + ((hour * 60 + minute) * 60 + second) as i64)
    }
}

/// How far clocks of a zone are from UTC.
#[derive(Clone, Debug)]
pub struct Zone {
    /// From which local second on, and by how many seconds; `None`: no clock showed such times.
    offsets: Vec<(i64, Option<i64>)>,
    last: usize,
}

impl Zone {
    /// Returns a zone of at least one offset, the first of which holds before it too.
    #[must_use]
    pub fn new(offsets: Vec<(i64, Option<i64>)>) -> Option<Self> {
        (!offsets.is_empty()).then_some(Self { offsets, last: 0 })
    }

    /// Returns seconds since 1970, UTC.
    fn utc(&mut self, local_s: i64) -> Option<i64> {
        let holds = |at: usize| {
            (at == 0 || self.offsets[at].0 <= local_s)
                && self.offsets.get(at + 1).is_none_or(|next| local_s < next.0)
        };
        if !holds(self.last) {
            let after = self.offsets.partition_point(|&(from, _)| from <= local_s);
            self.last = after.saturating_sub(1);
        }
        Some(local_s - self.offsets[self.last].1?)
    }
}

/// What is learnt from the times of a list, and needed to read them.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// Of local times.
    pub zone: Option<Zone>,
    /// Whether times in it may be written with `%XX`.
    pub escaped: bool,
    /// Whether there was a local time and no zone.
    pub zone_missing: bool,
    /// Whether any time had a part of a second.
    pub finer: bool,
}

impl Clock {
    /// Returns a local time, or a number of seconds, as nanoseconds since 1970.
    pub(super) fn read(&mut self, text: &[u8]) -> Option<i64> {
        let time_ns = if text.get(4) == Some(&b'-') {
            let local = Local::of(text, self.escaped)?;
            let Some(zone) = &mut self.zone else {
                self.zone_missing = true;
                return None;
            };
            let places = text.get(local.length + 1..).filter(|places| !places.is_empty());
            let rest_ns = places.map_or(Some(0), super::nanoseconds)?;
            super::fields::moment(zone.utc(local.seconds()?)?, rest_ns)
        } else {
            super::seconds(text, super::Fraction::Decimal)?
        };
        self.finer |= time_ns % 1_000_000_000 != 0;
        Some(time_ns)
    }
}

/// Returns a path that has bytes as `%XX`; `None`: it is not written so.
pub(super) fn unescaped(path: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = memchr::memchr(b'%', rest) {
        plain.extend_from_slice(&rest[..at]);
        let digit = |at: usize| char::from(*rest.get(at)?).to_digit(16);
        plain.push((digit(at + 1)? * 16 + digit(at + 2)?) as u8);
        rest = &rest[at + 3..];
    }
    plain.extend_from_slice(rest);
    Some(plain)
}
