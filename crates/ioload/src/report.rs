//! The JSON report: what all ranks did, put together by rank 0.

use crate::args::Options;
use crate::direct::DirectReport;
use crate::error::ErrorReport;
use crate::latency::{Latencies, LatencyReport};
use crate::phase::{Clock, RankPhase};
use crate::schedule::Layout;
use crate::task::{Access, TaskOutcome};
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime};

/// How a phase or a run ended, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// All that was asked for was done.
    Ok,
    /// The deadline came before every task had gone through its data once.
    Partial,
    /// An error ended it; the numbers are those until then.
    Failed,
    /// A signal ended it; the numbers are those until then.
    Interrupted,
}

#[derive(Debug, Serialize)]
pub struct Report {
    pub ioload: &'static str,
    pub argv: Vec<String>,
    pub run_id: String,
    pub hosts: Vec<String>,
    pub ranks: u64,
    pub tasks: u64,
    pub clock: Clock,
    pub status: Status,
    pub error: Option<ErrorReport>,
    pub parameters: Parameters,
    pub direct: DirectReport,
    pub phases: Vec<PhaseReport>,
}

/// The parameters of the run as they were understood.
#[derive(Debug, Serialize)]
pub struct Parameters {
    pub dir: String,
    pub name: String,
    pub transfer_size_bytes: u64,
    pub block_size_bytes: u64,
    pub segments: u64,
    pub layout: &'static str,
    pub offsets: &'static str,
    pub reorder: u64,
    pub fsync: bool,
    pub deadline_s: Option<f64>,
    pub minimum_duration_s: Option<f64>,
    pub wear_out: bool,
    pub verify: bool,
    pub seed: u64,
}

impl Parameters {
    pub fn new(options: &Options) -> Self {
        Self {
            dir: options.dir.to_string_lossy().into_owned(),
            name: options.name.clone(),
            transfer_size_bytes: options.geometry.transfer_bytes,
            block_size_bytes: options.geometry.block_bytes,
            segments: options.geometry.segments,
            layout: match options.geometry.layout {
                Layout::FilePerProcess => "file-per-process",
                Layout::SharedFile => "shared-file",
            },
            offsets: if options.random { "random" } else { "sequential" },
            reorder: options.reorder,
            fsync: options.fsync,
            deadline_s: options.deadline_s,
            minimum_duration_s: options.minimum_duration_s,
            wear_out: options.wear_out,
            verify: options.verify,
            seed: options.seed,
        }
    }
}

#[derive(Debug, Serialize)]
pub struct PhaseReport {
    pub access: Access,
    pub status: Status,
    pub error: Option<ErrorReport>,
    pub began_at: String,
    pub bytes: u64,
    pub transfers: u64,
    pub passes: Option<f64>,
    pub elapsed_s: Option<f64>,
    pub bandwidth_bytes_per_s: Option<f64>,
    pub io_time_s: Option<f64>,
    pub io_bandwidth_bytes_per_s: Option<f64>,
    pub open_s: Option<f64>,
    pub transfer_s: Option<f64>,
    pub fsync_s: Option<f64>,
    pub close_s: Option<f64>,
    pub stonewall: Option<StonewallReport>,
    pub cpu_user_s: f64,
    pub cpu_system_s: f64,
    pub latency: LatencyReport,
    pub timeline: TimelineReport,
    pub verify: Option<VerifyReport>,
    pub per_task: Vec<PerTask>,
}

#[derive(Debug, Serialize)]
pub struct StonewallReport {
    pub deadline_s: f64,
    pub bytes: u64,
    pub elapsed_s: f64,
    pub bandwidth_bytes_per_s: Option<f64>,
}

/// Bytes per interval, one row for each task.
#[derive(Debug, Serialize)]
pub struct TimelineReport {
    pub interval_s: f64,
    pub tasks: Vec<Vec<u64>>,
}

#[derive(Debug, Serialize)]
pub struct VerifyReport {
    pub checked_bytes: u64,
    pub mismatches: u64,
    pub first_mismatch: Option<FirstMismatch>,
}

