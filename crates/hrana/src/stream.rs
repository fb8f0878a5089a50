//! A stream: the connection of one client, with its transaction and stored texts.
//!
//! 1. A request is run to its end before the next one. Its statements are not trusted: see `sql::Connection::confine`.
//! 2. Statements of a client that may not write are checked before they run, and the connection refuses writes, too.
//! 3. libSQL's `BEGIN TRANSACTION READONLY` is `BEGIN` on a connection that refuses writes until the transaction ends.
//! 4. A closed stream runs nothing more. Its transaction is rolled back when it is dropped.

use crate::condition::Ended;
use crate::failure::{Failure, Outcome};
use crate::lines::Lines;
use crate::messages::{Batch, Request, Stmt, Text};
use crate::reply::Reply;
use crate::sink::Sink;
use crate::stop::{Current, Stop};
use crate::texts::Texts;
use serde_json::json;
use sql::{ColumnInfo, Confines, Connection, Statement, Value, ValueRef};

/// The bytes of the rows that one statement may keep for `RETURNING` and `ON CONFLICT`. They are in the reply whatever
/// its bound is.
const HELD_BYTES: usize = 4 << 20;

/// The connection of one client.
///
/// ```
/// use pando_hrana::{Pipeline, Reply, Stop, Stream};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sql = sql::Sql::new(pando::Database::builder().in_memory()?);
/// let mut stream = Stream::new(sql.connect()?)?;
/// let pipeline = Pipeline::read(br#"{"requests": [{"type": "execute", "stmt": {"sql": "SELECT 7 AS n"}}]}"#)?;
/// let mut reply = Reply::new(1 << 20, |_| true);
/// stream.run(pipeline.requests, true, &Stop::after(Duration::from_secs(1)), &mut reply);
/// let reply: serde_json::Value = serde_json::from_slice(&reply.finish(None))?;
/// let result = &reply["results"][0]["response"]["result"];
/// assert_eq!(result["rows"][0][0]["value"], "7");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Stream {
    connection: Connection,
    texts: Texts,
    stop: Current,
    may_write: bool,
    /// Whether the open transaction was begun `READONLY`.
    is_reading: bool,
    is_closed: bool,
}

impl Stream {
    /// Confines `connection` and makes a stream of it.
    ///
    /// # Errors
    /// Those of [`Connection::confine`].
    pub fn new(mut connection: Connection) -> Outcome<Self> {
        let stop = Current::default();
        let current = stop.clone();
        let confines = Confines { held_bytes: HELD_BYTES, ..Confines::default() };
        connection.confine(confines, move || current.is_over())?;
        Ok(Stream {
            connection,
            texts: Texts::default(),
            stop,
            may_write: false,
            is_reading: false,
            is_closed: false,
        })
    }

    /// Returns whether no transaction is open.
    pub fn is_autocommit(&self) -> bool {
        self.connection.is_autocommit()
    }

    /// Returns whether the client has closed the stream.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Runs the requests of a pipeline, one after the other, whether or not those before succeed.
    pub fn run(&mut self, requests: Vec<Request>, may_write: bool, stop: &Stop, reply: &mut Reply) {
        self.begin(may_write, stop);
        for request in requests {
            self.request(request, reply);
        }
        self.stop.set(None);
    }

    /// Runs the statements of a cursor.
    pub fn run_cursor(&mut self, batch: &Batch, may_write: bool, stop: &Stop, lines: &mut Lines) {
        self.begin(may_write, stop);
        if let Err(failure) = self.steps(batch, lines) {
            lines.fail_all(&failure);
        }
        self.stop.set(None);
    }

    fn begin(&mut self, may_write: bool, stop: &Stop) {
        self.stop.set(Some(stop.clone()));
        self.may_write = may_write;
        self.connection.set_read_only(!self.may_write || self.is_reading);
    }

