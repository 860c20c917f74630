//! Verified deletion as a Python class.

use std::fs::File;
use std::os::fd::{BorrowedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use namespace::Root;
use namespace::index::{FilePart, FileParts, Shard};
use namespace::patience::Patience;
use namespace::removal::lustre::RemovalByFid;
use namespace::removal::{self, Batch, Outcome, Removal as ByName, Settings, Swept};
use namespace::rmfid::{Bounded, Mounted};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyDict};

use crate::rules::{Rules, raised};

/// Rows of a plan, each with the code of its outcome.
type RowOutcomes = Vec<(u64, u8)>;

/// The two kinds of deletion.
enum Way {
    Name(Box<ByName>),
    Fid(Box<RemovalByFid<Bounded<Mounted>>>),
}

/// The same call of either kind.
macro_rules! of_either {
    ($way:expr, $removal:ident => $call:expr) => {
        match $way {
            Way::Name($removal) => $call,
            Way::Fid($removal) => $call,
        }
    };
}

/// A part of a file of candidates: rows, bytes and the hash of these bytes.
type Part = (u64, u64, [u8; 32]);

/// Owner and allocated bytes of rows as arrays in the machine's own order.
type Arrays<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// The candidates of a plan, open for reading.
#[pyclass(module = "trimtab._core", frozen)]
pub struct Candidates(Shard);

#[pymethods]
impl Candidates {
    #[new]
    #[pyo3(signature = (path, *, descriptor = None, parts = None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        descriptor: Option<RawFd>,
        parts: Option<Vec<Part>>,
    ) -> PyResult<Self> {
        let of_python = |(rows, bytes, sha256)| FilePart { rows, bytes, sha256 };
        let open = || {
            let file = match descriptor {
                Some(number) => file_of(number, &path)?,
                None => File::open(&path)
                    .map_err(|error| namespace::Error::system("open", &path, error))?,
            };
            match parts {
                Some(parts) => {
                    Shard::of_signed(&path, file, parts.into_iter().map(of_python).collect())
                }
                None => Shard::of_file(&path, file),
            }
        };
        py.detach(open).map(Self).map_err(|error| raised(py, &error))
    }

    #[getter]
    fn rows(&self) -> u64 {
        self.0.rows()
    }

    fn listed<'py>(&self, py: Python<'py>, first: u64, count: u64) -> PyResult<Arrays<'py>> {
        let listed = py.detach(|| {
            let listed = removal::listed(&self.0, first, count)?;
            let uids: Vec<u8> = listed.uids.iter().flat_map(|uid| uid.to_ne_bytes()).collect();
            let bytes = listed.allocated_bytes.iter().flat_map(|bytes| bytes.to_ne_bytes());
            Ok((uids, bytes.collect::<Vec<u8>>()))
        });
        let (uids, bytes) = listed.map_err(|error| raised(py, &error))?;
        Ok((PyBytes::new(py, &uids), PyBytes::new(py, &bytes)))
    }
}

/// The hash of an open file of candidates, and its parts.
#[pyfunction]
pub(crate) fn parts_of(
    py: Python<'_>,
    path: PathBuf,
    descriptor: RawFd,
) -> PyResult<([u8; 32], Vec<Part>)> {
    let parts = py.detach(|| namespace::index::parts_of(&path, file_of(descriptor, &path)?));
    let FileParts { sha256, parts } = parts.map_err(|error| raised(py, &error))?;
    let to_python = |FilePart { rows, bytes, sha256 }| (rows, bytes, sha256);
    Ok((sha256, parts.into_iter().map(to_python).collect()))
}

/// The deletion of the candidates of one plan.
#[pyclass(module = "trimtab._core", frozen)]
pub struct Removal(Mutex<Way>);

