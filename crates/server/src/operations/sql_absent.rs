//! `POST /v1/databases/{database}/sql` in a server that was built without SQL.

use crate::access::auth::Gatekeeper;
use crate::calls::call::Call;
use crate::data::engine::Engine;
use crate::data::held::Data;
use crate::limits::receive::RequestBody;
use crate::limits::room::Room;
use crate::wire::problem::{Answer, Problem};
use axum::http::StatusCode;
use std::sync::Arc;

/// Responds with 501.
pub async fn run<E: Engine>(
    _: Arc<Data<E>>,
    _: Arc<Room>,
    _: Arc<Gatekeeper>,
    _: Call,
    _: RequestBody,
) -> Answer {
    let detail = "this server was built without SQL; build `pando` with its feature `sql`, which is on by \
                  default (leave out `--no-default-features`). Records, documents and batches work as usual";
    Err(Problem::new(StatusCode::NOT_IMPLEMENTED, "unsupported", detail))
}
