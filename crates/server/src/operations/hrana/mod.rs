//! Hrana, the protocol of libSQL's clients: `/v1/databases/{database}/hrana/`. It is off unless the configuration asks
//! for it. The crate `hrana` has the protocol.
//!
//! 1. A body is read into memory and decoded. A few requests run at a time, together with those of `/sql`, each on a
//!    thread that may wait, within the time limit of statements.
//! 2. A request without a baton begins a stream, one with a baton takes its stream. Unless the request closes it, the
//!    stream is kept under a new baton, which is in the reply.
//! 3. A baton belongs to the token and the database of the request that began its stream.
//! 4. A client that leaves before the reply stops its statements, and its stream is closed, because nobody knows its
//!    new baton.
//! 5. Errors have the form of problems, and the two members in addition that clients of Hrana read.

#[cfg_attr(not(feature = "sql"), path = "absent.rs")]
mod run;

use crate::access::tokens::Scope;
use crate::calls::meanings::{LATE, MISSING, TOO_LARGE};
use crate::calls::operation::{Access, Operation, on_both};
use crate::watch::observe::Kind;
use crate::wire::response::NDJSON;

const READ: Access = Access::Database(Scope::Read);
const TOO_MANY: (u16, &str) = (429, "Too many streams are open");
const ABSENT: (u16, &str) = (501, "The server was built without SQL");

/// The entries of these handlers. A token that may only read can run statements that only read.
pub const OPERATIONS: &[Operation] = &[
    probe("/v1/databases/{database}/hrana/v2", "Check that the server supports Hrana 2"),
    probe("/v1/databases/{database}/hrana/v3", "Check that the server supports Hrana 3 in JSON"),
    pipeline("/v1/databases/{database}/hrana/v2/pipeline", "Run requests of Hrana 2 on a stream"),
    pipeline("/v1/databases/{database}/hrana/v3/pipeline", "Run requests of Hrana 3 on a stream"),
    statements(on_both!(
        "POST",
        "/v1/databases/{database}/hrana/v3/cursor",
        READ,
        Kind::Sql,
        "Run a batch of Hrana 3 and stream its rows",
        |parts, call, body| Box::pin(run::cursor(run::Door::of(parts), call, body)),
    ))
    .receives("cursor")
    .sends(&[NDJSON]),
];

const fn probe(path: &'static str, summary: &'static str) -> Operation {
    on_both!("GET", path, READ, Kind::Other, summary, |parts, _, _| {
        Box::pin(run::probe(run::Door::of(parts)))
    })
    .responses(&[(200, "It is"), MISSING, ABSENT])
}

const fn pipeline(path: &'static str, summary: &'static str) -> Operation {
    let operation = on_both!("POST", path, READ, Kind::Sql, summary, |parts, call, body| {
        Box::pin(run::pipeline(run::Door::of(parts), call, body))
    });
    statements(operation).receives("pipeline")
}

const fn statements(operation: Operation) -> Operation {
    operation.ending_with_client().responses(&[
        (200, "The results, and the errors of statements"),
        MISSING,
        TOO_LARGE,
        LATE,
        TOO_MANY,
        ABSENT,
    ])
}
