//! The group: operations through threads and queues to drives, and their ends back.

use super::draws::{Draws, Stream};
use super::drive::{Drive, nanoseconds};
use super::tally::{Figures, Tally};
use super::terms::Terms;
use super::throttle::{Class, Throttle};
use crate::Error;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// How often drives are looked at.
const SAMPLE_NS: u64 = 1_000_000;

/// Event of the simulation. The order of the variants is that of events at the same instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The write that its drive was given first has ended.
    WriteEnd {
        drive: u32,
    },
    ReadEnd {
        read: u64,
        drive: u32,
        issued: u64,
        bytes: u64,
        operation: Option<usize>,
    },
    WindowEnd {
        drive: u32,
    },
    /// The thread that all operations pass is done with one.
    Ready {
        number: u64,
        operation: usize,
    },
    Arrival,
    OtherRead,
    Sample,
}

/// An access to a drive that an operation still has to hand in.
#[derive(Debug, Clone, Copy)]
struct Access {
    drive: u32,
    bytes: u64,
    read: bool,
}

#[derive(Debug, Clone, Default)]
struct Operation {
    since: u64,
    bytes: u64,
    writes: bool,
    met: bool,
    /// Reads come before writes.
    accesses: Vec<Access>,
    next: usize,
    in_flight: u32,
}

impl Operation {
    /// Whether the access that is next must wait for the reads that were handed in.
    fn at_turn(&self) -> bool {
        let read = |place: usize| self.accesses.get(place).is_some_and(|access| access.read);
        self.next > 0 && self.next < self.accesses.len() && read(self.next - 1) && !read(self.next)
    }
}

#[derive(Debug, Clone)]
struct Queue {
    drive: Drive,
    throttle: Option<Throttle>,
    in_flight: u32,
    /// Ends of the writes in flight, and their operations.
    ends: VecDeque<(u64, usize)>,
    /// Operations whose thread sleeps until this drive may be written.
    asleep: VecDeque<usize>,
}

/// Rows one after another: a shuffle of the drives serves as many rows as there are drives, each from
/// another drive on, so that every drive has every place in a row equally often.
#[derive(Debug, Clone)]
struct Layout {
    draws: Draws,
    drives: Vec<u32>,
    /// Rows that this shuffle still serves.
    left: usize,
}

impl Layout {
    /// Moves to the next row; returns the drive of each of its members.
    fn next(&mut self) -> impl Fn(u32) -> u32 + '_ {
        let count = self.drives.len();
        if self.left == 0 {
            self.drives = self.draws.permutation(count as u32);
            self.left = count;
        }
        self.left -= 1;
        move |member| self.drives[(self.left + member as usize) % count]
    }
}

struct Group<'a> {
    terms: &'a Terms,
    class: Class,
    queues: Vec<Queue>,
    layout: Layout,
    arrivals: Draws,
    others: Draws,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    operations: Vec<Operation>,
    unused: Vec<usize>,
    /// Operations that wait for a thread.
    ready: VecDeque<usize>,
    threads: u32,
    serial_free: u64,
    /// When operations came that wait until fewer are outstanding.
    backlog: VecDeque<u64>,
    outstanding: u32,
    reads: u64,
    tally: Tally,
}

/// Simulates a window.
pub fn run(terms: &Terms) -> Result<Figures, Error> {
    terms.check()?;
    let warm = nanoseconds(terms.warm_s);
    let end = warm + nanoseconds(terms.duration_s);
    let mut group = Group::new(terms, warm);
    group.begin();
    while let Some(Reverse((now, event))) = group.events.pop() {
        if now >= end {
            break;
        }
        group.handle(now, event);
    }
    let ceiling = terms.raid.write_ceiling(terms.drive, terms.load.transfer_bytes);
    let outstanding = u64::from(group.outstanding);
    Ok(group.tally.figures(terms.duration_s, ceiling, outstanding))
}

