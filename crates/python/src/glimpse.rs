//! Files looked at exactly, as a function of Python.

use std::path::PathBuf;

use namespace::glimpse::{Asked, ByName, OnLustre, glimpse as look};
use namespace::rmfid::Mounted;
use namespace::{ObjectId, Root};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::rules::raised;

/// Size, allocated bytes, project and error number of each file.
type Columns = (Vec<u64>, Vec<u64>, Vec<Option<u32>>, Vec<i32>);

/// Looks at files as all of their servers know them now; an error number, or 0, for each.
#[pyfunction]
#[pyo3(signature = (root, files, *, lustre, project = false, threads = 0))]
pub fn glimpse(
    py: Python<'_>,
    root: PathBuf,
    files: Vec<(Vec<u8>, Vec<u8>, Vec<u8>)>,
    lustre: bool,
    project: bool,
    threads: usize,
) -> PyResult<Columns> {
    let asked = files
        .into_iter()
        .map(|(id, parent, name)| {
            let bytes = <[u8; 16]>::try_from(id.as_slice()).ok()?;
            Some(Asked { id: ObjectId::of_bytes(bytes, lustre), parent, name })
        })
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| PyValueError::new_err("an identity has 16 bytes"))?;
    let threads = if threads == 0 { crate::scan::default_threads(lustre) } else { threads };
    let answers = py
        .detach(|| {
            let root = Root::open(&root)?;
            if lustre {
                let mounted = OnLustre(Mounted::open(&root)?);
                return Ok(look(&mounted, &asked, project, threads));
            }
            Ok(look(&ByName(&root), &asked, project, threads))
        })
        .map_err(|error| raised(py, &error))?;
    let mut columns = Columns::default();
    for answer in answers {
        let (exact, errno) = match answer {
            Ok(exact) => (Some(exact), 0),
            Err(errno) => (None, errno.raw_os_error()),
        };
        columns.0.push(exact.map_or(0, |exact| exact.size_bytes));
        columns.1.push(exact.map_or(0, |exact| exact.allocated_bytes));
        columns.2.push(exact.and_then(|exact| exact.project));
        columns.3.push(errno);
    }
    Ok(columns)
}
