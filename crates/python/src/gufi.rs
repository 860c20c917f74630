//! Databases of GUFI as columns for Python.

use namespace::gufi::Rows;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::Columns;

/// Path of a directory, name, and why it was refused.
type Refused<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, &'static str);

/// Rows of directories from their databases, how many were read, and what was refused.
#[pyfunction]
pub fn gufi_rows<'py>(
    py: Python<'py>,
    databases: Vec<(Vec<u8>, Bound<'py, PyBytes>)>,
) -> (Columns, u64, Vec<Refused<'py>>) {
    let held: Vec<(&[u8], &[u8])> =
        databases.iter().map(|(path, data)| (path.as_slice(), data.as_bytes())).collect();
    let mut rows = py.detach(|| {
        let mut rows = Rows::default();
        for (path, data) in held {
            rows.add(path, data);
        }
        rows
    });
    let refused = std::mem::take(&mut rows.refused).into_iter();
    let refused = refused
        .map(|(path, name, why)| (PyBytes::new(py, &path), PyBytes::new(py, &name), why))
        .collect();
    let directories = rows.directories;
    let (columns, many) = rows.columns();
    (Columns::new(columns, many), directories, refused)
}
