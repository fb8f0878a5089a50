//! What became of a commit whose response said `indeterminate`.
//!
//! Only a remote store knows commits by tokens. Pando's own engine decides about such a commit when its database is
//! opened again.

use crate::access::tokens::Scope;
use crate::calls::operation::{Access, Operation, on_both};
#[cfg(feature = "remote")]
use crate::operations::store::outcome::ask;
use crate::watch::observe::Kind;
use crate::wire::problem::{Answer, Problem};

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[on_both!(
    "POST",
    "/v1/databases/{database}/commits/{commit}/outcome",
    Access::Database(Scope::Write),
    Kind::Transaction,
    "Find out whether an indeterminate commit happened; if it has not, it never will",
    |_, _, _| Box::pin(none()),
    store: |parts, call, _| Box::pin(ask(parts.data(), call)),
)
.responses(&[
    (200, "JSON: `committed`, which stays the same however often you ask"),
    (404, "There is no such database, the commit belongs to another one, or the server is not over a store"),
    (410, "The commit is more than a day old; read what it wrote"),
])];

/// Handles POST on a server whose directory keeps the databases.
async fn none() -> Answer {
    let detail = "this server keeps its databases itself, and its commits have no tokens; a commit whose \
                  response was `indeterminate` is decided when the database is opened again: restart the \
                  server, and read what the commit wrote";
    Err(Problem::not_found(detail))
}
