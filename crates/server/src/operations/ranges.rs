//! Many records: `/v1/databases/{database}/tables/{table}/entries`.
//!
//! * GET with `key` (several): those records, in that order.
//! * GET with `start`, `end`, `prefix`, `reverse`, `limit`, `cursor`, `keys_only`: a range, or the whole table. With a
//!   limit the last line is a cursor if there are more records. With `value_bytes` longer values are cut.
//! * POST: one line of NDJSON for each record, all in one transaction. With `ttl_ms` a record expires.
//! * DELETE with `start`, `end` or `prefix`: deletes the range without reading it.

use crate::access::tokens::Scope;
use crate::calls::call::Call;
use crate::calls::meanings::{CONFLICT, DONE, FULL, IMPORTED, MISSING};
use crate::calls::operation::{Access, Operation, on_both};
use crate::calls::query::{durability, flag, limit, span};
use crate::data::engine::Engine;
use crate::data::held::{Data, on_table, table_in};
use crate::data::open::Open;
use crate::data::served::Served;
use crate::limits::handoff::hand_off;
use crate::limits::receive::RequestBody;
use crate::limits::room::Room;
use crate::operations::upload::import_lines;
use crate::send::look_ups::LookUps;
use crate::send::records::{Batch, Nothing, Part, Records, RecordsBody, Which};
use crate::watch::observe::Kind;
use crate::wire::digits::from_hex;
use crate::wire::form::{Form, LONGEST_CUT_BYTES, bytes_of, ttl_of};
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::{NDJSON, done, typed};
use crate::wire::target::{decode, names, raw_parameter, raw_parameters};
use axum::http::StatusCode;
use pando::{Expiry, ReadTables, RecordCursor, Span, Table, WriteTables};
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

/// The largest number of keys in one request.
const MOST_KEYS: usize = 1000;
/// The number of records in one response of a transaction: the default and the limit.
const USUAL_IN_TRANSACTION: u64 = 1000;
const MOST_IN_TRANSACTION: u64 = 10_000;
/// The largest size of one response of a transaction, in bytes. Long values, which are read while they are sent, are
/// not included.
const AT_ONCE_BYTES: usize = 4 << 20;

const PATH: &str = "/v1/databases/{database}/tables/{table}/entries";

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[
    on_both!(
        "GET",
        PATH,
        Access::Database(Scope::Read),
        Kind::Range,
        "Get records as NDJSON, from a range or for a list of keys",
        |parts, call, _| Box::pin(get(parts.data(), parts.room(), call)),
    )
    .takes(&[
        "key",
        "start",
        "end",
        "prefix",
        "reverse",
        "limit",
        "cursor",
        "keys_only",
        "value_bytes",
        "transaction",
    ])
    .responses(&[
        (200, "One record on each line; with a limit, the last line has a cursor if there are more"),
        MISSING,
        CONFLICT,
    ])
    .sends(&[NDJSON]),
    on_both!(
        "POST",
        PATH,
        Access::Database(Scope::Write),
        Kind::Range,
        "Import records from NDJSON in one transaction",
        |parts, call, body| Box::pin(import(parts.data(), parts.room(), call, body)),
    )
    .takes(&["content-encoding", "durability"])
    .receives("records")
    .importing()
    .responses(IMPORTED),
    on_both!(
        "DELETE",
        PATH,
        Access::Database(Scope::Write),
        Kind::Range,
        "Delete all records of a range without reading them",
        |parts, call, _| Box::pin(delete(parts.data(), call)),
    )
    .takes(&["start", "end", "prefix", "durability", "transaction"])
    .responses(&[DONE, MISSING, CONFLICT, FULL]),
];

/// Returns the span to delete, which the request must name.
fn span_to_delete(query: Option<&str>) -> Answer<Span> {
    if !names(query).any(|name| name != "durability") {
        let detail =
            "a range is missing: give `start`, `end` or `prefix` (an empty `prefix` means all records)";
        return Err(Problem::bad_request(detail));
    }
    span(query)
}

/// Returns how many bytes of each value are wanted, if not all.
pub fn value_bytes(query: Option<&str>) -> Answer<Option<u64>> {
    let wrong =
        || Problem::bad_request(format!("`value_bytes` must be a whole number up to {LONGEST_CUT_BYTES}"));
    let number = raw_parameter(query, "value_bytes").map(|number| number.parse().map_err(|_| wrong()));
    match number.transpose()? {
        Some(bytes) if bytes > LONGEST_CUT_BYTES => Err(wrong()),
        bytes => Ok(bytes),
    }
}

