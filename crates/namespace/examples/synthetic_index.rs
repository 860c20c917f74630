//! Writes the index of a scratch file system that does not exist.
//!
//! `synthetic_index DIRECTORY ROWS [SEED] [bytes=N] [users=N] [even-users=N] [as-of=SECONDS] [reread=SHARE]
//! [lives=SHARE:DAYS,SHARE:DAYS,...] [oldest=DAYS]`; what is left out is as `Scratch::default` has it.
//!
//! Prints one JSON object: shards, rows, seconds of the clock.

use std::path::Path;
use std::str::FromStr;
use std::time::Instant;

use namespace::synthetic::{Ages, Life, Scratch, write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, terms @ ..] = &arguments[..] else {
        return Err("usage: synthetic_index DIRECTORY ROWS [SEED] [NAME=VALUE ...]".into());
    };
    let scratch = scratch_of(terms)?;
    let begun = Instant::now();
    let shards = write(Path::new(directory), &scratch)?;
    let report = serde_json::json!({
        "shards": shards.len(),
        "rows": scratch.rows,
        "bytes": shards.iter().map(|shard| shard.bytes).sum::<u64>(),
        "elapsed_s": begun.elapsed().as_secs_f64(),
    });
    println!("{report}");
    Ok(())
}

fn scratch_of(terms: &[String]) -> Result<Scratch, String> {
    let mut scratch = Scratch::default();
    let (mut lives, mut oldest_days) = (Vec::new(), 4000.0);
    for (place, argument) in terms.iter().enumerate() {
        match argument.split_once('=') {
            None if place == 0 => scratch.rows = number(argument)?,
            None if place == 1 => scratch.seed = number(argument)?,
            Some(("bytes", value)) => scratch.allocated_bytes = Some(number(value)?),
            Some(("users", value)) => scratch.users = number(value)?,
            Some(("even-users", value)) => scratch.even_users = number(value)?,
            Some(("as-of", value)) => scratch.as_of_s = number(value)?,
            Some(("reread", value)) => scratch.reread_share = number(value)?,
            Some(("oldest", value)) => oldest_days = number(value)?,
            Some(("lives", value)) => {
                lives = value.split(',').map(life_of).collect::<Result<_, _>>()?;
            }
            _ => return Err(format!("{argument:?} is not known")),
        }
    }
    if !lives.is_empty() {
        scratch.ages = Ages::Kept { lives, oldest_days };
    }
    Ok(scratch)
}

fn life_of(text: &str) -> Result<Life, String> {
    let (share, days) = text.split_once(':').ok_or(format!("{text:?} is not SHARE:DAYS"))?;
    Ok(Life { share: number(share)?, mean_days: number(days)? })
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not a valid number"))
}
