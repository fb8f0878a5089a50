//! Imports SQLite files whole: tables, indexes, views, triggers and virtual tables, as SQLite's own in the database.
//!
//! 1. The file is opened read-only, and must pass SQLite's own check before a row is used. Everything is one
//!    transaction, so a file that turns out to be damaged leaves the database unchanged.
//! 2. Virtual tables are created after tables and views, which their modules can ask for. That makes the tables in
//!    which they keep their data; these are emptied and filled like others, as they are in the file.
//! 3. Indexes and triggers follow the rows, so that no trigger runs.

use crate::catalog::row_id_name;
use crate::connection::{Connection, Sql};
use crate::ddl::names;
use crate::error::{Error, Result};
use crate::lexer::{self, quote};
use crate::machine;
use crate::sqlite_file::{CopyProgress, CopyReport, PROGRESS_ROWS, open};
use rusqlite::OptionalExtension;
use rusqlite::types::{Value, ValueRef};
use std::path::Path;

/// Copies everything of an SQLite file into the database: tables with their rows, indexes, views, triggers, virtual
/// tables such as those of FTS5, the counters of `AUTOINCREMENT`, `user_version` and `application_id`. The report names
/// what was left out. After an error, nothing was copied.
///
/// # Errors
/// An error if the file is not an SQLite database or does not pass SQLite's integrity check; if a name exists already;
/// if a table or an index needs a function or a collation that this SQLite does not have; or, with
/// [`Error::is_conflict`], if another connection has changed definitions or counters at the same time: call it again
/// then.
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
    progress: impl FnMut(&CopyProgress),
) -> Result<CopyReport> {
    let target = sql.connect()?;
    target.session().check_writable()?;
    import(&target, &SqliteFile::open(file)?, progress)
}

/// An SQLite file that can be read and has passed SQLite's own check.
#[derive(Debug)]
pub struct SqliteFile(rusqlite::Connection);

impl SqliteFile {
    /// Opens a file for reading, and checks it. Later changes of the file by others are not seen.
    ///
    /// # Errors
    /// An error if SQLite cannot read the file, or finds it damaged.
    pub fn open(file: impl AsRef<Path>) -> Result<Self> {
        Ok(SqliteFile(open(file.as_ref(), false)?))
    }

    /// Copies the file into a database, as [`import_sqlite`] does.
    ///
    /// # Errors
    /// As for [`import_sqlite`].
    pub fn import_into(&self, sql: &Sql, progress: impl FnMut(&CopyProgress)) -> Result<CopyReport> {
        let target = sql.connect()?;
        target.session().check_writable()?;
        import(&target, self, progress)
    }
}

fn import(
    target: &Connection,
    SqliteFile(source): &SqliteFile,
    mut progress: impl FnMut(&CopyProgress),
) -> Result<CopyReport> {
    // The rows were accepted once, and may be older than a `CHECK`.
    for pragma in ["foreign_keys = OFF", "ignore_check_constraints = ON"] {
        machine::run_only(&target.sqlite, &format!("PRAGMA {pragma}"))?;
    }
    target.execute("BEGIN", &[])?;
    let mut import = Import { source, target, now: CopyProgress::default() };
    let mut done = import.run(&mut progress);
    if done.is_ok()
        && let Err(error) = target.execute("COMMIT", &[])
    {
        done = Err(error);
    }
    if done.is_err() && !target.is_autocommit() {
        // What cannot be rolled back is not committed either. The first error says why.
        let _ = target.execute("ROLLBACK", &[]);
    }
    done
}

/// A row of `sqlite_schema`.
struct Definition {
    kind: Kind,
    name: String,
    sql: String,
}

