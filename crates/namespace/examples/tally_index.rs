//! Times a tally of an index: `tally_index DIRECTORY [THREADS [ROUNDS]]`; one JSON object a round.
//!
//! The rules are the usual ones: the latest of three times, a minimum age of 8 weeks, curves by hour and,
//! for each user, by day.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use namespace::rules::{Counted, Exemptions, Rules};
use namespace::tally::{Options, tally};

const AS_OF_S: i64 = 1_790_000_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(directory) = arguments.first() else {
        eprintln!("usage: tally_index DIRECTORY [THREADS [ROUNDS]]");
        return ExitCode::from(2);
    };
    let number = |place: usize, usual| {
        arguments.get(place).and_then(|text| text.parse().ok()).unwrap_or(usual)
    };
    let Ok(found) = std::fs::read_dir(directory) else {
        eprintln!("tally_index: {directory} cannot be read");
        return ExitCode::FAILURE;
    };
    let mut shards: Vec<PathBuf> = found.flatten().map(|entry| entry.path()).collect();
    shards.retain(|path| path.extension().is_some_and(|extension| extension == "parquet"));
    shards.sort();
    let rules = Rules {
        counted: Counted::ALL,
        as_of_s: AS_OF_S,
        old_enough_before_s: AS_OF_S - 56 * 86_400,
        minimum_size_bytes: 0,
        exempt: Exemptions::default(),
        linked: false,
    };
    for _ in 0..number(2, 1) {
        let begun = Instant::now();
        let options = Options { users: true, ..Options::default() };
        match tally(&shards, &rules, options, number(1, 0)) {
            Ok(counted) => {
                let total = counted.total();
                let eligible: u64 = counted.hours().iter().map(|(_, amount)| amount.files).sum();
                println!(
                    "{{\"files\": {}, \"allocated_bytes\": {}, \"eligible\": {eligible}, \"users\": {}, \"elapsed_s\": {:.3}}}",
                    total.files,
                    total.allocated_bytes,
                    counted.users().len(),
                    begun.elapsed().as_secs_f64(),
                );
            }
            Err(error) => {
                eprintln!("tally_index: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
