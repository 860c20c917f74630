//! The command line: what was typed, checked, in base units.

use crate::error::{Error, Result};
use crate::launcher::{self, Rank};
use crate::schedule::{Geometry, Layout};
use crate::size;
use crate::sys;
use lexopt::ValueExt;
use std::ffi::OsString;
use std::path::PathBuf;

/// Text of `--help`.
pub const HELP: &str = "\
ioload: an IOR-style load generator. Tasks are threads; under mpirun or srun every rank has that many.

usage: ioload --dir DIR (--write | --read) [options]

where
  --dir DIR               directory under test; it must exist
  --name PREFIX           files are PREFIX.00000000 ..., or PREFIX if shared [ioload]
what
  --write                 write phase
  --read                  read phase, after the write phase if both are asked for
  --tasks N               tasks (threads) of each rank [1]
  --transfer-size SIZE    bytes of one read or write [1MiB]
  --block-size SIZE       contiguous bytes of a task in a segment [1GiB]
  --segments N            segments [1]
  --shared-file           one file for all tasks instead of one for each
  --random                transfers in shuffled order
  --reorder N             a task reads what the task N further on wrote [0]
how
  --direct                O_DIRECT; if the file system refuses it, buffered, and the report says why
  --fsync                 flush inside the timed region of the write phase
  --deadline S            stop every phase after S seconds (stonewall)
  --wear-out              after the deadline every task goes on to the most transfers any task reached
  --minimum-duration S    start again at the beginning of the file until S seconds passed;
                          with --deadline of the same S: a run of fixed time
  --verify                compare what is read with what was written
  --seed N                seed of data and shuffling [from the run id]
files
  --keep                  leave the files (a failed or interrupted run removes its own all the same)
  --overwrite             write into files that exist, in place; they are not removed at the end
ranks
  --run-id ID             the same word for all ranks; needed with more than one rank [random]
  --rendezvous DIR        directory that all ranks see, for barriers and reports [DIR of --dir]
  --rendezvous-timeout S  how long a rank may be silent [60]
  --alone                 ignore the launcher's environment
output: one JSON object on stdout, from rank 0
  --out FILE              also write it to FILE
  --progress              one JSON line a second on stderr
  --version, --help

sizes: 4096, 64KiB, 1MiB, 1GiB, 1TiB (1024), 1KB, 1MB, 1GB, 1TB (1000)
exit codes: 0 done, 2 wrong use, 3 input or output failed, 130 interrupted
";

/// A run as asked for, in base units.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory under test.
    pub dir: PathBuf,
    /// First part of the files' names.
    pub name: String,
    /// Write phase wanted.
    pub write: bool,
    /// Read phase wanted.
    pub read: bool,
    /// Threads of this rank.
    pub tasks_per_rank: u64,
    /// Sizes and layout over all ranks.
    pub geometry: Geometry,
    /// Shuffled order.
    pub random: bool,
    /// Shift between a reading task and the one whose data it reads.
    pub reorder: u64,
    /// O_DIRECT wanted.
    pub direct: bool,
    /// Flush inside the timed region.
    pub fsync: bool,
    /// Stonewall in seconds.
    pub deadline_s: Option<f64>,
    /// Go on to the greatest number of transfers after the stonewall.
    pub wear_out: bool,
    /// Repeat the file until so many seconds passed.
    pub minimum_duration_s: Option<f64>,
    /// Compare what is read.
    pub verify: bool,
    /// Seed of data and shuffling.
    pub seed: u64,
    /// Leave the files.
    pub keep: bool,
    /// Write into existing files.
    pub overwrite: bool,
    /// Word that all ranks agree on.
    pub run_id: String,
    /// Parent directory of the rendezvous.
    pub rendezvous: PathBuf,
    /// Seconds that a rank may be silent.
    pub rendezvous_timeout_s: f64,
    /// Second copy of the report.
    pub out: Option<PathBuf>,
    /// Progress lines wanted.
    pub progress: bool,
    /// This process among its ranks.
    pub rank: Rank,
    /// The command line, for the report.
    pub argv: Vec<String>,
}

/// What the command line asks for.
#[derive(Clone, Debug)]
pub enum Request {
    /// Print the help text.
    Help,
    /// Print the version.
    Version,
    /// Run.
    Run(Box<Options>),
}

