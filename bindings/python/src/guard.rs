//! How calls reach the library: without the interpreter's lock, and without a way out for panics.

use crate::errors;
use pyo3::prelude::*;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why work without the interpreter's lock has failed.
pub enum Failure {
    /// The library says so.
    Engine(pando::Error),
    /// The object is closed.
    Closed(&'static str),
    /// Another thread uses the object at this moment.
    InUse(&'static str),
}

impl From<pando::Error> for Failure {
    fn from(error: pando::Error) -> Self {
        Failure::Engine(error)
    }
}

impl Failure {
    /// The exception.
    #[cold]
    pub fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Failure::Engine(error) => errors::of_engine(py, &error),
            Failure::Closed(what) => errors::closed(py, what),
            Failure::InUse(what) => in_use(py, what),
        }
    }
}

/// That another thread uses the object at this moment.
#[cold]
pub fn in_use(py: Python<'_>, what: &str) -> PyErr {
    errors::named(py, "ThreadError", format!("{what} is in use by another call; use one for each thread"))
}

/// Runs `work` without the interpreter's lock.
pub fn run<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, Failure> + Send) -> PyResult<T> {
    // Broken state is not seen again: locks that a panic poisons count as closed, and the library has its own rules.
    match py.detach(|| catch_unwind(AssertUnwindSafe(work))) {
        Ok(done) => done.map_err(|failure| failure.raise(py)),
        Err(panic) => Err(panicked(py, panic.as_ref())),
    }
}

/// Runs `work`, which neither waits nor takes long, with the interpreter's lock.
pub fn run_attached<T>(py: Python<'_>, work: impl FnOnce() -> pando::Result<T>) -> PyResult<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(|error| errors::of_engine(py, &error)),
        Err(panic) => Err(panicked(py, panic.as_ref())),
    }
}

#[cold]
fn panicked(py: Python<'_>, panic: &(dyn Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    errors::named(py, "InternalError", format!("a defect in Pando, please report it: {text}"))
}
