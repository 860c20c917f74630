//! Records that end with a line feed, which may stand in a name too: lines put together again.

use memchr::memchr_iter;

use super::{Batch, Place, Records, Step};

const END_WORD: &[u8] = b"trimtab-end ";

/// A record that may go on: the lines of it that are kept, all their length, where it began.
#[derive(Clone, Debug, Default)]
struct Open {
    text: Vec<u8>,
    lines: u64,
    length: usize,
    place: Place,
    begins: bool,
}

/// Puts lines together to records; a record is whole when the next one begins.
///
/// A record over several lines is a path with line feeds where each record has its token; without a
/// token it cannot be distinguished from several records.
#[derive(Clone, Debug)]
pub struct Joining {
    records: Records,
    /// With the tab behind it; empty: no token.
    token: Vec<u8>,
    /// Longest record, in bytes.
    most: usize,
    open: Open,
    /// Whether the list has an end mark with nothing after it.
    pub ended_well: bool,
    /// When it ended, in seconds since 1970, where it said so.
    pub ended_s: Option<u64>,
}

impl Joining {
    /// Returns a reader of a list of lines.
    #[must_use]
    pub fn new(records: Records, token: Option<&[u8]>, most: usize) -> Self {
        let token = token.map_or(Vec::new(), |token| [token, b"\t"].concat());
        Self { records, token, most, open: Open::default(), ended_well: false, ended_s: None }
    }

    /// Takes the lines of a block, the first of them at a place.
    pub fn add(&mut self, block: &[u8], mut place: Place) {
        let terminator = self.records.layout.terminator;
        let mut begin = 0;
        // The record that is open in this block; one of the block before is in `open`.
        let mut here = Open::default();
        let (mut from, mut to) = (0, 0);
        for end in memchr_iter(terminator, block) {
            let line = &block[begin..end];
            let begins = self.begins(line);
            if begins && self.open.lines > 0 {
                self.close_open();
            }
            if self.open.lines > 0 {
                self.go_on(line, terminator);
            } else {
                if begins && here.lines > 0 {
                    self.close(&block[from..to], &here);
                    here.lines = 0;
                }
                if here.lines == 0 {
                    (from, to) = (begin, end);
                    here = Open { place, begins, ..Open::default() };
                }
                here.lines += 1;
                here.length += line.len() + 1;
                if here.length <= self.most {
                    to = end;
                }
            }
            place.number += 1;
            place.offset += (line.len() + 1) as u64;
            begin = end + 1;
        }
        if here.lines > 0 {
            here.text = block[from..to].to_vec();
            self.open = here;
        }
    }

    /// Takes the record that the list ends with.
    pub fn finish(&mut self) {
        if self.open.lines > 0 {
            self.close_open();
        }
    }

    /// Returns the result of the records since the last call.
    pub fn take(&mut self) -> Batch {
        self.records.take()
    }

    fn begins(&self, line: &[u8]) -> bool {
        if self.token.is_empty() {
            self.records.begins(line)
        } else {
            line.starts_with(&self.token)
        }
    }

    /// Adds a line to the record of the block before; of what is far too long no more is kept.
    fn go_on(&mut self, line: &[u8], terminator: u8) {
        self.open.lines += 1;
        self.open.length += line.len() + 1;
        if self.open.length <= self.most {
            self.open.text.push(terminator);
            self.open.text.extend_from_slice(line);
        }
    }

    fn close_open(&mut self) {
        let open = std::mem::take(&mut self.open);
        self.close(&open.text, &open);
    }

    /// Takes the lines of a record, or refuses it.
    fn close(&mut self, text: &[u8], open: &Open) {
        let reason = if !open.begins {
            "it is no record of this format"
        } else if open.length > self.most {
            "it has no end"
        } else if self.ended_well {
            self.ended_well = false;
            "it comes after the end of the list"
        } else if self.token.is_empty() && open.lines > 1 {
            "a line feed in its name, or a line that is no record after it"
        } else {
            let text = &text[self.token.len()..];
            match ended(text).filter(|_| !self.token.is_empty()) {
                Some(ended_s) => (self.ended_s, self.ended_well) = (Some(ended_s), true),
                None => self.records.record(text, open.place),
            }
            return;
        };
        self.records.refuse(Step::Joined, reason, open.place, text);
    }
}

/// Returns when a list ended, from the record that says so.
fn ended(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(END_WORD)?.strip_prefix(b"ended=")?;
    super::fields::whole(digits).filter(|_| digits.len() <= 11)
}