#[pymethods]
impl Removal {
    #[new]
    #[pyo3(signature = (
        candidates, root, rules, *, before_s, quarantine, time_resolution_ns = 1, threads = 2,
        open_files = false, lustre = false, exact_sizes = true, listed_s = None,
        root_descriptor = None,
    ))]
    #[allow(clippy::too_many_arguments, reason = "each is a keyword in Python")]
    fn new(
        py: Python<'_>,
        candidates: &Candidates,
        root: PathBuf,
        rules: &Rules,
        before_s: i64,
        quarantine: &str,
        time_resolution_ns: i64,
        threads: usize,
        open_files: bool,
        lustre: bool,
        exact_sizes: bool,
        listed_s: Option<i64>,
        root_descriptor: Option<RawFd>,
    ) -> PyResult<Self> {
        let settings = Settings {
            before_s,
            quarantine: quarantine.as_bytes().to_vec(),
            time_resolution_ns,
            exact_sizes,
            threads,
            open_files,
            listed_s,
        };
        let (rules, candidates) = (rules.0.clone(), candidates.0.clone());
        let open = || {
            let root = match root_descriptor {
                Some(number) => root_of(number, &root)?,
                None => Root::open(&root)?,
            };
            if lustre {
                let lustre = Bounded::new(Mounted::open(&root)?, Patience::default());
                return RemovalByFid::open(candidates, &root, lustre, rules, &settings)
                    .map(|removal| Way::Fid(Box::new(removal)));
            }
            ByName::open(candidates, root, rules, settings)
                .map(|removal| Way::Name(Box::new(removal)))
        };
        let way = py.detach(open).map_err(|error| raised(py, &error))?;
        Ok(Self(Mutex::new(way)))
    }

    #[getter]
    fn rows(&self) -> u64 {
        let way = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        of_either!(&*way, removal => removal.rows())
    }

    #[getter]
    fn watches(&self) -> Option<bool> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Way::Name(removal) => removal.watches(),
            Way::Fid(_) => None,
        }
    }

    fn check(&self, py: Python<'_>, first: u64, count: u64) -> PyResult<RemovalBatch> {
        self.work(py, |way| of_either!(way, removal => removal.check(first, count)))
    }

    #[pyo3(signature = (first, count, until_s = None))]
    fn delete(
        &self,
        py: Python<'_>,
        first: u64,
        count: u64,
        until_s: Option<f64>,
    ) -> PyResult<RemovalBatch> {
        let until = until_s.map(|s| Duration::try_from_secs_f64(s).unwrap_or_default());
        self.work(py, |way| {
            of_either!(way, removal => {
                removal.lasts_until(until);
                removal.delete(first, count)
            })
        })
    }

    fn recover(&self, py: Python<'_>, first: u64, count: u64) -> PyResult<RemovalBatch> {
        self.work(py, |way| of_either!(way, removal => removal.recover(first, count)))
    }

    fn take_over(
        &self,
        py: Python<'_>,
        first: u64,
        count: u64,
        quarantines: Vec<String>,
    ) -> PyResult<RemovalBatch> {
        let names: Vec<Vec<u8>> = quarantines.into_iter().map(String::into_bytes).collect();
        self.work(py, |way| match way {
            Way::Name(removal) => removal.take_over(first, count, &names),
            // Removal by FID moves nothing: only look which files still exist.
            Way::Fid(removal) => removal.recover(first, count),
        })
    }

    fn sweep(&self, py: Python<'_>) -> PyResult<(RowOutcomes, Vec<Vec<u8>>)> {
        let swept = self.locked(py, |way| match way {
            Way::Name(removal) => removal.sweep(),
            // Removal by FID moves nothing.
            Way::Fid(_) => Ok(Swept::default()),
        })?;
        Ok((swept.rows, swept.waiting))
    }
}

impl Removal {
    fn work(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Way) -> namespace::Result<Batch> + Send,
    ) -> PyResult<RemovalBatch> {
        self.locked(py, work).map(RemovalBatch::from)
    }

    fn locked<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Way) -> namespace::Result<T> + Send,
    ) -> PyResult<T> {
        let answer = py.detach(|| match self.0.lock() {
            Ok(mut way) => work(&mut way),
            Err(_) => {
                let message = "an earlier batch failed: create a new removal and recover";
                Err(namespace::Error::Refused(message.into()))
            }
        });
        answer.map_err(|error| raised(py, &error))
    }
}

