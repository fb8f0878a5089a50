//! Interactive transactions: begun by POST, used by the header `pando-transaction`, ended by a commit or DELETE.

use super::{Shared, database, done, durability_of, json, json_body, place, split};
use crate::limits::receive::RequestBody;
use crate::wire::problem::{Answer, Problem};
use axum::http::{Method, Request, StatusCode};
use pando::{Isolation, TransactionOptions};
use serde::Deserialize;
use serde_json::json as object;

/// How one is begun.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Begin {
    durability: Option<String>,
    isolation: Option<String>,
}

/// POST begins one.
pub async fn all(axum::extract::State(app): Shared, request: Request<RequestBody>) -> Answer {
    let (method, (uri, _), body) = split(request);
    if method != Method::POST {
        return Err(Problem::method_not_allowed());
    }
    let name = place::database(uri.path()).unwrap_or_default();
    let (begin, _): (Begin, _) = json_body(&app, body).await?;
    let open = database(&app, name).await?;
    let mut options =
        TransactionOptions { durability: app.config.durability, ..open.db.transaction_options() };
    if let Some(word) = &begin.durability {
        options.durability = durability_of(word)?;
    }
    options.isolation = match begin.isolation.as_deref() {
        None => options.isolation,
        Some("serializable") => Isolation::Serializable,
        Some("snapshot") => Isolation::Snapshot,
        Some(_) => return Err(Problem::bad_request("`isolation` must be serializable or snapshot")),
    };
    let token = app.transactions.begin(name, open, options).await?;
    let idle = app.transactions.idle().as_secs();
    Ok(json(StatusCode::CREATED, &object!({ "transaction": token, "idle_timeout_s": idle })))
}

/// DELETE gives it up.
pub async fn one(axum::extract::State(app): Shared, request: Request<RequestBody>) -> Answer {
    let (method, (uri, _), _) = split(request);
    if method != Method::DELETE {
        return Err(Problem::method_not_allowed());
    }
    let (name, token) = names(uri.path());
    let ended = app.transactions.end(name, token, |given_up| {
        drop(given_up);
        Ok(())
    });
    ended.await?;
    Ok(done(None))
}

/// POST commits it. A conflict ends it too: it is begun anew.
pub async fn commit(axum::extract::State(app): Shared, request: Request<RequestBody>) -> Answer {
    let (method, (uri, _), _) = split(request);
    if method != Method::POST {
        return Err(Problem::method_not_allowed());
    }
    let (name, token) = names(uri.path());
    let number = app.transactions.end(name, token, |transaction| Ok(transaction.commit()?)).await?;
    Ok(json(StatusCode::OK, &object!({ "commit": number })))
}

fn names(path: &str) -> (&str, &str) {
    let token = place::part_of(path, "transactions").unwrap_or_default();
    (place::database(path).unwrap_or_default(), token)
}
