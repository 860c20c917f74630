//! One drive for seconds: a server of writes that stops for collection, and concurrent reads.
//!
//! ```text
//!  debt          each byte of the host owes A - 1 bytes of copies
//!  quiet         ██████████████████████████ writes only, debt grows to a superblock's copies
//!  episode       ▒▒▒▒██▒▒▒▒██▒▒▒▒██▒▒▒▒     slices of copies (▒), in between writes; then the erase
//! ```
//!
//! The flash programs `write_bytes_per_s` in all, for host and copies, so a drive that never rests
//! takes that over A from its host, however it divides its time. In an episode copies get the part
//! `1 - (1 - urgency) / A` of it: at urgency 0 just what keeps the debt where it is, so that the
//! episode never ends; at 1 all of it, so that the host waits for the whole superblock.
//!
//! Writes are served in the order in which they come. When one is handed in its end is therefore
//! known, and the drive needs no events of its own. What comes at the very instant at which the drive
//! turns to something else comes before that.

use super::draws::{Draws, Stream};
use super::terms::{Collection, Terms};
use crate::raid::Ceilings;
use std::collections::VecDeque;

/// Time from `start` up to `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    start: u64,
    end: u64,
}

/// Time in which reads may have to wait.
#[derive(Debug, Clone, Copy)]
struct Busy {
    span: Span,
    erase: bool,
}

/// State of a drive at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Doing {
    pub(super) collecting: bool,
    /// Neither writing nor copying.
    pub(super) idle: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Drive {
    ceilings: Ceilings,
    terms: Collection,
    write_latency_ns: u64,
    read_latency_ns: u64,
    owed_per_byte: f64,
    slice_bytes: f64,
    /// Bytes that the host writes between two slices of an episode.
    between_bytes: f64,
    threshold: f64,
    debt: f64,
    collecting: bool,
    since_slice: f64,
    /// End of all that was planned.
    free: u64,
    reads_free: u64,
    last_slice_end: u64,
    episode_start: u64,
    episodes: VecDeque<Span>,
    busy: VecDeque<Busy>,
    sizes: Draws,
    hits: Draws,
}

impl Drive {
    pub(super) fn new(number: u32, ceilings: Ceilings, terms: &Terms) -> Self {
        let collection = terms.collection;
        let amplification = terms.amplification;
        let copies = 1.0 - (1.0 - collection.urgency) / amplification;
        let slice_bytes = (ceilings.write_bytes_per_s * collection.slice_s).max(1.0);
        let mut made = Self {
            ceilings,
            terms: collection,
            write_latency_ns: nanoseconds(terms.write_latency_s),
            read_latency_ns: nanoseconds(terms.read_latency_s),
            owed_per_byte: amplification - 1.0,
            slice_bytes,
            between_bytes: if copies > 0.0 { slice_bytes * (1.0 - copies) / copies } else { 0.0 },
            threshold: 0.0,
            debt: 0.0,
            collecting: false,
            since_slice: 0.0,
            free: 0,
            reads_free: 0,
            last_slice_end: 0,
            episode_start: 0,
            episodes: VecDeque::new(),
            busy: VecDeque::new(),
            sizes: Draws::new(terms.seed, Stream::Collection, number.into()),
            hits: Draws::new(terms.seed, Stream::Reads, number.into()),
        };
        made.draw_threshold(amplification);
        // Drives collect by themselves: each begins somewhere between two episodes.
        made.debt = made.sizes.part() * made.threshold;
        made
    }

    /// Takes a write; returns when it is acknowledged, and whether it waited for collection.
    pub(super) fn write(&mut self, now: u64, bytes: u64) -> (u64, bool) {
        self.advance(now);
        self.free = self.free.max(now);
        while self.collecting && self.since_slice >= self.between_bytes {
            self.slice();
        }
        let met = self.last_slice_end > now;
        self.free += nanoseconds(self.ceilings.write_s(bytes));
        self.since_slice += bytes as f64;
        self.debt += bytes as f64 * self.owed_per_byte;
        if !self.collecting && self.owed_per_byte > 0.0 && self.debt >= self.threshold {
            self.begin();
        }
        (self.free + self.write_latency_ns, met)
    }

    /// Takes a read; returns when its data arrive, and whether it waited for collection.
    pub(super) fn read(&mut self, now: u64, bytes: u64) -> (u64, bool) {
        self.advance(now);
        let waits_until = self.busy_at(now).and_then(|busy| {
            let hit = if busy.erase { self.terms.erase_hit } else { self.terms.slice_hit };
            (self.hits.part() < hit).then_some(busy.span.end)
        });
        let start = self.reads_free.max(now);
        self.reads_free = start + nanoseconds(self.ceilings.read_s(bytes));
        let service = self.reads_free - start;
        let served = start.max(waits_until.unwrap_or(0)) + service;
        (served + self.read_latency_ns, waits_until.is_some())
    }

    /// Returns the state at an instant, which must not be before an earlier query.
    pub(super) fn doing(&mut self, now: u64) -> Doing {
        self.advance(now);
        while self.episodes.front().is_some_and(|episode| episode.end < now) {
            self.episodes.pop_front();
        }
        let within = self.episodes.front().is_some_and(|episode| episode.start < now);
        let open = self.collecting && self.episode_start < now;
        Doing { collecting: within || open, idle: self.free <= now }
    }

    /// Lets it copy in the time up to `now` in which it had nothing else to do.
    fn advance(&mut self, now: u64) {
        while self.free < now {
            if self.collecting {
                self.slice();
            } else if self.debt >= self.slice_bytes && self.free + self.idle_ns() <= now {
                self.free += self.idle_ns();
                self.begin();
            } else {
                break;
            }
        }
    }

    fn idle_ns(&self) -> u64 {
        nanoseconds(self.terms.idle_s)
    }

    fn begin(&mut self) {
        self.collecting = true;
        self.episode_start = self.free;
        // The first slice comes at once.
        self.since_slice = self.between_bytes;
    }

    /// Copies for a slice, and ends the episode when nothing is owed any more.
    fn slice(&mut self) {
        let bytes = self.debt.min(self.slice_bytes);
        let length = nanoseconds(bytes / self.ceilings.write_bytes_per_s).max(1);
        let span = Span { start: self.free, end: self.free + length };
        self.debt -= bytes;
        self.since_slice = 0.0;
        self.free = span.end;
        self.last_slice_end = span.end;
        self.busy.push_back(Busy { span, erase: false });
        if self.debt > 0.0 {
            return;
        }
        self.collecting = false;
        self.episodes.push_back(Span { start: self.episode_start, end: span.end });
        let erased = span.end + nanoseconds(self.terms.erase_s);
        self.busy.push_back(Busy { span: Span { start: span.end, end: erased }, erase: true });
        self.draw_threshold(self.owed_per_byte + 1.0);
    }

    /// Copies of the next victim: a half to one and a half times the mean, as victims differ.
    fn draw_threshold(&mut self, amplification: f64) {
        let mean = self.terms.superblock_bytes * (1.0 - 1.0 / amplification);
        self.threshold = mean * (0.5 + self.sizes.part());
    }

    /// Copying comes before erasing: a read that could wait for either waits for the copies.
    fn busy_at(&mut self, now: u64) -> Option<Busy> {
        while self.busy.front().is_some_and(|busy| busy.span.end <= now) {
            self.busy.pop_front();
        }
        self.busy
            .iter()
            .take_while(|busy| busy.span.start < now)
            .filter(|busy| busy.span.end > now)
            .min_by_key(|busy| busy.erase)
            .copied()
    }
}

/// Whole nanoseconds, so that times add up without rounding.
pub(super) fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}
