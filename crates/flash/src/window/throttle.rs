//! Writeback throttling of one request queue, as `block/blk-wbt.c` and `block/blk-rq-qos.c` have it.
//!
//! ```text
//!  step   -6 … -1 │  0 │  1 │  2 │  3 │  4     max = 1 + (15 >> step), or 1 + (15 << -step) up to
//!  max   767 … 31 │ 16 │  8 │  4 │  2 │  1           three quarters of the queue
//!  normal 384 … 16 │  8 │  4 │  2 │  2 │  1     (max + 1) / 2; what a plain write may have in flight
//!  busy  192 …  8 │  4 │  2 │  1 │  1 │  1     (max + 3) / 4; the same within 100 ms of a read
//! ```
//!
//! At the end of each window one step to the left if the *shortest* read of the window kept the
//! target, or if there were only writes; one to the right if it did not, or if a read is pending for
//! too long. From the left of 0 a violation goes straight to 0. Right of 0 windows are shorter.

/// The window at step 0.
const WINDOW_NS: u64 = 100_000_000;
/// How long after a read a queue counts as shared with readers. The kernel counts this in ticks of
/// its clock, 1 to 10 ms; here it is exact.
const CLOSE_NS: u64 = 100_000_000;
const DEFAULT_DEPTH: u32 = 16;
/// Writes in a window under which nothing is said of their effect on reads.
const WRITES_LEAST: u32 = 3;
/// Windows in a row that say nothing, after which the step returns by one towards 0.
const UNKNOWN_MOST: u32 = 5;

/// Class of a write, as the throttle treats it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// `REQ_OP_WRITE` and no more: writeback, and what a RAID layer hands down.
    Plain,
    /// With `REQ_SYNC`, `REQ_META` or `REQ_PRIO`: the whole depth.
    Sync,
    /// With `REQ_SYNC` and `REQ_IDLE`, as `O_DIRECT` gives: not throttled.
    Direct,
    /// The background's depth, at any time.
    Discard,
}

/// Verdict on a window of reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Kept,
    Exceeded,
    OnlyWrites,
    Unknown,
}

/// The throttle of one queue. Who asks for admission and who sleeps is not its business.
#[derive(Debug, Clone)]
pub struct Throttle {
    target_ns: u64,
    queue_depth: u32,
    step: i32,
    depth: u32,
    at_most: bool,
    unknown: u32,
    /// End of the window, if one is open.
    window_end: Option<u64>,
    window_ns: u64,
    reads: u32,
    shortest_read: u64,
    writes: u32,
    last_read: Option<u64>,
    /// The read that is watched: its number and when it was issued.
    watched: Option<(u64, u64)>,
}

impl Throttle {
    /// Returns the throttle of a queue that holds up to `queue_depth` requests.
    pub fn new(target_ns: u64, queue_depth: u32) -> Self {
        let mut made = Self {
            target_ns,
            queue_depth,
            step: 0,
            depth: 0,
            at_most: false,
            unknown: 0,
            window_end: None,
            window_ns: WINDOW_NS,
            reads: 0,
            shortest_read: u64::MAX,
            writes: 0,
            last_read: None,
            watched: None,
        };
        made.rescale();
        made
    }

    /// How far it is from where it started: over 0, it holds writes back.
    pub fn step(&self) -> i32 {
        self.step
    }

    /// Writes that may be in flight: the whole depth, a plain write's part, and that beside readers.
    pub fn limits(&self) -> (u32, u32, u32) {
        let depth = self.depth;
        if depth <= 2 { (depth, depth, 1) } else { (depth, depth.div_ceil(2), depth.div_ceil(4)) }
    }

    /// Writes of a class that may be in flight now.
    pub fn limit(&self, class: Class, now: u64) -> u32 {
        let (whole, normal, background) = self.limits();
        match class {
            Class::Direct => u32::MAX,
            Class::Sync => whole,
            Class::Discard => background,
            Class::Plain if self.last_read.is_some_and(|read| now < read + CLOSE_NS) => background,
            Class::Plain => normal,
        }
    }

    /// Whether a completion that leaves so many in flight wakes who sleeps.
    pub fn wakes(&self, in_flight: u32) -> bool {
        let (_, normal, background) = self.limits();
        in_flight == 0 || (in_flight < normal && normal - in_flight >= background / 2)
    }

    /// End of the window that is open.
    pub fn window_end(&self) -> Option<u64> {
        self.window_end
    }

    /// Notes that a write was admitted; returns the end of a window that this opens.
    pub fn write_issued(&mut self, now: u64) -> Option<u64> {
        if self.window_end.is_some() {
            return None;
        }
        self.open(now);
        self.window_end
    }

