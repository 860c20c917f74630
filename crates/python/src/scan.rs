//! A scan of a file system as a Python class: it runs in a thread of its own.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use namespace::Error;
use namespace::index::{COLUMNS, Kind};
use namespace::scan::{Control, Options, Progress, Summary, scan};
use namespace::walk::{BaseIndex, Counts, EachMdt, Settings, THREADS_MAX, Wanted};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::rules::{raised, raised_with};
use crate::tally::{Source, parts};

/// Threads by default: a local file system answers from memory, a parallel one from afar.
const LUSTRE_THREADS: usize = 64;

/// Advice for an index file that an interrupted scan has left damaged.
const HINT: &str = "remove the directory of the index and scan again";

/// How far a scan is.
#[pyclass(module = "trimtab._core", frozen, get_all)]
pub struct ScanProgress {
    entries: u64,
    directories: u64,
    pending: usize,
    vanished: u64,
    elsewhere: u64,
    unread: u64,
    allocated_bytes: u64,
    elapsed_s: f64,
}

/// Result of a scan.
#[pyclass(module = "trimtab._core", frozen, get_all)]
pub struct ScanResult {
    entries: u64,
    directories: u64,
    vanished: u64,
    elsewhere: u64,
    allocated_bytes: u64,
    unchanged: u64,
    carried: u64,
    unread_count: u64,
    unread: Vec<(Vec<u8>, i32)>,
    started_ns: i64,
    ended_ns: i64,
    elapsed_s: f64,
    shards: Vec<String>,
    rows: Vec<u64>,
    stopped: bool,
}

impl From<&Summary> for ScanResult {
    fn from(summary: &Summary) -> Self {
        let Counts { entries, directories, vanished, elsewhere, unread, allocated_bytes, .. } =
            summary.counts;
        let Counts { unchanged, carried, .. } = summary.counts;
        let Summary { started_ns, ended_ns, elapsed_s, stopped, .. } = *summary;
        Self {
            entries,
            directories,
            vanished,
            elsewhere,
            allocated_bytes,
            unchanged,
            carried,
            unread_count: unread,
            unread: summary.unread.iter().map(|path| (path.path.clone(), path.errno)).collect(),
            started_ns,
            ended_ns,
            elapsed_s,
            shards: summary.shards.iter().map(|shard| shard.name.clone()).collect(),
            rows: summary.shards.iter().map(|shard| shard.rows).collect(),
            stopped,
        }
    }
}

type Ended = Result<Summary, Error>;

#[derive(Default)]
struct Running {
    control: Control,
    ended: Mutex<Option<Arc<Ended>>>,
    end: Condvar,
}

/// A parallel metadata scan into the shards of an index.
#[pyclass(module = "trimtab._core", frozen)]
pub struct NamespaceScan {
    options: Options,
    running: Arc<Running>,
    started: AtomicBool,
}

#[pymethods]
impl NamespaceScan {
    #[new]
    #[pyo3(signature = (
        root,
        index,
        *,
        threads = 0,
        checkpoint_s = 30.0,
        project = false,
        layout = false,
        lustre = false,
        exact_sizes = false,
        descriptors = 1024,
        delay_s = 0.0,
        latency_s_max = None,
        each_mdt = None,
        device = None,
        base = None,
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn new(
        py: Python<'_>,
        root: PathBuf,
        index: PathBuf,
        threads: usize,
        checkpoint_s: f64,
        project: bool,
        layout: bool,
        lustre: bool,
        exact_sizes: bool,
        descriptors: usize,
        delay_s: f64,
        latency_s_max: Option<f64>,
        each_mdt: Option<(f64, usize)>,
        device: Option<u64>,
        base: Option<(String, Vec<Source>, i64, bool)>,
    ) -> PyResult<Self> {
        let delay = duration("delay_s", delay_s)?;
        let settings = Settings {
            threads: if threads == 0 { default_threads(lustre) } else { threads },
            wanted: Wanted { project, layout, lustre, exact_sizes },
            descriptors,
            delay: (delay > Duration::ZERO).then_some(delay),
            latest: latency_s_max
                .map(|latest_s| duration("latency_s_max", latest_s))
                .transpose()?,
            each_mdt: each_mdt
                .map(|(apart_s, threads)| {
                    Ok::<_, PyErr>(EachMdt { apart: duration("each_mdt", apart_s)?, threads })
                })
                .transpose()?
                .unwrap_or_default(),
            device,
            ..Settings::default()
        };
        settings.check().map_err(|error| raised(py, &error))?;
        let checkpoint_every = duration("checkpoint_s", checkpoint_s)?;
        let base = base.map(|(id, shards, before_ns, empty_again)| BaseIndex {
            id,
            parts: parts(shards),
            before_ns,
            empty_again,
        });
        let options = Options { root, index, settings, checkpoint_every, base };
        Ok(Self { options, running: Arc::default(), started: AtomicBool::new(false) })
    }

