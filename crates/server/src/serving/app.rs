//! The parts of a server, and its periodic maintenance.

use crate::access::auth::Gatekeeper;
use crate::calls::parts::{AnyParts, IsShipped, Parts};
#[cfg(feature = "remote")]
use crate::config::Limits;
use crate::config::{Config, share_bytes};
use crate::data::databases::{DEFAULT_DATABASE, Databases};
#[cfg(feature = "remote")]
use crate::data::engine::Remote;
use crate::data::followers::{Followers, check_role, copy_missing};
use crate::data::held::Data;
use crate::data::hrana_streams::HranaStreams;
#[cfg(feature = "remote")]
use crate::data::remote::databases::RemoteDatabases;
use crate::data::schedule::worker::Schedule;
use crate::data::transactions::Transactions;
use crate::data::v0::EntityTable;
use crate::limits::connections::Connections;
use crate::limits::room::Room;
use crate::routes::openapi;
#[cfg(feature = "remote")]
use crate::stores::Stores;
use crate::watch::watcher::Watch;
use crate::wire::digits::random;
use crate::wire::problem::Problem;
use pando::{Budget, Result};
use profile::freed;
use std::sync::Arc;
#[cfg(feature = "remote")]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// The growth of the process below which it keeps its free memory.
const GROWN_BYTES: u64 = 8 << 20;

/// A server, without its sockets and threads.
#[derive(Debug)]
pub struct App {
    /// The configuration of the server.
    pub config: Config,
    /// The parts that requests use.
    pub parts: AnyParts,
    /// The connections.
    pub connections: Arc<Connections>,
    /// The authorization of requests.
    pub keeper: Arc<Gatekeeper>,
    /// The resident memory after the process last returned some to the system, or the least since.
    resident_bytes: AtomicU64,
}

impl App {
    /// Creates the parts of a server with the engine that the configuration names, and opens the default database.
    pub fn new(config: Config) -> Result<Self> {
        #[cfg(feature = "remote")]
        if let Some(stores) = config.stores.clone() {
            let parts = Arc::new(parts_over(stores, &config)?);
            return Ok(App::of(config, AnyParts::Remote(parts)));
        }
        let parts = Arc::new(native_parts(&config)?);
        Ok(App::of(config, AnyParts::Native(parts)))
    }

    fn of(config: Config, parts: AnyParts) -> Self {
        let (connections, keeper) = (parts.connections(), parts.keeper());
        App { config, parts, connections, keeper, resident_bytes: AtomicU64::new(0) }
    }

    /// Runs the maintenance of every second, on a thread that may wait. Quick steps, and those that clients wait for,
    /// come first.
    pub fn look_after(&self) {
        if let Err(error) = self.keeper.refresh() {
            tracing::error!(%error, "the tokens could not be read again; the earlier ones stay valid");
        }
        match &self.parts {
            AnyParts::Native(parts) => look_after_native(parts),
            #[cfg(feature = "remote")]
            AnyParts::Remote(parts) => give_up_idle_beside(parts),
        }
        self.give_back_memory();
    }

    /// Starts what runs beside requests.
    pub fn begin(&self) -> Result<()> {
        let Some(parts) = self.parts.native() else { return Ok(()) };
        match &parts.schedule {
            Some(schedule) => schedule.start(parts.data(), Arc::clone(&parts.watch.jobs)),
            None => Ok(()),
        }
    }

    /// Ends everything after the last request, and closes all databases.
    pub fn end(&self) -> Result<()> {
        match &self.parts {
            AnyParts::Native(parts) => end_native(parts),
            #[cfg(feature = "remote")]
            AnyParts::Remote(parts) => {
                parts.data.transactions.give_up_all();
                parts.hrana.give_up_all();
                parts.data.databases.close_all();
                Ok(())
            }
        }
    }

