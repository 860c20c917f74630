//! Seconds in the life of one RAID group, event by event: its drives collect, its queues throttle.
//!
//! ```text
//!  load ──operations──▶ submitters ──pieces──▶ queue of a drive ──▶ Drive
//!   ▲                    few threads:           Throttle: how         stops for
//!   │                    one that sleeps        many writes may       collection
//!   │                    holds up all drives    be in flight
//!   └───── an operation ends with the last of its pieces ◀─────────────┘
//! ```
//!
//! The results are those that a model of flows cannot give: latencies, the cost of waiting for the
//! slowest drive of an operation, and the share of throttling in both.
//!
//! Times are whole nanoseconds. Of events at the same instant, ends of writes come first, by drive,
//! then ends of reads, ends of the throttle's windows, arrivals, and samples; so the result depends
//! on nothing but the terms.

mod draws;
mod drive;
mod group;
mod tally;
mod terms;
mod throttle;

pub use draws::{Draws, Stream};
pub use group::run;
pub use tally::{Figures, Latencies, Sampled};
pub use terms::{Collection, Load, Terms, Throttling};
pub use throttle::{Class, Throttle};
