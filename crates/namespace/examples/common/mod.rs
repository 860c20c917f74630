//! Functions that several of these programs share.
#![allow(dead_code, reason = "each program uses the part that it needs")]

use std::path::PathBuf;
use std::str::FromStr;

use namespace::rules::{Counted, Exemptions, Rules};

/// When the synthetic indexes were taken.
pub const AS_OF_S: i64 = 1_790_000_000;

/// The argument at a place, counted from 1; `None` where there are fewer.
pub fn argument<T: FromStr>(place: usize) -> Option<T> {
    std::env::args().nth(place).map(|text| text.parse().ok().expect("a number"))
}

/// The shards in the directory that is the first argument.
pub fn shards() -> Vec<PathBuf> {
    let directory = std::env::args().nth(1).expect("the directory of an index");
    let entries = std::fs::read_dir(directory).expect("a directory that can be read");
    let mut shards: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    shards.retain(|path| path.extension().is_some_and(|extension| extension == "parquet"));
    shards.sort();
    shards
}

/// The usual rules: the latest of three times, a minimum age of 8 weeks.
pub fn usual_rules() -> Rules {
    Rules {
        counted: Counted::ALL,
        as_of_s: AS_OF_S,
        old_enough_before_s: AS_OF_S - 56 * 86_400,
        minimum_size_bytes: 0,
        exempt: Exemptions::default(),
        linked: false,
    }
}