    /// Notes that a write ended.
    pub fn write_ended(&mut self) {
        self.writes += u32::from(self.window_end.is_some());
    }

    /// Notes that a read was sent to the drive.
    pub fn read_issued(&mut self, now: u64, read: u64) {
        self.last_read = Some(now);
        if self.watched.is_none() {
            self.watched = Some((read, now));
        }
    }

    /// Notes that a read ended that was sent at `issued`.
    pub fn read_ended(&mut self, now: u64, read: u64, issued: u64) {
        self.last_read = Some(now);
        if self.watched.is_some_and(|(watched, _)| watched == read) {
            self.watched = None;
        }
        if self.window_end.is_some() {
            self.reads += 1;
            self.shortest_read = self.shortest_read.min(now - issued);
        }
    }

    /// Ends the window with so many writes in flight; returns whether limits rose, and when the next
    /// window ends, if there is one.
    pub fn judge(&mut self, now: u64, in_flight: u32) -> (bool, Option<u64>) {
        let before = self.step;
        match self.verdict(now, in_flight) {
            Verdict::Exceeded => self.down(true),
            Verdict::Kept | Verdict::OnlyWrites => self.up(),
            Verdict::Unknown => {
                self.unknown += 1;
                if self.unknown >= UNKNOWN_MOST {
                    match self.step {
                        1.. => self.up(),
                        0 => {}
                        _ => self.down(false),
                    }
                }
            }
        }
        (self.reads, self.shortest_read, self.writes) = (0, u64::MAX, 0);
        if self.step != 0 || in_flight > 0 {
            self.open(now);
        } else {
            self.window_end = None;
        }
        (self.step < before, self.window_end)
    }

    fn verdict(&self, now: u64, in_flight: u32) -> Verdict {
        let pending = self.watched.map_or(0, |(_, since)| now - since);
        if pending > self.window_ns || (pending > self.target_ns && self.reads == 0) {
            return Verdict::Exceeded;
        }
        if self.reads == 0 || self.writes < WRITES_LEAST {
            let writing = self.writes > 0 || in_flight > 0;
            return if writing { Verdict::OnlyWrites } else { Verdict::Unknown };
        }
        if self.shortest_read > self.target_ns { Verdict::Exceeded } else { Verdict::Kept }
    }

    fn open(&mut self, now: u64) {
        self.window_ns = if self.step > 0 {
            // As the kernel rounds: the root of a number times 256 is 16 times its root.
            (WINDOW_NS << 4) / (((self.step as u64 + 1) << 8).isqrt())
        } else {
            WINDOW_NS
        };
        self.window_end = Some(now + self.window_ns);
    }

    fn up(&mut self) {
        if self.at_most {
            return;
        }
        self.step -= 1;
        self.at_most = self.rescale();
        self.unknown = 0;
    }

    fn down(&mut self, hard: bool) {
        if self.depth == 1 {
            return;
        }
        self.step = if self.step < 0 && hard { 0 } else { self.step + 1 };
        self.at_most = false;
        self.rescale();
        self.unknown = 0;
    }

