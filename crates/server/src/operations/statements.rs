//! The SQL operation. It also exists without the feature `sql`, and then reports that SQL is missing.

use crate::access::tokens::Scope;
use crate::calls::meanings::{CONFLICT, FULL, LATE, MISSING, TOO_LARGE};
use crate::calls::operation::{Access, Operation, on_both};
use crate::operations::sql;
use crate::watch::observe::Kind;
#[cfg(all(feature = "arrow", feature = "sql"))]
use crate::wire::accept::ARROW_STREAM;
use crate::wire::response::NDJSON;

/// The entries of these handlers. A token that may only read can run statements that only read: `sql` checks each.
pub const OPERATIONS: &[Operation] = &[on_both!(
    "POST",
    "/v1/databases/{database}/sql",
    Access::Database(Scope::Read),
    Kind::Sql,
    "Run one SQL statement, or several as one transaction",
    |parts, call, body| Box::pin(sql::run(parts.data(), parts.room(), parts.keeper(), call, body)),
)
.takes(&["format", "durability"])
.receives("sql")
.ending_with_client()
.on_replicas()
.responses(&[
    (200, "The results; in NDJSON the last line states whether all statements were completed"),
    MISSING,
    CONFLICT,
    TOO_LARGE,
    LATE,
    (422, "The statements exceeded their time limit; nothing was changed, unless the type is `committed`"),
    (501, "The server was built without SQL"),
    FULL,
])
.sends(SENT)];

/// The types of the response.
#[cfg(all(feature = "arrow", feature = "sql"))]
const SENT: &[&str] = &[NDJSON, "application/json", "text/csv", ARROW_STREAM];
#[cfg(not(all(feature = "arrow", feature = "sql")))]
const SENT: &[&str] = &[NDJSON, "application/json", "text/csv"];