    fn start(&self) -> PyResult<()> {
        if self.started.swap(true, Ordering::Relaxed) {
            return Err(PyRuntimeError::new_err("a scan starts once; create another one"));
        }
        let (options, running) = (self.options.clone(), Arc::clone(&self.running));
        let thread = std::thread::Builder::new().name("scan".into()).spawn(move || {
            let work = || scan(&options, &running.control);
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            let panicked = |_| Err(Error::data(&options.root, "the scan failed because of a bug"));
            let ended = caught.unwrap_or_else(panicked);
            *running.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(ended));
            running.end.notify_all();
        });
        thread.map(drop).map_err(|error| {
            self.started.store(false, Ordering::Relaxed);
            PyOSError::new_err(error.to_string())
        })
    }

    fn stop(&self) {
        self.running.control.stop();
    }

    fn wait(&self, py: Python<'_>, timeout_s: f64) -> PyResult<bool> {
        let timeout = duration("timeout_s", timeout_s)?;
        Ok(py.detach(|| {
            let ended = self.running.ended.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = self.running.end.wait_timeout_while(ended, timeout, |end| end.is_none());
            waited.unwrap_or_else(PoisonError::into_inner).0.is_some()
        }))
    }

    fn progress(&self) -> ScanProgress {
        let Progress { counts, waiting: pending, elapsed_s } = self.running.control.progress();
        let Counts { entries, directories, vanished, elsewhere, unread, allocated_bytes, .. } =
            counts;
        ScanProgress {
            // Names that are carried over are done as well.
            entries: entries + counts.carried,
            directories,
            pending,
            vanished,
            elsewhere,
            unread,
            allocated_bytes,
            elapsed_s,
        }
    }

    fn result(&self, py: Python<'_>) -> PyResult<ScanResult> {
        // Not locked while Python runs: it may let another thread of Python wait for the lock.
        let ended = self.running.ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match ended.as_deref() {
            None => Err(PyRuntimeError::new_err("the scan has not ended; wait for it")),
            Some(Ok(summary)) => Ok(summary.into()),
            Some(Err(error)) => Err(raised_with(py, error, HINT)),
        }
    }
}

fn duration(name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|error| PyValueError::new_err(format!("{name}: {error}")))
}

pub(crate) fn default_threads(lustre: bool) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if lustre { LUSTRE_THREADS } else { cores.clamp(2, THREADS_MAX) }
}

/// The columns of an index in the order of the shards: name, kind, whether a row may have no value.
pub fn columns(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    let columns = COLUMNS.iter().map(|column| {
        let kind = match column.kind {
            Kind::Bytes | Kind::Identity => "binary",
            Kind::Text => "string",
            Kind::Small => "uint32",
            Kind::Unsigned => "uint64",
            Kind::Signed | Kind::Time => "int64",
            Kind::Smalls => "list[uint32]",
        };
        (column.name, kind, column.is_nullable())
    });
    PyTuple::new(py, columns.collect::<Vec<_>>())
}
