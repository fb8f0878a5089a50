//! `/v1`: many databases, their tables, records as resources, batches, interactive transactions, maintenance.
//!
//! [`place`]: what a path names; `entries`: single records; `ranges`: many; `upload`: imports; `batch`;
//! `transaction`; `documents`; `tables`; `database`; `maintenance`; `explain`; `advise`; `sql`. What they share is
//! here.
//!
//! Every handler looks its database and table up with one look into a map where they are known, and hands everything
//! else to threads that may wait.

mod advise;
mod batch;
pub mod conditions;
mod database;
mod documents;
mod entries;
mod explain;
mod maintenance;
pub mod place;
mod ranges;
#[cfg_attr(not(feature = "sql"), path = "sql_absent.rs")]
mod sql;
mod tables;
mod transaction;
mod upload;

pub use entries::whole;
pub use maintenance::LEAST_RATE_BYTES;

use crate::app::App;
use crate::body::Body;
use crate::handoff::hand_off;
use crate::open::Open;
use crate::problem::{Answer, Problem};
use crate::receive::{Counted, RequestBody};
use crate::target;
use axum::Router;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use axum::routing::any;
use pando::{Database, Durability, Table, Transaction, TransactionOptions};
use serde::Serialize;
use std::sync::Arc;

/// Names the transaction that a request belongs to.
pub const TRANSACTION: HeaderName = HeaderName::from_static("pando-transaction");
/// The number of the commit that a request made.
pub const COMMIT: HeaderName = HeaderName::from_static("pando-commit");
/// The longest body of JSON.
const JSON_BYTES: usize = 1 << 20;
/// How often a write that meets a conflict is tried.
const ATTEMPTS: u32 = 8;
const NDJSON: &str = "application/x-ndjson";

type Shared = axum::extract::State<Arc<App>>;

/// The paths. They are not nested: a nested route would see its own end of the path alone.
pub fn routes() -> Router<Arc<App>> {
    let one = |rest: &str| format!("/v1/databases/{{database}}{rest}");
    Router::new()
        .route("/v1/databases", any(database::all))
        .route(&one(""), any(database::one))
        .route(&one("/options"), any(database::options))
        .route(&one("/stats"), any(database::stats))
        .route(&one("/readers"), any(database::readers))
        .route(&one("/advise"), any(advise::run))
        .route(&one("/checkpoint"), any(maintenance::checkpoint))
        .route(&one("/compact"), any(maintenance::compact))
        .route(&one("/check"), any(maintenance::check))
        .route(&one("/sync"), any(maintenance::sync))
        .route(&one("/backup"), any(maintenance::backup))
        .route(&one("/batch"), any(batch::run))
        .route(&one("/sql"), any(sql::run))
        .route(&one("/transactions"), any(transaction::all))
        .route(&one("/transactions/{transaction}"), any(transaction::one))
        .route(&one("/transactions/{transaction}/commit"), any(transaction::commit))
        .route(&one("/documents"), any(documents::all))
        .route(&one("/documents/{table}"), any(documents::many))
        .route(&one("/documents/{table}/{*key}"), any(documents::one))
        .route(&one("/tables"), any(tables::all))
        .route(&one("/tables/{table}"), any(tables::one))
        .route(&one("/tables/{table}/explain"), any(explain::run))
        .route(&one("/tables/{table}/entries"), any(ranges::all))
        .route(&one("/tables/{table}/entries/{*key}"), any(entries::one))
}

/// The database, opened if it is not yet.
async fn database(app: &Arc<App>, name: &str) -> Answer<Arc<Open>> {
    if let Some(open) = app.databases.get_open(name) {
        return Ok(open);
    }
    let (app, name) = (Arc::clone(app), name.to_owned());
    hand_off(move || app.databases.open(&name)).await
}

/// The database and a table of it.
async fn table(app: &Arc<App>, database_name: &str, name: &str) -> Answer<(Arc<Open>, Table)> {
    let open = database(app, database_name).await?;
    if let Some(table) = open.known_table(name) {
        return Ok((open, table));
    }
    let name = name.to_owned();
    hand_off(move || open.table(&name).map(|table| (open, table))).await
}

/// Runs `work` on a table; if the handle turns out to be no good any more, as the table was dropped, renamed or given a
/// TTL, on what there is of that name now.
fn on_table<T>(open: &Open, table: Table, mut work: impl FnMut(&Table) -> Answer<T>) -> Answer<T> {
    match work(&table) {
        Err(problem) if problem.status == StatusCode::NOT_FOUND => {
            open.forget(table.name());
            work(&open.table(table.name())?)
        }
        done => done,
    }
}