/// What was typed, before any of it is checked against the rest.
#[derive(Default)]
struct Typed {
    dir: Option<PathBuf>,
    name: Option<String>,
    write: bool,
    read: bool,
    tasks: Option<u64>,
    transfer_bytes: Option<u64>,
    block_bytes: Option<u64>,
    segments: Option<u64>,
    shared_file: bool,
    random: bool,
    reorder: Option<u64>,
    direct: bool,
    fsync: bool,
    deadline_s: Option<f64>,
    wear_out: bool,
    minimum_duration_s: Option<f64>,
    verify: bool,
    seed: Option<u64>,
    keep: bool,
    overwrite: bool,
    run_id: Option<String>,
    rendezvous: Option<PathBuf>,
    rendezvous_timeout_s: Option<f64>,
    alone: bool,
    out: Option<PathBuf>,
    progress: bool,
}

/// Reads a command line (without the program's name) in the environment `get`.
pub fn parse<I>(args: I, get: impl Fn(&str) -> Option<String>) -> Result<Request>
where
    I: IntoIterator<Item = OsString>,
{
    let args: Vec<OsString> = args.into_iter().collect();
    let mut parser = lexopt::Parser::from_args(args.iter().cloned());
    let mut typed = Typed::default();
    while let Some(argument) = parser.next().map_err(usage)? {
        match argument {
            lexopt::Arg::Long("help") | lexopt::Arg::Short('h') => return Ok(Request::Help),
            lexopt::Arg::Long("version") | lexopt::Arg::Short('V') => return Ok(Request::Version),
            lexopt::Arg::Long(name) => {
                let name = name.to_string();
                take(&mut typed, &name, &mut parser)?;
            }
            other => return Err(usage(other.unexpected())),
        }
    }
    let rank = if typed.alone {
        launcher::from_environment(|_| None)?
    } else {
        launcher::from_environment(get)?
    };
    let argv = std::iter::once("ioload".into())
        .chain(args.iter().map(|arg| arg.to_string_lossy().into_owned()))
        .collect();
    check(typed, rank, argv).map(|options| Request::Run(Box::new(options)))
}

fn usage(error: impl std::fmt::Display) -> Error {
    Error::Usage(format!("{error}; hint: ioload --help"))
}

fn take(typed: &mut Typed, name: &str, parser: &mut lexopt::Parser) -> Result<()> {
    match name {
        "write" => typed.write = true,
        "read" => typed.read = true,
        "shared-file" => typed.shared_file = true,
        "random" => typed.random = true,
        "direct" => typed.direct = true,
        "fsync" => typed.fsync = true,
        "wear-out" => typed.wear_out = true,
        "verify" => typed.verify = true,
        "keep" => typed.keep = true,
        "overwrite" => typed.overwrite = true,
        "alone" => typed.alone = true,
        "progress" => typed.progress = true,
        "dir" => typed.dir = Some(path(parser)?),
        "rendezvous" => typed.rendezvous = Some(path(parser)?),
        "out" => typed.out = Some(path(parser)?),
        "name" => typed.name = Some(text(parser)?),
        "run-id" => typed.run_id = Some(text(parser)?),
        "tasks" => typed.tasks = Some(number(name, parser)?),
        "segments" => typed.segments = Some(number(name, parser)?),
        "reorder" => typed.reorder = Some(number(name, parser)?),
        "seed" => typed.seed = Some(number(name, parser)?),
        "transfer-size" => typed.transfer_bytes = Some(bytes(name, parser)?),
        "block-size" => typed.block_bytes = Some(bytes(name, parser)?),
        "deadline" => typed.deadline_s = Some(seconds(name, parser)?),
        "minimum-duration" => typed.minimum_duration_s = Some(seconds(name, parser)?),
        "rendezvous-timeout" => typed.rendezvous_timeout_s = Some(seconds(name, parser)?),
        unknown => return Err(usage(format!("unknown option --{unknown}"))),
    }
    Ok(())
}

fn path(parser: &mut lexopt::Parser) -> Result<PathBuf> {
    Ok(PathBuf::from(parser.value().map_err(usage)?))
}

fn text(parser: &mut lexopt::Parser) -> Result<String> {
    parser.value().map_err(usage)?.string().map_err(usage)
}

fn number(name: &str, parser: &mut lexopt::Parser) -> Result<u64> {
    let text = text(parser)?;
    text.parse().map_err(|_| usage(format!("--{name}: `{text}` is not a whole number")))
}

fn bytes(name: &str, parser: &mut lexopt::Parser) -> Result<u64> {
    size::parse(&text(parser)?).map_err(|why| Error::Usage(format!("--{name}: {why}")))
}

