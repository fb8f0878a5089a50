//! When an entry expires: `/v1/databases/{database}/tables/{table}/expiry/{key}`, in tables with a TTL by key.

use crate::access::tokens::Scope;
use crate::calls::call::Call;
use crate::calls::meanings::{CONFLICT, DONE, FULL, MISSING};
use crate::calls::operation::{Access, Operation};
use crate::calls::query::{durability, entry_ttl};
use crate::data::engine::{Engine, Native};
use crate::data::held::{Data, on_table, table_in};
use crate::limits::handoff::hand_off;
use crate::watch::observe::Kind;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::{done, json};
use axum::http::StatusCode;
use pando::remote::Capability;
use pando::{Expiry, Transaction};
use serde_json::json as object;
use std::sync::Arc;

const PATH: &str = "/v1/databases/{database}/tables/{table}/expiry/{key}";

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[
    Operation::new(
        "GET",
        PATH,
        Access::Database(Scope::Read),
        Kind::Get,
        "Get how long an entry still lives, in milliseconds; `null`: until it is deleted",
        |parts, call, _| Box::pin(get(parts.data(), call)),
    )
    .needs(Capability::TtlByKey)
    .takes(&["transaction"])
    .responses(&[(200, "JSON"), MISSING, CONFLICT]),
    Operation::new(
        "PUT",
        PATH,
        Access::Database(Scope::Write),
        Kind::Put,
        "Set how long an entry lives from now on; without `ttl_ms`, until it is deleted",
        |parts, call, _| Box::pin(put(parts.data(), call)),
    )
    .needs(Capability::TtlByKey)
    .takes(&["durability", "entry_ttl", "transaction"])
    .sends(&[])
    .responses(&[DONE, MISSING, CONFLICT, FULL]),
];

fn missing() -> Problem {
    Problem::not_found("the key does not exist, or has expired")
}

/// Handles GET.
async fn get(data: Arc<Data>, call: Call) -> Answer {
    let target = call.target();
    let (database, name, key) =
        (target.database().to_owned(), target.table()?.into_owned(), target.key()?.into_owned());
    let expiry = match call.transaction()? {
        Some(token) => {
            let read = move |tx: &mut Transaction| Ok(tx.expiry(&table_in(tx, &name)?, &key)?);
            data.transactions.run(&database, &token, move |_, tx| read(tx)).await?
        }
        None => {
            let (open, table) = data.table(&database, &name).await?;
            hand_off(move || on_table(&open, table, |table| Ok(open.db.snapshot()?.expiry(table, &key)?)))
                .await?
        }
    };
    let ttl_ms = match expiry.ok_or_else(missing)? {
        Expiry::Never => None,
        Expiry::In(ttl) => Some(ttl.as_millis() as u64),
    };
    Ok(json(StatusCode::OK, &object!({ "ttl_ms": ttl_ms })))
}

/// Handles PUT.
async fn put(data: Arc<Data>, call: Call) -> Answer {
    let target = call.target();
    let (database, name, key) =
        (target.database().to_owned(), target.table()?.into_owned(), target.key()?.into_owned());
    let (ttl, durability) =
        (entry_ttl(target.query())?, durability::<Native>(target.query(), data.durability)?);
    if let Some(token) = call.transaction()? {
        let change = move |tx: &mut Transaction| {
            let table = table_in(tx, &name)?;
            tx.set_expiry(&table, &key, ttl)?.then_some(()).ok_or_else(missing)
        };
        data.transactions.run(&database, &token, move |_, tx| change(tx)).await?;
        return Ok(done(None));
    }
    let (open, table) = data.table(&database, &name).await?;
    let change = move || {
        on_table(&open, table, |table| {
            Native::write(&open.db, durability, |tx| {
                tx.set_expiry(table, &key, ttl)?.then_some(()).ok_or_else(missing)
            })
        })
    };
    let ((), number) = hand_off(change).await?;
    Ok(done(number))
}