    /// Sets the depth of the step; returns whether no step gives more.
    fn rescale(&mut self) -> bool {
        if self.queue_depth == 1 {
            self.depth = if self.step > 0 { 1 } else { 2 };
            return self.step <= 0;
        }
        let start = DEFAULT_DEPTH.min(self.queue_depth);
        if self.step >= 0 {
            self.depth = 1 + ((start - 1) >> self.step.min(31));
            return false;
        }
        let most = 3 * self.queue_depth / 4;
        let unbounded = 1 + (u64::from(start - 1) << self.step.unsigned_abs().min(31));
        self.depth = unbounded.min(most.into()) as u32;
        unbounded > u64::from(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn throttle() -> Throttle {
        Throttle::new(2 * MS, 1023)
    }

    /// Ends the window after so many writes and one read of so many milliseconds, or none.
    fn window(throttle: &mut Throttle, now: &mut u64, writes: u32, read_ms: Option<u64>) {
        throttle.write_issued(*now);
        for _ in 0..writes {
            throttle.write_ended();
        }
        let end = throttle.window_end().unwrap();
        if let Some(length) = read_ms {
            throttle.read_issued(end - length * MS, 7);
            throttle.read_ended(end, 7, end - length * MS);
        }
        *now = end;
        throttle.judge(end, 1);
    }

    /// Worked out by hand from calc_wb_limits, rq_depth_calc_max_depth and rwb_arm_timer.
    #[test]
    fn violations_step_down_as_the_kernel_does() {
        let (mut throttle, mut now) = (throttle(), 0);
        assert_eq!(throttle.limits(), (16, 8, 4));
        let expected = [
            (1, (8, 4, 2), 100_000_000_u64 * 16 / 22),
            (2, (4, 2, 1), 100_000_000 * 16 / 27),
            (3, (2, 2, 1), 100_000_000 * 16 / 32),
            (4, (1, 1, 1), 100_000_000 * 16 / 35),
            // At a depth of 1 there is no further step.
            (4, (1, 1, 1), 100_000_000 * 16 / 35),
        ];
        for (step, limits, window_ns) in expected {
            window(&mut throttle, &mut now, 3, Some(3));
            assert_eq!((throttle.step(), throttle.limits()), (step, limits));
            assert_eq!(throttle.window_end(), Some(now + window_ns));
        }
        // And back by one a window, by reads that keep the target or by writes alone.
        let back = [(3, Some(1)), (2, None), (1, Some(2)), (0, None)];
        for (step, read_ms) in back {
            window(&mut throttle, &mut now, 3, read_ms);
            assert_eq!(throttle.step(), step);
        }
        assert_eq!(throttle.window_end(), Some(now + 100 * MS));
    }

    #[test]
    fn writes_alone_go_to_three_quarters_of_the_queue_and_one_violation_to_the_start() {
        let (mut throttle, mut now) = (throttle(), 0);
        let depths = [31, 61, 121, 241, 481, 767, 767];
        for (place, depth) in depths.into_iter().enumerate() {
            window(&mut throttle, &mut now, 3, None);
            assert_eq!(throttle.limits().0, depth);
            assert_eq!(throttle.step(), -(place.min(5) as i32) - 1);
        }
        assert_eq!(throttle.limits(), (767, 384, 192));
        window(&mut throttle, &mut now, 3, Some(3));
        assert_eq!((throttle.step(), throttle.limits()), (0, (16, 8, 4)));
    }

    #[test]
    fn a_read_that_is_pending_counts_and_a_read_beside_few_writes_does_not() {
        let (mut throttle, mut now) = (throttle(), 0);
        // Two writes are too few to blame: it counts as writing only.
        window(&mut throttle, &mut now, 2, Some(50));
        assert_eq!(throttle.step(), -1);
        throttle.read_issued(now + 97 * MS, 1);
        now += 100 * MS;
        throttle.judge(now, 1);
        assert_eq!(throttle.step(), 0, "pending for 3 ms and no read ended");
        throttle.read_issued(now + 10 * MS, 2);
        throttle.read_ended(now + 11 * MS, 2, now + 10 * MS);
        for _ in 0..3 {
            throttle.write_ended();
        }
        now += 100 * MS;
        // The first read is still watched: it is older than a window.
        throttle.judge(now, 1);
        assert_eq!(throttle.step(), 1);
    }

    #[test]
    fn an_idle_queue_returns_to_the_start() {
        let (mut throttle, mut now) = (throttle(), 0);
        for _ in 0..2 {
            window(&mut throttle, &mut now, 3, Some(3));
        }
        let mut steps = Vec::new();
        while let Some(end) = throttle.window_end() {
            throttle.judge(end, 0);
            steps.push(throttle.step());
        }
        assert_eq!(steps, [2, 2, 2, 2, 1, 1, 1, 1, 1, 0]);
    }

    #[test]
    fn classes_have_their_limits() {
        let mut throttle = throttle();
        let limits = |throttle: &Throttle, now| {
            [Class::Plain, Class::Sync, Class::Direct, Class::Discard]
                .map(|class| throttle.limit(class, now))
        };
        assert_eq!(limits(&throttle, 0), [8, 16, u32::MAX, 4]);
        throttle.read_issued(0, 1);
        assert_eq!(limits(&throttle, 100 * MS - 1), [4, 16, u32::MAX, 4]);
        assert_eq!(limits(&throttle, 100 * MS), [8, 16, u32::MAX, 4]);
    }

    #[test]
    fn completions_wake_when_there_is_room_for_half_the_background() {
        let throttle = throttle();
        let woken: Vec<u32> = (0..10).filter(|left| throttle.wakes(*left)).collect();
        assert_eq!(woken, [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_queue_of_one_has_one_or_two() {
        let mut throttle = Throttle::new(2 * MS, 1);
        assert_eq!(throttle.limits(), (2, 2, 1));
        let mut now = 0;
        window(&mut throttle, &mut now, 3, Some(3));
        assert_eq!(throttle.limits(), (1, 1, 1));
    }
}
