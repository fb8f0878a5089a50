//! Batches: `POST /v1/databases/{database}/batch` applies all operations or none, on any number of tables.
//!
//! ```json
//! {"operations": [
//!   {"op": "put", "table": "accounts", "key": "ada", "value": "90"},
//!   {"op": "insert", "table": "ledger", "key": "7", "value": "ada 10"},
//!   {"op": "check", "table": "accounts", "key": "bob", "value": "10"},
//!   {"op": "delete", "table": "queue", "key_hex": "00ff"},
//!   {"op": "delete_range", "table": "log", "start": "a", "end": "b"}
//! ]}
//! ```
//! `insert` requires that the key is absent. `check` requires that it has `value`, or with `"absent": true` that it is
//! absent. Keys and values that are not text are given under their name with the suffix `_hex`.

use crate::access::reserved::refuse_reserved;
use crate::access::tokens::Scope;
use crate::calls::call::{Call, JSON_BYTES, json_body};
use crate::calls::meanings::{CONFLICT, FAILED, FULL, LATE, MISSING, TOO_LARGE};
use crate::calls::operation::{Access, Operation as Entry, on_both};
use crate::calls::query::durability;
use crate::data::conditions::etag;
use crate::data::held::{Data, table_in};
use crate::data::served::Served;
use crate::limits::handoff::hand_off;
use crate::limits::receive::RequestBody;
use crate::limits::room::Room;
use crate::watch::observe::Kind;
use crate::wire::form::bytes_of;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::json;
use axum::http::StatusCode;
use pando::{Span, WriteTables};
use serde::Deserialize;
use serde_json::{Map, Value, json as object};
use std::ops::Bound;
use std::sync::Arc;

const _: () = assert!(JSON_BYTES <= crate::limits::receive::WHOLE_BYTES);

/// The entries of these handlers.
pub const OPERATIONS: &[Entry] = &[on_both!(
    "POST",
    "/v1/databases/{database}/batch",
    Access::Database(Scope::Write),
    Kind::Transaction,
    "Run operations on several tables in one transaction: all or none",
    |parts, call, body| Box::pin(run(parts.data(), parts.room(), call, body)),
)
.takes(&["durability", "transaction"])
.receives("batch")
.responses(&[(200, "JSON: the commit"), MISSING, CONFLICT, FAILED, TOO_LARGE, LATE, FULL])];

/// The body of the request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch {
    operations: Vec<Map<String, Value>>,
}

/// A parsed operation.
#[derive(Debug)]
struct Operation {
    table: String,
    action: Action,
}

#[derive(Debug)]
enum Action {
    Put { key: Vec<u8>, value: Vec<u8> },
    Insert { key: Vec<u8>, value: Vec<u8> },
    Check { key: Vec<u8>, value: Option<Vec<u8>> },
    Delete { key: Vec<u8> },
    DeleteRange(Span),
}

/// Handles POST.
async fn run<E: Served>(data: Arc<Data<E>>, room: Arc<Room>, call: Call, body: RequestBody) -> Answer {
    let durability = durability::<E>(call.target().query(), data.durability)?;
    let (name, transaction) = (call.target().database().to_owned(), call.transaction());
    let (batch, counted): (Batch, _) = json_body(&room.reception, body).await?;
    let operations: Vec<Operation> =
        batch.operations.iter().enumerate().map(|(at, step)| understand(at, step)).collect::<Answer<_>>()?;
    if let Some(token) = transaction? {
        let count = operations.len();
        let run = move |tx: &mut E::Transaction| {
            let _counted = counted;
            all_or_nothing(tx, &operations)
        };
        data.transactions.run(&name, &token, move |_, tx| run(tx)).await?;
        return Ok(json(StatusCode::OK, &object!({ "operations": count })));
    }
    let open = data.database(&name).await?;
    let (count, number) = hand_off(move || {
        let _counted = counted;
        let work = |tx: &mut E::Transaction| perform_all(tx, &operations).map(|()| operations.len());
        E::write(&open.db, durability, work)
    })
    .await?;
    Ok(json(StatusCode::OK, &object!({ "operations": count, "commit": number })))
}

/// Returns the members that an operation may have; `None` if there is no such operation.
fn members_of(op: &str) -> Option<&'static [&'static str]> {
    Some(match op {
        "put" | "insert" => &["op", "table", "key", "key_hex", "value", "value_hex"],
        "delete" => &["op", "table", "key", "key_hex"],
        "check" => &["op", "table", "key", "key_hex", "value", "value_hex", "absent"],
        "delete_range" => &["op", "table", "start", "start_hex", "end", "end_hex", "prefix", "prefix_hex"],
        _ => return None,
    })
}

