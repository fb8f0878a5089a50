//! `/metrics`: all counters in the text format of Prometheus (version 0.0.4).

use crate::access::auth::Gatekeeper;
use crate::calls::call::Call;
use crate::calls::parts::Parts;
use crate::data::databases::Databases;
#[cfg(feature = "remote")]
use crate::data::engine::Remote;
use crate::data::engine::{Engine, Native};
use crate::data::held::Data;
use crate::data::hrana_streams::HranaStreams;
use crate::data::replicas::Lag;
use crate::data::schedule::worker::{Results, Schedule};
use crate::limits::connections::Connections;
use crate::limits::room::Room;
use crate::log::dropped_lines;
use crate::watch::machine::{Disk, Process};
use crate::watch::observe::{BUCKETS, Kind, Observed, bucket_end_ns};
use crate::watch::watcher::Watch;
use crate::wire::problem::{Answer, Problem};
use crate::wire::target::raw_parameter;
use pando::prometheus_label;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// The content type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The number of fine buckets that form one shown bucket: a doubling.
const SHOWN_EVERY: usize = 8;

/// The number of tables of a database that have samples of their own, unless the request asks for all. The page is
/// scraped every few seconds.
const TOP_TABLES: usize = 100;
/// The number of consumers of a database that have samples: those that are furthest behind. Clients create consumers.
const TOP_CONSUMERS: usize = 100;

/// The parts of a server that have counters.
#[derive(Debug)]
pub struct Figures<E: Engine = Native> {
    /// The figures of requests.
    pub watch: Arc<Watch>,
    /// The figures of databases and transactions.
    pub data: Arc<Data<E>>,
    /// The figures of Hrana's streams.
    pub hrana: Arc<HranaStreams>,
    /// The figures of streams.
    pub room: Arc<Room>,
    /// The figures of connections.
    pub connections: Arc<Connections>,
    /// The figures of scheduled backups.
    pub schedule: Option<Arc<Schedule>>,
    /// The figures of tokens.
    pub keeper: Arc<Gatekeeper>,
    /// The figures of the door for clients of Redis.
    #[cfg(feature = "redis")]
    pub redis: Arc<std::sync::OnceLock<resp::Door>>,
}

impl<E: Engine> Figures<E> {
    /// Returns the parts of `parts` that have counters.
    pub fn from_parts(parts: &Parts<E>) -> Self {
        Figures {
            watch: parts.watch(),
            data: parts.data(),
            hrana: parts.hrana(),
            room: parts.room(),
            connections: parts.connections(),
            schedule: parts.schedule.clone(),
            keeper: parts.keeper(),
            #[cfg(feature = "redis")]
            redis: Arc::clone(&parts.redis),
        }
    }
}

/// Returns the text. It inspects every open database. With `all_tables`, each table has samples of its own.
pub fn text(figures: &Figures, all_tables: bool) -> Answer<String> {
    let mut out = String::with_capacity(32 << 10);
    requests(&figures.watch.observed, &mut out);
    let databases_open = figures.data.databases.all_open().len();
    server(figures, databases_open, figures.data.databases.is_replica(), &mut out);
    traffic(figures, &mut out);
    versions(&figures.watch, &mut out);
    disk(figures.data.databases.dir(), &mut out);
    process(&mut out);
    figures.schedule.as_ref().inspect(|schedule| backups(schedule, &mut out));
    databases(&figures.data.databases, all_tables, &mut out)?;
    shipping(&figures.data.databases, &mut out);
    #[cfg(feature = "redis")]
    if let Some(door) = figures.redis.get() {
        out.push_str(&door.prometheus());
    }
    consumers(&figures.data.databases, &mut out)?;
    Ok(out)
}

/// Returns whether the request asks for the figures of all tables.
///
/// # Errors
/// 400 for another value of `tables`.
pub fn all_tables(call: &Call) -> Answer<bool> {
    match raw_parameter(call.target().query(), "tables") {
        None | Some("top") => Ok(false),
        Some("all") => Ok(true),
        Some(_) => Err(Problem::bad_request("`tables` must be top or all")),
    }
}

