//! Maintenance of a database: checkpoint, compact, check, sync; and the list of what runs.

use crate::access::tokens::Scope;
use crate::calls::call::Call;
use crate::calls::meanings::{DONE, FULL, MISSING};
use crate::calls::operation::{Access, Operation};
use crate::calls::parts::Parts;
use crate::data::held::Data;
use crate::limits::handoff::hand_off;
use crate::limits::room::Room;
use crate::watch::jobs::{Jobs, Running};
use crate::watch::observe::Kind;
use crate::watch::watcher::Watch;
use crate::wire::problem::Answer;
use crate::wire::response::{done, json};
use axum::http::StatusCode;
use pando::Database;
use pando::remote::Capability;
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
        |parts, call, _| Box::pin(checkpoint(Work::of(parts), call)),
    )
    .needs(Capability::Maintenance)
    .responses(&[DONE, MISSING, FULL])
    .on_replicas(),
    Operation::new(
        "POST",
        "/v1/databases/{database}/compact",
        Access::Database(Scope::Admin),
        Kind::Other,
        "Shrink the files of the database",
        |parts, call, _| Box::pin(compact(Work::of(parts), call)),
    )
    .needs(Capability::Maintenance)
    .responses(&[(200, "JSON"), MISSING, FULL])
    .on_replicas(),
    Operation::new(
        "POST",
        "/v1/databases/{database}/check",
        Access::Database(Scope::Admin),
        Kind::Other,
        "Verify everything on disk",
        |parts, call, _| Box::pin(check(Work::of(parts), call)),
    )
    .needs(Capability::Maintenance)
    .responses(&[(200, "JSON: `sound`, and the problems found"), MISSING])
    .on_replicas(),
    Operation::new(
        "POST",
        "/v1/databases/{database}/sync",
        Access::Database(Scope::Admin),
        Kind::Other,
        "Sync: make every commit durable",
        |parts, call, _| Box::pin(sync(Work::of(parts), call)),
    )
    .needs(Capability::Maintenance)
    .responses(&[DONE, MISSING])
    .on_replicas(),
    Operation::new(
        "GET",
        "/v1/databases/{database}/jobs",
        Access::Database(Scope::Read),
        Kind::Other,
        "List the maintenance and the backups that run, with their progress, and the last ones that ended",
        |parts, call, _| Box::pin(jobs(parts.data(), parts.watch(), call)),
    )
    .needs(Capability::Maintenance)
    .responses(&[(200, "JSON"), MISSING]),
];

/// The parts of the server that maintenance uses.
struct Work {
    data: Arc<Data>,
    room: Arc<Room>,
    jobs: Arc<Jobs>,
}

impl Work {
    fn of(parts: &Parts) -> Self {
        Work { data: parts.data(), room: parts.room(), jobs: Arc::clone(&parts.watch.jobs) }
    }

    /// Runs `work` on the database of the request, as a job whose progress others can see.
    async fn run<T: Send + 'static>(
        self,
        call: Call,
        kind: &'static str,
        unit: &'static str,
        work: fn(&Database, &Running) -> Answer<T>,
    ) -> Answer<T> {
        let name = call.target().database().to_owned();
        let open = self.data.database(&name).await?;
        let permit = self.room.stream_permit().await?;
        hand_off(move || {
            // The permit is kept until the work ends, even if the client disconnects.
            let _permit = permit;
            let job = self.jobs.begin(&name, kind, unit);
            let done = work(&open.db, &job);
            job.end(done.as_ref().map(|_| ()).map_err(|problem| &problem.detail));
            done
        })
        .await
    }
}

/// Handles GET.
async fn jobs(data: Arc<Data>, watch: Arc<Watch>, call: Call) -> Answer {
    let name = call.target().database();
    data.database(name).await?;
    Ok(json(StatusCode::OK, &watch.jobs.of(name)))
}

/// Handles POST.
async fn checkpoint(work: Work, call: Call) -> Answer {
    work.run(call, "checkpoint", "checkpoints", |db, _| Ok(db.checkpoint()?)).await?;
    Ok(done(None))
}

/// Handles POST.
async fn sync(work: Work, call: Call) -> Answer {
    work.run(call, "sync", "commits", |db, _| Ok(db.sync()?)).await?;
    Ok(done(None))
}

/// Handles POST.
async fn compact(work: Work, call: Call) -> Answer {
    // How many checkpoints it takes is not known before.
    let compact = |db: &Database, job: &Running| Ok(db.compact(|now| job.set(now.checkpoints, 0))?);
    let compacted = work.run(call, "compact", "checkpoints", compact).await?;
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
async fn check(work: Work, call: Call) -> Answer {
    let verify = |db: &Database, job: &Running| {
        let tables = db.snapshot()?.tables()?.len() as u64;
        let found = db.check_all(|now| job.set(now.tables, tables.max(now.tables)))?;
        job.set(found.report.tables, found.report.tables);
        Ok((found, rows::check(&db.snapshot()?, |_| {})?))
    };
    let (found, typed) = work.run(call, "check", "tables", verify).await?;
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
        "checkpoint": report.checkpoint,
        "commits_in_log": report.log_commits,
        "changes_in_log": report.log_changes,
    });
    Ok(json(StatusCode::OK, &answer))
}
