//! The steps of a request that a server over a remote store has in its own way.

use crate::calls::call::Call;
use crate::calls::operation::Operation;
use crate::calls::parts::Parts;
use crate::data::engine::Remote;
use crate::data::remote::failures::of_store;
use crate::limits::receive::RequestBody;
use crate::routes::tree::Found;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::MIN_COMMIT;
use axum::http::HeaderMap;
use pando::remote::Capability;

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
