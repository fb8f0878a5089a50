//! SQL: connections and statements. A thread of the pool runs them, and rows travel as packed buffers.
//!
//! Each value begins with a byte for its kind: 0 NULL, 1 an integer (64 bits), 2 a floating-point number, 3 text, 4
//! bytes. Text and bytes have their length before them, in 32 bits. Numbers are little-endian.

use crate::bytes::Bytes;
use crate::database::NativeDatabase;
use crate::pool::Urgency;
use crate::promise::{now, promise, promise_with};
use binding::sql::{Row, SqlConnection, SqlStatement, Value, ValueRef};
use binding::{Failure, Outcome};
use napi::bindgen_prelude::{BufferSlice, Object, ToNapiValue};
use napi::{Env, Result};
use napi_derive::napi;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows of a statement.
#[napi(object, object_from_js = false)]
pub struct NativeRows {
    pub columns: Vec<String>,
    pub packed: Bytes,
    /// Whether there is no further row.
    pub is_done: bool,
    /// The number of the statement's run.
    pub run: f64,
    pub changes: f64,
    /// The id of the last row that the connection has inserted, as a packed value.
    pub last_row_id: Bytes,
}

fn push(to: &mut Vec<u8>, value: ValueRef<'_>) -> Outcome<()> {
    let (kind, bytes) = match value {
        ValueRef::Null => {
            to.push(0);
            return Ok(());
        }
        ValueRef::Integer(number) => {
            to.push(1);
            to.extend_from_slice(&number.to_le_bytes());
            return Ok(());
        }
        ValueRef::Real(number) => {
            to.push(2);
            to.extend_from_slice(&number.to_le_bytes());
            return Ok(());
        }
        ValueRef::Text(text) => (3, text),
        ValueRef::Blob(blob) => (4, blob),
    };
    let length = u32::try_from(bytes.len()).map_err(|_| Failure::invalid("a value of 4 GiB or more"))?;
    to.push(kind);
    to.extend_from_slice(&length.to_le_bytes());
    to.extend_from_slice(bytes);
    Ok(())
}

/// Reads the values of parameters.
fn unpack(mut packed: &[u8]) -> Outcome<Vec<Value>> {
    let cut = || Failure::misuse("packed parameters end within a value");
    let mut values = Vec::new();
    while let Some((kind, rest)) = packed.split_first() {
        let take = |from: &mut &[u8], count: usize| -> Outcome<Vec<u8>> {
            let (taken, rest) = from.split_at_checked(count).ok_or_else(cut)?;
            *from = rest;
            Ok(taken.to_vec())
        };
        packed = rest;
        let eight = |bytes: Vec<u8>| bytes.try_into().map_err(|_| cut());
        values.push(match kind {
            0 => Value::Null,
            1 => Value::Integer(i64::from_le_bytes(eight(take(&mut packed, 8)?)?)),
            2 => Value::Real(f64::from_le_bytes(eight(take(&mut packed, 8)?)?)),
            3 | 4 => {
                let length: [u8; 4] = take(&mut packed, 4)?.try_into().map_err(|_| cut())?;
                let bytes = take(&mut packed, u32::from_le_bytes(length) as usize)?;
                match kind {
                    3 => Value::Text(
                        String::from_utf8(bytes).map_err(|_| Failure::invalid("a text is not UTF-8"))?,
                    ),
                    _ => Value::Blob(bytes),
                }
            }
            _ => return Err(cut()),
        });
    }
    Ok(values)
}

/// The values in the order of the statement's parameters.
fn in_places(
    statement: &SqlStatement,
    names: Option<Vec<String>>,
    values: Vec<Value>,
) -> Outcome<Vec<Value>> {
    let Some(names) = names else { return Ok(values) };
    let mut places = vec![None; statement.parameter_count()?];
    for (name, value) in names.iter().zip(values) {
        let mut is_known = false;
        for mark in [":", "@", "$"] {
            let place = statement.parameter(&format!("{mark}{name}"))?;
            if let Some(place) = place.and_then(|place| places.get_mut(place)) {
                *place = Some(value.clone());
                is_known = true;
            }
        }
        if !is_known {
            return Err(Failure::invalid(format!("the statement has no parameter {name:?}")));
        }
    }
    match places.iter().position(Option::is_none) {
        Some(place) => {
            Err(Failure::invalid(format!("parameter {} of the statement has no value", place + 1)))
        }
        None => Ok(places.into_iter().flatten().collect()),
    }
}

/// Fetches rows until their values have so many bytes: those of a run that began before, or of a new one.
fn fetch(statement: &SqlStatement, most_bytes: usize, run: Option<u64>) -> Outcome<NativeRows> {
    let (mut packed, mut failed) = (Vec::new(), None);
    let take = &mut |row: &Row<'_>| {
        let pushed = (0..row.len()).try_for_each(|column| push(&mut packed, row.get(column)));
        failed = pushed.err();
        failed.is_none() && packed.len() < most_bytes
    };
    let more = match run {
        Some(run) => statement.fetch_of(run, take)?,
        None => statement.fetch(take)?,
    };
    if let Some(failure) = failed {
        statement.reset()?;
        return Err(failure);
    }
    let mut last_row_id = Vec::new();
    push(&mut last_row_id, ValueRef::Integer(statement.connection().last_insert_row_id()?))?;
    Ok(NativeRows {
        columns: statement.columns()?.into_iter().map(|column| column.name).collect(),
        packed: Bytes(packed),
        is_done: !more,
        run: statement.run()? as f64,
        changes: statement.changes()? as f64,
        last_row_id: Bytes(last_row_id),
    })
}

