//! Cursors over a table, which go in both directions.
//!
//! A cursor is a [`Walk`] over the shared binding's chunks. Each method holds the cursor's lock only while it runs, and
//! the transaction of the table can write between two calls.

use crate::codec::{KeyKind, ValueKind};
use crate::errors;
use crate::guard::in_use;
use crate::handle::Handle;
use crate::source::Source;
use binding::{Direction, Fill, Walk};
use pando::{Span, Table};
use pyo3::exceptions::PyLookupError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::{Arc, Mutex};

/// A place among the records of a table.
#[pyclass(frozen, generic, module = "pando._pando")]
pub struct Cursor {
    handle: Arc<Handle>,
    table: Table,
    key: KeyKind,
    value: ValueKind,
    /// `None` once the cursor is closed, which then keeps neither its transaction nor a snapshot.
    open: Mutex<Option<Open>>,
}

struct Open {
    source: Source,
    walk: Walk,
}

impl Cursor {
    /// Over the records in `span`. It is on no record at first.
    pub fn new(
        py: Python<'_>,
        source: &Source,
        table: Table,
        (key, value): (KeyKind, ValueKind),
        span: Span,
    ) -> PyResult<Self> {
        let open = Open { source: source.at_one_moment(py)?, walk: Walk::new(span) };
        let handle = Arc::clone(source.handle());
        Ok(Cursor { handle, table, key, value, open: Mutex::new(Some(open)) })
    }

    /// Runs `work`, unless the cursor or what it reads has ended: records that were read ahead end with their source.
    fn run<T>(&self, py: Python<'_>, work: impl FnOnce(&mut Open) -> PyResult<T>) -> PyResult<T> {
        self.handle.open(py)?;
        let mut guard = self.open.try_lock().map_err(|_| in_use(py, "the cursor"))?;
        let open = guard.as_mut().ok_or_else(|| errors::closed(py, "the cursor"))?;
        open.source.check(py)?;
        work(open)
    }

    /// Goes somewhere, and then a step. Returns whether there is a record.
    fn go(&self, py: Python<'_>, to: impl FnOnce(&mut Walk), direction: Direction) -> PyResult<bool> {
        self.run(py, |Open { source, walk }| {
            to(walk);
            let read = |fill: Fill<'_>| source.read(py, |reads| fill.run(reads, &self.table));
            walk.step(direction, source.changes(), read)
        })
    }

    /// Calls `with` with the record.
    fn with<T>(&self, py: Python<'_>, with: impl FnOnce(&[u8], &[u8]) -> PyResult<T>) -> PyResult<T> {
        self.run(py, |open| {
            let record = open.walk.current();
            let (key, value) =
                record.ok_or_else(|| PyLookupError::new_err("the cursor is not on a record"))?;
            with(key, value)
        })
    }
}

#[pymethods]
impl Cursor {
    /// Goes to the first record. Returns whether there is one.
    fn first(&self, py: Python<'_>) -> PyResult<bool> {
        self.go(py, Walk::rewind, Direction::Forward)
    }

    /// Goes to the last record. Returns whether there is one.
    fn last(&self, py: Python<'_>) -> PyResult<bool> {
        self.go(py, Walk::rewind, Direction::Backward)
    }

    /// Goes to the next record, at first to the first one. Returns whether there is one.
    fn next(&self, py: Python<'_>) -> PyResult<bool> {
        self.go(py, |_| (), Direction::Forward)
    }

    /// Goes to the record before, at first to the last one. Returns whether there is one.
    fn prev(&self, py: Python<'_>) -> PyResult<bool> {
        self.go(py, |_| (), Direction::Backward)
    }

    /// Goes to the first record at or after `key`. Returns whether there is one.
    fn seek(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let encoded = self.key.encode(key)?;
        self.go(key.py(), |walk| walk.seek(&encoded), Direction::Forward)
    }

    /// Goes to the last record at or before `key`. Returns whether there is one.
    fn seek_for_prev(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        // No key is between a key and the same with a zero appended.
        let after = [&*self.key.encode(key)?, b"\0"].concat();
        self.go(key.py(), |walk| walk.seek(&after), Direction::Backward)
    }

    /// Whether the cursor is on a record.
    #[getter]
    fn is_on_record(&self, py: Python<'_>) -> PyResult<bool> {
        self.run(py, |open| Ok(open.walk.current().is_some()))
    }

    /// The key of the record.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.with(py, |key, _| self.key.decode(py, key))
    }

    /// The value of the record, as it was when the cursor read it.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.with(py, |_, value| self.value.decode(py, value))
    }

    /// Returns the key and the value of the record.
    fn item<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.with(py, |key, value| {
            PyTuple::new(py, [self.key.decode(py, key)?, self.value.decode(py, value)?])
        })
    }

    /// Ends the cursor, and frees its snapshot. A second time has no effect.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.check_process(py)?;
        let mut guard = self.open.try_lock().map_err(|_| in_use(py, "the cursor"))?;
        let open = guard.take();
        drop(guard);
        py.detach(|| drop(open));
        Ok(())
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        if self.handle.is_of_this_process() { self.close(py) } else { Ok(()) }
    }
}
