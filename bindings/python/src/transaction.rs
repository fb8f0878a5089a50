//! Snapshots, transactions and savepoints.

use crate::engine;
use crate::errors;
use crate::guard::run;
use crate::handle::{Begun, Held};
use crate::options;
use pyo3::prelude::*;
use std::sync::Arc;

/// A read-only view of one moment.
#[pyclass(subclass, frozen, module = "pando._pando")]
pub struct Snapshot {
    held: Arc<Held>,
}

impl Snapshot {
    /// What tables of the snapshot read.
    pub fn held(&self) -> &Arc<Held> {
        &self.held
    }
}

#[pymethods]
impl Snapshot {
    #[new]
    fn new(db: PyRef<'_, crate::database::Database>, py: Python<'_>) -> PyResult<Self> {
        Ok(Snapshot { held: Held::take(py, db.handle())? })
    }

    #[getter]
    fn commit_number(&self, py: Python<'_>) -> PyResult<u64> {
        self.held.read(py, |snapshot| Ok(engine::commit_number(snapshot)))
    }

    /// Returns the names of all tables.
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.held
            .read(py, |snapshot| Ok(snapshot.tables()?.iter().map(|table| table.name().to_owned()).collect()))
    }

    /// Ends the snapshot.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.held.close(py)
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        if self.held.handle().is_of_this_process() { self.held.close(py) } else { Ok(()) }
    }
}

/// A read-write transaction.
#[pyclass(subclass, frozen, module = "pando._pando")]
pub struct Transaction {
    begun: Arc<Begun>,
}

impl Transaction {
    /// What tables of the transaction read and write.
    pub fn begun(&self) -> &Arc<Begun> {
        &self.begun
    }
}

#[pymethods]
impl Transaction {
    #[new]
    #[pyo3(signature = (db, *, durability=None, isolation=None, check_same_thread=true))]
    fn new(
        py: Python<'_>,
        db: PyRef<'_, crate::database::Database>,
        durability: Option<&Bound<'_, PyAny>>,
        isolation: Option<&Bound<'_, PyAny>>,
        check_same_thread: bool,
    ) -> PyResult<Self> {
        let handle = db.handle();
        let open = handle.open(py)?;
        let options = options::of_transaction(open.transaction_options(), durability, isolation)?;
        let transaction = run(py, || Ok(open.begin_with(&options)?))?;
        Ok(Transaction { begun: Begun::new(handle, transaction, !check_same_thread) })
    }

    /// Commits all changes or none. Returns the number of the commit.
    fn commit(&self, py: Python<'_>) -> PyResult<u64> {
        commit(py, self.begun.end(py)?)
    }

    /// Undoes all changes and ends the transaction. It has no effect on one that has ended.
    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        roll_back(py, self.begun.end(py)?)
    }

    /// Whether the transaction has neither been committed nor rolled back.
    #[getter]
    fn is_active(&self) -> bool {
        self.begun.is_active()
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (exception, *_rest))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exception: &Bound<'_, PyAny>,
        _rest: &Bound<'_, pyo3::types::PyTuple>,
    ) -> PyResult<()> {
        // The child of a fork has written nothing, and has nothing to end.
        if !self.begun.handle().is_of_this_process() {
            return Ok(());
        }
        if exception.is_none() && self.is_active() {
            return commit(py, self.begun.end_of_block(py)?).map(drop);
        }
        let ended = self.begun.end_of_block(py).and_then(|transaction| roll_back(py, transaction));
        if exception.is_none() { ended } else { unless_ended(py, ended) }
    }

    /// Marks a point to which the transaction can be rolled back.
    fn savepoint(&self, py: Python<'_>) -> PyResult<Savepoint> {
        let inner = self.begun.with(py, |transaction| Ok(transaction.savepoint()))?;
        Ok(Savepoint { begun: Arc::clone(&self.begun), inner })
    }

    /// Returns the name of the new table.
    #[pyo3(signature = (name, *, layout="btree", ttl=None, compression="none"))]
    fn _create_table(
        &self,
        py: Python<'_>,
        name: &str,
        layout: &str,
        ttl: Option<&Bound<'_, PyAny>>,
        compression: &str,
    ) -> PyResult<()> {
        let options = options::of_table(py, layout, ttl, compression)?;
        self.begun.with(py, |transaction| transaction.create_table(name, &options).map(drop))
    }

    /// Drops a table and everything in it.
    fn drop_table(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let table = self.begun.with(py, |transaction| transaction.table(name))?;
        let missing = || errors::named(py, "MissingError", format!("there is no table {name:?}"));
        let table = table.ok_or_else(missing)?;
        self.begun.with(py, |transaction| transaction.drop_table(&table))
    }
}

fn commit(py: Python<'_>, transaction: Option<pando::Transaction>) -> PyResult<u64> {
    match transaction {
        Some(transaction) => run(py, || Ok(transaction.commit()?)),
        None => Err(errors::closed(py, "the transaction")),
    }
}

fn roll_back(py: Python<'_>, transaction: Option<pando::Transaction>) -> PyResult<()> {
    run(py, || {
        drop(transaction);
        Ok(())
    })
}

/// The result of a rollback after an exception. The exception matters more than that the transaction or its database
/// was closed, or that the program has ended the savepoint itself: nothing is left to undo then. After any other
/// failure the writes remain, so it is raised.
fn unless_ended(py: Python<'_>, undone: PyResult<()>) -> PyResult<()> {
    let has_ended =
        |error: &PyErr| ["ClosedError", "InvalidError"].iter().any(|name| errors::is_of(py, error, name));
    undone.or_else(|error| if has_ended(&error) { Ok(()) } else { Err(error) })
}

/// A point in a transaction.
#[pyclass(frozen, module = "pando._pando")]
pub struct Savepoint {
    begun: Arc<Begun>,
    inner: pando::Savepoint,
}

#[pymethods]
impl Savepoint {
    /// Undoes every write since the savepoint, which remains.
    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.begun.with(py, |transaction| transaction.rollback_to(&self.inner))
    }

    /// Forgets the savepoint; the writes remain.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.begun.with(py, |transaction| transaction.release(&self.inner))
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (exception, *_rest))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exception: &Bound<'_, PyAny>,
        _rest: &Bound<'_, pyo3::types::PyTuple>,
    ) -> PyResult<()> {
        if !self.begun.handle().is_of_this_process() {
            return Ok(());
        }
        if exception.is_none() {
            return self.begun.end_part(py, |transaction| transaction.release(&self.inner));
        }
        unless_ended(py, self.begun.end_part(py, |transaction| transaction.rollback_to(&self.inner)))
    }
}