/// Where the first wrong byte is.
#[derive(Debug, Serialize)]
pub struct FirstMismatch {
    pub path: String,
    pub offset: u64,
}

#[derive(Debug, Serialize)]
pub struct PerTask {
    pub task: u64,
    pub rank: u64,
    pub host: String,
    pub path: String,
    pub bytes: u64,
    pub opened_at_s: Option<f64>,
    pub closed_at_s: Option<f64>,
}

/// A rank's part of a phase, with where it ran.
pub struct Part<'a> {
    pub rank: u64,
    pub host: &'a str,
    pub phase: &'a RankPhase,
}

/// The phase over all ranks that reported.
pub fn merge(options: &Options, parts: &[Part]) -> PhaseReport {
    let tasks: Vec<(&Part, &TaskOutcome)> = parts
        .iter()
        .flat_map(|part| part.phase.tasks.iter().map(move |task| (part, task)))
        .collect();
    let bytes = tasks.iter().map(|(_, task)| task.bytes).sum();
    let seconds = |of: fn(&TaskOutcome) -> Option<i64>| {
        tasks.iter().filter_map(move |(_, task)| seconds(of(task)))
    };
    let first_open_s = seconds(|task| task.opened_ns).reduce(f64::min);
    let last_close_s = greatest(seconds(|task| task.closed_ns));
    let elapsed_s = first_open_s.zip(last_close_s).map(|(open, close)| close - open);
    let io_time_s = greatest(tasks.iter().filter_map(|(_, task)| io_time_s(task)));
    let error = worst_error(parts.iter().filter_map(|part| part.phase.error.as_ref())).cloned();
    let began_ns = parts.iter().map(|part| part.phase.began_realtime_ns).min().unwrap_or(0);
    let mut latencies = Latencies::default();
    tasks.iter().for_each(|(_, task)| latencies.merge(&task.latencies));
    PhaseReport {
        access: parts[0].phase.access,
        status: status(options, error.as_ref(), &tasks),
        error,
        began_at: humantime::format_rfc3339_micros(
            SystemTime::UNIX_EPOCH + Duration::from_nanos(began_ns.max(0) as u64),
        )
        .to_string(),
        bytes,
        transfers: tasks.iter().map(|(_, task)| task.transfers).sum(),
        passes: greatest(
            tasks
                .iter()
                .map(|(_, task)| task.transfers as f64 / task.transfers_per_pass.max(1) as f64),
        ),
        elapsed_s,
        bandwidth_bytes_per_s: per_second(bytes, elapsed_s),
        io_time_s,
        io_bandwidth_bytes_per_s: per_second(bytes, io_time_s),
        open_s: greatest(seconds(|task| task.open_ns)),
        transfer_s: greatest(seconds(|task| task.transfer_ns)),
        fsync_s: greatest(seconds(|task| task.fsync_ns)),
        close_s: greatest(seconds(|task| task.close_ns)),
        stonewall: stonewall(options, &tasks, first_open_s),
        cpu_user_s: parts.iter().map(|part| part.phase.cpu_user_s).sum(),
        cpu_system_s: parts.iter().map(|part| part.phase.cpu_system_s).sum(),
        latency: latencies.report(),
        timeline: timeline(&tasks),
        verify: verify(options, &tasks),
        per_task: tasks.iter().map(|(part, task)| per_task(part, task)).collect(),
    }
}

/// Open, transfers, flush and close of one task, without making and comparing data.
fn io_time_s(task: &TaskOutcome) -> Option<f64> {
    let rest = [task.transfer_ns, task.fsync_ns, task.close_ns].into_iter().filter_map(seconds);
    let rest_s = rest.sum::<f64>();
    seconds(task.open_ns).map(|open_s| open_s + rest_s)
}

fn seconds(nanoseconds: Option<i64>) -> Option<f64> {
    nanoseconds.map(|nanoseconds| nanoseconds as f64 / 1e9)
}

