//! The command line: the arguments, checked, in base units.

use crate::error::{Error, Result};
use crate::launcher::{self, Rank};
use crate::schedule::{Geometry, Layout};
use crate::sys;
use clap::Parser;
use clap::error::ErrorKind;
use std::ffi::OsString;
use std::path::PathBuf;

/// An IOR-style load generator. Tasks are threads; under mpirun or srun every rank has that many.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "ioload",
    version,
    override_usage = "ioload --dir DIR (--write | --read) [options]",
    args_override_self = true,
    after_help = "sizes: 4096, 64KiB, 1MiB, 1GiB, 1TiB (1024), 1KB, 1MB, 1GB, 1TB (1000)\n\
                  exit codes: 0 done, 2 wrong use, 3 input or output failed, 130 interrupted"
)]
pub struct Options {
    /// Directory under test; it must exist
    #[arg(long, allow_hyphen_values = true, help_heading = "where")]
    pub dir: PathBuf,
    /// Files are NAME.00000000 ..., or NAME if shared
    #[arg(long, default_value = "ioload", value_parser = name, allow_hyphen_values = true, help_heading = "where")]
    pub name: String,

    /// Write phase
    #[arg(long, help_heading = "what")]
    pub write: bool,
    /// Read phase, after the write phase if both are requested
    #[arg(long, help_heading = "what")]
    pub read: bool,
    /// Tasks (threads) of each rank
    #[arg(long = "tasks", value_name = "N", default_value_t = 1, help_heading = "what",
          value_parser = clap::value_parser!(u64).range(1..=TASKS_PER_RANK_MAX))]
    pub tasks_per_rank: u64,
    /// Bytes of one read or write
    #[arg(long = "transfer-size", value_name = "SIZE", default_value = "1MiB", value_parser = size, help_heading = "what")]
    transfer_bytes: u64,
    /// Contiguous bytes of a task in a segment
    #[arg(long = "block-size", value_name = "SIZE", default_value = "1GiB", value_parser = size, help_heading = "what")]
    block_bytes: u64,
    /// Segments
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "what")]
    segments: u64,
    /// One file for all tasks instead of one for each
    #[arg(long, help_heading = "what")]
    shared_file: bool,
    /// Transfers in shuffled order
    #[arg(long, help_heading = "what")]
    pub random: bool,
    /// A task reads what the task N further on wrote
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "what")]
    pub reorder: u64,

    /// O_DIRECT; if the file system refuses it, buffered, and the report says why
    #[arg(long, help_heading = "how")]
    pub direct: bool,
    /// Flush inside the timed region of the write phase
    #[arg(long, help_heading = "how")]
    pub fsync: bool,
    /// Stop every phase after S seconds (stonewall)
    #[arg(long = "deadline", value_name = "S", value_parser = seconds, help_heading = "how")]
    pub deadline_s: Option<f64>,
    /// After the deadline every task goes on to the most transfers any task reached
    #[arg(long, requires = "deadline_s", help_heading = "how")]
    pub wear_out: bool,
    /// Start again at the beginning of the file until S seconds passed; with --deadline of the same S: a run of fixed time
    #[arg(long = "minimum-duration", value_name = "S", value_parser = seconds, help_heading = "how")]
    pub minimum_duration_s: Option<f64>,
    /// Compare what is read with what was written
    #[arg(long, requires = "read", help_heading = "how")]
    pub verify: bool,
    /// Seed of data and shuffling [default: from the run id]
    #[arg(long = "seed", value_name = "N", help_heading = "how")]
    requested_seed: Option<u64>,

    /// Leave the files (a failed or interrupted run removes its own all the same)
    #[arg(long, help_heading = "files")]
    pub keep: bool,
    /// Write into files that exist, in place; they are not removed at the end
    #[arg(long, help_heading = "files")]
    pub overwrite: bool,

    /// The same word for all ranks; required with more than one rank [default: random]
    #[arg(long = "run-id", value_name = "ID", value_parser = run_id, help_heading = "ranks")]
    requested_run_id: Option<String>,
    /// Directory that all ranks see, for barriers and reports [default: DIR of --dir]
    #[arg(
        long = "rendezvous",
        value_name = "DIR",
        allow_hyphen_values = true,
        help_heading = "ranks"
    )]
    requested_rendezvous: Option<PathBuf>,
    /// How long a rank may be silent
    #[arg(long = "rendezvous-timeout", value_name = "S", default_value = "60", value_parser = seconds, help_heading = "ranks")]
    pub rendezvous_timeout_s: f64,
    /// Ignore the launcher's environment
    #[arg(long, help_heading = "ranks")]
    alone: bool,

    /// Write the JSON object, which rank 0 prints on stdout, also to FILE
    #[arg(long, value_name = "FILE", allow_hyphen_values = true, help_heading = "output")]
    pub out: Option<PathBuf>,
    /// One JSON line a second on stderr
    #[arg(long, help_heading = "output")]
    pub progress: bool,

    /// Sizes and layout over all ranks.
    #[arg(skip)]
    pub geometry: Geometry,
    #[arg(skip)]
    pub seed: u64,
    /// Word that all ranks agree on.
    #[arg(skip)]
    pub run_id: String,
    /// Parent directory of the rendezvous.
    #[arg(skip)]
    pub rendezvous: PathBuf,
    #[arg(skip)]
    pub rank: Rank,
    /// The command line, for the report.
    #[arg(skip)]
    pub argv: Vec<String>,
}

