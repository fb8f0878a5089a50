//! `/v1/databases/{database}/advise`: which layout each table wants, what operations cost in either, and a switch.

use super::{Shared, database, json, place, split};
use crate::limits::handoff::hand_off;
use crate::limits::receive::RequestBody;
use crate::wire::problem::{Answer, Problem};
use crate::wire::target::raw_parameter;
use axum::http::{Method, Request, StatusCode};
use pando::{Advice, Costs, Layout, Operations};
use serde_json::{Value, json as object};

/// GET `?reads=N&scanned=N&writes=N`: as if each table were asked for so much. Without any of them, from what was done
/// with each since the database was opened.
pub async fn run(axum::extract::State(app): Shared, request: Request<RequestBody>) -> Answer {
    let (method, (uri, _), _) = split(request);
    if method != Method::GET {
        return Err(Problem::method_not_allowed());
    }
    let assumed = assumed(uri.query())?;
    let open = database(&app, place::database(uri.path()).unwrap_or_default()).await?;
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
