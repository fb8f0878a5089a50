//! Databases: opened, looked after, closed.

use crate::guard::{Failure, run};
use crate::handle::Handle;
use crate::hold::CommitHold;
use crate::options;
use pando::{BackupOptions, Backups, Compression, Layout};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An open database.
#[pyclass(subclass, frozen, module = "pando._pando")]
pub struct Database {
    handle: Arc<Handle>,
    path: Option<PathBuf>,
    #[cfg(feature = "sql")]
    sql: std::sync::OnceLock<sql::Sql>,
}

impl Database {
    /// What the objects of the database share.
    pub fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// The database with SQL.
    #[cfg(feature = "sql")]
    pub fn sql(&self, py: Python<'_>) -> PyResult<&sql::Sql> {
        let db = self.handle.open(py)?;
        Ok(self.sql.get_or_init(|| sql::Sql::new(db.clone())))
    }
}

/// How often work without a function of progress checks signals: for that it needs the interpreter's lock.
const SIGNALS_INTERVAL: Duration = Duration::from_millis(100);

/// A function to call with progress. Its exception, or that of a signal, ends the work and is raised.
pub(crate) struct Progress {
    call: Option<Py<PyAny>>,
    failed: Option<PyErr>,
    checked: Instant,
}

impl Progress {
    pub(crate) fn new(call: Option<Py<PyAny>>) -> Self {
        Progress { call, failed: None, checked: Instant::now() }
    }

    pub(crate) fn report(&mut self, done: u64, expected: u64) -> pando::Result<()> {
        if self.failed.is_none() {
            if self.call.is_none() && self.checked.elapsed() < SIGNALS_INTERVAL {
                return Ok(());
            }
            let call = self.call.as_ref();
            let called = Python::attach(|py| {
                py.check_signals()?;
                call.map_or(Ok(()), |call| call.call1(py, (done, expected)).map(drop))
            });
            self.checked = Instant::now();
            self.failed = called.err();
        }
        match self.failed {
            None => Ok(()),
            Some(_) => Err(pando::Error::invalid("a function of progress or a signal has ended the work")),
        }
    }

    /// The result of the work, or the exception.
    pub(crate) fn end<T>(self, done: PyResult<T>) -> PyResult<T> {
        self.failed.map_or(done, Err)
    }
}

