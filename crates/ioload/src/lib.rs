//! A load generator with IOR's semantics and names.
//!
//! Tasks are threads; under `mpirun` or `srun` every rank has that many, and the ranks meet through a directory
//! instead of MPI. `main_from_args` is the whole program: the binary `ioload` and the Python module both call it.
//!
//! ```text
//! args ─> run ─> phase (supervisor) ─> task (one thread each) ─> schedule, pattern, buffer
//!          │        └─ control: start together, wear-out, stop
//!          ├─ rendezvous: barriers and messages between ranks
//!          ├─ files: names, removal whatever happens
//!          └─ report: one JSON object from rank 0
//! ```

mod args;
mod arrival;
mod buffer;
mod control;
mod direct;
mod error;
mod files;
mod heartbeat;
mod latency;
mod launcher;
pub mod pattern;
mod phase;
mod rendezvous;
mod report;
mod run;
mod schedule;
pub mod signals;
mod sys;
mod task;
mod timeline;

use args::{Options, Request};
use error::{EXIT_FAILED, ErrorReport};
use run::Outcome;
use signals::Handlers;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

/// Runs a command line (without the program's name) and returns the exit code; data on stdout, the rest on stderr.
pub fn main_from_args<I: IntoIterator<Item = OsString>>(args: I) -> u8 {
    let request = match args::parse(args, environment) {
        Ok(request) => request,
        Err(error) => return complain(None, &error.report()),
    };
    let options = match request {
        Request::Print(text) => return print(&text),
        Request::Run(options) => options,
    };
    let handlers = Handlers::install();
    match run::run(&options, &handlers) {
        Ok(outcome) => present(&options, &outcome),
        Err(error) => complain(Some(&options), &error.report()),
    }
}

/// Runs a command line and returns the JSON report instead of printing it, with the exit code.
///
/// # Errors
/// Wrong use, also `--help` and `--version`, which have no report.
pub fn report_from_args<I: IntoIterator<Item = OsString>>(args: I) -> error::Result<(String, u8)> {
    let Request::Run(options) = args::parse(args, environment)? else {
        return Err(error::Error::Usage("--help and --version have no report".to_string()));
    };
    let outcome = run::run(&options, &Handlers::install())?;
    let text = outcome.report.as_ref().map_or_else(|| Ok(String::new()), serde_json::to_string);
    let text = text.map_err(|error| {
        error::Error::Usage(format!("the report cannot be written as JSON: {error}"))
    })?;
    Ok((text, outcome.exit_code))
}

fn environment(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

fn present(options: &Options, outcome: &Outcome) -> u8 {
    if let Some(error) = &outcome.error {
        complain(Some(options), error);
    }
    let Some(report) = &outcome.report else {
        return outcome.exit_code;
    };
    let text = match serde_json::to_string(report) {
        Ok(text) => text + "\n",
        Err(error) => {
            say(&format!("ioload: error: the report cannot be written as JSON: {error}"));
            return EXIT_FAILED;
        }
    };
    let saved = options.out.as_deref().map_or(0, |path| save(path, &text));
    let printed = print(&text);
    outcome.exit_code.max(saved).max(printed)
}

fn save(path: &Path, text: &str) -> u8 {
    if let Err(error) = std::fs::write(path, text) {
        say(&format!("ioload: error: cannot write {}: {error}", path.display()));
        return EXIT_FAILED;
    }
    0
}

fn print(text: &str) -> u8 {
    let mut stdout = std::io::stdout().lock();
    if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        say(&format!("ioload: error: cannot write to stdout: {error}"));
        return EXIT_FAILED;
    }
    0
}

fn complain(options: Option<&Options>, error: &ErrorReport) -> u8 {
    let rank = options.map(|options| &options.rank).filter(|rank| rank.size > 1);
    let who = rank.map_or(String::new(), |rank| format!(" rank {}:", rank.rank));
    say(&format!("ioload:{who} error: {}", error.message));
    error.exit_code()
}

/// Writes one line to stderr. A closed stderr must not end a run that has files to remove, as
/// `eprintln!` would.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
