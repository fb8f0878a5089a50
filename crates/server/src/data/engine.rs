//! The engine below a server: which database, snapshot and transaction its handlers use.
//!
//! A handler that is generic over [`Engine`] is compiled for each engine. So the native one is the code that it would
//! be without the trait, and nothing tests at each record which engine it is. The server's engine is chosen once, when
//! it starts.
//!
//! What only one engine can do is no function of this trait. An operation that needs it says so in its entry, and is
//! refused by a server that does not have it.

use crate::wire::problem::Answer;
use pando::any::AnyDatabase;
use pando::{Durability, Expiry, ReadTables, Result, Table, TransactionOptions, ValueReader, WriteTables};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::time::Duration;

/// Values that were looked up, in the order of their keys.
pub type Found = VecDeque<Option<ValueReader>>;

/// An engine that keeps the tables of a server. The types that implement it have no values.
pub trait Engine: Clone + Copy + Debug + Send + Sync + 'static {
    /// A database that is open.
    type Database: Debug + Send + Sync;
    /// Reads of one state of a database.
    type Snapshot: ReadTables + Send + 'static;
    /// A transaction.
    type Transaction: WriteTables + Debug + Send + 'static;
    /// All databases of a server.
    type Databases: Debug + Send + Sync;
    /// What an open database has with this engine alone.
    type Own: Debug + Send + Sync;
    /// The id by which operators see a transaction.
    type Id: Copy + Debug + PartialEq + Send + Sync;

    /// Whether a transaction that has read holds a connection, and is ended if it pauses.
    const HOLDS_CONNECTIONS: bool;

    /// Runs `work` on a snapshot. After a conflict, which only a remote store reports for reads, runs it again on a new
    /// one, so `work` must not have sent anything yet. The thread may wait.
    fn read<T>(db: &Self::Database, work: impl FnMut(Self::Snapshot) -> Answer<T>) -> Answer<T>;

    /// Returns a reader of the value of `key`, as a snapshot of its own has it.
    fn read_one(db: &Self::Database, table: &Table, key: &[u8]) -> Result<Option<ValueReader>>;

    /// Appends readers of the values of one or more of `keys`, from the first on, to `found`. `keys` is not empty.
    fn look_up(snapshot: &Self::Snapshot, table: &Table, keys: &[Vec<u8>], found: &mut Found) -> Result<()>;

    /// Appends readers of the values of one or more of `keys`, from the first on, as the transaction has them, to
    /// `found`. `keys` is not empty.
    fn look_up_in(tx: &Self::Transaction, table: &Table, keys: &[Vec<u8>], found: &mut Found) -> Result<()>;

    /// Ends a snapshot, on any thread.
    fn end(snapshot: Self::Snapshot);

    /// Returns the database as code has it that serves either engine.
    fn any(db: &Self::Database) -> AnyDatabase;

    /// Returns the options of a transaction whose request sets none.
    fn transaction_options(db: &Self::Database) -> TransactionOptions;

    /// Begins a transaction.
    fn begin(db: &Self::Database, options: &TransactionOptions) -> Result<Self::Transaction>;

    /// Returns the id of a transaction.
    fn id(tx: &Self::Transaction) -> Self::Id;

    /// Commits a transaction. Returns the number of the commit; `None` if the engine has no order of commits.
    fn commit(tx: Self::Transaction) -> Result<Option<u64>>;

    /// Runs `work` in a transaction of `durability`, commits it, and repeats both after a conflict. Returns the number
    /// of the commit as well. The thread may wait.
    fn write<T>(
        db: &Self::Database,
        durability: Durability,
        work: impl FnMut(&mut Self::Transaction) -> Answer<T>,
    ) -> Answer<(T, Option<u64>)>;

    /// Refuses a durability that a write cannot choose.
    ///
    /// # Errors
    /// 422 `unsupported` for such a one.
    fn check_durability(durability: Durability) -> Answer<()>;

    /// Returns when the entry of `key` expires, as a snapshot sees it; `None` if the key does not exist.
    fn expiry_at(snapshot: &Self::Snapshot, table: &Table, key: &[u8]) -> Result<Option<Expiry>>;

    /// Returns when the entry of `key` expires, as a transaction sees it; `None` if the key does not exist.
    fn expiry_in(tx: &Self::Transaction, table: &Table, key: &[u8]) -> Result<Option<Expiry>>;

    /// Sets `key` to a value that expires once `ttl` has passed.
    fn put_with_ttl(
        tx: &mut Self::Transaction,
        table: &Table,
        key: &[u8],
        value: &[u8],
        ttl: Duration,
    ) -> Result<()>;
}

/// Pando's own engine, in directories of this machine.
#[derive(Clone, Copy, Debug)]
pub enum Native {}

/// A store in other processes, usually on other machines.
#[cfg(feature = "remote")]
#[derive(Clone, Copy, Debug)]
pub enum Remote {}

/// A snapshot that is kept while a response is sent. It can be dropped on any thread.
#[derive(Debug)]
pub struct Kept<E: Engine>(Option<E::Snapshot>);

impl<E: Engine> Kept<E> {
    /// Keeps a snapshot.
    pub fn new(snapshot: E::Snapshot) -> Self {
        Kept(Some(snapshot))
    }

    /// Returns the snapshot.
    #[inline]
    pub fn get(&self) -> &E::Snapshot {
        self.0.as_ref().expect("a snapshot is there until it is dropped")
    }
}

impl<E: Engine> Drop for Kept<E> {
    fn drop(&mut self) {
        if let Some(snapshot) = self.0.take() {
            E::end(snapshot);
        }
    }
}
