//! Changes: every commit in order, and named consumers of them.
//!
//! A wait is a row of short ones without the interpreter's lock, so that Ctrl-C, a close in another thread and the end
//! of the database end it. A commit wakes it at once.

use crate::errors;
use crate::guard::{in_use, run};
use crate::handle::Handle;
use pando::changes::TableChange;
use pando::{Changes, ChangesOptions, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// The longest wait after which signals and closes are looked at.
const WAIT: Duration = Duration::from_millis(100);

/// An operation of a commit.
#[pyclass(frozen, module = "pando._pando")]
pub struct Operation {
    /// `put`, `delete`, `delete_range`; `create_table`, `drop_table`, `rename_table` or `alter_table`.
    #[pyo3(get)]
    kind: &'static str,
    /// The name of the table, after the commit.
    #[pyo3(get)]
    table: String,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
    /// The name that a renamed table had.
    #[pyo3(get)]
    former: Option<String>,
}

impl Operation {
    fn new(kind: &'static str, table: &str) -> Self {
        Operation { kind, table: table.to_owned(), key: None, value: None, end: None, former: None }
    }

    fn of(operation: &pando::Operation<'_>) -> pando::Result<Self> {
        use pando::Operation as Of;
        Ok(match operation {
            Of::Table(TableChange::Created(table)) => Operation::new("create_table", table.name()),
            Of::Table(TableChange::Altered(table)) => Operation::new("alter_table", table.name()),
            Of::Table(TableChange::Dropped { name, .. }) => Operation::new("drop_table", name),
            Of::Table(TableChange::Renamed { from, table }) => {
                Operation { former: Some(from.to_string()), ..Operation::new("rename_table", table.name()) }
            }
            Of::Put { table, key, value } => Operation {
                key: Some(key.to_vec()),
                value: Some(value.to_vec()?),
                ..Operation::new("put", table.name())
            },
            Of::Delete { table, key } => {
                Operation { key: Some(key.to_vec()), ..Operation::new("delete", table.name()) }
            }
            Of::DeleteRange { table, start, end } => Operation {
                key: Some(start.to_vec()),
                end: end.map(<[u8]>::to_vec),
                ..Operation::new("delete_range", table.name())
            },
        })
    }
}

#[pymethods]
impl Operation {
    /// The key; the first one of a range that was deleted.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.key.as_deref().map(|key| PyBytes::new(py, key))
    }

    /// The value of a put.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.value.as_deref().map(|value| PyBytes::new(py, value))
    }

    /// The first key after a range that was deleted; `None`: the range reaches to the end of the table.
    #[getter]
    fn end<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.end.as_deref().map(|end| PyBytes::new(py, end))
    }

    fn __repr__(&self) -> String {
        let key = self.key.as_deref().map_or_else(String::new, |key| format!(" b\"{}\"", key.escape_ascii()));
        format!("<pando.Operation {} {:?}{key}>", self.kind, self.table)
    }
}

/// One commit.
#[pyclass(frozen, module = "pando._pando")]
pub struct Change {
    /// The number of the commit.
    #[pyo3(get)]
    commit_number: u64,
    /// When it was made, in seconds since 1970; `None`: it is not known.
    #[pyo3(get)]
    time: Option<f64>,
    /// Its operations, in the order in which they lead to the state after the commit.
    #[pyo3(get)]
    operations: Vec<Py<Operation>>,
}

#[pymethods]
impl Change {
    fn __repr__(&self) -> String {
        format!("<pando.Change of commit {}, {} operations>", self.commit_number, self.operations.len())
    }
}

/// A change as it was read, before it becomes objects.
struct ReadChange {
    commit_number: u64,
    time_ms: Option<u64>,
    operations: Vec<Operation>,
}

impl ReadChange {
    /// Waits for the next change for at most so long. If it cannot be read, the next call tries again.
    fn next(changes: &mut Changes, at_most: Duration) -> pando::Result<Option<Self>> {
        let Some(change) = changes.wait(at_most)? else { return Ok(None) };
        let read = Self::of(&change);
        if read.is_err() {
            changes.repeat();
        }
        read.map(Some)
    }

