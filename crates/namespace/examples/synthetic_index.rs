//! Writes the index of a scratch file system that does not exist: `synthetic_index DIRECTORY ROWS [SEED]`.
//!
//! Prints one JSON object: shards, rows, seconds of the clock and of the processors.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use namespace::synthetic::{Scratch, write};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, rows, seed @ ..] = &arguments[..] else {
        eprintln!("usage: synthetic_index DIRECTORY ROWS [SEED]");
        return ExitCode::from(2);
    };
    let seed = seed.first().map_or(Ok(1), |seed| seed.parse());
    let (Ok(rows), Ok(seed)) = (rows.parse(), seed) else {
        eprintln!("synthetic_index: ROWS and SEED are whole numbers");
        return ExitCode::from(2);
    };
    let begun = Instant::now();
    match write(Path::new(directory), &Scratch { rows, seed, ..Scratch::default() }) {
        Ok(shards) => {
            let bytes: u64 = shards.iter().map(|shard| shard.bytes).sum();
            println!(
                "{{\"shards\": {}, \"rows\": {rows}, \"bytes\": {bytes}, \"elapsed_s\": {:.3}}}",
                shards.len(),
                begun.elapsed().as_secs_f64(),
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("synthetic_index: {error}");
            ExitCode::FAILURE
        }
    }
}
