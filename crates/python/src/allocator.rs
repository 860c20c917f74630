//! The block allocator as a Python class.

use crate::drive::refused;
use flash::allocator::{Allocator, Extent, Settings};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The block allocator of ldiskfs and ext4 in which every loop walks all groups.
#[pyclass(module = "trimtab._core")]
pub struct BlockAllocator(Allocator);

#[pymethods]
impl BlockAllocator {
    #[new]
    #[pyo3(signature = (groups, units, *, enter = Some((0.25, 0.15, 0.05))))]
    fn new(groups: u32, units: u32, enter: Option<(f64, f64, f64)>) -> PyResult<Self> {
        let settings =
            Settings { enter: enter.map(|(c1, c2, c3)| [c1, c2, c3]), ..Settings::default() };
        Allocator::new(groups, units, settings).map(Self).map_err(refused)
    }

    #[getter]
    fn free(&self) -> u64 {
        self.0.free_units()
    }

    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = self.0.counts();
        let found = PyDict::new(py);
        found.set_item("requests", counts.requests)?;
        found.set_item("whole", counts.whole)?;
        found.set_item("goals", counts.goals)?;
        found.set_item("scanned", counts.scanned)?;
        found.set_item("breaks", counts.breaks)?;
        Ok(found)
    }

    #[getter]
    fn loops<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = self.0.counts();
        let found = PyDict::new(py);
        found.set_item("hits", counts.hits.to_vec())?;
        found.set_item("useless", counts.useless.to_vec())?;
        found.set_item("considered", counts.considered.to_vec())?;
        Ok(found)
    }

    fn group(&self, number: u32) -> Option<(u32, u32, i32)> {
        self.0.group(number)
    }

    #[pyo3(signature = (length, *, goal = None, stream = false))]
    fn allocate(
        &mut self,
        length: u32,
        goal: Option<(u32, u32)>,
        stream: bool,
    ) -> PyResult<Option<(u32, u32, u32)>> {
        let found = self.0.allocate(length, goal, stream).map_err(refused)?;
        Ok(found.map(|extent| (extent.group, extent.start, extent.len)))
    }

    fn release(&mut self, group: u32, start: u32, length: u32) -> PyResult<()> {
        let extent = Extent { group, start, len: length };
        self.0.release(extent).map_err(refused)
    }

    fn reset(&mut self, group: u32) -> PyResult<()> {
        self.0.reset(group).map_err(refused)
    }
}
