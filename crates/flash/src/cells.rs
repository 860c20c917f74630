//! Numbers of many drives, one drive's after the other's in one block of memory.
//!
//! A drive looks up its units in no order, and the drives of a large file system take more memory
//! than a processor's caches hold. In one block the system gives large pages, and to find the memory
//! of a number takes a third of the time less than for each drive by itself.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// One owner's range of numbers in a block.
#[derive(Debug)]
pub(crate) struct Cells {
    first: NonNull<u32>,
    length: usize,
    block: Arc<Block>,
}

/// All numbers; freed when the last owner of some is gone.
#[derive(Debug)]
struct Block {
    first: NonNull<u32>,
    length: usize,
    capacity: usize,
}

impl Cells {
    /// Returns so many numbers each, all of them `value`, in one block.
    pub(crate) fn block(lengths: &[usize], value: u32) -> Vec<Self> {
        let length = lengths.iter().sum();
        let mut numbers = Vec::with_capacity(length);
        advise_large_pages(&mut numbers);
        numbers.resize(length, value);
        let mut numbers = std::mem::ManuallyDrop::new(numbers);
        let first = NonNull::new(numbers.as_mut_ptr()).expect("a Vec has a place");
        let capacity = numbers.capacity();
        let block = Arc::new(Block { first, length, capacity });
        let mut begun = 0;
        lengths
            .iter()
            .map(|length| {
                // SAFETY: the lengths add up to that of the block, so it has `begun` numbers.
                let first = unsafe { block.first.add(begun) };
                begun += length;
                Self { first, length: *length, block: Arc::clone(&block) }
            })
            .collect()
    }
}

impl Clone for Cells {
    fn clone(&self) -> Self {
        let mut copy = Self::block(&[self.length], 0).pop().expect("one was asked for");
        copy.copy_from_slice(self);
        copy
    }
}

impl Deref for Cells {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        debug_assert!(self.length <= self.block.length);
        // SAFETY: these numbers are in a block that lives as long as its owners; `block` gives each
        // number to one owner alone, and this borrows the owner.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.length) }
    }
}

impl DerefMut for Cells {
    fn deref_mut(&mut self) -> &mut [u32] {
        // SAFETY: as in `deref`; the owner is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.length) }
    }
}

// SAFETY: an owner is the only way to its numbers, and they are plain.
unsafe impl Send for Cells {}
// SAFETY: likewise; a shared owner only reads.
unsafe impl Sync for Cells {}
// SAFETY: no thread reads or writes through a block; its last owner frees it.
unsafe impl Send for Block {}
// SAFETY: likewise.
unsafe impl Sync for Block {}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: these are the parts of a `Vec` that was never freed, and no owner is left.
        drop(unsafe { Vec::from_raw_parts(self.first.as_ptr(), self.length, self.capacity) });
    }
}

/// Asks the system for large pages beneath the room of some numbers; it may not have any.
fn advise_large_pages(numbers: &mut Vec<u32>) {
    const LARGE: usize = 2 << 20;
    let room = numbers.spare_capacity_mut();
    let (first, end) = (room.as_mut_ptr_range().start.addr(), room.as_mut_ptr_range().end.addr());
    let (from, to) = (first.next_multiple_of(LARGE), end / LARGE * LARGE);
    if from < to {
        let start = room.as_mut_ptr().wrapping_byte_add(from - first);
        // SAFETY: it is memory of this `Vec`, and the advice changes nothing of what it holds.
        unsafe { libc::madvise(start.cast(), to - from, libc::MADV_HUGEPAGE) };
    }
}

/// Has a number brought near, for who needs it soon; a place that is not there is nothing.
#[inline]
pub(crate) fn fetch<T>(values: &[T], place: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(value) = values.get(place) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing, and the value exists.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, place);
}

#[cfg(test)]
mod tests {
    use super::Cells;

    #[test]
    fn each_owner_has_its_own_numbers() {
        let mut owners = Cells::block(&[3, 0, 1 << 20, 5], 7);
        for (owner, value) in owners.iter_mut().zip(0..) {
            assert!(owner.iter().all(|number| *number == 7));
            owner.fill(value);
        }
        let copy = owners[0].clone();
        owners[0].fill(9);
        let last = owners.pop().expect("there are four");
        drop(owners);
        assert_eq!((&*copy, &*last), (&[0; 3][..], &[3; 5][..]));
    }
}
