//! What became of a commit whose connection to the store was lost.

use crate::calls::call::Call;
use crate::data::engine::Remote;
use crate::data::held::Data;
use crate::limits::handoff::hand_off;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::json;
use axum::http::StatusCode;
use pando::remote::InDoubt;
use serde_json::json as object;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The requests that may ask at a time. Each opens a connection of its own, beside those of its database.
static ASKING: Semaphore = Semaphore::const_new(4);

/// Handles POST: asks the store, again and again until twice the time of a request has passed.
pub async fn ask(data: Arc<Data<Remote>>, call: Call) -> Answer {
    let commit: InDoubt = call.target().second().parse()?;
    let busy = |_| Problem::busy("other requests are asking what became of their commits");
    let asking = ASKING.try_acquire().map_err(busy)?;
    let open = data.database(call.target().database()).await?;
    let committed = hand_off(move || {
        // Also after the client has left.
        let _asking = asking;
        Ok(open.db.resolve(&commit)?)
    })
    .await?;
    Ok(json(StatusCode::OK, &object!({ "committed": committed })))
}
