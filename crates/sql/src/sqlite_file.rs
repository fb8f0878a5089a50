//! Imports the tables of SQLite files as typed tables.
//!
//! The file is opened read-only, and must pass SQLite's own check before a row is used. Its schema is read
//! as DDL is. A column that holds values of other types than declared accepts any type. Everything is one transaction,
//! so a file that turns out to be damaged leaves the database unchanged.

use crate::catalog::{AUTO_INDEX, row_id_name};
use crate::change::coerce;
use crate::connection::Sql;
use crate::ddl::Scratch;
use crate::error::{Error, Result};
use crate::given_ids;
use crate::lexer::quote;
use rows::{DynamicTable, Value};
use rusqlite::OpenFlags;
use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use std::path::Path;

/// The progress of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyProgress {
    /// The table that is being copied. It is empty in the first call, which comes before all rows.
    pub table: String,
    /// The number of rows of all tables that were copied so far.
    pub rows: u64,
    /// What will not be copied, each by its name. `import_sqlite` and `export_sqlite` have the complete list in the
    /// first call; `import_sqlite_typed` has it only in its report.
    pub left_out: Vec<String>,
}

/// The result of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyReport {
    /// The number of tables that were copied.
    pub tables: u64,
    /// The number of rows of all tables that were copied.
    pub rows: u64,
    /// What was not copied, each by its name. Typed tables have no views, triggers, partial indexes or enforced foreign
    /// keys, for example.
    pub left_out: Vec<String>,
}

/// The number of rows between two calls of `progress`.
pub(crate) const PROGRESS_ROWS: u64 = 10_000;

/// Copies all tables of an SQLite file into the database as typed tables, including indexes. Rust code can change their
/// definitions, and you can write documents to all of them. Typed tables keep no views, triggers and foreign keys,
/// which the report names; `import_sqlite` keeps everything. After an error, nothing was copied.
///
/// # Errors
/// An error if the file is not an SQLite database or does not pass SQLite's integrity check; if a table of the same
/// name exists; or if a row cannot be stored, with the table and the row.
pub fn import_sqlite_typed(
    sql: &Sql,
    file: impl AsRef<Path>,
    mut progress: impl FnMut(&CopyProgress),
) -> Result<CopyReport> {
    let scratch = Scratch::from_connection(open(file.as_ref(), true)?);
    let source = scratch.connection();
    let mut report = CopyReport::default();
    let mut tables = Vec::new();
    let mut list = source.prepare(
        "SELECT name, type FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND type <> 'index'
         ORDER BY name",
    )?;
    let mut rows = list.query([])?;
    while let Some(row) = rows.next()? {
        let (name, kind): (String, String) = (row.get(0)?, row.get(1)?);
        match kind.as_str() {
            "table" if is_plain(source, &name)? => tables.push(name),
            "table" => report.left_out.push(format!("virtual table {name}")),
            kind => report.left_out.push(format!("{kind} {name}")),
        }
    }
    let mut tx = sql.database().begin()?;
    let mut taken = rows::names_made_by_sqlite(&tx)?;
    for table in DynamicTable::all_created(&tx)? {
        let indexes = table.schema().indexes().iter().map(rows::Index::name);
        taken.extend(indexes.chain([table.name()]).map(str::to_ascii_lowercase));
    }
    let mut now = CopyProgress::default();
    for name in tables {
        now.table.clone_from(&name);
        progress(&now);
        let mut read = scratch.read_table(&name)?;
        let indexes = read.indexes.iter().map(|index| &index.name);
        for name in indexes.filter(|name| !name.starts_with(AUTO_INDEX)).chain([&name]) {
            if taken.contains(&name.to_ascii_lowercase()) {
                return Err(Error::new(format!("there is a table or an index {name} already")));
            }
        }
        report.left_out.append(&mut read.left_out);
        let kept = |clause: &String| {
            format!("enforcement of {clause} of table {name} (the clause is kept for an export)")
        };
        report.left_out.extend(read.foreign_keys().iter().map(kept));
        let others = |column: &str, own: &str| has_others(source, &name, column, own);
        read.loosen(others)?;
        if read.key_has_null(|column| has_null(source, &name, column))? {
            read.hide_key();
        }
        let (is_hidden, given) = (read.has_hidden_row_id(), read.largest_given_id(source)?);
        let table = DynamicTable::create(&mut tx, &read.into_definition()?)?;
        copy_in(source, &table, is_hidden, &mut tx, |count| {
            now.rows += count;
            progress(&now);
        })?;
        if let Some(last) = given {
            given_ids::record(&mut tx, table.schema().id(), last)?;
        }
        report.tables += 1;
    }
    tx.commit()?;
    report.rows = now.rows;
    Ok(report)
}

