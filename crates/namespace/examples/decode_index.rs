//! The bound of a tally: decodes the columns it needs with the library's own readers, adds the numbers up and
//! does nothing else. `decode_index DIRECTORY [THREADS [ROUNDS]]`; one JSON object a round.

mod common;

use std::fs::File;
use std::path::PathBuf;
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

fn main() -> Result<()> {
    let shards = common::shards();
    for _ in 0..common::argument(3).unwrap_or(1) {
        let (begun, next) = (Instant::now(), AtomicUsize::new(0));
        let work = || {
            let mut rows = 0;
            while let Some(path) = shards.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (sum, rows_of_shard) = decode(path)?;
                std::hint::black_box(sum);
                rows += rows_of_shard;
            }
            Ok(rows)
        };
        let rows: i64 = std::thread::scope(|scope| {
            let threads = 0..common::argument(2).unwrap_or(1);
            let workers: Vec<_> = threads.map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|worker| worker.join()).sum::<Result<i64>>()
        })?;
        let elapsed_s = begun.elapsed().as_secs_f64();
        println!("{}", serde_json::json!({"rows": rows, "elapsed_s": elapsed_s}));
    }
    Ok(())
}
