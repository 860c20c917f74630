//! How long one request to the block allocator takes, by family and fullness.
//!
//! Groups of 2,048 units whose files come and go; requests are for 16 units, as a write of 1 MiB in
//! units of 64 KiB. The time is that of a request and of the units given back for it.

use flash::allocator::{Allocator, Extent, Family, Request, Settings};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const GROUPS: u32 = 256;
const UNITS: u32 = 2048;
const REQUEST: u32 = 16;
const LARGEST: u32 = 4096;

fn main() {
    let families = [Family::Classic, Family::OptimizeScan, Family::El9, Family::Ordered];
    let rows: Vec<String> = families.into_iter().flat_map(one_family).collect();
    println!("{{\"groups\": {GROUPS}, \"units\": {UNITS}, \"rows\": [{}]}}", rows.join(", "));
}

fn one_family(family: Family) -> Vec<String> {
    // A request of 1 MiB is for a whole buddy here as it is with 256 blocks of 4 KiB.
    let mut site = Site::new(Settings { order2_bits: 4, ..Settings::of(family) });
    let name = family.name();
    [0.60, 0.75, 0.85, 0.95]
        .into_iter()
        .map(|full| {
            site.age(full, 1.5);
            let (before, began) = (site.blocks.counts(), processor_nanoseconds());
            site.age(full, 3.0);
            let nanoseconds = processor_nanoseconds() - began;
            let now = site.blocks.counts();
            let requests = (now.requests - before.requests) as f64;
            let useless: u64 = now.useless.iter().zip(before.useless).map(|(a, b)| a - b).sum();
            format!(
                "{{\"family\": \"{name}\", \"full\": {full}, \"ns_per_request\": {:.0}, \
                 \"useless_per_1000\": {:.1}}}",
                nanoseconds / requests,
                1000.0 * useless as f64 / requests
            )
        })
        .collect()
}

/// Time on a processor so far: other programs on the machine do not count.
fn processor_nanoseconds() -> f64 {
    let statistics = std::fs::read_to_string("/proc/self/schedstat").expect("Linux has this file");
    let first = statistics.split_whitespace().next().and_then(|number| number.parse().ok());
    first.expect("it is a number")
}

struct Site {
    blocks: Allocator,
    draws: Xoshiro256PlusPlus,
    files: Vec<Vec<Extent>>,
}

impl Site {
    fn new(settings: Settings) -> Self {
        Self {
            blocks: Allocator::new(GROUPS, UNITS, settings).expect("there is such a file system"),
            draws: Xoshiro256PlusPlus::seed_from_u64(1),
            files: Vec::new(),
        }
    }

    fn age(&mut self, full: f64, capacities: f64) {
        let whole = u64::from(GROUPS) * u64::from(UNITS);
        let mut left = (capacities * whole as f64) as i64;
        while left > 0 {
            left -= i64::from(self.write());
            while (self.blocks.free_units() as f64) < (1.0 - full) * whole as f64 {
                self.delete();
            }
        }
    }

    /// Log-normal sizes, nearly: a power of two of a sum of uniform draws.
    fn write(&mut self) -> u32 {
        let normal: f64 = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
        let size = ((2.0 + 2.2 * normal).exp() as u32).clamp(1, LARGEST);
        let mut extents: Vec<Extent> = Vec::new();
        let mut left = size;
        while left > 0 {
            let goal = extents.last().map(|last| (last.group, last.start + last.len));
            let goal = goal.filter(|(_, start)| *start < UNITS);
            let length = left.min(REQUEST);
            let request = Request { goal, stream: Some(0), ..Request::of(length) };
            let Ok(Some(extent)) = self.blocks.serve(&request) else { break };
            left -= extent.len;
            extents.push(extent);
        }
        self.files.push(extents);
        size
    }

    fn delete(&mut self) {
        let place = (self.uniform() * self.files.len() as f64) as usize;
        for extent in self.files.swap_remove(place) {
            self.blocks.release(extent).expect("it is taken");
        }
    }

    fn uniform(&mut self) -> f64 {
        (self.draws.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
