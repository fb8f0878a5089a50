//! SQLite on Pando's trees, by `pando_sqlite`, with the names of rusqlite.

use super::{MOST_ATTACHED, MOST_DEPTH, MOST_PATTERN_BYTES, MOST_SELECTS, Named};
use crate::connection::TableSchema;
use crate::error::{Error, Result};
use crate::statement::ColumnInfo;
use pando::TransactionOptions;
use pando::any::AnyDatabase;
pub(crate) use pando_sqlite::Bound;
pub(crate) use pando_sqlite::Interrupt as InterruptHandle;
pub(crate) use pando_sqlite::ffi;
use pando_sqlite::{Access, Action, Decision, Limit, Running};
use rusqlite::types::ValueRef;
use std::time::Duration;

/// How long a write waits for one that excludes it: another connection writes beside a query of its own.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection.
pub(crate) struct Connection(pando_sqlite::Connection);

/// A prepared statement.
pub(crate) struct Statement<'c>(pando_sqlite::Statement<'c>);
/// One that the connection keeps once it is dropped.
pub(crate) type CachedStatement<'c> = Statement<'c>;

/// The rows of a statement that is running. It ends once they are dropped.
pub(crate) struct Rows<'s>(Running<'s>);

/// A row of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'r>(&'r pando_sqlite::Statement<'r>);

/// Opens a connection whose main database is Pando's.
pub(crate) fn open(db: &AnyDatabase) -> Result<Connection> {
    // So that `limit_memory` can be called later. It is an error where somebody else has opened the first connection.
    let _is_counted = pando_sqlite::count_memory().is_ok();
    let connection = pando_sqlite::Connection::open(db)?;
    connection.set_busy_timeout(BUSY_TIMEOUT);
    // A client of a server must not exclude all writers of the database between two of its requests.
    connection.share_immediate();
    // As in the bundled SQLite: what a definition promises is checked, unless a program says otherwise.
    connection.execute("PRAGMA foreign_keys = ON")?;
    Ok(Connection(connection))
}

/// Opens an empty database in memory, for checking rows.
pub(crate) fn alone() -> Result<Connection> {
    let connection = pando_sqlite::Connection::in_memory()?;
    connection.set_limit(Limit::AttachedDatabases, 0);
    Ok(Connection(connection))
}

impl Connection {
    pub fn flush_prepared_statement_cache(&self) {
        self.0.flush_statements();
    }

    pub fn is_autocommit(&self) -> bool {
        !self.0.is_in_transaction()
    }

    pub fn is_interrupted(&self) -> bool {
        self.0.is_interrupted()
    }

    /// Forgets an interrupt, so that a transaction can be rolled back after it.
    pub fn forget_interrupt(&self) {
        self.0.forget_interrupt();
    }

    pub fn get_interrupt_handle(&self) -> InterruptHandle {
        self.0.interrupt_handle()
    }

    pub fn last_insert_rowid(&self) -> i64 {
        self.0.last_insert_rowid()
    }

    pub fn changes(&self) -> u64 {
        u64::try_from(self.0.changes()).unwrap_or(0)
    }

    pub fn total_changes(&self) -> u64 {
        u64::try_from(self.0.total_changes()).unwrap_or(0)
    }

    pub fn handle(&self) -> *mut ffi::sqlite3 {
        self.0.as_ptr()
    }

    pub fn set_transaction_options(&self, options: TransactionOptions) {
        self.0.set_transaction_options(options);
    }

    pub fn set_read_only(&self, read_only: bool) {
        self.0.set_read_only(read_only);
    }
}

impl Statement<'_> {
    pub fn raw_query(&mut self) -> Rows<'_> {
        Rows(self.0.run())
    }

    pub fn readonly(&self) -> bool {
        self.0.is_read_only()
    }

    pub fn is_explain(&self) -> i32 {
        i32::from(self.0.is_explain())
    }

    pub fn column_count(&self) -> usize {
        self.0.columns()
    }

    pub fn parameter_count(&self) -> usize {
        self.0.parameters()
    }
}

impl Rows<'_> {
    #[inline]
    pub fn next(&mut self) -> Result<Option<Row<'_>>> {
        Ok(self.0.next()?.map(Row))
    }
}

impl<'r> Row<'r> {
    #[inline]
    pub fn get_ref(&self, column: usize) -> Result<ValueRef<'r>> {
        Ok(match self.0.value_ref(column) {
            pando_sqlite::ValueRef::Null => ValueRef::Null,
            pando_sqlite::ValueRef::Integer(value) => ValueRef::Integer(value),
            pando_sqlite::ValueRef::Real(value) => ValueRef::Real(value),
            pando_sqlite::ValueRef::Text(text) => ValueRef::Text(text),
            pando_sqlite::ValueRef::Blob(bytes) => ValueRef::Blob(bytes),
        })
    }
}

/// Prepares a statement that the connection keeps.
pub(crate) fn prepare_kept<'c>(sqlite: &'c Connection, sql: &str) -> Result<CachedStatement<'c>> {
    Ok(Statement(sqlite.0.prepare_kept(sql)?))
}

