//! The problems of requests that failed because of the store.

use crate::wire::problem::Problem;
use axum::http::StatusCode;
use pando::remote::{Fault, InDoubt};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// When the log last said that the store does not serve this server. Every request may find that, so the log says it at
/// most once in [`LOG_PAUSE`].
static LOGGED: Mutex<Option<Instant>> = Mutex::new(None);
const LOG_PAUSE: Duration = Duration::from_secs(1);

/// Returns the problem of a request that failed because of the store. Nothing was written then, except perhaps by a
/// commit in doubt, whose problem says how to find out.
pub fn of_store(mut problem: Problem) -> Problem {
    let Some(cause) = &problem.cause else { return problem };
    if let Some(commit) = InDoubt::in_error(cause) {
        // The library's message names the token alone.
        problem.detail = format!(
            "the connection to the store was lost during the commit, and the store could not be asked \
             whether it happened; ask with POST /v1/databases/{{database}}/commits/{commit}/outcome"
        );
        return problem;
    }
    let Some(fault) = Fault::in_error(cause) else { return problem };
    (problem.status, problem.kind) = match fault {
        Fault::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "store-unavailable"),
        Fault::Busy => (StatusCode::SERVICE_UNAVAILABLE, "store-busy"),
        Fault::Full => (StatusCode::INSUFFICIENT_STORAGE, "store-full"),
        Fault::TimedOut => (StatusCode::GATEWAY_TIMEOUT, "store-timeout"),
        Fault::Misconfigured => (StatusCode::INTERNAL_SERVER_ERROR, "store-misconfigured"),
        _ => return problem,
    };
    if problem.status == StatusCode::SERVICE_UNAVAILABLE {
        problem.retry_after_s = Some(1);
    }
    if fault == Fault::Misconfigured && is_due(&LOGGED, Instant::now()) {
        tracing::error!(reason = %problem.detail, "the store does not serve this server");
    }
    problem
}

/// Returns whether the log may say it at `now`, and notes that it does.
fn is_due(logged: &Mutex<Option<Instant>>, now: Instant) -> bool {
    let mut logged = logged.lock().unwrap_or_else(PoisonError::into_inner);
    let is_due = logged.is_none_or(|last| now.saturating_duration_since(last) >= LOG_PAUSE);
    if is_due {
        *logged = Some(now);
    }
    is_due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_repeats_itself_once_a_second() {
        let (logged, begun) = (Mutex::new(None), Instant::now());
        let due = [0, 1, 999, 1000, 1001, 1999, 2500, 3000]
            .map(|ms| is_due(&logged, begun + Duration::from_millis(ms)));
        assert_eq!(due, [true, false, false, true, false, false, true, false]);
    }
}
