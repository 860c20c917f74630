//! Times a tally of an index by the usual rules, with curves by hour and, for each user, by day:
//! `tally_index DIRECTORY [THREADS [ROUNDS]]`; one JSON object a round.

mod common;

use std::time::Instant;

use namespace::tally::{Options, tally};

fn main() -> namespace::Result<()> {
    let shards = common::shards();
    for _ in 0..common::argument(3).unwrap_or(1) {
        let begun = Instant::now();
        let options = Options { users: true, ..Options::default() };
        let threads = common::argument(2).unwrap_or(0);
        let counted = tally(&shards, &common::usual_rules(), options, threads)?;
        let report = serde_json::json!({
            "files": counted.total().files,
            "allocated_bytes": counted.total().allocated_bytes,
            "eligible": counted.hours().iter().map(|(_, amount)| amount.files).sum::<u64>(),
            "users": counted.users().len(),
            "elapsed_s": begun.elapsed().as_secs_f64(),
        });
        println!("{report}");
    }
    Ok(())
}
