//! Tables as CSV for Python.

use namespace::table::{Field, head, numbers, rows};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::gufi::packed;

/// The fields of the first record and its length; nothing where it is cut off.
#[pyfunction]
pub fn csv_head<'py>(
    py: Python<'py>,
    data: &[u8],
    delimiter: &[u8],
    ended: bool,
) -> PyResult<Option<(Vec<Bound<'py, PyBytes>>, usize)>> {
    let found = head(data, delimiter, ended).map_err(PyValueError::new_err)?;
    Ok(found
        .map(|(fields, end)| (fields.iter().map(|field| PyBytes::new(py, field)).collect(), end)))
}

/// Columns of the records of a part of a table: numbers as packed UInt64, or the fields.
#[pyfunction]
pub fn csv_rows<'py>(
    py: Python<'py>,
    data: &[u8],
    delimiter: &[u8],
    wanted: Vec<(usize, bool)>,
    fields: usize,
    ended: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let places: Vec<usize> = wanted.iter().map(|(place, _)| *place).collect();
    let (rows, numbers) = py.detach(|| {
        let rows = rows(data, delimiter, &places, fields, ended);
        let columns = rows.columns.iter().zip(&wanted);
        let numbers: Vec<_> = columns
            .map(|(column, (_, number))| number.then(|| numbers(column)).flatten())
            .collect();
        (rows, numbers)
    });
    let list = |column: &[Field<'_>]| {
        let value = |field: &Field<'_>| (!field.is_empty()).then(|| PyBytes::new(py, field));
        PyList::new(py, column.iter().map(value))
    };
    let columns: Vec<Bound<'py, PyAny>> = rows
        .columns
        .iter()
        .zip(&numbers)
        .map(|(column, numbers)| match numbers {
            Some(numbers) => packed(py, numbers, u64::to_le_bytes).map(Bound::into_any),
            None => list(column).map(Bound::into_any),
        })
        .collect::<PyResult<_>>()?;
    let (begins, ends): (Vec<u64>, Vec<u64>) =
        rows.place.iter().map(|[begin, end]| (*begin, *end)).unzip();
    let dict = PyDict::new(py);
    dict.set_item("columns", columns)?;
    dict.set_item("number", packed(py, &rows.number, u64::to_le_bytes)?)?;
    dict.set_item("begin", packed(py, &begins, u64::to_le_bytes)?)?;
    dict.set_item("end", packed(py, &ends, u64::to_le_bytes)?)?;
    dict.set_item("refused", rows.refused)?;
    dict.set_item("records", rows.many)?;
    dict.set_item("length", rows.end)?;
    Ok(dict)
}