/// Returns the records that the query names.
fn which(query: Option<&str>) -> Answer<Which> {
    let keys: VecDeque<Vec<u8>> =
        raw_parameters(query, "key").map(|key| Ok(decode(key)?.into_owned())).collect::<Answer<_>>()?;
    if keys.len() > MOST_KEYS {
        return Err(Problem::bad_request(format!("a request can ask for at most {MOST_KEYS} keys")));
    }
    let (span, backwards) = (span(query)?, flag(query, "reverse")?);
    let cursor = raw_parameter(query, "cursor");
    let cursor = cursor.map(|digits| {
        from_hex(digits).ok_or_else(|| {
            Problem::bad_request("`cursor` is not valid; use the one in the last line of the page before")
        })
    });
    let cursor = cursor.transpose()?;
    if !keys.is_empty() {
        // No client may believe that they had an effect.
        let of_ranges = ["start", "end", "prefix", "reverse", "limit", "cursor"];
        if let Some(name) = of_ranges.iter().find(|name| raw_parameter(query, name).is_some()) {
            return Err(Problem::bad_request(format!("`key` and `{name}` exclude each other")));
        }
        return Ok(Which::Keys(keys));
    }
    let rest = match cursor {
        None => span,
        Some(last) if backwards => {
            let end = span.end().map_or(&last[..], |end| end.min(&last[..]));
            Span::between(Bound::Included(span.start()), Bound::Excluded(end))
        }
        Some(mut next) => {
            next.push(0);
            let start = span.start().max(&next);
            Span::between(Bound::Included(start), span.end().map_or(Bound::Unbounded, Bound::Excluded))
        }
    };
    Ok(if backwards { Which::Backwards(rest) } else { Which::Forwards(rest) })
}

async fn get<E: Served>(data: Arc<Data<E>>, room: Arc<Room>, call: Call) -> Answer {
    let target = call.target();
    let query = target.query();
    let (which, limit) = (which(query)?, limit(query)?);
    let form = Form::Ndjson { keys_only: flag(query, "keys_only")?, value_bytes: value_bytes(query)? };
    let (database, name) = (target.database(), target.table()?.into_owned());
    if let Some(token) = call.transaction()? {
        let limit = limit.unwrap_or(USUAL_IN_TRANSACTION).min(MOST_IN_TRANSACTION);
        let read = move |open: &Arc<Open<E>>, tx: &mut E::Transaction| {
            let table = table_in(tx, &name)?;
            let parts = match which {
                Which::Keys(keys) => keys_in_transaction::<E>(open, tx, &table, keys, form)?,
                Which::Forwards(span) => in_transaction::<E>(open, tx, &table, span, false, form, limit)?,
                Which::Backwards(span) => in_transaction::<E>(open, tx, &table, span, true, form, limit)?,
            };
            Ok(parts)
        };
        let parts = data.transactions.run(database, &token, read).await?;
        return Ok(typed(NDJSON, RecordsBody::response(&room, Nothing, parts).await?));
    }
    let (open, table) = data.table(database, &name).await?;
    let begun =
        hand_off(move || on_table(&open, table, |table| Records::begin(&open, table, &which, form, limit)));
    let (records, first) = begun.await?;
    Ok(typed(NDJSON, RecordsBody::response(&room, records, first).await?))
}

/// Returns what a transaction sees of a span, including its own writes. The result is limited by memory. A long value
/// ends it and is read while it is sent.
fn in_transaction<E: Engine>(
    open: &Arc<Open<E>>,
    tx: &E::Transaction,
    table: &Table,
    span: Span,
    backwards: bool,
    form: Form,
    limit: u64,
) -> Answer<VecDeque<Part>> {
    let mut cursor = tx.cursor(table, span)?;
    let mut batch = Batch::default();
    for count in 0.. {
        if !(if backwards { cursor.retreat()? } else { cursor.advance()? }) {
            break;
        }
        if count == limit || batch.bytes() > AT_ONCE_BYTES || batch.has_long() {
            batch.write_cursor(form);
            break;
        }
        batch.add(form, &mut cursor, |key| life::<E>(tx, table, key), open)?;
    }
    Ok(batch.into_parts(form))
}

