//! SQL: a connection and its results, under the DB-API connection of `pando.dbapi`.
//!
//! A statement runs to its end without the interpreter's lock, and its rows are kept in memory as the library's values.
//! They become objects of Python as they are fetched.

use crate::arrow::Arrow;
use crate::database::Database;
use crate::errors;
use crate::handle::Handle;
use crate::options::wrong_type;
use crate::sql_rows::ResultRows;
use pando::ErrorKind;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple,
};
use sql::{Connection, Interrupt, Value, to_owned};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The version of SQLite.
#[pyfunction]
pub fn sqlite_version() -> &'static str {
    sql::sqlite_version()
}

/// Why a statement has failed.
enum Failure {
    Sql(sql::Error),
    Closed,
    /// The transaction has ended with a statement that failed, for this reason.
    RolledBack(String),
    Panic(String),
    /// A named parameter without a value.
    Parameter(String),
    /// Values that do not fit together.
    Data(String),
}

impl From<sql::Error> for Failure {
    fn from(error: sql::Error) -> Self {
        if error.kind() == ErrorKind::Closed { Failure::Closed } else { Failure::Sql(error) }
    }
}

impl Failure {
    #[cold]
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Failure::Sql(error) => {
                let conflict = error.conflict();
                let table = conflict.map(|conflict| conflict.table());
                let key = conflict.and_then(|conflict| conflict.key()).map(|key| PyBytes::new(py, key));
                errors::made(py, "of_sql", (error.code(), error.message(), table, key))
            }
            Failure::Closed => errors::made(py, "SqlClosedError", ("the connection is closed",)),
            Failure::RolledBack(cause) => {
                let text = format!(
                    "the transaction was rolled back because a statement in it failed ({cause}): call \
                     rollback(), and run it again"
                );
                errors::made(py, "OperationalError", (text,))
            }
            Failure::Panic(text) => errors::made(py, "InternalError", (text,)),
            Failure::Parameter(text) => errors::made(py, "programming_error", (text,)),
            Failure::Data(text) => errors::made(py, "DataError", (text,)),
        }
    }
}

/// Parameters of a statement.
enum Parameters {
    Places(Vec<Value>),
    Names(Vec<(String, Value)>),
}

/// What a statement returned.
struct Outcome {
    columns: Option<Vec<String>>,
    declared: Vec<Option<String>>,
    rows: Vec<Vec<Value>>,
    changes: u64,
    last_row_id: i64,
}

/// A connection.
#[pyclass(frozen, module = "pando._pando")]
pub struct SqlConnection {
    handle: Arc<Handle>,
    inner: Mutex<Option<Connection>>,
    interrupt: Interrupt,
    /// Why every statement fails until a rollback: the transaction has ended with a statement that failed. SQLite rolls
    /// back a transaction whose statement is stopped while it writes, for example. Without this, later statements would
    /// be a transaction of their own. It changes only while `inner` is locked.
    lost: Mutex<Option<String>>,
}

impl SqlConnection {
    fn lost(&self) -> MutexGuard<'_, Option<String>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work`, which executes a statement, on the connection. It begins a transaction first if `begins` is true
    /// and none is open.
    fn run_statement<T: Send>(
        &self,
        py: Python<'_>,
        (sql, begins): (&str, bool),
        work: impl FnOnce(&Connection) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        self.run(py, |connection| {
            let ends = sql::is_transaction_control(sql);
            if ends && sql.to_ascii_uppercase().contains("ROLLBACK") {
                *self.lost() = None;
            }
            if let Some(cause) = &*self.lost() {
                return Err(Failure::RolledBack(cause.clone()));
            }
            let was_open = !connection.is_autocommit();
            begin(connection, begins)?;
            let done = work(connection);
            if let Err(Failure::Sql(error)) = &done
                && was_open
                && !ends
                && connection.is_autocommit()
            {
                *self.lost() = Some(error.message().to_owned());
            }
            done
        })
    }

