//! Reads and writes of a remote store.

use crate::data::engine::{Engine, Found, Remote};
use crate::data::open::Open;
use crate::data::remote::databases::RemoteDatabases;
use crate::data::served::Served;
use crate::data::writer::{Change, Committed};
use crate::limits::handoff::hand_off;
use crate::wire::problem::{Answer, Problem};
use pando::any::AnyDatabase;
use pando::remote::{Capability, RemoteDatabase, RemoteSnapshot, RemoteTransaction};
use pando::{Durability, Error, Expiry, Result, Table, TransactionOptions, ValueReader};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// The memory of values that wait to be written, in units.
static WAITING: Semaphore = Semaphore::const_new(WAITING_UNITS);
const WAITING_UNIT: usize = 1 << 10;
const WAITING_UNITS: usize = 64 << 10;

/// The bytes of values after which a look-up of many keys ends.
const LOOK_UP_BYTES: usize = 1 << 20;

/// What a database of a store has in addition.
#[derive(Debug)]
pub struct RemoteOwn {
    /// The SQL interface of the same database.
    #[cfg(feature = "sql")]
    pub sql: sql::Sql,
}

impl RemoteOwn {
    /// Returns what belongs to a database.
    #[cfg_attr(not(feature = "sql"), expect(unused_variables, reason = "only SQL needs the database"))]
    pub fn new(db: &RemoteDatabase) -> Self {
        RemoteOwn {
            #[cfg(feature = "sql")]
            sql: sql::Sql::new(db),
        }
    }
}

/// Returns the conflict that the store found while a request was reading. Any other problem is put into `refused`, and
/// ends the attempts.
fn conflict(problem: Problem, refused: &mut Option<Problem>) -> Error {
    match &problem.cause {
        Some(cause) if cause.is_retryable() => cause.duplicate(),
        _ => {
            *refused = Some(problem);
            Error::invalid("the request was refused")
        }
    }
}

impl Engine for Remote {
    type Database = RemoteDatabase;
    type Snapshot = RemoteSnapshot;
    type Transaction = RemoteTransaction;
    type Databases = RemoteDatabases;
    type Own = RemoteOwn;
    type Id = ();

    const HOLDS_CONNECTIONS: bool = true;

    fn read<T>(db: &RemoteDatabase, mut work: impl FnMut(RemoteSnapshot) -> Answer<T>) -> Answer<T> {
        let mut refused = None;
        let found = db.read(|snapshot| work(snapshot).map_err(|problem| conflict(problem, &mut refused)));
        match refused {
            Some(problem) => Err(problem),
            None => Ok(found?),
        }
    }

    /// A snapshot would take one more round trip, for its end.
    fn read_one(db: &RemoteDatabase, table: &Table, key: &[u8]) -> Result<Option<ValueReader>> {
        Ok(db.get(table, key)?.map(ValueReader::of))
    }

    fn look_up(snapshot: &RemoteSnapshot, table: &Table, keys: &[Vec<u8>], found: &mut Found) -> Result<()> {
        let values = snapshot.multi_get_within(table, keys, LOOK_UP_BYTES)?;
        found.extend(values.into_iter().map(|value| value.map(ValueReader::of)));
        Ok(())
    }

    fn look_up_in(tx: &RemoteTransaction, table: &Table, keys: &[Vec<u8>], found: &mut Found) -> Result<()> {
        let values = tx.multi_get_within(table, keys, LOOK_UP_BYTES)?;
        found.extend(values.into_iter().map(|value| value.map(ValueReader::of)));
        Ok(())
    }

    /// The end of a snapshot takes a round trip, which no thread that serves sockets may wait for.
    fn end(snapshot: RemoteSnapshot) {
        match Handle::try_current() {
            Ok(_) => drop(spawn_blocking(move || drop(snapshot))),
            Err(_) => drop(snapshot),
        }
    }

    fn any(db: &RemoteDatabase) -> AnyDatabase {
        db.into()
    }

    fn transaction_options(_: &RemoteDatabase) -> TransactionOptions {
        TransactionOptions::default()
    }

    fn begin(db: &RemoteDatabase, options: &TransactionOptions) -> Result<RemoteTransaction> {
        Ok(db.begin_with(options.isolation))
    }

    fn id(_: &RemoteTransaction) {}

    fn commit(tx: RemoteTransaction) -> Result<Option<u64>> {
        tx.commit().map(|()| None)
    }

    fn write<T>(
        db: &RemoteDatabase,
        _: Durability,
        mut work: impl FnMut(&mut RemoteTransaction) -> Answer<T>,
    ) -> Answer<(T, Option<u64>)> {
        let mut refused = None;
        let written = db.write(|tx| work(tx).map_err(|problem| conflict(problem, &mut refused)));
        match refused {
            Some(problem) => Err(problem),
            None => Ok((written?, None)),
        }
    }

    fn check_durability(durability: Durability) -> Answer<()> {
        match durability {
            Durability::Sync => Ok(()),
            Durability::Buffered | Durability::Lazy => Err(Capability::Durability.refusal().into()),
        }
    }

    fn expiry_at(_: &RemoteSnapshot, _: &Table, _: &[u8]) -> Result<Option<Expiry>> {
        Err(Capability::TtlByKey.refusal())
    }

    fn expiry_in(_: &RemoteTransaction, _: &Table, _: &[u8]) -> Result<Option<Expiry>> {
        Err(Capability::TtlByKey.refusal())
    }

    fn put_with_ttl(_: &mut RemoteTransaction, _: &Table, _: &[u8], _: &[u8], _: Duration) -> Result<()> {
        Err(Capability::TtlByKey.refusal())
    }
}

impl Served for Remote {
    fn get_open(databases: &RemoteDatabases, name: &str) -> Option<Arc<Open<Remote>>> {
        databases.get_open(name)
    }

    fn open(databases: &RemoteDatabases, name: &str) -> Answer<Arc<Open<Remote>>> {
        databases.open(name)
    }

    fn entity_table(open: &Open<Remote>, name: &str) -> Result<Option<Table>> {
        open.db.ensure_table(name).map(Some)
    }

    /// Writes are not committed together, as those of the engine are: if one of them had a conflict, all would have to
    /// be repeated.
    async fn write_one(
        open: &Arc<Open<Remote>>,
        table: Table,
        key: Vec<u8>,
        change: Change,
        durability: Durability,
    ) -> Answer<Committed> {
        let open = Arc::clone(open);
        // The write of a client that disconnects goes on, and its value stays in memory until then.
        let units = (key.len() + change.len()).div_ceil(WAITING_UNIT).min(WAITING_UNITS) as u32;
        let permit = WAITING.acquire_many(units).await.expect("it is never closed");
        hand_off(move || {
            let _permit = permit;
            let work = |tx: &mut RemoteTransaction| Ok(change.put::<Remote>(tx, &table, &key)?);
            let ((), number) = Remote::write(&open.db, durability, work)?;
            Ok(Committed { number, phases: None })
        })
        .await
    }
}
