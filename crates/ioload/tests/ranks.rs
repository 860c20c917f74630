//! Several ranks, started by hand with the variables that a launcher sets.

mod support;

use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};
use support::{Done, assert_empty, start_rank};
use tempfile::tempdir;

fn run_ranks(dir: &Path, args: &str, size: u64) -> Vec<Done> {
    let args = format!("--run-id test {args}");
    let ranks: Vec<_> = (0..size).map(|rank| start_rank(dir, &args, rank, size)).collect();
    ranks.into_iter().map(|rank| Done::of(rank.wait_with_output().unwrap())).collect()
}

#[test]
fn ranks_make_one_report() {
    let dir = tempdir().unwrap();
    for layout in ["", "--shared-file --random"] {
        let args = format!(
            "--write --read --verify --reorder 2 --tasks 2 --transfer-size 64KiB --block-size 1MiB --segments 2 {layout}"
        );
        let done = run_ranks(dir.path(), &args, 3);
        assert!(
            done.iter().all(|rank| rank.code == 0 && rank.stderr.is_empty()),
            "{}",
            done[0].stderr
        );
        assert_eq!(
            (&done[1].report, &done[2].report),
            (&Value::Null, &Value::Null),
            "only rank 0 prints"
        );
        let report = &done[0].report;
        assert_eq!((report["ranks"].as_u64(), report["tasks"].as_u64()), (Some(3), Some(6)));
        assert_eq!(
            (report["clock"].as_str(), report["hosts"].as_array().unwrap().len()),
            (Some("monotonic"), 1)
        );
        for index in 0..2 {
            let phase = done[0].phase(index);
            assert_eq!(phase["bytes"], 6 * 2 * (1 << 20));
            assert_eq!(phase["latency"]["count"], 6 * 2 * 16);
            let tasks = phase["per_task"].as_array().unwrap();
            let ranks: Vec<u64> = tasks.iter().map(|task| task["rank"].as_u64().unwrap()).collect();
            assert_eq!(ranks, [0, 0, 1, 1, 2, 2]);
            // One clock for all: in a phase of some milliseconds no task opens seconds before or
            // after the rest.
            assert!(tasks.iter().all(|task| task["opened_at_s"].as_f64().unwrap().abs() < 5.0));
        }
        assert_eq!(done[0].phase(1)["verify"]["mismatches"], 0);
        assert_empty(dir.path());
    }
}

#[test]
fn wear_out_is_agreed_between_ranks() {
    let dir = tempdir().unwrap();
    let done = run_ranks(
        dir.path(),
        "--write --transfer-size 4KiB --block-size 1GiB --deadline 0.05 --wear-out",
        2,
    );
    let tasks = done[0].phase(0)["per_task"].as_array().unwrap();
    assert_eq!(tasks[0]["bytes"], tasks[1]["bytes"]);
    assert_empty(dir.path());
}

#[test]
fn a_rank_that_never_comes_is_an_error_and_not_a_hang() {
    let dir = tempdir().unwrap();
    let args = "--write --run-id test --rendezvous-timeout 1";
    for rank in 0..2 {
        let started = Instant::now();
        let done = Done::of(start_rank(dir.path(), args, rank, 2).wait_with_output().unwrap());
        assert_eq!(done.code, 3);
        assert!(
            done.stderr.contains(&format!("rank {} did not answer", 1 - rank)),
            "{}",
            done.stderr
        );
        assert!(started.elapsed() < Duration::from_secs(30));
        assert_empty(dir.path());
    }
}

#[test]
fn a_rank_that_is_killed_takes_no_file_and_no_other_rank_with_it() {
    for killed in 0..2_usize {
        let dir = tempdir().unwrap();
        let args = "--write --keep --run-id test --rendezvous-timeout 2 --transfer-size 64KiB --block-size 1MiB --deadline 1 --minimum-duration 1";
        let mut ranks: Vec<_> = (0..2).map(|rank| start_rank(dir.path(), args, rank, 2)).collect();
        while !(dir.path().join("ioload.00000000").exists()
            && dir.path().join("ioload.00000001").exists())
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut victim = ranks.remove(killed);
        victim.kill().unwrap();
        victim.wait().unwrap();
        let done = Done::of(ranks.remove(0).wait_with_output().unwrap());
        assert_eq!(done.code, 3, "{}", done.stderr);
        assert!(done.stderr.contains(&format!("rank {killed} did not answer")), "{}", done.stderr);
        if killed == 1 {
            assert_eq!(
                (done.report["status"].as_str(), done.report["error"]["kind"].as_str()),
                (Some("failed"), Some("rank_silent"))
            );
        }
        assert_empty(dir.path());
    }
}

