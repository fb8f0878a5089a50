//! The health and the figures of a server over a remote store.

use crate::calls::call::Call;
use crate::calls::parts::Parts;
use crate::data::engine::Remote;
use crate::data::open::Open;
use crate::limits::connections::Connections;
use crate::limits::handoff::hand_off;
use crate::operations::health::{NOT_READY, ending, not_ready, requests};
use crate::operations::metrics::{self, Figures, all_tables};
use crate::watch::observe::Kind;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::whole;
use axum::http::StatusCode;
use pando::remote::Capability;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::time::timeout;

/// How long the store may take to show that it can be reached.
const REACHED_WITHIN: Duration = Duration::from_secs(5);

/// The moment of the last look that reached the store. It is locked during a look: anybody may ask, and a store that
/// is slow must not get a look for each of them.
static REACHED: Mutex<Option<Instant>> = Mutex::const_new(None);
/// How long a look counts.
const LOOK_COUNTS: Duration = Duration::from_secs(1);

/// Handles GET of `/readyz`: makes a round trip to the store, at most once a second.
pub async fn readyz(connections: Arc<Connections>, default: Answer<Arc<Open<Remote>>>) -> Answer {
    if connections.is_ending() {
        return Err(ending());
    }
    let open = default.map_err(not_ready)?;
    let looked = async {
        let mut reached = REACHED.lock().await;
        if reached.is_some_and(|at| at.elapsed() < LOOK_COUNTS) {
            return Ok(());
        }
        hand_off(move || {
            open.db.table("ready")?;
            *reached = Some(Instant::now());
            Ok(())
        })
        .await
    };
    let late = |_| {
        let detail = format!("the store did not respond within {} s", REACHED_WITHIN.as_secs());
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, NOT_READY, detail)
    };
    timeout(REACHED_WITHIN, looked).await.map_err(late)?.map_err(not_ready)?;
    Ok(whole("text/plain", "ready\n"))
}

/// Handles GET of `/metrics`.
pub async fn show_metrics(figures: Figures<Remote>, call: Call) -> Answer {
    all_tables(&call)?;
    let shown = hand_off(move || Ok(metrics::text_of_store(&figures))).await?;
    Ok(whole(metrics::CONTENT_TYPE, shown))
}

/// Returns the counters of the server, and the names of the capabilities that it does not have.
pub fn server(parts: &Parts<Remote>) -> Value {
    let observed = &parts.watch.observed;
    let kinds: Map<String, Value> =
        Kind::ALL.iter().map(|kind| (kind.name().to_owned(), requests(observed, *kind))).collect();
    let databases = &parts.data.databases;
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "sql": false,
        "uptime_ms": parts.connections.uptime().as_millis() as u64,
        "connections": parts.connections.count(),
        "transactions": parts.data.transactions.count(),
        "hrana_streams": 0,
        "streams": parts.room.streams(),
        "open_databases": databases.all_open().len(),
        "role": "primary",
        "replica": null,
        "backups": null,
        "unsupported": Capability::ALL.map(Capability::name),
        "store_connections": databases.connections(),
        "requests": kinds,
    })
}
