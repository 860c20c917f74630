//! Written data: bytes that neither compress nor repeat, and that can be predicted on reading.
//!
//! The content of a file is a pure function of (seed, file, offset):
//! ```text
//! file    |0        4 KiB      8 KiB            P         P + 4 KiB
//!         |SS rrrrr |SS rrrrr |SS rrr ... rrrrr |SS rrrrr |SS ...
//! pool    |0 ...................................|0 .........
//! ```
//! `r` is a pool of P = 1 MiB of random bytes, drawn once per file and used again every P; `S` is a stamp of
//! 24 bytes at the start of every 4 KiB block: seed, file, offset. A deduplicating store works in blocks of
//! 4 KiB or more and finds no two alike, a compressing one works in records of at most 1 MiB and finds
//! no repetition. Making a transfer costs one touched cache line per 4 KiB, so the generator does not become the bottleneck.

use crate::buffer::AlignedBuffer;
use std::io;

/// Every block of this size starts with a stamp.
pub const BLOCK_BYTES: usize = 4096;
/// Length after which the random part repeats.
pub const POOL_BYTES: usize = 1 << 20;
/// Seed, file and offset, 8 bytes each, little endian.
pub const STAMP_BYTES: usize = 24;

/// The finalizer of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).
pub fn mix64(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Which file of which run: what the content depends on besides the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Seed of the run.
    pub seed: u64,
    /// Number of the file: the task that writes it, 0 for a shared file.
    pub file: u64,
}

impl Identity {
    fn fill_pool(self, pool: &mut [u8]) {
        let stream = mix64(self.seed ^ mix64(self.file.wrapping_add(0x9e37_79b9_7f4a_7c15)));
        for (index, chunk) in pool.chunks_mut(8).enumerate() {
            let counter = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let bytes = mix64(stream.wrapping_add(counter)).to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }

    fn stamp(self, block_offset: u64) -> [u8; STAMP_BYTES] {
        let mut stamp = [0; STAMP_BYTES];
        stamp[..8].copy_from_slice(&self.seed.to_le_bytes());
        stamp[8..16].copy_from_slice(&self.file.to_le_bytes());
        stamp[16..].copy_from_slice(&block_offset.to_le_bytes());
        stamp
    }

    /// Calls `visit` with each part of a stamp within `[offset, offset + length)`: its place in the
    /// range and its bytes.
    fn for_each_stamp(self, offset: u64, length: usize, mut visit: impl FnMut(usize, &[u8])) {
        let end = offset + length as u64;
        let mut block = offset - offset % BLOCK_BYTES as u64;
        while block < end {
            let stamp = self.stamp(block);
            let from = offset.saturating_sub(block).min(STAMP_BYTES as u64);
            let to = (end - block).min(STAMP_BYTES as u64);
            if from < to {
                let place = (block + from - offset) as usize;
                visit(place, &stamp[from as usize..to as usize]);
            }
            block += BLOCK_BYTES as u64;
        }
    }
}

/// The random part for one file, long enough that any transfer of one size is a contiguous slice of it.
pub struct Pattern {
    identity: Identity,
    pool: AlignedBuffer,
}

impl Pattern {
    /// Pattern of one file for transfers of `transfer_bytes` at multiples of it; memory is at most 1 MiB more than a transfer.
    pub fn new(identity: Identity, transfer_bytes: usize) -> io::Result<Self> {
        let mut pool = AlignedBuffer::new(Self::memory_bytes(transfer_bytes))?;
        let once = pool.len().min(POOL_BYTES);
        identity.fill_pool(&mut pool[..once]);
        let mut filled = once;
        while filled < pool.len() {
            let more = (pool.len() - filled).min(POOL_BYTES);
            pool.copy_within(..more, filled);
            filled += more;
        }
        Ok(Self { identity, pool })
    }