/// The kinds of definitions, in the order in which they are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Table,
    View,
    /// A virtual table. Its module can ask for the columns of tables and views.
    Virtual,
    /// A table in which a virtual one keeps its data, and which is made with it.
    Shadow,
    Index,
    Trigger,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Table | Kind::Shadow => "table",
            Kind::View => "view",
            Kind::Virtual => "virtual table",
            Kind::Index => "index",
            Kind::Trigger => "trigger",
        }
    }
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
        target.session().write(|tx| Ok(rows::exclude_new_tables(tx)?))?;
        let before = names::shared(target)?;
        let mut report = CopyReport::default();
        let mut definitions = self.definitions(&mut report)?;
        self.leave_out_other_modules(&mut definitions, &mut report)?;
        let numbers = self.numbers(&mut report)?;
        self.now.left_out.clone_from(&report.left_out);
        progress(&self.now);
        let has = |name: &str| machine::has_own_table(&target.sqlite, name);
        for definition in definitions.iter().filter(|definition| definition.kind < Kind::Index) {
            if has(&definition.name)? {
                return Err(exists(&definition.name));
            }
        }
        for definition in &definitions {
            let (name, is_table) = (&definition.name, matches!(definition.kind, Kind::Table | Kind::Shadow));
            if definition.kind == Kind::Shadow && has(name)? {
                machine::run_only(&target.sqlite, &format!("DELETE FROM main.{}", quote(name)))?;
            } else {
                self.define(definition)?;
                report.tables += u64::from(is_table || definition.kind == Kind::Virtual);
            }
            if is_table {
                self.copy_rows(name, progress)?;
            }
        }
        self.copy_counters(&definitions)?;
        for (pragma, number) in numbers {
            machine::run_only(&target.sqlite, &format!("PRAGMA main.{pragma} = {number}"))?;
        }
        names::check_new(target, &before)?;
        report.rows = self.now.rows;
        Ok(report)
    }

    /// Returns what the file defines, in the order in which it is made.
    fn definitions(&self, report: &mut CopyReport) -> Result<Vec<Definition>> {
        let all = "SELECT schema.type, list.type, schema.name, schema.sql FROM sqlite_schema AS schema
            LEFT JOIN pragma_table_list AS list
            ON list.schema = 'main' AND list.name = schema.name AND schema.type IN ('table', 'view')
            WHERE schema.sql IS NOT NULL ORDER BY schema.rowid";
        let mut statement = self.source.prepare(all)?;
        let (mut rows, mut definitions) = (statement.query([])?, Vec::new());
        while let Some(row) = rows.next()? {
            let (kind, of_table): (String, Option<String>) = (row.get(0)?, row.get(1)?);
            let name: String = row.get(2)?;
            let place = format!("{kind} {name}");
            if name.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("sqlite_")) {
                match name.as_str() {
                    "sqlite_sequence" => {}
                    "sqlite_stat1" | "sqlite_stat4" => report.left_out.push(format!("{place}: run ANALYZE")),
                    _ => report.left_out.push(format!("{place}: SQLite reserves the name")),
                }
                continue;
            }
            let kind = match (kind.as_str(), of_table.as_deref()) {
                ("table", Some("virtual")) => Kind::Virtual,
                ("table", Some("shadow")) => Kind::Shadow,
                ("table", _) => Kind::Table,
                ("view", _) => Kind::View,
                ("index", _) => Kind::Index,
                _ => Kind::Trigger,
            };
            let sql: String = row.get(3).map_err(|error| Error::from(error).at(&place))?;
            let second = lexer::tokens(&sql).nth(1);
            if second.is_some_and(|token| token.is("TEMP") || token.is("TEMPORARY")) {
                return Err(Error::corrupt(format!("{place}: a definition of a file is not a TEMP one")));
            }
            definitions.push(Definition { kind, name, sql });
        }
        // Those of one kind stay in the order in which they were made.
        definitions.sort_by_key(|definition| definition.kind);
        Ok(definitions)
    }

    /// Leaves out virtual tables whose modules only another program has.
    fn leave_out_other_modules(
        &self,
        definitions: &mut Vec<Definition>,
        report: &mut CopyReport,
    ) -> Result<()> {
        let list = self.target.query("SELECT name FROM pragma_module_list", &[])?;
        let is_here = |module: &str| {
            list.iter().any(|row| matches!(&row[0], Value::Text(name) if name.eq_ignore_ascii_case(module)))
        };
        definitions.retain(|definition| {
            let mut after_using =
                lexer::tokens(&definition.sql).skip_while(|token| !token.is("USING")).skip(1);
            match after_using.next().and_then(|token| token.name()) {
                Some(module) if definition.kind == Kind::Virtual && !is_here(&module) => {
                    let name = &definition.name;
                    report.left_out.push(format!("virtual table {name}: no such module: {module}"));
                    false
                }
                _ => true,
            }
        });
        Ok(())
    }

    /// Runs a definition as the file has it.
    fn define(&self, definition: &Definition) -> Result<()> {
        let place = format!("{} {}", definition.kind.name(), definition.name);
        machine::run_only(&self.target.sqlite, &definition.sql).map_err(|error| error.at(&place))
    }

    /// Copies the rows of a table, with the rowids that can be named.
    fn copy_rows(&mut self, table: &str, progress: &mut impl FnMut(&CopyProgress)) -> Result<()> {
        table.clone_into(&mut self.now.table);
        progress(&self.now);
        let columns = self.stored_columns(table)?;
        let (names, marks) = (columns.join(", "), vec!["?"; columns.len()].join(", "));
        let quoted = quote(table);
        let insert = format!("INSERT OR ABORT INTO main.{quoted} ({names}) VALUES ({marks})");
        let mut insert = machine::prepare_kept(&self.target.sqlite, &insert)?;
        let mut select = self.source.prepare(&format!("SELECT {names} FROM main.{quoted}"))?;
        let (mut rows, mut count) = (select.query([])?, 0_u64);
        while let Some(row) = rows.next()? {
            for at in 0..columns.len() {
                machine::bind(&mut insert, at + 1, row.get_ref(at)?)?;
            }
            count += 1;
            machine::run(&mut insert).map_err(|error| error.at(&format!("table {table}, row {count}")))?;
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
        let has_rowid =
            "SELECT wr = 0 FROM pragma_table_list WHERE schema = 'main' AND name = ? COLLATE NOCASE";
        let rowid = match self.source.query_row(has_rowid, [table], |row| row.get(0))? {
            true => row_id_name(all.iter().map(|(name, _)| name.as_str())),
            false => None,
        };
        let stored = all.iter().filter(|(_, hidden)| *hidden == 0).map(|(name, _)| quote(name));
        Ok(rowid.map(str::to_owned).into_iter().chain(stored).collect())
    }

    /// Copies the counters of `AUTOINCREMENT` of the tables that were copied. SQLite uses the first of a name.
    fn copy_counters(&self, definitions: &[Definition]) -> Result<()> {
        let has = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_sequence')";
        // It is made with the first table that needs it.
        let is_needed = machine::has_own_table(&self.target.sqlite, "sqlite_sequence")?;
        if !is_needed || !self.source.query_row(has, [], |row| row.get(0))? {
            return Ok(());
        }
        let first = "SELECT seq FROM sqlite_sequence WHERE name = ? ORDER BY rowid LIMIT 1";
        let mut first = self.source.prepare(first)?;
        for table in definitions.iter().filter(|definition| definition.kind == Kind::Table) {
            let counter = first.query_row([&table.name], |row| row.get::<_, Value>(0)).optional()?;
            if let Some(counter) = counter {
                let values = [Value::Text(table.name.clone()), counter];
                self.change("DELETE FROM main.sqlite_sequence WHERE name = ?", &values[..1])?;
                self.change("INSERT INTO main.sqlite_sequence VALUES (?, ?)", &values)?;
            }
        }
        Ok(())
    }

    /// Returns the numbers that the program keeps in the file, and that the database does not have yet.
    fn numbers(&self, report: &mut CopyReport) -> Result<Vec<(&'static str, i64)>> {
        let mut missing = Vec::new();
        for pragma in ["user_version", "application_id"] {
            let number: i64 = self.source.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0))?;
            let now = self.target.query(&format!("PRAGMA main.{pragma}"), &[])?;
            match now.first().map(Vec::as_slice) {
                Some([Value::Integer(now)]) if *now == number || number == 0 => {}
                Some([Value::Integer(0)]) => missing.push((pragma, number)),
                _ => report.left_out.push(format!("{pragma} {number}: the database has another one")),
            }
        }
        let encoding: String = self.source.query_row("PRAGMA encoding", [], |row| row.get(0))?;
        if encoding != "UTF-8" {
            report.left_out.push(format!("encoding {encoding}: texts are stored in UTF-8"));
        }
        Ok(missing)
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

fn exists(name: &str) -> Error {
    Error::new(format!("there is a table or a view {name} already"))
}
