//! Where a view reads and writes: the database itself, a snapshot, or a transaction.

use crate::guard::{Failure, run, run_attached};
use crate::handle::{Begun, Handle, Held};
use crate::typed_reads::RowReads;
use pando::{Resident, Result, Snapshot, Table, Transaction};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::sync::Arc;

/// What snapshots and transactions have in common.
pub trait Reads: binding::Reads + RowReads {
    /// A copy of the value of `key`.
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut copy = None;
        self.get_with(table, key, &mut |value| copy = Some(value.to_vec()))?;
        Ok(copy)
    }
    /// The table named `name`.
    fn table(&self, name: &str) -> Result<Option<Table>>;
}

impl Reads for Snapshot {
    fn table(&self, name: &str) -> Result<Option<Table>> {
        Snapshot::table(self, name)
    }
}

impl Reads for Transaction {
    fn table(&self, name: &str) -> Result<Option<Table>> {
        Transaction::table(self, name)
    }
}

/// A source of reads, and of writes unless it is a snapshot.
#[derive(Clone)]
pub enum Source {
    /// Each read sees the newest state, and each write is a transaction by itself.
    Database(Arc<Handle>),
    /// Reads see one moment.
    Snapshot(Arc<Held>),
    /// Reads see the transaction's beginning and its own writes.
    Transaction(Arc<Begun>),
}

impl Source {
    /// What a `Database`, a `Snapshot` or a `Transaction` of Python reads and writes.
    pub fn of(given: &Bound<'_, PyAny>) -> PyResult<Source> {
        if let Ok(db) = given.cast::<crate::database::Database>() {
            Ok(Source::Database(Arc::clone(db.get().handle())))
        } else if let Ok(snapshot) = given.cast::<crate::transaction::Snapshot>() {
            Ok(Source::Snapshot(Arc::clone(snapshot.get().held())))
        } else if let Ok(transaction) = given.cast::<crate::transaction::Transaction>() {
            Ok(Source::Transaction(Arc::clone(transaction.get().begun())))
        } else {
            Err(PyTypeError::new_err("a table must belong to a Database, a Snapshot or a Transaction"))
        }
    }

    /// The database.
    pub fn handle(&self) -> &Arc<Handle> {
        match self {
            Source::Database(handle) => handle,
            Source::Snapshot(held) => held.handle(),
            Source::Transaction(begun) => begun.handle(),
        }
    }

    /// Fails if what is read has ended or belongs to another thread, for uses of records that were read ahead.
    pub fn check(&self, py: Python<'_>) -> PyResult<()> {
        match self {
            Source::Database(handle) => handle.open(py).map(drop),
            Source::Snapshot(held) => held.check(py),
            Source::Transaction(begun) => begun.check(py),
        }
    }

    /// Runs `read` without the interpreter's lock.
    pub fn read<T: Send>(
        &self,
        py: Python<'_>,
        read: impl FnOnce(&dyn Reads) -> Result<T> + Send,
    ) -> PyResult<T> {
        match self {
            Source::Database(handle) => {
                let db = handle.open(py)?;
                run(py, || Ok(read(&db.snapshot()?)?))
            }
            Source::Snapshot(held) => held.read(py, |snapshot| read(snapshot)),
            Source::Transaction(begun) => begun.read(py, |transaction| read(transaction)),
        }
    }

    /// Returns a copy of the value of `key`. What is in memory is copied without releasing the interpreter's lock,
    /// which costs more than the copy.
    pub fn get(&self, py: Python<'_>, table: &Table, key: &[u8]) -> PyResult<Option<Vec<u8>>> {
        let resident = match self {
            Source::Database(handle) => {
                let db = handle.open(py)?;
                run_attached(py, || db.snapshot()?.get_resident(table, key))?
            }
            Source::Snapshot(held) => {
                held.handle().open(py)?;
                match held.try_lock().as_deref() {
                    Some(Some(snapshot)) => run_attached(py, || snapshot.get_resident(table, key))?,
                    _ => Resident::WouldWait,
                }
            }
            Source::Transaction(_) => Resident::WouldWait,
        };
        match resident {
            Resident::Found(value) => Ok(Some(value)),
            Resident::Absent => Ok(None),
            Resident::WouldWait => self.read(py, |reads| reads.get(table, key)),
        }
    }

    /// Runs `write` without the interpreter's lock: in the transaction, or in one of its own, which is run again after
    /// conflicts.
    pub fn write<T: Send>(
        &self,
        py: Python<'_>,
        mut write: impl FnMut(&mut Transaction) -> Result<T> + Send,
    ) -> PyResult<T> {
        match self {
            Source::Database(handle) => {
                let db = handle.open(py)?;
                run(py, || Ok(db.write(write)?))
            }
            Source::Snapshot(_) => Err(Failure::from(read_only()).raise(py)),
            Source::Transaction(begun) => begun.with(py, |transaction| write(transaction)),
        }
    }

    /// Runs `write` with a transaction: this one, or one of its own that is committed in the end.
    pub fn within<T>(&self, py: Python<'_>, write: impl FnOnce(&Begun) -> PyResult<T>) -> PyResult<T> {
        match self {
            Source::Database(handle) => {
                let db = handle.open(py)?;
                let begun = Begun::new(handle, run(py, || Ok(db.begin()?))?, false);
                let done = write(&begun)?;
                if let Some(transaction) = begun.end(py)? {
                    run(py, || Ok(transaction.commit()?))?;
                }
                Ok(done)
            }
            Source::Snapshot(_) => Err(Failure::from(read_only()).raise(py)),
            Source::Transaction(begun) => write(begun),
        }
    }

    /// A snapshot that any thread can read, for batches of Arrow. A transaction has none: its reads belong to its
    /// thread.
    pub fn held(&self, py: Python<'_>) -> PyResult<Arc<Held>> {
        match self {
            Source::Database(handle) => Held::take(py, handle),
            Source::Snapshot(held) => Ok(Arc::clone(held)),
            Source::Transaction(_) => {
                let message = "a table within a transaction has no Arrow, as other programs read it from \
                               threads of their own; use the table of the database or of a snapshot";
                Err(Failure::from(pando::Error::invalid(message)).raise(py))
            }
        }
    }

    /// A number that changes when something is written to what is read.
    pub fn changes(&self) -> u64 {
        match self {
            Source::Transaction(begun) => begun.changes(),
            Source::Database(_) | Source::Snapshot(_) => 0,
        }
    }

    /// The same source at one moment, for reads that belong together.
    pub fn at_one_moment(&self, py: Python<'_>) -> PyResult<Source> {
        match self {
            Source::Database(handle) => Held::take(py, handle).map(Source::Snapshot),
            other => Ok(other.clone()),
        }
    }
}

fn read_only() -> pando::Error {
    pando::Error::new(pando::ErrorKind::ReadOnly, "a snapshot cannot be written to; use a transaction")
}