/// Request on the command line.
#[derive(Clone, Debug)]
pub enum Request {
    /// Print the help text or the version.
    Print(String),
    Run(Box<Options>),
}

/// Reads a command line (without the program's name) in the environment `get`.
pub fn parse<I>(args: I, get: impl Fn(&str) -> Option<String>) -> Result<Request>
where
    I: IntoIterator<Item = OsString>,
{
    let args: Vec<OsString> = std::iter::once("ioload".into()).chain(args).collect();
    let mut options = match Options::try_parse_from(&args) {
        Ok(options) => options,
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                return Ok(Request::Print(error.to_string()));
            }
            _ => return Err(usage(summary(&error))),
        },
    };
    options.rank = launcher::from_environment(|name| get(name).filter(|_| !options.alone))?;
    options.argv = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    complete(&mut options)?;
    Ok(Request::Run(Box::new(options)))
}

/// The error on one line; the usage that follows it is left to `--help`.
fn summary(error: &clap::Error) -> String {
    let text = error.to_string();
    let problem = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = problem.trim_start_matches("error: ").split_whitespace().collect();
    words.join(" ")
}

fn usage(error: impl std::fmt::Display) -> Error {
    Error::Usage(format!("{error}; hint: ioload --help"))
}

/// Bytes of a size such as `4096`, `64KiB`, `1MiB` or `2GB`; the message says what was wrong.
fn size(text: &str) -> std::result::Result<u64, String> {
    let trimmed = text.trim();
    let digits = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
    let (number, suffix) = trimmed.split_at(digits);
    let number: u64 = number
        .parse()
        .map_err(|_| format!("`{text}` is not a size; hint: write 1048576, 1MiB or 1MB"))?;
    let unit = unit_bytes(suffix.trim()).ok_or_else(|| {
        format!(
            "`{text}` has an unknown unit; hint: KiB, MiB, GiB, TiB (1024) or KB, MB, GB, TB (1000)"
        )
    })?;
    number.checked_mul(unit).ok_or_else(|| format!("`{text}` is more than 2^64 bytes"))
}

/// IOR's single letters are left out: `1m` is 1024^2 there and 1000^2 elsewhere.
fn unit_bytes(suffix: &str) -> Option<u64> {
    let unit = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    Some(unit)
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    let plain = text.strip_suffix('s').unwrap_or(text);
    match plain.parse::<f64>() {
        // The upper end, a year, keeps every later sum of nanoseconds within 64 bits.
        Ok(value) if value > 0.0 && value <= 31_536_000.0 => Ok(value),
        _ => Err("not a number of seconds above 0 and at most a year".into()),
    }
}

fn name(text: &str) -> std::result::Result<String, String> {
    if text.is_empty() || text.len() > 200 || text.starts_with('.') || text.contains(['/', '\0']) {
        return Err("cannot start a file name".into());
    }
    Ok(text.into())
}

fn run_id(text: &str) -> std::result::Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if text.is_empty() || text.len() > 128 || !text.chars().all(allowed) {
        return Err("must be 1 to 128 letters, digits, dots, dashes or underscores".into());
    }
    Ok(text.into())
}

