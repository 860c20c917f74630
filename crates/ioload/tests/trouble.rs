//! Full disks, refusing file systems, signals: a clear error, a marked result, and nothing left behind.

mod support;

use std::process::Command;
use std::time::Duration;
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
        assert_eq!(
            (error["kind"].as_str(), error["errno"].as_i64()),
            (Some("no_space"), Some(28))
        );
        assert_eq!(done.phase(0)["status"], "failed");
        let bytes = done.phase(0)["bytes"].as_u64().unwrap();
        assert!(
            bytes > 4 << 20 && bytes <= 8 << 20,
            "the part that was done is told: {bytes}"
        );
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
        let ranks: Vec<_> = (0..2)
            .map(|rank| start_rank(mount.path(), &args, rank, 2))
            .collect();
        let done: Vec<Done> = ranks
            .into_iter()
            .map(|rank| Done::of(rank.wait_with_output().unwrap()))
            .collect();
        assert_eq!(
            (done[0].code, done[1].code),
            (3, 3),
            "{} {}",
            done[0].stderr,
            done[1].stderr
        );
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
    let done = run(
        ramfs.path(),
        "--write --read --verify --direct --block-size 1MiB",
    );
    assert_eq!(done.code, 0, "{}", done.stderr);
    let direct = &done.report["direct"];
    assert_eq!(
        (direct["asked"].as_bool(), direct["used"].as_bool()),
        (Some(true), Some(false))
    );
    assert!(
        direct["reason"].as_str().unwrap().contains("O_DIRECT"),
        "{direct}"
    );
    assert_empty(ramfs.path());
    let Some(tmpfs) = Mount::new("tmpfs", "size=8m") else {
        return;
    };
    let done = run(tmpfs.path(), "--write --direct --block-size 1MiB");
    assert_eq!(
        done.report["direct"]["used"], false,
        "tmpfs has no device to be direct with"
    );
}

#[test]
fn an_unwritable_directory_is_said() {
    let Some(mount) = Mount::new("tmpfs", "ro") else {
        return;
    };
    for direct in ["", "--direct"] {
        let done = run(mount.path(), &format!("--write {direct}"));
        assert_eq!(
            (done.code, done.report["error"]["kind"].as_str()),
            (3, Some("read_only"))
        );
        assert_eq!(done.report["status"], "failed");
    }
}

/// A device whose second half answers every request with an error; `None` where the machine has no device mapper.
struct FailingDisk {
    device: String,
    name: String,
    _image: tempfile::NamedTempFile,
}

impl FailingDisk {
    fn new() -> Option<Self> {
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(64 << 20).unwrap();
        let device = output_of(
            "losetup",
            &["--find", "--show", image.path().to_str().unwrap()],
        )?;
        let name = format!("ioload-test-{}", std::process::id());
        // The first half is linear, the rest fails; units are sectors of 512 bytes.
        let table = format!("0 65536 linear {device} 0\n65536 65536 error");
        let disk = Self {
            device,
            name,
            _image: image,
        };
        output_of("dmsetup", &["create", &disk.name, "--table", &table])?;
        Some(disk)
    }

    fn path(&self) -> String {
        format!("/dev/mapper/{}", self.name)
    }
}

impl Drop for FailingDisk {
    fn drop(&mut self) {
        let _ = Command::new("dmsetup")
            .args(["remove", &self.name])
            .output();
        let _ = Command::new("losetup")
            .args(["--detach", &self.device])
            .output();
    }
}

fn output_of(name: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(name).args(args).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
    output.status.success().then_some(text)
}

#[test]
fn an_io_error_is_said_and_everything_removed() {
    let Some(disk) = FailingDisk::new() else {
        eprintln!("skipped: no device mapper here (needs root and dmsetup)");
        return;
    };
    // No journal, and metadata at the front: only data meets the errors.
    let made = output_of(
        "mkfs.ext4",
        &[
            "-q",
            "-F",
            "-O",
            "^has_journal",
            "-E",
            "lazy_itable_init=0,packed_meta_blocks=1",
            &disk.path(),
        ],
    );
    assert!(made.is_some());
    let mount = tempdir().unwrap();
    let at = mount.path().to_str().unwrap();
    assert!(output_of("mount", &["-o", "errors=continue", &disk.path(), at]).is_some());
    let lost_and_found = support::names(mount.path());
    let done = run(
        mount.path(),
        "--write --direct --tasks 2 --transfer-size 64KiB --block-size 24MiB",
    );
    let left = support::names(mount.path());
    assert!(output_of("umount", &[at]).is_some());
    assert_eq!(done.code, 3, "{}", done.stderr);
    let error = &done.report["error"];
    assert_eq!(
        (error["kind"].as_str(), error["errno"].as_i64()),
        (Some("io_error"), Some(5)),
        "{error}"
    );
    assert_eq!(done.phase(0)["status"], "failed");
    assert_eq!(left, lost_and_found);
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
    let rounds = if std::env::var_os("TRIMTAB_SOAK").is_some() {
        600
    } else {
        24
    };
    let (mut interrupted, mut marked) = (0, 0);
    for round in 0..rounds {
        let signal = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP][round % 3];
        let child = program(dir.path(), args).spawn().unwrap();
        std::thread::sleep(Duration::from_micros((round as u64 * 12_347) % 290_000));
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
            assert_eq!(
                std::os::unix::process::ExitStatusExt::signal(&output.status),
                Some(signal)
            );
            let left = support::names(dir.path());
            assert!(
                left.is_empty() || !output.stdout.is_empty(),
                "left {left:?}"
            );
            for name in left {
                std::fs::remove_file(dir.path().join(name)).unwrap();
            }
        }
    }
    assert!(
        interrupted >= rounds / 3,
        "{interrupted} of {rounds} runs were met by their signal"
    );
    assert!(marked > 0);
}
