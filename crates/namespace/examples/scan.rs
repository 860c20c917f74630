//! A scan without Python around it, to be measured: `scan ROOT INDEX [THREADS [DELAY_US]]`.
//!
//! With `-` for the index the rows are thrown away, which measures the walk alone.

use std::path::PathBuf;
use std::time::Duration;

use namespace::scan::{Control, Options, scan, scan_into};
use namespace::walk::{Settings, Shard, Sink};
use namespace::{Entry, Result};

struct Nowhere;

impl Sink for Nowhere {
    fn row(&mut self, parent: &[u8], name: &[u8], entry: &Entry) -> Result<()> {
        std::hint::black_box((parent, name, entry));
        Ok(())
    }

    fn flush(&mut self) -> Result<Vec<Shard>> {
        Ok(Vec::new())
    }
}

fn main() -> Result<()> {
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
    let nowhere = (index == "-").then(|| std::env::temp_dir().join("scan-nowhere"));
    let options = Options {
        root: PathBuf::from(root),
        index: nowhere.clone().unwrap_or_else(|| PathBuf::from(index)),
        settings,
        checkpoint_every: Duration::from_secs(30),
        base: None,
    };
    let control = Control::default();
    let done = match nowhere {
        None => scan(&options, &control)?,
        Some(index) => {
            let done = scan_into(&options, &control, |_, _| Nowhere);
            let _ = std::fs::remove_dir_all(index);
            done?
        }
    };
    let report = serde_json::json!({
        "entries": done.counts.entries,
        "directories": done.counts.directories,
        "unread": done.counts.unread,
        "elapsed_s": done.elapsed_s,
    });
    println!("{report}");
    Ok(())
}