    /// Returns freed memory of the allocator to the system when the process has grown. Responses are allocated by one
    /// thread and freed by another, so their memory would stay otherwise.
    fn give_back_memory(&self) {
        let Some(resident) = freed::resident_bytes() else { return };
        // Relaxed for all: only one thread runs this.
        let before = self.resident_bytes.load(Ordering::Relaxed);
        if resident < before + (before / 8).max(GROWN_BYTES) {
            self.resident_bytes.fetch_min(resident, Ordering::Relaxed); // Relaxed: as above.
            return;
        }
        freed::give_back();
        let after = freed::resident_bytes().unwrap_or(resident);
        self.resident_bytes.store(after, Ordering::Relaxed); // Relaxed: as above.
    }
}

/// Creates what is counted and kept of requests.
fn watch_of(config: &Config) -> Result<Watch> {
    let mut start = [0; 8];
    random(&mut start)?;
    Watch::new(config.limits.slow, config.profile_window, u64::from_le_bytes(start), config.spans.clone())
}

/// Creates the parts of a server over its directory, and opens the default database, which is created if it does not
/// exist.
fn native_parts(config: &Config) -> Result<Parts> {
    let limits = &config.limits;
    let budget = Budget::new(config.memory_bytes.unwrap_or_else(share_bytes));
    let (most_open, shipping) = (limits.open_databases, config.shipping.clone());
    let mut databases = Databases::new(&config.dir, budget, config.durability, most_open, shipping)?;
    let replicas = check_role(&databases, &config.dir, config.source.clone())?.map(Arc::new);
    let begun = match &replicas {
        Some(replicas) => {
            databases.follow(Arc::clone(replicas));
            copy_missing(&databases, replicas)?
        }
        None => Vec::new(),
    };
    let (default, _) = databases.create(DEFAULT_DATABASE, None).map_err(Problem::into_error)?;
    databases.begin_shipping()?;
    let transactions = Arc::new(Transactions::new(limits.transactions, limits.transaction_idle));
    let entity = Arc::new(EntityTable::new(default)?);
    let watch = watch_of(config)?;
    #[cfg(feature = "sql")]
    sql::limit_memory(limits.sql_memory_bytes).map_err(pando::Error::from)?;
    let shipping = match &config.shipping {
        None => IsShipped::No,
        Some(shipping) if shipping.is_sync() => IsShipped::InSync,
        Some(_) => IsShipped::Later,
    };
    let data = Arc::new(Data { databases, transactions, durability: config.durability });
    let follow = |replicas| Followers::start(Arc::clone(&data), Arc::clone(&entity), replicas, begun);
    let followers = replicas.map(follow).transpose()?;
    let schedule = config.backups.clone().map(|plan| Schedule::new(plan, &config.dir)).transpose()?;
    Ok(Parts {
        data,
        entity,
        hrana: Arc::new(HranaStreams::new(config.hrana, limits.transactions, limits.transaction_idle)),
        followers,
        room: Arc::new(Room::new(limits)),
        connections: Arc::new(Connections::new(limits.connections)),
        keeper: Arc::new(Gatekeeper::new(&config.dir)?),
        watch: Arc::new(watch),
        schedule,
        settings: config.settings.clone(),
        shipping,
        #[cfg(feature = "redis")]
        redis: Arc::default(),
        document: openapi::text,
    })
}

