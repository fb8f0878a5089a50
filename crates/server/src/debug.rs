//! `/debug/profile`: a flame graph of the running server, taken while it works.

use crate::app::App;
use crate::body::Body;
use crate::handoff::hand_off;
use crate::problem::{Answer, Problem};
use crate::target::raw_parameter;
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, Response, StatusCode, Uri};
use axum::routing::any;
use profile::{Error, Kind, Recording};
use std::sync::Arc;
use std::time::Duration;

/// The longest recording.
const MOST_SECONDS: u64 = 60;

/// The path.
pub fn routes() -> Router<Arc<App>> {
    Router::new().route("/debug/profile", any(record))
}

/// `?kind=cpu|alloc|lock&seconds=5[&form=svg|folded]`.
async fn record(method: Method, uri: Uri) -> Answer {
    if method != Method::GET {
        return Err(Problem::method_not_allowed());
    }
    let word = |name| raw_parameter(uri.query(), name);
    let kind: Kind = word("kind").unwrap_or("cpu").parse().map_err(Problem::bad_request)?;
    let seconds: u64 = word("seconds").unwrap_or("5").parse().unwrap_or(0);
    if !(1..=MOST_SECONDS).contains(&seconds) {
        return Err(Problem::bad_request(format!("`seconds` is 1 to {MOST_SECONDS}")));
    }
    let folded = match word("form") {
        None | Some("svg") => false,
        Some("folded") => true,
        Some(_) => return Err(Problem::bad_request("`form` is svg or folded")),
    };
    let recording = hand_off(move || Recording::start(kind).map_err(refused)).await?;
    // No thread waits meanwhile; a client that goes away ends the recording.
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let text = hand_off(move || {
        let profile = recording.stop();
        Ok(if folded { profile.folded() } else { profile.svg() })
    });
    let mut response = Response::new(Body::whole(text.await?));
    let content_type = if folded { "text/plain; charset=utf-8" } else { "image/svg+xml" };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    Ok(response)
}

fn refused(error: Error) -> Problem {
    let (status, kind) = match error {
        Error::Busy => (StatusCode::CONFLICT, "profile-busy"),
        Error::NoAllocator | Error::Unsupported => (StatusCode::NOT_IMPLEMENTED, "unsupported"),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
    };
    Problem::new(status, kind, error.to_string())
}
