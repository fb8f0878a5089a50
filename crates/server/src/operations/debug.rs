//! `/debug/profile`: a flame graph of the running server, taken while it works. `/debug/slow`: the slowest requests.

use crate::limits::handoff::hand_off;
use crate::serving::service::App;
use crate::wire::body::Body;
use crate::wire::problem::{Answer, Problem};
use crate::wire::target::raw_parameter;
use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, Response, StatusCode, Uri};
use axum::routing::any;
use profile::{Error, Kind, Profile, Recording};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest recording.
const MOST_SECONDS: u64 = 60;

/// The paths.
pub fn routes() -> Router<Arc<App>> {
    Router::new().route("/debug/profile", any(record)).route("/debug/slow", any(slow))
}

/// The slowest requests of the last minutes.
async fn slow(State(app): State<Arc<App>>, method: Method) -> Answer {
    if method != Method::GET {
        return Err(Problem::method_not_allowed());
    }
    let mut response = Response::new(Body::whole(app.slow.to_json(Instant::now()).to_string()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// `?kind=cpu|alloc|lock&seconds=5[&form=svg|folded]`, or `?last=10`, of what is kept.
async fn record(State(app): State<Arc<App>>, method: Method, uri: Uri) -> Answer {
    if method != Method::GET {
        return Err(Problem::method_not_allowed());
    }
    let word = |name| raw_parameter(uri.query(), name);
    let kind: Kind = word("kind").unwrap_or("cpu").parse().map_err(Problem::bad_request)?;
    let seconds = |name, usual: &str| match word(name).unwrap_or(usual).parse() {
        Ok(seconds @ 1..=MOST_SECONDS) => Ok(Duration::from_secs(seconds)),
        _ => Err(Problem::bad_request(format!("`{name}` must be 1 to {MOST_SECONDS}"))),
    };
    let folded = match word("form") {
        None | Some("svg") => false,
        Some("folded") => true,
        Some(_) => return Err(Problem::bad_request("`form` must be svg or folded")),
    };
    let time = seconds("seconds", "5")?;
    let profile = match word("last") {
        Some(_) if kind != Kind::Cpu || app.window.is_none() => {
            return Err(Problem::bad_request(
                "no such profile is kept: start the server with --profile-window for CPU profiles, or ask \
                 for `seconds` instead of `last`",
            ));
        }
        Some(_) => {
            let time = seconds("last", "")?;
            of_window(app, time).await?
        }
        None if kind == Kind::Cpu && app.window.is_some() => {
            tokio::time::sleep(time).await;
            of_window(app, time).await?
        }
        None => {
            let recording = hand_off(move || Recording::start(kind).map_err(refused)).await?;
            // No thread waits meanwhile; a client that goes away ends the recording.
            tokio::time::sleep(time).await;
            hand_off(move || Ok(recording.stop())).await?
        }
    };
    let text = hand_off(move || Ok(if folded { profile.folded() } else { profile.svg() }));
    let mut response = Response::new(Body::whole(text.await?));
    let content_type = if folded { "text/plain; charset=utf-8" } else { "image/svg+xml" };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    Ok(response)
}

/// What the window has of the last `time`.
async fn of_window(app: Arc<App>, time: Duration) -> Answer<Profile> {
    let nothing = || Problem::bad_request("no profile is kept; start the server with --profile-window");
    hand_off(move || app.window.as_ref().map(|window| window.last(time)).ok_or_else(nothing)).await
}

fn refused(error: Error) -> Problem {
    let (status, kind) = match error {
        Error::Busy => (StatusCode::CONFLICT, "profile-busy"),
        Error::NoAllocator | Error::Unsupported => (StatusCode::NOT_IMPLEMENTED, "unsupported"),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
    };
    Problem::new(status, kind, error.to_string())
}
