//! `POST /v1/databases/{database}/sql` of a server that was built without SQL.

use super::{Shared, split};
use crate::limits::receive::RequestBody;
use crate::wire::problem::{Answer, Problem};
use axum::http::{Method, Request, StatusCode};

/// POST: 501.
pub async fn run(axum::extract::State(_): Shared, request: Request<RequestBody>) -> Answer {
    let (method, _, _) = split(request);
    if method != Method::POST {
        return Err(Problem::method_not_allowed());
    }
    let detail = "this server was built without SQL; build `pando` with its feature `sql`, which is on by \
                  default (leave out `--no-default-features`). Records, documents and batches work as usual";
    Err(Problem::new(StatusCode::NOT_IMPLEMENTED, "unsupported", detail))
}
