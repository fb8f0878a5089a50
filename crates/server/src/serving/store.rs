//! The steps of a request that a server over a remote store has in its own way.

use crate::calls::call::Call;
use crate::calls::operation::Operation;
use crate::calls::parts::Parts;
use crate::data::engine::Remote;
use crate::limits::receive::RequestBody;
use crate::routes::tree::Found;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::MIN_COMMIT;
use axum::http::{HeaderMap, StatusCode};
use pando::remote::{Capability, Fault, InDoubt};

/// Refuses a request that needs what only Pando's own engine has, before its body is received.
///
/// # Errors
/// 501 for an operation, 422 for a header.
pub fn check(headers: &HeaderMap, found: &Found) -> Answer<()> {
    if let Some(capability) = found.operation().and_then(|operation| operation.needs) {
        return Err(Problem::unsupported(capability));
    }
    match headers.contains_key(MIN_COMMIT) {
        true => Err(Capability::CommitNumbers.refusal().into()),
        false => Ok(()),
    }
}

/// Runs an operation that was not refused.
pub async fn run(parts: &Parts<Remote>, operation: &Operation, call: Call, body: RequestBody) -> Answer {
    // A test checks that each operation has a handler, or was refused.
    let missing = || Problem::internal("the operation has no handler for a remote store");
    operation.remote.ok_or_else(missing)?(parts, call, body).await.map_err(of_store)
}

/// Returns the problem of a request that failed because of the store. Nothing was written then, except perhaps by a
/// commit in doubt, whose problem says how to find out.
fn of_store(mut problem: Problem) -> Problem {
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
    if fault == Fault::Misconfigured {
        tracing::error!(reason = %problem.detail, "the store does not serve this server");
    }
    problem
}
