//! The extension module `trimtab._core`: each function converts, releases the GIL and calls a crate.

/// A dict of fields of a value by their names.
macro_rules! dict_of {
    ($py:expr, $value:expr, [$($field:ident),+]) => {{
        let dict = pyo3::types::PyDict::new($py);
        $(dict.set_item(stringify!($field), $value.$field)?;)+
        dict
    }};
}

mod allocator;
mod arrow;
mod books;
mod by_fid;
mod drive;
mod glimpse;
mod ost;
mod records;
mod removal;
mod rules;
mod scan;
mod table;
mod tally;
mod window;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _core {
    use pyo3::exceptions::PyValueError;
    use pyo3::prelude::*;
    use std::ffi::OsString;
    use std::path::PathBuf;

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    use crate::allocator::BlockAllocator;
    #[pymodule_export]
    use crate::arrow::Columns;
    #[pymodule_export]
    use crate::books::book;
    #[pymodule_export]
    use crate::by_fid::{children, look_up};
    #[pymodule_export]
    use crate::drive::{FlashDrive, FlashWorkload};
    #[pymodule_export]
    use crate::glimpse::glimpse;
    #[pymodule_export]
    use crate::ost::OstFleet;
    #[pymodule_export]
    use crate::records::{RecordBatch, RecordReader, place_paths};
    #[pymodule_export]
    use crate::removal::{Candidates, Removal, RemovalBatch, files_aside, parts_of, quarantines};
    #[pymodule_export]
    use crate::rules::Rules;
    #[pymodule_export]
    use crate::scan::{NamespaceScan, ScanProgress, ScanResult};
    #[pymodule_export]
    use crate::table::{csv_head, csv_rows};
    #[pymodule_export]
    use crate::tally::{Tally, merge_parts, select, select_part, tally};
    #[pymodule_export]
    use crate::window::{raid_read_ceiling, raid_write_ceiling, run_window};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("GONE_ERRNOS", crate::by_fid::gone(module.py())?)?;
        module.add("INDEX_COLUMNS", crate::scan::columns(module.py())?)?;
        module.add("REMOVAL_OUTCOMES", crate::removal::outcomes(module.py())?)?;
        module.add("QUARANTINE", crate::removal::quarantine(module.py())?)
    }

    /// Runs the load generator with the arguments in sys.argv and returns its exit code.
    #[pyfunction]
    fn ioload_main(py: Python<'_>) -> PyResult<u8> {
        let argv: Vec<OsString> = py.import("sys")?.getattr("argv")?.extract()?;
        Ok(py.detach(|| ::ioload::main_from_args(argv.into_iter().skip(1))))
    }

    /// Runs the load generator and returns its JSON report and exit code.
    #[pyfunction]
    fn ioload(py: Python<'_>, args: Vec<PathBuf>) -> PyResult<(String, u8)> {
        py.detach(|| ::ioload::report_from_args(args.into_iter().map(OsString::from)))
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }
}
