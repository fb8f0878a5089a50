//! Imports SQLite files whole: tables, indexes, views, triggers and virtual tables, as SQLite's own in the database.
//!
//! 1. The file is opened read-only, and must pass SQLite's own check before a row is used. Everything is one
//!    transaction, so a file that turns out to be damaged leaves the database unchanged.
//! 2. Virtual tables are created first, which makes the tables in which they keep their data. Those are then emptied
//!    and filled like others, as they are in the file.
//! 3. Indexes, views and triggers follow the rows, so that no trigger runs.

use crate::catalog::row_id_name;
use crate::connection::{Connection, Sql};
use crate::ddl::names;
use crate::error::{Error, Result};
use crate::lexer::quote;
use crate::machine;
use crate::sqlite_file::{CopyProgress, CopyReport, PROGRESS_ROWS, open};
use rusqlite::types::{Value, ValueRef};
use std::path::Path;

/// Copies everything of an SQLite file into the database: tables with their rows, indexes, views, triggers, virtual
/// tables such as those of FTS5, the counters of `AUTOINCREMENT`, `user_version` and `application_id`. If it fails, it
/// copies nothing. The report names what was left out.
///
/// # Errors
/// If the file is not an SQLite database or does not pass SQLite's integrity check; if a name exists already; or if a
/// definition needs what this SQLite does not have, a function or a collation of a program.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let dir = tempfile::tempdir()?;
/// let file = dir.path().join("shop.db");
/// let sqlite = rusqlite::Connection::open(&file)?;
/// sqlite.execute_batch(
///     "CREATE TABLE fruit(name TEXT, price REAL CHECK (price > 0));
///      CREATE VIEW cheap AS SELECT name FROM fruit WHERE price < 1;
///      INSERT INTO fruit VALUES ('plum', 0.5), ('mango', 2)",
/// )?;
/// let sql = pando_sql::Sql::new(pando::Database::builder().in_memory()?);
/// pando_sql::import_sqlite(&sql, &file, |_| {})?;
/// let cheap = sql.connect()?.query("SELECT * FROM cheap", &[])?;
/// assert_eq!(cheap, [["plum".to_owned().into()]]);
/// # Ok(())
/// # }
/// ```
pub fn import_sqlite(
    sql: &Sql,
    file: impl AsRef<Path>,
    mut progress: impl FnMut(&CopyProgress),
) -> Result<CopyReport> {
    let source = open(file.as_ref())?;
    let target = sql.connect()?;
    // The rows were accepted once, and may be older than a constraint.
    for pragma in ["foreign_keys = OFF", "ignore_check_constraints = ON"] {
        machine::run_only(&target.sqlite, &format!("PRAGMA {pragma}"))?;
    }
    target.execute("BEGIN", &[])?;
    let mut import = Import { source: &source, target: &target, now: CopyProgress::default() };
    let mut done = import.run(&mut progress);
    if done.is_ok()
        && let Err(error) = target.execute("COMMIT", &[])
    {
        done = Err(error);
    }
    if done.is_err() && !target.is_autocommit() {
        target.execute("ROLLBACK", &[])?;
    }
    done
}

/// A row of `sqlite_schema`.
struct Definition {
    kind: String,
    name: String,
    /// Whether a module keeps the table, and it has no tree of its own.
    is_virtual: bool,
    sql: String,
}

struct Import<'a> {
    source: &'a rusqlite::Connection,
    target: &'a Connection,
    now: CopyProgress,
}

