//! Files looked at exactly, as a function of Python.

use std::path::PathBuf;
use std::time::Duration;

use namespace::glimpse::{Asked, ByName, OnLustre, glimpse as look};
use namespace::patience::Patience;
use namespace::rmfid::Mounted;
use namespace::{Error, ObjectId, Root};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::rules::raised;

/// Size, allocated bytes, project and error number of each file.
type Columns = (Vec<u64>, Vec<u64>, Vec<Option<u32>>, Vec<i32>);

/// Looks at files as all of their servers know them now; an error number, or 0, for each.
#[pyfunction]
#[pyo3(signature = (root, files, *, lustre, project = false, threads = 0, deadline_s = 60.0))]
pub fn glimpse(
    py: Python<'_>,
    root: PathBuf,
    files: Vec<(Vec<u8>, Vec<u8>, Vec<u8>)>,
    lustre: bool,
    project: bool,
    threads: usize,
    deadline_s: f64,
) -> PyResult<Columns> {
    let deadline = Duration::try_from_secs_f64(deadline_s);
    let patience = Patience::new(deadline.map_err(|e| PyValueError::new_err(e.to_string()))?);
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
            let path = root.clone();
            let open = move || {
                let root = Root::open(&path)?;
                let mounted = if lustre { Some(Mounted::open(&root)?) } else { None };
                Ok((root, mounted))
            };
            let late = |errno| Error::system("open", &root, errno);
            let (root, mounted) = patience.call(move || Ok(open())).map_err(late)??;
            Ok(match mounted {
                Some(mounted) => look(OnLustre(mounted), asked, project, threads, &patience),
                None => look(ByName::new(root), asked, project, threads, &patience),
            })
        })
        .map_err(|error: Error| raised(py, &error))?;
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