#[test]
fn an_interrupted_rank_stops_the_others() {
    let dir = tempdir().unwrap();
    let args = "--write --run-id test --transfer-size 64KiB --block-size 1MiB --deadline 20 --minimum-duration 20";
    let mut ranks: Vec<_> = (0..2).map(|rank| start_rank(dir.path(), args, rank, 2)).collect();
    while !dir.path().join("ioload.00000001").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    // SAFETY: plain numbers; the process is a child that has not been waited for.
    unsafe { libc::kill(ranks[1].id() as libc::pid_t, libc::SIGTERM) };
    let one = Done::of(ranks.remove(1).wait_with_output().unwrap());
    let zero = Done::of(ranks.remove(0).wait_with_output().unwrap());
    assert_eq!((zero.code, one.code), (130, 130), "{} {}", zero.stderr, one.stderr);
    assert_eq!(zero.report["status"], "interrupted");
    assert_empty(dir.path());
}

#[test]
fn ranks_that_want_different_things_are_wrong_use() {
    let dir = tempdir().unwrap();
    let zero = start_rank(dir.path(), "--write --run-id test --block-size 1MiB", 0, 2);
    let one = start_rank(dir.path(), "--write --run-id test --block-size 2MiB", 1, 2);
    for rank in [zero, one] {
        let done = Done::of(rank.wait_with_output().unwrap());
        assert_eq!(done.code, 2);
        assert!(done.stderr.contains("different options"), "{}", done.stderr);
    }
    assert_empty(dir.path());
}

#[test]
fn an_existing_file_of_one_rank_stops_all_before_they_write() {
    let dir = tempdir().unwrap();
    std::fs::write(dir.path().join("ioload.00000001"), "precious").unwrap();
    let done = run_ranks(dir.path(), "--write --block-size 1MiB", 2);
    assert_eq!((done[0].code, done[1].code), (3, 3));
    assert_eq!(done[0].report["error"]["kind"], "exists");
    assert_eq!(support::names(dir.path()), ["ioload.00000001"]);
    assert_eq!(std::fs::read(dir.path().join("ioload.00000001")).unwrap(), b"precious");
}

#[test]
fn the_rendezvous_may_be_elsewhere() {
    let (dir, elsewhere) = (tempdir().unwrap(), tempdir().unwrap());
    let args = format!("--write --block-size 1MiB --rendezvous {}", elsewhere.path().display());
    let done = run_ranks(dir.path(), &args, 2);
    assert!(done.iter().all(|rank| rank.code == 0));
    assert_empty(elsewhere.path());
}

#[test]
fn ranks_of_different_hosts_are_timed_by_the_wall_clock() {
    let dir = tempdir().unwrap();
    let args = "--write --read --verify --reorder 1 --run-id test --block-size 1MiB";
    let other_boot = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(other_boot.path(), "00000000-0000-4000-8000-000000000000\n").unwrap();
    // A mount and a host name of its own make this process look like one on another machine.
    let disguise =
        "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && hostname elsewhere && exec \"$@\"";
    let unshare = ["--mount", "--uts", "sh", "-c"];
    let possible = std::process::Command::new("unshare")
        .args(unshare)
        .arg(disguise)
        .arg(other_boot.path())
        .arg("true")
        .output();
    if !possible.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: cannot disguise a process (needs root)");
        return;
    }
    let plain = support::program(dir.path(), args);
    let one = std::process::Command::new("unshare")
        .args(unshare)
        .arg(disguise)
        .arg(other_boot.path())
        .arg(plain.get_program())
        .args(plain.get_args())
        .envs([("PMI_RANK", "1"), ("PMI_SIZE", "2")])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let zero = Done::of(start_rank(dir.path(), args, 0, 2).wait_with_output().unwrap());
    let one = Done::of(one.wait_with_output().unwrap());
    assert_eq!((zero.code, one.code), (0, 0), "{} {}", zero.stderr, one.stderr);
    assert_eq!(zero.report["clock"], "realtime");
    assert!(zero.report["hosts"].as_array().unwrap().contains(&"elsewhere".into()));
    let tasks = zero.phase(1)["per_task"].as_array().unwrap();
    assert_eq!(tasks[1]["host"], "elsewhere");
    assert!(tasks.iter().all(|task| task["opened_at_s"].as_f64().unwrap().abs() < 5.0));
    assert_empty(dir.path());
}