#[pymethods]
impl Database {
    #[new]
    #[pyo3(signature = (path=None, *, create=false, **given))]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        create: bool,
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let builder = options::of_database(pando::Database::builder(), given)?;
        let db = run(py, || {
            Ok(match &path {
                Some(path) if create => builder.create(path)?,
                Some(path) => builder.open(path)?,
                None => builder.in_memory()?,
            })
        })?;
        let handle = Handle::new(db);
        Ok(Database {
            handle,
            path,
            #[cfg(feature = "sql")]
            sql: std::sync::OnceLock::new(),
        })
    }

    #[getter]
    fn path(&self) -> Option<PathBuf> {
        self.path.clone()
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.handle.is_closed()
    }

    #[getter]
    fn is_read_only(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.handle.open(py)?.is_read_only())
    }

    /// Closes the database.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.close(py)
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        // A child that leaves the block of its parent has nothing to close, and exits as it means to.
        if self.handle.is_of_this_process() { self.handle.close(py) } else { Ok(()) }
    }

    fn __repr__(&self) -> String {
        let place = self.path.as_ref().map_or("in memory".to_owned(), |path| path.display().to_string());
        let closed = if self.handle.is_closed() { ", closed" } else { "" };
        format!("<pando.Database {place}{closed}>")
    }

    /// Returns the names of all tables, in order.
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let db = self.handle.open(py)?;
        run(py, || Ok(db.tables()?.iter().map(|table| table.name().to_owned()).collect()))
    }

    /// Creates a table.
    #[pyo3(signature = (name, *, layout="btree", ttl=None, compression="none"))]
    fn _create_table(
        &self,
        py: Python<'_>,
        name: &str,
        layout: &str,
        ttl: Option<&Bound<'_, PyAny>>,
        compression: &str,
    ) -> PyResult<()> {
        let db = self.handle.open(py)?;
        let options = options::of_table(py, layout, ttl, compression)?;
        run(py, || Ok(db.create_table(name, &options).map(drop)?))
    }

    /// Drops a table and everything in it.
    fn drop_table(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let db = self.handle.open(py)?;
        run(py, || Ok(db.drop_table(name)?))
    }

    /// Renames a table. Views of it raise `MissingError` from then on.
    fn rename_table(&self, py: Python<'_>, name: &str, new: &str) -> PyResult<()> {
        let db = self.handle.open(py)?;
        run(py, || Ok(db.rename_table(name, new).map(drop)?))
    }

    /// Changes the layout of a table while it is in use.
    fn set_layout(&self, py: Python<'_>, name: &str, layout: &str) -> PyResult<()> {
        let db = self.handle.open(py)?;
        let layout: Layout = options::of_table(py, layout, None, "none")?.layout;
        run(py, || Ok(db.set_layout(name, layout)?))
    }

    /// Changes the compression of an LSM table.
    fn set_compression(&self, py: Python<'_>, name: &str, compression: &str) -> PyResult<()> {
        let db = self.handle.open(py)?;
        let compression: Compression = options::of_table(py, "btree", None, compression)?.compression;
        run(py, || Ok(db.set_compression(name, compression)?))
    }

    /// Sets how long entries of a table live, in seconds.
    fn set_ttl(&self, py: Python<'_>, name: &str, ttl: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let db = self.handle.open(py)?;
        let ttl = ttl.map(|ttl| options::seconds("ttl", ttl)).transpose()?;
        run(py, || Ok(db.set_ttl(name, ttl)?))
    }

    /// Returns the name, the place, and whether it has lost its place, of each consumer.
    fn _consumers(&self, py: Python<'_>) -> PyResult<Vec<(String, u64, bool)>> {
        let db = self.handle.open(py)?;
        run(py, || Ok(db.consumers()?.into_iter().map(|one| (one.name, one.position, one.is_lost)).collect()))
    }

    /// Holds back the commits of others from now on; `None` if another transaction does.
    fn _try_hold_commits(&self, py: Python<'_>) -> PyResult<Option<CommitHold>> {
        CommitHold::take(py, &self.handle)
    }

    /// Removes a consumer, and what is kept for it.
    fn drop_consumer(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let db = self.handle.open(py)?;
        run(py, || Ok(db.drop_consumer(name)?))
    }

    /// Returns the oldest commit after which changes are kept.
    fn oldest_change(&self, py: Python<'_>) -> PyResult<u64> {
        let db = self.handle.open(py)?;
        run(py, || Ok(db.oldest_change()?))
    }

    /// Makes a checkpoint now.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        let db = self.handle.open(py)?;
        run(py, || Ok(db.checkpoint()?))
    }

    /// Makes everything committed so far durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let db = self.handle.open(py)?;
        run(py, || Ok(db.sync()?))
    }

    /// Returns counters and sizes by name.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let db = self.handle.open(py)?;
        let numbers = run(py, || Ok(db.stats()?.numbers()))?;
        let stats = PyDict::new(py);
        for (name, number) in numbers {
            stats.set_item(name, number)?;
        }
        Ok(stats)
    }

    /// Reads everything and verifies it; `CorruptError` with the first problem.
    #[pyo3(signature = (*, progress=None))]
    fn check<'py>(&self, py: Python<'py>, progress: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyDict>> {
        let db = self.handle.open(py)?;
        let mut progress = Progress::new(progress);
        let report = &mut progress;
        let found = run(py, move || {
            let mut found = db.check_all(|now| report.report(now.tables, now.records))?;
            if found.wrong.is_empty() {
                return Ok(found.report);
            }
            Err(Failure::Engine(found.wrong.swap_remove(0)))
        });
        let found = progress.end(found)?;
        let counts = PyDict::new(py);
        let pairs = [
            ("tables", found.tables),
            ("lsm_tables", found.lsm_tables),
            ("runs", found.runs),
            ("records", found.records),
            ("record_bytes", found.record_bytes),
            ("leaves", found.leaves),
            ("inner_pages", found.inner_pages),
            ("large_values", found.large_values),
            ("free_in_pages_bytes", found.free_in_pages_bytes),
            ("saved_bytes", found.saved_bytes),
            ("orphan_units", found.orphan_units),
        ];
        for (name, number) in pairs {
            counts.set_item(name, number)?;
        }
        Ok(counts)
    }

    /// Makes the files as small as possible. Returns the sizes of the data file before and after.
    #[pyo3(signature = (*, progress=None))]
    fn compact(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<(u64, u64)> {
        let db = self.handle.open(py)?;
        let mut progress = Progress::new(progress);
        let report = &mut progress;
        let done =
            run(py, move || Ok(db.compact(|now| report.report(now.data_file_bytes, now.data_used_bytes))?));
        let done = progress.end(done)?;
        Ok((done.data_file_bytes_before, done.data_file_bytes))
    }

    /// Adds a backup to a folder. Returns the name of its file.
    #[pyo3(signature = (folder, *, incremental=false, rate_bytes=None, progress=None))]
    fn backup(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        incremental: bool,
        rate_bytes: Option<&Bound<'_, PyAny>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let rate_bytes = rate_bytes.map(|rate| options::count("rate_bytes", rate)).transpose()?;
        let db = self.handle.open(py)?;
        let mut progress = Progress::new(progress);
        let report = &mut progress;
        let done = run(py, move || {
            let backups = Backups::create(folder)?;
            let mut call = |now: pando::BackupProgress| report.report(now.bytes, now.expected_bytes);
            let mut options = BackupOptions::default().progress(&mut call);
            if let Some(rate) = rate_bytes {
                options = options.rate_bytes(rate);
            }
            if let Some(newest) = backups.newest()?.filter(|_| incremental) {
                options = options.since(&newest);
            }
            Ok(db.backup_to(&backups, options)?.name.unwrap_or_default())
        });
        progress.end(done)
    }
}

/// Restores a backup of a folder into the directory `target`, which must be empty or not exist. Returns the number of
/// the last commit.
#[pyfunction]
#[pyo3(signature = (folder, target, *, at=None, progress=None))]
pub fn restore(
    py: Python<'_>,
    folder: PathBuf,
    target: PathBuf,
    at: Option<String>,
    progress: Option<Py<PyAny>>,
) -> PyResult<u64> {
    let mut progress = Progress::new(progress);
    let report = &mut progress;
    let done = run(py, move || {
        let now = |now: pando::RestoreProgress| report.report(now.bytes, now.expected_bytes);
        Ok(pando::restore_with(&Backups::open(folder)?, at.as_deref(), target, now)?.commit)
    });
    progress.end(done)
}
