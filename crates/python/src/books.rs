//! Bytes held by many users, for Python: arrays of NumPy, changed in place.

use flash::books::{Entry, book as add};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Adds entries (total, shares of lifetimes, part written) to what users hold and what they wrote.
#[pyfunction]
pub fn book(
    py: Python<'_>,
    held: PyBuffer<f64>,
    written: PyBuffer<f64>,
    plan: PyBuffer<f64>,
    entries: Vec<(f64, Vec<f64>, f64)>,
) -> PyResult<()> {
    let entries: Vec<Entry> =
        entries.into_iter().map(|(total, shares, part)| Entry { total, shares, part }).collect();
    let (mut held_now, mut written_now) = (held.to_vec(py)?, written.to_vec(py)?);
    let plan = plan.to_vec(py)?;
    let lives = |entry: &Entry| entry.shares.len() * plan.len() == held_now.len();
    if written_now.len() != plan.len() || !entries.iter().all(lives) {
        return Err(PyValueError::new_err("there is a number for each user and lifetime"));
    }
    add(&mut held_now, &mut written_now, &plan, &entries);
    held.copy_from_slice(py, &held_now)?;
    written.copy_from_slice(py, &written_now)?;
    Ok(())
}