/// Runs `work` in a transaction of `durability`, again after a conflict, and commits it; answers the commit's number
/// too.
fn commit<T>(
    db: &Database,
    durability: Durability,
    mut work: impl FnMut(&mut Transaction) -> Answer<T>,
) -> Answer<(T, u64)> {
    let options = TransactionOptions { durability, ..db.transaction_options() };
    let mut attempt = 1;
    loop {
        let mut tx = db.begin_with(&options)?;
        let outcome = work(&mut tx)?;
        match tx.commit() {
            Ok(number) => return Ok((outcome, number)),
            Err(error) if error.is_retryable() && attempt < ATTEMPTS => {
                attempt += 1;
                std::thread::sleep(std::time::Duration::from_micros(50 << attempt));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// What a write is to survive: the request's word, or the server's.
fn durability(app: &App, uri: &Uri) -> Answer<Durability> {
    match target::raw_parameter(uri.query(), "durability") {
        None => Ok(app.config.durability),
        Some(word) => durability_of(word),
    }
}

fn durability_of(word: &str) -> Answer<Durability> {
    match word {
        "sync" => Ok(Durability::Sync),
        "buffered" => Ok(Durability::Buffered),
        "lazy" => Ok(Durability::Lazy),
        _ => Err(Problem::bad_request("`durability` must be sync, buffered or lazy")),
    }
}

/// The token of the transaction that a request belongs to, if to any.
fn transaction_of(headers: &HeaderMap) -> Answer<Option<String>> {
    let Some(value) = headers.get(TRANSACTION) else { return Ok(None) };
    let token = value
        .to_str()
        .map_err(|_| Problem::bad_request("`pando-transaction` is not a transaction's token"))?;
    Ok(Some(token.to_owned()))
}

/// Refuses a request that names a transaction, where what it asks for cannot be part of one: it would be done at once,
/// and stay when the transaction is given up.
fn no_part_of_transactions(headers: &HeaderMap, what: &str) -> Answer<()> {
    match transaction_of(headers)? {
        None => Ok(()),
        Some(_) => Err(Problem::bad_request(format!(
            "{what} not possible within an interactive transaction; leave out `pando-transaction`"
        ))),
    }
}

/// The body, as JSON of a certain shape, and what it is counted as; an empty one is an empty object.
async fn json_body<T: serde::de::DeserializeOwned>(app: &App, body: RequestBody) -> Answer<(T, Counted)> {
    let (bytes, counted) = app.reception.receive_whole(body, JSON_BYTES).await?;
    let text = match bytes.trim_ascii() {
        b"" => &b"{}"[..],
        text => text,
    };
    // A structure would be read from an array as well, its members by their order.
    if !text.starts_with(b"{") {
        return Err(Problem::bad_request("the body must be a JSON object"));
    }
    let shaped = serde_json::from_slice(text);
    let wrong = |error: serde_json::Error| {
        Problem::bad_request(format!("the body is not the expected JSON: {error}"))
    };
    Ok((shaped.map_err(wrong)?, counted))
}

/// A response of JSON.
fn json(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    let mut text = serde_json::to_vec(value).expect("what is answered is plain data");
    text.push(b'\n');
    let mut response = Response::new(Body::whole(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// 204, with the number of the commit if there was one.
fn done(commit: Option<u64>) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    if let Some(number) = commit {
        response.headers_mut().insert(COMMIT, HeaderValue::from(number));
    }
    response
}

/// A body of other lines or bytes than JSON.
fn streamed(content_type: &'static str, body: axum::body::Body) -> Response<Body> {
    typed(content_type, Response::new(Body::from(body)))
}

/// The response as one of that type.
fn typed(content_type: &'static str, mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A request without its body, for what may wait.
type Parts = (Uri, HeaderMap);

fn split(request: Request<RequestBody>) -> (axum::http::Method, Parts, RequestBody) {
    let (parts, body) = request.into_parts();
    (parts.method, (parts.uri, parts.headers), body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_that_is_no_good_any_more_is_looked_up_again() {
        let open = Open::alone(Database::builder().in_memory().unwrap());
        let old = open.db.ensure_table("t").unwrap();
        open.know(&old);
        let get = |table: Table| on_table(&open, table, |table| Ok(open.db.snapshot()?.get(table, b"k")?));
        assert_eq!(get(old.clone()).unwrap(), None);
        // Somebody drops it, and makes another; a request that had looked it up before keeps the old handle.
        open.db.drop_table("t").unwrap();
        open.db.put(&open.db.ensure_table("t").unwrap(), b"k", b"v").unwrap();
        open.know(&old);
        assert_eq!(get(old.clone()).unwrap(), Some(b"v".to_vec()));
        assert_ne!(open.known_table("t").unwrap().id(), old.id());
        open.db.drop_table("t").unwrap();
        assert_eq!(get(old).unwrap_err().status, StatusCode::NOT_FOUND);
    }
}