/// Checks what one option alone cannot tell and fills in what follows from the rest.
fn complete(options: &mut Options) -> Result<()> {
    if !options.dir.is_dir() {
        return Err(Error::Usage(format!(
            "--dir: {} is not a directory; hint: create it first",
            options.dir.display()
        )));
    }
    if !options.write && !options.read {
        return Err(usage("nothing to do: --write, --read or both are needed"));
    }
    if options.verify && !options.write && options.requested_seed.is_none() {
        return Err(usage(
            "--verify without --write needs the --seed that the files were written with",
        ));
    }
    options.geometry = Geometry {
        transfer_bytes: options.transfer_bytes,
        block_bytes: options.block_bytes,
        segments: options.segments,
        tasks: options.rank.size.saturating_mul(options.tasks_per_rank),
        layout: if options.shared_file { Layout::SharedFile } else { Layout::FilePerProcess },
    };
    check_geometry(&options.geometry, options.tasks_per_rank)?;
    options.run_id = match options.requested_run_id.take() {
        Some(run_id) => run_id,
        None => random_run_id(&options.rank)?,
    };
    options.seed = options.requested_seed.unwrap_or_else(|| seed_of(&options.run_id));
    options.reorder %= options.geometry.tasks;
    let rendezvous = options.requested_rendezvous.take();
    options.rendezvous = rendezvous.unwrap_or_else(|| options.dir.clone());
    Ok(())
}

/// Most threads of one process: beyond this a launcher with ranks is the way.
const TASKS_PER_RANK_MAX: u64 = 4096;

fn check_geometry(geometry: &Geometry, tasks_per_rank: u64) -> Result<()> {
    let Geometry { transfer_bytes, block_bytes, segments, tasks, .. } = *geometry;
    if transfer_bytes == 0 || segments == 0 {
        return Err(usage("--transfer-size and --segments must be above 0"));
    }
    if block_bytes == 0 || block_bytes % transfer_bytes != 0 {
        return Err(usage(format!(
            "--block-size ({block_bytes}) must be a multiple of --transfer-size ({transfer_bytes})"
        )));
    }
    let total = block_bytes.checked_mul(segments).and_then(|of_task| of_task.checked_mul(tasks));
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

fn random_run_id(rank: &Rank) -> Result<String> {
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
    Ok(format!("{random:016x}"))
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

    #[test]
    fn sizes_have_known_units() {
        let cases = [
            ("4096", 4096),
            ("64KiB", 65536),
            ("1 MiB", 1 << 20),
            ("2GiB", 2 << 30),
            ("1tib", 1 << 40),
            ("3KB", 3000),
            ("1MB", 1_000_000),
            ("7B", 7),
        ];
        for (text, bytes) in cases {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn a_size_that_is_none_is_refused() {
        for text in ["", "MiB", "-1", "1.5MiB", "1m", "1 XiB", "99999999TiB", "1MiB2"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

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
    fn the_command_line_is_consistent() {
        <Options as clap::CommandFactory>::command().debug_assert();
        let printed = |args: &[&str]| match parsed(args).unwrap() {
            Request::Print(text) => text,
            other => panic!("not printed: {other:?}"),
        };
        let help = printed(&["--dir", "/tmp", "--help"]);
        for expected in ["--transfer-size <SIZE>", "[default: 1MiB]", "exit codes: 0 done"] {
            assert!(help.contains(expected), "{expected} in {help}");
        }
        assert_eq!(printed(&["-V"]), format!("ioload {}\n", env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn the_last_of_repeated_options_counts() {
        let args = ["--dir", "/tmp", "--write", "--tasks", "2", "--tasks=3", "--segments", "2"];
        let options =
            options(&[&args[..], &["--write", "--deadline", "2s", "--wear-out"]].concat());
        assert_eq!((options.geometry.tasks, options.geometry.segments), (3, 2));
        assert_eq!((options.deadline_s, options.wear_out), (Some(2.0), true));
    }

    #[test]
    fn wrong_use_is_refused_with_a_reason() {
        let base = ["--dir", "/tmp", "--write"];
        let cases: [(&[&str], &str); 12] = [
            (&["--transfer-size", "3", "--block-size", "10"], "multiple"),
            (&["--transfer-size", "0"], "above 0"),
            (&["--transfer-size", "1m"], "unknown unit"),
            (&["--tasks", "0"], "--tasks"),
            (&["--tasks", "two"], "invalid digit"),
            (&["--deadline", "0"], "seconds"),
            (&["--deadline", "nan"], "seconds"),
            (&["--wear-out"], "--deadline"),
            (&["--verify"], "--read"),
            (&["--name", "../x"], "--name"),
            (&["--run-id", "a/b"], "--run-id"),
            (&["--no-such"], "--no-such"),
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
