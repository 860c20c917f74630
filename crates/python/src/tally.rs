//! How much could be deleted, by age, and which files: the tally and the selection for Python.

use std::path::PathBuf;

use namespace::index::Part;
use namespace::tally::{Amount, Options, Tally as Core};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyDict, PyTuple, PyType};

use crate::rules::{Rules, raised};

/// Buckets, files and bytes as arrays in the machine's own order.
type Arrays<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// The amounts of an index, or of some of its shards.
#[pyclass(module = "trimtab._core")]
pub struct Tally(Core);

/// A shard, or a shard and the file with the numbers of its rows that count no more.
#[derive(FromPyObject)]
pub enum Source {
    Whole(PathBuf),
    Partly(PathBuf, PathBuf),
}

pub(crate) fn parts(shards: Vec<Source>) -> Vec<Part> {
    let part = |source| match source {
        Source::Whole(path) => Part { path, superseded: None },
        Source::Partly(path, superseded) => Part { path, superseded: Some(superseded) },
    };
    shards.into_iter().map(part).collect()
}

/// Counts the entries in the shards of an index.
#[pyfunction]
#[pyo3(signature = (shards, rules, *, threads = 0, users = true, projects = false, osts = false))]
pub fn tally(
    py: Python<'_>,
    shards: Vec<Source>,
    rules: &Rules,
    threads: usize,
    users: bool,
    projects: bool,
    osts: bool,
) -> PyResult<Tally> {
    let options = Options { users, projects, osts };
    py.detach(|| namespace::tally::tally(&parts(shards), &rules.0, options, threads))
        .map(Tally)
        .map_err(|error| raised(py, &error))
}

/// Writes the candidates of a cut-off; returns how many files they are and what these take up.
#[pyfunction]
#[pyo3(signature = (shards, rules, *, before_s, out, threads = 0, memory_bytes = 1 << 30))]
pub fn select(
    py: Python<'_>,
    shards: Vec<Source>,
    rules: &Rules,
    before_s: i64,
    out: PathBuf,
    threads: usize,
    memory_bytes: usize,
) -> PyResult<(u64, u64)> {
    py.detach(|| {
        namespace::selection::select(
            &parts(shards),
            &rules.0,
            before_s,
            &out,
            threads,
            memory_bytes,
        )
    })
    .map(pair)
    .map_err(|error| raised(py, &error))
}

/// Writes the candidates of some shards; `linked` is a tally of the whole index.
#[pyfunction]
#[pyo3(signature = (shards, rules, *, before_s, out, linked = None, memory_bytes = 1 << 28))]
pub fn select_part(
    py: Python<'_>,
    shards: Vec<Source>,
    rules: &Rules,
    before_s: i64,
    out: PathBuf,
    linked: Option<PyRef<'_, Tally>>,
    memory_bytes: usize,
) -> PyResult<(u64, u64)> {
    let linked = linked.as_deref().map(|tally| &tally.0);
    py.detach(|| {
        namespace::selection::select_part(
            &parts(shards),
            &rules.0,
            before_s,
            &out,
            memory_bytes,
            linked,
        )
    })
    .map(pair)
    .map_err(|error| raised(py, &error))
}

/// Merges the candidates of all shards, written part by part.
#[pyfunction]
pub fn merge_parts(py: Python<'_>, parts: Vec<PathBuf>, out: PathBuf) -> PyResult<()> {
    py.detach(|| namespace::selection::merge_parts(&parts, &out))
        .map_err(|error| raised(py, &error))
}

fn pair(amount: Amount) -> (u64, u64) {
    (amount.files, amount.allocated_bytes)
}

fn arrays<'py>(py: Python<'py>, buckets: &[(i64, Amount)]) -> Arrays<'py> {
    let column = |of: fn(&(i64, Amount)) -> [u8; 8]| {
        PyBytes::new(py, &buckets.iter().flat_map(of).collect::<Vec<u8>>())
    };
    (
        column(|(bucket, _)| bucket.to_ne_bytes()),
        column(|(_, amount)| amount.files.to_ne_bytes()),
        column(|(_, amount)| amount.allocated_bytes.to_ne_bytes()),
    )
}

#[pymethods]
impl Tally {
    #[getter]
    fn files(&self) -> u64 {
        self.0.total().files
    }

    #[getter]
    fn allocated_bytes(&self) -> u64 {
        self.0.total().allocated_bytes
    }

    #[getter]
    fn future_files(&self) -> u64 {
        self.0.future_files()
    }

    #[getter]
    fn latest_future_s(&self) -> Option<i64> {
        self.0.latest_future_s()
    }

    fn merge(&mut self, py: Python<'_>, other: PyRef<'_, Self>) -> PyResult<()> {
        self.0.merge(&other.0).map_err(|error| raised(py, &error))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        Core::from_bytes(data).map(Self).map_err(|error| raised(py, &error))
    }

    /// Lets a tally go from one process to another.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let make = PyType::new::<Self>(py).getattr("from_bytes")?;
        let bytes = slf.borrow().to_bytes(py);
        PyTuple::new(py, [make.into_any(), PyTuple::new(py, [bytes])?.into_any()])
    }

    fn kept<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let kept = self.0.kept().into_iter();
        kept.map(|(reason, amount)| (reason.text(), pair(amount))).into_py_dict(py)
    }

    fn hours<'py>(&self, py: Python<'py>) -> Arrays<'py> {
        arrays(py, &self.0.hours())
    }

    fn users(&self) -> Vec<u32> {
        self.0.users()
    }

    fn projects(&self) -> Vec<u32> {
        self.0.projects()
    }

    fn osts(&self) -> Vec<u32> {
        self.0.osts()
    }

    fn total_of_user(&self, uid: u32) -> (u64, u64) {
        pair(self.0.total_of_user(uid))
    }

    fn total_of_project(&self, project: u32) -> (u64, u64) {
        pair(self.0.total_of_project(project))
    }

    fn days_of_user<'py>(&self, py: Python<'py>, uid: u32) -> Arrays<'py> {
        arrays(py, &self.0.days_of_user(uid))
    }

    fn days_of_project<'py>(&self, py: Python<'py>, project: u32) -> Arrays<'py> {
        arrays(py, &self.0.days_of_project(project))
    }

    fn hours_of_ost<'py>(&self, py: Python<'py>, ost: u32) -> Arrays<'py> {
        arrays(py, &self.0.hours_of_ost(ost))
    }

    fn unplaced(&self) -> (u64, u64) {
        pair(self.0.unplaced())
    }
}
