//! Columns handed to Python as they are in memory, by Arrow's C data interface.
//!
//! A consumer that takes an array over calls its `release`, which frees what it owns; an array that
//! was never taken over is released with its capsule. Layout and rules: "The Arrow C data
//! interface", 1.0, with binary views of 1.4.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::sync::Mutex;

use namespace::columns::{Column, Values};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const NULLABLE: i64 = 2;

/// `struct ArrowSchema`.
#[repr(C)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private_data: *mut c_void,
}

/// `struct ArrowArray`.
#[repr(C)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private_data: *mut c_void,
}

/// Memory that a schema owns.
struct SchemaOwned {
    name: CString,
    children: Vec<*mut Schema>,
}

/// Memory that an array owns.
struct ArrayOwned {
    #[expect(dead_code, reason = "dropped with it")]
    held: Box<dyn Send>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut Array>,
}

// SAFETY: their pointers are not shared, and their last owner frees the memory.
unsafe impl Send for Schema {}
// SAFETY: the same.
unsafe impl Send for Array {}

unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: by the interface it is called once, with a schema made by `Schema::new`.
    unsafe {
        let owned = Box::from_raw((*schema).private_data.cast::<SchemaOwned>());
        for &child in &owned.children {
            drop(Box::from_raw(child));
        }
        (*schema).release = None;
    }
}

unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: by the interface it is called once, with an array made by `Array::new`.
    unsafe {
        let owned = Box::from_raw((*array).private_data.cast::<ArrayOwned>());
        for &child in &owned.children {
            drop(Box::from_raw(child));
        }
        (*array).release = None;
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it has not been released, because it has not been taken over.
            unsafe { release(self) };
        }
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it has not been released, because it has not been taken over.
            unsafe { release(self) };
        }
    }
}

impl Schema {
    fn new(format: &'static CStr, name: CString, children: Vec<Schema>) -> Self {
        let children = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
        let mut owned = Box::new(SchemaOwned { name, children });
        Self {
            format: format.as_ptr(),
            name: owned.name.as_ptr(),
            metadata: ptr::null(),
            flags: NULLABLE,
            n_children: owned.children.len() as i64,
            children: owned.children.as_mut_ptr(),
            dictionary: ptr::null_mut(),
            release: Some(release_schema),
            private_data: Box::into_raw(owned).cast(),
        }
    }
}

impl Array {
    /// Returns an array of buffers in memory that it owns.
    fn new(
        length: usize,
        nulls: usize,
        buffers: Vec<*const c_void>,
        held: Box<dyn Send>,
        children: Vec<Array>,
    ) -> Self {
        let children = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
        let mut owned = Box::new(ArrayOwned { held, buffers, children });
        Self {
            length: length as i64,
            null_count: nulls as i64,
            offset: 0,
            n_buffers: owned.buffers.len() as i64,
            n_children: owned.children.len() as i64,
            buffers: owned.buffers.as_mut_ptr(),
            children: owned.children.as_mut_ptr(),
            dictionary: ptr::null_mut(),
            release: Some(release_array),
            private_data: Box::into_raw(owned).cast(),
        }
    }
}

/// Returns which rows have a value, as bits, and how many have none.
fn bits(known: &[bool]) -> (Vec<u8>, usize) {
    let nulls = known.iter().filter(|&&known| !known).count();
    if nulls == 0 {
        return (Vec::new(), 0);
    }
    let byte =
        |eight: &[bool]| eight.iter().rev().fold(0, |byte, &known| byte << 1 | u8::from(known));
    (known.chunks(8).map(byte).collect(), nulls)
}

fn exported(column: Column, rows: usize) -> (Schema, Array) {
    let name = CString::new(column.name).unwrap_or_default();
    let (known, nulls) = bits(&column.known);
    let valid: *const c_void = if nulls == 0 { ptr::null() } else { known.as_ptr().cast() };
    let format = match &column.values {
        Values::Small(_) => c"I",
        Values::Unsigned(_) => c"L",
        Values::Signed(_) => c"l",
        Values::Bytes(_) => c"vz",
        Values::Text(_) => c"vu",
        Values::Lists(..) => c"+L",
    };
    let mut inner = Vec::new();
    let mut children = Vec::new();
    let (buffers, held): (Vec<*const c_void>, Box<dyn Send>) = match column.values {
        Values::Small(values) => (vec![valid, values.as_ptr().cast()], Box::new((known, values))),
        Values::Unsigned(values) => {
            (vec![valid, values.as_ptr().cast()], Box::new((known, values)))
        }
        Values::Signed(values) => (vec![valid, values.as_ptr().cast()], Box::new((known, values))),
        Values::Bytes(views) | Values::Text(views) => {
            let sizes = vec![views.block.len() as i64];
            let buffers = vec![
                valid,
                views.views.as_ptr().cast(),
                views.block.as_ptr().cast(),
                sizes.as_ptr().cast(),
            ];
            (buffers, Box::new((known, views, sizes)))
        }
        Values::Lists(ends, values) => {
            inner.push(Schema::new(c"I", c"item".to_owned(), Vec::new()));
            let numbers = vec![ptr::null(), values.as_ptr().cast()];
            children.push(Array::new(values.len(), 0, numbers, Box::new(values), Vec::new()));
            (vec![valid, ends.as_ptr().cast()], Box::new((known, ends)))
        }
    };
    (Schema::new(format, name, inner), Array::new(rows, nulls, buffers, held, children))
}

/// Rows that Python takes over, once.
#[pyclass(frozen, subclass)]
pub struct Columns(Mutex<(Vec<Column>, usize)>);

impl Columns {
    /// Returns columns of so many rows.
    pub fn new(columns: Vec<Column>, rows: usize) -> Self {
        Self(Mutex::new((columns, rows)))
    }
}

#[pymethods]
impl Columns {
    /// Hands the rows over as one struct.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        drop(requested_schema);
        let (columns, rows) =
            std::mem::take(&mut *self.0.lock().map_err(|_| PyValueError::new_err("unusable"))?);
        if !columns.iter().all(Column::is_within_reach) {
            return Err(PyOverflowError::new_err("the texts of a column are more than 4 GiB"));
        }
        let (schemas, arrays) = columns.into_iter().map(|column| exported(column, rows)).unzip();
        let schema = Schema::new(c"+s", CString::default(), schemas);
        let array = Array::new(rows, 0, vec![ptr::null()], Box::new(()), arrays);
        Ok((
            PyCapsule::new_with_value(py, schema, c"arrow_schema")?,
            PyCapsule::new_with_value(py, array, c"arrow_array")?,
        ))
    }
}
