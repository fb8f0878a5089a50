//! Tables: create, list, alter and drop.

use crate::access::reserved::refuse_reserved;
use crate::access::tokens::Scope;
use crate::calls::call::{Call, json_body};
use crate::calls::meanings::{CONFLICT, DONE, FULL, LATE, MISSING, TOO_LARGE};
use crate::calls::operation::{Access, Operation, on_both};
use crate::data::held::{Data, on_table};
use crate::data::open::Open;
use crate::limits::handoff::hand_off;
use crate::limits::receive::RequestBody;
use crate::limits::room::Room;
#[cfg(feature = "remote")]
use crate::operations::store;
use crate::watch::observe::Kind;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::{done, json};
use axum::http::StatusCode;
use pando::{Compression, Database, Error, ErrorKind, Layout, Snapshot, Table, TableOptions};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json as object};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

const TABLES: &str = "/v1/databases/{database}/tables";
const TABLE: &str = "/v1/databases/{database}/tables/{table}";

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[
    on_both!(
        "GET",
        TABLES,
        Access::Database(Scope::Read),
        Kind::Other,
        "List tables",
        |parts, call, _| Box::pin(all(parts.data(), call)),
        store: |parts, call, _| Box::pin(store::tables::all(parts.data(), call)),
    )
    .responses(&[(200, "JSON"), MISSING]),
    on_both!("GET", TABLE, Access::Database(Scope::Read), Kind::Other, "A table",
        |parts, call, _| Box::pin(look(parts.data(), call)),
        store: |parts, call, _| Box::pin(store::tables::look(parts.data(), call)),
    )
    .responses(&[(200, "JSON"), MISSING]),
    on_both!(
        "PUT",
        TABLE,
        Access::Database(Scope::Write),
        Kind::Other,
        "Create a table",
        |parts, call, body| Box::pin(put(parts.data(), parts.room(), call, body)),
        store: |parts, call, body| Box::pin(store::tables::put(parts.data(), parts.room(), call, body)),
    )
    .receives("table")
    .responses(&[(201, "Made"), (200, "It was there"), MISSING, CONFLICT, TOO_LARGE, LATE, FULL]),
    on_both!(
        "PATCH",
        TABLE,
        Access::Database(Scope::Admin),
        Kind::Other,
        "Alter a table: its name, layout, compression or TTL, while it is in use",
        |parts, call, body| Box::pin(patch(parts.data(), parts.room(), call, body)),
        store: |parts, call, body| Box::pin(store::tables::patch(parts.data(), parts.room(), call, body)),
    )
    .receives("change")
    .responses(&[(200, "JSON"), MISSING, CONFLICT, TOO_LARGE, LATE, FULL]),
    on_both!(
        "DELETE",
        TABLE,
        Access::Database(Scope::Admin),
        Kind::Other,
        "Drop a table and everything in it",
        |parts, call, _| Box::pin(drop_table(parts.data(), call)),
        store: |parts, call, _| Box::pin(store::tables::drop_table(parts.data(), call)),
    )
    .responses(&[DONE, MISSING, CONFLICT, FULL]),
];

/// The options of a new table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Options {
    pub layout: Option<String>,
    pub ttl_ms: Option<u64>,
    pub ttl_by_key: Option<bool>,
    pub compression: Option<String>,
}

/// The requested changes of a table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Change {
    pub name: Option<String>,
    pub layout: Option<String>,
    pub compression: Option<String>,
    /// `null` means that entries live until they are deleted.
    #[serde(deserialize_with = "given")]
    pub ttl_ms: Option<Option<u64>>,
}

/// Deserializes a member that is present, even if it is `null`.
fn given<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(value).map(Some)
}

/// Returns the name of a layout.
fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::BTree => "btree",
        Layout::Lsm => "lsm",
    }
}

/// Parses the name of a layout.
pub(super) fn layout_of(word: &str) -> Answer<Layout> {
    match word {
        "btree" => Ok(Layout::BTree),
        "lsm" => Ok(Layout::Lsm),
        _ => Err(Problem::bad_request("`layout` must be btree or lsm")),
    }
}

