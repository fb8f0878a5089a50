//! `/v1/history` and `/v1/databases/{database}/history`: the figures of the last hour, a point each five seconds.

use crate::access::tokens::Scope;
use crate::calls::call::Call;
use crate::calls::meanings::MISSING;
use crate::calls::operation::{Access, Operation};
use crate::data::held::Data;
use crate::limits::handoff::hand_off;
use crate::watch::observe::Kind;
use crate::watch::watcher::Watch;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::json;
use crate::wire::target::raw_parameter;
use axum::http::StatusCode;
use pando::remote::Capability;
use std::sync::Arc;

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[
    Operation::new(
        "GET",
        "/v1/history",
        Access::Any,
        Kind::Other,
        "Get requests, latencies and memory of the last hour, a point each five seconds",
        |parts, call, _| Box::pin(of_server(parts.watch(), call)),
    )
    .needs(Capability::Statistics)
    .takes(&["point"])
    .responses(&[(200, "JSON: a list for each figure, the oldest point first")]),
    Operation::new(
        "GET",
        "/v1/databases/{database}/history",
        Access::Database(Scope::Read),
        Kind::Other,
        "Get commits, reads, sizes and debt of the last hour, a point each five seconds",
        |parts, call, _| Box::pin(of_database(parts.data(), parts.watch(), call)),
    )
    .needs(Capability::Statistics)
    .takes(&["point"])
    .responses(&[(200, "JSON: a list for each figure, the oldest point first"), MISSING]),
];

fn after(query: Option<&str>) -> Answer<Option<u64>> {
    let wrong = |_| Problem::bad_request("`after` must be the number of a point");
    raw_parameter(query, "after").map(|digits| digits.parse().map_err(wrong)).transpose()
}

async fn of_server(watch: Arc<Watch>, call: Call) -> Answer {
    let after = after(call.target().query())?;
    // Thousands of numbers are written.
    Ok(json(StatusCode::OK, &hand_off(move || Ok(watch.history.server(after))).await?))
}

async fn of_database(data: Arc<Data>, watch: Arc<Watch>, call: Call) -> Answer {
    let (after, name) = (after(call.target().query())?, call.target().database().to_owned());
    // A database that is closed has a history all the same, so it is not opened.
    let shown = hand_off(move || {
        data.databases.check_exists(&name)?;
        Ok(watch.history.database(&name, after))
    });
    Ok(json(StatusCode::OK, &shown.await?))
}
