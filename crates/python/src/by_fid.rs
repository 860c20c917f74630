//! Files of a Lustre looked at by their identifiers, as a function of Python.

use std::path::{Path, PathBuf};
use std::time::Duration;

use namespace::by_fid::{GONE, Looked, children as list, look_up as look};
use namespace::patience::Patience;
use namespace::walk::Wanted;
use namespace::{Error, ObjectId, Root};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::rules::raised;

type Failed = Vec<(Vec<u8>, i32)>;

/// Stripes, each with its directory.
type Stripes = Vec<(Vec<u8>, Vec<u8>)>;

/// The root, objects that are gone, failed ones with error numbers, those with too many names,
/// stripes.
type Answer = (Vec<u8>, Vec<Vec<u8>>, Failed, Vec<Vec<u8>>, Stripes);

/// Error numbers of a FID that names nothing any more.
pub fn gone(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, GONE.map(|errno| errno.raw_os_error()))
}

fn bytes(id: ObjectId) -> Vec<u8> {
    id.to_bytes().to_vec()
}

fn identities(ids: &[Vec<u8>]) -> PyResult<Vec<ObjectId>> {
    let id = |bytes: &Vec<u8>| Some(ObjectId::of_bytes(bytes.as_slice().try_into().ok()?, true));
    let ids = ids.iter().map(id).collect::<Option<Vec<_>>>();
    ids.ok_or_else(|| PyValueError::new_err("an identity has 16 bytes"))
}

fn threads_of(threads: usize) -> usize {
    if threads == 0 { crate::scan::default_threads(true) } else { threads }
}

fn patience(deadline_s: f64) -> PyResult<Patience> {
    let deadline = Duration::try_from_secs_f64(deadline_s);
    Ok(Patience::new(deadline.map_err(|e| PyValueError::new_err(e.to_string()))?))
}

fn opened(root: &Path, patience: &Patience) -> Result<Root, Error> {
    let path = root.to_path_buf();
    let late = |errno| Error::system("open", root, errno);
    patience.call(move || Ok(Root::open(&path))).map_err(late)?
}

/// Files and directories that are in directories now.
#[pyfunction]
#[pyo3(signature = (root, ids, *, threads = 0, deadline_s = 60.0))]
pub fn children(
    py: Python<'_>,
    root: PathBuf,
    ids: Vec<Vec<u8>>,
    threads: usize,
    deadline_s: f64,
) -> PyResult<(Vec<Vec<u8>>, Failed)> {
    let (patience, ids) = (patience(deadline_s)?, identities(&ids)?);
    let (found, failed) = py
        .detach(|| list(&opened(&root, &patience)?, ids, threads_of(threads), &patience))
        .map_err(|error: Error| raised(py, &error))?;
    let failed = failed.into_iter().map(|(id, errno)| (bytes(id), errno.raw_os_error())).collect();
    Ok((found.into_iter().map(bytes).collect(), failed))
}

/// Looks at files, and writes a row for each of their names.
#[pyfunction]
#[pyo3(signature = (
    root, ids, *, out, project = false, layout = false, exact_sizes = false, device = None,
    threads = 0, deadline_s = 60.0,
))]
#[allow(clippy::too_many_arguments, reason = "keywords of Python")]
pub fn look_up(
    py: Python<'_>,
    root: PathBuf,
    ids: Vec<Vec<u8>>,
    out: PathBuf,
    project: bool,
    layout: bool,
    exact_sizes: bool,
    device: Option<u64>,
    threads: usize,
    deadline_s: f64,
) -> PyResult<Answer> {
    let patience = patience(deadline_s)?;
    let ids = identities(&ids)?;
    let name = out.file_name().and_then(|name| name.to_str());
    let (Some(directory), Some(name)) = (out.parent(), name) else {
        return Err(PyValueError::new_err("out is not a file name"));
    };
    let wanted = Wanted { project, layout, lustre: true, exact_sizes };
    let looked = py
        .detach(|| {
            let opened = opened(&root, &patience)?;
            look(&opened, ids, (wanted, device), threads_of(threads), &patience, (directory, name))
        })
        .map_err(|error: Error| raised(py, &error))?;
    let Looked { root, gone, failed, overflowed, stripes } = looked;
    let failed = failed.into_iter().map(|(id, errno)| (bytes(id), errno.raw_os_error())).collect();
    Ok((
        bytes(root),
        gone.into_iter().map(bytes).collect(),
        failed,
        overflowed.into_iter().map(bytes).collect(),
        stripes.into_iter().map(|(stripe, directory)| (bytes(stripe), bytes(directory))).collect(),
    ))
}
