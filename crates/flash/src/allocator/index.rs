//! Groups by an order: those of the largest buddy, and those of the average free run.
//!
//! The kernels before 6.17 keep lists, to whose end a group goes whenever its order changes; from
//! then on they keep arrays by group number. Both are here, and which group comes first differs.

const NONE: u32 = u32::MAX;

/// Groups of each order, in the one or the other order of succession.
#[derive(Debug, Clone)]
pub(crate) enum Index {
    Lists(Lists),
    Arrays(Arrays),
}

impl Index {
    /// Moves a group from one order to another; `None` is in no list.
    pub(crate) fn shift(&mut self, group: u32, from: Option<u32>, to: Option<u32>) {
        if from == to {
            return;
        }
        match self {
            Self::Lists(lists) => {
                if let Some(order) = from {
                    lists.remove(group, order);
                }
                if let Some(order) = to {
                    lists.append(group, order);
                }
            }
            Self::Arrays(arrays) => {
                if let Some(order) = from {
                    arrays.flip(group, order);
                }
                if let Some(order) = to {
                    arrays.flip(group, order);
                }
            }
        }
    }

    /// Returns the first group of an order that is in `range`, which only arrays are asked to keep to.
    pub(crate) fn first(&self, order: u32, range: std::ops::Range<u32>) -> Option<u32> {
        match self {
            Self::Lists(lists) => lists.ends.get(order as usize)?.0,
            Self::Arrays(arrays) => arrays.next(order, range.start),
        }
        .filter(|group| range.contains(group))
    }

    /// Returns the group after one of an order.
    pub(crate) fn after(&self, order: u32, group: u32) -> Option<u32> {
        match self {
            Self::Lists(lists) => Some(lists.links[group as usize].1).filter(|next| *next != NONE),
            Self::Arrays(arrays) => arrays.next(order, group + 1),
        }
    }
}

/// Linked lists: a group's neighbours, and each list's ends.
#[derive(Debug, Clone)]
pub(crate) struct Lists {
    links: Vec<(u32, u32)>,
    ends: Vec<(Option<u32>, Option<u32>)>,
}

impl Lists {
    pub(crate) fn new(groups: u32, orders: u32) -> Self {
        Self {
            links: vec![(NONE, NONE); groups as usize],
            ends: vec![(None, None); orders as usize],
        }
    }

    fn append(&mut self, group: u32, order: u32) {
        let (first, last) = &mut self.ends[order as usize];
        self.links[group as usize] = (last.unwrap_or(NONE), NONE);
        match *last {
            Some(last) => self.links[last as usize].1 = group,
            None => *first = Some(group),
        }
        *last = Some(group);
    }

    fn remove(&mut self, group: u32, order: u32) {
        let (before, after) = self.links[group as usize];
        let (first, last) = &mut self.ends[order as usize];
        if before == NONE {
            *first = Some(after).filter(|after| *after != NONE);
        } else {
            self.links[before as usize].1 = after;
        }
        if after == NONE {
            *last = Some(before).filter(|before| *before != NONE);
        } else {
            self.links[after as usize].0 = before;
        }
    }
}

/// One bit for each group and order, and one for each word of those that is not empty.
#[derive(Debug, Clone)]
pub(crate) struct Arrays {
    words: usize,
    bits: Vec<u64>,
    summary: Vec<u64>,
}

impl Arrays {
    pub(crate) fn new(groups: u32, orders: u32) -> Self {
        // A multiple of 64 words, so that each order has words of the summary for itself.
        let words = (groups as usize).div_ceil(4096) * 64;
        let all = words * orders as usize;
        Self { words, bits: vec![0; all], summary: vec![0; all / 64] }
    }

    fn flip(&mut self, group: u32, order: u32) {
        let word = order as usize * self.words + group as usize / 64;
        self.bits[word] ^= 1 << (group % 64);
        let mask = 1 << (word % 64);
        if self.bits[word] == 0 {
            self.summary[word / 64] &= !mask;
        } else {
            self.summary[word / 64] |= mask;
        }
    }

    /// Returns the first group of an order from `from` on.
    fn next(&self, order: u32, from: u32) -> Option<u32> {
        let base = order as usize * self.words;
        let (at, end) = (base + from as usize / 64, base + self.words);
        if at >= end {
            return None;
        }
        let number = |word: usize, bits: u64| (word - base) as u32 * 64 + bits.trailing_zeros();
        let rest = self.bits[at] & (u64::MAX << (from % 64));
        if rest != 0 {
            return Some(number(at, rest));
        }
        let mut from_word = at + 1;
        while from_word < end {
            let some = self.summary[from_word / 64] & (u64::MAX << (from_word % 64));
            if some != 0 {
                let word = from_word / 64 * 64 + some.trailing_zeros() as usize;
                return Some(number(word, self.bits[word]));
            }
            from_word = (from_word / 64 + 1) * 64;
        }
        None
    }
}
