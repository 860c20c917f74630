//! The names of a file system: walked in parallel, kept as Parquet, weighed by age, deleted by identity.
//!
//! ```text
//!   walk ──▶ index (shards) ──▶ tally (age curves) ──▶ selection (candidates) ──▶ removal
//!                                    ▲                      ▲                        ▲
//!                                    └────────── rules: who may be deleted ──────────┘
//! ```
//!
//! One value, [`rules::Rules`], says which file is eligible; the curve, the candidates and the last
//! check before a deletion all ask it, so that they cannot disagree.

pub mod beneath;
pub mod by_fid;
pub mod columns;
pub mod entry;
pub mod error;
pub mod glimpse;
pub mod index;
mod lock;
pub mod lustre;
pub mod patience;
mod project;
pub mod records;
pub mod removal;
pub mod rmfid;
pub mod rules;
pub mod scan;
pub mod selection;
pub mod synthetic;
mod system;
pub mod table;
pub mod tally;
pub mod walk;
mod work;

pub use beneath::Root;
pub use entry::{Entry, FileType, Layout, ObjectId, Times};
pub use error::{Error, Result};
pub use index::ShardWriter;
pub use rules::{Kept, Rules};
