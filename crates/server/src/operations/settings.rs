//! `/v1/settings`: the options with which the server was started, and what set each.

use crate::access::tokens::Scope;
use crate::calls::operation::{Access, Operation, on_both};
use crate::config::Setting;
use crate::watch::observe::Kind;
use crate::wire::response::json;
use axum::http::StatusCode;
use serde_json::{Value, json as object};
use std::future::ready;

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[on_both!(
    "GET",
    "/v1/settings",
    Access::All(Scope::Admin),
    Kind::Other,
    "List the options of the server with their values and what set them",
    |parts, _, _| {
        let list: Vec<Value> = parts.settings.iter().map(describe).collect();
        Box::pin(ready(Ok(json(StatusCode::OK, &object!({ "settings": list })))))
    },
)
.responses(&[(200, "JSON")])
.at_once()];

fn describe(setting: &Setting) -> Value {
    object!({ "name": setting.name, "value": setting.value, "origin": setting.origin, "help": setting.help })
}