    /// Runs `work` on the connection, one call at a time, without the interpreter's lock.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Connection) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        self.handle.check_process(py)?;
        if self.handle.is_closed() {
            return Err(Failure::Closed.raise(py));
        }
        let work = || {
            let inner = self.inner.lock().map_err(|_| Failure::Closed)?;
            work(inner.as_ref().ok_or(Failure::Closed)?)
        };
        guarded(py, work)
    }
}

/// Runs `work` without the interpreter's lock, and makes an exception of a failure or a panic.
fn guarded<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, Failure> + Send) -> PyResult<T> {
    let done = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    done.unwrap_or_else(|panic| Err(panicked(panic.as_ref()))).map_err(|failure| failure.raise(py))
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    Failure::Panic(format!("a defect in Pando, please report it: {text}"))
}

#[pymethods]
impl SqlConnection {
    #[new]
    fn new(py: Python<'_>, db: PyRef<'_, Database>) -> PyResult<Self> {
        let (sql, handle) = (db.sql(py)?, db.handle());
        let connection = guarded(py, || sql.connect().map_err(Failure::from))?;
        let interrupt = connection.interrupt_handle();
        let (handle, inner) = (Arc::clone(handle), Mutex::new(Some(connection)));
        Ok(SqlConnection { handle, inner, interrupt, lost: Mutex::new(None) })
    }

    /// Runs one statement. With `begins`, it begins a transaction first if none is open.
    #[pyo3(signature = (sql, parameters, begins=false))]
    fn execute(
        &self,
        py: Python<'_>,
        sql: &str,
        parameters: &Bound<'_, PyAny>,
        begins: bool,
    ) -> PyResult<SqlResult> {
        let parameters = parameters_of(parameters)?;
        let work = move |connection: &Connection| execute(connection, sql, parameters);
        let outcome = self.run_statement(py, (sql, begins), work)?;
        Ok(SqlResult::of(outcome))
    }

    /// Runs one statement for each of many lists of parameters. Returns how many rows it changed. With `begins`, it
    /// begins a transaction first if none is open.
    #[pyo3(signature = (sql, parameters, begins=false))]
    fn execute_many(
        &self,
        py: Python<'_>,
        sql: &str,
        parameters: &Bound<'_, PyAny>,
        begins: bool,
    ) -> PyResult<u64> {
        let lists = parameters
            .try_iter()
            .map_err(|_| wrong_type("parameters", "an iterable of sequences or dicts", parameters))?;
        let lists = lists.map(|list| parameters_of(&list?));
        let lists = lists.collect::<PyResult<Vec<_>>>()?;
        self.run_statement(py, (sql, begins), move |connection| {
            let mut statement = connection.prepare(sql)?;
            let mut changes = 0;
            for list in lists {
                let places = in_places(&statement, list)?;
                changes += statement.execute(&places)?;
            }
            Ok(changes)
        })
    }

    /// Runs the statements of a script one after another.
    fn execute_script(&self, py: Python<'_>, sql: &str) -> PyResult<()> {
        self.run(py, |connection| Ok(connection.execute_batch(sql)?))
    }

    /// Whether no transaction is open, nor one that has ended with a statement and is to be rolled back.
    #[getter]
    fn is_autocommit(&self, py: Python<'_>) -> PyResult<bool> {
        self.run(py, |connection| Ok(connection.is_autocommit() && self.lost().is_none()))
    }

    /// Commits the transaction, if one is open. If that fails, it rolls the transaction back.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |connection| {
            if let Some(cause) = self.lost().take() {
                return Err(Failure::RolledBack(cause));
            }
            let ended = end(connection, "COMMIT");
            if ended.is_err() {
                let _ = end(connection, "ROLLBACK");
            }
            ended
        })
    }

    /// Rolls the transaction back, if one is open.
    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |connection| {
            *self.lost() = None;
            end(connection, "ROLLBACK")
        })
    }

    /// Stops the statement that runs.
    fn interrupt(&self, py: Python<'_>) {
        // It waits while another thread closes the connection.
        py.detach(|| self.interrupt.interrupt());
    }

    /// Closes the connection, and rolls back its transaction. Returns whether it was open: of several threads that
    /// close it, one gets true.
    fn close(&self, py: Python<'_>) -> PyResult<bool> {
        self.handle.check_process(py)?;
        Ok(py.detach(|| {
            let taken =
                self.inner.lock().map_or_else(|poisoned| poisoned.into_inner().take(), |mut one| one.take());
            taken.is_some()
        }))
    }
}