/// Returns when the entry of `key` expires, if its table has a TTL by key.
fn life<E: Engine>(tx: &E::Transaction, table: &Table, key: &[u8]) -> pando::Result<Option<Expiry>> {
    if table.has_ttl_by_key() { E::expiry_in(tx, table, key) } else { Ok(None) }
}

/// Returns what a transaction sees of some keys.
fn keys_in_transaction<E: Engine>(
    open: &Arc<Open<E>>,
    tx: &E::Transaction,
    table: &Table,
    mut keys: VecDeque<Vec<u8>>,
    form: Form,
) -> Answer<VecDeque<Part>> {
    let (mut parts, mut batch, mut bytes) = (VecDeque::new(), Batch::default(), 0);
    let mut look_ups = LookUps::default();
    let look_up = |keys: &[_], found: &mut _| E::look_up_in(tx, table, keys, found);
    while let Some((key, found)) = look_ups.next(&mut keys, look_up)? {
        batch.add_found(form, &key, found, life::<E>(tx, table, &key)?, open)?;
        if bytes + batch.bytes() > AT_ONCE_BYTES {
            let detail = format!(
                "within a transaction a response has at most {AT_ONCE_BYTES} bytes; ask for fewer keys"
            );
            return Err(Problem::bad_request(detail));
        }
        if batch.has_long() {
            bytes += batch.bytes();
            parts.append(&mut std::mem::take(&mut batch).into_parts(form));
        }
    }
    parts.append(&mut batch.into_parts(form));
    Ok(parts)
}

async fn delete<E: Served>(data: Arc<Data<E>>, call: Call) -> Answer {
    let target = call.target();
    let durability = durability::<E>(target.query(), data.durability)?;
    let span = span_to_delete(target.query())?;
    let (database, name) = (target.database(), target.table()?.into_owned());
    if let Some(token) = call.transaction()? {
        let delete = move |tx: &mut E::Transaction| {
            let table = table_in(tx, &name)?;
            Ok(tx.delete_range(&table, span)?)
        };
        data.transactions.run(database, &token, move |_, tx| delete(tx)).await?;
        return Ok(done(None));
    }
    let (open, table) = data.table(database, &name).await?;
    let ((), number) = hand_off(move || {
        on_table(&open, table, |table| {
            E::write(&open.db, durability, |tx| Ok(tx.delete_range(table, span.clone())?))
        })
    })
    .await?;
    Ok(done(number))
}

async fn import<E: Served>(data: Arc<Data<E>>, room: Arc<Room>, call: Call, body: RequestBody) -> Answer {
    call.no_part_of_transactions("an import, which is a transaction of its own, is")?;
    let target = call.target();
    let durability = durability::<E>(target.query(), data.durability)?;
    let name = target.table()?.into_owned();
    // This check comes before the body, so that no client sends megabytes to a missing table.
    let (open, table) = data.table(target.database(), &name).await?;
    // A body may arrive slowly. Over a store, the commit checks the table.
    let mut found = E::HOLDS_CONNECTIONS.then_some(table);
    let (known, sought) = (Arc::clone(&open), name.clone());
    let store = move |tx: &mut E::Transaction, line: &[u8]| {
        let table = match &mut found {
            Some(table) => table,
            none => none.insert(table_in(tx, &sought)?),
        };
        store_record::<E>(tx, table, line)
    };
    let imported = import_lines(&room, open, durability, body, store).await;
    if imported.as_ref().is_err_and(|problem| problem.status == StatusCode::NOT_FOUND) {
        // The table was dropped or renamed: the client's next attempt finds what is there then.
        known.forget(&name);
    }
    imported
}

fn store_record<E: Engine>(tx: &mut E::Transaction, table: &Table, line: &[u8]) -> Answer<()> {
    let record: Map<String, Value> =
        serde_json::from_slice(line).map_err(|error| Problem::bad_request(error.to_string()))?;
    let key = bytes_of(&record, "key").map_err(Problem::bad_request)?;
    let value = bytes_of(&record, "value").map_err(Problem::bad_request)?;
    let (Some(key), Some(value)) = (key, value) else {
        return Err(Problem::bad_request("a record needs `key` and `value`, or `key_hex` and `value_hex`"));
    };
    match ttl_of(&record).map_err(Problem::bad_request)? {
        Some(ttl) => Ok(E::put_with_ttl(tx, table, &key, &value, ttl)?),
        None => Ok(tx.put(table, &key, &value)?),
    }
}
