//! SQLite's tables as they are meant: `INTEGER PRIMARY KEY`, a connection a thread, prepared statements.

use super::sqlite::connect;
use crate::engine::{Config, Outcome};
use crate::tables::{Base, Cell, Link, NextParameter, NextRow, Query, Table};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Statement, ToSql};

struct Sqlite(Config);

pub fn open(config: &Config) -> Outcome<Box<dyn Base>> {
    connect(config)?;
    Ok(Box::new(Sqlite(config.clone())))
}

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Cell::Int(number) => ToSqlOutput::Owned(Value::Integer(*number)),
            Cell::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        })
    }
}

impl Base for Sqlite {
    fn connect(&self) -> Outcome<Box<dyn Link + '_>> {
        Ok(Box::new(Handle(connect(&self.0)?)))
    }

    fn settle(&self) -> Outcome<()> {
        connect(&self.0)?.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))?;
        Ok(())
    }
}

struct Handle(Connection);

fn insert_all(mut statement: Statement<'_>, next: NextRow<'_>) -> Outcome<()> {
    let mut row = Vec::new();
    while next(&mut row) {
        statement.execute(rusqlite::params_from_iter(&row))?;
    }
    Ok(())
}

impl Link for Handle {
    fn create(&mut self, table: Table) -> Outcome<()> {
        Ok(table.create().iter().try_for_each(|sql| self.0.execute_batch(sql))?)
    }

    fn insert(&mut self, table: Table, in_one: bool, next: NextRow<'_>) -> Outcome<()> {
        if !in_one {
            return insert_all(self.0.prepare(table.insert())?, next);
        }
        self.0.prepare_cached("BEGIN IMMEDIATE")?.execute(())?;
        insert_all(self.0.prepare(table.insert())?, next)?;
        self.0.prepare_cached("COMMIT")?.execute(())?;
        Ok(())
    }

    fn plan(&mut self, query: Query) -> Outcome<Option<String>> {
        let mut statement = self.0.prepare(&query.explain())?;
        let lines = statement.query_map([], |row| row.get::<_, String>(3))?;
        Ok(Some(lines.collect::<Result<Vec<_>, _>>()?.join("; ")))
    }

    fn ask(&mut self, query: Query, next: NextParameter<'_>, see: &mut dyn FnMut(i64)) -> Outcome<()> {
        let mut statement = self.0.prepare(query.sql())?;
        while let Some(parameter) = next() {
            let wanted = statement.parameter_count();
            let mut rows = statement.query(rusqlite::params_from_iter([parameter].iter().take(wanted)))?;
            while let Some(row) = rows.next()? {
                see(row.get_ref(0)?.as_i64()?);
            }
        }
        Ok(())
    }

    fn count(&mut self, table: Table) -> Outcome<(u64, i64)> {
        let sql = format!("SELECT count(*), sum(id) FROM {}", table.name());
        Ok(self.0.query_row(&sql, [], |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?)))?)
    }
    fn statement(&mut self, sql: &str) -> Outcome<i64> {
        let mut statement = self.0.prepare(sql)?;
        let (mut rows, mut sum) = (statement.query([])?, 0);
        while let Some(row) = rows.next()? {
            sum += row.get_ref(0)?.as_i64()?;
        }
        Ok(sum)
    }
}