fn greatest(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.reduce(f64::max)
}

fn per_second(bytes: u64, seconds: Option<f64>) -> Option<f64> {
    seconds.filter(|&seconds| seconds > 0.0).map(|seconds| bytes as f64 / seconds)
}

/// A signal outranks an error, and an error outranks the news that another rank had one.
pub fn worst_error<'a>(errors: impl Iterator<Item = &'a ErrorReport>) -> Option<&'a ErrorReport> {
    errors.min_by_key(|error| match error.kind.as_str() {
        "interrupted" => 0,
        "peer_failed" => 2,
        _ => 1,
    })
}

pub fn status_of_error(error: &ErrorReport) -> Status {
    if error.kind == "interrupted" { Status::Interrupted } else { Status::Failed }
}

fn status(
    options: &Options,
    error: Option<&ErrorReport>,
    tasks: &[(&Part, &TaskOutcome)],
) -> Status {
    if let Some(error) = error {
        return status_of_error(error);
    }
    // A deadline at or after the minimum duration means a run of fixed time: how far it gets is the result.
    let fixed_time = options
        .deadline_s
        .zip(options.minimum_duration_s)
        .is_some_and(|(deadline_s, minimum_s)| deadline_s >= minimum_s);
    let complete = tasks.iter().all(|(_, task)| task.transfers >= task.transfers_per_pass);
    if complete || fixed_time { Status::Ok } else { Status::Partial }
}

fn stonewall(
    options: &Options,
    tasks: &[(&Part, &TaskOutcome)],
    first_open_s: Option<f64>,
) -> Option<StonewallReport> {
    let deadline_s = options.deadline_s?;
    let stops = tasks.iter().filter_map(|(_, task)| task.stonewall);
    let last_stop_s = greatest(stops.filter_map(|stonewall| seconds(Some(stonewall.at_ns))))?;
    // A task that was through before the deadline counts with all it did.
    let bytes = tasks
        .iter()
        .map(|(_, task)| task.stonewall.map_or(task.bytes, |stonewall| stonewall.bytes))
        .sum();
    let elapsed_s = last_stop_s - first_open_s?;
    Some(StonewallReport {
        deadline_s,
        bytes,
        elapsed_s,
        bandwidth_bytes_per_s: per_second(bytes, Some(elapsed_s)),
    })
}

fn timeline(tasks: &[(&Part, &TaskOutcome)]) -> TimelineReport {
    let coarsest_ns = tasks.iter().map(|(_, task)| task.timeline.interval_ns()).max();
    let interval_ns = coarsest_ns.unwrap_or(crate::timeline::INTERVAL_NS);
    let rows = tasks.iter().map(|(_, task)| {
        let mut timeline = task.timeline.clone();
        timeline.coarsen_to(interval_ns);
        timeline.bytes().to_vec()
    });
    TimelineReport { interval_s: interval_ns as f64 / 1e9, tasks: rows.collect() }
}

fn verify(options: &Options, tasks: &[(&Part, &TaskOutcome)]) -> Option<VerifyReport> {
    let checked: Vec<_> =
        tasks.iter().filter_map(|(_, task)| Some((task, task.verification?))).collect();
    if !options.verify || checked.is_empty() {
        return None;
    }
    let first = checked.iter().find_map(|(task, outcome)| {
        Some(FirstMismatch { path: task.path.clone(), offset: outcome.first_offset? })
    });
    Some(VerifyReport {
        checked_bytes: checked.iter().map(|(_, outcome)| outcome.checked_bytes).sum(),
        mismatches: checked.iter().map(|(_, outcome)| outcome.mismatches).sum(),
        first_mismatch: first,
    })
}

fn per_task(part: &Part, task: &TaskOutcome) -> PerTask {
    PerTask {
        task: task.task,
        rank: part.rank,
        host: part.host.to_string(),
        path: task.path.clone(),
        bytes: task.bytes,
        opened_at_s: seconds(task.opened_ns),
        closed_at_s: seconds(task.closed_ns),
    }
}
