//! Which units of a group are taken, and the free runs and buddies between them.

/// One bit a unit, set where it is taken.
#[derive(Debug, Clone)]
pub(crate) struct Bitmap {
    words: Box<[u64]>,
    units: u32,
}

/// Free units from `start` to `end`, taken ones or the group's edges around them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Bitmap {
    /// Returns an empty group of `units` units, a power of two.
    pub(crate) fn new(units: u32) -> Self {
        Self { words: vec![0; (units as usize).div_ceil(64)].into_boxed_slice(), units }
    }

    /// Takes or gives back a stretch.
    pub(crate) fn set(&mut self, start: u32, len: u32, taken: bool) {
        for unit in start..start + len {
            let bit = 1_u64 << (unit % 64);
            let word = &mut self.words[unit as usize / 64];
            *word = if taken { *word | bit } else { *word & !bit };
        }
    }

    /// Returns whether all of a stretch is taken.
    pub(crate) fn is_taken(&self, start: u32, len: u32) -> bool {
        self.next(start, false) >= start + len
    }

    /// Returns how many units are free from `start` on.
    pub(crate) fn free_from(&self, start: u32) -> u32 {
        self.next(start, true) - start
    }

    /// Yields the free runs in their order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = self.next(at, false);
            if start >= self.units {
                return None;
            }
            at = self.next(start, true);
            Some(Run { start, end: at })
        })
    }

    /// Returns the first unit from `from` on that is taken, or that is free; the end if none is.
    fn next(&self, from: u32, taken: bool) -> u32 {
        let mut at = from;
        while at < self.units {
            let word = self.words[at as usize / 64];
            let wanted = if taken { word } else { !word } >> (at % 64);
            if wanted != 0 {
                return (at + wanted.trailing_zeros()).min(self.units);
            }
            at = (at / 64 + 1) * 64;
        }
        self.units
    }
}

impl Run {
    /// Yields the buddies that a run is made of: the largest aligned powers of two.
    pub(crate) fn buddies(self) -> impl Iterator<Item = (u32, u32)> {
        let mut at = self.start;
        std::iter::from_fn(move || {
            if at >= self.end {
                return None;
            }
            let fits = (self.end - at).ilog2();
            let aligned = if at == 0 { fits } else { at.trailing_zeros() };
            let order = fits.min(aligned);
            let start = at;
            at += 1 << order;
            Some((start, order))
        })
    }

    /// Yields stretches of buddies that follow one another, each closed once it has `needed` units.
    pub(crate) fn stretches(self, needed: u32) -> impl Iterator<Item = Run> {
        let mut buddies = self.buddies();
        std::iter::from_fn(move || {
            let (start, order) = buddies.next()?;
            let mut end = start + (1 << order);
            while end - start < needed {
                let Some((_, order)) = buddies.next() else {
                    break;
                };
                end += 1 << order;
            }
            Some(Run { start, end })
        })
    }
}
