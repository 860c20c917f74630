//! Verified deletion as a Python class.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use namespace::Root;
use namespace::removal::lustre::RemovalByFid;
use namespace::removal::{Batch, Outcome, Removal as ByName, Settings};
use namespace::rmfid::Mounted;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::rules::{Rules, raised};

enum Way {
    Name(Box<ByName>),
    Fid(Box<RemovalByFid<Mounted>>),
}

/// What is asked of a removal.
#[derive(Clone, Copy)]
enum Work {
    Check,
    Delete,
    Recover,
}

impl Way {
    fn rows(&self) -> u64 {
        match self {
            Self::Name(removal) => removal.rows(),
            Self::Fid(removal) => removal.rows(),
        }
    }

    fn work(&mut self, work: Work, first: u64, count: u64) -> namespace::Result<Batch> {
        match (self, work) {
            (Self::Name(removal), Work::Check) => removal.check(first, count),
            (Self::Name(removal), Work::Delete) => removal.delete(first, count),
            (Self::Name(removal), Work::Recover) => removal.recover(first, count),
            (Self::Fid(removal), Work::Check) => removal.check(first, count),
            (Self::Fid(removal), Work::Delete) => removal.delete(first, count),
            (Self::Fid(removal), Work::Recover) => removal.recover(first, count),
        }
    }
}

/// The deletion of the candidates of one plan.
#[pyclass(module = "trimtab._core", frozen)]
pub struct Removal(Mutex<Way>);

#[pymethods]
impl Removal {
    #[new]
    #[pyo3(signature = (
        candidates, root, rules, *, before_s, quarantine, time_resolution_ns = 1, threads = 2,
        open_files = false, lustre = false,
    ))]
    #[allow(clippy::too_many_arguments, reason = "each is a keyword in Python")]
    fn new(
        py: Python<'_>,
        candidates: PathBuf,
        root: PathBuf,
        rules: &Rules,
        before_s: i64,
        quarantine: &str,
        time_resolution_ns: i64,
        threads: usize,
        open_files: bool,
        lustre: bool,
    ) -> PyResult<Self> {
        let settings = Settings {
            before_s,
            quarantine: quarantine.as_bytes().to_vec(),
            time_resolution_ns,
            threads,
            open_files,
        };
        let rules = rules.0.clone();
        let open = || {
            let root = Root::open(&root)?;
            if lustre {
                let mounted = Mounted::open(&root)?;
                return RemovalByFid::open(&candidates, &root, mounted, rules, &settings)
                    .map(|removal| Way::Fid(Box::new(removal)));
            }
            ByName::open(&candidates, root, rules, settings)
                .map(|removal| Way::Name(Box::new(removal)))
        };
        let way = py.detach(open).map_err(|error| raised(py, error))?;
        Ok(Self(Mutex::new(way)))
    }

    #[getter]
    fn rows(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).rows()
    }

    fn check(&self, py: Python<'_>, first: u64, count: u64) -> PyResult<RemovalBatch> {
        self.work(py, Work::Check, first, count)
    }

    fn delete(&self, py: Python<'_>, first: u64, count: u64) -> PyResult<RemovalBatch> {
        self.work(py, Work::Delete, first, count)
    }

    fn recover(&self, py: Python<'_>, first: u64, count: u64) -> PyResult<RemovalBatch> {
        self.work(py, Work::Recover, first, count)
    }
}

impl Removal {
    fn work(&self, py: Python<'_>, work: Work, first: u64, count: u64) -> PyResult<RemovalBatch> {
        let batch = py.detach(|| {
            let Ok(mut way) = self.0.lock() else {
                let message = "an earlier batch broke off: make a new removal and recover";
                return Err(namespace::Error::Refused(message.into()));
            };
            way.work(work, first, count)
        });
        batch.map(RemovalBatch).map_err(|error| raised(py, error))
    }
}

/// What became of a batch of rows.
#[pyclass(module = "trimtab._core", frozen)]
pub struct RemovalBatch(Batch);

#[pymethods]
impl RemovalBatch {
    #[getter]
    fn outcomes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.outcomes)
    }

    #[getter]
    fn freed_bytes(&self) -> u64 {
        self.0.freed_bytes
    }

    #[getter]
    fn deleted(&self) -> u64 {
        self.0.deleted
    }

    #[getter]
    fn errors(&self) -> Vec<(u64, i32)> {
        self.0.errors.clone()
    }

    #[getter]
    fn unexplained<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        self.0.unexplained.iter().map(|path| PyBytes::new(py, path)).collect()
    }

    #[getter]
    fn elapsed_s(&self) -> f64 {
        self.0.elapsed_s
    }

    #[getter]
    fn latency_s_median(&self) -> f64 {
        self.0.latency_s_median
    }

    #[getter]
    fn latency_s_p99(&self) -> f64 {
        self.0.latency_s_p99
    }
}

/// The codes of outcomes and their names.
pub(crate) fn outcomes(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let names = PyDict::new(py);
    for (outcome, name) in Outcome::TABLE {
        names.set_item(outcome as u8, name)?;
    }
    Ok(names)
}
