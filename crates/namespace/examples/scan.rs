//! A scan without Python around it, to be measured: `scan ROOT INDEX [THREADS [DELAY_US]]`.

use std::path::PathBuf;
use std::time::Duration;

use namespace::scan::{Control, Options, scan};
use namespace::walk::Settings;

fn main() {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [root, index, rest @ ..] = arguments.as_slice() else {
        panic!("scan ROOT INDEX [THREADS [DELAY_US]]");
    };
    let number = |place: usize| {
        rest.get(place).map(|text| text.to_string_lossy().parse::<u64>().expect("a number"))
    };
    let settings = Settings {
        threads: number(0).unwrap_or(2) as usize,
        delay: number(1).filter(|delay_us| *delay_us > 0).map(Duration::from_micros),
        ..Settings::default()
    };
    let options = Options {
        root: PathBuf::from(root),
        index: PathBuf::from(index),
        settings,
        checkpoint_every: Duration::from_secs(30),
    };
    match scan(&options, &Control::default()) {
        Ok(done) => println!(
            r#"{{"entries": {}, "directories": {}, "unread": {}, "elapsed_s": {}}}"#,
            done.counts.entries, done.counts.directories, done.counts.unread, done.elapsed_s
        ),
        Err(error) => {
            eprintln!("scan: {error}");
            std::process::exit(1);
        }
    }
}
