//! Paths of a list, taken apart for Python.

use namespace::split::split;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::gufi::packed;

type Bytes<'py> = Bound<'py, PyBytes>;

/// Directories, of each path the place of its directory, its name, and which paths are odd.
#[pyfunction]
pub fn split_paths<'py>(
    py: Python<'py>,
    paths: Vec<Bytes<'py>>,
    top: &[u8],
) -> PyResult<(Vec<Bytes<'py>>, Bytes<'py>, Vec<Bytes<'py>>, Vec<usize>)> {
    let held: Vec<&[u8]> = paths.iter().map(|path| path.as_bytes()).collect();
    let split = py.detach(|| split(held.into_iter(), top));
    let objects = |values: Vec<&[u8]>| values.into_iter().map(|at| PyBytes::new(py, at)).collect();
    let places = packed(py, &split.parent, u32::to_le_bytes)?;
    Ok((objects(split.parents), places, objects(split.names), split.odd))
}