impl Import<'_> {
    fn run(&mut self, progress: &mut impl FnMut(&CopyProgress)) -> Result<CopyReport> {
        let target = self.target;
        target.session().enter_writing(target.host)?;
        let before = names::shared(target)?;
        let mut report = CopyReport::default();
        let (tables, others) =
            self.definitions()?.into_iter().partition::<Vec<_>, _>(|definition| definition.kind == "table");
        let (of_modules, tables) =
            tables.into_iter().partition::<Vec<_>, _>(|definition| definition.is_virtual);
        let taken = |name: &str| machine::has_own_table(&target.sqlite, name);
        for table in &tables {
            if taken(&table.name)? {
                return Err(exists(&table.name));
            }
        }
        for table in of_modules {
            if taken(&table.name)? {
                return Err(exists(&table.name));
            }
            match self.define(&table) {
                // The module is another program's. The tables in which it keeps its data are copied all the same.
                Err(error) if is_unknown(&error) => report.left_out.push(format!("virtual {error}")),
                made => {
                    made?;
                    report.tables += 1;
                }
            }
        }
        for table in tables {
            if taken(&table.name)? {
                machine::run_only(&target.sqlite, &format!("DELETE FROM main.{}", quote(&table.name)))?;
            } else {
                self.define(&table)?;
                report.tables += 1;
            }
            self.copy_rows(&table.name, progress)?;
        }
        others.iter().try_for_each(|other| self.define(other))?;
        self.copy_numbers(&mut report)?;
        names::check_new(target, &before)?;
        report.rows = self.now.rows;
        Ok(report)
    }

    /// Returns what the file defines, in the order in which it was defined.
    fn definitions(&self) -> Result<Vec<Definition>> {
        let all = "SELECT type, name, rootpage = 0, sql FROM sqlite_schema
            WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid";
        let mut statement = self.source.prepare(all)?;
        let one = |row: &rusqlite::Row<'_>| {
            Ok(Definition { kind: row.get(0)?, name: row.get(1)?, is_virtual: row.get(2)?, sql: row.get(3)? })
        };
        Ok(statement.query_map([], one)?.collect::<std::result::Result<_, _>>()?)
    }

    /// Runs a definition as the file has it.
    fn define(&self, definition: &Definition) -> Result<()> {
        let named = |error: Error| match is_unknown(&error) {
            true => Error::new(format!("{} {}: {error}", definition.kind, definition.name)),
            false => error,
        };
        machine::run_only(&self.target.sqlite, &definition.sql).map_err(named)
    }

    /// Copies the rows of a table, with the rowids that can be named.
    fn copy_rows(&mut self, table: &str, progress: &mut impl FnMut(&CopyProgress)) -> Result<()> {
        table.clone_into(&mut self.now.table);
        progress(&self.now);
        let columns = self.stored_columns(table)?;
        let (names, marks) = (columns.join(", "), vec!["?"; columns.len()].join(", "));
        let quoted = quote(table);
        let insert = format!("INSERT INTO main.{quoted} ({names}) VALUES ({marks})");
        let mut insert = machine::prepare_kept(&self.target.sqlite, &insert)?;
        let mut select = self.source.prepare(&format!("SELECT {names} FROM main.{quoted}"))?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            for at in 0..columns.len() {
                machine::bind(&mut insert, at + 1, row.get_ref(at)?)?;
            }
            machine::run(&mut insert).map_err(|error| {
                let message = error.message();
                Error::new(format!("table {table}, row {}: {message}", self.now.rows + 1))
            })?;
            self.now.rows += 1;
            if self.now.rows.is_multiple_of(PROGRESS_ROWS) {
                progress(&self.now);
            }
        }
        Ok(())
    }

    /// Returns the columns of a table that are not computed, and before them the rowid if it has one that can be named.
    fn stored_columns(&self, table: &str) -> Result<Vec<String>> {
        let mut all = self.source.prepare("SELECT name, hidden FROM pragma_table_xinfo(?, 'main')")?;
        let all: Vec<(String, i64)> = all
            .query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<std::result::Result<_, _>>()?;
        let has_rowid = "SELECT wr = 0 FROM pragma_table_list WHERE schema = 'main' AND name = ?";
        let rowid = match self.source.query_row(has_rowid, [table], |row| row.get(0))? {
            true => row_id_name(all.iter().map(|(name, _)| name.as_str())),
            false => None,
        };
        let stored = all.iter().filter(|(_, hidden)| *hidden == 0).map(|(name, _)| quote(name));
        Ok(rowid.map(str::to_owned).into_iter().chain(stored).collect())
    }

    /// Copies the counters of `AUTOINCREMENT`, and the numbers that a program keeps in its database.
    fn copy_numbers(&self, report: &mut CopyReport) -> Result<()> {
        let has = |name: &str| -> Result<bool> {
            let find = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = ?)";
            Ok(self.source.query_row(find, [name], |row| row.get(0))?)
        };
        // SQLite makes it with the first table that needs it. Its rows say nothing of others.
        if has("sqlite_sequence")? && machine::has_own_table(&self.target.sqlite, "sqlite_sequence")? {
            let mut all = self.source.prepare("SELECT name, seq FROM sqlite_sequence")?;
            let mut rows = all.query([])?;
            while let Some(row) = rows.next()? {
                let values = [row.get::<_, Value>(0)?, row.get::<_, Value>(1)?];
                self.change("DELETE FROM main.sqlite_sequence WHERE name = ?", &values[..1])?;
                self.change("INSERT INTO main.sqlite_sequence VALUES (?, ?)", &values)?;
            }
        }
        for pragma in ["user_version", "application_id"] {
            let number: i64 = self.source.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0))?;
            let now = self.target.query(&format!("PRAGMA main.{pragma}"), &[])?;
            match now.first().map(Vec::as_slice) {
                Some([Value::Integer(now)]) if *now == number || number == 0 => {}
                Some([Value::Integer(0)]) => {
                    machine::run_only(&self.target.sqlite, &format!("PRAGMA main.{pragma} = {number}"))?;
                }
                _ => report.left_out.push(format!("{pragma} {number}: the database has another one")),
            }
        }
        for name in ["sqlite_stat1", "sqlite_stat4"] {
            if has(name)? {
                report.left_out.push(format!("table {name}: run ANALYZE"));
            }
        }
        Ok(())
    }

    /// Runs a statement that changes rows.
    fn change(&self, sql: &str, parameters: &[Value]) -> Result<()> {
        let mut statement = machine::prepare_kept(&self.target.sqlite, sql)?;
        for (place, value) in parameters.iter().enumerate() {
            machine::bind(&mut statement, place + 1, ValueRef::from(value))?;
        }
        machine::run(&mut statement)
    }
}

/// Returns whether a definition failed because of what it names, and not because that exists.
fn is_unknown(error: &Error) -> bool {
    const ERROR: i32 = 1;
    error.code() & 0xff == ERROR && !error.message().contains("already")
}

fn exists(name: &str) -> Error {
    Error::new(format!("there is a table or a view {name} already"))
}