fn seconds(name: &str, parser: &mut lexopt::Parser) -> Result<f64> {
    let text = text(parser)?;
    let plain = text.strip_suffix('s').unwrap_or(&text);
    match plain.parse::<f64>() {
        // The upper end, a year, keeps every later sum of nanoseconds within 64 bits.
        Ok(value) if value > 0.0 && value <= 31_536_000.0 => Ok(value),
        _ => Err(usage(format!(
            "--{name}: `{text}` is not a number of seconds above 0 and at most a year"
        ))),
    }
}

fn check(typed: Typed, rank: Rank, argv: Vec<String>) -> Result<Options> {
    let dir = typed.dir.ok_or_else(|| usage("--dir is missing"))?;
    if !dir.is_dir() {
        return Err(Error::Usage(format!(
            "--dir: {} is not a directory; hint: create it first",
            dir.display()
        )));
    }
    if !typed.write && !typed.read {
        return Err(usage("nothing to do: --write, --read or both are needed"));
    }
    if typed.wear_out && typed.deadline_s.is_none() {
        return Err(usage("--wear-out needs --deadline"));
    }
    if typed.verify && !typed.read {
        return Err(usage("--verify needs --read"));
    }
    if typed.verify && !typed.write && typed.seed.is_none() {
        return Err(usage(
            "--verify without --write needs the --seed that the files were written with",
        ));
    }
    let tasks_per_rank = typed.tasks.unwrap_or(1);
    let layout = if typed.shared_file { Layout::SharedFile } else { Layout::FilePerProcess };
    let geometry = Geometry {
        transfer_bytes: typed.transfer_bytes.unwrap_or(1 << 20),
        block_bytes: typed.block_bytes.unwrap_or(1 << 30),
        segments: typed.segments.unwrap_or(1),
        tasks: rank.size.saturating_mul(tasks_per_rank),
        layout,
    };
    check_geometry(&geometry, tasks_per_rank)?;
    let name = typed.name.unwrap_or_else(|| "ioload".to_string());
    if name.is_empty() || name.len() > 200 || name.starts_with('.') || name.contains(['/', '\0']) {
        return Err(usage(format!("--name: `{name}` cannot start a file name")));
    }
    let run_id = run_id(typed.run_id, &rank)?;
    let reorder = typed.reorder.unwrap_or(0) % geometry.tasks;
    Ok(Options {
        rendezvous: typed.rendezvous.unwrap_or_else(|| dir.clone()),
        dir,
        name,
        write: typed.write,
        read: typed.read,
        tasks_per_rank,
        geometry,
        random: typed.random,
        reorder,
        direct: typed.direct,
        fsync: typed.fsync,
        deadline_s: typed.deadline_s,
        wear_out: typed.wear_out,
        minimum_duration_s: typed.minimum_duration_s,
        verify: typed.verify,
        seed: typed.seed.unwrap_or_else(|| seed_of(&run_id)),
        keep: typed.keep,
        overwrite: typed.overwrite,
        run_id,
        rendezvous_timeout_s: typed.rendezvous_timeout_s.unwrap_or(60.0),
        out: typed.out,
        progress: typed.progress,
        rank,
        argv,
    })
}

/// Most threads of one process: beyond this a launcher with ranks is the way.
const TASKS_PER_RANK_MAX: u64 = 4096;

fn check_geometry(geometry: &Geometry, tasks_per_rank: u64) -> Result<()> {
    let Geometry { transfer_bytes, block_bytes, segments, tasks, .. } = *geometry;
    if !(1..=TASKS_PER_RANK_MAX).contains(&tasks_per_rank) {
        return Err(usage(format!("--tasks must be 1 to {TASKS_PER_RANK_MAX}")));
    }
    if transfer_bytes == 0 || segments == 0 {
        return Err(usage("--transfer-size and --segments must be above 0"));
    }
    if block_bytes == 0 || block_bytes % transfer_bytes != 0 {
        return Err(usage(format!(
            "--block-size ({block_bytes}) must be a multiple of --transfer-size ({transfer_bytes})"
        )));
    }
    let total = block_bytes.checked_mul(segments).and_then(|own| own.checked_mul(tasks));
    // Offsets of pread and pwrite are signed.
    if total.is_none_or(|total| total > i64::MAX as u64) {
        return Err(usage("block size x segments x tasks is more than 2^63 bytes"));
    }
    let buffers =
        tasks_per_rank.saturating_mul(transfer_bytes.saturating_mul(2).saturating_add(1 << 21));
    let memory = sys::physical_memory_bytes();
    if buffers > memory / 2 {
        return Err(usage(format!(
            "buffers of {tasks_per_rank} tasks for transfers of {transfer_bytes} bytes would take {buffers} bytes, more than half of the memory ({memory})"
        )));
    }
    Ok(())
}