/// Opens a file for reading. It must pass SQLite's own check.
pub(crate) fn open(file: &Path, are_constraints_checked: bool) -> Result<rusqlite::Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let source = rusqlite::Connection::open_with_flags(file, flags)?;
    // The schema may be malicious: it must not call functions that could do harm.
    source.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    source.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    source.pragma_update(None, "ignore_check_constraints", !are_constraints_checked)?;
    source.execute_batch("PRAGMA cell_size_check = ON; BEGIN")?;
    let file = file.display();
    // The check needs the collations and functions of indexes, which only the program may have that made the file.
    let check: String = source
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(|error| Error::from(error).at(&file.to_string()))?;
    if check != "ok" {
        return Err(Error::corrupt(format!("{file} is damaged; SQLite reports: {check}")));
    }
    Ok(source)
}

fn is_plain(source: &rusqlite::Connection, name: &str) -> Result<bool> {
    let sql = "SELECT type FROM pragma_table_list(?) WHERE schema = 'main'";
    let kind: String = source.query_row(sql, [name], |row| row.get(0))?;
    Ok(kind == "table")
}

fn has_null(source: &rusqlite::Connection, table: &str, column: &str) -> Result<bool> {
    let sql = format!("SELECT EXISTS (SELECT 1 FROM {} WHERE {} IS NULL)", quote(table), quote(column));
    Ok(source.query_row(&sql, [], |row| row.get(0))?)
}

/// Returns whether a column has values of other types than `own`, as `typeof` names it.
fn has_others(source: &rusqlite::Connection, table: &str, column: &str, own: &str) -> Result<bool> {
    let (table, column) = (quote(table), quote(column));
    let sql = format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE typeof({column}) NOT IN ('null', ?))");
    Ok(source.query_row(&sql, [own], |row| row.get(0))?)
}

fn copy_in(
    source: &rusqlite::Connection,
    table: &DynamicTable,
    is_hidden: bool,
    tx: &mut pando::any::AnyTransaction,
    mut copied: impl FnMut(u64),
) -> Result<()> {
    let name = table.name();
    let columns: Vec<_> = table.schema().columns().collect();
    let hidden = match is_hidden {
        true => {
            let named = columns[1..].iter().map(|column| column.name());
            // If columns use all names of row ids, no statement has seen an id.
            format!("{}, ", row_id_name(named).unwrap_or("row_number() OVER ()"))
        }
        false => String::new(),
    };
    let mut select = source.prepare(&format!("SELECT {hidden}* FROM {}", quote(name)))?;
    let mut rows = select.query([])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        count += 1;
        let place = |what: String| Error::new(format!("table {name}, row {count}: {what}"));
        let mut values = Vec::with_capacity(columns.len());
        for (at, column) in columns.iter().enumerate() {
            let value = match row.get_ref(at)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(number) => Value::Int(number),
                ValueRef::Real(number) => Value::Float(number),
                ValueRef::Blob(bytes) => Value::from(bytes),
                ValueRef::Text(text) => match std::str::from_utf8(text) {
                    Ok(text) => Value::from(text),
                    Err(_) => {
                        return Err(place(format!("column {} is text that is not UTF-8", column.name())));
                    }
                },
            };
            let fits = coerce(column.column_type(), value);
            values
                .push(fits.map_err(|value| place(format!("column {} cannot hold {value}", column.name())))?);
        }
        table.insert(tx, &values).map_err(|error| place(error.to_string()))?;
        if count % PROGRESS_ROWS == 0 {
            copied(PROGRESS_ROWS);
        }
    }
    copied(count % PROGRESS_ROWS);
    Ok(())
}
