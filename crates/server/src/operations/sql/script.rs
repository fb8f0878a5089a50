//! The statements of a request, run one after the other.

use super::output::{Failed, Output};
use super::parameters::Parameters;
use super::results::{cut, stopped};
use crate::data::replicas::KIND;
use crate::wire::pipe::Watch;
use crate::wire::problem::{Answer, Problem};
use axum::http::StatusCode;
use pando::{ErrorKind, TransactionOptions};
use sql::{Confines, Connection, Sql, Value, ValueRef};
use std::time::Duration;

/// The statements to run, and their options.
#[derive(Debug)]
pub struct Script {
    /// One statement, or several.
    pub text: String,
    /// The parameters of the statements.
    pub parameters: Parameters,
    /// The permission of the statements.
    pub may: May,
    /// The isolation and durability of the transaction.
    pub options: TransactionOptions,
    /// The time limit, for messages. `watch` enforces it.
    pub time: Duration,
}

/// The permission of statements, and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum May {
    /// Everything: the token may write.
    Write,
    /// Only reading: the token may not write.
    Read,
    /// Only reading: the request asked for it.
    ReadAsAsked,
    /// Only reading: the server is a replica.
    ReadAsReplica,
}

/// SQLite's code for exhausted memory.
const NO_MEMORY: i32 = 7;

impl Script {
    /// Runs the statements to their end, or until `watch` reports that they are no longer wanted. An error leaves
    /// nothing changed, except the problem `committed`: a single statement that writes is committed before the first of
    /// its rows is sent.
    pub fn run(mut self, sql: &Sql, watch: Watch, output: &mut Output) -> Answer<()> {
        let text = std::mem::take(&mut self.text);
        let statements = statements_of(&text)?;
        let is_several = statements.len() > 1;
        if is_several && !self.parameters.suit_several() {
            let detail =
                "several statements need parameters by name (`{\"id\": 7}` for `:id`), not by position";
            return Err(Problem::bad_request(detail));
        }
        let mut connection = sql.connect().map_err(|error| self.problem(error))?;
        let stop = watch.clone();
        let confined = connection.confine(Confines::default(), move || stop.is_over());
        confined.map_err(|error| self.problem(error))?;
        connection.set_read_only(self.may != May::Write);
        connection.set_transaction_options(self.options);
        if is_several {
            connection.execute("BEGIN", &[]).map_err(|error| self.problem(error))?;
        }
        for (at, statement) in statements.iter().enumerate() {
            if watch.is_over() {
                return Err(stopped(self.time));
            }
            if is_several && connection.is_autocommit() {
                let detail = "the transaction ended before its last statement; nothing was changed";
                return Err(Problem::new(StatusCode::CONFLICT, "conflict", detail));
            }
            self.one(&connection, statement, output).map_err(|mut problem| {
                if is_several {
                    problem.detail = format!("statement {}: {}; nothing was changed", at + 1, problem.detail);
                }
                problem
            })?;
        }
        if is_several {
            self.parameters.check_used()?;
            if watch.is_over() {
                return Err(stopped(self.time));
            }
            connection.execute("COMMIT", &[]).map_err(|error| self.problem(error))?;
        }
        Ok(())
    }

