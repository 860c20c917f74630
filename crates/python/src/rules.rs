//! Who may be deleted, as a Python class; and what of the core went wrong, as Python's exceptions.

use std::path::Path;

use namespace::index::path_problem;
use namespace::rules::{Counted, Exempt, Exemptions, Rules as Core};
use pyo3::exceptions::{PyInterruptedError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The one definition of which file is eligible.
#[pyclass(module = "trimtab._core", frozen)]
pub struct Rules(pub(crate) Core);

#[pymethods]
impl Rules {
    #[new]
    #[pyo3(signature = (
        *, counted, as_of_s, old_enough_before_s, minimum_size_bytes, exempt_paths, exempt_users,
        exempt_groups, exempt_projects, linked,
    ))]
    #[allow(clippy::too_many_arguments, reason = "each is a keyword in Python")]
    fn new(
        counted: Vec<String>,
        as_of_s: i64,
        old_enough_before_s: i64,
        minimum_size_bytes: u64,
        exempt_paths: Vec<Vec<u8>>,
        exempt_users: Vec<u32>,
        exempt_groups: Vec<u32>,
        exempt_projects: Vec<u32>,
        linked: bool,
    ) -> PyResult<Self> {
        for path in &exempt_paths {
            if let Some(problem) = path_problem(path) {
                let shown = String::from_utf8_lossy(path);
                return Err(PyValueError::new_err(format!("exempt path {shown:?} {problem}")));
            }
        }
        Ok(Self(Core {
            counted: counted_of(&counted)?,
            as_of_s,
            old_enough_before_s,
            minimum_size_bytes,
            exempt: Exemptions::new(Exempt {
                paths: exempt_paths,
                users: exempt_users,
                groups: exempt_groups,
                projects: exempt_projects,
            }),
            linked,
        }))
    }
}

fn counted_of(names: &[String]) -> PyResult<Counted> {
    let mut counted = Counted { access: false, modification: false, change: false };
    for name in names {
        match name.as_str() {
            "atime" => counted.access = true,
            "mtime" => counted.modification = true,
            "ctime" => counted.change = true,
            _ => {
                let message = format!("counted has {name:?}: it holds atime, mtime and ctime");
                return Err(PyValueError::new_err(message));
            }
        }
    }
    Ok(counted)
}

/// An error of the core: a call that failed as `OSError`, wrong use as `ValueError`, a file that is
/// not what it should be as `trimtab.errors.DataError`, a rule of safety as `RefusedError` there.
pub(crate) fn raised(py: Python<'_>, error: namespace::Error) -> PyErr {
    use namespace::Error;
    match &error {
        Error::System { path, source, .. } => match source.raw_os_error() {
            Some(number) => {
                PyOSError::new_err((number, source.to_string(), path.clone().into_os_string()))
            }
            None => PyOSError::new_err(error.to_string()),
        },
        Error::Data { path, problem } => unreadable(py, problem, path),
        Error::Parquet { path, source } => unreadable(py, &source.to_string(), path),
        Error::Usage(why) => PyValueError::new_err(why.clone()),
        Error::Refused(why) => of_trimtab(py, "RefusedError", why, None),
        Error::Stopped => PyInterruptedError::new_err("stopped"),
    }
}

fn unreadable(py: Python<'_>, problem: &str, path: &Path) -> PyErr {
    let named = PyDict::new(py);
    let set = named
        .set_item("file", path.to_string_lossy())
        .and_then(|()| named.set_item("hint", "make this file again: scan or import once more"));
    set.map_or_else(|error| error, |()| of_trimtab(py, "DataError", problem, Some(&named)))
}

/// An error of `trimtab.errors`; where there is no such module, one of Python's own.
fn of_trimtab(
    py: Python<'_>,
    kind: &str,
    problem: &str,
    named: Option<&Bound<'_, PyDict>>,
) -> PyErr {
    let make = || py.import("trimtab.errors")?.getattr(kind)?.call((problem,), named);
    make().map_or_else(|_| PyRuntimeError::new_err(problem.to_owned()), PyErr::from_value)
}
