//! Exports all tables to an SQLite file: typed tables, and what SQLite made.
//!
//! 1. Everything is read by one connection in one transaction, so that the file shows one moment of the database.
//! 2. Tables and rows are written first, then indexes, views and triggers, so that no trigger runs.
//! 3. Of a virtual table, such as one of FTS5, the tables in which it keeps its data are copied like others. Its own
//!    definition is then written into `sqlite_schema`, because `CREATE VIRTUAL TABLE` would make those tables again.
//! 4. The file has a temporary name until it is complete.

use crate::catalog::{SqlTable, row_id_name};
use crate::connection::{Connection, Sql};
use crate::error::{Error, Result};
use crate::given_ids;
use crate::lexer::quote;
use crate::machine;
use crate::session::{Source, with_reader};
use crate::sqlite_file::{CopyProgress, CopyReport, PROGRESS_ROWS};
use rows::DynamicTable;
use rusqlite::types::{ToSqlOutput, Value};
use std::path::Path;
use std::sync::Arc;

/// Writes all tables, including indexes, views and triggers, to a new SQLite file. The file shows the database at one
/// moment.
///
/// # Errors
/// An error if the file exists, or if it cannot be written.
pub fn export_sqlite(
    sql: &Sql,
    file: impl AsRef<Path>,
    mut progress: impl FnMut(&CopyProgress),
) -> Result<CopyReport> {
    let file = file.as_ref();
    if file.exists() {
        return Err(Error::new(format!("{} already exists; name a new file", file.display())));
    }
    let mut unfinished = file.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let failed = |what: &str, error: std::io::Error| Error::new(format!("cannot {what}: {error}"));
    if Path::new(&unfinished).exists() {
        std::fs::remove_file(&unfinished)
            .map_err(|error| failed("remove what an earlier export left", error))?;
    }
    let target = rusqlite::Connection::open(&unfinished)?;
    // The rows were accepted once, and may be older than a `CHECK` that `PRAGMA ignore_check_constraints` let pass.
    target.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON; BEGIN",
    )?;
    let source = sql.connect()?;
    source.set_read_only(true);
    source.execute("BEGIN", &[])?;
    let mut export = Export { source: &source, target: &target, now: CopyProgress::default() };
    let report = export.run(&mut progress)?;
    target.execute_batch("COMMIT")?;
    target.close().map_err(|(_, error)| error)?;
    // SQLite has synced the bytes with its commit, so after a power loss no file with this name is cut off.
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let named = std::fs::rename(&unfinished, file).and_then(|()| std::fs::File::open(parent)?.sync_all());
    named.map_err(|error| failed("give the file its name", error))?;
    Ok(report)
}

struct Export<'a> {
    source: &'a Connection,
    target: &'a rusqlite::Connection,
    now: CopyProgress,
}

