//! `list_tables` and `describe_table`.

use crate::arguments::Arguments;
use crate::failure::{Failure, Outcome};
use crate::held::Held;
use pando::{Snapshot, Table};
use rows::DynamicTable;
use serde_json::{Value, json};

/// Tables: those with columns, typed or made by SQL, and those of keys and values, which are bytes. Views, and tables
/// that cannot be read as typed ones, are left out.
pub fn list(held: &Held, _: &Arguments) -> Outcome<Value> {
    let snapshot = held.db.snapshot()?;
    let typed = DynamicTable::all(&snapshot)?;
    let typed: Vec<Value> = typed.iter().map(|table| json!({ "name": table.name() })).collect();
    let plain = snapshot.tables()?;
    let plain = plain.iter().filter(|table| !rows::is_reserved(table.name()));
    let plain = plain.map(|table| describe_plain(&snapshot, table)).collect::<Outcome<Vec<_>>>()?;
    Ok(json!({ "typed_tables": typed, "plain_tables": plain, "writes_allowed": held.may_write() }))
}

/// Describes one table: the columns, key and indexes of a typed one; the layout of one of keys and values.
pub fn one(held: &Held, arguments: &Arguments) -> Outcome<Value> {
    let name = arguments.text("table")?;
    let snapshot = held.db.snapshot()?;
    if let Some(table) = DynamicTable::all(&snapshot)?.iter().find(|table| table.name() == name) {
        return Ok(describe_typed(table));
    }
    describe_plain(&snapshot, &plain_table(&snapshot, name)?)
}

/// Returns the table of keys and values of that name.
///
/// # Errors
/// If there is none, or if it belongs to a typed table.
pub fn plain_table(snapshot: &Snapshot, name: &str) -> Outcome<Table> {
    rows::refuse_reserved(name)?;
    if let Some(table) = snapshot.table(name)? {
        return Ok(table);
    }
    if DynamicTable::all(snapshot)?.iter().any(|table| table.name() == name) {
        return Err(Failure(format!("{name:?} is a typed table; read and write it with SQL")));
    }
    Err(Failure::no_table(name))
}

fn describe_plain(snapshot: &Snapshot, table: &Table) -> Outcome<Value> {
    Ok(json!({
        "name": table.name(),
        "kind": "plain",
        "layout": table.layout().to_string(),
        "ttl_seconds": table.ttl().map(|ttl| ttl.as_secs_f64()),
        "approximate_records": snapshot.approximate_len(table)?,
    }))
}

fn describe_typed(table: &DynamicTable) -> Value {
    let mut described = table.schema().to_json();
    described["name"] = table.name().into();
    described["kind"] = "typed".into();
    described
}