/// Returns the text of a server over a remote store.
#[cfg(feature = "remote")]
pub fn text_of_store(figures: &Figures<Remote>) -> String {
    let mut out = String::with_capacity(16 << 10);
    requests(&figures.watch.observed, &mut out);
    let databases = &figures.data.databases;
    server(figures, databases.all_open().len(), false, &mut out);
    traffic(figures, &mut out);
    versions(&figures.watch, &mut out);
    process(&mut out);
    let help = "Connections to the store that each database opens at most.";
    single(&mut out, "pando_store_max_connections", "gauge", help, databases.connections() as f64);
    let help = "Memory reserved for what open transactions and imports have written.";
    let used_bytes = databases.write_memory().used_bytes() as f64;
    single(&mut out, "pando_store_write_memory_bytes", "gauge", help, used_bytes);
    let mut open = databases.all_open();
    open.sort_by(|one, other| one.0.cmp(&other.0));
    let name = "pando_store_connections";
    head(&mut out, name, "gauge", "Connections to the store that are open.");
    for (database, open) in &open {
        let _ = writeln!(out, "{name}{{database=\"{database}\"}} {}", open.db.connections());
    }
    let name = "pando_store_repeats_total";
    head(
        &mut out,
        name,
        "counter",
        "Reads and transactions that were run again, after a conflict or a lost connection.",
    );
    for (database, open) in &open {
        let _ = writeln!(out, "{name}{{database=\"{database}\"}} {}", open.db.repeats());
    }
    out
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn requests(observed: &Observed, out: &mut String) {
    let name = "pando_http_requests_total";
    head(out, name, "counter", "Requests by kind and by the first digit of the status.");
    let totals = Kind::ALL.map(|kind| (kind.name(), observed.totals(kind)));
    for (kind, totals) in &totals {
        for (class, count) in totals.statuses.iter().enumerate().skip(2) {
            let _ = writeln!(out, "{name}{{kind=\"{kind}\",status=\"{class}xx\"}} {count}");
        }
    }
    let name = "pando_http_request_duration_seconds";
    head(out, name, "histogram", "Seconds from the head of a request to the head of its response.");
    for (kind, totals) in &totals {
        let mut below = 0;
        for (bucket, count) in totals.buckets.iter().enumerate().take(BUCKETS - 1) {
            below += count;
            if bucket % SHOWN_EVERY == 0 {
                let end_s = bucket_end_ns(bucket) as f64 / 1e9;
                let _ = writeln!(out, "{name}_bucket{{kind=\"{kind}\",le=\"{end_s}\"}} {below}");
            }
        }
        let count = totals.count();
        let _ = writeln!(out, "{name}_bucket{{kind=\"{kind}\",le=\"+Inf\"}} {count}");
        let _ = writeln!(out, "{name}_sum{{kind=\"{kind}\"}} {}", totals.total_ns as f64 / 1e9);
        let _ = writeln!(out, "{name}_count{{kind=\"{kind}\"}} {count}");
    }
}

fn server<E: Engine>(figures: &Figures<E>, databases_open: usize, is_replica: bool, out: &mut String) {
    let gauges = [
        ("pando_http_connections", "Connections that are open.", figures.connections.count() as u64),
        (
            "pando_http_max_connections",
            "Connections that can be open at a time.",
            figures.connections.most() as u64,
        ),
        (
            "pando_http_transactions",
            "Interactive transactions that are open.",
            figures.data.transactions.count() as u64,
        ),
        ("pando_hrana_streams", "Streams of Hrana that are kept or in use.", figures.hrana.count() as u64),
        (
            "pando_http_streams",
            "Long values, ranges and maintenance calls in progress.",
            figures.room.streams() as u64,
        ),
        ("pando_open_databases", "Databases that are open.", databases_open as u64),
        ("pando_replica", "1 if the server is a replica, 0 if it is a primary.", u64::from(is_replica)),
    ];
    for (name, help, value) in gauges {
        head(out, name, "gauge", help);
        let _ = writeln!(out, "{name} {value}");
    }
    let name = "pando_uptime_seconds";
    head(out, name, "gauge", "Seconds since the server started.");
    let _ = writeln!(out, "{name} {}", figures.connections.uptime().as_secs_f64());
    let name = "pando_log_dropped_lines_total";
    let help = "Lines of the log that were dropped because they could not be written in time.";
    head(out, name, "counter", help);
    let _ = writeln!(out, "{name} {}", dropped_lines());
    let name = "pando_build_info";
    head(out, name, "gauge", "The version of the running server.");
    let _ = writeln!(out, "{name}{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
}

/// Writes the bytes of connections, and the refused requests by reason.
fn traffic<E: Engine>(figures: &Figures<E>, out: &mut String) {
    let traffic = &figures.watch.traffic;
    let counters = [
        ("pando_http_received_bytes_total", "Bytes that clients sent.", traffic.received_bytes()),
        ("pando_http_sent_bytes_total", "Bytes that were sent to clients.", traffic.sent_bytes()),
        (
            "pando_failed_logins_total",
            "Times that a client presented a token that is unknown or revoked.",
            figures.keeper.failed_logins(),
        ),
    ];
    for (name, help, value) in counters {
        head(out, name, "counter", help);
        let _ = writeln!(out, "{name} {value}");
    }
    let name = "pando_http_refusals_total";
    head(out, name, "counter", "Requests that were refused, by the type of the problem.");
    for (reason, count) in traffic.refusals() {
        let _ = writeln!(out, "{name}{{reason=\"{reason}\"}} {count}");
    }
}

/// Writes what differs between the versions of HTTP.
fn versions(watch: &Watch, out: &mut String) {
    let all: u64 = Kind::ALL.iter().map(|kind| watch.observed.totals(*kind).count()).sum();
    let second = watch.traffic.of_second_version();
    let name = "pando_http_version_requests_total";
    head(out, name, "counter", "Requests by the version of HTTP.");
    let _ = writeln!(out, "{name}{{version=\"1\"}} {}", all.saturating_sub(second));
    let _ = writeln!(out, "{name}{{version=\"2\"}} {second}");
    let name = "pando_http2_resets_total";
    head(out, name, "counter", "Requests of HTTP/2 that their clients reset before the end of the response.");
    let _ = writeln!(out, "{name} {}", watch.versions.resets());
    let name = "pando_http2_connections";
    head(out, name, "gauge", "Connections of HTTP/2 that are open.");
    let _ = writeln!(out, "{name} {}", watch.versions.connections());
}

/// Writes a figure that has one sample.
fn single(out: &mut String, name: &str, kind: &str, help: &str, value: f64) {
    head(out, name, kind, help);
    let _ = writeln!(out, "{name} {value}");
}

/// Writes the room on the disk.
fn disk(dir: &Path, out: &mut String) {
    if let Ok(disk) = Disk::of(dir) {
        let help = "Bytes that can still be written to the file system of the databases.";
        single(out, "pando_disk_free_bytes", "gauge", help, disk.free_bytes as f64);
        let help = "Bytes of the file system of the databases.";
        single(out, "pando_disk_size_bytes", "gauge", help, disk.total_bytes as f64);
    }
}

/// Writes the resources of the process under the names that all programs use.
fn process(out: &mut String) {
    let mut gauge = |name: &str, kind: &str, help: &str, value: f64| single(out, name, kind, help, value);
    let Some(process) = Process::this() else { return };
    let help = "Total user and system CPU time spent in seconds.";
    gauge("process_cpu_seconds_total", "counter", help, process.cpu_s);
    let help = "Resident memory size in bytes.";
    gauge("process_resident_memory_bytes", "gauge", help, process.resident_bytes as f64);
    let help = "Virtual memory size in bytes.";
    gauge("process_virtual_memory_bytes", "gauge", help, process.virtual_bytes as f64);
    gauge("process_threads", "gauge", "Number of threads.", process.threads as f64);
    gauge("process_open_fds", "gauge", "Number of open file descriptors.", process.open_files as f64);
    if let Some(most) = process.max_files {
        gauge("process_max_fds", "gauge", "Maximum number of open file descriptors.", most as f64);
    }
    let help = "Start time of the process since unix epoch in seconds.";
    gauge("process_start_time_seconds", "gauge", help, process.started_s);
}

/// Writes the results of scheduled backups by database.
fn backups(schedule: &Schedule, out: &mut String) {
    let name = "pando_backup_interval_seconds";
    head(out, name, "gauge", "Seconds between scheduled backups.");
    let _ = writeln!(out, "{name} {}", schedule.every().as_secs_f64());
    type Figure = (&'static str, &'static str, &'static str, fn(&Results) -> f64);
    let families: [Figure; 8] = [
        ("success_total", "counter", "Scheduled backups that were taken.", |of| of.taken as f64),
        ("failures_total", "counter", "Scheduled backups that failed.", |of| of.failures as f64),
        ("failing", "gauge", "1 if the last attempt failed, otherwise 0.", |of| {
            f64::from(u8::from(of.error.is_some()))
        }),
        (
            "last_success_timestamp_seconds",
            "gauge",
            "When the newest backup was begun, in seconds since 1970; 0 if there is none.",
            |of| of.newest_s() as f64,
        ),
        ("last_duration_seconds", "gauge", "Seconds that the last backup took.", |of| of.took.as_secs_f64()),
        ("last_bytes", "gauge", "Bytes of the last backup.", |of| of.bytes as f64),
        ("kept", "gauge", "Backups in the folder.", |of| of.kept as f64),
        ("kept_bytes", "gauge", "Bytes of all backups in the folder.", |of| of.kept_bytes as f64),
    ];
    let results = schedule.results();
    for (name, kind, help, figure) in families {
        let name = format!("pando_backup_{name}");
        head(out, &name, kind, help);
        for (database, results) in &results {
            let _ = writeln!(out, "{name}{{database=\"{database}\"}} {}", figure(results));
        }
    }
}

/// Writes the progress of shipping of every open database, and the lag of a replica.
fn shipping(databases: &Databases, out: &mut String) {
    let replicas = databases.replicas().filter(|replicas| replicas.is_replica());
    let mut gauges: BTreeMap<String, (&str, String)> = BTreeMap::new();
    for (database, open) in databases.all_open() {
        let mut add = |name: String, help, value| {
            let (_, samples) = gauges.entry(name.clone()).or_insert((help, String::new()));
            let _ = writeln!(samples, "{name}{{database=\"{database}\"}} {value}");
        };
        for (name, help, value) in open.ship().into_iter().flat_map(|ship| ship.gauges()) {
            add(format!("pando_ship_{name}"), help, value);
        }
        let lag = replicas.and_then(|replicas| replicas.lag(&database, &open.db));
        for (name, help, value) in lag.iter().flat_map(Lag::gauges) {
            add(format!("pando_replica_{name}"), help, value);
        }
    }
    for (name, (help, samples)) in gauges {
        head(out, &name, "gauge", help);
        out.push_str(&samples);
    }
    if databases.is_shipped() {
        let name = "pando_ship_closed_databases";
        let help =
            "Databases that were closed before the bucket had everything, and that wait to be opened again.";
        head(out, name, "gauge", help);
        let _ = writeln!(out, "{name} {}", databases.unreleased_count());
    }
}

/// Writes how far consumers of changes are behind.
fn consumers(databases: &Databases, out: &mut String) -> Answer<()> {
    let (mut lags, mut lost) = (String::new(), String::new());
    for (database, open) in databases.all_open() {
        let newest = open.db.snapshot()?.commit_number();
        let mut consumers = open.db.consumers()?;
        consumers.sort_by_key(|consumer| consumer.position);
        for consumer in consumers.iter().take(TOP_CONSUMERS) {
            let name = prometheus_label(&consumer.name);
            let labels = format!("{{database=\"{database}\",consumer=\"{name}\"}}");
            let lag = newest.saturating_sub(consumer.position);
            let _ = writeln!(lags, "pando_consumer_lag_commits{labels} {lag}");
            let _ = writeln!(lost, "pando_consumer_lost{labels} {}", u8::from(consumer.is_lost));
        }
    }
    if !lags.is_empty() {
        let help = "Commits that the consumer has not acknowledged.";
        head(out, "pando_consumer_lag_commits", "gauge", help);
        out.push_str(&lags);
        head(
            out,
            "pando_consumer_lost",
            "gauge",
            "1 if the consumer has fallen behind too far, and must begin again.",
        );
        out.push_str(&lost);
    }
    Ok(())
}

/// Writes the library's counters of every open database.
fn databases(databases: &Databases, all_tables: bool, out: &mut String) -> Answer<()> {
    let mut open = databases.all_open();
    open.sort_by(|one, other| one.0.cmp(&other.0));
    let open = open.iter().map(|(name, open)| (&name[..], &open.db));
    let most_tables = if all_tables { usize::MAX } else { TOP_TABLES };
    out.push_str(&pando::prometheus_of_top_tables(open, most_tables)?);
    Ok(())
}