impl<'a> Group<'a> {
    fn new(terms: &'a Terms, warm: u64) -> Self {
        let class = terms.throttling.map_or(Class::Direct, |throttling| throttling.class);
        let queue = |number| {
            let factor = match terms.slow_drive {
                Some((slow, factor)) if slow == number => factor,
                _ => 1.0,
            };
            let ceilings = terms.drive.scaled(factor * (1.0 - terms.rebuild_share));
            let throttle = terms
                .throttling
                .filter(|_| class != Class::Direct)
                .map(|on| Throttle::new(nanoseconds(on.target_s), terms.queue_depth));
            Queue {
                drive: Drive::new(number, ceilings, terms),
                throttle,
                in_flight: 0,
                ends: VecDeque::new(),
                asleep: VecDeque::new(),
            }
        };
        let drives = terms.raid.drives;
        let layout = Draws::new(terms.seed, Stream::Layout, 0);
        Self {
            terms,
            class,
            queues: (0..drives).map(queue).collect(),
            layout: Layout { draws: layout, drives: (0..drives).collect(), left: 0 },
            arrivals: Draws::new(terms.seed, Stream::Arrivals, 0),
            others: Draws::new(terms.seed, Stream::Others, 0),
            events: BinaryHeap::new(),
            operations: Vec::new(),
            unused: Vec::new(),
            ready: VecDeque::new(),
            threads: terms.submitters,
            serial_free: 0,
            backlog: VecDeque::new(),
            outstanding: 0,
            reads: 0,
            tally: Tally { from: warm, ..Tally::default() },
        }
    }

    fn begin(&mut self) {
        self.after(self.tally.from, Event::Sample);
        self.next_other(0);
        if self.terms.load.operations_per_s.is_some() {
            self.next_arrival(0);
            return;
        }
        for _ in 0..self.terms.load.depth {
            self.start(0, 0);
        }
    }

    fn after(&mut self, time: u64, event: Event) {
        self.events.push(Reverse((time, event)));
    }

    fn next_arrival(&mut self, now: u64) {
        if let Some(rate) = self.terms.load.operations_per_s {
            let gap = nanoseconds(self.arrivals.exponential() / rate);
            self.after(now + gap, Event::Arrival);
        }
    }

    fn next_other(&mut self, now: u64) {
        let rate = self.terms.load.reads_per_s;
        if rate > 0.0 {
            let gap = nanoseconds(self.others.exponential() / rate);
            self.after(now + gap, Event::OtherRead);
        }
    }

    fn handle(&mut self, now: u64, event: Event) {
        match event {
            Event::WriteEnd { drive } => self.write_ended(now, drive),
            Event::ReadEnd { read, drive, issued, bytes, operation } => {
                if let Some(throttle) = &mut self.queues[drive as usize].throttle {
                    throttle.read_ended(now, read, issued);
                }
                match operation {
                    Some(operation) => self.access_ended(now, operation),
                    None => self.tally.read(now, issued, bytes),
                }
            }
            Event::WindowEnd { drive } => self.window_ended(now, drive),
            Event::Ready { operation, .. } => {
                self.ready.push_back(operation);
                self.hand_out(now);
            }
            Event::Arrival => {
                if self.outstanding < self.terms.load.depth {
                    self.start(now, now);
                } else {
                    self.backlog.push_back(now);
                }
                self.next_arrival(now);
            }
            Event::OtherRead => {
                let alive = self.terms.raid.drives - self.terms.failed_drives;
                let drive = self.others.below(alive);
                self.issue_read(now, drive, self.terms.load.read_bytes, None);
                self.next_other(now);
            }
            Event::Sample => {
                self.sample(now);
                self.after(now + SAMPLE_NS, Event::Sample);
            }
        }
    }

