//! Databases: made, listed, looked at, dropped.

use super::tables::list;
use super::{Shared, database as opened, done, json, json_body, place, split};
use crate::limits::handoff::hand_off;
use crate::limits::receive::RequestBody;
use crate::wire::problem::{Answer, Problem};
use axum::http::{Method, Request, StatusCode};
use pando::Stats;
use serde::Deserialize;
use serde_json::{Value, json as object};
use std::sync::Arc;

/// How a database is made.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    page_bytes: Option<u32>,
}

/// GET lists those that the client may see.
pub async fn all(axum::extract::State(app): Shared, request: Request<RequestBody>) -> Answer {
    let (method, (_, headers), _) = split(request);
    if method != Method::GET {
        return Err(Problem::method_not_allowed());
    }
    let shared = Arc::clone(&app);
    let names = hand_off(move || shared.databases.names()).await?;
    let list: Vec<Value> = names
        .iter()
        .filter(|name| app.keeper.may_see(&headers, name))
        .map(|name| object!({ "name": name, "open": app.databases.get_open(name).is_some() }))
        .collect();
    Ok(json(StatusCode::OK, &object!({ "databases": list })))
}

/// GET, PUT, DELETE.
pub async fn one(axum::extract::State(app): Shared, request: Request<RequestBody>) -> Answer {
    let (method, (uri, _), body) = split(request);
    let name = place::database(uri.path()).unwrap_or_default().to_owned();
    match method {
        Method::GET => {
            let open = opened(&app, &name).await?;
            let described = hand_off(move || {
                let (tables, stats) = (list(&open.db)?, numbers(&open.db.stats()?));
                Ok(object!({ "name": name, "tables": tables, "stats": stats }))
            });
            Ok(json(StatusCode::OK, &described.await?))
        }
        Method::PUT => {
            let (options, _): (Options, _) = json_body(&app, body).await?;
            let shared = Arc::clone(&app);
            let (is_new, page_bytes) = hand_off(move || {
                let pages = options.page_bytes.map(|bytes| bytes as usize);
                let (open, is_new) = shared.databases.create(&name, pages)?;
                Ok((is_new, open.db.stats()?.page_bytes))
            })
            .await?;
            let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
            let name = place::database(uri.path()).unwrap_or_default();
            Ok(json(status, &object!({ "name": name, "page_bytes": page_bytes })))
        }
        Method::DELETE => {
            hand_off(move || app.databases.drop_database(&name)).await?;
            Ok(done(None))
        }
        _ => Err(Problem::method_not_allowed()),
    }
}

/// GET: each option, what it is set to, and who set it.
pub async fn options(axum::extract::State(app): Shared, request: Request<RequestBody>) -> Answer {
    look(app, request, |db| {
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
    })
    .await
}

/// Counts and sizes by name, as an object.
fn numbers(stats: &Stats) -> Value {
    Value::Object(stats.numbers().into_iter().map(|(name, value)| (name, value.into())).collect())
}

/// GET: counts and sizes.
pub async fn stats(axum::extract::State(app): Shared, request: Request<RequestBody>) -> Answer {
    look(app, request, |db| Ok(numbers(&db.stats()?))).await
}

/// GET: open snapshots and transactions.
pub async fn readers(axum::extract::State(app): Shared, request: Request<RequestBody>) -> Answer {
    look(app, request, |db| {
        let readers = db.readers()?;
        let list: Vec<Value> = readers
            .iter()
            .map(|reader| {
                object!({
                    "is_transaction": reader.is_transaction,
                    "age_ms": reader.age.as_millis() as u64,
                    "commit": reader.commit,
                    "memory_bytes": reader.memory_bytes,
                    "space_bytes": reader.space_bytes,
                    "expired": reader.expired,
                })
            })
            .collect();
        Ok(object!({ "readers": list }))
    })
    .await
}

/// A GET of what a look into the database says.
async fn look(
    app: Arc<crate::serving::service::App>,
    request: Request<RequestBody>,
    say: impl FnOnce(&pando::Database) -> Answer<Value> + Send + 'static,
) -> Answer {
    let (method, (uri, _), _) = split(request);
    if method != Method::GET {
        return Err(Problem::method_not_allowed());
    }
    let open = opened(&app, place::database(uri.path()).unwrap_or_default()).await?;
    Ok(json(StatusCode::OK, &hand_off(move || say(&open.db)).await?))
}
