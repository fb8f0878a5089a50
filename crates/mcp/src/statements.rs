//! `query`, `execute` and `explain` of a statement: SQL.

use crate::arguments::Arguments;
use crate::failure::{Failure, Outcome};
use crate::held::Held;
use crate::shown::{cut_sql_value, sql_parameter};
use serde_json::{Value, json};
use sql::{Confines, Connection, Row};
use std::time::Instant;

/// How many rows a query returns unless the call says otherwise.
pub const ROWS: usize = 100;
/// The most rows that a call may ask for.
pub const MOST_ROWS: usize = 10_000;

/// Runs the tool `query`: a statement that only reads.
pub fn query(held: &Held, arguments: &Arguments) -> Outcome<Value> {
    let connection = connect(held, false)?;
    run(held, &connection, arguments.text("sql")?, arguments)
}

/// Runs the tool `execute`: a statement that may write, in a transaction of its own.
pub fn execute(held: &Held, arguments: &Arguments) -> Outcome<Value> {
    let connection = connect(held, true)?;
    run(held, &connection, arguments.text("sql")?, arguments)
}

/// Runs the tool `explain`: shows how SQLite would run the statement, or how a key is looked up. No statement is run.
pub fn explain(held: &Held, arguments: &Arguments) -> Outcome<Value> {
    match (arguments.optional_text("sql")?, arguments.optional_text("table")?) {
        (Some(sql), None) => {
            let connection = connect(held, false)?;
            run(held, &connection, &format!("EXPLAIN QUERY PLAN {}", only_statement(sql)?), arguments)
        }
        (None, Some(table)) => crate::records::explain(held, table, &arguments.bytes("key")?),
        _ => Err(Failure::argument("give \"sql\", or \"table\" and \"key\"")),
    }
}

/// Opens a connection that reaches nothing but the database, and ends its statements in time.
fn connect(held: &Held, writes: bool) -> Outcome<Connection> {
    let mut connection = held.sql.connect()?;
    let (deadline, cancelled) = (Instant::now() + held.options.statement_time, held.cancelled.clone());
    connection.confine(Confines::default(), move || Instant::now() > deadline || cancelled.is_cancelled())?;
    connection.set_read_only(!writes);
    Ok(connection)
}

/// Returns the one statement of a text.
fn only_statement(text: &str) -> Outcome<&str> {
    let first = sql::split_first(text).ok_or_else(|| Failure::argument("\"sql\" has no statement"))?;
    if sql::split_first(first.rest).is_some() {
        return Err(Failure::argument("\"sql\" has several statements; send one in each call"));
    }
    if sql::is_transaction_control(first.statement) {
        return Err(Failure::argument(
            "BEGIN, COMMIT and ROLLBACK are not allowed: each call is one transaction",
        ));
    }
    Ok(first.statement)
}

fn run(held: &Held, connection: &Connection, text: &str, arguments: &Arguments) -> Outcome<Value> {
    let in_words = |error: sql::Error| match error.is_interrupted() {
        true => Failure(format!(
            "the statement took longer than {} s, or the call was cancelled; it changed nothing",
            held.options.statement_time.as_secs()
        )),
        false => error.into(),
    };
    let limit = arguments.number("limit", ROWS, MOST_ROWS)?;
    let mut statement = connection.prepare(only_statement(text)?).map_err(in_words)?;
    let parameters = match arguments.get("params") {
        None => Vec::new(),
        Some(Value::Array(values)) => values.iter().map(sql_parameter).collect::<Outcome<_>>()?,
        Some(_) => return Err(Failure::argument("\"params\" must be a list, one value for each `?`")),
    };
    let expected = statement.parameter_count();
    if parameters.len() != expected {
        let found = parameters.len();
        return Err(Failure::argument(format!(
            "the statement has {expected} parameters, \"params\" has {found}"
        )));
    }
    let mut rows = statement.query(&parameters).map_err(in_words)?;
    if rows.columns().is_empty() {
        return Ok(json!({ "changes": rows.changes() }));
    }
    let (mut all, mut bytes, mut has_more) = (Vec::new(), 0, false);
    while let Some(row) = rows.next().map_err(in_words)? {
        let (mut value_limit, most) = (held.options.result_bytes, held.options.result_bytes);
        let (mut values, mut size) = shown_row(&row, value_limit);
        // A first row that is too long by itself is shown all the same, with less of its values.
        while all.is_empty() && size > most && value_limit > 0 {
            value_limit /= 2;
            (values, size) = shown_row(&row, value_limit);
        }
        if all.len() == limit || (bytes + size > most && !all.is_empty()) {
            has_more = true;
            break;
        }
        bytes += size;
        all.push(values);
    }
    // A statement that changes rows and returns some is run to its end, whatever is shown of it.
    if has_more && rows.changes() > 0 {
        while rows.next().map_err(in_words)?.is_some() {}
    }
    Ok(json!({ "columns": rows.columns(), "rows": all, "has_more": has_more, "changes": rows.changes() }))
}

/// Returns a row with at most `limit` bytes of each value, and its length as text.
fn shown_row(row: &Row<'_>, limit: usize) -> (Value, usize) {
    let values: Vec<Value> = (0..row.len()).map(|column| cut_sql_value(row.get(column), limit)).collect();
    let values = Value::from(values);
    let size = values.to_string().len();
    (values, size)
}
