//! The scripts under `tests/sqllogictest`, each on Pando's tables of SQL, on typed tables, and on plain SQLite. What
//! differs is marked in the script by `onlyif pando` and `onlyif sqlite`, for typed tables alone by `onlyif typed` and
//! `skipif typed`, and explained in `docs/sql.md`, to which the comment above it points.

use crate::support::is_over_a_store;
use crate::support::typed::{self, Connection};
use pando_sql::{Sql, Value};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};
use std::path::{Path, PathBuf};

type Output = DBOutput<DefaultColumnType>;

/// Tables are typed, or those that SQL creates.
struct Pando(Connection);

struct Sqlite(rusqlite::Connection);

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => format!("{number:?}"),
        Value::Text(text) if text.is_empty() => "(empty)".to_owned(),
        Value::Text(text) => text.replace(' ', "_"),
        Value::Blob(bytes) => bytes.iter().fold("x".to_owned(), |text, byte| format!("{text}{byte:02x}")),
    }
}

fn output(columns: usize, rows: Vec<Vec<String>>, changes: u64) -> Output {
    match columns {
        0 => DBOutput::StatementComplete(changes),
        _ => DBOutput::Rows { types: vec![DefaultColumnType::Any; columns], rows },
    }
}

impl DB for Pando {
    type Error = pando_sql::Error;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<Output, pando_sql::Error> {
        if self.0.made(sql)? {
            return Ok(DBOutput::StatementComplete(0));
        }
        let mut statement = self.0.prepare(sql)?;
        let mut rows = statement.query(&[])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            all.push((0..row.len()).map(|column| shown(&pando_sql::to_owned(row.get(column)))).collect());
        }
        Ok(output(rows.columns().len(), all, rows.changes()))
    }

    fn engine_name(&self) -> &str {
        "pando"
    }
}

impl DB for Sqlite {
    type Error = rusqlite::Error;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<Output, rusqlite::Error> {
        let before = self.0.total_changes();
        let mut statement = self.0.prepare(sql)?;
        let mut columns = statement.column_count();
        let mut rows = statement.query([])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            // Once more: it may have been prepared anew.
            columns = row.as_ref().column_count();
            let row = (0..columns).map(|column| Ok(shown(&row.get::<_, Value>(column)?)));
            all.push(row.collect::<Result<_, rusqlite::Error>>()?);
        }
        drop(rows);
        drop(statement);
        Ok(output(columns, all, self.0.total_changes() - before))
    }

    fn engine_name(&self) -> &str {
        "sqlite"
    }
}

fn scripts() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sqllogictest");
    let mut found: Vec<_> = dir.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    assert!(found.len() >= 8, "scripts are missing: {found:?}");
    found
}

#[test]
fn scripts_answer_alike_on_pando() {
    for script in scripts() {
        // PostgreSQL finds conflicts by pages of its index, and a small table is one.
        if is_over_a_store() && script.ends_with("connections.slt") {
            continue;
        }
        let sql = Sql::new(crate::support::database());
        let connect = || {
            let connection = sql.connect().unwrap();
            async { Ok(Pando(Connection::plain(connection))) }
        };
        Runner::new(connect).run_file(&script).unwrap_or_else(|error| panic!("on Pando: {error}"));
        let sql = typed::Sql::new(crate::support::database());
        let connect = || {
            let connection = sql.connect().unwrap();
            async { Ok(Pando(connection)) }
        };
        let mut runner = Runner::new(connect);
        runner.add_label("typed");
        runner.run_file(&script).unwrap_or_else(|error| panic!("on typed tables: {error}"));
    }
}

#[test]
fn scripts_answer_alike_on_sqlite() {
    for script in scripts() {
        let dir = tempfile::tempdir().unwrap();
        let connect = || {
            let connection = rusqlite::Connection::open(dir.path().join("db")).unwrap();
            connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA foreign_keys = OFF").unwrap();
            async { Ok(Sqlite(connection)) }
        };
        Runner::new(connect).run_file(&script).unwrap_or_else(|error| panic!("on SQLite: {error}"));
    }
}