/// Parses the name of a compression.
pub(super) fn compression_of(word: &str) -> Answer<Compression> {
    word.parse().map_err(|_| Problem::bad_request("`compression` must be lz4 or none"))
}

/// Returns all tables of a database, each with its operations and their costs since the database was opened.
pub fn list(db: &Database) -> Answer<Vec<Value>> {
    let tables = db.snapshot()?.tables()?;
    let handles: HashMap<&str, &Table> = tables.iter().map(|table| (table.name(), table)).collect();
    let stats = db.table_stats()?;
    let described = stats.iter().filter_map(|stats| {
        // A table that was created between the two looks is listed the next time.
        let table = *handles.get(&stats.name[..])?;
        Some(object!({
            "name": stats.name,
            "layout": layout_name(table.layout()),
            "ttl_ms": ttl_ms(table),
            "compression": table.compression().name(),
            "approximate_entries": stats.approximate_records,
            "gets": stats.gets,
            "scans": stats.scans,
            "writes": stats.writes,
            "committed_bytes": stats.committed_bytes,
            "written_bytes": stats.written_bytes,
            "runs": stats.runs,
            "get_pages": stats.get_pages,
            "record_bytes": stats.record_bytes,
            "stored_bytes": stats.stored_bytes,
            "saved_bytes": stats.saved_bytes,
        }))
    });
    Ok(described.collect())
}

/// Returns the TTL of the table's entries in milliseconds; `None`: they do not expire, or each has its own.
pub(super) fn ttl_ms(table: &Table) -> Option<u64> {
    table.ttl().map(|ttl| ttl.as_millis() as u64)
}

/// Describes one table.
fn describe(snapshot: &Snapshot, table: &Table) -> Answer<Value> {
    Ok(object!({
        "name": table.name(),
        "layout": layout_name(table.layout()),
        "ttl_ms": ttl_ms(table),
        "ttl_by_key": table.has_ttl_by_key(),
        "compression": table.compression().name(),
        "approximate_entries": snapshot.approximate_len(table)?,
    }))
}

/// Handles GET: lists the tables.
async fn all(data: Arc<Data>, call: Call) -> Answer {
    let open = data.database(call.target().database()).await?;
    let tables = hand_off(move || list(&open.db));
    Ok(json(StatusCode::OK, &object!({ "tables": tables.await? })))
}

/// Handles GET: describes one table.
async fn look(data: Arc<Data>, call: Call) -> Answer {
    let (open, table) = data.table(call.target().database(), &call.target().table()?).await?;
    let described = hand_off(move || on_table(&open, table, |table| describe(&open.db.snapshot()?, table)));
    Ok(json(StatusCode::OK, &described.await?))
}

/// Returns the names of the database and of the table to change. Refuses a request within a transaction.
pub(super) fn to_change(call: &Call) -> Answer<(String, String)> {
    call.no_part_of_transactions("creating, altering and dropping a table are")?;
    Ok((call.target().database().to_owned(), call.target().table()?.into_owned()))
}

/// Handles PUT: creates a table.
async fn put(data: Arc<Data>, room: Arc<Room>, call: Call, body: RequestBody) -> Answer {
    let (database, name) = to_change(&call)?;
    let (options, _): (Options, _) = json_body(&room.reception, body).await?;
    let layout = options.layout.as_deref().map(layout_of).transpose()?;
    let compression = options.compression.as_deref().map(compression_of).transpose()?;
    let open = data.database(&database).await?;
    let ttl = options.ttl_ms.map(Duration::from_millis);
    let wanted = RequestedOptions { layout, ttl, ttl_by_key: options.ttl_by_key, compression };
    let (is_new, described) = hand_off(move || create(&open, &name, wanted)).await?;
    Ok(json(if is_new { StatusCode::CREATED } else { StatusCode::OK }, &described))
}