/// A connection as its calls share it. JavaScript makes one call at a time.
struct Calls {
    connection: Arc<SqlConnection>,
    /// Whether other writers may wait for the next call: a transaction is open, or a statement runs.
    holds: AtomicBool,
}

impl Calls {
    /// A promise for the result of `work`. It is urgent if others may wait for it.
    fn run<'e, T: ToNapiValue + Send + 'static>(
        self: &Arc<Self>,
        env: &'e Env,
        work: impl FnOnce(&Arc<SqlConnection>) -> Outcome<T> + Send + 'static,
    ) -> Result<Object<'e>> {
        let urgency = match self.holds.load(Ordering::SeqCst) {
            true => Urgency::Urgent,
            false => Urgency::Usual,
        };
        let calls = Arc::clone(self);
        promise_with(env, urgency, move || {
            let done = work(&calls.connection);
            // A connection that is closed holds nothing.
            let holds = !calls.connection.is_at_rest().unwrap_or(true);
            calls.holds.store(holds, Ordering::SeqCst);
            done
        })
    }
}

/// A connection.
#[napi]
pub struct NativeSql {
    calls: Arc<Calls>,
}

#[napi]
impl NativeDatabase {
    #[napi]
    pub fn connect<'e>(&self, env: &'e Env) -> Result<Object<'e>> {
        let handle = Arc::clone(self.handle());
        promise(env, move || {
            let (connection, holds) = (SqlConnection::open(&handle)?, AtomicBool::new(false));
            Ok(NativeSql { calls: Arc::new(Calls { connection, holds }) })
        })
    }
}

#[napi]
impl NativeSql {
    /// Runs one statement to its end. One `alone` must leave no transaction open.
    #[napi]
    pub fn run<'e>(
        &self,
        env: &'e Env,
        text: String,
        names: Option<Vec<String>>,
        values: BufferSlice<'_>,
        alone: bool,
    ) -> Result<Object<'e>> {
        let values = values.to_vec();
        self.calls.run(env, move |connection| {
            let statement = connection.prepare(&text)?;
            statement.bind_all(in_places(&statement, names, unpack(&values)?)?)?;
            let rows = fetch(&statement, usize::MAX, None);
            drop(statement);
            if alone && end_transaction(connection)? {
                return Err(Failure::invalid(
                    "db.sql cannot begin a transaction: use a connection of db.connect()",
                ));
            }
            rows
        })
    }

    /// Runs statements without parameters.
    #[napi]
    pub fn script<'e>(&self, env: &'e Env, text: String) -> Result<Object<'e>> {
        self.calls.run(env, move |connection| connection.execute_script(&text))
    }

    #[napi]
    pub fn prepare<'e>(&self, env: &'e Env, text: String) -> Result<Object<'e>> {
        let calls = Arc::clone(&self.calls);
        self.calls.run(env, move |connection| {
            Ok(NativeStatement { calls, statement: Arc::new(connection.prepare(&text)?) })
        })
    }

    /// Rolls back a transaction that was left open.
    #[napi]
    pub fn rest<'e>(&self, env: &'e Env) -> Result<Object<'e>> {
        self.calls.run(env, end_transaction)
    }

    #[napi]
    pub fn is_autocommit(&self) -> Result<bool> {
        now(|| self.calls.connection.is_autocommit())
    }

    /// Stops the statement that runs.
    #[napi]
    pub fn interrupt(&self) {
        self.calls.connection.interrupt();
    }

    #[napi]
    pub fn close<'e>(&self, env: &'e Env) -> Result<Object<'e>> {
        self.calls.run(env, |connection| connection.close())
    }
}

/// Rolls back an open transaction. Returns whether there was one.
fn end_transaction(connection: &Arc<SqlConnection>) -> Outcome<bool> {
    let is_open = !connection.is_autocommit()?;
    if is_open {
        connection.execute_script("ROLLBACK")?;
    }
    Ok(is_open)
}

/// A prepared statement.
#[napi]
pub struct NativeStatement {
    calls: Arc<Calls>,
    statement: Arc<SqlStatement>,
}

#[napi]
impl NativeStatement {
    /// Sets the parameters, and fetches the first rows.
    #[napi]
    pub fn begin<'e>(
        &self,
        env: &'e Env,
        names: Option<Vec<String>>,
        values: BufferSlice<'_>,
        most_bytes: f64,
    ) -> Result<Object<'e>> {
        let (statement, values) = (Arc::clone(&self.statement), values.to_vec());
        self.calls.run(env, move |_| {
            statement.reset()?;
            statement.bind_all(in_places(&statement, names, unpack(&values)?)?)?;
            fetch(&statement, most_bytes as usize, None)
        })
    }

    /// Fetches the next rows of a run. Fails if the statement has begun another one.
    #[napi]
    pub fn next<'e>(&self, env: &'e Env, run: f64, most_bytes: f64) -> Result<Object<'e>> {
        let statement = Arc::clone(&self.statement);
        self.calls.run(env, move |_| fetch(&statement, most_bytes as usize, Some(run as u64)))
    }

    /// Ends a run before its last row. It has no effect if the statement has begun another one.
    #[napi]
    pub fn end<'e>(&self, env: &'e Env, run: f64) -> Result<Object<'e>> {
        let statement = Arc::clone(&self.statement);
        self.calls.run(env, move |_| statement.end_run(run as u64))
    }
}
