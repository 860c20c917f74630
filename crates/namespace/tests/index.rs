//! A shard reads back as it was written, and rubbish is refused with its name.

mod support;

use std::fs;
use std::path::Path;

use namespace::index::{Limits, Row, Shard, ShardWriter};
use proptest::prelude::*;
use support::{row, row_of};

fn write(directory: &Path, name: &str, rows: &[Row], limits: Limits) {
    let mut writer = ShardWriter::create_within(directory, name, limits).unwrap();
    for row in rows {
        writer.row(&row.parent, &row.name, &row.entry).unwrap();
    }
    assert_eq!(writer.rows(), rows.len() as u64);
    let finished = writer.finish().unwrap();
    assert_eq!((finished.rows, finished.name.as_str()), (rows.len() as u64, name));
    assert_eq!(finished.bytes, fs::metadata(directory.join(name)).unwrap().len());
}

fn read(path: &Path, first: u64, piece: usize) -> namespace::Result<Vec<Row>> {
    let mut rows = Shard::open(path)?.rows_from(first)?;
    let mut all = Vec::new();
    loop {
        let read = rows.read(piece)?;
        if read.is_empty() {
            return Ok(all);
        }
        all.extend(read);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rows_come_back_as_they_went_in(
        rows in prop::collection::vec(row(), 0..60),
        group in 1usize..40,
        piece in 1usize..50,
        first in 0usize..60,
    ) {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), "a.parquet", &rows, Limits { rows: group, bytes: 1 << 20 });
        let path = directory.path().join("a.parquet");
        prop_assert_eq!(Shard::open(&path).unwrap().rows(), rows.len() as u64);
        let first = first.min(rows.len());
        prop_assert_eq!(read(&path, first as u64, piece).unwrap(), &rows[first..]);
    }
}

fn many() -> Vec<Row> {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let draw = |_| {
        let tree = row().new_tree(&mut runner).unwrap();
        proptest::strategy::ValueTree::current(&tree)
    };
    (0..20_000).map(draw).collect()
}

#[test]
fn many_rows_cross_pages_and_groups() {
    let directory = tempfile::tempdir().unwrap();
    let rows = many();
    write(directory.path(), "a", &rows, Limits { rows: 13_000, bytes: 1 << 30 });
    assert_eq!(read(&directory.path().join("a"), 0, 7777).unwrap(), rows);
}

#[test]
fn a_group_ends_where_its_paths_take_too_much() {
    let directory = tempfile::tempdir().unwrap();
    let entry = many()[0].entry.clone();
    let long = |n: u8| vec![b'a' + n % 26; 200_000];
    let rows: Vec<Row> =
        (0..40).map(|n| row_of(&long(n), &[b'f', b'a' + n % 26], entry.clone())).collect();
    let mut writer =
        ShardWriter::create_within(directory.path(), "a", Limits { rows: 1000, bytes: 1 << 20 })
            .unwrap();
    for row in &rows {
        writer.row(&row.parent, &row.name, &row.entry).unwrap();
    }
    writer.finish().unwrap();
    assert_eq!(read(&directory.path().join("a"), 0, 100).unwrap(), rows);
}

#[test]
fn a_writer_that_is_dropped_leaves_nothing_and_one_that_ends_only_its_shard() {
    let directory = tempfile::tempdir().unwrap();
    let names = || {
        let mut names: Vec<_> = fs::read_dir(directory.path())
            .unwrap()
            .map(|found| found.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let row = &many()[0];
    let mut writer = ShardWriter::create(directory.path(), "a.parquet").unwrap();
    writer.row(&row.parent, &row.name, &row.entry).unwrap();
    assert_eq!(names(), ["a.parquet.partial"]);
    drop(writer);
    assert_eq!(names(), [""; 0]);
    let mut writer = ShardWriter::create(directory.path(), "a.parquet").unwrap();
    writer.row(&row.parent, &row.name, &row.entry).unwrap();
    writer.finish().unwrap();
    assert_eq!(names(), ["a.parquet"]);
    assert!(ShardWriter::create(&directory.path().join("nowhere"), "a").is_err());
}

#[test]
fn names_that_could_escape_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let entry = many()[0].entry.clone();
    let cases: [(&[u8], &[u8]); 9] = [
        (b"a", b""),
        (b"a", b".."),
        (b"a", b"."),
        (b"a", b"b/c"),
        (b"a", b"b\0c"),
        (b"/a", b"b"),
        (b"a/", b"b"),
        (b"a/../b", b"b"),
        (b"a//b", b"b"),
    ];
    for (parent, name) in cases {
        write(directory.path(), "a", &[row_of(parent, name, entry.clone())], Limits::default());
        let error = read(&directory.path().join("a"), 0, 10).unwrap_err().to_string();
        assert!(error.contains(directory.path().to_str().unwrap()), "{error}");
    }
}

#[test]
fn a_damaged_shard_is_an_error_or_read_but_never_a_panic() {
    let directory = tempfile::tempdir().unwrap();
    let rows = &many()[..300];
    write(directory.path(), "whole", rows, Limits { rows: 100, bytes: 1 << 20 });
    let whole = fs::read(directory.path().join("whole")).unwrap();
    let path = directory.path().join("damaged");
    for length in (0..whole.len()).step_by(97) {
        fs::write(&path, &whole[..length]).unwrap();
        let error = read(&path, 0, 1000).unwrap_err().to_string();
        assert!(error.contains("damaged"), "{error}");
    }
    for at in (0..whole.len()).step_by(5) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        let _ = read(&path, 0, 1000);
    }
    fs::write(&path, b"not Parquet at all, but long enough to look at").unwrap();
    assert!(read(&path, 0, 10).unwrap_err().to_string().contains("damaged"));
}
