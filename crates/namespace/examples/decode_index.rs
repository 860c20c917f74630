//! The bound of a tally: decodes the columns it needs with the library's own readers, adds the numbers up and
//! does nothing else. `decode_index DIRECTORY [THREADS [ROUNDS]]`; one JSON object a round.

use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parquet::column::reader::ColumnReader;
use parquet::errors::Result;
use parquet::file::reader::{FileReader, SerializedFileReader};

const COLUMNS: [&str; 5] = ["uid", "allocated_bytes", "nlink", "type", "last_use_s"];

/// The sum of the numbers of a shard and how many rows it has.
fn decode(path: &PathBuf) -> Result<(u64, i64)> {
    let reader = SerializedFileReader::new(File::open(path)?)?;
    let (mut sum, mut levels) = (0u64, Vec::new());
    for number in 0..reader.num_row_groups() {
        let group = reader.get_row_group(number)?;
        let columns = group.metadata().columns().iter().enumerate();
        for (place, column) in columns {
            if !COLUMNS.contains(&column.column_path().string().as_str()) {
                continue;
            }
            levels.clear();
            match group.get_column_reader(place)? {
                ColumnReader::Int64ColumnReader(mut column) => {
                    let mut values = Vec::new();
                    column.read_records(usize::MAX, Some(&mut levels), None, &mut values)?;
                    sum = values.iter().fold(sum, |sum, value| sum.wrapping_add(*value as u64));
                }
                ColumnReader::Int32ColumnReader(mut column) => {
                    let mut values = Vec::new();
                    column.read_records(usize::MAX, Some(&mut levels), None, &mut values)?;
                    sum = values.iter().fold(sum, |sum, value| sum.wrapping_add(*value as u64));
                }
                ColumnReader::ByteArrayColumnReader(mut column) => {
                    let mut values = Vec::new();
                    column.read_records(usize::MAX, Some(&mut levels), None, &mut values)?;
                    sum = sum.wrapping_add(values.len() as u64);
                }
                _ => {}
            }
        }
    }
    Ok((sum, reader.metadata().file_metadata().num_rows()))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |place: usize| arguments.get(place).and_then(|text| text.parse().ok()).unwrap_or(1);
    let Some(found) = arguments.first().and_then(|directory| std::fs::read_dir(directory).ok())
    else {
        eprintln!("usage: decode_index DIRECTORY [THREADS [ROUNDS]]");
        return ExitCode::from(2);
    };
    let mut shards: Vec<PathBuf> = found.flatten().map(|entry| entry.path()).collect();
    shards.retain(|path| path.extension().is_some_and(|extension| extension == "parquet"));
    for _ in 0..number(2) {
        let (begun, next) = (Instant::now(), AtomicUsize::new(0));
        let work = || {
            let mut rows = 0;
            while let Some(path) = shards.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (sum, found) = decode(path)?;
                std::hint::black_box(sum);
                rows += found;
            }
            Ok(rows)
        };
        let parts: Vec<Result<i64>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..number(1)).map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|worker| worker.join()).collect()
        });
        match parts.into_iter().sum::<Result<i64>>() {
            Ok(rows) => {
                let elapsed_s = begun.elapsed().as_secs_f64();
                println!("{{\"rows\": {rows}, \"elapsed_s\": {elapsed_s:.3}}}");
            }
            Err(error) => {
                eprintln!("decode_index: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