    fn of(change: &pando::Change<'_>) -> pando::Result<Self> {
        let mut read = Vec::new();
        let mut operations = change.operations()?;
        while let Some(operation) = operations.next()? {
            read.push(Operation::of(&operation)?);
        }
        Ok(ReadChange { commit_number: change.commit_number(), time_ms: change.time_ms(), operations: read })
    }

    fn into_object(self, py: Python<'_>) -> PyResult<Change> {
        let operations = self.operations.into_iter().map(|operation| Py::new(py, operation));
        Ok(Change {
            commit_number: self.commit_number,
            time: self.time_ms.map(|time_ms| time_ms as f64 / 1000.0),
            operations: operations.collect::<PyResult<_>>()?,
        })
    }
}

/// An iterator over changes. It waits for the next one, and ends when it or its database is closed.
#[pyclass(frozen, module = "pando._pando")]
pub struct ChangeFeed {
    handle: Arc<Handle>,
    inner: Mutex<Option<Changes>>,
    is_closed: AtomicBool,
}

impl ChangeFeed {
    fn new(handle: &Arc<Handle>, changes: Changes) -> Self {
        let (handle, inner) = (Arc::clone(handle), Mutex::new(Some(changes)));
        ChangeFeed { handle, inner, is_closed: AtomicBool::new(false) }
    }

