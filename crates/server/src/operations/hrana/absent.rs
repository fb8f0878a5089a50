//! The handlers of Hrana in a server that was built without SQL.

use crate::calls::call::Call;
use crate::calls::parts::Parts;
use crate::limits::receive::RequestBody;
use crate::wire::problem::{Answer, Problem};
use axum::http::StatusCode;

/// The parts that the handlers use: none.
#[derive(Debug)]
pub struct Door;

impl Door {
    /// Returns the parts.
    pub fn of(_: &Parts) -> Self {
        Door
    }
}

fn absent() -> Problem {
    let detail = "this server was built without SQL, which Hrana speaks; build `pando` with its feature \
                  `sql`, which is on by default (leave out `--no-default-features`)";
    Problem::new(StatusCode::NOT_IMPLEMENTED, "unsupported", detail)
}

/// Responds with 501.
pub async fn probe(_: Door) -> Answer {
    Err(absent())
}

/// Responds with 501.
pub async fn pipeline(_: Door, _: Call, _: RequestBody) -> Answer {
    Err(absent())
}

/// Responds with 501.
pub async fn cursor(_: Door, _: Call, _: RequestBody) -> Answer {
    Err(absent())
}
