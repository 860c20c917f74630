//! A scan of a file system as a Python class: it runs in a thread of its own.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use namespace::Error;
use namespace::index::{COLUMNS, Kind};
use namespace::scan::{Control, Options, Summary, scan};
use namespace::walk::{Settings, THREADS_MAX, Wanted};
use pyo3::exceptions::{PyInterruptedError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Where nothing is asked for: a local file system answers from memory, a parallel one from afar.
const LUSTRE_THREADS: usize = 64;

/// What of the core went wrong, as Python says such things: a call that failed as `OSError` with
/// its number and path, wrong use as `ValueError`, a file that is not what it should be as
/// `RuntimeError`.
pub(crate) fn raised(error: Error) -> PyErr {
    match error {
        Error::System { path, source, .. } if source.raw_os_error().is_some() => {
            let number = source.raw_os_error();
            PyOSError::new_err((number, source.to_string(), path))
        }
        Error::System { .. } => PyOSError::new_err(error.to_string()),
        Error::Usage(why) => PyValueError::new_err(why),
        Error::Stopped => PyInterruptedError::new_err("stopped"),
        other => PyRuntimeError::new_err(other.to_string()),
    }
}

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

/// What a scan came to.
#[pyclass(module = "trimtab._core", frozen)]
pub struct ScanResult(Summary);

#[pymethods]
impl ScanResult {
    #[getter]
    fn entries(&self) -> u64 {
        self.0.counts.entries
    }

    #[getter]
    fn directories(&self) -> u64 {
        self.0.counts.directories
    }

    #[getter]
    fn vanished(&self) -> u64 {
        self.0.counts.vanished
    }

    #[getter]
    fn elsewhere(&self) -> u64 {
        self.0.counts.elsewhere
    }

    #[getter]
    fn allocated_bytes(&self) -> u64 {
        self.0.counts.allocated_bytes
    }

    #[getter]
    fn unread_count(&self) -> u64 {
        self.0.counts.unread
    }

    #[getter]
    fn unread(&self) -> Vec<(Cow<'_, [u8]>, i32)> {
        self.0.unread.iter().map(|one| (Cow::from(one.path.as_slice()), one.errno)).collect()
    }

    #[getter]
    fn started_ns(&self) -> i64 {
        self.0.started_ns
    }

    #[getter]
    fn ended_ns(&self) -> i64 {
        self.0.ended_ns
    }

    #[getter]
    fn elapsed_s(&self) -> f64 {
        self.0.elapsed_s
    }

    #[getter]
    fn shards(&self) -> Vec<String> {
        self.0.shards.iter().map(|shard| shard.name.clone()).collect()
    }

    #[getter]
    fn rows(&self) -> Vec<u64> {
        self.0.shards.iter().map(|shard| shard.rows).collect()
    }

    #[getter]
    fn stopped(&self) -> bool {
        self.0.stopped
    }
}

#[derive(Default)]
struct Running {
    control: Control,
    ended: Mutex<Option<Result<Summary, Error>>>,
    end: Condvar,
}

/// A parallel metadata scan into the shards of an index.
#[pyclass(module = "trimtab._core", frozen)]
pub struct NamespaceScan {
    options: Options,
    running: Arc<Running>,
    started: Mutex<bool>,
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
        descriptors = 1024,
        delay_s = 0.0,
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn new(
        root: PathBuf,
        index: PathBuf,
        threads: usize,
        checkpoint_s: f64,
        project: bool,
        layout: bool,
        lustre: bool,
        descriptors: usize,
        delay_s: f64,
    ) -> PyResult<Self> {
        let time = |name: &str, seconds: f64| {
            Duration::try_from_secs_f64(seconds)
                .map_err(|error| PyValueError::new_err(format!("{name}: {error}")))
        };
        let delay = time("delay_s", delay_s)?;
        let settings = Settings {
            threads: if threads == 0 { default_threads(lustre) } else { threads },
            wanted: Wanted { project, layout, lustre },
            descriptors,
            delay: (delay > Duration::ZERO).then_some(delay),
            ..Settings::default()
        };
        settings.check().map_err(raised)?;
        let checkpoint_every = time("checkpoint_s", checkpoint_s)?;
        let options = Options { root, index, settings, checkpoint_every };
        Ok(Self { options, running: Arc::default(), started: Mutex::new(false) })
    }

    fn start(&self) -> PyResult<()> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if *started {
            return Err(PyRuntimeError::new_err("a scan starts once; make another one"));
        }
        let (options, running) = (self.options.clone(), Arc::clone(&self.running));
        let thread = std::thread::Builder::new().name("scan".into()).spawn(move || {
            let work = || scan(&options, &running.control);
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            let panicked = |_| Err(Error::data(&options.root, "the scan itself broke: a bug"));
            let ended = caught.unwrap_or_else(panicked);
            *running.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
            running.end.notify_all();
        });
        thread.map_err(|error| PyOSError::new_err(error.to_string()))?;
        *started = true;
        Ok(())
    }

    fn stop(&self) {
        self.running.control.stop();
    }

    fn wait(&self, py: Python<'_>, timeout_s: f64) -> PyResult<bool> {
        let timeout = Duration::try_from_secs_f64(timeout_s)
            .map_err(|error| PyValueError::new_err(format!("timeout_s: {error}")))?;
        Ok(py.detach(|| {
            let ended = self.running.ended.lock().unwrap_or_else(PoisonError::into_inner);
            let still = |ended: &mut Option<Result<Summary, Error>>| ended.is_none();
            let waited = self.running.end.wait_timeout_while(ended, timeout, still);
            waited.unwrap_or_else(PoisonError::into_inner).0.is_some()
        }))
    }

    fn progress(&self) -> ScanProgress {
        let progress = self.running.control.progress();
        ScanProgress {
            entries: progress.counts.entries,
            directories: progress.counts.directories,
            pending: progress.waiting,
            vanished: progress.counts.vanished,
            elsewhere: progress.counts.elsewhere,
            unread: progress.counts.unread,
            allocated_bytes: progress.counts.allocated_bytes,
            elapsed_s: progress.elapsed_s,
        }
    }

    fn result(&self) -> PyResult<ScanResult> {
        let mut ended = self.running.ended.lock().unwrap_or_else(PoisonError::into_inner);
        match ended.take() {
            None => Err(PyRuntimeError::new_err("the scan has not ended; wait for it")),
            Some(Ok(summary)) => {
                *ended = Some(Ok(summary.clone()));
                Ok(ScanResult(summary))
            }
            Some(Err(error)) => {
                let again = Error::Usage(error.to_string());
                *ended = Some(Err(again));
                Err(raised(error))
            }
        }
    }
}

fn default_threads(lustre: bool) -> usize {
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
