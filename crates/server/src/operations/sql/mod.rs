//! SQL: `POST /v1/databases/{database}/sql`.
//!
//! ```json
//! {"sql": "SELECT name FROM fruit WHERE price < ? ORDER BY name", "params": [3.5], "timeout_ms": 2000}
//! ```
//! 1. One statement is a transaction of its own, run again after a conflict. Several are one transaction together: all
//!    of it or nothing. There is no `BEGIN` over HTTP.
//! 2. A token that only reads, or a request that says `"read_only": true`, runs statements that only read: each is
//!    prepared, and looked at, before it runs, and the connection refuses to write besides.
//! 3. Statements are strangers': `sql::Connection::confine`. So many run at a time, each on a thread and a connection
//!    of its own, for so long; a client that goes away ends its own. Others wait for a place, in order, no longer than
//!    their statements may take.
//! 4. What they answer passes through a [`pipe`] piece by piece (`results`). Until the first piece is full, the status
//!    is open: a failure is a problem as of any request. After that it is the last line, or the answer breaks off.

mod parameters;
mod results;
mod script;

use super::{
    NDJSON, Shared, database, durability, json_body, no_part_of_transactions, place, split, streamed,
};
use crate::access::auth::{Need, Scope};
use crate::limits::receive::{Counted, RequestBody};
use crate::serving::service::App;
use crate::watch::slow::Asked;
use crate::wire::body::Body;
use crate::wire::pipe::{Reader, pipe};
use crate::wire::problem::{Answer, Problem};
use crate::wire::target::raw_parameter;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use pando::TransactionOptions;
use parameters::Parameters;
use results::{Format, Results};
use script::{May, Script};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The body.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asks {
    sql: String,
    #[serde(default)]
    params: Value,
    timeout_ms: Option<u64>,
    /// Whether the statements only read, whatever the token may.
    #[serde(default)]
    read_only: bool,
}

/// POST.
pub async fn run(axum::extract::State(app): Shared, request: Request<RequestBody>) -> Answer {
    let (method, (uri, headers), body) = split(request);
    if method != Method::POST {
        return Err(Problem::method_not_allowed());
    }
    let (asks, counted): (Asks, _) = json_body(&app, body).await?;
    let text = Asked::new(&asks.sql);
    let answer = answer(app, &uri, &headers, asks, counted).await;
    let mut response = answer.unwrap_or_else(|problem| problem.response());
    response.extensions_mut().insert(text);
    Ok(response)
}

async fn answer(app: Arc<App>, uri: &Uri, headers: &HeaderMap, asks: Asks, counted: Counted) -> Answer {
    no_part_of_transactions(
        headers,
        "SQL, of which several statements in one request are a transaction, is",
    )?;
    let name = place::database(uri.path()).unwrap_or_default();
    let format = format_of(uri)?;
    let may = match app.keeper.admit(headers, Need::In(name, Scope::Write)) {
        Ok(_) if asks.read_only => May::ReadAsAsked,
        Ok(_) => May::Write,
        Err(_) => May::Read,
    };
    let durability = durability(&app, uri)?;
    let time = time_of(&app, asks.timeout_ms)?;
    let parameters = Parameters::read(asks.params)?;
    let permit = app.statement_permit(time).await?;
    // Few run at a time: what their text takes is bounded by that. Those that wait are counted.
    drop(counted);
    let open = database(&app, name).await?;
    let (writer, reader) = pipe(Instant::now() + time);
    let work = move || {
        let options = TransactionOptions { durability, ..open.db.transaction_options() };
        let script = Script { text: asks.sql, parameters, may, options, time };
        let watch = writer.watch();
        let mut results = Results::new(format, writer);
        let done = script.run(&open.sql, watch, &mut results);
        // Before the response is complete: its reader finds the database in nobody's use, and a place.
        drop((open, permit));
        results.finish(done);
    };
    tokio::task::spawn_blocking(work);
    begin(reader, format).await
}

/// Waits for the first piece; a failure before it is a problem.
async fn begin(mut reader: Reader, format: Format) -> Answer {
    let first = reader.next().await.transpose()?.unwrap_or_default();
    let kind = match format {
        Format::Ndjson => NDJSON,
        Format::Json => "application/json",
        Format::Csv => "text/csv; charset=utf-8",
    };
    if reader.is_over() {
        let mut response = Response::new(Body::whole(first));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        return Ok(response);
    }
    Ok(streamed(kind, axum::body::Body::new(reader.with_first(first))))
}

fn format_of(uri: &Uri) -> Answer<Format> {
    match raw_parameter(uri.query(), "format") {
        None | Some("ndjson") => Ok(Format::Ndjson),
        Some("json") => Ok(Format::Json),
        Some("csv") => Ok(Format::Csv),
        Some(_) => Err(Problem::bad_request("`format` must be ndjson, json or csv")),
    }
}

fn time_of(app: &App, asked_ms: Option<u64>) -> Answer<Duration> {
    let (usual, most) = (app.config.limits.statement_time, app.config.limits.most_statement_time);
    match asked_ms.map(Duration::from_millis) {
        None => Ok(usual),
        Some(time) if !time.is_zero() && time <= most => Ok(time),
        Some(_) => Err(Problem::bad_request(format!("`timeout_ms` must be 1 to {}", most.as_millis()))),
    }
}
