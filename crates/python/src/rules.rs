//! Who may be deleted, as a Python class; and the core's errors as Python's exceptions.

use std::path::Path;

use namespace::Error;
use namespace::index::path_problem;
use namespace::rules::{Counted, Exempt, Exemptions, Rules as Core};
use pyo3::exceptions::{PyInterruptedError, PyOSError, PyValueError};
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
                let text = String::from_utf8_lossy(path);
                return Err(PyValueError::new_err(format!("exempt path {text:?} {problem}")));
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

/// An error of the core as an exception: a failed system call is an `OSError`, wrong use a
/// `ValueError`, an invalid file a `trimtab.base.error.DataError`, a safety rule a `RefusedError`.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    raised_with(py, error, "create this file again: repeat the scan or the import")
}

/// The same with another hint about what to do with an invalid file.
pub(crate) fn raised_with(py: Python<'_>, error: &Error, hint: &str) -> PyErr {
    let invalid = |path: &Path, problem: &str| {
        let keywords = PyDict::new(py);
        keywords.set_item("file", path.to_string_lossy())?;
        keywords.set_item("hint", hint)?;
        of_trimtab(py, "DataError", problem, Some(&keywords))
    };
    match error {
        Error::System { path, source, .. } => match source.raw_os_error() {
            Some(number) => {
                PyOSError::new_err((number, source.to_string(), path.clone().into_os_string()))
            }
            None => PyOSError::new_err(error.to_string()),
        },
        Error::Data { path, problem } => invalid(path, problem).unwrap_or_else(|error| error),
        Error::Parquet { path, source } => {
            invalid(path, &source.to_string()).unwrap_or_else(|error| error)
        }
        Error::Changed { .. } => changed(py, error).unwrap_or_else(|error| error),
        Error::Usage(problem) => PyValueError::new_err(problem.clone()),
        Error::Refused(problem) => {
            of_trimtab(py, "RefusedError", problem, None).unwrap_or_else(|error| error)
        }
        Error::Stopped => PyInterruptedError::new_err("stopped"),
    }
}

fn changed(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let keywords = PyDict::new(py);
    keywords.set_item("code", "candidates-changed")?;
    keywords.set_item("hint", "make a new plan, and find out who or what changed this one")?;
    of_trimtab(py, "RefusedError", &error.to_string(), Some(&keywords))
}

/// An error of `trimtab.base.error`.
fn of_trimtab(
    py: Python<'_>,
    class: &str,
    problem: &str,
    keywords: Option<&Bound<'_, PyDict>>,
) -> PyResult<PyErr> {
    let error = py.import("trimtab.base.error")?.getattr(class)?.call((problem,), keywords)?;
    Ok(PyErr::from_value(error))
}
