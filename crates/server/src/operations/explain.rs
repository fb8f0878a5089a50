//! `/v1/databases/{database}/tables/{table}/explain`: repeats a get or a scan and explains it step by step.

use crate::access::tokens::Scope;
use crate::calls::call::Call;
use crate::calls::meanings::MISSING;
use crate::calls::operation::{Access, Operation};
use crate::calls::query::span;
use crate::data::held::{Data, on_table};
use crate::limits::handoff::hand_off;
use crate::limits::room::Room;
use crate::watch::observe::Kind;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::json;
use crate::wire::target::{parameter, raw_parameter};
use axum::http::StatusCode;
use pando::explain::{Explanation, Step};
use pando::remote::Capability;
use serde_json::{Value, json as object};
use std::sync::Arc;

/// The default number of records of a scan.
const USUAL_LIMIT: u64 = 1000;
/// The largest number of records that are read for an explanation.
const MOST_LIMIT: u64 = 100_000;

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[Operation::new(
    "GET",
    "/v1/databases/{database}/tables/{table}/explain",
    Access::Database(Scope::Read),
    Kind::Other,
    "Explain a get or a scan step by step: memtables, filters, pages, time",
    |parts, call, _| Box::pin(run(parts.data(), parts.room(), call)),
)
.needs(Capability::Explain)
.takes(&["one_key", "start", "end", "prefix", "explained"])
.responses(&[(200, "JSON: the steps"), MISSING])];

/// Handles GET `?key=K`, or `?start=S&end=E&prefix=P&limit=N`.
async fn run(data: Arc<Data>, room: Arc<Room>, call: Call) -> Answer {
    let target = call.target();
    let key = parameter(target.query(), "key")?.map(|key| key.into_owned());
    let (span, limit) = (span(target.query())?, limit(target.query())?);
    let (open, table) = data.table(target.database(), &target.table()?).await?;
    let permit = room.stream_permit().await?;
    let explanation = hand_off(move || {
        let _permit = permit;
        on_table(&open, table, |table| {
            Ok(match &key {
                Some(key) => open.db.explain_get(table, key)?,
                None => open.db.explain_scan(table, span.clone(), limit)?,
            })
        })
    });
    Ok(json(StatusCode::OK, &describe(&explanation.await?)))
}

fn limit(query: Option<&str>) -> Answer<u64> {
    let wrong = || Problem::bad_request(format!("`limit` must be 1 to {MOST_LIMIT}"));
    let limit = raw_parameter(query, "limit").map(|number| number.parse().map_err(|_| wrong()));
    match limit.transpose()?.unwrap_or(USUAL_LIMIT) {
        limit @ 1..=MOST_LIMIT => Ok(limit),
        _ => Err(wrong()),
    }
}

fn describe(explanation: &Explanation) -> Value {
    let (resident, read) = explanation.pages();
    let steps: Vec<Value> = explanation.steps.iter().map(step).collect();
    object!({ "steps": steps, "pages_in_memory": resident, "pages_read": read, "ns": explanation.total_ns() })
}

fn step(step: &Step) -> Value {
    let pages: Vec<Value> = step
        .pages
        .iter()
        .map(|page| {
            object!({
                "unit": page.unit,
                "level": page.level,
                "entries": page.entries,
                "bytes": page.bytes,
                "was_resident": page.was_resident,
                "ns": page.ns,
            })
        })
        .collect();
    let Step { what, outcome, bytes, ns, .. } = step;
    object!({ "what": what, "outcome": outcome, "bytes": bytes, "ns": ns, "pages": pages })
}
