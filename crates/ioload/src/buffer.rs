//! Memory that direct I/O accepts: page-aligned, faulted in before the clock starts.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// An anonymous mapping of zeros, aligned to a page.
///
/// Huge pages are not asked for on purpose. A direct transfer of 1 MiB from one huge page reaches the device as one
/// request, from 256 ordinary pages often as several (`queue/max_segments`): measured here up to 1.5 times the
/// bandwidth, which no program with ordinary buffers (fio, IOR, applications) would see.
pub struct AlignedBuffer {
    start: NonNull<u8>,
    length_bytes: usize,
    mapped_bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and has no thread affinity.
unsafe impl Send for AlignedBuffer {}

impl AlignedBuffer {
    /// A buffer of `length_bytes` zeros with all its pages present; fails with ENOMEM.
    pub fn new(length_bytes: usize) -> io::Result<Self> {
        let mapped_bytes = length_bytes.max(1);
        let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice aliases nothing.
        let address = unsafe { mmap_anonymous(std::ptr::null_mut(), mapped_bytes, access, kind) }?;
        let start =
            NonNull::new(address.cast::<u8>()).expect("mmap never returns address 0 unasked");
        let mut buffer = Self { start, length_bytes, mapped_bytes };
        // Writing every page brings it in now instead of inside the timed region.
        buffer.fill(0);
        Ok(buffer)
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is at least `length_bytes` long, initialised, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length_bytes) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length_bytes) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new` and no reference outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.mapped_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_page_aligned_and_writable_to_its_last_byte() {
        for length in [1, 4096, (1 << 20) + 1] {
            let mut buffer = AlignedBuffer::new(length).unwrap();
            assert_eq!(buffer.as_ptr() as usize % 4096, 0);
            assert_eq!(buffer.len(), length);
            buffer[length - 1] = 7;
            assert_eq!(buffer.iter().filter(|&&byte| byte != 0).count(), 1);
        }
    }
}
