//! The program with one rank, on a real directory.

mod support;

use ioload::pattern::{Identity, Pattern};
use serde_json::Value;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::time::Duration;
use support::{assert_empty, names, program, run, run_ok};
use tempfile::tempdir;

const SMALL: &str = "--tasks 3 --transfer-size 64KiB --block-size 1MiB --segments 2";
const TOTAL_BYTES: u64 = 3 * 2 * (1 << 20);

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

#[test]
fn a_run_reports_every_field_and_leaves_nothing() {
    let dir = tempdir().unwrap();
    let done = run_ok(dir.path(), &format!("--write --read --fsync --verify {SMALL}"));
    assert_empty(dir.path());
    assert_eq!(done.report["status"], "ok");
    assert_eq!(done.report["clock"], "monotonic");
    assert_eq!(done.report["tasks"], 3);
    assert_eq!(done.report["direct"]["asked"], false);
    let parameters = &done.report["parameters"];
    assert_eq!(parameters["layout"], "file-per-process");
    assert_eq!(parameters["deadline_s"], Value::Null);
    for (index, access) in ["write", "read"].into_iter().enumerate() {
        let phase = done.phase(index);
        assert_eq!(phase["access"], access);
        assert_eq!(phase["status"], "ok");
        assert_eq!(phase["bytes"], TOTAL_BYTES);
        assert_eq!(phase["transfers"], TOTAL_BYTES / 65536);
        assert_eq!(phase["passes"], 1.0);
        assert_eq!(phase["latency"]["count"], TOTAL_BYTES / 65536);
        let (elapsed_s, io_time_s) = (number(&phase["elapsed_s"]), number(&phase["io_time_s"]));
        let bandwidth = number(&phase["bandwidth_bytes_per_s"]);
        assert!((bandwidth * elapsed_s / TOTAL_BYTES as f64 - 1.0).abs() < 1e-9);
        assert!(io_time_s <= elapsed_s, "{io_time_s} {elapsed_s}");
        // IOR's bandwidth: from the first open to the last close.
        let times = |name: &str| -> Vec<f64> {
            phase["per_task"].as_array().unwrap().iter().map(|task| number(&task[name])).collect()
        };
        let first = times("opened_at_s").into_iter().reduce(f64::min).unwrap();
        let last = times("closed_at_s").into_iter().reduce(f64::max).unwrap();
        assert!((last - first - elapsed_s).abs() < 1e-9);
        let rows = phase["timeline"]["tasks"].as_array().unwrap();
        let in_timeline: u64 = rows
            .iter()
            .flat_map(|row| row.as_array().unwrap())
            .map(|bytes| bytes.as_u64().unwrap())
            .sum();
        assert_eq!((rows.len(), in_timeline), (3, TOTAL_BYTES));
    }
    assert!(done.phase(0)["fsync_s"].is_f64());
    assert_eq!(done.phase(1)["fsync_s"], Value::Null, "unmeasured is null");
    assert_eq!(done.phase(0)["verify"], Value::Null);
    assert_eq!(done.phase(1)["verify"]["checked_bytes"], TOTAL_BYTES);
    assert_eq!(done.phase(1)["verify"]["mismatches"], 0);
}

#[test]
fn a_shared_file_holds_exactly_what_the_pattern_says() {
    let dir = tempdir().unwrap();
    for (index, order) in ["", "--random"].into_iter().enumerate() {
        let name = format!("shared{index}");
        run_ok(
            dir.path(),
            &format!("--write --shared-file --keep --seed 5 --name {name} {order} {SMALL}"),
        );
        let bytes = fs::read(dir.path().join(&name)).unwrap();
        assert_eq!(bytes.len() as u64, TOTAL_BYTES);
        let mut pattern = Pattern::new(Identity { seed: 5, file: 0 }, 65536).unwrap();
        for (index, chunk) in bytes.chunks(65536).enumerate() {
            assert_eq!(pattern.differences(index as u64 * 65536, chunk), (0, None));
        }
    }
    assert_eq!(names(dir.path()), ["shared0", "shared1"]);
}

#[test]
fn random_direct_runs_verify() {
    let dir = tempdir().unwrap();
    for layout in ["", "--shared-file"] {
        let done = run_ok(
            dir.path(),
            &format!("--write --read --verify --random --direct --reorder 1 {layout} {SMALL}"),
        );
        assert_eq!(done.phase(1)["verify"]["checked_bytes"], TOTAL_BYTES);
    }
}

