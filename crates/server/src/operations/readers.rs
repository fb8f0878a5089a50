//! `/v1/databases/{database}/readers`: the open snapshots and transactions, and the end of one that keeps too much.

use crate::access::tokens::Scope;
use crate::calls::call::Call;
use crate::calls::meanings::{DONE, MISSING};
use crate::calls::operation::{Access, Operation};
use crate::data::held::Data;
use crate::limits::handoff::hand_off;
use crate::watch::observe::Kind;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::{done, json};
use axum::http::StatusCode;
use pando::ReaderId;
use pando::remote::Capability;
use serde_json::{Value, json as object};
use std::sync::Arc;

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[
    Operation::new(
        "GET",
        "/v1/databases/{database}/readers",
        Access::Database(Scope::Read),
        Kind::Other,
        "List open snapshots and transactions",
        |parts, call, _| Box::pin(list(parts.data(), call)),
    )
    .needs(Capability::Readers)
    .responses(&[(200, "JSON"), MISSING]),
    Operation::new(
        "DELETE",
        "/v1/databases/{database}/readers/{reader}",
        Access::Database(Scope::Admin),
        Kind::Other,
        "End an open snapshot or transaction: a transaction is rolled back, and a snapshot expires",
        |parts, call, _| Box::pin(end(parts.data(), call)),
    )
    .needs(Capability::Readers)
    .on_replicas()
    .responses(&[DONE, (404, "There is no such database, or no such reader: it has ended")]),
];

/// Handles GET.
async fn list(data: Arc<Data>, call: Call) -> Answer {
    let name = call.target().database().to_owned();
    let open = data.database(&name).await?;
    let described = hand_off(move || {
        let held = data.transactions.of(&name);
        let describe = |reader: &pando::OpenReader| {
            let idle = held.iter().find(|(id, _)| *id == reader.id).map(|(_, idle)| *idle);
            object!({
                "id": reader.id.to_string(),
                "is_transaction": reader.is_transaction,
                // Of an interactive transaction: how long no request has used it.
                "idle_ms": idle.map(|idle| idle.as_millis() as u64),
                "age_ms": reader.age.as_millis() as u64,
                "commit": reader.commit,
                "memory_bytes": reader.memory_bytes,
                "space_bytes": reader.space_bytes,
                "in_call": reader.in_call,
                "expired": reader.expired,
            })
        };
        let list: Vec<Value> = open.db.readers()?.iter().map(describe).collect();
        Ok(object!({ "readers": list }))
    });
    Ok(json(StatusCode::OK, &described.await?))
}

/// Handles DELETE. The client of an interactive transaction learns that there is no such transaction, and that of any
/// other reader that its snapshot is too old.
async fn end(data: Arc<Data>, call: Call) -> Answer {
    let name = call.target().database().to_owned();
    let missing = || Problem::not_found("there is no open reader with this id: it has ended or expired");
    let id: ReaderId = call.target().second().parse().map_err(|_| missing())?;
    let open = data.database(&name).await?;
    let ended = hand_off(move || {
        // A transaction that a request uses at this moment is not found, but loses its snapshot all the same.
        let is_ended = data.transactions.give_up(&name, id) | open.db.expire_reader(id)?;
        if is_ended { Ok(()) } else { Err(missing()) }
    });
    ended.await?;
    Ok(done(None))
}
