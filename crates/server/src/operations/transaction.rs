//! Interactive transactions: POST begins one, the header `pando-transaction` uses it, and a commit or DELETE ends it.

use crate::access::tokens::Scope;
use crate::calls::call::{Call, json_body};
use crate::calls::meanings::{CONFLICT, DONE, FULL, LATE, MISSING, TOO_LARGE};
use crate::calls::operation::{Access, Operation, on_both};
use crate::calls::query::durability_of;
use crate::data::engine::Engine;
use crate::data::held::Data;
use crate::data::served::Served;
use crate::limits::receive::RequestBody;
use crate::limits::room::Room;
use crate::watch::observe::Kind;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::{done, json};
use axum::http::StatusCode;
use pando::{Isolation, TransactionOptions};
use serde::Deserialize;
use serde_json::json as object;
use std::sync::Arc;

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[
    on_both!(
        "POST",
        "/v1/databases/{database}/transactions",
        Access::Database(Scope::Write),
        Kind::Transaction,
        "Begin an interactive transaction",
        |parts, call, body| Box::pin(begin(parts.data(), parts.room(), call, body)),
    )
    .receives("transaction")
    .responses(&[
        (201, "JSON: the transaction's token"),
        MISSING,
        TOO_LARGE,
        LATE,
        (429, "Too many are open"),
        FULL,
    ]),
    on_both!(
        "DELETE",
        "/v1/databases/{database}/transactions/{transaction}",
        Access::Database(Scope::Write),
        Kind::Transaction,
        "Roll back a transaction",
        |parts, call, _| Box::pin(roll_back(parts.data(), call)),
    )
    .responses(&[DONE, MISSING, CONFLICT]),
    on_both!(
        "POST",
        "/v1/databases/{database}/transactions/{transaction}/commit",
        Access::Database(Scope::Write),
        Kind::Transaction,
        "Commit a transaction",
        |parts, call, _| Box::pin(commit(parts.data(), call)),
    )
    .responses(&[(200, "JSON: the commit"), MISSING, CONFLICT, FULL]),
];

/// The options of a new transaction.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Begin {
    durability: Option<String>,
    isolation: Option<String>,
}

/// Handles POST: begins a transaction.
async fn begin<E: Served>(data: Arc<Data<E>>, room: Arc<Room>, call: Call, body: RequestBody) -> Answer {
    let name = call.target().database().to_owned();
    let (begin, _): (Begin, _) = json_body(&room.reception, body).await?;
    let open = data.database(&name).await?;
    let mut options = TransactionOptions { durability: data.durability, ..E::transaction_options(&open.db) };
    if let Some(word) = &begin.durability {
        options.durability = durability_of(word)?;
        E::check_durability(options.durability)?;
    }
    options.isolation = match begin.isolation.as_deref() {
        None => options.isolation,
        Some("serializable") => Isolation::Serializable,
        Some("snapshot") => Isolation::Snapshot,
        Some(_) => return Err(Problem::bad_request("`isolation` must be serializable or snapshot")),
    };
    let token = data.transactions.begin(&name, open, options).await?;
    let idle = data.transactions.idle().as_secs();
    Ok(json(StatusCode::CREATED, &object!({ "transaction": token, "idle_timeout_s": idle })))
}

/// Handles DELETE: rolls back the transaction.
async fn roll_back<E: Engine>(data: Arc<Data<E>>, call: Call) -> Answer {
    let ended = data.transactions.end(call.target().database(), call.target().second(), |given_up| {
        drop(given_up);
        Ok(())
    });
    ended.await?;
    Ok(done(None))
}

/// Handles POST: commits the transaction. A conflict ends it too; the client must begin a new one.
async fn commit<E: Engine>(data: Arc<Data<E>>, call: Call) -> Answer {
    let commit = |transaction: E::Transaction| Ok(E::commit(transaction)?);
    let number = data.transactions.end(call.target().database(), call.target().second(), commit).await?;
    Ok(json(StatusCode::OK, &object!({ "commit": number })))
}
