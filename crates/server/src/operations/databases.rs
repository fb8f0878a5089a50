//! Databases: create, list, inspect and drop.

use crate::access::auth::Gatekeeper;
use crate::access::tokens::Scope;
use crate::calls::call::{Call, json_body};
use crate::calls::meanings::{CONFLICT, DONE, FULL, LATE, MISSING, TOO_LARGE};
use crate::calls::operation::{Access, Operation, on_both};
use crate::data::held::Data;
use crate::data::replicas::Lag;
use crate::data::schedule::worker::Schedule;
use crate::limits::handoff::hand_off;
use crate::limits::receive::RequestBody;
use crate::limits::room::Room;
#[cfg(feature = "remote")]
use crate::operations::store;
use crate::operations::tables::list;
use crate::watch::observe::Kind;
use crate::wire::problem::Answer;
use crate::wire::response::{done, json};
use axum::http::StatusCode;
use pando::remote::Capability;
use pando::{Database, Stats};
use serde::Deserialize;
use serde_json::{Value, json as object};
use std::sync::Arc;

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[
    on_both!(
        "GET",
        "/v1/databases",
        Access::Any,
        Kind::Other,
        "List the databases that the token may use",
        |parts, call, _| Box::pin(all(parts.data(), parts.keeper(), call)),
        store: |parts, call, _| Box::pin(store::databases::all(parts.data(), parts.keeper(), call)),
    )
    .responses(&[(200, "JSON")]),
    on_both!(
        "GET",
        "/v1/databases/{database}",
        Access::Database(Scope::Read),
        Kind::Other,
        "Get a database: its tables and counters",
        |parts, call, _| Box::pin(describe(parts.data(), call)),
        store: |parts, call, _| Box::pin(store::databases::describe(parts.data(), call)),
    )
    .responses(&[(200, "JSON"), MISSING]),
    on_both!(
        "PUT",
        "/v1/databases/{database}",
        Access::Database(Scope::Admin),
        Kind::Other,
        "Create a database",
        |parts, call, body| Box::pin(create(parts.data(), parts.room(), call, body)),
        store: |parts, call, body| Box::pin(store::databases::create(parts.data(), parts.room(), call, body)),
    )
    .receives("database")
    .responses(&[(201, "Made"), (200, "It was there"), CONFLICT, TOO_LARGE, LATE, FULL]),
    Operation::new(
        "DELETE",
        "/v1/databases/{database}",
        Access::Database(Scope::Admin),
        Kind::Other,
        "Drop a database and everything in it",
        |parts, call, _| Box::pin(drop_database(parts.data(), call)),
    )
    .needs(Capability::DropDatabase)
    .responses(&[DONE, MISSING, CONFLICT]),
    Operation::new(
        "GET",
        "/v1/databases/{database}/options",
        Access::Database(Scope::Read),
        Kind::Other,
        "List the options with their values and where they were set",
        |parts, call, _| Box::pin(look(parts.data(), call, options)),
    )
    .needs(Capability::Statistics)
    .responses(&[(200, "JSON"), MISSING]),
    Operation::new(
        "GET",
        "/v1/databases/{database}/stats",
        Access::Database(Scope::Read),
        Kind::Other,
        "Get counters and sizes",
        |parts, call, _| Box::pin(stats(parts.data(), parts.schedule.clone(), call)),
    )
    .needs(Capability::Statistics)
    .responses(&[(200, "JSON"), MISSING]),
];

/// The options of a new database.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Options {
    pub page_bytes: Option<u32>,
}

/// Handles GET: lists the databases that the client may see, with the scope of its token in each and in all.
async fn all(data: Arc<Data>, keeper: Arc<Gatekeeper>, call: Call) -> Answer {
    let shared = Arc::clone(&data);
    let names = hand_off(move || shared.databases.names()).await?;
    let is_open = |name: &str| data.databases.get_open(name).is_some();
    Ok(json(StatusCode::OK, &visible(&names, &keeper, &call, is_open)))
}

/// Returns those of the databases that the client may see.
pub(super) fn visible(
    names: &[String],
    keeper: &Gatekeeper,
    call: &Call,
    is_open: impl Fn(&str) -> bool,
) -> Value {
    let rights = keeper.rights(&call.headers);
    let describe = |name: &String| {
        let scope = rights.in_database(name)?;
        Some(object!({ "name": name, "open": is_open(name), "scope": scope }))
    };
    let list: Vec<Value> = names.iter().filter_map(describe).collect();
    object!({ "databases": list, "scope": rights.in_all() })
}

