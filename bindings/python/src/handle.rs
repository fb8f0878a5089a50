//! What the objects of one database share, and how they end.

use crate::errors;
use crate::guard::{Failure, run};
use pando::{Database, ErrorKind, Snapshot, Transaction};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// How often the end of a block looks whether another thread still uses the transaction.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// How often this process is the child of a fork.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Notes that this process is a fork's child. Python calls it first thing in the child.
#[pyfunction]
#[pyo3(name = "_after_fork")]
pub fn after_fork() {
    FORKS.fetch_add(1, Ordering::SeqCst);
}

/// An open database.
pub struct Handle {
    db: Database,
    is_closed: AtomicBool,
    forks: u32,
}

impl Handle {
    /// Of a database that was just opened.
    pub fn new(db: Database) -> Arc<Self> {
        Arc::new(Handle { db, is_closed: AtomicBool::new(false), forks: FORKS.load(Ordering::SeqCst) })
    }

    /// Returns whether this process has opened the database, and not one that it was forked from.
    pub fn is_of_this_process(&self) -> bool {
        self.forks == FORKS.load(Ordering::SeqCst)
    }

    /// Refuses a child's use. It comes before every lock, as a thread of the parent may have held one.
    pub fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_of_this_process() {
            return Ok(());
        }
        let message = "the database was opened before this process was forked; open it in the child, after \
                       the parent has closed it";
        Err(errors::named(py, "ForkedError", message))
    }

    /// Returns whether the database may be used, for threads that do not have the interpreter's lock.
    pub fn is_usable(&self) -> bool {
        self.is_of_this_process() && !self.is_closed()
    }

    /// The database, if it may be used.
    pub fn open(&self, py: Python<'_>) -> PyResult<&Database> {
        self.check_process(py)?;
        if self.is_closed() {
            return Err(errors::closed(py, "the database"));
        }
        Ok(&self.db)
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Closes the database. A second call waits for the first, and has the same result.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.check_process(py)?;
        self.is_closed.store(true, Ordering::SeqCst);
        run(py, || {
            let closed = self.db.close();
            // A check that is running has refused it: nothing is closed, unless another call has done it.
            let is_refused = closed.as_ref().is_err_and(|error| error.kind() == ErrorKind::Invalid);
            self.is_closed.store(!is_refused || self.db.is_closed(), Ordering::SeqCst);
            Ok(closed?)
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.is_closed() || !self.is_of_this_process() {
            return;
        }
        let db = &self.db;
        // Nobody is left to get the error. At the interpreter's end there is nothing to attach to, nor to wait for.
        let closed = Python::try_attach(|py| py.detach(|| db.close()));
        if closed.is_none() {
            let _ = db.close();
        }
    }
}

/// A snapshot that threads share: one reads at a time.
pub struct Held {
    handle: Arc<Handle>,
    inner: Mutex<Option<Snapshot>>,
    /// For checks without the lock.
    is_closed: AtomicBool,
}

impl Held {
    /// Takes a snapshot.
    pub fn take(py: Python<'_>, handle: &Arc<Handle>) -> PyResult<Arc<Self>> {
        let db = handle.open(py)?;
        let snapshot = run(py, || Ok(db.snapshot()?))?;
        let inner = Mutex::new(Some(snapshot));
        Ok(Arc::new(Held { handle: Arc::clone(handle), inner, is_closed: AtomicBool::new(false) }))
    }

    /// Fails if the snapshot or its database is closed.
    pub fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.open(py)?;
        if self.is_closed.load(Ordering::SeqCst) || self.inner.is_poisoned() {
            return Err(errors::closed(py, "the snapshot"));
        }
        Ok(())
    }

    /// Runs `read` on the snapshot.
    pub fn read<T: Send>(
        &self,
        py: Python<'_>,
        read: impl FnOnce(&Snapshot) -> pando::Result<T> + Send,
    ) -> PyResult<T> {
        self.handle.open(py)?;
        run(py, || {
            let held = self.inner.lock().map_err(|_| Failure::Closed("the snapshot"))?;
            Ok(read(held.as_ref().ok_or(Failure::Closed("the snapshot"))?)?)
        })
    }

    /// Runs `read` on the snapshot, in a thread that does not have the interpreter's lock.
    pub fn read_detached<T>(&self, read: impl FnOnce(&Snapshot) -> pando::Result<T>) -> pando::Result<T> {
        let closed = || pando::Error::new(pando::ErrorKind::Closed, "the database or the snapshot is closed");
        if !self.handle.is_usable() {
            return Err(closed());
        }
        let held = self.inner.lock().map_err(|_| closed())?;
        read(held.as_ref().ok_or_else(closed)?)
    }

    /// The snapshot, unless another thread reads from it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, Option<Snapshot>>> {
        self.inner.try_lock().ok()
    }

    /// The database.
    pub fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Ends the snapshot. A second time has no effect.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.check_process(py)?;
        run(py, || {
            let mut held = self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            self.is_closed.store(true, Ordering::SeqCst);
            drop(held.take());
            Ok(())
        })
    }
}

