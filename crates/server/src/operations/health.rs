//! The health and the figures of the server: `/healthz`, `/readyz`, `/metrics`, `/v1/server`.

use crate::access::auth::{Gatekeeper, Rights};
use crate::access::tokens::Scope;
use crate::calls::call::Call;
use crate::calls::operation::{Access, Operation, on_both};
use crate::data::databases::{DEFAULT_DATABASE, Databases};
use crate::data::held::Data;
use crate::data::open::Open;
use crate::data::replicas::Lag;
use crate::data::schedule::worker::{Results, Schedule};
use crate::limits::connections::Connections;
use crate::limits::handoff::hand_off;
use crate::operations::metrics::{self, Figures, all_tables};
#[cfg(feature = "remote")]
use crate::operations::store;
use crate::watch::observe::{Kind, Observed, bucket_end_ns};
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::whole;
use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use std::future::ready;
use std::sync::Arc;

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[
    on_both!(
        "GET",
        "/healthz",
        Access::Nothing,
        Kind::Other,
        "Check that the process responds",
        |_, _, _| Box::pin(ready(Ok(whole("text/plain", "ok\n")))),
    )
    .responses(&[(200, "It does")])
    .sends(&["text/plain"])
    .with_any_query()
    .at_once(),
    on_both!(
        "GET",
        "/readyz",
        Access::Nothing,
        Kind::Other,
        "Check that the server accepts requests, including writes",
        |parts, call, _| {
            let ready = readyz(parts.connections(), parts.data(), parts.entity.open());
            Box::pin(without_detail(ready, parts.keeper(), call))
        },
        store: |parts, call, _| {
            let ready = store::health::readyz(parts.connections(), parts.entity.open());
            Box::pin(without_detail(ready, parts.keeper(), call))
        },
    )
    .responses(&[(200, "It does"), (503, "It does not")])
    .sends(&["text/plain"])
    .with_any_query(),
    on_both!(
        "GET",
        "/metrics",
        Access::All(Scope::Read),
        Kind::Other,
        "Get all metrics in the format of Prometheus",
        |parts, call, _| Box::pin(show_metrics(Figures::from_parts(parts), call)),
        store: |parts, call, _| Box::pin(store::health::show_metrics(Figures::from_parts(parts), call)),
    )
    .takes(&["tables"])
    .responses(&[(200, "Text, version 0.0.4")])
    .sends(&["text/plain"]),
    on_both!(
        "GET",
        "/v1/server",
        Access::Any,
        Kind::Other,
        "Get counters since the start of the server",
        |parts, call, _| {
            let rights = parts.keeper.rights(&call.headers);
            let shown = server(&Figures::from_parts(parts), &rights);
            Box::pin(ready(Ok(whole("application/json", shown.to_string()))))
        },
        store: |parts, _, _| {
            Box::pin(ready(Ok(whole("application/json", store::health::server(parts).to_string()))))
        },
    )
    .responses(&[(200, "JSON")])
    .at_once(),
];

/// Returns the problem of a server that shuts down.
pub(super) fn ending() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "ending", "the server is shutting down")
}

/// Returns the problem of a server that cannot accept requests because of another one.
pub(super) fn not_ready(problem: Problem) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, NOT_READY, problem.detail)
}

/// The name of that problem.
pub(super) const NOT_READY: &str = "not-ready";

/// Returns the answer without the reason of a failure, which can have paths and addresses, if the client has no valid
/// token where tokens are required. Load balancers need the status alone.
async fn without_detail(answer: impl Future<Output = Answer>, keeper: Arc<Gatekeeper>, call: Call) -> Answer {
    answer.await.map_err(|mut problem| {
        if problem.kind == NOT_READY && !keeper.rights(&call.headers).is_known() {
            problem.detail = "the server cannot take writes; send a token to learn why".to_owned();
            problem.cause = None;
        }
        problem
    })
}

