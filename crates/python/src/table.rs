//! Tables as CSV for Python.

use namespace::columns::{Column, Values};
use namespace::table::{column, head, rows};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::Columns;

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

/// Number, beginning and end of the records of a part of a table, then the columns asked for; number, place
/// and reason of refused records; how many records there are, and their length.
#[pyfunction]
pub fn csv_rows(
    py: Python<'_>,
    data: &[u8],
    delimiter: &[u8],
    wanted: Vec<(usize, bool)>,
    fields: usize,
    ended: bool,
) -> (Columns, Vec<(u64, usize, String)>, u64, usize) {
    let (places, numeric): (Vec<usize>, Vec<bool>) = wanted.into_iter().unzip();
    py.detach(|| {
        let rows = rows(data, delimiter, &places, fields, ended);
        let many = rows.number.len();
        let (begin, end) = rows.place.iter().map(|[begin, end]| (*begin, *end)).unzip();
        let places = [("number", rows.number), ("begin", begin), ("end", end)];
        let places = places.map(|(name, values)| Column::new(name, Values::Unsigned(values)));
        let asked = rows.columns.iter().zip(numeric).enumerate();
        let asked = asked.map(|(at, (fields, numeric))| column(&at.to_string(), fields, numeric));
        let columns = places.into_iter().chain(asked).collect();
        (Columns::new(columns, many), rows.refused, rows.many, rows.end)
    })
}
