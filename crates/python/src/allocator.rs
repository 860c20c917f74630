//! The block allocator as a Python class.

use crate::drive::refused;
use flash::allocator::{Allocator, Counts, Extent, Family, Request, Settings};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyEllipsis};

pub(crate) fn family_of(name: &str) -> PyResult<Family> {
    let reason = || format!("family is {name}: must be classic, optimize-scan, el9 or ordered");
    Family::of(name).ok_or_else(|| PyValueError::new_err(reason()))
}

/// The block allocator of ldiskfs and ext4, in one of its families.
#[pyclass(module = "trimtab._core")]
pub struct BlockAllocator(Allocator);

/// Thresholds: these, or those of the family.
#[derive(FromPyObject)]
enum Enter {
    These((f64, f64, f64)),
    OfFamily(#[expect(dead_code, reason = "only its type says something")] Py<PyEllipsis>),
}

#[pymethods]
impl BlockAllocator {
    #[new]
    #[pyo3(signature = (groups, units, *, enter = Some(Enter::of_family()), family = "classic",
        max_to_scan = 200, min_to_scan = 10, order2_bits = 8, max_linear_groups = 0,
        max_trim_order = 3, stripe = 0, flex_groups = 0, stream_goals = 1))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        groups: u32,
        units: u32,
        enter: Option<Enter>,
        family: &str,
        max_to_scan: u32,
        min_to_scan: u32,
        order2_bits: u32,
        max_linear_groups: u32,
        max_trim_order: u32,
        stripe: u32,
        flex_groups: u32,
        stream_goals: u32,
    ) -> PyResult<Self> {
        let family = family_of(family)?;
        let enter = match enter {
            Some(Enter::These((c1, c2, c3))) => Some([c1, c2, c3]),
            Some(Enter::OfFamily(_)) => family.thresholds(),
            None => None,
        };
        let settings = Settings {
            family,
            enter,
            max_to_scan,
            min_to_scan,
            order2_bits,
            max_linear_groups,
            max_trim_order,
            stripe,
            flex_groups,
            stream_goals,
        };
        Allocator::new(groups, units, settings).map(Self).map_err(refused)
    }

    #[getter]
    fn family(&self) -> &'static str {
        self.0.settings().family.name()
    }

    #[getter]
    fn free(&self) -> u64 {
        self.0.free_units()
    }

    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = self.0.counts();
        Ok(dict_of!(py, counts, [requests, whole, goals, scanned, breaks]))
    }

    #[getter]
    fn loops<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Counts { hits, useless, considered, bad_suggestions, .. } = self.0.counts();
        let loops = self.0.settings().family.loops();
        let by_name = [
            ("hits", hits),
            ("useless", useless),
            ("considered", considered),
            ("bad_suggestions", bad_suggestions),
        ];
        by_name.map(|(name, counts)| (name, counts[..loops].to_vec())).into_py_dict(py)
    }

    fn group(&self, number: u32) -> Option<(u32, u32, i32)> {
        self.0.group(number)
    }

    #[pyo3(signature = (length, *, goal = None, stream = false, least = None, exact = true,
        pointer = 0, data = true))]
    #[allow(clippy::too_many_arguments)]
    fn allocate(
        &mut self,
        length: u32,
        goal: Option<(u32, u32)>,
        stream: bool,
        least: Option<u32>,
        exact: bool,
        pointer: u32,
        data: bool,
    ) -> PyResult<Option<(u32, u32, u32)>> {
        let request = Request {
            len: length,
            least: least.unwrap_or(length),
            goal,
            exact,
            stream: stream.then_some(pointer),
            data,
        };
        let served = self.0.serve(&request).map_err(refused)?;
        Ok(served.map(|extent| (extent.group, extent.start, extent.len)))
    }

    fn occupy(&mut self, group: u32, start: u32, length: u32) -> PyResult<()> {
        self.0.occupy(Extent { group, start, len: length }).map_err(refused)
    }

    fn release(&mut self, group: u32, start: u32, length: u32) -> PyResult<()> {
        self.0.release(Extent { group, start, len: length }).map_err(refused)
    }

    fn reset(&mut self, group: u32) -> PyResult<()> {
        self.0.reset(group).map_err(refused)
    }
}

impl Enter {
    fn of_family() -> Self {
        Python::attach(|py| Self::OfFamily(PyEllipsis::get(py).to_owned().unbind()))
    }
}
