//! Tables as CSV, byte for byte: RFC 4180, with line feeds of every kind between records.
//!
//! A field in quotes may hold delimiters, line feeds and doubled quotes; what follows its last quote
//! is a delimiter or the end of the record. Elsewhere a quote is a byte like others. A record that is
//! wrong ends with its line.

use std::borrow::Cow;

use crate::columns::{Column, Values, Views};

/// A longer field is damage: it began with a quote that has no end.
const FIELD_MOST: usize = 131_072;

/// Why a record cannot be taken.
type Damage = &'static str;

/// A field of a record.
pub type Field<'a> = Cow<'a, [u8]>;

/// The records of a part of a table.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rows<'a> {
    /// The columns asked for.
    pub columns: Vec<Vec<Field<'a>>>,
    /// Number of each row among the records, from 0, empty lines and refused ones among them.
    pub number: Vec<u64>,
    /// Where each row begins and ends.
    pub place: Vec<[u64; 2]>,
    /// Number, place and reason of each record that is refused.
    pub refused: Vec<(u64, usize, String)>,
    /// How many records there are.
    pub many: u64,
    /// Where the first record begins that may go on behind the data.
    pub end: usize,
}

/// Outcome of a record.
enum Step {
    /// The record is whole.
    Whole,
    /// The record may go on.
    Short,
    /// The record is damaged.
    Wrong(Damage),
}

/// Parses a table from the beginning of a record.
struct Parser<'a> {
    data: &'a [u8],
    at: usize,
    delimiter: &'a [u8],
    ended: bool,
}

/// The fields of the first record and where the next one begins; `None`: there is no whole record.
pub fn head<'a>(
    data: &'a [u8],
    delimiter: &'a [u8],
    ended: bool,
) -> Result<Option<(Vec<Field<'a>>, usize)>, Damage> {
    let mut parser = Parser { data, at: 0, delimiter, ended };
    let mut fields = Vec::new();
    match parser.record(&mut fields) {
        Step::Whole => Ok(Some((fields, parser.at))),
        Step::Short => Ok(None),
        Step::Wrong(damage) => Err(damage),
    }
}

/// The records of a part of a table, each of which has so many `fields`.
///
/// `wanted` are the places of the columns asked for; `ended` says that nothing follows the data.
pub fn rows<'a>(
    data: &'a [u8],
    delimiter: &'a [u8],
    wanted: &[usize],
    fields: usize,
    ended: bool,
) -> Rows<'a> {
    let mut rows = Rows { columns: vec![Vec::new(); wanted.len()], ..Rows::default() };
    let mut parser = Parser { data, at: 0, delimiter, ended };
    let mut record = Vec::with_capacity(fields);
    while parser.at < data.len() {
        let begin = parser.at;
        record.clear();
        let wrong = match parser.record(&mut record) {
            Step::Short => break,
            Step::Wrong(damage) => Some(format!("not CSV: {damage}")),
            Step::Whole if record.is_empty() || record.len() == fields => None,
            Step::Whole => Some(format!("it has {} fields instead of {fields}", record.len())),
        };
        if let Some(reason) = wrong {
            rows.refused.push((rows.many, begin, reason));
        } else if !record.is_empty() {
            for (column, place) in rows.columns.iter_mut().zip(wanted) {
                column.push(std::mem::take(&mut record[*place]));
            }
            rows.number.push(rows.many);
            rows.place.push([begin as u64, parser.at as u64]);
        }
        rows.many += 1;
        rows.end = parser.at;
    }
    rows
}

