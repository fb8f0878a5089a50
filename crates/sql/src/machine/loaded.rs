//! The SQLite of a program that loads Pando as an extension, by rusqlite.

use super::Named;
use crate::connection::TableSchema;
use crate::error::Result;
use crate::statement::ColumnInfo;
use crate::{stop, vtab};
use base::env::Random;
use pando::any::AnyDatabase;
use rusqlite::config::DbConfig;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
pub(crate) use rusqlite::{CachedStatement, Connection, InterruptHandle, Row, Rows, Statement, ffi};
use rusqlite::{OpenFlags, StatementStatus};
use std::thread;
use std::time::Duration;

/// Opens a connection whose main database is empty and in memory.
pub(crate) fn open(_db: &AnyDatabase) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Ok(Connection::open_in_memory_with_flags(flags)?)
}

/// Opens an empty database in memory, for checking rows.
pub(crate) fn alone() -> Result<Connection> {
    Ok(crate::confine::alone()?)
}

/// Prepares a statement that the connection keeps.
pub(crate) fn prepare_kept<'c>(sqlite: &'c Connection, sql: &str) -> Result<CachedStatement<'c>> {
    Ok(sqlite.prepare_cached(sql)?)
}

/// Runs the only statement of a text.
pub(crate) fn run_only(sqlite: &Connection, sql: &str) -> Result<()> {
    let mut statement = sqlite.prepare(sql)?;
    let mut rows = statement.raw_query();
    while rows.next()?.is_some() {}
    Ok(())
}

/// How often a transaction is repeated after conflicts.
const RETRIES: u32 = 12;

/// Runs `work`, which is one transaction, and repeats it after conflicts, a bounded number of times.
pub(crate) fn repeating<T>(sqlite: &Connection, mut work: impl FnMut() -> Result<T>) -> Result<T> {
    for attempt in 0..RETRIES {
        match work() {
            Err(error) if error.is_conflict() && sqlite.is_autocommit() => {
                let most_us = 50 << attempt;
                thread::sleep(Duration::from_micros(Random::from_entropy().below(most_us)));
                // The next attempt would forget it.
                if vtab::version_number() >= stop::TELLS_INTERRUPTS && sqlite.is_interrupted() {
                    return Err(vtab::Host::new(sqlite).stopped().into());
                }
            }
            done => return done,
        }
    }
    work()
}

/// Runs a statement to its end.
pub(crate) fn run(statement: &mut Statement<'_>) -> Result<()> {
    Ok(statement.raw_execute().map(drop)?)
}

/// Binds a value to a parameter, counted from 1.
pub(crate) fn bind(statement: &mut Statement<'_>, at: usize, value: ValueRef<'_>) -> Result<()> {
    Ok(statement.raw_bind_parameter(at, ToSqlOutput::Borrowed(value))?)
}

/// A statement with bound values.
pub(crate) type Bound<'s, 'c> = &'s mut Statement<'c>;

/// Calls `work` with copies of values bound to the first parameters.
pub(crate) fn with_bound<'v, 'c, T>(
    statement: &mut CachedStatement<'c>,
    values: impl Iterator<Item = ValueRef<'v>>,
    work: impl FnOnce(&mut Bound<'_, 'c>) -> Result<T>,
) -> Result<T> {
    for (at, value) in values.enumerate() {
        bind(statement, at + 1, value)?;
    }
    work(&mut &mut **statement)
}

/// Runs a bound statement to its end.
pub(crate) fn run_bound(statement: &mut Bound<'_, '_>) -> Result<()> {
    let mut rows = statement.raw_query();
    while rows.next()?.is_some() {}
    Ok(())
}

/// Returns the place of a named parameter, counted from 1.
pub(crate) fn parameter_index(statement: &Statement<'_>, name: &str) -> Result<Option<usize>> {
    Ok(statement.parameter_index(name)?)
}

/// Returns the name of a parameter, counted from 1.
pub(crate) fn parameter_name(statement: &Statement<'_>, at: usize) -> Option<String> {
    statement.parameter_name(at).map(str::to_owned)
}

/// Returns how often SQLite has prepared a statement again because a schema changed.
pub(crate) fn prepared_anew(statement: &Statement<'_>) -> i32 {
    statement.get_status(StatementStatus::RePrepare)
}

