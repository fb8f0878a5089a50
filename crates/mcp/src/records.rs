//! `get`, `scan`, `put`, `delete`, and `explain` of a key.

use crate::arguments::Arguments;
use crate::describe::plain_table;
use crate::failure::{Failure, Outcome};
use crate::held::Held;
use crate::shown::{Object, add_bytes, add_value};
use pando::{Span, ValueReader};
use serde_json::{Value, json};
use std::io::Read;
use std::ops::Bound;

/// How many bytes of a value are shown unless the call asks for more.
pub const VALUE_BYTES: usize = 4096;
/// How many records a scan returns unless the call says otherwise.
pub const RECORDS: usize = 100;
/// The most records that a call may ask for.
pub const MOST_RECORDS: usize = 10_000;

/// Runs the tool `get`.
pub fn get(held: &Held, arguments: &Arguments) -> Outcome<Value> {
    let (name, key) = (arguments.text("table")?, arguments.bytes("key")?);
    let limit = arguments.number("value_limit", VALUE_BYTES, held.options.result_bytes)?;
    let snapshot = held.db.snapshot()?;
    let table = plain_table(&snapshot, name)?;
    let mut found = Object::new();
    let reader = snapshot.value_reader(&table, &key)?;
    found.insert("found".to_owned(), reader.is_some().into());
    if let Some(reader) = reader {
        let len = reader.len_bytes();
        add_value(&mut found, &first_bytes(reader, limit)?, len);
    }
    Ok(found.into())
}

/// Returns at most `limit` bytes of a value that may have gigabytes.
fn first_bytes(reader: ValueReader, limit: usize) -> Outcome<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = reader.take(limit as u64).read_to_end(&mut bytes);
    read.map_err(|error| Failure(format!("reading the value: {error}")))?;
    Ok(bytes)
}

/// Runs the tool `scan`. The result ends at the limit, or once it has [`Options::result_bytes`](crate::Options): then
/// `next` is where to go on.
pub fn scan(held: &Held, arguments: &Arguments) -> Outcome<Value> {
    let limit = arguments.number("limit", RECORDS, MOST_RECORDS)?;
    let value_limit = arguments.number("value_limit", VALUE_BYTES, held.options.result_bytes)?;
    let is_reverse = arguments.flag("reverse")?;
    let snapshot = held.db.snapshot()?;
    let table = plain_table(&snapshot, arguments.text("table")?)?;
    let mut cursor = snapshot.cursor(&table, span_of(arguments)?)?;
    let (mut records, mut bytes, mut next) = (Vec::new(), 0, None);
    while if is_reverse { cursor.retreat()? } else { cursor.advance()? } {
        let (Some(key), Some(len)) = (cursor.key(), cursor.value_len()) else { break };
        let size = key.len() + value_limit.min(usize::try_from(len).unwrap_or(usize::MAX));
        // A first record that is too long by itself is shown all the same: otherwise no scan would pass it.
        if records.len() == limit || (bytes + size > held.options.result_bytes && !records.is_empty()) {
            let mut at = Object::new();
            add_bytes(&mut at, if is_reverse { "last" } else { "start" }, key);
            next = Some(at);
            break;
        }
        let mut record = Object::new();
        add_bytes(&mut record, "key", key);
        let Some(reader) = cursor.value_reader()? else { break };
        add_value(&mut record, &first_bytes(reader, value_limit)?, len);
        bytes += size;
        records.push(record);
    }
    Ok(json!({ "records": records, "next": next }))
}

/// Returns the span from `start` on, before `end` or up to `last`; or that of a prefix.
fn span_of(arguments: &Arguments) -> Outcome<Span> {
    let [prefix, start, end, last] =
        ["prefix", "start", "end", "last"].map(|name| arguments.optional_bytes(name));
    let (prefix, start, end, last) = (prefix?, start?, end?, last?);
    if end.is_some() && last.is_some() {
        return Err(Failure::argument("give \"end\" (exclusive) or \"last\" (inclusive), but not both"));
    }
    let span = prefix.map_or_else(Span::all, |prefix| Span::prefix(&prefix));
    let span = start.map_or(span.clone(), |start| span.starting(Bound::Included(&start)));
    // The key after `last` is `last` with a zero appended.
    let end = end.or_else(|| last.map(|last| [&last[..], &[0]].concat()));
    Ok(end.map_or(span.clone(), |end| span.until(&end)))
}

/// Runs the tool `put`: stores one record, in a transaction of its own.
pub fn put(held: &Held, arguments: &Arguments) -> Outcome<Value> {
    let (name, key, value) = (arguments.text("table")?, arguments.bytes("key")?, arguments.bytes("value")?);
    rows::refuse_reserved(name)?;
    let replaced = held.db.write(|tx| {
        let table = tx.table(name)?;
        let Some(table) = table else { return Ok(None) };
        let replaced = tx.contains(&table, &key)?;
        tx.put(&table, &key, &value)?;
        Ok(Some(replaced))
    })?;
    let replaced = replaced.ok_or_else(|| Failure::no_table(name))?;
    Ok(json!({ "replaced": replaced }))
}

/// Runs the tool `delete`: deletes one record, in a transaction of its own.
pub fn delete(held: &Held, arguments: &Arguments) -> Outcome<Value> {
    let (name, key) = (arguments.text("table")?, arguments.bytes("key")?);
    rows::refuse_reserved(name)?;
    let deleted = held.db.write(|tx| {
        let Some(table) = tx.table(name)? else { return Ok(None) };
        let deleted = tx.contains(&table, &key)?;
        tx.delete(&table, &key)?;
        Ok(Some(deleted))
    })?;
    let deleted = deleted.ok_or_else(|| Failure::no_table(name))?;
    Ok(json!({ "deleted": deleted }))
}

/// Runs the tool `create_table`: creates a table of keys and values.
pub fn create_table(held: &Held, arguments: &Arguments) -> Outcome<Value> {
    let name = arguments.text("table")?;
    rows::refuse_reserved(name)?;
    let layout = match arguments.optional_text("layout")? {
        None => pando::Layout::default(),
        Some(text) => text.parse().map_err(|_| Failure::argument("\"layout\" must be btree or lsm"))?,
    };
    held.db.create_table(name, &pando::TableOptions::with_layout(layout))?;
    Ok(json!({ "created": name }))
}

/// Explains a look-up of a key in a table of keys and values, step by step.
pub fn explain(held: &Held, name: &str, key: &[u8]) -> Outcome<Value> {
    let snapshot = held.db.snapshot()?;
    let table = plain_table(&snapshot, name)?;
    let explanation = held.db.explain_get(&table, key)?;
    let steps = explanation.steps.iter().map(
        |step| json!({ "step": step.what, "outcome": step.outcome, "microseconds": step.ns as f64 / 1e3 }),
    );
    let steps: Vec<Value> = steps.collect();
    Ok(json!({ "steps": steps }))
}
