//! Turso's tables: as SQLite's.

use super::turso::Turso;
use crate::engine::{Config, Failure, Outcome};
use crate::tables::{Base, Cell, Link, NextParameter, NextRow, Query, Table};
use pollster::block_on;
use turso::{Connection, Statement, Value};

pub fn open(config: &Config) -> Outcome<Box<dyn Base>> {
    Ok(Box::new(Turso::open(config)?))
}

impl Base for Turso {
    fn connect(&self) -> Outcome<Box<dyn Link + '_>> {
        Ok(Box::new(Handle(Turso::connect(self)?)))
    }

    fn settle(&self) -> Outcome<()> {
        Ok(())
    }
}

struct Handle(Connection);

fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Int(number) => Value::Integer(*number),
        Cell::Text(text) => Value::Text(text.clone()),
    }
}

fn integer(value: &Value) -> Outcome<i64> {
    match value {
        Value::Integer(number) => Ok(*number),
        other => Err(Failure::Wrong(format!("{other:?} is no integer"))),
    }
}

impl Handle {
    fn run(&self, sql: &str) -> Outcome<()> {
        block_on(self.0.execute(sql, ()))?;
        Ok(())
    }

    fn prepare(&self, sql: &str) -> Outcome<Statement> {
        Ok(block_on(self.0.prepare(sql))?)
    }

    fn row_of(&self, sql: &str, see: &mut dyn FnMut(&turso::Row) -> Outcome<()>) -> Outcome<()> {
        block_on(async {
            let mut rows = self.0.query(sql, ()).await?;
            while let Some(row) = rows.next().await? {
                see(&row)?;
            }
            Ok(())
        })
    }
}

impl Link for Handle {
    fn create(&mut self, table: Table) -> Outcome<()> {
        table.create().iter().try_for_each(|sql| self.run(sql))
    }

    fn insert(&mut self, table: Table, in_one: bool, next: NextRow<'_>) -> Outcome<()> {
        if in_one {
            self.run("BEGIN IMMEDIATE")?;
        }
        let mut statement = self.prepare(table.insert())?;
        let mut row = Vec::new();
        while next(&mut row) {
            block_on(statement.execute(row.iter().map(value).collect::<Vec<_>>()))?;
        }
        if in_one { self.run("COMMIT") } else { Ok(()) }
    }

    fn plan(&mut self, query: Query) -> Outcome<Option<String>> {
        let mut lines = Vec::new();
        self.row_of(&query.explain(), &mut |row| {
            if let Value::Text(line) = row.get_value(3)? {
                lines.push(line);
            }
            Ok(())
        })?;
        Ok(Some(lines.join("; ")))
    }

    fn ask(&mut self, query: Query, next: NextParameter<'_>, see: &mut dyn FnMut(i64)) -> Outcome<()> {
        let mut statement = self.prepare(query.sql())?;
        while let Some(parameter) = next() {
            let values: Vec<_> =
                [&parameter].into_iter().filter(|_| query.sql().contains('?')).map(value).collect();
            block_on(async {
                let mut rows = statement.query(values).await?;
                while let Some(row) = rows.next().await? {
                    see(integer(&row.get_value(0)?)?);
                }
                Ok::<_, Failure>(())
            })?;
        }
        Ok(())
    }

    fn count(&mut self, table: Table) -> Outcome<(u64, i64)> {
        let mut found = (0, 0);
        self.row_of(&format!("SELECT count(*), sum(id) FROM {}", table.name()), &mut |row| {
            found = (integer(&row.get_value(0)?)? as u64, integer(&row.get_value(1)?)?);
            Ok(())
        })?;
        Ok(found)
    }
    fn statement(&mut self, sql: &str) -> Outcome<i64> {
        let mut sum = 0;
        self.row_of(sql, &mut |row| {
            sum += integer(&row.get_value(0)?)?;
            Ok(())
        })?;
        Ok(sum)
    }
}