/// Opens again the file of a caller's descriptor.
fn file_of(number: RawFd, path: &Path) -> namespace::Result<File> {
    if number < 0 {
        return Err(namespace::Error::Usage(format!("{number} is not a descriptor")));
    }
    // SAFETY: it is used for this one call, which fails for a number that is not open.
    let again = unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned();
    again.map(File::from).map_err(|error| namespace::Error::system("dup", path, error))
}

/// Opens again the root of a caller's descriptor.
fn root_of(number: RawFd, path: &Path) -> namespace::Result<Root> {
    if number < 0 {
        return Err(namespace::Error::Usage(format!("{number} is not a descriptor")));
    }
    // SAFETY: it is used for this one call, which fails for a number that is not open.
    Root::again(unsafe { BorrowedFd::borrow_raw(number) }, path)
}

/// Outcome of a batch of rows.
#[pyclass(module = "trimtab._core", frozen, get_all)]
pub struct RemovalBatch {
    outcomes: Vec<u8>,
    freed_bytes: u64,
    deleted: u64,
    errors: Vec<(u64, i32)>,
    unexplained: Vec<Vec<u8>>,
    elapsed_s: f64,
    latency_s_median: f64,
    latency_s_p99: f64,
}

impl From<Batch> for RemovalBatch {
    fn from(batch: Batch) -> Self {
        let Batch { freed_bytes, deleted, elapsed_s, latency_s_median, latency_s_p99, .. } = batch;
        let Batch { outcomes, errors, unexplained, .. } = batch;
        Self {
            outcomes,
            freed_bytes,
            deleted,
            errors,
            unexplained,
            elapsed_s,
            latency_s_median,
            latency_s_p99,
        }
    }
}

/// The codes of outcomes and their names.
pub(crate) fn outcomes(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    Outcome::TABLE.map(|(outcome, name)| (outcome as u8, name)).into_py_dict(py)
}

/// Names in a quarantine besides files that were taken.
pub(crate) fn quarantine(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let files = removal::CELL_FILES.map(|(name, bytes, row)| (text(name), (bytes, row)));
    let names = [
        ("prefix", removal::QUARANTINE_PREFIX),
        ("stranded", removal::STRANDED),
        ("reserve", removal::RESERVE),
        ("ready", removal::READY),
    ];
    let dict = names.map(|(key, name)| (key, text(name))).into_py_dict(py)?;
    dict.set_item("cell_files", files.into_py_dict(py)?)?;
    Ok(dict)
}

fn text(name: &'static [u8]) -> &'static str {
    std::str::from_utf8(name).expect("names of our own")
}

/// The names of every quarantine in a root.
#[pyfunction]
pub(crate) fn quarantines(py: Python<'_>, root: PathBuf) -> PyResult<Vec<Bound<'_, PyBytes>>> {
    let names = py.detach(|| removal::quarantines(&Root::open(&root)?));
    let names = names.map_err(|error| raised(py, &error))?;
    Ok(names.iter().map(|name| PyBytes::new(py, name)).collect())
}

/// The files in quarantines beneath a root, a dict each; with `restore`, put back.
#[pyfunction]
#[pyo3(signature = (root, *, restore = false, into = None))]
pub(crate) fn files_aside<'py>(
    py: Python<'py>,
    root: PathBuf,
    restore: bool,
    into: Option<Vec<u8>>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let listed = py.detach(|| removal::aside(&Root::open(&root)?, restore, into.as_deref()));
    let listed = listed.map_err(|error| raised(py, &error))?;
    let bytes = |path: &[u8]| PyBytes::new(py, path);
    listed
        .into_iter()
        .map(|file| {
            let dict = PyDict::new(py);
            dict.set_item("quarantine", bytes(&file.quarantine))?;
            dict.set_item("place", bytes(&file.place))?;
            dict.set_item("origin", file.origin.as_deref().map(bytes))?;
            dict.set_item("row", file.row)?;
            dict.set_item("uid", file.uid)?;
            dict.set_item("size_bytes", file.size_bytes)?;
            dict.set_item("fate", file.fate.text())?;
            Ok(dict)
        })
        .collect()
}
