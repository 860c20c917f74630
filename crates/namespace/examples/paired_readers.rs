//! One tally through the decoder and through the parquet crate's own readers, in turns in one process:
//! `paired_readers DIRECTORY [ROUNDS]`. Prints one JSON object; fails where the results differ.

mod common;

use std::path::PathBuf;

use namespace::index::library;
use namespace::rules::{Counted, Exempt, Exemptions, Rules};
use namespace::tally::{Options, tally};

/// The usual rules; those of a policy with exemptions; those where reads do not count.
fn tallies() -> [(&'static str, Rules); 3] {
    let usual = common::usual_rules();
    let exempt = Exempt {
        paths: vec![b"u00001".to_vec(), b"shared/data".to_vec()],
        users: vec![0, 1003],
        ..Exempt::default()
    };
    let exemptions = Rules { exempt: Exemptions::new(exempt), ..usual.clone() };
    let counted = Counted { access: false, ..Counted::ALL };
    let without_reads = Rules { counted, ..usual.clone() };
    [("usual", usual), ("exemptions", exemptions), ("without_reads", without_reads)]
}

/// Processor seconds of this process: on a busy machine they say more than the clock does.
fn cpu_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, exclusively borrowed timespec; the call keeps no pointer.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0, "every process has this clock");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Processor seconds of the decoder and of the library, of every round.
fn measure(shards: &[PathBuf], rules: &Rules, rounds: usize) -> namespace::Result<[Vec<f64>; 2]> {
    let options = Options { users: true, ..Options::default() };
    let mut taken_s = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        let mut results = [Vec::new(), Vec::new()];
        // Each goes first in every other round.
        for reader in [round % 2, 1 - round % 2] {
            library::choose(reader == 1);
            let begun_s = cpu_s();
            results[reader] = tally(shards, rules, options, 1)?.to_bytes();
            taken_s[reader].push(cpu_s() - begun_s);
        }
        assert_eq!(results[0], results[1], "both readers come to the same tally");
    }
    Ok(taken_s)
}

fn main() -> namespace::Result<()> {
    let (shards, rounds) = (common::shards(), common::argument(2).unwrap_or(9));
    let mut report = serde_json::Map::new();
    for (name, rules) in tallies() {
        let [decoder_s, library_s] = measure(&shards, &rules, rounds)?;
        let times = serde_json::json!({"decoder_s": decoder_s, "library_s": library_s});
        report.insert(name.to_owned(), times);
    }
    println!("{}", serde_json::Value::from(report));
    Ok(())
}
