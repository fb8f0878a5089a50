//! The `/v0` contract: one table of keys and values, as existing load scripts and suites speak it.
//!
//! | request | answer |
//! |---|---|
//! | `GET /v0/entity?id=K` | 200 and the value, or 404 |
//! | `PUT /v0/entity?id=K` | 201; the body is the value, also an empty one |
//! | `DELETE /v0/entity?id=K` | 202, also where K is absent |
//! | `GET /v0/status` | 200 |
//! | `GET /v0/entities?start=S[&end=E]` | 200 and the records of [S, E), a chunk each: `key`, a line feed, `value` |
//!
//! No `id`, or no `start`: 400. Another method: 405. Any other path under `/v0`: 400.

use crate::data::conditions::Conditions;
use crate::data::open::Open;
use crate::data::writer::{Change, Committed};
use crate::limits::handoff::hand_off;
use crate::limits::receive::{Received, RequestBody};
use crate::routes::fast::{absent, found};
use crate::send::long_value::{self, LongValue};
use crate::send::records::{Batches, Records, RecordsBody, Which, read_all};
use crate::serving::service::App;
use crate::watch::slow;
use crate::wire::body::Body;
use crate::wire::form::Form;
use crate::wire::problem::{Answer, Problem};
use crate::wire::target;
use arc_swap::ArcSwap;
use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use axum::response::IntoResponse;
use axum::routing::any;
use pando::{ErrorKind, Layout, Span, Table, TableOptions};
use std::ops::Bound;
use std::sync::Arc;

/// The table.
pub const TABLE: &str = "entity";
/// Where single records are.
pub const ENTITY_PATH: &str = "/v0/entity";
/// Values up to here are sent from memory.
const WHOLE_BYTES: u64 = 1 << 20;

type Shared = State<Arc<App>>;

/// How the table is made.
pub fn table_options() -> TableOptions {
    TableOptions::with_layout(Layout::Lsm)
}

/// The paths.
pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route(ENTITY_PATH, any(entity))
        .route("/v0/entities", any(entities))
        .route("/v0/status", any(status))
        .route("/v0", any(unknown))
        .route("/v0/", any(unknown))
        .route("/v0/{*rest}", any(unknown))
}

async fn unknown() -> Problem {
    Problem::bad_request("there is no such path below /v0")
}

async fn status(method: Method) -> Result<&'static str, Problem> {
    if method == Method::GET { Ok("serving\n") } else { Err(Problem::method_not_allowed()) }
}

async fn entity(State(app): Shared, request: Request<RequestBody>) -> axum::response::Response {
    let answer = match *request.method() {
        Method::GET | Method::HEAD => get(app, request.uri()).await,
        Method::PUT => put(app, request).await,
        Method::DELETE => delete(app, request.uri()).await,
        _ => Err(Problem::method_not_allowed()),
    };
    answer.map_or_else(IntoResponse::into_response, |response| response.map(axum::body::Body::new))
}

/// The parameter that must be there and say something.
fn required(uri: &Uri, name: &str) -> Answer<Vec<u8>> {
    match target::parameter(uri.query(), name)? {
        Some(bytes) if !bytes.is_empty() => Ok(bytes.into_owned()),
        _ => Err(Problem::bad_request(format!("the parameter `{name}` is missing or empty"))),
    }
}

/// Runs `work` on the table; if that turns out to be gone, on the one that it makes then.
fn on_table<T>(
    open: &Arc<Open>,
    entity: &ArcSwap<Table>,
    work: impl Fn(&Arc<Open>, &Table) -> pando::Result<T>,
) -> pando::Result<T> {
    match work(open, &entity.load()) {
        Err(error) if error.kind() == ErrorKind::Missing => {
            let table = open.table_or_create(TABLE, &table_options())?;
            entity.store(Arc::new(table.clone()));
            work(open, &table)
        }
        done => done,
    }
}