#[test]
fn odd_sizes_are_whole_too() {
    let dir = tempdir().unwrap();
    let done = run_ok(
        dir.path(),
        "--write --read --verify --tasks 2 --transfer-size 1001 --block-size 1501500 --segments 2 --random",
    );
    assert_eq!(done.phase(1)["verify"]["checked_bytes"], 2 * 2 * 1_501_500);
}

#[test]
fn a_flipped_byte_is_found_and_reorder_reads_the_file_of_another() {
    let dir = tempdir().unwrap();
    run_ok(dir.path(), &format!("--write --keep --seed 9 {SMALL}"));
    let damaged = dir.path().join("ioload.00000001");
    let mut file = fs::File::options().read(true).write(true).open(&damaged).unwrap();
    let mut byte = [0];
    file.seek(SeekFrom::Start(777_777)).unwrap();
    file.read_exact(&mut byte).unwrap();
    file.seek(SeekFrom::Start(777_777)).unwrap();
    file.write_all(&[byte[0] ^ 1]).unwrap();
    let done = run(dir.path(), &format!("--read --verify --seed 9 --reorder 1 {SMALL}"));
    assert_eq!(done.code, 3);
    assert!(done.stderr.contains("wrong data"), "{}", done.stderr);
    let phase = done.phase(0);
    assert_eq!(phase["status"], "failed");
    assert_eq!(phase["bytes"], TOTAL_BYTES, "the rest is read all the same");
    assert_eq!(phase["verify"]["mismatches"], 1);
    assert_eq!(phase["verify"]["first_mismatch"]["offset"], 777_777);
    assert_eq!(phase["verify"]["first_mismatch"]["path"], damaged.to_str().unwrap());
    let read_by_task_0 = phase["per_task"][0]["path"].as_str().unwrap();
    assert_eq!(read_by_task_0, damaged.to_str().unwrap());
    assert_eq!(names(dir.path()).len(), 3, "a read-only run removes nothing");
    // With another seed nothing is right.
    let done = run(dir.path(), &format!("--read --verify --seed 8 {SMALL}"));
    assert_eq!(done.code, 3);
    assert!(done.phase(0)["verify"]["mismatches"].as_u64().unwrap() > TOTAL_BYTES / 2);
}

#[test]
fn existing_files_are_safe() {
    let dir = tempdir().unwrap();
    let precious = dir.path().join("ioload.00000001");
    fs::write(&precious, "precious").unwrap();
    let done = run(dir.path(), &format!("--write {SMALL}"));
    assert_eq!((done.code, done.report["error"]["kind"].as_str()), (3, Some("exists")));
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
    assert_eq!(names(dir.path()), ["ioload.00000001"]);
    // Overwritten in place on demand; what was there before is not removed afterwards.
    run_ok(dir.path(), &format!("--write --overwrite {SMALL}"));
    assert_eq!(names(dir.path()), ["ioload.00000001"]);
    assert_eq!(fs::metadata(&precious).unwrap().len(), 2 << 20);
}

#[test]
fn a_deadline_makes_a_partial_result_and_the_read_keeps_to_what_exists() {
    let dir = tempdir().unwrap();
    let done = run_ok(
        dir.path(),
        "--write --read --verify --random --tasks 2 --transfer-size 4KiB --block-size 1TiB --deadline 0.1",
    );
    assert_empty(dir.path());
    let write = done.phase(0);
    assert_eq!(
        (write["status"].as_str(), done.report["status"].as_str()),
        (Some("partial"), Some("partial"))
    );
    let bytes = write["bytes"].as_u64().unwrap();
    assert!(bytes > 0 && bytes < 1 << 40);
    assert_eq!(write["stonewall"]["bytes"], bytes);
    assert!(number(&write["stonewall"]["elapsed_s"]) >= 0.1);
    assert_eq!(done.phase(1)["verify"]["mismatches"], 0);
    assert!(done.phase(1)["bytes"].as_u64().unwrap() <= bytes);
}

