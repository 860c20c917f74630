//! The flash drive and its workload as Python classes.

use flash::workload::{Hot, Workload};
use flash::{Counts, Drive, Geometry, Policy, Settings};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

pub(crate) fn refused(error: flash::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The value of a name, of those that a key may have.
pub(crate) fn named<T: Copy>(key: &str, name: &str, table: &[(&str, T)]) -> PyResult<T> {
    let entry = table.iter().find(|(known, _)| *known == name);
    entry.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = table.iter().map(|(known, _)| *known).collect();
        let (last, others) = names.split_last().expect("a key has values");
        PyValueError::new_err(format!("{key} is {name}: must be {} or {last}", others.join(", ")))
    })
}

pub(crate) fn policy_of(name: &str) -> PyResult<Policy> {
    const NAMES: [(&str, Policy); 3] =
        [("greedy", Policy::Greedy), ("fifo", Policy::Fifo), ("cost-benefit", Policy::CostBenefit)];
    named("policy", name, &NAMES)
}

/// One page-mapped drive.
#[pyclass(module = "trimtab._core")]
pub struct FlashDrive(Drive);

#[pymethods]
impl FlashDrive {
    #[new]
    #[pyo3(signature = (superblocks, units, spare, *, policy = "greedy", separate = false, seed = 0))]
    fn new(
        superblocks: u32,
        units: u32,
        spare: f64,
        policy: &str,
        separate: bool,
        seed: u64,
    ) -> PyResult<Self> {
        let geometry = Geometry::new(superblocks, units, spare).map_err(refused)?;
        let settings = Settings { policy: policy_of(policy)?, separate, seed };
        Ok(Self(Drive::new(geometry, settings)))
    }

    /// Units that the host can address.
    #[getter]
    fn logical(&self) -> u32 {
        self.0.geometry().logical()
    }

    /// Units written by the host and by collection, superblocks erased, units trimmed.
    #[getter]
    fn counts(&self) -> (u64, u64, u64, u64) {
        let Counts { written, copied, erased, trimmed } = self.0.counts();
        (written, copied, erased, trimmed)
    }

    fn write(&mut self, unit: u32) -> PyResult<u64> {
        self.0.write(unit).map_err(refused)
    }

    fn trim(&mut self, unit: u32) -> PyResult<bool> {
        self.0.trim(unit).map_err(refused)
    }

    fn place(&self, unit: u32) -> PyResult<Option<(u32, u32)>> {
        self.0.place(unit).map_err(refused)
    }

    fn superblocks(&self) -> (Vec<u32>, Vec<u32>) {
        let (valid, wear) = self.0.superblocks();
        (valid.to_vec(), wear.to_vec())
    }
}

/// A host that writes at random.
#[pyclass(module = "trimtab._core")]
pub struct FlashWorkload(Workload);

#[pymethods]
impl FlashWorkload {
    #[new]
    #[pyo3(signature = (logical, *, live = 1.0, hot = None, seed = 0))]
    fn new(logical: u32, live: f64, hot: Option<(f64, f64)>, seed: u64) -> PyResult<Self> {
        let hot = hot.map(|(part, share)| Hot { part, share });
        Workload::new(logical, live, hot, seed).map(Self).map_err(refused)
    }

    /// Writes every live unit once, in order.
    fn fill(&self, py: Python<'_>, drive: &mut FlashDrive) -> PyResult<()> {
        py.detach(|| self.0.fill(&mut drive.0)).map_err(refused)
    }

    /// Writes so many units at random.
    fn run(&mut self, py: Python<'_>, drive: &mut FlashDrive, writes: u64) -> PyResult<()> {
        py.detach(|| self.0.run(&mut drive.0, writes)).map_err(refused)
    }
}
