//! The typed tables of a database: columns, keys and indexes.

use crate::access::auth::Scope;
use crate::calls::call::Call;
use crate::calls::meanings::MISSING;
use crate::calls::operation::{Access, Operation};
use crate::data::held::Data;
use crate::limits::handoff::hand_off;
use crate::watch::observe::Kind;
use crate::wire::problem::Answer;
use crate::wire::response::json;
use axum::http::StatusCode;
use rows::{DynamicTable, Part};
use serde_json::{Value as Json, json as object};
use std::sync::Arc;

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[Operation::new(
    "GET",
    "/v1/databases/{database}/documents",
    Access::Database(Scope::Read),
    Kind::Range,
    "List the typed tables with their columns, keys and indexes",
    |parts, call, _| Box::pin(all(parts.data(), call)),
)
.answers(&[(200, "JSON"), MISSING])];

/// Handles GET.
async fn all(data: Arc<Data>, call: Call) -> Answer {
    let open = data.database(call.target().database()).await?;
    let tables = hand_off(move || {
        let tables = DynamicTable::all(&open.db.snapshot()?)?;
        Ok(tables.iter().map(describe).collect::<Vec<_>>())
    });
    Ok(json(StatusCode::OK, &object!({ "tables": tables.await? })))
}

fn describe(table: &DynamicTable) -> Json {
    let part = |part: &Part| {
        let descending = part.is_descending().then_some(true);
        let mut shown = object!({ "column": part.column() });
        let members = shown.as_object_mut().expect("it is one");
        members.extend(descending.map(|is| ("descending".to_owned(), is.into())));
        members.extend(part.pointer().map(|pointer| ("pointer".to_owned(), pointer.into())));
        shown
    };
    let schema = table.schema();
    let columns = schema.columns().map(|column| {
        object!({
            "name": column.name(),
            "type": column.column_type().to_string(),
            "nullable": column.is_nullable(),
            "default": column.default_value().map(|value| value.to_json(column.column_type())),
        })
    });
    let indexes = schema.indexes().iter().map(|index| {
        let parts: Vec<Json> = index.parts().iter().map(part).collect();
        object!({
            "name": index.name(),
            "parts": parts,
            "unique": index.is_unique(),
            "building": index.is_building(),
        })
    });
    object!({
        "name": table.name(),
        "columns": columns.collect::<Vec<_>>(),
        "key": schema.key().iter().map(part).collect::<Vec<_>>(),
        "indexes": indexes.collect::<Vec<_>>(),
    })
}
