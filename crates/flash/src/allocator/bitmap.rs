//! Bits of a group, one a unit and set where it is taken, and the free runs and buddies between them.

/// Free units from `start` to `end`, taken ones or the group's edges around them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// Words of 64 bits that hold so many units.
pub(crate) fn words(units: u32) -> usize {
    (units as usize).div_ceil(64)
}

/// Takes or gives back a stretch.
pub(crate) fn set(bits: &mut [u64], start: u32, end: u32, taken: bool) {
    let (first, last) = (start as usize / 64, (end as usize - 1) / 64);
    for (index, word) in bits.iter_mut().enumerate().take(last + 1).skip(first) {
        let mut mask = u64::MAX;
        if index == first {
            mask &= u64::MAX << (start % 64);
        }
        if index == last {
            mask &= u64::MAX >> (63 - (end - 1) % 64);
        }
        *word = if taken { *word | mask } else { *word & !mask };
    }
}

/// Returns the first unit from `from` on that is taken, or that is free; `units` if none is.
pub(crate) fn next(bits: &[u64], units: u32, from: u32, taken: bool) -> u32 {
    if from >= units {
        return units;
    }
    let flip = if taken { 0 } else { u64::MAX };
    let mut index = from as usize / 64;
    let mut word = (bits[index] ^ flip) & (u64::MAX << (from % 64));
    while word == 0 {
        index += 1;
        if index == bits.len() {
            return units;
        }
        word = bits[index] ^ flip;
    }
    (index as u32 * 64 + word.trailing_zeros()).min(units)
}

/// Returns the start of the free run that ends right before `at`; `at` if there is no such run.
pub(crate) fn run_start(bits: &[u64], at: u32) -> u32 {
    if at == 0 {
        return 0;
    }
    let mut index = (at as usize - 1) / 64;
    let mut word = bits[index] & (u64::MAX >> (63 - (at - 1) % 64));
    while word == 0 {
        if index == 0 {
            return 0;
        }
        index -= 1;
        word = bits[index];
    }
    index as u32 * 64 + 64 - word.leading_zeros()
}

/// Yields the free runs in their order.
pub(crate) fn runs(bits: &[u64]) -> impl Iterator<Item = Run> {
    let (mut index, mut free) = (0, !bits[0]);
    std::iter::from_fn(move || {
        while free == 0 {
            index += 1;
            free = !*bits.get(index)?;
        }
        let first = free.trailing_zeros();
        let start = index as u32 * 64 + first;
        let mut end = first + (free >> first).trailing_ones();
        while end == 64 {
            index += 1;
            free = bits.get(index).map_or(0, |word| !word);
            end = free.trailing_ones();
        }
        // Keep only the part of this word that comes after the run.
        free &= u64::MAX << end;
        Some(Run { start, end: index as u32 * 64 + end })
    })
}

/// Returns the first free buddy of exactly this order: one that is not half of a larger one.
pub(crate) fn first_buddy(bits: &[u64], order: u32, top: u32) -> Option<u32> {
    if order < 6 {
        return bits.iter().enumerate().find_map(|(index, word)| {
            let starts = small_buddies(!word, order, top);
            (starts != 0).then(|| index as u32 * 64 + starts.trailing_zeros())
        });
    }
    let size = 1_usize << (order - 6);
    let is_free =
        |chunk: usize| bits[chunk * size..(chunk + 1) * size].iter().all(|word| *word == 0);
    (0..bits.len() / size)
        .find(|chunk| is_free(*chunk) && (order == top || !is_free(*chunk ^ 1)))
        .map(|chunk| (chunk * size) as u32 * 64)
}

/// Returns the first units of the buddies of an order inside of one word of free units.
fn small_buddies(free: u64, order: u32, top: u32) -> u64 {
    /// Every unit, every second, fourth, and so on.
    const ALIGNED: [u64; 7] = [
        u64::MAX,
        0x5555_5555_5555_5555,
        0x1111_1111_1111_1111,
        0x0101_0101_0101_0101,
        0x0001_0001_0001_0001,
        0x0000_0001_0000_0001,
        1,
    ];
    let mut starts = free;
    for step in 0..order {
        starts &= (starts >> (1 << step)) & ALIGNED[step as usize + 1];
    }
    if order == top {
        return starts;
    }
    let pairs = starts & (starts >> (1 << order)) & ALIGNED[order as usize + 1];
    starts & !(pairs | pairs << (1 << order))
}

impl Run {
    /// Yields the buddies that a run is made of: the largest aligned powers of two, up to `top`.
    pub(crate) fn buddies(self, top: u32) -> impl Iterator<Item = (u32, u32)> {
        let mut at = self.start;
        std::iter::from_fn(move || {
            if at >= self.end {
                return None;
            }
            let order = (self.end - at).ilog2().min(at.trailing_zeros()).min(top);
            let start = at;
            at += 1 << order;
            Some((start, order))
        })
    }

    /// Yields stretches of buddies that follow one another, each closed once it has `needed` units.
    pub(crate) fn stretches(self, needed: u32, top: u32) -> impl Iterator<Item = Run> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let start = rest.start;
            if start >= rest.end {
                return None;
            }
            // Most runs are shorter than what is needed: all of their buddies make one stretch.
            if rest.end - start <= needed {
                rest.start = rest.end;
            } else {
                let mut buddies = rest.buddies(top);
                while rest.start - start < needed {
                    rest.start += buddies.next().map_or(0, |(_, order)| 1 << order);
                }
            }
            Some(Run { start, end: rest.start })
        })
    }
}