async fn get(app: Arc<App>, uri: &Uri) -> Answer {
    let key = required(uri, "id")?;
    let shared = Arc::clone(&app);
    let reader = hand_off(move || {
        let read = |open: &Arc<Open>, table: &Table| open.db.snapshot()?.value_reader(table, &key);
        Ok(on_table(&app.default, &app.entity, read)?)
    });
    let Some(reader) = reader.await? else { return Ok(absent()) };
    if reader.len_bytes() > WHOLE_BYTES {
        let permit = shared.stream_permit().await?;
        return Ok(LongValue::response(reader, Arc::clone(&shared.default), permit));
    }
    Ok(found(shared.body_of(hand_off(move || Ok(read_all(reader)?)).await?)?))
}

async fn put(app: Arc<App>, request: Request<RequestBody>) -> Answer {
    let key = required(request.uri(), "id")?;
    let durability = app.config.durability;
    let received = app.reception.receive(request.into_body(), u64::MAX).await?;
    let committed = match received {
        // The memory stays counted until the value is committed.
        Received::Whole(value, _counted) => Some(change(&app, key, Change::Put(value)).await?),
        Received::Long(begin, rest) => {
            let _permit = app.stream_permit().await?;
            let (shared, id) = (Arc::clone(&app), key.clone());
            // It may be gone; later it would be too late to make it again.
            let there = move |open: &Arc<Open>, table: &Table| {
                open.db.snapshot()?.contains(table, &id)?;
                Ok(table.clone())
            };
            let table = hand_off(move || Ok(on_table(&shared.default, &shared.entity, there)?)).await?;
            long_value::put(
                Arc::clone(&app.default),
                table,
                key,
                begin,
                rest,
                durability,
                Conditions::default(),
            )
            .await?;
            None
        }
    };
    Ok(written(StatusCode::CREATED, committed))
}

async fn delete(app: Arc<App>, uri: &Uri) -> Answer {
    let key = required(uri, "id")?;
    let committed = change(&app, key, Change::Delete).await?;
    Ok(written(StatusCode::ACCEPTED, Some(committed)))
}

async fn change(app: &Arc<App>, key: Vec<u8>, change: Change) -> Answer<Committed> {
    let write = |table: Table, key: Vec<u8>, change: Change| {
        app.default.writer.write(table, key, change, app.config.durability)
    };
    let table = Table::clone(&app.entity.load());
    match write(table, key.clone(), change.clone()).await {
        Err(problem) if problem.status == StatusCode::NOT_FOUND => {
            let shared = Arc::clone(app);
            let table = hand_off(move || {
                let table = shared.default.table_or_create(TABLE, &table_options())?;
                shared.entity.store(Arc::new(table.clone()));
                Ok(table)
            });
            write(table.await?, key, change).await
        }
        done => done,
    }
}

async fn entities(State(app): Shared, method: Method, uri: Uri) -> axum::response::Response {
    let answer =
        if method == Method::GET { range(app, &uri).await } else { Err(Problem::method_not_allowed()) };
    answer.map_or_else(IntoResponse::into_response, |response| response.map(axum::body::Body::new))
}

async fn range(app: Arc<App>, uri: &Uri) -> Answer {
    let start = required(uri, "start")?;
    let end = target::parameter(uri.query(), "end")?.map(|end| end.into_owned());
    let shared = Arc::clone(&app);
    let begun = hand_off(move || {
        let span =
            Span::between(Bound::Included(&start), end.as_deref().map_or(Bound::Unbounded, Bound::Excluded));
        let begin = |open: &Arc<Open>, table: &Table| {
            let which = Which::Forwards(span.clone());
            let mut records = Records::new(open, table.clone(), which, Form::Lines, None)?;
            let first = records.next_batch()?;
            Ok((records, first))
        };
        Ok(on_table(&shared.default, &shared.entity, begin)?)
    });
    let (records, first) = begun.await?;
    let mut response = RecordsBody::response(&app, records, first).await?;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    Ok(response)
}

fn written(status: StatusCode, committed: Option<Committed>) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    slow::say(&mut response, committed.and_then(|committed| committed.phases));
    response
}