    fn one(&mut self, connection: &Connection, text: &str, output: &mut Output) -> Answer<()> {
        let mut statement = connection.prepare(text).map_err(|error| self.problem(error))?;
        if self.may != May::Write && !statement.is_read_only() {
            return Err(self.forbidden());
        }
        let values = self.parameters.bind(&statement)?;
        if connection.is_autocommit() {
            self.parameters.check_used()?;
        }
        let declared = if output.needs_types() { statement.columns() } else { Ok(Vec::new()) };
        let declared = declared.map_err(|error| self.problem(error))?;
        let writes = !statement.is_read_only() && !statement.is_explain();
        if !declared.is_empty() && connection.is_autocommit() && writes {
            // It may be committed before it is known whether its rows have types.
            let detail = "a statement that writes and returns rows cannot be sent as Arrow: ask for NDJSON, \
                          or send it together with another statement";
            return Err(Problem::bad_request(detail));
        }
        let mut rows = statement.query(&values).map_err(|error| self.problem(error))?;
        // A statement that writes has run to its end; outside of a transaction it is committed.
        let is_committed = writes && connection.is_autocommit();
        let failed = |failed| match failed {
            Failed::Stopped if is_committed => cut(self.time),
            Failed::Stopped => stopped(self.time),
            Failed::Problem(problem) => *problem,
        };
        if rows.columns().is_empty() {
            return output.changes(rows.changes()).map_err(failed);
        }
        // The names of the columns are final after the first row was fetched.
        let first = rows.next().map_err(|error| self.problem(error))?;
        let first: Option<Vec<Value>> =
            first.map(|row| (0..row.len()).map(|column| owned(row.get(column))).collect());
        output.begin(rows.columns(), declared).map_err(failed)?;
        if let Some(first) = first {
            output.row(first.iter().map(ValueRef::from)).map_err(failed)?;
            while let Some(row) = rows.next().map_err(|error| self.problem(error))? {
                output.row((0..row.len()).map(|column| row.get(column))).map_err(failed)?;
            }
        }
        output.end(rows.changes()).map_err(failed)
    }

    fn forbidden(&self) -> Problem {
        if self.may == May::ReadAsReplica {
            let detail = "the statement writes, but the server is a replica";
            return Problem::new(StatusCode::SERVICE_UNAVAILABLE, KIND, detail);
        }
        let detail = match self.may {
            May::ReadAsAsked => "the statement writes, but the request sets `read_only`",
            _ => "the statement writes, but the token allows only reading",
        };
        Problem::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// Returns the problem for an error of SQL.
    fn problem(&self, error: sql::Error) -> Problem {
        let with = |status, kind, detail| Problem::new(status, kind, detail);
        match error.kind() {
            _ if error.is_interrupted() => stopped(self.time),
            _ if error.is_refused() => {
                let detail = format!(
                    "{error}: statements of clients can use only the database: no files, no extensions, \
                     no virtual tables of their own, and of the pragmas those that describe tables, those \
                     about foreign keys, user_version and application_id"
                );
                with(StatusCode::FORBIDDEN, "refused", detail)
            }
            _ if error.code() & 0xff == NO_MEMORY => {
                let detail = "the statements of all clients together need more memory than --sql-memory; \
                              sort, group or change fewer rows, or use an index; nothing was changed";
                with(StatusCode::INSUFFICIENT_STORAGE, "full", detail.to_owned())
            }
            ErrorKind::ReadOnly => self.forbidden(),
            ErrorKind::Exists => with(StatusCode::CONFLICT, "constraint", error.to_string()),
            ErrorKind::Invalid => with(StatusCode::BAD_REQUEST, "sql", error.to_string()),
            _ => pando::Error::from(error).into(),
        }
    }
}

/// Returns a copy of a value. Text that is not valid UTF-8 becomes bytes.
pub fn owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Text(text) if std::str::from_utf8(text).is_err() => Value::Blob(text.to_vec()),
        value => sql::to_owned(value),
    }
}

/// Splits a text into statements, at least one.
fn statements_of(text: &str) -> Answer<Vec<&str>> {
    let mut statements = Vec::new();
    let mut rest = text;
    while let Some(first) = sql::split_first(rest) {
        if sql::is_transaction_control(first.statement) {
            let detail = "BEGIN, COMMIT and ROLLBACK are not allowed: each request is one transaction; \
                          send all of its statements together, and use SAVEPOINT within it";
            return Err(Problem::new(StatusCode::BAD_REQUEST, "sql", detail));
        }
        statements.push(first.statement);
        rest = first.rest;
    }
    if statements.is_empty() {
        return Err(Problem::new(StatusCode::BAD_REQUEST, "sql", "`sql` has no statement"));
    }
    Ok(statements)
}