    fn has_ended(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst) || self.handle.is_closed()
    }

    /// Returns the next change; `None` after `timeout`, or at the end.
    fn wait(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Option<Change>> {
        self.handle.check_process(py)?;
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            py.check_signals()?;
            if self.has_ended() {
                self.let_go(py)?;
                return Ok(None);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if let Some(found) = self.look(py, left.map_or(WAIT, |left| left.min(WAIT)))? {
                return found.into_object(py).map(Some);
            }
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
        }
    }

    /// Waits for the next change for at most so long.
    fn look(&self, py: Python<'_>, at_most: Duration) -> PyResult<Option<ReadChange>> {
        let mut inner = match self.inner.try_lock() {
            Ok(inner) => inner,
            Err(TryLockError::Poisoned(_)) => return Err(errors::closed(py, "the feed of changes")),
            // The other call may be the one that closes the feed.
            Err(TryLockError::WouldBlock) if self.has_ended() => return Ok(None),
            Err(TryLockError::WouldBlock) => return Err(in_use(py, "the feed of changes")),
        };
        let Some(changes) = inner.as_mut() else { return Ok(None) };
        run(py, || match ReadChange::next(changes, at_most) {
            Ok(read) => Ok(read),
            // The database was closed meanwhile, which is the end and not a failure.
            Err(error) if error.kind() == ErrorKind::Closed => Ok(None),
            Err(error) => Err(error.into()),
        })
    }

    /// Lets go of what the database keeps for the feed, unless another thread still waits, which then does it.
    fn let_go(&self, py: Python<'_>) -> PyResult<()> {
        let taken = match self.inner.try_lock() {
            Ok(mut inner) => inner.take(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        };
        run(py, || {
            drop(taken);
            Ok(())
        })
    }
}

#[pymethods]
impl ChangeFeed {
    #[new]
    #[pyo3(signature = (source, *, after=None, tables=Vec::new(), prefix=None))]
    fn new_feed(
        source: &Bound<'_, PyAny>,
        after: Option<&Bound<'_, PyAny>>,
        tables: Vec<String>,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = source.py();
        let after = after.map_or(Ok(0), |after| crate::options::count("after", after))?;
        let mut options = ChangesOptions::default().after(after);
        for table in &tables {
            options = options.table(table);
        }
        if let Some(prefix) = prefix {
            options = options.prefix(&crate::options::bytes("prefix", prefix)?);
        }
        if let Ok(consumer) = source.cast::<Consumer>() {
            let consumer = consumer.get();
            let changes = consumer.with(py, |consumer| consumer.changes_with(options))?;
            return Ok(ChangeFeed::new(&consumer.handle, changes));
        }
        let db = source.cast::<crate::database::Database>()?.get();
        let open = db.handle().open(py)?;
        let changes = run(py, || Ok(open.changes_with(options)?))?;
        Ok(ChangeFeed::new(db.handle(), changes))
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Change>> {
        self.wait(py, None)
    }

    /// Returns the next change. Waits for it, for at most `timeout` seconds; `None` after that, and at the end.
    #[pyo3(signature = (timeout=None))]
    fn next(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Change>> {
        let timeout = timeout.map(|timeout| crate::options::seconds("timeout", timeout)).transpose()?;
        self.wait(py, timeout)
    }

    /// The last commit that the feed has passed. Begin after it to continue.
    #[getter]
    fn position(&self, py: Python<'_>) -> PyResult<u64> {
        self.handle.open(py)?;
        let inner = self.inner.try_lock().map_err(|_| match self.has_ended() {
            true => errors::closed(py, "the feed of changes"),
            false => in_use(py, "the feed of changes"),
        })?;
        let position = inner.as_ref().map(Changes::position);
        position.ok_or_else(|| errors::closed(py, "the feed of changes"))
    }

    /// Whether the feed or its database was closed.
    #[getter]
    fn is_closed(&self) -> bool {
        self.has_ended()
    }

    /// Ends the feed. A thread that waits for a change stops waiting.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.check_process(py)?;
        self.is_closed.store(true, Ordering::SeqCst);
        self.let_go(py)
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        if self.handle.is_of_this_process() { self.close(py) } else { Ok(()) }
    }
}

/// A named consumer, whose place survives restarts.
#[pyclass(subclass, frozen, module = "pando._pando")]
pub struct Consumer {
    handle: Arc<Handle>,
    name: String,
    inner: Mutex<Option<pando::Consumer>>,
    /// Whether a thread closes the consumer, or has closed it.
    is_closed: AtomicBool,
}

impl Consumer {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut pando::Consumer) -> pando::Result<T> + Send,
    ) -> PyResult<T> {
        self.handle.open(py)?;
        let mut inner = self.inner.try_lock().map_err(|_| match self.is_closed.load(Ordering::SeqCst) {
            true => errors::closed(py, "the consumer"),
            false => in_use(py, "the consumer"),
        })?;
        let consumer = inner.as_mut().ok_or_else(|| errors::closed(py, "the consumer"))?;
        run(py, || Ok(work(consumer)?))
    }
}

#[pymethods]
impl Consumer {
    #[new]
    fn new(py: Python<'_>, db: PyRef<'_, crate::database::Database>, name: String) -> PyResult<Self> {
        let open = db.handle().open(py)?;
        let consumer = run(py, || Ok(open.consumer(&name)?))?;
        let (handle, inner) = (Arc::clone(db.handle()), Mutex::new(Some(consumer)));
        Ok(Consumer { handle, name, inner, is_closed: AtomicBool::new(false) })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The number of the last commit that was acknowledged.
    #[getter]
    fn position(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |consumer| Ok(consumer.position()))
    }

    /// Records durably that everything up to the commit of this number is done.
    fn acknowledge(&self, py: Python<'_>, commit: &Bound<'_, PyAny>) -> PyResult<()> {
        let number = match commit.cast::<Change>() {
            Ok(change) => change.get().commit_number,
            Err(_) => crate::options::count("commit", commit)?,
        };
        self.with(py, |consumer| consumer.acknowledge(number))
    }

    /// Closes the consumer, so that it can be opened again. Its place is kept. Waits for a call of another thread.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.check_process(py)?;
        self.is_closed.store(true, Ordering::SeqCst);
        run(py, || {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            drop(inner.take());
            Ok(())
        })
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        if self.handle.is_of_this_process() { self.close(py) } else { Ok(()) }
    }
}