/// Reports whether the server can serve requests, including writes: it is not ending, and the default database accepts
/// commits and has room for them. No other server has taken its place in the bucket to which it is shipped.
///
/// A replica is ready when its default database can be read, and is not empty although its source may not be; the
/// response has its lag.
async fn readyz(connections: Arc<Connections>, data: Arc<Data>, default: Answer<Arc<Open>>) -> Answer {
    if connections.is_ending() {
        return Err(ending());
    }
    let default = default.map_err(not_ready)?;
    let replicas = data.databases.replicas().filter(|replicas| replicas.is_replica());
    if let Some(replicas) = &replicas {
        let snapshot = default.db.snapshot()?;
        if let Some(why) = replicas.not_copied(DEFAULT_DATABASE, snapshot.commit_number())
            && snapshot.tables()?.is_empty()
        {
            let detail = format!("the replica has copied nothing yet: {why}");
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, NOT_READY, detail));
        }
    }
    let lag = replicas.and_then(|replicas| replicas.lag(DEFAULT_DATABASE, &default.db));
    // It syncs nothing: anybody may ask, and each request would flush what `lazy` and `buffered` keep from the disk.
    let looked = hand_off(move || {
        if let Some(refusal) = default.ship().and_then(|ship| ship.refusal()) {
            return Err(refusal.into());
        }
        default.db.check_writes()?;
        default.db.short_of_room().map_or(Ok(()), |short| Err(short.into()))
    });
    looked.await.map_err(not_ready)?;
    Ok(whole(
        "text/plain",
        match lag {
            None => "ready\n".to_owned(),
            Some(Lag { commits, seconds, is_copying, .. }) => {
                let copying = u8::from(is_copying);
                format!("ready\nreplica: lag_commits={commits} lag_seconds={seconds:.3} copying={copying}\n")
            }
        },
    ))
}

async fn show_metrics(figures: Figures, call: Call) -> Answer {
    let all_tables = all_tables(&call)?;
    let shown = hand_off(move || metrics::text(&figures, all_tables)).await?;
    Ok(whole(metrics::CONTENT_TYPE, shown))
}

/// Returns the figures of the server for the dashboard and for programs. They are counts since the start; read them
/// twice to compute rates. A token of one database gets nothing about others, and no addresses and errors.
fn server(figures: &Figures, rights: &Rights) -> Value {
    let observed = &figures.watch.observed;
    let kinds: Map<String, Value> =
        Kind::ALL.iter().map(|kind| (kind.name().to_owned(), requests(observed, *kind))).collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "sql": cfg!(feature = "sql"),
        "uptime_ms": figures.connections.uptime().as_millis() as u64,
        "connections": figures.connections.count(),
        "transactions": figures.data.transactions.count(),
        "hrana_streams": figures.hrana.count(),
        "streams": figures.room.streams(),
        "open_databases": figures.data.databases.all_open().len(),
        "role": if figures.data.databases.is_replica() { "replica" } else { "primary" },
        "replica": replica(&figures.data.databases, rights),
        "backups": figures.schedule.as_ref().map(|schedule| backups(schedule, rights)),
        "requests": kinds,
    })
}

/// Returns what a replica follows, and the lag of each database that the client may read; null for a primary.
fn replica(databases: &Databases, rights: &Rights) -> Value {
    let Some(replicas) = databases.replicas().filter(|replicas| replicas.is_replica()) else {
        return Value::Null;
    };
    let is_for_all = rights.in_all().is_some();
    let lag = |(name, open): (String, Arc<Open>)| {
        rights.in_database(&name)?;
        let lag = replicas.lag(&name, &open.db)?;
        let mut described = json!({
            "up": lag.is_up,
            "applied_commit": lag.applied_commit,
            "newest_commit": lag.newest_commit,
            "lag_commits": lag.commits,
            "lag_seconds": lag.seconds,
            "copying": lag.is_copying,
            "copies": lag.copies,
        });
        if is_for_all {
            described["error"] = json!(lag.error);
        }
        Some((name, described))
    };
    let lags: Map<String, Value> = databases.all_open().into_iter().filter_map(lag).collect();
    let mut described = json!({ "databases": lags });
    if is_for_all {
        described["source"] = json!(replicas.source.address());
        described["primary"] = json!(replicas.source.primary());
    }
    described
}

/// Returns the results of scheduled backups, by database that the client may read.
fn backups(schedule: &Schedule, rights: &Rights) -> Value {
    let describe = |(name, of): (String, Results)| {
        rights.in_database(&name)?;
        let mut described = json!({
            "newest_s": of.newest_s(),
            "kept": of.kept,
            "kept_bytes": of.kept_bytes,
            "taken": of.taken,
            "failures": of.failures,
            "last_bytes": of.bytes,
            "last_ms": of.took.as_millis() as u64,
        });
        if rights.in_all().is_some() {
            described["error"] = json!(of.error);
        }
        Some((name, described))
    };
    let databases: Map<String, Value> = schedule.results().into_iter().filter_map(describe).collect();
    json!({ "every_s": schedule.every().as_secs_f64(), "databases": databases })
}

pub(super) fn requests(observed: &Observed, kind: Kind) -> Value {
    let totals = observed.totals(kind);
    let filled = totals.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
    let latency: Vec<Value> = filled.map(|(bucket, count)| json!([bucket_end_ns(bucket), count])).collect();
    json!({
        "count": totals.count(),
        "total_ns": totals.total_ns,
        "errors_4xx": totals.statuses[4],
        "errors_5xx": totals.statuses[5],
        "latency_ns": latency,
    })
}