/// Begins a transaction, if `begins` is true and none is open. The caller has the lock of the connection, so that of
/// several threads one begins it.
fn begin(connection: &Connection, begins: bool) -> Result<(), Failure> {
    if begins && connection.is_autocommit() {
        connection.execute("BEGIN", &[])?;
    }
    Ok(())
}

/// Ends the transaction with `statement`, if one is open.
fn end(connection: &Connection, statement: &str) -> Result<(), Failure> {
    if !connection.is_autocommit() {
        connection.execute(statement, &[])?;
    }
    Ok(())
}

fn execute(connection: &Connection, sql: &str, parameters: Parameters) -> Result<Outcome, Failure> {
    let mut statement = connection.prepare(sql)?;
    let places = in_places(&statement, parameters)?;
    let before = connection.last_insert_row_id();
    let mut kept = Vec::new();
    let declared = statement.columns()?.into_iter().map(|column| column.declared).collect();
    let (columns, changes) = {
        let mut rows = statement.query(&places)?;
        while let Some(row) = rows.next()? {
            kept.push((0..row.len()).map(|column| to_owned(row.get(column))).collect());
        }
        let columns = rows.columns().to_vec();
        (columns, rows.changes())
    };
    let columns = (!columns.is_empty()).then_some(columns);
    let last_row_id = if changes > 0 { connection.last_insert_row_id() } else { before };
    Ok(Outcome { columns, declared, rows: kept, changes, last_row_id })
}

/// Parameters in the order of their places.
fn in_places(statement: &sql::Statement<'_>, parameters: Parameters) -> Result<Vec<Value>, Failure> {
    let named = match parameters {
        Parameters::Places(values) => return Ok(values),
        Parameters::Names(named) => named,
    };
    let mut places: Vec<Option<Value>> = vec![None; statement.parameter_count()];
    for (name, value) in named {
        for mark in [":", "@", "$"] {
            let place = statement.parameter(&format!("{mark}{name}"))?;
            if let Some(place) = place.and_then(|place| places.get_mut(place)) {
                *place = Some(value.clone());
            }
        }
    }
    let missing = places.iter().position(Option::is_none);
    if let Some(place) = missing {
        let message = format!("parameter {} of the statement has no value in the mapping", place + 1);
        return Err(Failure::Parameter(message));
    }
    Ok(places.into_iter().flatten().collect())
}

fn parameters_of(given: &Bound<'_, PyAny>) -> PyResult<Parameters> {
    if let Ok(mapping) = given.cast::<PyDict>() {
        let pair = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            Ok((name.extract::<String>()?, value_of(&value)?))
        };
        // A copy: the conversion of a value can run code, and another thread can change the dict meanwhile.
        let copy = mapping.items();
        let pairs = copy.iter().map(|item| item.extract().and_then(pair));
        return Ok(Parameters::Names(pairs.collect::<PyResult<_>>()?));
    }
    if given.is_instance_of::<PyString>() || given.is_instance_of::<PyBytes>() {
        return Err(wrong_type("parameters", "a sequence or a dict", given));
    }
    let values = given.try_iter().map_err(|_| wrong_type("parameters", "a sequence or a dict", given))?;
    Ok(Parameters::Places(values.map(|value| value_of(&value?)).collect::<PyResult<_>>()?))
}