    /// Memory of a pattern: the pool alone where no transfer can cross its end.
    pub fn memory_bytes(transfer_bytes: usize) -> usize {
        if POOL_BYTES % transfer_bytes == 0 {
            POOL_BYTES
        } else if transfer_bytes % POOL_BYTES == 0 {
            transfer_bytes
        } else {
            POOL_BYTES + transfer_bytes
        }
    }

    fn position(offset: u64) -> usize {
        (offset % POOL_BYTES as u64) as usize
    }

    /// The bytes to write at `offset`, stamped.
    pub fn transfer(&mut self, offset: u64, length: usize) -> &[u8] {
        let start = Self::position(offset);
        let slice = &mut self.pool[start..start + length];
        self.identity.for_each_stamp(offset, length, |place, bytes| {
            slice[place..place + bytes.len()].copy_from_slice(bytes);
        });
        slice
    }

    /// Number of bytes of `read` that differ from what belongs at `offset`, and the file offset of the first.
    pub fn differences(&mut self, offset: u64, read: &[u8]) -> (u64, Option<u64>) {
        let expected = self.transfer(offset, read.len());
        if expected == read {
            return (0, None);
        }
        let mut different = 0;
        let mut first = None;
        for (index, (byte, actual)) in expected.iter().zip(read).enumerate() {
            if byte != actual {
                different += 1;
                first.get_or_insert(offset + index as u64);
            }
        }
        (different, first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    const IDENTITY: Identity = Identity { seed: 42, file: 3 };

    /// The slow obvious twin: one byte of a file.
    fn byte_at(identity: Identity, pool: &[u8], offset: u64) -> u8 {
        let in_block = (offset % BLOCK_BYTES as u64) as usize;
        if in_block < STAMP_BYTES {
            return identity.stamp(offset - in_block as u64)[in_block];
        }
        pool[(offset % POOL_BYTES as u64) as usize]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn content_depends_on_the_offset_alone(transfer in 1_usize..3_000_000, index in 0_u64..9) {
            let mut pool = vec![0; POOL_BYTES];
            IDENTITY.fill_pool(&mut pool);
            let offset = index * transfer as u64;
            let mut pattern = Pattern::new(IDENTITY, transfer).unwrap();
            let wrong = pattern.transfer(offset, transfer).iter().enumerate()
                .find(|&(place, &byte)| byte != byte_at(IDENTITY, &pool, offset + place as u64));
            prop_assert_eq!(wrong, None);
        }
    }

    #[test]
    fn a_single_flipped_bit_is_found_where_it_is() {
        let mut pattern = Pattern::new(IDENTITY, 65536).unwrap();
        let mut read = pattern.transfer(65536, 65536).to_vec();
        assert_eq!(pattern.differences(65536, &read), (0, None));
        read[5000] ^= 4;
        read[60000] ^= 1;
        assert_eq!(pattern.differences(65536, &read), (2, Some(65536 + 5000)));
    }

    #[test]
    fn no_two_blocks_of_two_files_are_alike() {
        let mut seen = HashSet::new();
        for file in 0..2 {
            let mut pattern = Pattern::new(Identity { seed: 1, file }, POOL_BYTES).unwrap();
            for transfer in 0..4 {
                let bytes = pattern.transfer(transfer * POOL_BYTES as u64, POOL_BYTES);
                for block in bytes.chunks(BLOCK_BYTES) {
                    assert!(seen.insert(block.to_vec()));
                }
            }
        }
    }

    #[test]
    fn bytes_are_evenly_spread() {
        let mut counts = [0_u32; 256];
        let mut pool = vec![0; POOL_BYTES];
        IDENTITY.fill_pool(&mut pool);
        pool.iter().for_each(|&byte| counts[byte as usize] += 1);
        // Chi-squared with 255 degrees of freedom: beyond 390 has a probability of 1e-7.
        let expected = POOL_BYTES as f64 / 256.0;
        let chi_squared: f64 =
            counts.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
        assert!(chi_squared < 390.0, "chi squared {chi_squared}");
    }
}
