//! `POST /v1/promote`: makes a replica a primary.

use crate::access::tokens::Scope;
use crate::calls::operation::{Access, Operation};
use crate::data::followers::Followers;
use crate::limits::handoff::hand_off;
use crate::watch::observe::Kind;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::json;
use axum::http::StatusCode;
use pando::remote::Capability;
use serde_json::{Map, json as object};
use std::sync::Arc;

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[Operation::new(
    "POST",
    "/v1/promote",
    Access::All(Scope::Admin),
    Kind::Other,
    "Make a replica a primary: it stops following, and accepts writes",
    |parts, _, _| Box::pin(promote(parts.followers.clone())),
)
.needs(Capability::Replicas)
.responses(&[
    (200, "JSON: the databases with their last commits"),
    (409, "The server did not begin as a replica"),
])
.on_replicas()
.timed()];

/// Handles POST.
async fn promote(followers: Option<Arc<Followers>>) -> Answer {
    let Some(followers) = followers else {
        let detail = "this server did not begin as a replica: it accepts writes already";
        return Err(Problem::new(StatusCode::CONFLICT, "not-a-replica", detail));
    };
    let databases = hand_off(move || followers.promote()).await?;
    let databases: Map<_, _> = databases.into_iter().map(|(name, commit)| (name, commit.into())).collect();
    Ok(json(StatusCode::OK, &object!({ "role": "primary", "databases": databases })))
}