/// Runs the only statement of a text.
pub(crate) fn run_only(sqlite: &Connection, sql: &str) -> Result<()> {
    run(&mut Statement(sqlite.0.prepare_only(sql)?))
}

/// Runs `work`, which is one transaction, and repeats it after conflicts, a bounded number of times.
pub(crate) fn repeating<T>(sqlite: &Connection, work: impl FnMut() -> Result<T>) -> Result<T> {
    sqlite.0.repeating(work, Error::is_conflict)
}

/// Runs a statement to its end.
pub(crate) fn run(statement: &mut Statement<'_>) -> Result<()> {
    let mut rows = statement.0.run();
    while rows.next()?.is_some() {}
    Ok(())
}

/// Binds a value to a parameter, counted from 1.
pub(crate) fn bind(statement: &mut Statement<'_>, at: usize, value: ValueRef<'_>) -> Result<()> {
    Ok(statement.0.bind_ref(at, of_rusqlite(value))?)
}

/// Calls `work` with borrowed values bound to the first parameters, which SQLite does not copy.
#[inline]
pub(crate) fn with_bound<'v, 'c, T>(
    statement: &mut Statement<'c>,
    values: impl Iterator<Item = ValueRef<'v>>,
    work: impl FnOnce(&mut Bound<'_, 'c>) -> Result<T>,
) -> Result<T> {
    statement.0.with_bound(values.map(of_rusqlite), work)?
}