/// A transaction, and the only thread that may use it.
pub struct Begun {
    handle: Arc<Handle>,
    inner: Mutex<Option<Transaction>>,
    thread: Option<ThreadId>,
    /// For checks without the lock.
    is_ended: AtomicBool,
    /// How often something may have been written or undone: what was read before may differ.
    changes: AtomicU64,
}

impl Begun {
    /// Of a transaction that has just begun; `is_shared` lets every thread use it, one at a time.
    pub fn new(handle: &Arc<Handle>, transaction: Transaction, is_shared: bool) -> Arc<Self> {
        let thread = (!is_shared).then(|| thread::current().id());
        let inner = Mutex::new(Some(transaction));
        let (is_ended, changes) = (AtomicBool::new(false), AtomicU64::new(0));
        Arc::new(Begun { handle: Arc::clone(handle), inner, thread, is_ended, changes })
    }

    /// The database.
    pub fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Runs `read` on the transaction.
    pub fn read<T: Send>(
        &self,
        py: Python<'_>,
        read: impl FnOnce(&Transaction) -> pando::Result<T> + Send,
    ) -> PyResult<T> {
        self.check_use(py)?;
        run(py, || Ok(read(self.lock()?.as_ref().ok_or(ENDED)?)?))
    }

    /// Runs `work` on the transaction.
    pub fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Transaction) -> pando::Result<T> + Send,
    ) -> PyResult<T> {
        self.check_use(py)?;
        run(py, || {
            let mut guard = self.lock()?;
            let transaction = guard.as_mut().ok_or(ENDED)?;
            self.changes.fetch_add(1, Ordering::SeqCst);
            Ok(work(transaction)?)
        })
    }

    /// How often something may have been written or undone so far.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Runs `work` on the transaction for the end of a block, after the calls of other threads: a refusal would keep
    /// what is to be undone.
    pub fn end_part(
        &self,
        py: Python<'_>,
        work: impl Fn(&mut Transaction) -> pando::Result<()> + Sync,
    ) -> PyResult<()> {
        self.after_others(py, || {
            let mut guard = self.lock()?;
            let transaction = guard.as_mut().ok_or(ENDED)?;
            self.changes.fetch_add(1, Ordering::SeqCst);
            Ok(work(transaction)?)
        })
    }

    /// Takes the transaction, to end it; `None` if it has ended.
    pub fn end(&self, py: Python<'_>) -> PyResult<Option<Transaction>> {
        self.check_use(py)?;
        self.take().map_err(|failure| failure.raise(py))
    }

    /// Takes the transaction at the end of a block, after the calls of other threads.
    pub fn end_of_block(&self, py: Python<'_>) -> PyResult<Option<Transaction>> {
        self.after_others(py, || self.take())
    }

    fn take(&self) -> Result<Option<Transaction>, Failure> {
        let mut guard = self.lock()?;
        self.is_ended.store(true, Ordering::SeqCst);
        Ok(guard.take())
    }

    /// Runs `call`, and again as long as another thread uses the transaction. One of a single thread is not waited for.
    fn after_others<T: Send>(
        &self,
        py: Python<'_>,
        call: impl Fn() -> Result<T, Failure> + Sync,
    ) -> PyResult<T> {
        loop {
            self.check_use(py)?;
            let done = run(py, || match call() {
                Err(Failure::InUse(_)) if self.thread.is_none() => {
                    thread::sleep(LOOK_AGAIN);
                    Ok(None)
                }
                done => done.map(Some),
            })?;
            if let Some(done) = done {
                return Ok(done);
            }
            // Ctrl-C ends it. What it waits for may be a call of its own thread: a bulk load runs code of the program.
            py.check_signals()?;
        }
    }

    /// Whether it has neither been committed nor rolled back.
    pub fn is_active(&self) -> bool {
        !self.is_ended.load(Ordering::SeqCst)
    }

    /// Fails if the transaction has ended, its database is closed, or it belongs to another thread.
    pub fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.check_use(py)?;
        if !self.is_active() || self.inner.is_poisoned() {
            return Err(ENDED.raise(py));
        }
        Ok(())
    }

    fn lock(&self) -> Result<MutexGuard<'_, Option<Transaction>>, Failure> {
        self.inner.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Failure::InUse("the transaction"),
            TryLockError::Poisoned(_) => ENDED,
        })
    }

    /// Whether it has ended is checked with the lock, later.
    fn check_use(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.open(py)?;
        if self.thread.is_some_and(|thread| thread != thread::current().id()) {
            let message = "the transaction was begun by another thread; begin one for each thread, or begin \
                           it with check_same_thread=False and use it from one thread at a time";
            return Err(errors::named(py, "ThreadError", message));
        }
        Ok(())
    }
}

const ENDED: Failure = Failure::Closed("the transaction");

impl Drop for Begun {
    fn drop(&mut self) {
        // A rollback can free much. In a child it would touch what is the parent's.
        let inner = std::mem::take(self.inner.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner()));
        if let Some(transaction) = inner {
            drop_detached(transaction);
        }
    }
}

/// Drops without the interpreter's lock, if there still is an interpreter.
fn drop_detached<T: Send>(value: T) {
    let mut value = Some(value);
    let _ = Python::try_attach(|py| py.detach(|| drop(value.take())));
}
