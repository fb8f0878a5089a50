//! Refuses writes by name to tables that belong to typed tables, whatever the token allows.

use crate::wire::problem::{Answer, Problem};
use axum::http::StatusCode;

/// Refuses a table with a reserved name ([`rows::is_reserved`]).
///
/// # Errors
/// 403 for a reserved name.
#[inline]
pub fn refuse_reserved(table: &str) -> Answer<()> {
    rows::refuse_reserved(table).map_err(|error| {
        let mut problem = Problem::new(StatusCode::FORBIDDEN, "reserved-table", error.message());
        problem.cause = Some(error);
        problem
    })
}
