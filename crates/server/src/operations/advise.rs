//! `/v1/databases/{database}/advise`: the recommended layout of each table, the costs in each layout, and a switch.

use crate::access::tokens::Scope;
use crate::calls::call::Call;
use crate::calls::meanings::MISSING;
use crate::calls::operation::{Access, Operation};
use crate::data::held::Data;
use crate::limits::handoff::hand_off;
use crate::watch::observe::Kind;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::json;
use crate::wire::target::raw_parameter;
use axum::http::StatusCode;
use pando::remote::Capability;
use pando::{Advice, Costs, Layout, Operations};
use serde_json::{Value, json as object};
use std::sync::Arc;

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[Operation::new(
    "GET",
    "/v1/databases/{database}/advise",
    Access::Database(Scope::Read),
    Kind::Other,
    "Get the recommended layout of each table, the cost of operations in either layout, and of a switch",
    |parts, call, _| Box::pin(run(parts.data(), call)),
)
.needs(Capability::Statistics)
.takes(&["reads", "scanned", "writes"])
.responses(&[(200, "JSON"), MISSING])];

/// Handles GET `?reads=N&scanned=N&writes=N`: the costs if each table had so many operations. Without any of them, the
/// counts since the database was opened are used.
async fn run(data: Arc<Data>, call: Call) -> Answer {
    let assumed = assumed(call.target().query())?;
    let open = data.database(call.target().database()).await?;
    let advice = hand_off(move || Ok(open.db.advise(assumed)?)).await?;
    let tables: Vec<Value> = advice.iter().map(describe).collect();
    Ok(json(StatusCode::OK, &object!({ "tables": tables })))
}

fn assumed(query: Option<&str>) -> Answer<Option<Operations>> {
    let number = |name: &str| {
        let wrong = |_| Problem::bad_request(format!("`{name}` must be a whole number"));
        raw_parameter(query, name).map(|digits| digits.parse::<u64>().map_err(wrong)).transpose()
    };
    let all = [number("reads")?, number("scanned")?, number("writes")?];
    let [gets, moves, writes] = all.map(Option::unwrap_or_default);
    Ok(all.iter().any(Option::is_some).then_some(Operations { gets, moves, writes }))
}

fn describe(of: &Advice) -> Value {
    let Operations { gets, moves, writes } = of.operations;
    object!({
        "table": of.table,
        "layout": of.layout.name(),
        "advised": of.advised.map(Layout::name),
        "operations": { "reads": gets, "scanned": moves, "writes": writes },
        "records": of.records,
        "record_bytes": of.record_bytes,
        "runs": of.runs,
        "get_pages": of.get_pages,
        "space_amplification": of.space_amplification,
        "measured_amplification": of.measured_amplification,
        "btree": costs(of.btree),
        "lsm": costs(of.lsm),
        "even_gets_per_write": of.even_gets_per_write,
        "switch_bytes": of.switch_bytes,
        "switch_seconds": of.switch_seconds,
    })
}

fn costs(of: Costs) -> Value {
    object!({
        "get_ns": of.get_ns,
        "move_ns": of.move_ns,
        "write_ns": of.write_ns,
        "write_amplification": of.write_amplification,
        "pages_per_get": of.pages_per_get,
    })
}