/// Creates the parts of a server over a remote store, and opens the default database, which is created if it does not
/// exist. The directory has only the tokens.
#[cfg(feature = "remote")]
fn parts_over(stores: Arc<dyn Stores>, config: &Config) -> Result<Parts<Remote>> {
    let limits = &config.limits;
    // A transaction holds a connection, and so does a range while its client reads, and a request while its SQL runs.
    // Each stream of Hrana may. Two connections are left for all other requests, without which those that hold one
    // could not go on.
    const KINDS: usize = if cfg!(feature = "sql") { 4 } else { 2 };
    let holders = (stores.connections().saturating_sub(2) / KINDS).max(1);
    let limits = &Limits {
        transactions: limits.transactions.min(holders),
        streams: limits.streams.min(holders),
        statements: limits.statements.min(holders),
        ..limits.clone()
    };
    #[cfg(feature = "sql")]
    sql::limit_memory(limits.sql_memory_bytes).map_err(pando::Error::from)?;
    let memory_bytes = config.memory_bytes.unwrap_or_else(share_bytes);
    let databases = RemoteDatabases::new(stores, limits.open_databases, memory_bytes);
    let (default, _) = databases.create(DEFAULT_DATABASE).map_err(Problem::into_error)?;
    let entity = EntityTable::new(default)?;
    let transactions = Arc::new(Transactions::new(limits.transactions, limits.transaction_idle));
    let watch = watch_of(config)?;
    Ok(Parts {
        data: Arc::new(Data { databases, transactions, durability: config.durability }),
        entity: Arc::new(entity),
        hrana: Arc::new(HranaStreams::new(config.hrana, limits.transactions, limits.transaction_idle)),
        followers: None,
        room: Arc::new(Room::new(limits)),
        connections: Arc::new(Connections::new(limits.connections)),
        keeper: Arc::new(Gatekeeper::new(&config.dir)?),
        watch: Arc::new(watch),
        schedule: None,
        settings: config.settings.clone(),
        shipping: IsShipped::No,
        #[cfg(feature = "redis")]
        redis: Arc::default(),
        document: openapi::text,
    })
}

/// Rolls back idle transactions and closes idle connections on a thread of its own: a rollback takes a round trip, and
/// the next look must not wait for a store that does not respond.
#[cfg(feature = "remote")]
fn give_up_idle_beside(parts: &Arc<Parts<Remote>>) {
    static IS_RUNNING: AtomicBool = AtomicBool::new(false);
    if IS_RUNNING.swap(true, Ordering::SeqCst) {
        return;
    }
    let data = Arc::clone(&parts.data);
    let hrana = Arc::clone(&parts.hrana);
    tokio::task::spawn_blocking(move || {
        data.transactions.give_up_idle();
        hrana.give_up_idle();
        data.databases.close_idle();
        IS_RUNNING.store(false, Ordering::SeqCst);
    });
}

fn look_after_native(parts: &Parts) {
    let databases = &parts.data.databases;
    parts.data.transactions.give_up_idle();
    parts.hrana.give_up_idle();
    for (name, open) in databases.all_open() {
        open.log_shipping(&name);
        if let Some(replicas) = databases.replicas() {
            // Its lag counts from the last look at which it had everything.
            let _ = replicas.lag(&name, &open.db);
        }
    }
    note_history(parts);
    databases.tick();
    databases.close_idle();
    // Last: opening may wait for the bucket, to which another database is shipped before it is closed.
    databases.ship_unreleased();
}

/// Adds a point to the history, if one is due. Of a database whose figures cannot be read there is no point.
fn note_history(parts: &Parts) {
    let Parts { watch, connections, data, .. } = parts;
    let uptime = connections.uptime();
    if !watch.history.is_due(uptime) {
        return;
    }
    let open = data.databases.all_open();
    let stats = open.into_iter().filter_map(|(name, open)| Some((name, open.db.stats().ok()?)));
    let (count, memory_bytes) = (connections.count(), data.databases.used_bytes());
    let stats: Vec<_> = stats.collect();
    watch.history.add(uptime, SystemTime::now(), &watch.observed, count, memory_bytes, &stats);
}

/// Ends what runs beside requests, and closes all databases, even after an error.
fn end_native(parts: &Parts) -> Result<()> {
    parts.data.transactions.give_up_all();
    parts.hrana.give_up_all();
    if let Some(followers) = &parts.followers {
        followers.stop();
    }
    let schedule = parts.schedule.as_ref();
    schedule.inspect(|schedule| schedule.stop());
    // This ends a backup that is running.
    let closed = parts.data.databases.close_all();
    schedule.inspect(|schedule| schedule.join());
    closed
}
