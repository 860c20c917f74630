//! Many OSTs in miniature as a Python class.

use crate::allocator::family_of;
use crate::drive::{policy_of, refused};
use flash::ost::{Fleet, Ost, Settings, Step};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyDict};

type Thresholds = (f64, f64, f64);

/// OSTs in miniature, stepped in parallel.
#[pyclass(module = "trimtab._core")]
pub struct OstFleet(Fleet);

#[pymethods]
impl OstFleet {
    #[new]
    #[pyo3(signature = (
        columns,
        *,
        spare,
        groups = 16,
        superblock_units = 64,
        policy = "greedy",
        separate = false,
        family = "classic",
        enter = Some((0.25, 0.15, 0.05)),
        discard = false,
        size_median_units = 4.0,
        size_sigma = 2.2,
        largest = 1.0 / 64.0,
        stream_units = 16,
        writers = 8,
        seed = 0,
        threads = None,
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn new(
        columns: usize,
        spare: f64,
        groups: u32,
        superblock_units: u32,
        policy: &str,
        separate: bool,
        family: &str,
        enter: Option<Thresholds>,
        discard: bool,
        size_median_units: f64,
        size_sigma: f64,
        largest: f64,
        stream_units: u32,
        writers: u32,
        seed: u64,
        threads: Option<usize>,
    ) -> PyResult<Self> {
        let settings = Settings {
            groups,
            superblock_units,
            spare,
            policy: policy_of(policy)?,
            separate,
            family: family_of(family)?,
            enter: enter.map(<[f64; 3]>::from),
            discard,
            size_median_units,
            size_sigma,
            largest,
            stream_units,
            writers,
        };
        Fleet::new(columns, settings, seed, threads).map(Self).map_err(refused)
    }

    /// How many there are.
    #[getter]
    fn columns(&self) -> usize {
        self.0.osts().len()
    }

    /// Units of one.
    #[getter]
    fn units(&self) -> u32 {
        self.0.settings().groups * flash::ost::GROUP_UNITS
    }

    #[pyo3(signature = (fractions, *, churn = 2.0))]
    fn fill(&mut self, py: Python<'_>, fractions: Vec<f64>, churn: f64) -> PyResult<()> {
        py.detach(|| self.0.fill(&fractions, churn)).map_err(refused)
    }

    #[pyo3(signature = (written, deleted, purged, burst, burst_files, resets))]
    #[allow(clippy::too_many_arguments, reason = "one sequence a quantity")]
    fn advance(
        &mut self,
        py: Python<'_>,
        written: Vec<f64>,
        deleted: Vec<f64>,
        purged: Vec<f64>,
        burst: Vec<f64>,
        burst_files: Vec<u32>,
        resets: Vec<f64>,
    ) -> PyResult<()> {
        let columns = self.columns();
        for (name, length) in [
            ("written", written.len()),
            ("deleted", deleted.len()),
            ("purged", purged.len()),
            ("burst", burst.len()),
            ("burst_files", burst_files.len()),
            ("resets", resets.len()),
        ] {
            if length != columns {
                return Err(PyValueError::new_err(format!(
                    "{name} has {length} values: must be one for each of {columns} columns"
                )));
            }
        }
        let steps: Vec<Step> = (0..columns)
            .map(|column| Step {
                written: written[column],
                deleted: deleted[column],
                purged: purged[column],
                burst: burst[column],
                burst_files: burst_files[column],
                resets: resets[column],
            })
            .collect();
        py.detach(|| self.0.advance(&steps)).map_err(refused)
    }

    fn trim(&mut self, py: Python<'_>, columns: Vec<usize>) -> PyResult<Vec<f64>> {
        py.detach(|| self.0.trim(&columns)).map_err(refused)
    }

    fn reset(&mut self, columns: Vec<usize>) -> PyResult<()> {
        columns.iter().try_for_each(|column| self.ost(*column).map(Ost::reset))
    }

    #[pyo3(signature = (columns, *, enter = None, discard = None, family = None))]
    fn configure(
        &mut self,
        columns: Vec<usize>,
        enter: Option<Thresholds>,
        discard: Option<bool>,
        family: Option<&str>,
    ) -> PyResult<()> {
        let family = family.map(family_of).transpose()?;
        for column in columns {
            let ost = self.ost(column)?;
            let (family_now, thresholds) = ost.allocator();
            let enter = enter.map(<[f64; 3]>::from).or(thresholds);
            ost.set_allocator(family.unwrap_or(family_now), enter).map_err(refused)?;
            if let Some(discard) = discard {
                ost.set_discard(discard);
            }
        }
        Ok(())
    }

    fn add(&mut self, columns: usize) -> PyResult<()> {
        self.0.add(columns).map_err(refused)
    }

    fn figures<'py>(&self, py: Python<'py>, names: Vec<String>) -> PyResult<Bound<'py, PyBytes>> {
        let values = self.0.figures(&names);
        PyBytes::new_with(py, values.len() * size_of::<f64>(), |bytes| {
            let places = bytes.chunks_exact_mut(size_of::<f64>());
            places
                .zip(values)
                .for_each(|(place, value)| place.copy_from_slice(&value.to_ne_bytes()));
            Ok(())
        })
    }

    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.0.table().into_py_dict(py)
    }
}

impl OstFleet {
    fn ost(&mut self, column: usize) -> PyResult<&mut Ost> {
        self.0.ost_mut(column).map_err(refused)
    }
}