/// Handles GET: describes a database.
async fn describe(data: Arc<Data>, call: Call) -> Answer {
    let name = call.target().database().to_owned();
    let open = data.database(&name).await?;
    let described = hand_off(move || {
        let (tables, stats) = (list(&open.db)?, numbers(&open.db.stats()?));
        Ok(object!({ "name": name, "tables": tables, "stats": stats }))
    });
    Ok(json(StatusCode::OK, &described.await?))
}

/// Handles PUT: creates a database.
async fn create(data: Arc<Data>, room: Arc<Room>, call: Call, body: RequestBody) -> Answer {
    let name = call.target().database().to_owned();
    let (options, _): (Options, _) = json_body(&room.reception, body).await?;
    let made = hand_off(move || {
        let pages = options.page_bytes.map(|bytes| bytes as usize);
        let (open, is_new) = data.databases.create(&name, pages)?;
        Ok((is_new, object!({ "name": name, "page_bytes": open.db.stats()?.page_bytes })))
    });
    let (is_new, described) = made.await?;
    Ok(json(if is_new { StatusCode::CREATED } else { StatusCode::OK }, &described))
}

/// Handles DELETE: drops a database.
async fn drop_database(data: Arc<Data>, call: Call) -> Answer {
    let name = call.target().database().to_owned();
    hand_off(move || data.databases.drop_database(&name)).await?;
    Ok(done(None))
}

/// Handles GET: the library's counters, the progress of shipping, the lag of a replica, and the scheduled backups.
async fn stats(data: Arc<Data>, schedule: Option<Arc<Schedule>>, call: Call) -> Answer {
    let name = call.target().database().to_owned();
    let open = data.database(&name).await?;
    let counted = hand_off(move || {
        let mut counted = numbers(&open.db.stats()?);
        let shipped = open.ship().into_iter().flat_map(|ship| ship.gauges());
        if let Value::Object(counted) = &mut counted {
            // All other values are whole numbers, so fractions of a second are cut off.
            counted.extend(shipped.map(|(name, _, value)| (format!("ship_{name}"), (value as u64).into())));
            let replicas = data.databases.replicas().filter(|replicas| replicas.is_replica());
            let lag = replicas.and_then(|replicas| replicas.lag(&name, &open.db));
            let lag = lag.iter().flat_map(Lag::gauges);
            counted.extend(lag.map(|(name, _, value)| (format!("replica_{name}"), (value as u64).into())));
            if let Some(backups) = schedule.and_then(|schedule| schedule.result(&name)) {
                counted.insert("backups_taken".to_owned(), backups.taken.into());
                counted.insert("backup_failures".to_owned(), backups.failures.into());
                counted.insert("backup_newest_s".to_owned(), backups.newest_s().into());
                counted.insert("backups_kept".to_owned(), backups.kept.into());
                counted.insert("backups_kept_bytes".to_owned(), backups.kept_bytes.into());
            }
        }
        Ok(counted)
    });
    Ok(json(StatusCode::OK, &counted.await?))
}

/// Handles a GET whose response `say` computes from the database.
async fn look(data: Arc<Data>, call: Call, say: fn(&Database) -> Answer<Value>) -> Answer {
    let open = data.database(call.target().database()).await?;
    Ok(json(StatusCode::OK, &hand_off(move || say(&open.db)).await?))
}

/// Returns each option with its value and with what set it.
fn options(db: &Database) -> Answer<Value> {
    let settings = db.settings()?;
    let list: Vec<Value> = settings
        .iter()
        .map(|setting| {
            object!({
                "name": setting.spec.name,
                "value": setting.value.to_string(),
                "group": setting.spec.group.to_string(),
                "unit": setting.spec.unit.to_string(),
                "origin": setting.origin.to_string(),
                "range": setting.spec.range_text(),
                "default": setting.spec.default,
                "cost": setting.spec.cost,
            })
        })
        .collect();
    Ok(object!({ "options": list }))
}

/// Returns counts and sizes by name, as an object.
fn numbers(stats: &Stats) -> Value {
    Value::Object(stats.numbers().into_iter().map(|(name, value)| (name, value.into())).collect())
}