/// A value of Python as one of SQL.
fn value_of(given: &Bound<'_, PyAny>) -> PyResult<Value> {
    if given.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(truth) = given.cast::<PyBool>() {
        return Ok(Value::Integer(truth.is_true().into()));
    }
    if given.is_instance_of::<PyInt>() {
        let out = |_| PyOverflowError::new_err("an integer of SQL has 64 bits, with its sign");
        return given.extract().map(Value::Integer).map_err(out);
    }
    if given.is_instance_of::<PyFloat>() {
        return given.extract().map(Value::Real);
    }
    if let Ok(text) = given.cast::<PyString>() {
        return Ok(Value::Text(text.to_cow()?.into_owned()));
    }
    if let Ok(bytes) = given.cast::<PyBytes>() {
        return Ok(Value::Blob(bytes.as_bytes().to_vec()));
    }
    if let Ok(bytes) = given.cast::<PyByteArray>() {
        return Ok(Value::Blob(bytes.to_vec()));
    }
    if given.is_instance_of::<PyMemoryView>() {
        return value_of(&given.call_method0("tobytes")?);
    }
    if given.hasattr("isoformat")? {
        // Dates and times, as SQLite's functions of time read them.
        let text: String = given.call_method0("isoformat")?.extract()?;
        return Ok(Value::Text(text.replacen('T', " ", 1)));
    }
    let name = given.get_type().name()?;
    Err(PyTypeError::new_err(format!("a value of type {name} cannot be a parameter of SQL")))
}

fn object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Integer(number) => number.into_pyobject(py)?.into_any(),
        Value::Real(number) => number.into_pyobject(py)?.into_any(),
        Value::Text(text) => PyString::new(py, text).into_any(),
        Value::Blob(bytes) => PyBytes::new(py, bytes).into_any(),
    })
}

/// The name of a type in PEP 249.
fn type_of(value: &Value) -> Option<&'static str> {
    match value {
        Value::Null => None,
        Value::Integer(_) | Value::Real(_) => Some("NUMBER"),
        Value::Text(_) => Some("STRING"),
        Value::Blob(_) => Some("BINARY"),
    }
}

/// The rows of a statement that has run.
#[pyclass(frozen, module = "pando._pando")]
pub struct SqlResult {
    #[pyo3(get)]
    columns: Option<Vec<String>>,
    /// The types of the first row's values.
    #[pyo3(get)]
    types: Vec<Option<&'static str>>,
    #[pyo3(get)]
    changes: u64,
    #[pyo3(get)]
    last_row_id: i64,
    #[pyo3(get)]
    row_count: usize,
    declared: Vec<Option<String>>,
    rows: Arc<ResultRows>,
    /// How many rows were fetched.
    fetched: Mutex<usize>,
}

impl SqlResult {
    fn of(outcome: Outcome) -> Self {
        let Outcome { columns, declared, rows, changes, last_row_id } = outcome;
        let types = rows.first().map_or_else(Vec::new, |row| row.iter().map(type_of).collect());
        let (row_count, rows, fetched) = (rows.len(), Arc::new(ResultRows(rows)), Mutex::new(0));
        SqlResult { columns, types, changes, last_row_id, row_count, declared, rows, fetched }
    }
}

#[pymethods]
impl SqlResult {
    /// Returns up to `most` further rows.
    fn fetch<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyList>> {
        let taken = match self.fetched.lock() {
            Ok(mut fetched) => {
                let rest = &self.rows.0[*fetched..];
                let taken = &rest[..most.min(rest.len())];
                *fetched += taken.len();
                taken
            }
            Err(_) => &[],
        };
        let list = PyList::empty(py);
        for row in taken {
            let values = row.iter().map(|value| object(py, value)).collect::<PyResult<Vec<_>>>()?;
            list.append(PyTuple::new(py, values)?)?;
        }
        Ok(list)
    }
    /// Returns all rows as a source of Arrow.
    fn arrow(&self, py: Python<'_>) -> PyResult<Arrow> {
        let Some(names) = &self.columns else {
            return Err(errors::made(py, "programming_error", ("there are no rows: execute a query first",)));
        };
        let typed = |(at, name): (usize, &String)| {
            let declared = self.declared.get(at).and_then(Option::as_deref);
            let found = self.rows.column_type(at, declared);
            found.map(|kind| (name.clone(), kind)).map_err(|what| {
                format!("column {name:?} of the result has no single type: {what}; CAST it in the statement")
            })
        };
        let work =
            || names.iter().enumerate().map(typed).collect::<Result<Vec<_>, _>>().map_err(Failure::Data);
        let columns = guarded(py, work)?;
        Ok(Arrow::of_sql(Arc::clone(&self.rows), &columns))
    }
}