fn run_id(typed: Option<String>, rank: &Rank) -> Result<String> {
    let Some(run_id) = typed else {
        if rank.size > 1 {
            let source = rank.source.unwrap_or("the environment");
            return Err(usage(format!(
                "{source} say that this is rank {} of {}: --run-id is needed, the same for all (or --alone)",
                rank.rank, rank.size
            )));
        }
        let random = sys::random_u64().map_err(|source| Error::Resource {
            what: "random bytes for the run id".to_string(),
            source,
        })?;
        return Ok(format!("{random:016x}"));
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if run_id.is_empty() || run_id.len() > 128 || !run_id.chars().all(allowed) {
        return Err(usage(format!(
            "--run-id: `{run_id}` must be 1 to 128 letters, digits, dots, dashes or underscores"
        )));
    }
    Ok(run_id)
}

/// FNV-1a of the run id, cut to 53 bits so that it survives a JSON reader that knows only doubles.
fn seed_of(run_id: &str) -> u64 {
    let hash = run_id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash >> 11
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Request> {
        parse(args.iter().map(OsString::from), |_| None)
    }

    fn options(args: &[&str]) -> Options {
        match parsed(args).unwrap() {
            Request::Run(options) => *options,
            other => panic!("not a run: {other:?}"),
        }
    }

    #[test]
    fn defaults_are_those_of_the_help_text() {
        let options = options(&["--dir", "/tmp", "--write"]);
        assert_eq!(options.geometry.transfer_bytes, 1 << 20);
        assert_eq!(options.geometry.block_bytes, 1 << 30);
        assert_eq!((options.geometry.segments, options.geometry.tasks), (1, 1));
        assert_eq!(options.geometry.layout, Layout::FilePerProcess);
        assert_eq!((options.name.as_str(), options.reorder), ("ioload", 0));
        assert_eq!(options.rendezvous, PathBuf::from("/tmp"));
        assert!(options.seed < 1 << 53);
    }

    #[test]
    fn every_option_of_the_help_text_is_known() {
        for line in HELP.lines().filter_map(|line| line.trim().strip_prefix("--")) {
            let name = line.split([' ', ',']).next().unwrap();
            let outcome = parsed(&["--dir", "/tmp", &format!("--{name}"), "1"]);
            if let Err(error) = outcome {
                assert!(!error.to_string().contains("unknown option"), "{name}: {error}");
            }
        }
    }

    #[test]
    fn wrong_use_is_refused_with_a_reason() {
        let base = ["--dir", "/tmp", "--write"];
        let cases: [(&[&str], &str); 12] = [
            (&["--transfer-size", "3", "--block-size", "10"], "multiple"),
            (&["--transfer-size", "0"], "above 0"),
            (&["--transfer-size", "1m"], "unknown unit"),
            (&["--tasks", "0"], "--tasks"),
            (&["--tasks", "two"], "whole number"),
            (&["--deadline", "0"], "seconds"),
            (&["--deadline", "nan"], "seconds"),
            (&["--wear-out"], "--deadline"),
            (&["--verify"], "--read"),
            (&["--name", "../x"], "--name"),
            (&["--run-id", "a/b"], "--run-id"),
            (&["--no-such"], "unknown option"),
        ];
        for (more, expected) in cases {
            let args: Vec<&str> = base.iter().chain(more).copied().collect();
            let error = parsed(&args).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains(expected), "{more:?}: {error}");
        }
        for args in [
            &["--write"][..],
            &["--dir", "/tmp"],
            &["--dir", "/no/such", "--write"],
            &["--dir", "/tmp", "--write", "stray"],
        ] {
            assert_eq!(parsed(args).unwrap_err().exit_code(), 2, "{args:?}");
        }
    }

    #[test]
    fn several_ranks_need_a_run_id() {
        let get = |name: &str| match name {
            "PMI_RANK" => Some("1".to_string()),
            "PMI_SIZE" => Some("2".to_string()),
            _ => None,
        };
        let args = ["--dir", "/tmp", "--write"].map(OsString::from);
        let error = parse(args.clone(), get).unwrap_err();
        assert!(error.to_string().contains("--run-id"), "{error}");
        let alone = args.into_iter().chain(["--alone".into()]);
        assert!(matches!(parse(alone, get), Ok(Request::Run(o)) if o.rank.size == 1));
    }
}
