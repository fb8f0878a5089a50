//! `/v1/databases/{database}/consumers`: positions in the changes of a database, which the server keeps for clients.
//!
//! A handle of a consumer is open for the time of a request only. So a client needs no connection of its own to keep
//! its position, and two requests that change the same consumer at once are refused rather than mixed.

use crate::access::tokens::Scope;
use crate::calls::call::Call;
use crate::calls::meanings::MISSING;
use crate::calls::operation::{Access, Operation};
use crate::data::held::Data;
use crate::data::open::Open;
use crate::limits::handoff::hand_off;
use crate::watch::observe::Kind;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::{empty, json};
use crate::wire::target::raw_parameter;
use axum::http::StatusCode;
use pando::changes::ConsumerInfo;
use pando::remote::Capability;
use pando::{Error, ErrorKind};
use serde_json::{Value, json as object};
use std::sync::Arc;

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[
    Operation::new(
        "GET",
        "/v1/databases/{database}/consumers",
        Access::Database(Scope::Read),
        Kind::Other,
        "List the consumers of changes with their positions",
        |parts, call, _| Box::pin(list(parts.data(), call)),
    )
    .needs(Capability::Changes)
    .responses(&[(200, "JSON"), MISSING]),
    Operation::new(
        "GET",
        "/v1/databases/{database}/consumers/{consumer}",
        Access::Database(Scope::Read),
        Kind::Other,
        "Get the position of a consumer of changes",
        |parts, call, _| Box::pin(get(parts.data(), call)),
    )
    .needs(Capability::Changes)
    .responses(&[(200, "JSON"), (404, "There is no such database, or no such consumer")]),
    Operation::new(
        "PUT",
        "/v1/databases/{database}/consumers/{consumer}",
        Access::Database(Scope::Write),
        Kind::Other,
        "Acknowledge commits for a consumer of changes, and create it if it does not exist",
        |parts, call, _| Box::pin(put(parts.data(), call)),
    )
    .needs(Capability::Changes)
    .takes(&["acknowledge"])
    .on_replicas()
    .responses(&[
        (200, "The consumer"),
        (201, "The consumer, which was created after the newest commit"),
        MISSING,
        (410, "The consumer has fallen behind too far: delete it, and begin again"),
    ]),
    Operation::new(
        "DELETE",
        "/v1/databases/{database}/consumers/{consumer}",
        Access::Database(Scope::Write),
        Kind::Other,
        "Delete a consumer of changes",
        |parts, call, _| Box::pin(delete(parts.data(), call)),
    )
    .needs(Capability::Changes)
    .on_replicas()
    .sends(&[])
    .responses(&[(204, "It is gone"), (404, "There is no such database, or no such consumer")]),
];

/// Handles GET of all.
async fn list(data: Arc<Data>, call: Call) -> Answer {
    let open = data.database(call.target().database()).await?;
    let consumers = hand_off(move || Ok(open.db.consumers()?)).await?;
    let consumers: Vec<Value> = consumers.iter().map(describe).collect();
    Ok(json(StatusCode::OK, &object!({ "consumers": consumers })))
}

/// Handles GET of one.
async fn get(data: Arc<Data>, call: Call) -> Answer {
    let name = call.target().table()?.into_owned();
    let open = data.database(call.target().database()).await?;
    let consumer = hand_off(move || find(&open, &name)).await?;
    Ok(json(StatusCode::OK, &describe(&consumer)))
}

/// Handles PUT.
async fn put(data: Arc<Data>, call: Call) -> Answer {
    let name = call.target().table()?.into_owned();
    let wrong = |_| Problem::bad_request("`acknowledge` must be the number of a commit");
    let digits = raw_parameter(call.target().query(), "acknowledge");
    let commit = digits.map(|digits| digits.parse::<u64>().map_err(wrong)).transpose()?;
    let open = data.database(call.target().database()).await?;
    hand_off(move || {
        let is_new = !open.db.consumers()?.iter().any(|known| known.name == name);
        let mut consumer = open.db.consumer(&name)?;
        let acknowledged = commit.map_or(Ok(()), |commit| consumer.acknowledge(commit));
        drop(consumer);
        if let Err(error) = acknowledged {
            // A request that is refused leaves no consumer, which would keep the log from now on.
            if is_new {
                open.db.drop_consumer(&name)?;
            }
            return Err(error.into());
        }
        let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
        Ok(json(status, &describe(&find(&open, &name)?)))
    })
    .await
}

/// Handles DELETE.
async fn delete(data: Arc<Data>, call: Call) -> Answer {
    let name = call.target().table()?.into_owned();
    let open = data.database(call.target().database()).await?;
    hand_off(move || Ok(open.db.drop_consumer(&name)?)).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// Returns the consumer of this name.
///
/// # Errors
/// 404 if there is none.
pub fn find(open: &Open, name: &str) -> Answer<ConsumerInfo> {
    let missing = || Error::new(ErrorKind::Missing, format!("there is no consumer {name:?}"));
    Ok(open.db.consumers()?.into_iter().find(|known| known.name == name).ok_or_else(missing)?)
}

fn describe(consumer: &ConsumerInfo) -> Value {
    let ConsumerInfo { name, position, is_lost, .. } = consumer;
    object!({ "name": name, "position": position, "is_lost": is_lost })
}
