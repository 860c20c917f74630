//! Two packings of whole numbers in Parquet: runs of few bits, and differences.
//!
//! ```text
//!   hybrid:  header, even: header/2 times the same value
//!                    odd:  header/2 times 8 values of `width` bits each
//!   delta:   values a block, stretches a block, count, first value,
//!            then blocks of (least difference, a width for each stretch, the stretches' bits)
//! ```
//! Nothing here trusts its input: data that end early or make no sense are an error, and no count
//! is believed before the bytes behind it exist. Format: Apache Parquet, `Encodings.md`.

use bytes::Bytes;

/// Why bytes could not be decoded.
pub(crate) type Broken = &'static str;

const ENDS_EARLY: Broken = "ends early";

/// A number of seven bits a byte, the lowest first.
fn varint(data: &[u8], at: &mut usize) -> Result<u64, Broken> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *data.get(*at).ok_or(ENDS_EARLY)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("holds a number of more than 64 bits")
}

fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Eight bytes from `at`; bytes behind the end are 0.
#[inline]
fn word(data: &[u8], at: usize) -> u64 {
    if let Some(bytes) = data.get(at..at + 8) {
        return u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    }
    let mut bytes = [0; 8];
    let rest = data.get(at..).unwrap_or(&[]);
    bytes[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(bytes)
}

/// The value of `width` bits that begins at a bit.
fn field(data: &[u8], bit: usize, width: u32) -> u64 {
    if width == 0 {
        return 0;
    }
    let (at, shift) = (bit / 8, (bit % 8) as u32);
    let mut value = word(data, at) >> shift;
    if shift + width > 64 {
        value |= u64::from(data.get(at + 8).copied().unwrap_or(0)) << (64 - shift);
    }
    value & (u64::MAX >> (64 - width))
}

/// Contents of the rest of a run.
enum Run {
    Same(u32),
    /// Values one after another from a bit on.
    Packed(usize),
}

/// Levels, or places in a dictionary.
pub(crate) struct Hybrid {
    data: Bytes,
    at: usize,
    width: u32,
    run: Run,
    /// Values of the run that were not read yet.
    left: usize,
}

impl Hybrid {
    /// Begins to decode values of `width` bits.
    pub(crate) fn new(data: Bytes, width: u32) -> Result<Self, Broken> {
        if width > 32 {
            return Err("holds places of more than 32 bits");
        }
        Ok(Self { data, at: 0, width, run: Run::Same(0), left: 0 })
    }

    /// The value that the next `count` all have, where that is known without looking at each.
    pub(crate) fn same(&mut self, count: usize) -> Result<Option<u32>, Broken> {
        self.next_run()?;
        match self.run {
            Run::Same(value) if self.left >= count => {
                self.left -= count;
                Ok(Some(value))
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn read(&mut self, count: usize, out: &mut Vec<u32>) -> Result<(), Broken> {
        self.advance(count, |data, width, run, taken| match run {
            Run::Same(value) => out.resize(out.len() + taken, *value),
            Run::Packed(bit) => unpack(data, *bit, width, taken, out),
        })
    }

    pub(crate) fn skip(&mut self, count: usize) -> Result<(), Broken> {
        self.advance(count, |_, _, _, _| ())
    }

    fn advance(
        &mut self,
        mut count: usize,
        mut take: impl FnMut(&[u8], u32, &Run, usize),
    ) -> Result<(), Broken> {
        while count > 0 {
            self.next_run()?;
            let taken = count.min(self.left);
            take(&self.data, self.width, &self.run, taken);
            if let Run::Packed(bit) = &mut self.run {
                *bit += taken * self.width as usize;
            }
            self.left -= taken;
            count -= taken;
        }
        Ok(())
    }

    fn next_run(&mut self) -> Result<(), Broken> {
        while self.left == 0 {
            let header = varint(&self.data, &mut self.at)?;
            let count = usize::try_from(header >> 1).map_err(|_| ENDS_EARLY)?;
            if count == 0 {
                return Err("holds an empty run");
            }
            if header & 1 == 1 { self.packed(count)? } else { self.repeated(count)? }
        }
        Ok(())
    }

    fn repeated(&mut self, left: usize) -> Result<(), Broken> {
        let bytes = self.width.div_ceil(8) as usize;
        if self.data.len() - self.at < bytes {
            return Err(ENDS_EARLY);
        }
        // At most 32 bits are read.
        let value = field(&self.data, self.at * 8, bytes as u32 * 8) as u32;
        self.at += bytes;
        (self.run, self.left) = (Run::Same(value), left);
        Ok(())
    }

    fn packed(&mut self, groups: usize) -> Result<(), Broken> {
        let bit = self.at * 8;
        let bytes = groups.checked_mul(self.width as usize).ok_or(ENDS_EARLY)?;
        if self.width == 0 {
            (self.run, self.left) = (Run::Same(0), groups.saturating_mul(8));
            return Ok(());
        }
        // Some writers cut off the padding of the last group: count only whole values that exist.
        let present = bytes.min(self.data.len() - self.at);
        self.left = groups.saturating_mul(8).min(present * 8 / self.width as usize);
        if self.left == 0 {
            return Err(ENDS_EARLY);
        }
        self.at += present;
        self.run = Run::Packed(bit);
        Ok(())
    }
}

fn unpack(data: &[u8], mut bit: usize, width: u32, count: usize, out: &mut Vec<u32>) {
    let mask = u64::MAX >> (64 - width);
    out.extend((0..count).map(|_| {
        // A value of at most 32 bits begins in the first 8 of a word: it does not reach beyond it.
        let value = (word(data, bit / 8) >> (bit % 8)) & mask;
        bit += width as usize;
        value as u32
    }));
}

/// Whole numbers as differences of each from the one before.
pub(crate) struct Delta {
    data: Bytes,
    at: usize,
    stretches: usize,
    stretch_length: usize,
    /// Values that have not been read yet.
    left: usize,
    last: i64,
    first: bool,
    least: i64,
    /// The widths of this block's stretches, and which of them comes next.
    widths: Vec<u8>,
    next: usize,
    /// The differences of the current stretch that have not been used yet.
    held: Vec<i64>,
    used: usize,
}

impl Delta {
    pub(crate) fn new(data: Bytes) -> Result<Self, Broken> {
        let mut at = 0;
        let block = varint(&data, &mut at)?;
        let stretches = varint(&data, &mut at)?;
        let left = varint(&data, &mut at)?;
        let last = zigzag(varint(&data, &mut at)?);
        if !(1..=1 << 16).contains(&block) || stretches == 0 || block % stretches != 0 {
            return Err("has blocks of an impossible size");
        }
        let stretch_length = (block / stretches) as usize;
        if stretch_length % 8 != 0 {
            return Err("has blocks of an impossible size");
        }
        Ok(Self {
            data,
            at,
            stretches: stretches as usize,
            stretch_length,
            left: usize::try_from(left).map_err(|_| ENDS_EARLY)?,
            last,
            first: true,
            least: 0,
            widths: Vec::new(),
            next: 0,
            held: Vec::new(),
            used: 0,
        })
    }

    /// How many values it holds that were not read yet.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Appends the next `count` values, each through `map`.
    pub(crate) fn read<T>(
        &mut self,
        count: usize,
        out: &mut Vec<T>,
        mut map: impl FnMut(i64) -> T,
    ) -> Result<(), Broken> {
        if count > self.left {
            return Err(ENDS_EARLY);
        }
        let mut missing = count;
        if missing > 0 && self.first {
            self.first = false;
            out.push(map(self.last));
            missing -= 1;
        }
        while missing > 0 {
            if self.used == self.held.len() {
                self.next_stretch()?;
            }
            let taken = missing.min(self.held.len() - self.used);
            let mut last = self.last;
            out.extend(self.held[self.used..self.used + taken].iter().map(|difference| {
                last = last.wrapping_add(*difference);
                map(last)
            }));
            self.last = last;
            self.used += taken;
            missing -= taken;
        }
        self.left -= count;
        Ok(())
    }

    fn next_stretch(&mut self) -> Result<(), Broken> {
        if self.next == self.widths.len() {
            self.least = zigzag(varint(&self.data, &mut self.at)?);
            let widths = self.data.get(self.at..self.at + self.stretches).ok_or(ENDS_EARLY)?;
            self.widths.clear();
            self.widths.extend_from_slice(widths);
            self.at += self.stretches;
            self.next = 0;
        }
        let width = u32::from(self.widths[self.next]);
        self.next += 1;
        if width > 64 {
            return Err("holds differences of more than 64 bits");
        }
        let bytes = self.stretch_length / 8 * width as usize;
        // The last stretch may end with its last value.
        let present = bytes.min(self.data.len() - self.at);
        let stretch = self.data.slice(self.at..self.at + present);
        let whole = if width == 0 { self.stretch_length } else { present * 8 / width as usize };
        if whole == 0 {
            return Err(ENDS_EARLY);
        }
        self.held.clear();
        self.used = 0;
        differences(&stretch, width, whole.min(self.stretch_length), self.least, &mut self.held);
        self.at += present;
        Ok(())
    }

    /// The bytes behind its values; call it only once all values were read.
    pub(crate) fn rest(self) -> Bytes {
        // Stretches of the last block that hold no value have a width and no bytes.
        self.data.slice(self.at.min(self.data.len())..)
    }
}

fn differences(data: &[u8], width: u32, count: usize, least: i64, out: &mut Vec<i64>) {
    if width == 0 {
        out.resize(count, least);
    } else if width <= 56 {
        let (mask, mut bit) = (u64::MAX >> (64 - width), 0);
        out.extend((0..count).map(|_| {
            let value = (word(data, bit / 8) >> (bit % 8)) & mask;
            bit += width as usize;
            (value as i64).wrapping_add(least)
        }));
    } else {
        let all = (0..count).map(|n| field(data, n * width as usize, width) as i64);
        out.extend(all.map(|value| value.wrapping_add(least)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(values: &[u64], width: u32) -> Vec<u8> {
        let mut bits = vec![0u8; (values.len() * width as usize).div_ceil(8)];
        for (n, value) in values.iter().enumerate() {
            for bit in 0..width as usize {
                let place = n * width as usize + bit;
                bits[place / 8] |= ((value >> bit & 1) as u8) << (place % 8);
            }
        }
        bits
    }

    #[test]
    fn a_field_of_any_width_is_found_at_any_bit() {
        for width in 1..=64 {
            let mask = u64::MAX >> (64 - width);
            let values: Vec<u64> =
                (1..=20u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask).collect();
            let data = packed(&values, width);
            for (n, value) in values.iter().enumerate() {
                assert_eq!(field(&data, n * width as usize, width), *value, "{width}");
            }
        }
    }

    #[test]
    fn runs_of_both_kinds_are_read_in_pieces() {
        let mut data = vec![10, 3]; // five times 3
        data.push(0b11); // one group of eight
        data.extend(packed(&[0, 1, 2, 3, 3, 2, 1, 0], 2));
        for piece in 1..=13 {
            let mut hybrid = Hybrid::new(Bytes::from(data.clone()), 2).unwrap();
            let mut out = Vec::new();
            while out.len() < 13 {
                hybrid.read(piece.min(13 - out.len()), &mut out).unwrap();
            }
            assert_eq!(out, [3, 3, 3, 3, 3, 0, 1, 2, 3, 3, 2, 1, 0]);
            assert_eq!(hybrid.read(1, &mut out), Err(ENDS_EARLY));
        }
    }

    #[test]
    fn a_run_of_the_same_is_told_at_once() {
        let mut hybrid = Hybrid::new(Bytes::from_static(&[20, 1, 4, 0]), 1).unwrap();
        assert_eq!(hybrid.same(7), Ok(Some(1)));
        assert_eq!(hybrid.same(4), Ok(None));
        let mut out = Vec::new();
        hybrid.read(5, &mut out).unwrap();
        assert_eq!(out, [1, 1, 1, 0, 0]);
    }

    #[test]
    fn rubbish_is_an_error_and_never_a_panic() {
        let mut state = 88_172_645_463_325_252u64;
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..24)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    state as u8
                })
                .collect();
            let width = u32::from(bytes[0] % 34);
            if let Ok(mut hybrid) = Hybrid::new(Bytes::from(bytes.clone()), width) {
                let _ = hybrid.read(300, &mut Vec::new());
            }
            if let Ok(mut delta) = Delta::new(Bytes::from(bytes)) {
                let _ = delta.read(300, &mut Vec::new(), |value| value);
            }
        }
    }
}
