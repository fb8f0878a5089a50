//! Pando through SQL: SQLite's front end over Pando's tables, a connection a thread, prepared statements.

use super::{Entry, pando};
use crate::engine::{Config, Failure, Outcome};
use crate::tables::{Base, Cell, Link, NextParameter, NextRow, Query, Table};
use sql::{Connection, Sql, Statement, Value, ValueRef};

pub const ENTRY: Entry = Entry {
    name: "pando-sql",
    about: "Pando (this tree), SQL through SQLite's front end, defaults",
    open: None,
    open_tables: Some(open),
};

struct Pando(Sql);

fn open(config: &Config) -> Outcome<Box<dyn Base>> {
    Ok(Box::new(Pando(Sql::new(pando::database(config)?))))
}

impl Base for Pando {
    fn connect(&self) -> Outcome<Box<dyn Link + '_>> {
        Ok(Box::new(Handle(self.0.connect()?)))
    }

    fn settle(&self) -> Outcome<()> {
        Ok(self.0.database().native().expect("it was opened in a directory").checkpoint()?)
    }
}

struct Handle(Connection);

fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Int(number) => Value::Integer(*number),
        Cell::Text(text) => Value::Text(text.clone()),
    }
}

fn lent(cell: &Cell) -> ValueRef<'_> {
    match cell {
        Cell::Int(number) => ValueRef::Integer(*number),
        Cell::Text(text) => ValueRef::Text(text.as_bytes()),
    }
}

fn integer(value: ValueRef<'_>) -> Outcome<i64> {
    value.as_i64().map_err(|_| Failure::Wrong(format!("{value:?} is no integer")))
}

fn insert_all(mut statement: Statement<'_>, next: NextRow<'_>) -> Outcome<()> {
    let mut row = Vec::new();
    while next(&mut row) {
        // No row of the tables has more columns.
        let mut values = [ValueRef::Null; 4];
        values.iter_mut().zip(&row).for_each(|(value, cell)| *value = lent(cell));
        statement.execute_lent(&values[..row.len()])?;
    }
    Ok(())
}

impl Link for Handle {
    fn create(&mut self, table: Table) -> Outcome<()> {
        table.create().iter().try_for_each(|sql| self.0.execute(sql, &[]).map(drop))?;
        Ok(())
    }

    fn insert(&mut self, table: Table, in_one: bool, next: NextRow<'_>) -> Outcome<()> {
        if !in_one {
            return insert_all(self.0.prepare(table.insert())?, next);
        }
        self.0.execute("BEGIN IMMEDIATE", &[])?;
        insert_all(self.0.prepare(table.insert())?, next)?;
        self.0.execute("COMMIT", &[])?;
        Ok(())
    }

    fn plan(&mut self, query: Query) -> Outcome<Option<String>> {
        let rows = self.0.query(&query.explain(), &[])?;
        let lines = rows.into_iter().filter_map(|row| match row.into_iter().nth(3) {
            Some(Value::Text(line)) => Some(line),
            _ => None,
        });
        Ok(Some(lines.collect::<Vec<_>>().join("; ")))
    }

    fn ask(&mut self, query: Query, next: NextParameter<'_>, see: &mut dyn FnMut(i64)) -> Outcome<()> {
        let mut statement = self.0.prepare(query.sql())?;
        let wanted = statement.parameter_count();
        while let Some(parameter) = next() {
            let parameter = [value(&parameter)];
            let mut rows = statement.query(&parameter[..wanted])?;
            while let Some(row) = rows.next()? {
                see(integer(row.get(0))?);
            }
        }
        Ok(())
    }

    fn count(&mut self, table: Table) -> Outcome<(u64, i64)> {
        let mut statement = self.0.prepare(&format!("SELECT count(*), sum(id) FROM {}", table.name()))?;
        let mut rows = statement.query(&[])?;
        let row = rows.next()?.ok_or_else(|| Failure::Wrong("a count has no row".into()))?;
        Ok((integer(row.get(0))? as u64, integer(row.get(1))?))
    }
    fn statement(&mut self, sql: &str) -> Outcome<i64> {
        let mut statement = self.0.prepare(sql)?;
        let (mut rows, mut sum) = (statement.query(&[])?, 0);
        while let Some(row) = rows.next()? {
            sum += integer(row.get(0))?;
        }
        Ok(sum)
    }
}
