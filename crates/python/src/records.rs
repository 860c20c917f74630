//! Records of lists as columns for Python.

use namespace::records::{
    Batch, Field, Joining, Layout, Place, Placing, Reader, Records, Refusal, Refusals, Shape,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::Columns;

/// Reads the records of a list, block after block.
#[pyclass]
pub struct RecordReader {
    list: List,
}

enum List {
    Plain(Records),
    Joined(Joining),
}

/// Result of a batch of records: rows, and refused records.
#[pyclass(frozen, extends = Columns)]
pub struct RecordBatch {
    refused: Vec<Refusals>,
    #[pyo3(get)]
    records: u64,
    #[pyo3(get)]
    vanished: u64,
}

/// Reasons, and how many records each cost.
type Counted = Vec<(String, u64)>;

/// Reason, number, offset and beginning of a record.
type Shown<'py> = (String, u64, u64, Bound<'py, PyBytes>);

#[pymethods]
impl RecordReader {
    /// Creates a reader of records with tabs between their fields.
    #[new]
    #[pyo3(signature = (fields, *, root, beneath, terminator, joined, token, vanishing, closed, foreign, latest_ns, record_max_bytes, shown))]
    #[expect(clippy::too_many_arguments, reason = "one call, by name")]
    fn new(
        fields: Vec<(String, String, String)>,
        root: &[u8],
        beneath: &[u8],
        terminator: u8,
        joined: bool,
        token: Option<&[u8]>,
        vanishing: bool,
        closed: bool,
        foreign: Vec<u8>,
        latest_ns: i64,
        record_max_bytes: usize,
        shown: usize,
    ) -> PyResult<Self> {
        let fields = named(fields)?;
        let layout = Layout { fields, terminator, vanishing, shown, closed, foreign, latest_ns };
        let placing = Placing::new(root, beneath).uniform(None);
        let records = Records::new(layout, placing);
        let list = if joined {
            List::Joined(Joining::new(records, token, record_max_bytes))
        } else {
            List::Plain(records)
        };
        Ok(Self { list })
    }

    /// Takes whole records: part of a block, the first of them at a place.
    fn add(
        &mut self,
        py: Python<'_>,
        block: &Bound<'_, PyBytes>,
        begin: usize,
        end: usize,
        number: u64,
        offset: u64,
    ) -> PyResult<()> {
        let Some(block) = block.as_bytes().get(begin..end) else {
            return Err(PyValueError::new_err("the part is not within the block"));
        };
        let place = Place { number, offset };
        let list = &mut self.list;
        py.detach(|| match list {
            List::Plain(records) => records.add(block, place),
            List::Joined(joining) => joining.add(block, place),
        });
        Ok(())
    }

    /// Takes the record that the list ends with.
    fn finish(&mut self) {
        if let List::Joined(joining) = &mut self.list {
            joining.finish();
        }
    }

    /// Returns the result of the records since the last call.
    fn take(&mut self, py: Python<'_>) -> PyResult<Py<RecordBatch>> {
        let Batch { columns, rows, records, vanished, refused } = match &mut self.list {
            List::Plain(records) => records.take(),
            List::Joined(joining) => joining.take(),
        };
        let columns = PyClassInitializer::from(Columns::new(columns, rows));
        Py::new(py, columns.add_subclass(RecordBatch { refused, records, vanished }))
    }

    /// When the list ended, where it said so, and whether nothing came after that.
    #[getter]
    fn ended(&self) -> (Option<u64>, bool) {
        match &self.list {
            List::Plain(_) => (None, false),
            List::Joined(joining) => (joining.ended_s, joining.ended_well),
        }
    }
}

fn named(fields: Vec<(String, String, String)>) -> PyResult<Vec<Field>> {
    let field = |(column, shape, reader): (String, String, String)| {
        Some(Field { column, shape: Shape::named(&shape)?, reader: Reader::named(&reader)? })
    };
    let fields: Option<Vec<Field>> = fields.into_iter().map(field).collect();
    fields.ok_or_else(|| PyValueError::new_err("no such shape or reader"))
}

#[pymethods]
impl RecordBatch {
    /// Refused records: reasons with their counts in the order they came up, and the first
    /// refusals.
    fn refused<'py>(&self, py: Python<'py>) -> (Counted, Vec<Shown<'py>>) {
        let shown = |one: &Refusal| {
            let text = PyBytes::new(py, &one.text);
            (one.reason.clone(), one.place.number, one.place.offset, text)
        };
        let steps = || self.refused.iter();
        let counted = steps().flat_map(|step| step.counted.clone());
        (counted.collect(), steps().flat_map(|step| &step.first).map(shown).collect())
    }
}

/// Paths as directory and name beneath a root; the indices of those that have no place, and why.
#[pyfunction]
#[pyo3(signature = (paths, root, beneath, absolute=None))]
pub fn place_paths(
    py: Python<'_>,
    paths: Vec<Bound<'_, PyBytes>>,
    root: &[u8],
    beneath: &[u8],
    absolute: Option<bool>,
) -> (Columns, Vec<(usize, &'static str)>) {
    let held: Vec<&[u8]> = paths.iter().map(|path| path.as_bytes()).collect();
    let rows = held.len();
    let mut placing = Placing::new(root, beneath);
    if absolute.is_some() {
        placing = placing.uniform(absolute);
    }
    let (columns, unplaced) = py.detach(|| placing.place(held.into_iter()));
    (Columns::new(columns.into(), rows), unplaced)
}