/// Returns a column of numbers where it may be one and all is digits that fit; else of bytes, null where a
/// field is empty.
#[must_use]
pub fn column(name: &str, fields: &[Field<'_>], numeric: bool) -> Column {
    if let Some(numbers) = numeric.then(|| numbers(fields)).flatten() {
        return Column::new(name, Values::Unsigned(numbers));
    }
    let mut views = Views::default();
    fields.iter().for_each(|field| views.push(field));
    let known = fields.iter().map(|field| !field.is_empty()).collect();
    Column { known, ..Column::new(name, Values::Bytes(views)) }
}

fn numbers(column: &[Field<'_>]) -> Option<Vec<u64>> {
    column.iter().map(|field| number(field)).collect()
}

fn number(field: &[u8]) -> Option<u64> {
    if field.is_empty() || !field.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // 19 digits always fit.
    let (near, rest) = field.split_at(field.len().min(19));
    let near = near.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
    rest.iter().try_fold(near, |number: u64, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

impl<'a> Parser<'a> {
    /// Reads a record into `fields`; one without any is an empty line. Short, it stays before it.
    fn record(&mut self, fields: &mut Vec<Field<'a>>) -> Step {
        let begin = self.at;
        let step = match self.fields(fields) {
            Step::Wrong(_) if !self.pass_line() => Step::Short,
            step => step,
        };
        if matches!(step, Step::Short) {
            self.at = begin;
        }
        step
    }

    fn fields(&mut self, fields: &mut Vec<Field<'a>>) -> Step {
        if let Some(step) = self.line_feed() {
            return step;
        }
        loop {
            let field =
                if self.rest().first() == Some(&b'"') { self.quoted() } else { self.plain() };
            match field {
                Ok(Some(field)) => fields.push(field),
                Ok(None) => return Step::Short,
                Err(damage) => return Step::Wrong(damage),
            }
            if self.rest().is_empty() {
                return if self.ended { Step::Whole } else { Step::Short };
            }
            if let Some(step) = self.line_feed() {
                return step;
            }
            if !self.rest().starts_with(self.delimiter) {
                return Step::Wrong("something follows a quoted field");
            }
            self.at += self.delimiter.len();
        }
    }

    fn rest(&self) -> &'a [u8] {
        &self.data[self.at..]
    }

    /// Passes over the line feed that is here, if one is.
    fn line_feed(&mut self) -> Option<Step> {
        self.at += match self.rest() {
            [b'\r', b'\n', ..] => 2,
            [b'\r'] if !self.ended => return Some(Step::Short),
            [b'\n' | b'\r', ..] => 1,
            _ => return None,
        };
        Some(Step::Whole)
    }

    /// Reads up to a delimiter or a line feed.
    fn plain(&mut self) -> Result<Option<Field<'a>>, Damage> {
        let rest = self.rest();
        let first = self.delimiter[0];
        let mut end = 0;
        loop {
            let ends = |&byte: &u8| byte == first || byte == b'\n' || byte == b'\r';
            end += rest[end..].iter().position(ends).unwrap_or(rest.len() - end);
            let behind = &rest[end..];
            // A match of the first byte need not be the whole delimiter.
            if behind.first() != Some(&first) || behind.starts_with(self.delimiter) {
                break;
            }
            end += 1;
        }
        if end > FIELD_MOST {
            return Err("a field is too long");
        }
        self.at += end;
        Ok(Some(Cow::Borrowed(&rest[..end])))
    }

    /// Reads a field in quotes; `None`: it may go on.
    fn quoted(&mut self) -> Result<Option<Field<'a>>, Damage> {
        self.at += 1;
        let mut field: Field<'a> = Cow::default();
        loop {
            let rest = self.rest();
            let end = rest.iter().take(FIELD_MOST + 1).position(|&byte| byte == b'"');
            let part = &rest[..end.unwrap_or(rest.len().min(FIELD_MOST + 1))];
            if field.len() + part.len() > FIELD_MOST {
                self.at += part.len();
                return Err("a field is too long");
            }
            if field.is_empty() {
                field = Cow::Borrowed(part);
            } else {
                field.to_mut().extend_from_slice(part);
            }
            let Some(end) = end else {
                self.at = self.data.len();
                return if self.ended { Err("a quoted field has no end") } else { Ok(None) };
            };
            self.at += end + 1;
            match self.rest().first() {
                Some(b'"') => {
                    field.to_mut().push(b'"');
                    self.at += 1;
                }
                None if !self.ended => return Ok(None),
                _ => return Ok(Some(field)),
            }
        }
    }

    /// Passes over the rest of a line; false: it may go on.
    fn pass_line(&mut self) -> bool {
        let rest = self.rest();
        let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        self.at += end.unwrap_or(rest.len());
        matches!(self.line_feed(), Some(Step::Whole)) || self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(data: &[u8], fields: usize, ended: bool) -> (Vec<Vec<Vec<u8>>>, Vec<u64>, usize) {
        let wanted: Vec<usize> = (0..fields).collect();
        let rows = rows(data, b",", &wanted, fields, ended);
        let columns = rows.columns.into_iter();
        let columns =
            columns.map(|column| column.into_iter().map(Cow::into_owned).collect()).collect();
        (columns, rows.refused.iter().map(|refused| refused.0).collect(), rows.end)
    }

    #[test]
    fn fields_are_bytes() {
        let data = b"a,\xff\r\n\n\"b\"\"\n,\",\"\"\rc\"d,e";
        let (columns, refused, end) = read(data, 2, true);
        assert_eq!(columns[0], [&b"a"[..], b"b\"\n,", b"c\"d"]);
        assert_eq!(columns[1], [&b"\xff"[..], b"", b"e"]);
        assert!(refused.is_empty());
        assert_eq!(end, data.len());
    }

    #[test]
    fn a_wrong_record_ends_with_its_line() {
        let data = b"a,b\nc\n\"d\"x,\"y\n\"e\",f\ng,h,i\nj,k\n\"l";
        let (columns, refused, _) = read(data, 2, true);
        assert_eq!(columns[0], [b"a", b"e", b"j"]);
        assert_eq!(refused, [1, 2, 4, 6]);
    }

    #[test]
    fn wherever_the_data_end_the_rest_is_read_with_what_follows() {
        let data: &[u8] = b"a,b\r\n\"c\"\"\n\",d\n\"e\"x,f\r\n\rg\n\"\",\ni,\"j\"";
        let whole = read(data, 2, true);
        for cut in 0..data.len() {
            let (mut columns, mut refused, end) = read(&data[..cut], 2, false);
            let many = rows(&data[..cut], b",", &[], 2, false).many;
            let (after, more, _) = read(&data[end..], 2, true);
            columns.iter_mut().zip(after).for_each(|(column, rest)| column.extend(rest));
            refused.extend(more.iter().map(|number| number + many));
            assert_eq!((columns, refused), (whole.0.clone(), whole.1.clone()), "{cut}");
        }
    }

    #[test]
    fn a_field_that_is_too_long_is_refused() {
        let mut data = b"\"".to_vec();
        data.resize(FIELD_MOST + 9, b'x');
        data.extend_from_slice(b"\na,b\n");
        let (columns, refused, _) = read(&data, 2, false);
        assert_eq!((columns[0].as_slice(), refused.as_slice()), (&[b"a".to_vec()][..], &[0][..]));
        let (columns, refused, _) = read(&data[1..], 2, true);
        assert_eq!((columns[0].as_slice(), refused.as_slice()), (&[b"a".to_vec()][..], &[0][..]));
    }

    #[test]
    fn numbers_are_digits_that_fit() {
        let column = |texts: &[&'static str]| {
            let fields: Vec<_> = texts.iter().map(|text| Cow::Borrowed(text.as_bytes())).collect();
            numbers(&fields)
        };
        assert_eq!(column(&["0", "007", "18446744073709551615"]), Some(vec![0, 7, u64::MAX]));
        for text in ["", "-1", "+1", "1.0", " 1", "18446744073709551616", "\u{663}"] {
            assert_eq!(column(&["1", text]), None, "{text}");
        }
    }

    #[test]
    fn a_delimiter_may_have_several_bytes() {
        let (head, end) = head("a§b\u{a0}§c\n".as_bytes(), "§".as_bytes(), false).unwrap().unwrap();
        assert_eq!((head[1].as_ref(), head.len(), end), ("b\u{a0}".as_bytes(), 3, 10));
    }
}