    /// Starts an operation that was asked for at `since`.
    fn start(&mut self, now: u64, since: u64) {
        let share = self.terms.load.read_share;
        let reads = share > 0.0 && self.arrivals.part() < share;
        let slot = self.unused.pop().unwrap_or_else(|| {
            self.operations.push(Operation::default());
            self.operations.len() - 1
        });
        let load = self.terms.load;
        let operation = Operation {
            since,
            bytes: if reads { load.read_bytes } else { load.transfer_bytes },
            writes: !reads,
            accesses: if reads { self.reading() } else { self.writing() },
            ..Operation::default()
        };
        self.operations[slot] = operation;
        self.outstanding += 1;
        let number = self.tally.started;
        self.tally.started += 1;
        self.serial_free = self.serial_free.max(now) + nanoseconds(self.terms.serial_s);
        self.after(self.serial_free, Event::Ready { number, operation: slot });
    }

    fn reading(&mut self) -> Vec<Access> {
        let terms = self.terms;
        let alive = terms.raid.drives - terms.failed_drives;
        let drive_of = self.layout.next();
        let pieces = terms.raid.read(terms.load.read_bytes, |member| drive_of(member) >= alive);
        let access = |member, bytes| Access { drive: drive_of(member), bytes, read: true };
        pieces.into_iter().map(|piece| access(piece.member, piece.bytes)).collect()
    }

    fn writing(&mut self) -> Vec<Access> {
        let terms = self.terms;
        let alive = terms.raid.drives - terms.failed_drives;
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for bytes in terms.raid.rows(terms.load.transfer_bytes) {
            let drive_of = self.layout.next();
            let plan = terms.raid.write(bytes, |member| drive_of(member) >= alive);
            let access = |member, bytes, read| Access { drive: drive_of(member), bytes, read };
            first.extend(plan.reads.iter().map(|piece| access(piece.member, piece.bytes, true)));
            second.extend(plan.writes.iter().map(|piece| access(piece.member, piece.bytes, false)));
        }
        first.append(&mut second);
        first
    }

    /// Gives operations that are ready to threads that are free.
    fn hand_out(&mut self, now: u64) {
        while self.threads > 0 {
            let Some(operation) = self.ready.pop_front() else { return };
            self.threads -= 1;
            self.proceed(now, operation);
        }
    }

    /// Hands in what an operation has, until its thread has to sleep or is free.
    fn proceed(&mut self, now: u64, slot: usize) {
        loop {
            let operation = &self.operations[slot];
            let waits = operation.in_flight > 0 && operation.at_turn();
            let Some(access) = operation.accesses.get(operation.next).copied().filter(|_| !waits)
            else {
                self.threads += 1;
                return;
            };
            if access.read {
                self.operations[slot].next += 1;
                self.operations[slot].in_flight += 1;
                self.issue_read(now, access.drive, access.bytes, Some(slot));
            } else if self.queues[access.drive as usize].asleep.is_empty()
                && self.admits(now, access.drive)
            {
                self.issue_write(now, slot);
            } else {
                self.queues[access.drive as usize].asleep.push_back(slot);
                return;
            }
        }
    }

    fn admits(&self, now: u64, drive: u32) -> bool {
        let queue = &self.queues[drive as usize];
        let most =
            queue.throttle.as_ref().map_or(u32::MAX, |limiter| limiter.limit(self.class, now));
        queue.in_flight < most.min(self.terms.queue_depth)
    }

    /// Hands in the write that is an operation's next.
    fn issue_write(&mut self, now: u64, slot: usize) {
        let operation = &mut self.operations[slot];
        let access = operation.accesses[operation.next];
        operation.next += 1;
        operation.in_flight += 1;
        let queue = &mut self.queues[access.drive as usize];
        let (end, met) = queue.drive.write(now, access.bytes);
        operation.met |= met;
        queue.in_flight += 1;
        queue.ends.push_back((end, slot));
        let window = queue.throttle.as_mut().and_then(|throttle| throttle.write_issued(now));
        if queue.ends.len() == 1 {
            self.after(end, Event::WriteEnd { drive: access.drive });
        }
        if let Some(window) = window {
            self.after(window, Event::WindowEnd { drive: access.drive });
        }
    }

