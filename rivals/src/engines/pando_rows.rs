//! Pando's typed rows in Rust: no SQL, the same rows and indexes.

use super::{Entry, pando};
use crate::engine::{Config, Failure, Outcome};
use crate::tables::{Base, Cell, Link, NextParameter, NextRow, Query, RANGE, Table};
use ::pando::{Database, Snapshot};
use rows::{
    Batch, BatchScan, Bounds, Column, ColumnType, Definition, DynamicTable, IndexDefinition, KeyRange, Value,
};
use std::ops::Bound;

pub const ENTRY: Entry = Entry {
    name: "pando-rows",
    about: "Pando (this tree), typed rows in Rust, defaults",
    open: None,
    open_tables: Some(open),
};

struct Pando(Database);

fn open(config: &Config) -> Outcome<Box<dyn Base>> {
    Ok(Box::new(Pando(pando::database(config)?)))
}

impl Base for Pando {
    fn connect(&self) -> Outcome<Box<dyn Link + '_>> {
        Ok(Box::new(Handle(self.0.clone())))
    }

    fn settle(&self) -> Outcome<()> {
        Ok(self.0.checkpoint()?)
    }
}

struct Handle(Database);

fn definition(table: Table) -> Definition {
    let (int, text) = (ColumnType::Int, ColumnType::Text);
    let base = Definition::new(table.name()).column(Column::new("id", int)).key(["id"]);
    match table {
        Table::Ids => base,
        Table::Entries => base.column(Column::new("data", text)),
        Table::Towns => {
            base.column(Column::new("name", text)).index(IndexDefinition::new("town_name", ["name"]))
        }
        Table::People => base
            .column(Column::new("name", text))
            .column(Column::new("town", int))
            .column(Column::new("age", int))
            .index(IndexDefinition::new("person_name", ["name"]))
            .index(IndexDefinition::new("person_town", ["town"])),
    }
}

fn value(cell: &Cell) -> Value<'_> {
    match cell {
        Cell::Int(number) => Value::Int(*number),
        Cell::Text(text) => Value::from(text.as_str()),
    }
}

fn integer(value: &Value<'_>) -> Outcome<i64> {
    match value {
        Value::Int(number) => Ok(*number),
        other => Err(Failure::Wrong(format!("{other} is no integer"))),
    }
}

const AGE: usize = 3;

/// Shows a column of the rows of an index that begin with a value.
fn look_up(
    snapshot: &Snapshot,
    table: &DynamicTable,
    (index, column): (&str, usize),
    value: Value<'_>,
    see: &mut dyn FnMut(i64),
) -> Outcome<()> {
    let values = [value];
    let mut scan = table.scan_index(snapshot, index, &KeyRange::prefix(&values))?;
    while let Some(found) = scan.next_with(|row| integer(&row[column]))? {
        see(found?);
    }
    Ok(())
}

/// How many entries an index has for each value.
fn groups(snapshot: &Snapshot, table: &DynamicTable, see: &mut dyn FnMut(i64)) -> Outcome<()> {
    let mut scan = BatchScan::new(table, Some("person_town"), &Bounds::default(), false, true)?;
    let (mut batch, mut group) = (Batch::default(), None);
    loop {
        scan.fill(snapshot, 512, &mut batch)?;
        if batch.is_empty() {
            group.into_iter().for_each(|(_, count)| see(count));
            return Ok(());
        }
        for row in 0..batch.len() {
            let town = integer(&scan.value(&mut batch, row, 2)?).ok();
            match &mut group {
                Some((own, count)) if *own == town => *count += 1,
                other => {
                    other.replace((town, 1)).into_iter().for_each(|(_, count)| see(count));
                }
            }
        }
    }
}

impl Link for Handle {
    fn create(&mut self, table: Table) -> Outcome<()> {
        self.0.write(|tx| DynamicTable::create(tx, &definition(table)))?;
        Ok(())
    }

    fn insert(&mut self, table: Table, in_one: bool, next: NextRow<'_>) -> Outcome<()> {
        let table = DynamicTable::expect(&self.0.snapshot()?, table.name())?;
        let mut row = Vec::new();
        let mut tx = self.0.begin()?;
        while next(&mut row) {
            let values: Vec<_> = row.iter().map(value).collect();
            table.insert(&mut tx, &values)?;
            if !in_one {
                std::mem::replace(&mut tx, self.0.begin()?).commit()?;
            }
        }
        tx.commit()?;
        Ok(())
    }

    fn plan(&mut self, _query: Query) -> Outcome<Option<String>> {
        Ok(None)
    }

    fn ask(&mut self, query: Query, next: NextParameter<'_>, see: &mut dyn FnMut(i64)) -> Outcome<()> {
        let first = self.0.snapshot()?;
        let people = DynamicTable::expect(&first, Table::People.name())?;
        let towns = DynamicTable::expect(&first, Table::Towns.name())?;
        while let Some(parameter) = next() {
            let snapshot = self.0.snapshot()?;
            let parameter = value(&parameter);
            match query {
                Query::Key => {
                    if let Some(age) = people.get_with(&snapshot, &[parameter], |row| integer(&row[AGE]))? {
                        see(age?);
                    }
                }
                Query::Index => look_up(&snapshot, &people, ("person_name", AGE), parameter, see)?,
                Query::Range => {
                    let first = integer(&parameter)?;
                    let (low, high) = ([parameter], [Value::Int(first + RANGE)]);
                    let range = KeyRange::between(Bound::Included(&low), Bound::Excluded(&high));
                    let mut scan = people.scan(&snapshot, &range)?;
                    while let Some(age) = scan.next_with(|row| integer(&row[AGE]))? {
                        see(age?);
                    }
                }
                Query::Join => {
                    let mut found = Vec::new();
                    look_up(&snapshot, &towns, ("town_name", 0), parameter, &mut |id| found.push(id))?;
                    for id in found {
                        look_up(&snapshot, &people, ("person_town", AGE), Value::Int(id), see)?;
                    }
                }
                Query::Aggregate => groups(&snapshot, &people, see)?,
            }
        }
        Ok(())
    }

    fn count(&mut self, table: Table) -> Outcome<(u64, i64)> {
        let snapshot = self.0.snapshot()?;
        let table = DynamicTable::expect(&snapshot, table.name())?;
        let mut scan = table.scan(&snapshot, &KeyRange::all())?;
        let (mut count, mut sum) = (0, 0);
        while let Some(id) = scan.next_with(|row| integer(&row[0]))? {
            (count, sum) = (count + 1, sum + id?);
        }
        Ok((count, sum))
    }
    fn statement(&mut self, _sql: &str) -> Outcome<i64> {
        Err(Failure::Unsupported("typed rows in Rust have no SQL"))
    }
}
