//! Whether the server is well, and what it does: `/healthz`, `/readyz`, `/metrics`, `/v1/server`.

use crate::limits::handoff::hand_off;
use crate::operations::metrics;
use crate::serving::service::App;
use crate::watch::observe::{Kind, bucket_end_ns};
use crate::wire::body::Body;
use crate::wire::problem::{Answer, Problem};
use crate::wire::target::raw_parameter;
use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, Response, StatusCode, Uri};
use axum::routing::any;
use serde_json::{Map, Value, json};
use std::sync::Arc;

type Shared = State<Arc<App>>;

/// The paths.
pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/healthz", any(healthz))
        .route("/readyz", any(readyz))
        .route("/metrics", any(show_metrics))
        .route("/v1/server", any(server))
}

fn reads(method: &Method) -> Answer<()> {
    if *method == Method::GET || *method == Method::HEAD {
        Ok(())
    } else {
        Err(Problem::method_not_allowed())
    }
}

fn text(content_type: &'static str, text: impl Into<bytes::Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::whole(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// The process answers.
async fn healthz(method: Method) -> Answer {
    reads(&method)?;
    Ok(text("text/plain", "ok\n"))
}

/// It would answer requests, writes too: it does not end, and the default database takes commits and has room for them.
async fn readyz(State(app): Shared, method: Method) -> Answer {
    reads(&method)?;
    if app.is_ending() {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "ending", "the server is shutting down"));
    }
    // A failure that stopped all writing is answered by every sync.
    let looked = hand_off(move || {
        app.default.db.sync()?;
        app.default.db.short_of_room().map_or(Ok(()), |short| Err(short.into()))
    });
    looked
        .await
        .map_err(|problem| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", problem.detail))?;
    Ok(text("text/plain", "ready\n"))
}

async fn show_metrics(State(app): Shared, method: Method, uri: Uri) -> Answer {
    reads(&method)?;
    let all_tables = match raw_parameter(uri.query(), "tables") {
        None | Some("top") => false,
        Some("all") => true,
        Some(_) => return Err(Problem::bad_request("`tables` must be top or all")),
    };
    let shown = hand_off(move || metrics::text(&app, all_tables)).await?;
    Ok(text(metrics::CONTENT_TYPE, shown))
}

/// What the server does, for the dashboard and for programs: counts since it started; who wants rates asks twice.
async fn server(State(app): Shared, method: Method) -> Answer {
    reads(&method)?;
    let kinds: Map<String, Value> =
        Kind::ALL.iter().map(|kind| (kind.name().to_owned(), requests(&app, *kind))).collect();
    let status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "sql": cfg!(feature = "sql"),
        "uptime_ms": app.started.elapsed().as_millis() as u64,
        "connections": app.connections(),
        "transactions": app.transactions.count(),
        "streams": app.streams(),
        "open_databases": app.databases.all_open().len(),
        "requests": kinds,
    });
    Ok(text("application/json", status.to_string()))
}

fn requests(app: &App, kind: Kind) -> Value {
    let totals = app.observed.totals(kind);
    let filled = totals.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
    let latency: Vec<Value> = filled.map(|(bucket, count)| json!([bucket_end_ns(bucket), count])).collect();
    json!({
        "count": totals.count(),
        "total_ns": totals.total_ns,
        "errors_4xx": totals.statuses[4],
        "errors_5xx": totals.statuses[5],
        "latency_ns": latency,
    })
}