    fn request(&mut self, request: Request, reply: &mut Reply) {
        let kind = match &request {
            Request::Close => "close",
            Request::Execute { .. } => "execute",
            Request::Batch { .. } => "batch",
            Request::Sequence { .. } => "sequence",
            Request::Describe { .. } => "describe",
            Request::StoreSql { .. } => "store_sql",
            Request::CloseSql { .. } => "close_sql",
            Request::GetAutocommit => "get_autocommit",
        };
        reply.respond(kind, |reply| {
            if self.is_closed {
                return Err(Failure::new(
                    "STREAM_CLOSED",
                    "an earlier request of the pipeline closed the stream",
                ));
            }
            match request {
                Request::Close => self.is_closed = true,
                Request::Execute { stmt } => {
                    reply.push(r#","result":"#);
                    reply.alone(|reply| self.execute(&stmt, 0, reply))?;
                }
                Request::Batch { batch } => reply.batch(|reply| self.steps(&batch, reply))?,
                Request::Sequence { text } => self.sequence(&text)?,
                Request::Describe { text } => {
                    reply.check_room()?;
                    reply.push(&self.describe(&text)?);
                }
                Request::StoreSql { sql_id, sql } => self.texts.store(sql_id, sql)?,
                Request::CloseSql { sql_id } => self.texts.close(sql_id),
                Request::GetAutocommit => {
                    reply.push(&format!(r#","is_autocommit":{}"#, self.is_autocommit()));
                }
            }
            Ok(())
        });
    }

    fn steps(&mut self, batch: &Batch, sink: &mut impl Sink) -> Outcome<()> {
        let mut ended = Vec::with_capacity(batch.steps.len());
        for (place, step) in batch.steps.iter().enumerate() {
            let holds = match &step.condition {
                None => true,
                Some(condition) => condition.holds(&ended, self.is_autocommit())?,
            };
            ended.push(match holds {
                false => {
                    sink.skip();
                    Ended::Skipped
                }
                true => match self.execute(&step.stmt, place, sink) {
                    Ok(()) => Ended::Well,
                    Err(failure) => {
                        // Conditions are about effects, not about rows.
                        let ended = if failure.has_taken_effect() { Ended::Well } else { Ended::Badly };
                        sink.fail(place, failure);
                        ended
                    }
                },
            });
        }
        Ok(())
    }

    fn execute(&mut self, stmt: &Stmt, step: usize, sink: &mut impl Sink) -> Outcome<()> {
        let text = only_statement(self.texts.of(&stmt.text)?)?;
        let (text, begins_reading) = self.begin_reading(text);
        let done = self.run_one(text, stmt, step, sink);
        self.end_reading(begins_reading);
        done
    }

    /// Returns what to run instead of libSQL's `BEGIN TRANSACTION READONLY`, and whether the statement is that. The
    /// connection then refuses writes already, so that its transaction is a snapshot.
    fn begin_reading<'t>(&self, text: &'t str) -> (&'t str, bool) {
        if !is_begin_read_only(text) || !self.is_autocommit() {
            return (text, false);
        }
        self.connection.set_read_only(true);
        ("BEGIN", true)
    }

    /// Notes after each statement whether a transaction that only reads has begun or ended.
    fn end_reading(&mut self, has_begun: bool) {
        self.is_reading = (self.is_reading || has_begun) && !self.is_autocommit();
        self.connection.set_read_only(!self.may_write || self.is_reading);
    }

    fn run_one(&self, text: &str, stmt: &Stmt, step: usize, sink: &mut impl Sink) -> Outcome<()> {
        self.check_time()?;
        let mut statement = self.prepare(text)?;
        let writes = !statement.is_read_only() && !statement.is_explain();
        let columns = statement.columns().map_err(|error| self.failure(error))?;
        if !columns.is_empty() {
            sink.check_room()?;
        }
        let values = arguments(&statement, stmt)?;
        let mut rows = statement.query(&values).map_err(|error| self.failure(error))?;
        // The names of the columns are final after the first row was fetched.
        let first = rows.next().map_err(|error| self.failure(error))?;
        let first: Option<Vec<Value>> =
            first.map(|row| (0..row.len()).map(|column| owned(row.get(column))).collect());
        // A statement that writes has run to its end before its first row.
        let cut = |failure: Failure| if writes { Failure::rows_missing() } else { failure };
        sink.begin(step, &with_types(rows.columns(), columns)).map_err(cut)?;
        let wants_rows = stmt.want_rows.unwrap_or(true);
        if let Some(first) = first {
            if wants_rows {
                sink.row(first.iter().map(ValueRef::from), !writes).map_err(cut)?;
            }
            while let Some(row) = rows.next().map_err(|error| self.failure(error))? {
                if wants_rows {
                    sink.row((0..row.len()).map(|column| row.get(column)), !writes).map_err(cut)?;
                }
            }
        }
        sink.end(rows.changes(), self.connection.last_insert_row_id())
    }

    fn sequence(&mut self, text: &Text) -> Outcome<()> {
        let text = self.texts.of(text)?.to_owned();
        let mut rest = &text[..];
        while let Some(first) = sql::split_first(rest) {
            let (text, begins_reading) = self.begin_reading(first.statement);
            let done = self.run_alone(text);
            self.end_reading(begins_reading);
            done?;
            rest = first.rest;
        }
        Ok(())
    }

    /// Runs a statement whose rows are not wanted.
    fn run_alone(&self, text: &str) -> Outcome<()> {
        self.check_time()?;
        let mut statement = self.prepare(text)?;
        statement.execute(&[]).map(drop).map_err(|error| self.failure(error))
    }

    fn describe(&self, text: &Text) -> Outcome<String> {
        self.check_time()?;
        let text = only_statement(self.texts.of(text)?)?;
        let statement = self.connection.prepare(text).map_err(|error| self.failure(error))?;
        let columns = statement.columns().map_err(|error| self.failure(error))?;
        let columns: Vec<_> = columns
            .iter()
            .map(|column| json!({ "name": column.name, "decltype": column.declared }))
            .collect();
        let names = statement.parameter_names();
        let described = json!({
            "params": names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>(),
            "cols": columns,
            "is_explain": statement.is_explain(),
            "is_readonly": statement.is_read_only(),
        });
        Ok(format!(r#","result":{described}"#))
    }

    /// Prepares a statement that the client may run.
    fn prepare(&self, text: &str) -> Outcome<Statement<'_>> {
        let statement = self.connection.prepare(text).map_err(|error| self.failure(error))?;
        if statement.is_read_only() || self.may_write && !self.is_reading {
            return Ok(statement);
        }
        let why = match self.may_write {
            false => "the statement writes, but the token allows only reading",
            true => "the statement writes, but the transaction was begun READONLY",
        };
        Err(Failure::new("SQLITE_READONLY", why))
    }

    fn check_time(&self) -> Outcome<()> {
        if self.stop.is_over() { Err(self.stopped()) } else { Ok(()) }
    }

    fn stopped(&self) -> Failure {
        let time = self.stop.get().map_or(0, |stop| stop.time().as_millis());
        Failure::new(
            "SQLITE_INTERRUPT",
            format!("the statements of the request took longer than {time} ms and were stopped"),
        )
    }

    fn failure(&self, error: sql::Error) -> Failure {
        if error.is_interrupted() { self.stopped() } else { error.into() }
    }
}

/// Returns the only statement of a text.
fn only_statement(text: &str) -> Outcome<&str> {
    let none = || Failure::new("SQL_NO_STATEMENT", "the text has no statement");
    let first = sql::split_first(text).ok_or_else(none)?;
    if sql::split_first(first.rest).is_some() {
        return Err(Failure::new(
            "SQL_MANY_STATEMENTS",
            "the text has several statements; send one at a time, or a `sequence` (`executeMultiple`)",
        ));
    }
    Ok(first.statement)
}

/// Returns whether the statement begins a transaction that only reads, as libSQL writes it.
fn is_begin_read_only(statement: &str) -> bool {
    let mut words = statement.split_ascii_whitespace();
    let mut is_next = |word: &str| words.next().is_some_and(|next| next.eq_ignore_ascii_case(word));
    is_next("BEGIN") && is_next("TRANSACTION") && is_next("READONLY") && words.next().is_none()
}

/// Returns a copy of a value. Text that is not valid UTF-8 becomes bytes.
fn owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Text(text) if std::str::from_utf8(text).is_err() => Value::Blob(text.to_vec()),
        value => sql::to_owned(value),
    }
}

/// Returns the columns by their final names, with the types that they had when the statement was prepared.
fn with_types(names: &[String], before: Vec<ColumnInfo>) -> Vec<ColumnInfo> {
    if names.len() == before.len() && names.iter().zip(&before).all(|(name, before)| *name == before.name) {
        return before;
    }
    names.iter().map(|name| ColumnInfo::new(name.clone(), None)).collect()
}

/// Returns the values of a statement's parameters. A value by name takes precedence over one by position.
fn arguments(statement: &Statement<'_>, stmt: &Stmt) -> Outcome<Vec<Value>> {
    let wrong = |what: String| Failure::new("ARGS_INVALID", what);
    let count = statement.parameter_count();
    if stmt.args.len() > count {
        let given = stmt.args.len();
        return Err(wrong(format!("the statement has {count} parameters, {given} values were given")));
    }
    let mut values: Vec<Option<Value>> = stmt.args.iter().cloned().map(|value| Some(value.into())).collect();
    values.resize(count, None);
    let names = if stmt.named_args.is_empty() { Vec::new() } else { statement.parameter_names() };
    for argument in &stmt.named_args {
        let is_meant = |name: &&str| *name == argument.name || name.get(1..) == Some(&argument.name);
        let mut is_used = false;
        for (name, value) in names.iter().zip(&mut values) {
            if name.as_deref().filter(is_meant).is_some() {
                *value = Some(argument.value.clone().into());
                is_used = true;
            }
        }
        if !is_used {
            return Err(wrong(format!("the statement has no parameter {:?}", argument.name)));
        }
    }
    let missing = |place| wrong(format!("parameter {} of the statement has no value", place + 1));
    values.into_iter().enumerate().map(|(place, value)| value.ok_or_else(|| missing(place))).collect()
}
