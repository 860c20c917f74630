//! Starting the program under test and looking at what it leaves.
#![allow(dead_code, reason = "each test program uses the part that it needs")]

use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// The program without the launcher variables of the environment that runs the tests.
pub fn program(dir: &Path, args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ioload"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().into_owned();
        if ["OMPI_", "PMI", "SLURM_"].iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
        .arg("--dir")
        .arg(dir)
        .args(args.split_whitespace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The program as one of several ranks.
pub fn start_rank(dir: &Path, args: &str, rank: u64, size: u64) -> Child {
    program(dir, args)
        .env("PMI_RANK", rank.to_string())
        .env("PMI_SIZE", size.to_string())
        .spawn()
        .unwrap()
}

/// Exit code, report and stderr.
pub struct Done {
    pub code: i32,
    pub report: Value,
    pub stderr: String,
}

impl Done {
    pub fn of(output: Output) -> Self {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let report = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        let code =
            output.status.code().unwrap_or_else(|| panic!("killed: {:?} {stderr}", output.status));
        Self { code, report, stderr }
    }

    pub fn phase(&self, index: usize) -> &Value {
        &self.report["phases"][index]
    }
}

pub fn run(dir: &Path, args: &str) -> Done {
    Done::of(program(dir, args).output().unwrap())
}

pub fn run_ok(dir: &Path, args: &str) -> Done {
    let done = run(dir, args);
    assert_eq!(done.code, 0, "{args}: {}", done.stderr);
    assert_eq!(done.stderr, "", "nothing on stderr without --progress");
    done
}

/// Names of everything in a directory, sorted.
pub fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

pub fn assert_empty(dir: &Path) {
    assert_eq!(names(dir), Vec::<String>::new());
}

/// A mounted file system that goes away with its value.
pub struct Mount {
    pub dir: tempfile::TempDir,
}

impl Mount {
    /// `None` (said on stderr) where the machine does not let tests mount; CI does.
    pub fn new(kind: &str, options: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let status = Command::new("mount")
            .args(["-t", kind, "-o", options, "ioload-test"])
            .arg(dir.path())
            .output();
        if status.is_ok_and(|output| output.status.success()) {
            return Some(Self { dir });
        }
        eprintln!("skipped: cannot mount {kind} (needs root)");
        None
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.dir.path()).status();
    }
}
