//! `/v1/databases/{database}/backups`: the scheduled backups that are kept, with the result of the last one. `pando
//! restore` makes a database from any of them.

use crate::access::tokens::Scope;
use crate::calls::call::Call;
use crate::calls::meanings::MISSING;
use crate::calls::operation::{Access, Operation};
use crate::data::held::Data;
use crate::data::schedule::worker::Schedule;
use crate::limits::handoff::hand_off;
use crate::watch::observe::Kind;
use crate::wire::problem::Answer;
use crate::wire::response::json;
use axum::http::StatusCode;
use pando::BackupEntry;
use pando::remote::Capability;
use serde_json::{Value, json as object};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[Operation::new(
    "GET",
    "/v1/databases/{database}/backups",
    Access::Database(Scope::Admin),
    Kind::Other,
    "List the scheduled backups that are kept, newest first, and the result of the last one",
    |parts, call, _| Box::pin(list(parts.data(), parts.schedule.clone(), call)),
)
.needs(Capability::Backups)
.responses(&[(200, "JSON; `schedule` is null if the server takes no scheduled backups"), MISSING])];

/// Handles GET.
async fn list(data: Arc<Data>, schedule: Option<Arc<Schedule>>, call: Call) -> Answer {
    let name = call.target().database().to_owned();
    let listed = hand_off(move || {
        data.databases.check_exists(&name)?;
        let Some(schedule) = schedule else { return Ok(object!({ "schedule": null, "backups": [] })) };
        let result = schedule.result(&name).unwrap_or_default();
        let kept: Vec<Value> = schedule.kept(&name).iter().rev().map(describe).collect();
        Ok(object!({
            "schedule": {
                "folder": schedule.folder(&name).display().to_string(),
                "every_s": schedule.every().as_secs_f64(),
                "taken": result.taken,
                "failures": result.failures,
                "error": result.error,
                "last_bytes": result.bytes,
                "last_ms": result.took.as_millis() as u64,
            },
            "backups": kept,
        }))
    });
    Ok(json(StatusCode::OK, &listed.await?))
}

fn describe(entry: &BackupEntry) -> Value {
    let mut described = object!({ "name": entry.name, "bytes": entry.bytes });
    match &entry.info {
        Ok(info) => {
            let created = info.created().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            described["created_s"] = created.into();
            described["commit"] = info.commit().into();
            described["is_full"] = info.is_full().into();
        }
        Err(error) => described["error"] = error.to_string().into(),
    }
    described
}
