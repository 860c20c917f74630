//! Full disks, refusing file systems, signals: a clear error, a marked result, and nothing left behind.

mod support;

use std::process::Command;
use std::time::{Duration, Instant};
use support::{Done, Mount, assert_empty, program, run, start_rank};
use tempfile::tempdir;

#[test]
fn a_full_disk_is_said_and_everything_removed() {
    let Some(mount) = Mount::new("tmpfs", "size=8m") else {
        return;
    };
    for layout in ["", "--shared-file"] {
        let done = run(
            mount.path(),
            &format!(
                "--write --read --keep --tasks 2 --transfer-size 64KiB --block-size 16MiB {layout}"
            ),
        );
        assert_eq!(done.code, 3);
        let error = &done.report["error"];
        assert_eq!((error["kind"].as_str(), error["errno"].as_i64()), (Some("no_space"), Some(28)));
        assert_eq!(done.phase(0)["status"], "failed");
        let bytes = done.phase(0)["bytes"].as_u64().unwrap();
        assert!(bytes > 4 << 20 && bytes <= 8 << 20, "the part that was done is reported: {bytes}");
        assert_eq!(
            done.report["phases"].as_array().unwrap().len(),
            1,
            "no read after a failed write"
        );
        assert_empty(mount.path());
    }
}

#[test]
fn a_full_disk_stops_all_ranks_although_they_meet_on_it() {
    let Some(mount) = Mount::new("tmpfs", "size=8m") else {
        return;
    };
    for layout in ["", "--shared-file"] {
        let args =
            format!("--write --run-id full --transfer-size 64KiB --block-size 16MiB {layout}");
        let ranks: Vec<_> = (0..2).map(|rank| start_rank(mount.path(), &args, rank, 2)).collect();
        let done: Vec<Done> =
            ranks.into_iter().map(|rank| Done::of(rank.wait_with_output().unwrap())).collect();
        assert_eq!((done[0].code, done[1].code), (3, 3), "{} {}", done[0].stderr, done[1].stderr);
        assert_eq!(done[0].report["error"]["kind"], "no_space");
        assert_eq!(done[0].phase(0)["per_task"].as_array().unwrap().len(), 2);
        assert_empty(mount.path());
    }
}

#[test]
fn a_file_system_without_direct_io_is_used_buffered_and_the_report_says_why() {
    let Some(ramfs) = Mount::new("ramfs", "rw") else {
        return;
    };
    let done = run(ramfs.path(), "--write --read --verify --direct --block-size 1MiB");
    assert_eq!(done.code, 0, "{}", done.stderr);
    let direct = &done.report["direct"];
    assert_eq!((direct["asked"].as_bool(), direct["used"].as_bool()), (Some(true), Some(false)));
    assert!(direct["reason"].as_str().unwrap().contains("O_DIRECT"), "{direct}");
    assert_empty(ramfs.path());
    let Some(tmpfs) = Mount::new("tmpfs", "size=8m") else {
        return;
    };
    let done = run(tmpfs.path(), "--write --direct --block-size 1MiB");
    assert_eq!(done.report["direct"]["used"], false, "tmpfs has no device to be direct with");
}

#[test]
fn an_unwritable_directory_is_said() {
    let Some(mount) = Mount::new("tmpfs", "ro") else {
        return;
    };
    for direct in ["", "--direct"] {
        let done = run(mount.path(), &format!("--write {direct}"));
        assert_eq!((done.code, done.report["error"]["kind"].as_str()), (3, Some("read_only")));
        assert_eq!(done.report["status"], "failed");
    }
}

/// Between the program and libc: `IOLOAD_FAULT=short` halves every second transfer and interrupts every third,
/// `IOLOAD_FAULT=<errno>` fails every transfer from the tenth on.
const FAULTY_LIBC: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
static atomic_int calls;
static size_t allowed(size_t length) {
    const char *fault = getenv("IOLOAD_FAULT");
    int call = atomic_fetch_add(&calls, 1);
    if (fault == NULL) return length;
    if (strcmp(fault, "short") != 0) {
        if (call < 10) return length;
        errno = atoi(fault);
        return 0;
    }
    if (call % 3 == 2) { errno = EINTR; return 0; }
    return call % 2 == 1 && length > 1024 ? length / 2 : length;
}
ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) {
    ssize_t (*real)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
    length = allowed(length);
    return length == 0 ? -1 : real(fd, data, length, offset);
}
ssize_t pread64(int fd, void *data, size_t length, off64_t offset) {
    ssize_t (*real)(int, void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pread64");
    length = allowed(length);
    return length == 0 ? -1 : real(fd, data, length, offset);
}
"#;

fn run_with_fault(args: &str, fault: &str) -> Option<(Done, Vec<String>)> {
    let (workshop, dir) = (tempdir().unwrap(), tempdir().unwrap());
    let (source, library) = (workshop.path().join("faulty.c"), workshop.path().join("faulty.so"));
    std::fs::write(&source, FAULTY_LIBC).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no C compiler");
        return None;
    }
    let output = program(dir.path(), args)
        .env("LD_PRELOAD", &library)
        .env("IOLOAD_FAULT", fault)
        .output()
        .unwrap();
    Some((Done::of(output), support::names(dir.path())))
}

