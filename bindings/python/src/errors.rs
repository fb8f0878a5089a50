//! Errors of the library as exceptions of `pando._errors`, which mirror its kinds.

use pando::{Conflict, ErrorKind};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;

/// The name of the exception for each kind.
fn class_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Conflict => "ConflictError",
        ErrorKind::SnapshotTooOld => "SnapshotTooOldError",
        ErrorKind::TooOld => "TooOldError",
        ErrorKind::Full => "FullError",
        ErrorKind::Exists => "ExistsError",
        ErrorKind::Missing => "MissingError",
        ErrorKind::WouldWait => "WouldWaitError",
        ErrorKind::Invalid => "InvalidError",
        ErrorKind::Mismatch => "MismatchError",
        ErrorKind::Locked => "LockedError",
        ErrorKind::ReadOnly => "ReadOnlyError",
        ErrorKind::Foreign => "ForeignError",
        ErrorKind::Corruption => "CorruptError",
        ErrorKind::Io => "IoError",
        ErrorKind::Latched => "LatchedError",
        ErrorKind::Indeterminate => "IndeterminateError",
        ErrorKind::Closed => "ClosedError",
        ErrorKind::Forked => "ForkedError",
        // A kind that this version does not know yet.
        _ => "Error",
    }
}

/// The exception for an error of the library.
#[cold]
pub fn of_engine(py: Python<'_>, error: &pando::Error) -> PyErr {
    let conflict = Conflict::in_error(error);
    let table = conflict.and_then(Conflict::table);
    let key = conflict.and_then(Conflict::key).map(|key| PyBytes::new(py, key));
    match conflict {
        Some(_) => made(py, class_of(error.kind()), (error.to_string(), table, key)),
        None => made(py, class_of(error.kind()), (error.to_string(),)),
    }
}

/// The exception of the class `name` with a message.
#[cold]
pub fn named(py: Python<'_>, name: &str, message: impl Into<String>) -> PyErr {
    made(py, name, (message.into(),))
}

/// That an object was used after its end.
#[cold]
pub fn closed(py: Python<'_>, what: &str) -> PyErr {
    named(py, "ClosedError", format!("{what} is closed"))
}

/// What `name` of `pando._errors` returns for `arguments`, as an exception.
#[cold]
pub fn made<'py>(py: Python<'py>, name: &str, arguments: impl pyo3::call::PyCallArgs<'py>) -> PyErr {
    let made = class(py, name).and_then(|class| class.call1(arguments));
    made.map_or_else(|failed| failed, PyErr::from_value)
}

/// Whether an exception is of the class `name`.
pub fn is_of(py: Python<'_>, error: &PyErr, name: &str) -> bool {
    class(py, name).is_ok_and(|class| error.is_instance(py, &class))
}

/// What `name` of `pando._errors` is.
fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("pando._errors").map(Bound::unbind))?;
    module.bind(py).getattr(name)
}