fn of_rusqlite(value: ValueRef<'_>) -> pando_sqlite::ValueRef<'_> {
    match value {
        ValueRef::Null => pando_sqlite::ValueRef::Null,
        ValueRef::Integer(value) => pando_sqlite::ValueRef::Integer(value),
        ValueRef::Real(value) => pando_sqlite::ValueRef::Real(value),
        ValueRef::Text(text) => pando_sqlite::ValueRef::Text(text),
        ValueRef::Blob(bytes) => pando_sqlite::ValueRef::Blob(bytes),
    }
}

/// Runs a bound statement to its end.
#[inline]
pub(crate) fn run_bound(statement: &mut Bound<'_, '_>) -> Result<()> {
    let mut rows = statement.run();
    while rows.next()?.is_some() {}
    Ok(())
}

/// Returns the place of a named parameter, counted from 1.
pub(crate) fn parameter_index(statement: &Statement<'_>, name: &str) -> Result<Option<usize>> {
    Ok(statement.0.parameter_index(name))
}

/// Returns the name of a parameter, counted from 1.
pub(crate) fn parameter_name(statement: &Statement<'_>, at: usize) -> Option<String> {
    statement.0.parameter_name(at)
}

/// Returns how often SQLite has prepared a statement again because a schema changed.
pub(crate) fn prepared_anew(statement: &Statement<'_>) -> i32 {
    statement.0.times_prepared_again()
}

/// Returns how often SQLite has prepared the statement of a row again because a schema changed.
pub(crate) fn row_prepared_anew(row: &Row<'_>) -> i32 {
    row.0.times_prepared_again()
}

/// Returns the names of a query's columns.
pub(crate) fn column_names(statement: &Statement<'_>) -> Vec<String> {
    names_of(&statement.0)
}

/// Returns the names of a row's columns.
pub(crate) fn row_column_names(row: &Row<'_>) -> Vec<String> {
    names_of(row.0)
}

fn names_of(statement: &pando_sqlite::Statement<'_>) -> Vec<String> {
    (0..statement.columns()).map(|at| statement.name(at).unwrap_or_default()).collect()
}

/// Describes the columns of a query.
pub(crate) fn column_infos(statement: &Statement<'_>) -> Vec<ColumnInfo> {
    let info = |(at, name)| ColumnInfo {
        name,
        declared: statement.0.declared_type(at).filter(|declared| !declared.is_empty()),
    };
    names_of(&statement.0).into_iter().enumerate().map(info).collect()
}

/// Returns the name of an attached database.
pub(crate) fn database_name(sqlite: &Connection, at: usize) -> Option<String> {
    sqlite.0.database_name(at)
}

/// Returns whether the main database has a table or view of SQLite's own of this name.
pub(crate) fn has_own_table(sqlite: &Connection, name: &str) -> Result<bool> {
    let find = "SELECT 1 FROM main.sqlite_schema WHERE type IN ('table', 'view') AND name = ? COLLATE NOCASE";
    let mut statement = sqlite.0.prepare_kept(find)?;
    statement.bind_ref(1, pando_sqlite::ValueRef::Text(name.as_bytes()))?;
    Ok(statement.step()?)
}

/// Returns the texts in the first column of a query.
fn texts_of(sqlite: &Connection, sql: &str, argument: Option<&str>) -> Result<Vec<String>> {
    let mut statement = sqlite.0.prepare_kept(sql)?;
    if let Some(argument) = argument {
        statement.bind_ref(1, pando_sqlite::ValueRef::Text(argument.as_bytes()))?;
    }
    let mut texts = Vec::new();
    while statement.step()? {
        if let pando_sqlite::ValueRef::Text(text) = statement.value_ref(0) {
            texts.push(String::from_utf8_lossy(text).into_owned());
        }
    }
    Ok(texts)
}

/// Returns the tables and views of SQLite's own in the main database, without those that SQLite needs for itself.
pub(crate) fn own_tables(sqlite: &Connection) -> Result<Vec<TableSchema>> {
    let names = "SELECT name FROM main.sqlite_schema WHERE type IN ('table', 'view')
        AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let one = |name: String| {
        let create = "SELECT sql FROM main.sqlite_schema WHERE type IN ('table', 'view') AND name = ?";
        let columns = "SELECT name FROM pragma_table_xinfo(?, 'main') WHERE hidden <> 1";
        let made_for = |kind: &str| {
            let sql = format!(
                "SELECT sql FROM main.sqlite_schema WHERE type = '{kind}' AND tbl_name = ? COLLATE NOCASE
                    ORDER BY rowid"
            );
            texts_of(sqlite, &sql, Some(&name))
        };
        Ok(TableSchema {
            create: texts_of(sqlite, create, Some(&name))?.pop().unwrap_or_default(),
            // Those of a view whose tables are gone are not known.
            columns: texts_of(sqlite, columns, Some(&name)).unwrap_or_default(),
            indexes: made_for("index")?,
            triggers: made_for("trigger")?,
            name,
        })
    };
    texts_of(sqlite, names, None)?.into_iter().map(one).collect()
}

/// Checks the tables of SQLite's own in the main database, as the pragma of this name does. Returns the problems.
pub(crate) fn check_own(sqlite: &Connection, pragma: &str, most: u64) -> Result<Vec<String>> {
    let most = most.clamp(1, i32::MAX as u64);
    sqlite.0.set_checks_pages(false);
    let found = texts_of(sqlite, &format!("PRAGMA main.{pragma}({most})"), None);
    sqlite.0.set_checks_pages(true);
    Ok(found?.into_iter().filter(|problem| problem != "ok").collect())
}

/// Replaces the function `changes()`.
pub(crate) fn count_changes(
    sqlite: &Connection,
    changes: impl Fn() -> i64 + Send + std::panic::UnwindSafe + 'static,
) -> Result<()> {
    Ok(sqlite.0.create_function("changes", 0, move |_| Ok(pando_sqlite::Value::Integer(changes())))?)
}

/// Returns whether foreign keys are enforced.
pub(crate) fn enforces_foreign_keys(sqlite: &Connection) -> Result<bool> {
    Ok(sqlite.0.query("PRAGMA foreign_keys")? == [[pando_sqlite::Value::Integer(1)]])
}

/// Sets the limits of a confined connection.
pub(crate) fn limit(sqlite: &Connection, value_bytes: u32) -> Result<()> {
    for (limit, most) in [
        (Limit::AttachedDatabases, MOST_ATTACHED),
        (Limit::ExpressionDepth, MOST_DEPTH),
        (Limit::ParserDepth, MOST_DEPTH),
        (Limit::CompoundSelects, MOST_SELECTS),
        (Limit::PatternBytes, MOST_PATTERN_BYTES),
        (Limit::ValueBytes, value_bytes),
    ] {
        sqlite.0.set_limit(limit, most);
    }
    Ok(())
}

/// Sets what decides whether a statement may do something.
pub(crate) fn authorize(sqlite: &mut Connection, may: fn(Named<'_>) -> bool) -> Result<()> {
    let decide = move |access: Access<'_>| {
        let named = match access.action {
            Action::Attach { .. }
            | Action::Detach { .. }
            | Action::CreateVirtualTable { .. }
            | Action::DropVirtualTable { .. }
            | Action::Unknown { .. } => Named::Outside,
            // Of one table: ALTER TABLE tests its rows so. A number stands for the whole database.
            Action::Pragma { name: "quick_check", argument: Some(table) } if is_of_a_table(table) => {
                Named::Other
            }
            Action::Pragma { name, .. } => Named::Pragma(name),
            Action::Function { name } => Named::Function(name),
            _ => Named::Other,
        };
        if may(named) { Decision::Allow } else { Decision::Deny }
    };
    Ok(sqlite.0.set_authorizer(Some(decide))?)
}

/// Returns whether a check with this argument is of one table, which a client made.
fn is_of_a_table(argument: &str) -> bool {
    let is_number = argument.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first));
    let is_schema = argument.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("sqlite_"));
    !is_number && !is_schema
}

/// Sets what is called every `steps` steps.
pub(crate) fn on_progress(
    sqlite: &mut Connection,
    steps: i32,
    stop: Option<impl FnMut() -> bool + Send + 'static>,
) -> Result<()> {
    let steps = u32::try_from(steps).unwrap_or(1);
    Ok(sqlite.0.set_progress_handler(steps, stop)?)
}
