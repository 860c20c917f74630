//! The index of a file system: shards in Parquet, one row a name.
//!
//! ```text
//!   entries ──▶ writer ──▶ shard ──▶ chunk (pages) ──▶ bits, packed (values) ──▶ column ──▶ rows
//!                                                                                  └──────▶ tally
//! ```
//! Shards may also come from elsewhere (Polars, an importer): whatever writes the columns of
//! [`schema`] in a plain or dictionary packing is read, and what is wrong with a file is said with
//! its name.

mod bits;
mod chunk;
pub(crate) mod column;
#[cfg(feature = "library-readers")]
pub mod library;
pub(crate) mod packed;
pub(crate) mod rows;
pub(crate) mod schema;
pub(crate) mod shard;
mod signed;
mod writer;

pub use rows::{Row, Rows, path_problem};
pub use schema::{COLUMNS, Column, Kind};
pub use shard::{Part, Shard, Source};
pub use signed::{FilePart, FileParts, parts_of};
pub use writer::{Finished, Limits, ShardWriter};