    fn issue_read(&mut self, now: u64, drive: u32, bytes: u64, operation: Option<usize>) {
        let read = self.reads;
        self.reads += 1;
        let queue = &mut self.queues[drive as usize];
        let (end, met) = queue.drive.read(now, bytes);
        if let Some(throttle) = &mut queue.throttle {
            throttle.read_issued(now, read);
        }
        if let Some(slot) = operation {
            self.operations[slot].met |= met;
        }
        self.after(end, Event::ReadEnd { read, drive, issued: now, bytes, operation });
    }

    fn write_ended(&mut self, now: u64, drive: u32) {
        let queue = &mut self.queues[drive as usize];
        let (_, slot) = queue.ends.pop_front().expect("a write that ends was handed in");
        queue.in_flight -= 1;
        let in_flight = queue.in_flight;
        let wakes = queue.throttle.as_mut().is_none_or(|throttle| {
            throttle.write_ended();
            throttle.wakes(in_flight)
        });
        if let Some((end, _)) = queue.ends.front() {
            let end = *end;
            self.after(end, Event::WriteEnd { drive });
        }
        if wakes {
            self.wake(now, drive);
        }
        self.access_ended(now, slot);
    }

    /// Wakes threads as far as there is room for them: each takes its room before any goes on.
    fn wake(&mut self, now: u64, drive: u32) {
        let mut woken = Vec::new();
        while self.admits(now, drive) {
            let Some(slot) = self.queues[drive as usize].asleep.pop_front() else { break };
            self.issue_write(now, slot);
            woken.push(slot);
        }
        for slot in woken {
            self.proceed(now, slot);
        }
        self.hand_out(now);
    }

    fn window_ended(&mut self, now: u64, drive: u32) {
        let queue = &mut self.queues[drive as usize];
        let in_flight = queue.in_flight;
        let Some(throttle) = &mut queue.throttle else { return };
        let (rose, next) = throttle.judge(now, in_flight);
        if let Some(end) = next {
            self.after(end, Event::WindowEnd { drive });
        }
        if rose {
            self.wake(now, drive);
        }
    }

    fn access_ended(&mut self, now: u64, slot: usize) {
        let operation = &mut self.operations[slot];
        operation.in_flight -= 1;
        if operation.in_flight > 0 {
            return;
        }
        if operation.at_turn() {
            self.ready.push_back(slot);
            self.hand_out(now);
        } else if operation.next == operation.accesses.len() {
            self.operation_ended(now, slot);
        }
    }

    fn operation_ended(&mut self, now: u64, slot: usize) {
        let operation = &self.operations[slot];
        let (since, bytes, met) = (operation.since, operation.bytes, operation.met);
        if operation.writes {
            self.tally.wrote(now, since, bytes, met);
        } else {
            self.tally.read(now, since, bytes);
        }
        self.tally.ended += 1;
        self.outstanding -= 1;
        self.unused.push(slot);
        if self.terms.load.operations_per_s.is_none() {
            self.start(now, now);
        } else if let Some(since) = self.backlog.pop_front() {
            self.start(now, since);
        }
    }

    fn sample(&mut self, now: u64) {
        let alive = (self.terms.raid.drives - self.terms.failed_drives) as usize;
        let seen = &mut self.tally.sampled;
        for queue in &mut self.queues[..alive] {
            let doing = queue.drive.doing(now);
            let step = queue.throttle.as_ref().map_or(0, Throttle::step).max(0);
            let held = !queue.asleep.is_empty();
            let quiet = !doing.collecting;
            seen.looks += 1;
            seen.collecting += u64::from(doing.collecting);
            seen.below += u64::from(step > 0);
            seen.below_quiet += u64::from(step > 0 && quiet);
            seen.held += u64::from(held);
            seen.held_quiet += u64::from(held && quiet);
            seen.starved_quiet += u64::from(doing.idle && quiet && queue.in_flight == 0);
            seen.steps_below += u64::from(step.unsigned_abs());
        }
    }
}
