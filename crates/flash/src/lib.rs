//! The physics of flash, for the twin: the writes of a drive for each unit that it is given.
//!
//! ```text
//!  workload ──units──▶ Drive ──▶ counts: host writes, copies, erases, trimmed
//!                        │
//!                        ├─ map, owner      the place of each unit, and the unit at each place
//!                        ├─ frontiers       superblocks being filled: the host's, and collection's
//!                        └─ victims         which superblock to clean next: greedy, FIFO, cost-benefit
//! ```
//!
//! A *unit* is what the drive maps: a page of 4 KiB, or a RAID chunk of 128 KiB where a file system
//! writes nothing smaller. A *superblock* is what it erases at once.
//!
//! Beside it the block allocator of the file system ([`allocator`]): which blocks a request gets, and
//! how many groups were looked at for it. And both in one, with files that come and go: a miniature
//! OST ([`ost`]), and fleets of them.
//!
//! Bytes held by users of a file system are booked in [`books`].
//!
//! Drives of a RAID group meet each other in [`raid`], which says what an operation reads and writes,
//! and in [`window`], which plays seconds of it event by event.
//!
//! Nothing here reads a clock or draws from a generator that was not given: a result is a function
//! of geometry, settings, workload and seed.

pub mod allocator;
pub mod books;
mod cells;
pub mod drive;
mod error;
pub mod ost;
pub mod raid;
pub mod window;
pub mod workload;

pub use drive::{Counts, Drive, Geometry, Policy, Settings};
pub use error::Error;