fn understand(at: usize, step: &Map<String, Value>) -> Answer<Operation> {
    let wrong = |what: String| Problem::bad_request(format!("operation {at}: {what}"));
    let bytes = |name: &str| bytes_of(step, name).map_err(wrong);
    let required =
        |name: &str| bytes(name)?.ok_or_else(|| wrong(format!("`{name}` or `{name}_hex` is missing")));
    let word = |name: &str| {
        step.get(name)
            .and_then(Value::as_str)
            .ok_or_else(|| wrong(format!("`{name}` is missing or not a string")))
    };
    let (table, op) = (word("table")?.to_owned(), word("op")?);
    let known = members_of(op).ok_or_else(|| {
        wrong(format!("{op:?} is not an operation; there are put, insert, check, delete and delete_range"))
    })?;
    // A misspelt member could turn a range into one without an end.
    if let Some(other) = step.keys().find(|name| !known.contains(&&name[..])) {
        return Err(wrong(format!("{op} has no member `{other}`; it has {}", known.join(", "))));
    }
    let action = match op {
        "put" => Action::Put { key: required("key")?, value: required("value")? },
        "insert" => Action::Insert { key: required("key")?, value: required("value")? },
        "delete" => Action::Delete { key: required("key")? },
        "check" => {
            let (value, absent) = (bytes("value")?, step.get("absent"));
            // `"absent": false` would say that the key has some value, which is not checked.
            if value.is_some() == absent.is_some()
                || absent.is_some_and(|absent| *absent != Value::Bool(true))
            {
                return Err(wrong("a check needs either a value or `\"absent\": true`".to_owned()));
            }
            Action::Check { key: required("key")?, value }
        }
        "delete_range" => {
            let (start, end) = (bytes("start")?, bytes("end")?);
            Action::DeleteRange(match bytes("prefix")? {
                Some(_) if start.is_some() || end.is_some() => {
                    return Err(wrong("`prefix` cannot be combined with `start` or `end`".to_owned()));
                }
                Some(prefix) => Span::prefix(&prefix),
                None if start.is_none() && end.is_none() => {
                    return Err(wrong("a range is missing: give `start`, `end` or `prefix`".to_owned()));
                }
                None => Span::between(
                    start.as_deref().map_or(Bound::Unbounded, Bound::Included),
                    end.as_deref().map_or(Bound::Unbounded, Bound::Excluded),
                ),
            })
        }
        other => unreachable!("{other} has members, and no action"),
    };
    // A check only reads.
    if !matches!(action, Action::Check { .. }) {
        refuse_reserved(&table).map_err(|mut problem| {
            problem.detail = format!("operation {at}: {}; nothing was done", problem.detail);
            problem
        })?;
    }
    Ok(Operation { table, action })
}

/// Applies the operations in a client's transaction. If one fails, the transaction continues as it was before the
/// batch.
fn all_or_nothing(tx: &mut impl WriteTables, operations: &[Operation]) -> Answer<()> {
    let before = tx.savepoint();
    let outcome = perform_all(tx, operations);
    if outcome.is_err() {
        tx.rollback_to(&before)?;
    }
    outcome
}

fn perform_all(tx: &mut impl WriteTables, operations: &[Operation]) -> Answer<()> {
    operations.iter().enumerate().try_for_each(|(at, operation)| {
        perform(tx, operation).map_err(|mut problem| {
            problem.detail = format!("operation {at}: {}; nothing was done", problem.detail);
            problem
        })
    })
}

fn perform(tx: &mut impl WriteTables, operation: &Operation) -> Answer<()> {
    let table = table_in(tx, &operation.table)?;
    match &operation.action {
        Action::Put { key, value } => tx.put(&table, key, value)?,
        Action::Insert { key, value } => tx.insert(&table, key, value)?,
        Action::Delete { key } => tx.delete(&table, key)?,
        Action::DeleteRange(span) => tx.delete_range(&table, span.clone())?,
        Action::Check { key, value } => {
            let found = tx.get(&table, key)?;
            if found != *value {
                let found = found
                    .map_or("absent".to_owned(), |found| format!("present, with the tag {}", etag(&found)));
                let shown = String::from_utf8_lossy(key);
                let detail = format!("table {:?}, key {shown:?}: it is {found}", operation.table);
                return Err(Problem::new(StatusCode::PRECONDITION_FAILED, "precondition-failed", detail));
            }
        }
    }
    Ok(())
}
