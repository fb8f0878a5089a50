//! Values of any length, read a piece at a time. `pando._values` makes files of them.

use crate::errors;
use crate::guard::{Failure, run};
use crate::handle::Handle;
use crate::source::Source;
use pando::{Error, Table};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex};

/// A value that is read from any place. Threads can share it: one reads at a time.
#[pyclass(frozen, module = "pando._pando")]
pub struct ValueReader {
    handle: Arc<Handle>,
    inner: Mutex<Option<pando::ValueReader>>,
    size: u64,
}

impl ValueReader {
    /// Opens the value of `key`, if it exists.
    pub fn open(py: Python<'_>, source: &Source, table: &Table, key: &[u8]) -> PyResult<Option<Self>> {
        let found = source.read(py, |reads| reads.value_reader(table, key))?;
        Ok(found.map(|reader| ValueReader {
            handle: Arc::clone(source.handle()),
            size: reader.len_bytes(),
            inner: Mutex::new(Some(reader)),
        }))
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut pando::ValueReader) -> io::Result<T> + Send,
    ) -> PyResult<T> {
        const WHAT: &str = "the value";
        self.handle.open(py)?;
        let done = run(py, || {
            let mut guard = self.inner.lock().map_err(|_| Failure::Closed(WHAT))?;
            Ok(work(guard.as_mut().ok_or(Failure::Closed(WHAT))?))
        })?;
        done.map_err(|error| match error.downcast::<Error>() {
            Ok(ours) => errors::of_engine(py, &ours),
            Err(error) => PyOSError::new_err(error.to_string()),
        })
    }
}

#[pymethods]
impl ValueReader {
    /// The length of the value in bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.size
    }

    /// Returns the next bytes, at most `most`; none at the end. After an error the place is where the call began.
    fn read<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.with(py, |reader| {
            let began = reader.stream_position()?;
            let mut bytes = Vec::new();
            match reader.by_ref().take(most as u64).read_to_end(&mut bytes) {
                Ok(_) => Ok(bytes),
                Err(error) => reader.seek(SeekFrom::Start(began)).and(Err(error)),
            }
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Goes to a place, which may be after the end.
    fn seek(&self, py: Python<'_>, position: u64) -> PyResult<()> {
        self.with(py, |reader| reader.seek(SeekFrom::Start(position)).map(drop))
    }

    /// Ends the reader. A second time has no effect.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.check_process(py)?;
        run(py, || {
            drop(
                self.inner.lock().map_or_else(|poisoned| poisoned.into_inner().take(), |mut one| one.take()),
            );
            Ok(())
        })
    }
}