/// Handles PATCH: changes the layout, TTL, compression or name of a table.
async fn patch(data: Arc<Data>, room: Arc<Room>, call: Call, body: RequestBody) -> Answer {
    let (database, name) = to_change(&call)?;
    let (change, _): (Change, _) = json_body(&room.reception, body).await?;
    let open = data.database(&database).await?;
    let layout = change.layout.as_deref().map(layout_of).transpose()?;
    let compression = change.compression.as_deref().map(compression_of).transpose()?;
    let is_nothing = layout.is_none() && compression.is_none() && change.ttl_ms.is_none();
    if change.name.is_none() && is_nothing {
        let message = "there is nothing to change: give `name`, `layout`, `compression` or `ttl_ms`";
        return Err(Problem::bad_request(message));
    }
    refuse_raw_change(&name, &change)?;
    let described = hand_off(move || alter(&open, &name, &change, layout, compression));
    Ok(json(StatusCode::OK, &described.await?))
}

/// Handles DELETE: drops a table.
async fn drop_table(data: Arc<Data>, call: Call) -> Answer {
    let (database, name) = to_change(&call)?;
    let open = data.database(&database).await?;
    hand_off(move || {
        let dropped = open.db.drop_table(&name);
        open.forget(&name);
        Ok(dropped?)
    })
    .await?;
    Ok(done(None))
}

/// Refuses a change that would separate a table from its typed table or make its records expire. Layout and compression
/// can change, because only the engine depends on them.
pub(super) fn refuse_raw_change(name: &str, change: &Change) -> Answer<()> {
    if change.name.is_some() || change.ttl_ms.is_some() {
        refuse_reserved(name)?;
    }
    change.name.as_deref().map_or(Ok(()), refuse_reserved)
}

/// Rewrites the table in another layout in the background, and changes its compression, TTL and name. All requested
/// changes are made, or none.
fn alter(
    open: &Open,
    name: &str,
    change: &Change,
    layout: Option<Layout>,
    compression: Option<Compression>,
) -> Answer<Value> {
    let new_name = open.db.write(|tx| {
        let missing = || Error::new(ErrorKind::Missing, format!("there is no table {name:?}"));
        let table = tx.table(name)?.ok_or_else(missing)?;
        if let Some(layout) = layout {
            tx.set_layout(&table, layout)?;
        }
        if let Some(compression) = compression {
            tx.set_compression(&table, compression)?;
        }
        if let Some(ttl_ms) = change.ttl_ms {
            tx.set_ttl(&table, ttl_ms.map(Duration::from_millis))?;
        }
        match change.name.as_deref() {
            Some(new_name) => tx.rename_table(&table, new_name).map(|_| new_name),
            None => Ok(name),
        }
    })?;
    open.forget(name);
    if layout.is_some() {
        // The rewrite begins with the catalog that a checkpoint writes.
        open.db.checkpoint()?;
    }
    let gone = || Error::new(ErrorKind::Missing, format!("there is no table {new_name:?}"));
    let table = open.db.table(new_name)?.ok_or_else(gone)?;
    open.know(&table);
    describe(&open.db.snapshot()?, &table)
}

/// The requested options of a table.
struct RequestedOptions {
    layout: Option<Layout>,
    ttl: Option<Duration>,
    ttl_by_key: Option<bool>,
    compression: Option<Compression>,
}

/// Creates the table, or finds one with these options.
fn create(open: &Open, name: &str, wanted: RequestedOptions) -> Answer<(bool, Value)> {
    let RequestedOptions { layout, ttl, ttl_by_key, compression } = wanted;
    let mut options = TableOptions::with_layout(layout.unwrap_or_default());
    options.ttl = ttl;
    options.ttl_by_key = ttl_by_key.unwrap_or_default();
    options.compression = compression.unwrap_or_default();
    let (is_new, table) = match open.db.create_table(name, &options) {
        Ok(table) => (true, table),
        Err(error) if error.kind() == ErrorKind::Exists => {
            // Options that the request does not set stay as they are.
            let gone = || Error::new(ErrorKind::Missing, format!("there is no table {name:?}"));
            let found = open.db.table(name)?.ok_or_else(gone)?;
            options.layout = layout.unwrap_or(found.layout());
            options.ttl = ttl.or(found.ttl());
            options.ttl_by_key = ttl_by_key.unwrap_or(found.has_ttl_by_key());
            options.compression = compression.unwrap_or(found.compression());
            (false, open.db.ensure_table_with(name, &options)?)
        }
        Err(error) => return Err(error.into()),
    };
    open.know(&table);
    Ok((is_new, describe(&open.db.snapshot()?, &table)?))
}
