//! Databases of GUFI as columns for Python.

use namespace::gufi::Rows;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// Numbers as bytes that Python takes for an array.
pub(crate) fn packed<'py, T: Copy, const N: usize>(
    py: Python<'py>,
    values: &[T],
    bytes: impl Fn(T) -> [u8; N],
) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, N * values.len(), |out| {
        let places = out.chunks_exact_mut(N).zip(values);
        places.for_each(|(place, &value)| place.copy_from_slice(&bytes(value)));
        Ok(())
    })
}

/// Rows of directories from their databases, numbers as packed columns.
#[pyfunction]
pub fn gufi_rows<'py>(
    py: Python<'py>,
    databases: Vec<(Vec<u8>, Bound<'py, PyBytes>)>,
) -> PyResult<Bound<'py, PyDict>> {
    let held: Vec<(&[u8], &[u8])> =
        databases.iter().map(|(path, data)| (path.as_slice(), data.as_bytes())).collect();
    let rows = py.detach(|| {
        let mut rows = Rows::default();
        for (path, data) in held {
            rows.add(path, data);
        }
        rows
    });
    let dict = PyDict::new(py);
    let lists = |values: &[Vec<u8>]| -> Vec<Bound<'py, PyBytes>> {
        values.iter().map(|value| PyBytes::new(py, value)).collect()
    };
    dict.set_item("parents", lists(&rows.parents))?;
    dict.set_item("parent", packed(py, &rows.parent, u32::to_le_bytes)?)?;
    dict.set_item("name", lists(&rows.name))?;
    dict.set_item("inode", packed(py, &rows.inode, u64::to_le_bytes)?)?;
    dict.set_item("nlink", packed(py, &rows.nlink, u32::to_le_bytes)?)?;
    dict.set_item("uid", packed(py, &rows.uid, u32::to_le_bytes)?)?;
    dict.set_item("gid", packed(py, &rows.gid, u32::to_le_bytes)?)?;
    dict.set_item("size_bytes", packed(py, &rows.size, u64::to_le_bytes)?)?;
    dict.set_item("allocated_bytes", packed(py, &rows.allocated, u64::to_le_bytes)?)?;
    for (name, times) in ["atime_ns", "mtime_ns", "ctime_ns", "btime_ns"].iter().zip(&rows.times) {
        dict.set_item(name, packed(py, times, i64::to_le_bytes)?)?;
    }
    dict.set_item("type", PyBytes::new(py, &rows.kind))?;
    let refused: Vec<_> = rows
        .refused
        .iter()
        .map(|(path, name, why)| (PyBytes::new(py, path), PyBytes::new(py, name), *why))
        .collect();
    dict.set_item("refused", refused)?;
    Ok(dict)
}
