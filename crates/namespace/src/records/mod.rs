//! Records of lists that `find -printf` and `lfs find --printf` print, as columns.
//!
//! ```text
//!   block ──▶ lines put together (joining) ──▶ fields, the path last ──▶ a row, or why not
//! ```
//!
//! A block holds whole records, each with its terminator. Where names may hold the terminator, a
//! record is whole only when the next begins, so that the last of a block waits for the next block.
//! Refused records are reported in the order of the steps: put together, parted, shapes, values.
//!
//! A list of which a part was lost may have a record that begins as one file's and ends as another's. A
//! closed record says its identity at both ends. Of others only what cannot be is noticed: a path that
//! goes on with another record, and a time after the list.

mod fields;
mod joining;
mod paths;

pub use fields::{Fraction, Reader, Shape};
pub use joining::Joining;
pub use paths::Placing;

use std::borrow::Cow;

use memchr::{memchr_iter, memmem, memrchr};

use crate::columns::{Column, Values};

const UNCLOSED: &str =
    "it ends with another identity than it begins with: parts of two records, or of one";
const RUN_ON: &str = "the path goes on with another record: the end between them is lost";
const TEXT_MOST: usize = 160;

/// Where a record is in its list: its number, from 1, and the offset of its first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Number of the record.
    pub number: u64,
    /// Offset in bytes.
    pub offset: u64,
}

/// A record that cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: String,
    /// Where it is.
    pub place: Place,
    /// How it begins.
    pub text: Vec<u8>,
}

/// Refused records: counts by reason, and the first of them.
#[derive(Clone, Debug, Default)]
pub struct Refusals {
    /// How many, by reason.
    pub counted: Vec<(String, u64)>,
    /// The first.
    pub first: Vec<Refusal>,
    shown: usize,
}

impl Refusals {
    fn new(shown: usize) -> Self {
        Self { shown, ..Self::default() }
    }

    fn add(&mut self, reason: &str, place: Place, text: &[u8]) {
        match self.counted.iter_mut().find(|(counted, _)| counted == reason) {
            Some((_, many)) => *many += 1,
            None => self.counted.push((reason.to_owned(), 1)),
        }
        if self.first.len() < self.shown {
            let text = text[..text.len().min(TEXT_MOST)].to_vec();
            self.first.push(Refusal { reason: reason.to_owned(), place, text });
        }
    }
}

/// A field of a record.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its column in the index; empty where it is passed over.
    pub column: String,
    /// The shape that it must have.
    pub shape: Shape,
    /// How it is converted.
    pub reader: Reader,
}

/// Layout of a list.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The fields of a record but the path, which is the last.
    pub fields: Vec<Field>,
    /// Last byte of a record.
    pub terminator: u8,
    /// Whether an empty first field means that the file was gone.
    pub vanishing: bool,
    /// How many refused records are kept to be shown.
    pub shown: usize,
    /// Whether the first field, the identity, is repeated behind the path.
    pub closed: bool,
    /// A sequence of bytes that no path of a whole record contains; empty: any path is valid.
    pub foreign: Vec<u8>,
    /// No file was changed later. Users set the other times as they like: where records are closed, they
    /// are what the file system has.
    pub latest_ns: i64,
}

/// Result of a block.
#[derive(Debug)]
pub struct Batch {
    /// The rows.
    pub columns: Vec<Column>,
    /// How many.
    pub rows: usize,
    /// How many records were whole, with those that were refused afterwards.
    pub records: u64,
    /// How many of them are of files that were gone.
    pub vanished: u64,
    /// Refused records, step by step.
    pub refused: Vec<Refusals>,
}

/// Reads records of a list, block after block.
#[derive(Clone, Debug)]
pub struct Records {
    layout: Layout,
    placing: Placing,
    columns: Vec<Column>,
    kind: Option<usize>,
    many: u64,
    vanished: u64,
    refused: [Refusals; 4],
    tabs: Vec<usize>,
    /// Where the fields of a record begin and end, the path behind them.
    cuts: Vec<(usize, usize)>,
    wrong: Vec<usize>,
    late: Vec<usize>,
}

#[derive(Clone, Copy)]
enum Step {
    Joined,
    Parted,
    Shaped,
    Placed,
}

impl Records {
    /// Returns a reader of a list.
    #[must_use]
    pub fn new(layout: Layout, placing: Placing) -> Self {
        let columns = columns_of(&layout);
        let kind = layout.fields.iter().position(|field| field.reader == Reader::Letter);
        let refused = std::array::from_fn(|_| Refusals::new(layout.shown));
        Self {
            layout,
            placing,
            columns,
            kind,
            many: 0,
            vanished: 0,
            refused,
            tabs: Vec::new(),
            cuts: Vec::new(),
            wrong: Vec::new(),
            late: Vec::new(),
        }
    }

    /// Takes the records of a block, the first of them at a place.
    pub fn add(&mut self, block: &[u8], mut place: Place) {
        let mut begin = 0;
        for end in memchr_iter(self.layout.terminator, block) {
            self.record(&block[begin..end], place);
            place.number += 1;
            place.offset += (end + 1 - begin) as u64;
            begin = end + 1;
        }
    }

    /// Returns the result of the records since the last call.
    pub fn take(&mut self) -> Batch {
        let rows = self.placing.rows();
        let columns = std::mem::replace(&mut self.columns, columns_of(&self.layout));
        let fields = columns.into_iter().zip(&self.layout.fields);
        let mut columns: Vec<Column> = fields
            .filter_map(|(column, field)| (field.reader != Reader::Passed).then_some(column))
            .collect();
        columns.extend(self.placing.take());
        let refused = self.refused.iter_mut();
        let refused = refused.map(|step| std::mem::replace(step, Refusals::new(self.layout.shown)));
        Batch {
            columns,
            rows,
            records: std::mem::take(&mut self.many),
            vanished: std::mem::take(&mut self.vanished),
            refused: refused.collect(),
        }
    }

