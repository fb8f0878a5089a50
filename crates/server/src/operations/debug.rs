//! `/debug/profile`: a flame graph of the running server. `/debug/slow`: the slowest requests.

use crate::access::tokens::Scope;
use crate::calls::call::Call;
use crate::calls::meanings::CONFLICT;
use crate::calls::operation::{Access, Operation, on_both};
use crate::limits::handoff::hand_off;
use crate::watch::observe::Kind as Counted;
use crate::watch::watcher::Watch;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::whole;
use crate::wire::target::raw_parameter;
use axum::http::StatusCode;
use profile::{Error, Kind, Profile, Recording};
use std::future::ready;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest recording in seconds.
const MOST_SECONDS: u64 = 60;

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[
    on_both!(
        "GET",
        "/debug/profile",
        Access::All(Scope::Admin),
        Counted::Other,
        "Profile the running server and get a flame graph",
        |parts, call, _| Box::pin(record(parts.watch(), call)),
    )
    .takes(&["kind", "seconds", "last", "form"])
    .timed()
    .responses(&[(200, "The flame graph, or folded text"), CONFLICT, (501, "Not on this system")])
    .sends(&["image/svg+xml", "text/plain"]),
    on_both!(
        "GET",
        "/debug/slow",
        Access::All(Scope::Admin),
        Counted::Other,
        "List the slowest requests of the last ten minutes and where their time went",
        |parts, _, _| {
            let slow = parts.watch.slow.to_json(Instant::now()).to_string();
            Box::pin(ready(Ok(whole("application/json", slow))))
        },
    )
    .responses(&[(200, "JSON")])
    .at_once(),
];

/// Handles `?kind=cpu|alloc|lock&seconds=5[&form=svg|folded]`, or `?last=10` for the profile that is kept.
async fn record(watch: Arc<Watch>, call: Call) -> Answer {
    let word = |name| raw_parameter(call.target().query(), name);
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
        Some(_) if kind != Kind::Cpu || watch.window.is_none() => {
            return Err(Problem::bad_request(
                "no such profile is kept: start the server with --profile-window for CPU profiles, or ask \
                 for `seconds` instead of `last`",
            ));
        }
        Some(_) => {
            let time = seconds("last", "")?;
            of_window(watch, time).await?
        }
        None if kind == Kind::Cpu && watch.window.is_some() => {
            tokio::time::sleep(time).await;
            of_window(watch, time).await?
        }
        None => {
            let recording = hand_off(move || Recording::start(kind).map_err(refused)).await?;
            // No thread waits meanwhile. If the client disconnects, the recording ends.
            tokio::time::sleep(time).await;
            hand_off(move || Ok(recording.stop())).await?
        }
    };
    let text = hand_off(move || Ok(if folded { profile.folded() } else { profile.svg() }));
    Ok(whole(if folded { "text/plain; charset=utf-8" } else { "image/svg+xml" }, text.await?))
}

/// Returns the profile of the last `time` from the window.
async fn of_window(watch: Arc<Watch>, time: Duration) -> Answer<Profile> {
    let nothing = || Problem::bad_request("no profile is kept; start the server with --profile-window");
    hand_off(move || watch.window.as_ref().map(|window| window.last(time)).ok_or_else(nothing)).await
}

fn refused(error: Error) -> Problem {
    let (status, kind) = match error {
        Error::Busy => (StatusCode::CONFLICT, "profile-busy"),
        Error::NoAllocator | Error::Unsupported => (StatusCode::NOT_IMPLEMENTED, "unsupported"),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
    };
    Problem::new(status, kind, error.to_string())
}
