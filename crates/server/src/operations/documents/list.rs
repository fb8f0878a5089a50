//! The tables of a database whose rows are documents: columns, keys and indexes.

use crate::access::tokens::Scope;
use crate::calls::call::Call;
use crate::calls::meanings::MISSING;
use crate::calls::operation::{Access, Operation, on_both};
use crate::data::held::Data;
use crate::data::served::Served;
use crate::limits::handoff::hand_off;
use crate::watch::observe::Kind;
use crate::wire::problem::Answer;
use crate::wire::response::json;
use axum::http::StatusCode;
use rows::DynamicTable;
use serde_json::{Value as Json, json as object};
use std::sync::Arc;

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[on_both!(
    "GET",
    "/v1/databases/{database}/documents",
    Access::Database(Scope::Read),
    Kind::Range,
    "List the tables that have documents, with their columns, keys and indexes",
    |parts, call, _| Box::pin(all(parts.data(), call)),
)
.responses(&[(200, "JSON"), MISSING])];

/// Handles GET.
async fn all<E: Served>(data: Arc<Data<E>>, call: Call) -> Answer {
    let open = data.database(call.target().database()).await?;
    let tables = hand_off(move || {
        let tables = E::read(&open.db, |snapshot| Ok(DynamicTable::all(&snapshot)?))?;
        Ok(tables.iter().map(describe).collect::<Vec<_>>())
    });
    Ok(json(StatusCode::OK, &object!({ "tables": tables.await? })))
}

fn describe(table: &DynamicTable) -> Json {
    let mut described = table.schema().to_json();
    described["name"] = table.name().into();
    described["read_only"] = table.is_read_only().into();
    described["why_read_only"] = table.why_read_only().into();
    described
}