#[test]
fn an_io_error_is_said_and_everything_removed() {
    for (errno, kind) in [(5, "io_error"), (122, "quota"), (116, "vanished")] {
        let args = "--write --read --tasks 2 --transfer-size 64KiB --block-size 4MiB";
        let Some((done, left)) = run_with_fault(args, &errno.to_string()) else {
            return;
        };
        assert_eq!((done.code, left), (3, vec![]), "{}", done.stderr);
        let error = &done.report["error"];
        assert_eq!((error["kind"].as_str(), error["errno"].as_i64()), (Some(kind), Some(errno)));
        assert_eq!(
            (done.phase(0)["status"].as_str(), done.phase(0)["bytes"].as_u64()),
            (Some("failed"), Some(10 * 65536))
        );
    }
}

#[test]
fn short_and_interrupted_transfers_are_finished() {
    let args = "--write --read --verify --tasks 2 --transfer-size 64KiB --block-size 1MiB";
    let Some((done, left)) = run_with_fault(args, "short") else {
        return;
    };
    assert_eq!((done.code, left), (0, vec![]), "{}", done.stderr);
    assert_eq!(done.phase(1)["verify"]["checked_bytes"], 2 << 20);
    assert_eq!(done.phase(1)["transfers"], 32, "a transfer counts once however many calls it took");
}

#[test]
fn the_file_size_limit_is_an_error_and_not_the_end_of_the_process() {
    let dir = tempdir().unwrap();
    let limited = Command::new("sh")
        .args([
            "-c",
            "ulimit -f 1024; exec \"$0\" \"$@\"",
            env!("CARGO_BIN_EXE_ioload"),
            "--alone",
            "--dir",
        ])
        .arg(dir.path())
        .args(["--write", "--block-size", "64MiB"])
        .output()
        .unwrap();
    let done = Done::of(limited);
    assert_eq!(
        (done.code, done.report["error"]["kind"].as_str()),
        (3, Some("file_too_large")),
        "{}",
        done.stderr
    );
    assert_empty(dir.path());
}

fn send(signal: libc::c_int, process: u32) {
    // SAFETY: plain numbers; the process is a child that has not been waited for.
    unsafe { libc::kill(process as libc::pid_t, signal) };
}

#[test]
fn a_signal_at_any_moment_leaves_no_file() {
    let dir = tempdir().unwrap();
    let args = "--write --read --keep --tasks 3 --transfer-size 64KiB --block-size 8MiB --fsync --minimum-duration 0.1";
    let rounds = if std::env::var_os("TRIMTAB_SOAK").is_some() { 600 } else { 24 };
    let began = Instant::now();
    assert!(program(dir.path(), args).output().unwrap().status.success());
    // As long as a run takes here and now, and somewhat more: some are to be through.
    let moments_us = began.elapsed().as_micros() as u64 * 5 / 4;
    support::names(dir.path())
        .iter()
        .for_each(|name| std::fs::remove_file(dir.path().join(name)).unwrap());
    let (mut interrupted, mut marked) = (0, 0);
    for round in 0.. {
        // Where others take the processors, more rounds are needed until enough were met.
        if round >= rounds && interrupted >= rounds / 3 || round == 10 * rounds {
            break;
        }
        let signal = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP][round % 3];
        let child = program(dir.path(), args).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(round as u64 * 12_347 % moments_us));
        send(signal, child.id());
        let output = child.wait_with_output().unwrap();
        if output.status.code() == Some(130) {
            interrupted += 1;
            let done = Done::of(output);
            assert_eq!(done.report["status"], "interrupted");
            assert_eq!(done.report["error"]["kind"], "interrupted");
            marked += usize::from(done.phase(0)["status"] == "interrupted");
            assert_empty(dir.path());
        } else if output.status.code() == Some(0) {
            // It was through before the signal: then --keep holds.
            for name in support::names(dir.path()) {
                std::fs::remove_file(dir.path().join(name)).unwrap();
            }
        } else {
            // Killed by the signal itself: before the handlers stood, so before the first file, or after the end.
            assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(signal));
            let left = support::names(dir.path());
            assert!(left.is_empty() || !output.stdout.is_empty(), "left {left:?}");
            for name in left {
                std::fs::remove_file(dir.path().join(name)).unwrap();
            }
        }
    }
    assert!(interrupted >= rounds / 3, "{interrupted} of {rounds} runs were met by their signal");
    assert!(marked > 0);
}
