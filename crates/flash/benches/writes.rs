//! How many units a drive takes a second, beside the loop that no page-exact drive can do without.
//!
//! The bound: for each write one look-up and one store at a random place of the map, and one
//! superblock moved from one list to the next. Nothing is copied, nothing erased. Both run in turns;
//! one JSON object comes out.

use flash::{Drive, Geometry, Settings, workload::Workload};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::hint::black_box;
use std::time::Instant;

const SPARE: f64 = 0.12;
const UNITS: u32 = 256;
const WRITES: u64 = 10_000_000;
const ROUNDS: usize = 9;

fn main() {
    let sizes: Vec<String> = [1024, 8192, 65536].map(one_size).to_vec();
    println!(
        "{{\"spare\": {SPARE}, \"units\": {UNITS}, \"writes\": {WRITES}, \"rounds\": {ROUNDS}, \
         \"sizes\": [{}]}}",
        sizes.join(", ")
    );
}

fn one_size(superblocks: u32) -> String {
    let geometry = Geometry::new(superblocks, UNITS, SPARE).expect("there is such a drive");
    let mut drive = Drive::new(geometry, Settings::default());
    let mut host = Workload::new(geometry.logical(), 1.0, None, 1).expect("there is such a host");
    host.fill(&mut drive).expect("of its size");
    host.run(&mut drive, 6 * u64::from(geometry.logical())).expect("of its size");
    let mut bound = Bound::new(superblocks, geometry.logical());
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let before = drive.counts();
    for _ in 0..ROUNDS {
        ours.push(rate(|| host.run(&mut drive, WRITES).expect("of its size")));
        theirs.push(rate(|| bound.run(WRITES)));
    }
    let after = drive.counts();
    let amplification =
        1.0 + (after.copied - before.copied) as f64 / (after.written - before.written) as f64;
    let (ours, theirs) = (median(ours), median(theirs));
    format!(
        "{{\"superblocks\": {superblocks}, \"logical\": {}, \"amplification\": {amplification:.4}, \
         \"host_writes_per_s\": {ours:.4e}, \"flash_writes_per_s\": {:.4e}, \
         \"bound_per_s\": {theirs:.4e}, \"ratio\": {:.3}}}",
        geometry.logical(),
        ours * amplification,
        ours / theirs
    )
}

fn rate(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    WRITES as f64 / began.elapsed().as_secs_f64()
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Minimum work of a page-exact drive per write.
struct Bound {
    draws: Xoshiro256PlusPlus,
    map: Vec<u32>,
    count: Vec<u32>,
    head: Vec<u32>,
    next: Vec<u32>,
    before: Vec<u32>,
}

const NIL: u32 = u32::MAX;

impl Bound {
    fn new(superblocks: u32, logical: u32) -> Self {
        let links = vec![NIL; superblocks as usize];
        let mut bound = Self {
            draws: Xoshiro256PlusPlus::seed_from_u64(2),
            map: (0..logical).collect(),
            count: vec![UNITS; superblocks as usize],
            head: vec![NIL; UNITS as usize + 1],
            next: links.clone(),
            before: links,
        };
        for superblock in 0..superblocks {
            bound.push(superblock, UNITS);
        }
        bound
    }

    fn run(&mut self, writes: u64) {
        let end = self.map.len() as u64;
        for number in 0..writes {
            let unit = (((self.draws.next_u64() >> 32) * end) >> 32) as usize;
            let superblock = self.map[unit] / UNITS;
            self.map[unit] = black_box(number % end) as u32;
            let count = self.count[superblock as usize];
            self.unlink(superblock, count);
            // Round and round: no superblock runs empty, none is cleaned.
            let now = if count == 0 { UNITS } else { count - 1 };
            self.count[superblock as usize] = now;
            self.push(superblock, now);
        }
    }

    fn push(&mut self, superblock: u32, count: u32) {
        let first = self.head[count as usize];
        self.next[superblock as usize] = first;
        self.before[superblock as usize] = NIL;
        if first != NIL {
            self.before[first as usize] = superblock;
        }
        self.head[count as usize] = superblock;
    }

    fn unlink(&mut self, superblock: u32, count: u32) {
        let (before, next) = (self.before[superblock as usize], self.next[superblock as usize]);
        if before == NIL {
            self.head[count as usize] = next;
        } else {
            self.next[before as usize] = next;
        }
        if next != NIL {
            self.before[next as usize] = before;
        }
    }
}
