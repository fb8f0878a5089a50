//! The handlers of Hrana in a server that was built without SQL.

use crate::calls::call::Call;
use crate::calls::parts::Parts;
use crate::data::engine::Engine;
use crate::limits::receive::RequestBody;
use crate::wire::problem::{Answer, Problem};
use axum::http::StatusCode;
use std::marker::PhantomData;

/// The parts that the handlers use: none.
#[derive(Debug)]
pub struct Door<E>(PhantomData<E>);

impl<E: Engine> Door<E> {
    /// Returns the parts.
    pub fn of(_: &Parts<E>) -> Self {
        Door(PhantomData)
    }
}

fn absent() -> Problem {
    let detail = "this server was built without SQL, which Hrana needs; build `pando` with its feature \
                  `sql`, which is on by default (leave out `--no-default-features`)";
    Problem::new(StatusCode::NOT_IMPLEMENTED, "unsupported", detail)
}

/// Responds with 501.
pub async fn probe<E: Engine>(_: Door<E>) -> Answer {
    Err(absent())
}

/// Responds with 501.
pub async fn pipeline<E: Engine>(_: Door<E>, _: Call, _: RequestBody) -> Answer {
    Err(absent())
}

/// Responds with 501.
pub async fn cursor<E: Engine>(_: Door<E>, _: Call, _: RequestBody) -> Answer {
    Err(absent())
}