/// Returns how often SQLite has prepared the statement of a row again because a schema changed.
pub(crate) fn row_prepared_anew(row: &Row<'_>) -> i32 {
    prepared_anew(row.as_ref())
}

/// Returns the names of a row's columns.
pub(crate) fn row_column_names(row: &Row<'_>) -> Vec<String> {
    column_names(row.as_ref())
}

/// Returns the names of a query's columns.
pub(crate) fn column_names(statement: &Statement<'_>) -> Vec<String> {
    statement.column_names().map(str::to_owned).collect()
}

/// Describes the columns of a query.
pub(crate) fn column_infos(statement: &Statement<'_>) -> Vec<ColumnInfo> {
    let info = |column: &rusqlite::Column<'_>| ColumnInfo {
        name: column.name().to_owned(),
        declared: column.decl_type().filter(|declared| !declared.is_empty()).map(str::to_owned),
    };
    statement.columns().map(|column| info(&column)).collect()
}

/// Returns the name of an attached database.
pub(crate) fn database_name(sqlite: &Connection, at: usize) -> Option<String> {
    sqlite.db_name(at).ok()
}

/// Returns whether the main database has a table of SQLite's own of this name. It is the program's, which names it.
#[allow(clippy::unnecessary_wraps, reason = "the other machine looks it up")]
pub(crate) fn has_own_table(_sqlite: &Connection, _name: &str) -> Result<bool> {
    Ok(false)
}

/// Returns no tables: those of SQLite's own are the program's.
#[allow(clippy::unnecessary_wraps, reason = "the other machine looks them up")]
pub(crate) fn own_tables(_sqlite: &Connection) -> Result<Vec<TableSchema>> {
    Ok(Vec::new())
}

/// Checks nothing: tables of SQLite's own are the program's.
#[allow(clippy::unnecessary_wraps, reason = "the other machine checks them")]
pub(crate) fn check_own(_sqlite: &Connection, _pragma: &str, _most: u64) -> Result<Vec<String>> {
    Ok(Vec::new())
}

/// Replaces the function `changes()`.
pub(crate) fn count_changes(
    sqlite: &Connection,
    changes: impl Fn() -> i64 + Send + std::panic::UnwindSafe + 'static,
) -> Result<()> {
    let call = move |_: &Context<'_>| Ok(Value::Integer(changes()));
    Ok(sqlite.create_scalar_function(c"changes", 0, FunctionFlags::SQLITE_UTF8, call)?)
}

/// Returns whether foreign keys are enforced.
pub(crate) fn enforces_foreign_keys(sqlite: &Connection) -> Result<bool> {
    Ok(sqlite.db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY)?)
}

/// Sets the limits of a confined connection.
pub(crate) fn limit(sqlite: &Connection, value_bytes: u32) -> Result<()> {
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_ATTACHED, super::MOST_ATTACHED),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, super::MOST_DEPTH),
        (Limit::SQLITE_LIMIT_PARSER_DEPTH, super::MOST_DEPTH),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, super::MOST_SELECTS),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, super::MOST_PATTERN_BYTES),
        (Limit::SQLITE_LIMIT_LENGTH, value_bytes),
    ] {
        sqlite.set_limit(limit, i32::try_from(most).unwrap_or(i32::MAX))?;
    }
    Ok(())
}

/// Sets what decides whether a statement may do something.
pub(crate) fn authorize(sqlite: &mut Connection, may: fn(Named<'_>) -> bool) -> Result<()> {
    let decide = move |context: AuthContext<'_>| {
        let named = match context.action {
            AuthAction::Attach { .. }
            | AuthAction::Detach { .. }
            | AuthAction::CreateVtable { .. }
            | AuthAction::DropVtable { .. }
            | AuthAction::Unknown { .. } => Named::Outside,
            AuthAction::Pragma { pragma_name, .. } => Named::Pragma(pragma_name),
            AuthAction::Function { function_name } => Named::Function(function_name),
            _ => Named::Other,
        };
        if may(named) { Authorization::Allow } else { Authorization::Deny }
    };
    Ok(sqlite.authorizer(Some(decide))?)
}

/// Sets what is called every `steps` steps.
pub(crate) fn on_progress(
    sqlite: &mut Connection,
    steps: i32,
    stop: Option<impl FnMut() -> bool + Send + 'static>,
) -> Result<()> {
    Ok(sqlite.progress_handler(steps, stop)?)
}