    /// Returns whether bytes begin as a record does.
    #[must_use]
    pub fn begins(&self, text: &[u8]) -> bool {
        let mut fields = text.split(|&byte| byte == b'\t');
        let fit = self
            .layout
            .fields
            .iter()
            .all(|field| fields.next().is_some_and(|text| field.shape.fits(text)));
        fit && fields.next().is_some()
    }

    fn refuse(&mut self, step: Step, reason: &str, place: Place, text: &[u8]) {
        self.refused[step as usize].add(reason, place, text);
    }

    fn record(&mut self, text: &[u8], place: Place) {
        self.many += 1;
        let vanished = self.layout.vanishing && text.first() == Some(&b'\t');
        if vanished && !self.layout.closed {
            self.vanished += 1;
            return;
        }
        if let Err(reason) = self.part(text) {
            self.refuse(Step::Parted, &reason, place, text);
            return;
        }
        if vanished {
            self.vanished += 1;
            return;
        }
        let rows = self.placing.rows();
        if !self.fields(text) {
            self.refuse(Step::Shaped, "a field is not what the format prints", place, text);
            self.forget(rows);
            return;
        }
        match self.place(text) {
            Ok(()) if self.wrong.is_empty() && self.late.is_empty() => return,
            Ok(()) => {
                let reason = if self.wrong.is_empty() {
                    format!("{}: more than a day after the list was made", self.names(&self.late))
                } else {
                    format!("{}: not what it should be", self.names(&self.wrong))
                };
                self.refuse(Step::Placed, &reason, place, text);
            }
            Err(paths::Unplaced::Refused(reason)) => {
                self.refuse(Step::Placed, reason, place, text);
            }
            Err(paths::Unplaced::Root) => {}
        }
        self.forget(rows);
    }

    fn names(&self, fields: &[usize]) -> String {
        let name = |&at: &usize| self.layout.fields[at].column.as_str();
        fields.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    /// Finds the fields of a record.
    fn part(&mut self, text: &[u8]) -> std::result::Result<(), Cow<'static, str>> {
        let count = self.layout.fields.len();
        fields::places_of(b'\t', text, count, &mut self.tabs);
        let behind = self.tabs.last().map_or(0, |&tab| tab + 1);
        let closing = memrchr(b'\t', &text[behind..]).filter(|_| self.layout.closed);
        let closed = usize::from(self.layout.closed);
        if self.tabs.len() < count || (self.layout.closed && closing.is_none()) {
            let fields = self.tabs.len() + 1;
            return Err(format!("it has {fields} fields instead of {}", count + 1 + closed).into());
        }
        self.cuts.clear();
        let mut begin = 0;
        for &tab in &self.tabs {
            self.cuts.push((begin, tab));
            begin = tab + 1;
        }
        let end = closing.map_or(text.len(), |at| begin + at);
        self.cuts.push((begin, end));
        if closing.is_some() && text[end + 1..] != text[..self.tabs[0]] {
            return Err(UNCLOSED.into());
        }
        if !self.layout.foreign.is_empty()
            && memmem::find(&text[begin..end], &self.layout.foreign).is_some()
        {
            return Err(RUN_ON.into());
        }
        Ok(())
    }

    /// Places the path of a record.
    fn place(&mut self, text: &[u8]) -> std::result::Result<(), paths::Unplaced> {
        let (begin, end) = self.cuts[self.layout.fields.len()];
        self.placing.push(&text[begin..end])
    }

    /// Adds the values of a row; returns whether each field is what its directive prints.
    fn fields(&mut self, text: &[u8]) -> bool {
        self.wrong.clear();
        self.late.clear();
        let fields = self.layout.fields.iter().zip(&mut self.columns);
        for (at, ((field, column), &(begin, end))) in fields.zip(&self.cuts).enumerate() {
            let value = &text[begin..end];
            let known = field.reader.push(value, column);
            if field.reader.is_needed() {
                if !known {
                    self.wrong.push(at);
                }
            } else if !(known && field.reader.is_exact() || fits(field, value)) {
                return false;
            }
            if field.reader.is_after(self.layout.latest_ns, column)
                && (!self.layout.closed || field.column == "ctime_ns")
            {
                self.late.push(at);
            }
        }
        let of_file = self.kind.is_none_or(|at| letter(&self.columns[at]) == b'f');
        if !of_file {
            for (field, column) in self.layout.fields.iter().zip(&mut self.columns) {
                if matches!(field.reader, Reader::Stripes | Reader::Indices | Reader::Name) {
                    column.forget_last();
                }
            }
        }
        true
    }

    fn forget(&mut self, rows: usize) {
        self.placing.truncate(rows);
        for column in &mut self.columns {
            column.truncate(rows);
        }
    }
}

fn columns_of(layout: &Layout) -> Vec<Column> {
    layout.fields.iter().map(|field| field.reader.column(&field.column)).collect()
}

fn fits(field: &Field, value: &[u8]) -> bool {
    match field.reader {
        Reader::Name => !value.contains(&b'/'),
        Reader::Passed if field.shape == Shape::Words => {
            field.shape.fits(value) && std::str::from_utf8(value).is_ok()
        }
        _ => field.shape.fits(value),
    }
}

/// Returns the letter of the last row.
fn letter(column: &Column) -> u8 {
    match &column.values {
        Values::Text(views) => views.views.last().map_or(b'?', |view| (view >> 32) as u8),
        _ => b'?',
    }
}