impl Export<'_> {
    fn run(&mut self, progress: &mut impl FnMut(&CopyProgress)) -> Result<CopyReport> {
        let mut report = CopyReport::default();
        self.source.reload()?;
        let typed = self.source.tables.known();
        report.left_out = self.left_out(&typed.tables)?;
        self.now.left_out.clone_from(&report.left_out);
        progress(&self.now);
        // SQLite makes `sqlite_sequence` with the first table that needs it.
        let mut given = Vec::new();
        for table in &typed.tables {
            self.copy_typed(table, &mut report, progress)?;
            if table.note.autoincrement {
                let id = table.rows.schema().id();
                let last = self
                    .source
                    .session()
                    .read(|source| Ok(with_reader!(source, reader => given_ids::recorded(reader, id))?))?;
                given.push((table.name().to_owned(), Value::Integer(last)));
            }
        }
        if cfg!(not(feature = "loadable")) {
            given.extend(self.copy_own(&mut report, progress)?);
        }
        // Without a table that needs it, there is none, and its rows say nothing.
        let has_sequence = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_sequence')";
        let has_sequence: bool = self.target.query_row(has_sequence, [], |row| row.get(0))?;
        for (name, last) in given.into_iter().filter(|_| has_sequence) {
            self.target.execute("DELETE FROM sqlite_sequence WHERE name = ?", [&name])?;
            self.target.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (name, last))?;
        }
        report.rows = self.now.rows;
        Ok(report)
    }

    /// Returns what the file will not have, each by its name.
    fn left_out(&self, typed: &[Arc<SqlTable>]) -> Result<Vec<String>> {
        let mut left_out = Vec::new();
        for table in typed {
            let indexes = table.rows.schema().indexes().iter();
            let of_documents =
                indexes.filter(|index| index.parts().iter().any(|part| part.pointer().is_some()));
            let unknown = |index: &rows::Index| {
                format!("index {}: it indexes a path within JSON documents", index.name())
            };
            left_out.extend(of_documents.map(unknown));
        }
        if cfg!(feature = "loadable") {
            return Ok(left_out);
        }
        let read =
            |source: Source<'_>| Ok(with_reader!(source, reader => DynamicTable::all_created(reader))?);
        let all = self.source.session().read(read)?;
        let has_name = |table: &DynamicTable| typed.iter().any(|typed| typed.name() == table.name());
        let hidden = all.iter().filter(|table| !has_name(table));
        left_out
            .extend(hidden.map(|table| format!("typed table {:?}: SQL has no name for it", table.name())));
        let of_analyze = "SELECT name FROM main.sqlite_schema WHERE name LIKE 'sqlite\\_stat_' ESCAPE '\\'";
        for row in self.rows_of(of_analyze, &[])? {
            if let [Value::Text(name)] = &row[..] {
                left_out.push(format!("table {name}: run ANALYZE in the file"));
            }
        }
        Ok(left_out)
    }

    fn copy_typed(
        &mut self,
        table: &SqlTable,
        report: &mut CopyReport,
        progress: &mut impl FnMut(&CopyProgress),
    ) -> Result<()> {
        self.target.execute_batch(&table.create_sqlite_statement())?;
        let no_name = || {
            let name = table.name();
            Error::new(format!("table {name}: its columns use all names that SQLite has for the row id"))
        };
        let hidden = match table.hidden() {
            0 => None,
            _ => Some(table.row_id_name().ok_or_else(no_name)?.to_owned()),
        };
        let columns = hidden.into_iter().chain(table.columns.iter().map(|column| quote(&column.name)));
        self.copy_rows(table.name(), &columns.collect::<Vec<_>>(), progress)?;
        for statement in table.index_statements() {
            self.target.execute_batch(&statement)?;
        }
        report.tables += 1;
        Ok(())
    }

    /// Copies what SQLite made. Returns the largest ids that tables with `AUTOINCREMENT` have given.
    fn copy_own(
        &mut self,
        report: &mut CopyReport,
        progress: &mut impl FnMut(&CopyProgress),
    ) -> Result<Vec<(String, Value)>> {
        let source = self.source;
        let schema = "SELECT type, name, rootpage, sql FROM main.sqlite_schema
            WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid";
        let (mut later, mut of_modules) = (Vec::new(), Vec::new());
        for row in self.rows_of(schema, &[])? {
            let [Value::Text(kind), Value::Text(name), root, Value::Text(sql)] = &row[..] else { continue };
            match (kind.as_str(), root) {
                ("table", Value::Integer(0)) => of_modules.push((name.clone(), sql.clone())),
                ("table", _) => {
                    self.target.execute_batch(sql)?;
                    let columns = self.stored_columns(name)?;
                    self.copy_rows(name, &columns, progress)?;
                }
                _ => later.push(sql.clone()),
            }
            report.tables += u64::from(kind == "table");
        }
        later.iter().try_for_each(|sql| self.target.execute_batch(sql))?;
        for pragma in ["user_version", "application_id"] {
            let number = self.rows_of(&format!("PRAGMA main.{pragma}"), &[])?;
            if let Some([Value::Integer(number)]) = number.first().map(Vec::as_slice) {
                self.target.pragma_update(None, pragma, number)?;
            }
        }
        if !of_modules.is_empty() {
            self.target.execute_batch("PRAGMA writable_schema = ON")?;
            for (name, sql) in of_modules {
                let add = "INSERT INTO sqlite_schema VALUES ('table', ?1, ?1, 0, ?2)";
                self.target.execute(add, (name, sql))?;
            }
        }
        if !machine::has_own_table(&source.sqlite, "sqlite_sequence")? {
            return Ok(Vec::new());
        }
        let given = self.rows_of("SELECT name, seq FROM main.sqlite_sequence", &[])?;
        let pair = |row: Vec<Value>| match <[Value; 2]>::try_from(row) {
            Ok([Value::Text(name), last]) => Some((name, last)),
            _ => None,
        };
        Ok(given.into_iter().filter_map(pair).collect())
    }

    /// Returns the columns of a table of SQLite's that are not computed, and the rowid before them if it has one that
    /// can be named.
    fn stored_columns(&self, name: &str) -> Result<Vec<String>> {
        let argument = [Value::Text(name.to_owned())];
        let all = self.rows_of("SELECT name, hidden FROM pragma_table_xinfo(?, 'main')", &argument)?;
        let text = |row: &Vec<Value>| if let Value::Text(name) = &row[0] { Some(name.clone()) } else { None };
        let names: Vec<_> = all.iter().filter_map(text).collect();
        let has_rowid = "SELECT 1 FROM pragma_table_list WHERE schema = 'main' AND name = ? AND wr = 0";
        let rowid = match self.rows_of(has_rowid, &argument)?.is_empty() {
            true => None,
            false => row_id_name(names.iter().map(String::as_str)),
        };
        let stored = all.iter().filter(|row| row[1] == Value::Integer(0)).filter_map(text);
        Ok(rowid.map(str::to_owned).into_iter().chain(stored.map(|name| quote(&name))).collect())
    }

    fn rows_of(&self, sql: &str, parameters: &[Value]) -> Result<Vec<Vec<Value>>> {
        let mut statement = machine::prepare_kept(&self.source.sqlite, sql)?;
        for (place, value) in parameters.iter().enumerate() {
            machine::bind(&mut statement, place + 1, value.into())?;
        }
        let columns = statement.column_count();
        let (mut rows, mut all) = (statement.raw_query(), Vec::new());
        while let Some(row) = rows.next()? {
            let values = (0..columns).map(|at| Ok(crate::answer::to_owned(row.get_ref(at)?)));
            all.push(values.collect::<Result<_>>()?);
        }
        Ok(all)
    }

    /// Copies the rows of a table: these columns, whose names are quoted.
    fn copy_rows(
        &mut self,
        table: &str,
        columns: &[String],
        progress: &mut impl FnMut(&CopyProgress),
    ) -> Result<()> {
        table.clone_into(&mut self.now.table);
        progress(&self.now);
        let (names, marks) = (columns.join(", "), vec!["?"; columns.len()].join(", "));
        let table = quote(table);
        let mut insert = self.target.prepare(&format!("INSERT INTO {table} ({names}) VALUES ({marks})"))?;
        let mut select = self.source.prepare_sqlite(&format!("SELECT {names} FROM main.{table}"))?;
        let mut rows = select.raw_query();
        while let Some(row) = rows.next()? {
            for at in 0..columns.len() {
                insert.raw_bind_parameter(at + 1, ToSqlOutput::Borrowed(row.get_ref(at)?))?;
            }
            insert.raw_execute()?;
            self.now.rows += 1;
            if self.now.rows.is_multiple_of(PROGRESS_ROWS) {
                progress(&self.now);
            }
        }
        Ok(())
    }
}
