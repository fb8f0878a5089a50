//! Maintenance of a database: checkpoint, compact, check, sync.

use crate::access::tokens::Scope;
use crate::calls::call::Call;
use crate::calls::meanings::{DONE, FULL, MISSING};
use crate::calls::operation::{Access, Operation};
use crate::data::held::Data;
use crate::limits::handoff::hand_off;
use crate::limits::room::Room;
use crate::watch::observe::Kind;
use crate::wire::problem::Answer;
use crate::wire::response::{done, json};
use axum::http::StatusCode;
use pando::Database;
use serde_json::{Value, json as object};
use std::sync::Arc;

/// The number of problems of a check that are listed. All problems are counted.
const LISTED: usize = 100;

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[
    Operation::new(
        "POST",
        "/v1/databases/{database}/checkpoint",
        Access::Database(Scope::Admin),
        Kind::Other,
        "Write a checkpoint: merge all logged changes into the data file",
        |parts, call, _| Box::pin(checkpoint(parts.data(), parts.room(), call)),
    )
    .responses(&[DONE, MISSING, FULL])
    .on_replicas(),
    Operation::new(
        "POST",
        "/v1/databases/{database}/compact",
        Access::Database(Scope::Admin),
        Kind::Other,
        "Shrink the files of the database",
        |parts, call, _| Box::pin(compact(parts.data(), parts.room(), call)),
    )
    .responses(&[(200, "JSON"), MISSING, FULL])
    .on_replicas(),
    Operation::new(
        "POST",
        "/v1/databases/{database}/check",
        Access::Database(Scope::Admin),
        Kind::Other,
        "Verify everything on disk",
        |parts, call, _| Box::pin(check(parts.data(), parts.room(), call)),
    )
    .responses(&[(200, "JSON: `sound`, and the problems found"), MISSING])
    .on_replicas(),
    Operation::new(
        "POST",
        "/v1/databases/{database}/sync",
        Access::Database(Scope::Admin),
        Kind::Other,
        "Sync: make every commit durable",
        |parts, call, _| Box::pin(sync(parts.data(), parts.room(), call)),
    )
    .responses(&[DONE, MISSING])
    .on_replicas(),
];

/// Handles POST.
async fn checkpoint(data: Arc<Data>, room: Arc<Room>, call: Call) -> Answer {
    run(data, room, call, |db| Ok(db.checkpoint()?)).await?;
    Ok(done(None))
}

/// Handles POST.
async fn sync(data: Arc<Data>, room: Arc<Room>, call: Call) -> Answer {
    run(data, room, call, |db| Ok(db.sync()?)).await?;
    Ok(done(None))
}

/// Handles POST.
async fn compact(data: Arc<Data>, room: Arc<Room>, call: Call) -> Answer {
    let compacted = run(data, room, call, |db| Ok(db.compact(|_| {})?)).await?;
    let report = object!({
        "data_file_bytes_before": compacted.data_file_bytes_before,
        "data_file_bytes": compacted.data_file_bytes,
        "data_used_bytes": compacted.data_used_bytes,
        "log_file_bytes_before": compacted.log_file_bytes_before,
        "log_file_bytes": compacted.log_file_bytes,
        "checkpoints": compacted.checkpoints,
    });
    Ok(json(StatusCode::OK, &report))
}

/// Handles POST. Damage in the database is a result, not a failure of the request.
async fn check(data: Arc<Data>, room: Arc<Room>, call: Call) -> Answer {
    let (found, typed) = run(data, room, call, |db| {
        let found = db.check_all(|_| {})?;
        Ok((found, rows::check(&db.snapshot()?, |_| {})?))
    })
    .await?;
    let report = &found.report;
    let count = found.count + typed.problem_count();
    let problems = found.wrong.iter().map(ToString::to_string);
    let problems = problems.chain(typed.problems.iter().map(ToString::to_string));
    let problems: Vec<Value> = problems.take(LISTED).map(Value::from).collect();
    let answer = object!({
        "sound": count == 0,
        "problem_count": count,
        "problems": problems,
        "typed_tables": typed.tables,
        "typed_rows": typed.rows,
        "index_entries": typed.entries,
        "tables": report.tables,
        "lsm_tables": report.lsm_tables,
        "runs": report.runs,
        "records_in_pages": report.records,
        "record_bytes": report.record_bytes,
        "saved_bytes": report.saved_bytes,
        "leaf_pages": report.leaves,
        "inner_pages": report.inner_pages,
        "large_values": report.large_values,
        "free_in_pages_bytes": report.free_in_pages_bytes,
        "orphan_units": report.orphan_units,
    });
    Ok(json(StatusCode::OK, &answer))
}

async fn run<T: Send + 'static>(
    data: Arc<Data>,
    room: Arc<Room>,
    call: Call,
    work: fn(&Database) -> Answer<T>,
) -> Answer<T> {
    let open = data.database(call.target().database()).await?;
    let permit = room.stream_permit().await?;
    hand_off(move || {
        // The permit is kept until the work ends, even if the client disconnects.
        let _permit = permit;
        work(&open.db)
    })
    .await
}