#[test]
fn wear_out_brings_every_task_to_the_same_number() {
    let dir = tempdir().unwrap();
    let done = run_ok(
        dir.path(),
        "--write --tasks 3 --transfer-size 4KiB --block-size 1GiB --deadline 0.05 --wear-out",
    );
    let phase = done.phase(0);
    let bytes: Vec<u64> = phase["per_task"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["bytes"].as_u64().unwrap())
        .collect();
    assert!(bytes.iter().all(|&of_task| of_task == bytes[0]), "{bytes:?}");
    let stonewall = phase["stonewall"]["bytes"].as_u64().unwrap();
    assert!(stonewall <= bytes.iter().sum::<u64>());
    assert_eq!(phase["status"], "partial");
}

#[test]
fn a_run_of_fixed_time_goes_through_the_file_again_and_is_ok() {
    let dir = tempdir().unwrap();
    let done = run_ok(
        dir.path(),
        "--write --read --transfer-size 64KiB --block-size 256KiB --deadline 0.3 --minimum-duration 0.3",
    );
    for index in 0..2 {
        let phase = done.phase(index);
        assert_eq!(phase["status"], "ok");
        assert!(number(&phase["elapsed_s"]) >= 0.3);
        assert!(number(&phase["passes"]) > 1.0);
    }
    // Without a deadline whole passes are done.
    let done = run_ok(
        dir.path(),
        "--write --transfer-size 64KiB --block-size 256KiB --minimum-duration 0.05",
    );
    assert_eq!(done.phase(0)["transfers"].as_u64().unwrap() % 4, 0);
}

#[test]
fn a_read_of_too_little_or_nothing_says_so() {
    let dir = tempdir().unwrap();
    let done = run(dir.path(), "--read");
    assert_eq!((done.code, done.report["error"]["errno"].as_i64()), (3, Some(2)));
    fs::write(dir.path().join("ioload.00000000"), [1; 1000]).unwrap();
    let done = run(dir.path(), "--read --transfer-size 4KiB --block-size 4KiB");
    assert_eq!((done.code, done.report["error"]["kind"].as_str()), (3, Some("nothing_to_read")));
    // Only whole transfers that exist on disk.
    let done = run_ok(dir.path(), "--read --transfer-size 300 --block-size 3000");
    assert_eq!(
        (done.phase(0)["bytes"].as_u64(), done.phase(0)["status"].as_str()),
        (Some(900), Some("ok"))
    );
}

#[test]
fn a_file_that_vanishes_is_an_error() {
    let dir = tempdir().unwrap();
    let args = "--write --transfer-size 64KiB --block-size 1MiB --deadline 2 --minimum-duration 2";
    let child = program(dir.path(), args).spawn().unwrap();
    let file = dir.path().join("ioload.00000000");
    while !file.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    fs::remove_file(&file).unwrap();
    let done = support::Done::of(child.wait_with_output().unwrap());
    assert_eq!((done.code, done.report["error"]["kind"].as_str()), (3, Some("vanished")));
    assert_eq!(done.phase(0)["status"], "failed");
}

#[test]
fn progress_goes_to_stderr_and_the_report_also_to_a_file() {
    let dir = tempdir().unwrap();
    let elsewhere = tempdir().unwrap();
    let out = elsewhere.path().join("report.json");
    let args = format!(
        "--write --progress --transfer-size 64KiB --block-size 1MiB --deadline 1.2 --minimum-duration 1.2 --out {}",
        out.display()
    );
    let done = run(dir.path(), &args);
    assert_eq!(done.code, 0);
    let line: Value = serde_json::from_str(done.stderr.lines().next().unwrap()).unwrap();
    assert_eq!(line["access"], "write");
    assert!(line["bytes"].as_u64().unwrap() > 0);
    let saved: Value = serde_json::from_slice(&fs::read(out).unwrap()).unwrap();
    assert_eq!(saved, done.report);
}

#[test]
fn wrong_use_exits_2_and_prints_no_report() {
    let dir = tempdir().unwrap();
    for args in
        ["", "--write --transfer-size 0", "--write --direct --transfer-size 1000 --block-size 1000"]
    {
        let done = run(dir.path(), args);
        assert_eq!((done.code, &done.report), (2, &Value::Null), "{args}");
        assert!(done.stderr.starts_with("ioload: error: "), "{}", done.stderr);
        assert_empty(dir.path());
    }
}
