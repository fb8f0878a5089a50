//! A database, which is opened, shared by its clones, and closed once.

mod closing;
mod gate;
mod hold;
mod identity;
mod inspect;
mod open;
mod tables;

pub use hold::CommitHold;
pub use identity::Identity;
pub use tables::TableOptions;

use crate::builder::Builder;
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;
use crate::workers::{Following, Foreman, Signals, Workers};
use base::env::{Random, Stopwatch};
use base::latency::Cause;
use base::{Error, Result};
use closing::OnClose;
use gate::Gate;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use store::{Follower, Store, Table, TransactionOptions};
use txn::Durability;

/// An open database. A clone is another handle on the same database, which closes when the last handle is dropped.
///
/// ```
/// # fn main() -> pando::Result<()> {
/// let db = pando::Database::builder().in_memory()?;
/// let counts = db.ensure_table("counts")?;
/// db.put(&counts, b"visits", b"1")?;
/// assert_eq!(db.get(&counts, b"visits")?, Some(b"1".to_vec()));
/// db.close()?;
/// assert_eq!(db.snapshot().unwrap_err().kind(), pando::ErrorKind::Closed);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Database {
    pub(crate) shared: Arc<Shared>,
}

/// The state that the handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub store: Arc<Store>,
    pub signals: Arc<Signals>,
    workers: Mutex<Option<Workers>>,
    /// The follower, if another process writes the database.
    following: Option<Following>,
    builder: Builder,
    gate: Gate,
    on_close: OnClose,
    /// Whether [`Database::apply_changes`] alone may write.
    pub is_replica: AtomicBool,
}

/// The number of attempts of [`Database::write`] without the gate.
const OPEN_ATTEMPTS: u32 = 7;
/// The number of attempts with the gate held. Only commits that had already passed the gate can still conflict.
const GATED_ATTEMPTS: u32 = 4;

impl Database {
    /// Opens the database in the directory `path` with default options, or creates it.
    ///
    /// # Errors
    /// As for [`Builder::create`].
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        Builder::default().create(path)
    }

    /// Opens the existing database in the directory `path` with default options.
    ///
    /// # Errors
    /// As for [`Builder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Builder::default().open(path)
    }

    /// Opens the database in the directory `path` for reading only, with default options; see [`Builder::read_only`].
    /// The errors are those of [`Builder::open`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self> {
        Builder::default().read_only(true).open(path)
    }

    /// Returns a builder for opening or creating a database with options.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns a handle on `store`, which `builder` opened.
    pub(crate) fn start(store: Arc<Store>, builder: Builder) -> Result<Self> {
        let signals = Arc::new(Signals::new(builder.lazy_interval, builder.watch.clone(), store.latencies()));
        let workers = if store.is_read_only() { None } else { Some(Workers::start(&store, &signals)?) };
        store.set_attendant(Box::new(Foreman(Arc::clone(&signals))));
        let (workers, gate, is_replica) = (Mutex::new(workers), Gate::default(), AtomicBool::new(false));
        let shared = Shared {
            store,
            signals,
            workers,
            following: None,
            builder,
            gate,
            on_close: OnClose::default(),
            is_replica,
        };
        Ok(Database { shared: Arc::new(shared) })
    }

    /// Returns a handle on `store`, which another process writes.
    pub(crate) fn follow(store: Arc<Store>, follower: Follower, builder: Builder) -> Result<Self> {
        let signals = Arc::new(Signals::new(builder.lazy_interval, builder.watch.clone(), store.latencies()));
        let following = Some(Following::start(follower, &signals)?);
        let (workers, gate, is_replica) = (Mutex::new(None), Gate::default(), AtomicBool::new(false));
        let shared = Shared {
            store,
            signals,
            workers,
            following,
            builder,
            gate,
            on_close: OnClose::default(),
            is_replica,
        };
        Ok(Database { shared: Arc::new(shared) })
    }

    /// Returns whether another process has the database open for writing and this process follows it; see
    /// [`Builder::read_only`].
    pub fn is_beside_writer(&self) -> bool {
        self.shared.store.is_beside()
    }

    /// Waits until new snapshots show at least what the writing process had acknowledged when this was called. Without
    /// this call they show it a few milliseconds later. If no other process writes the database, the call does nothing.
    ///
    /// # Errors
    /// The error that keeps this process from following the writer; snapshots then show what they showed before. `Full`
    /// if snapshots have taken all reader slots; `Latched` if the thread that follows the writer panicked: open the
    /// database again.
    pub fn catch_up(&self) -> Result<()> {
        self.shared.store.check_process()?;
        self.shared.following.as_ref().map_or(Ok(()), Following::catch_up)
    }

    /// Takes a read-only snapshot of everything acknowledged so far. It takes nanoseconds: no allocation, no lock.
    ///
    /// # Errors
    /// `Closed`; `Full` if 65,536 snapshots and transactions are open.
    #[inline]
    #[track_caller]
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.shared.store.snapshot().map(Snapshot::new)
    }

    /// Begins a read-write transaction with the database's default isolation and durability.
    ///
    /// # Errors
    /// `Closed`; `Full` if 65,536 snapshots and transactions are open; the error of the last checkpoint if memory is
    /// full because it failed.
    #[track_caller]
    pub fn begin(&self) -> Result<Transaction> {
        self.begin_with(&self.shared.builder.transactions)
    }

    /// Begins a read-write transaction with these options.
    ///
    /// ```
    /// # use pando::{Database, Durability, TransactionOptions};
    /// # fn main() -> pando::Result<()> {
    /// # let db = Database::builder().in_memory()?;
    /// # let table = db.ensure_table("t")?;
    /// let options = TransactionOptions { durability: Durability::Buffered, ..db.transaction_options() };
    /// let mut tx = db.begin_with(&options)?;
    /// tx.put(&table, b"k", b"v")?;
    /// tx.commit()?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn begin_with(&self, options: &TransactionOptions) -> Result<Transaction> {
        // This check comes before the first lock, which another thread of the parent process may have held at the fork.
        self.shared.store.check_process()?;
        self.shared.signals.wait_for_room()?;
        Transaction::begin(&self.shared, *options)
    }

    /// Returns the isolation and durability of transactions that [`Database::begin`] begins.
    #[must_use]
    pub fn transaction_options(&self) -> TransactionOptions {
        self.shared.builder.transactions
    }

    /// Runs `work` in a transaction and commits it. After a conflict it tries again: at most 7 attempts, with a short
    /// random pause between them, and then at most 4 more while other commits are held back, so that it succeeds.
    ///
    /// `work` can run several times, so its effects outside the transaction must be safe to repeat.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// let accounts = db.ensure_table("accounts")?;
    /// let total = db.write(|tx| {
    ///     let before = tx.get(&accounts, b"a")?.map_or(0, |bytes| bytes[0]);
    ///     tx.put(&accounts, b"a", &[before + 1])?;
    ///     Ok(before + 1)
    /// })?;
    /// assert_eq!(total, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error of `work` or of the commit. A conflict is returned only if the last attempt had one, too.
    #[track_caller]
    pub fn write<T>(&self, work: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        self.write_with(&self.shared.builder.transactions, work)
    }

    /// Runs `work` as [`Database::write`] does, in transactions with these options.
    ///
    /// ```
    /// # use pando::{Database, Durability, TransactionOptions};
    /// # fn main() -> pando::Result<()> {
    /// # let db = Database::builder().in_memory()?;
    /// let visits = db.ensure_table("visits")?;
    /// let options = TransactionOptions { durability: Durability::Lazy, ..db.transaction_options() };
    /// db.write_with(&options, |tx| tx.put(&visits, b"2026-07-01", b"17"))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Database::write`].
    #[track_caller]
    pub fn write_with<T>(
        &self,
        options: &TransactionOptions,
        work: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        self.write_as(options, |tx| tx, Ok, work)
    }

    /// Runs `work` as [`Database::write_with`] does, on a type that `wrap` makes of a transaction.
    #[track_caller]
    pub(crate) fn write_as<A, T>(
        &self,
        options: &TransactionOptions,
        wrap: impl Fn(Transaction) -> A,
        unwrap: impl Fn(A) -> Result<Transaction>,
        mut work: impl FnMut(&mut A) -> Result<T>,
    ) -> Result<T> {
        let kind = (wrap, unwrap);
        match self.attempt(options, &kind, &mut work) {
            Err(error) if error.is_retryable() => {}
            done => return done,
        }
        let watch = Stopwatch::start();
        let done = self.write_again(options, &kind, work);
        self.shared.store.latencies().record(Cause::ConflictRetry, watch.elapsed_ns());
        done
    }

    /// Runs the attempts after a first conflict.
    #[track_caller]
    fn write_again<A, T>(
        &self,
        options: &TransactionOptions,
        kind: &(impl Fn(Transaction) -> A, impl Fn(A) -> Result<Transaction>),
        mut work: impl FnMut(&mut A) -> Result<T>,
    ) -> Result<T> {
        for attempt in 1..OPEN_ATTEMPTS {
            pause(attempt - 1);
            match self.attempt(options, kind, &mut work) {
                Err(error) if error.is_retryable() => {}
                done => return done,
            }
        }
        pause(OPEN_ATTEMPTS - 1);
        let _held = self.shared.gate.hold();
        for _ in 1..GATED_ATTEMPTS {
            match self.attempt(options, kind, &mut work) {
                Err(error) if error.is_retryable() => {}
                done => return done,
            }
        }
        self.attempt(options, kind, &mut work)
    }

    /// Loads many records in one transaction; see [`Transaction::bulk_load`]. They become visible all at once, and
    /// replace records with the same keys. The only possible conflict is that the table is dropped at the same time.
    ///
    /// # Errors
    /// The errors of `records`, unchanged; those of [`Transaction::put`] and [`Transaction::commit`]. After an error
    /// nothing is loaded.
    #[track_caller]
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        table: &Table,
        records: impl IntoIterator<Item = Result<(K, V)>>,
    ) -> Result<u64> {
        let mut tx = self.begin()?;
        let loaded = tx.bulk_load(table, records)?;
        tx.commit()?;
        Ok(loaded)
    }

    #[track_caller]
    fn attempt<A, T>(
        &self,
        options: &TransactionOptions,
        (wrap, unwrap): &(impl Fn(Transaction) -> A, impl Fn(A) -> Result<Transaction>),
        work: &mut impl FnMut(&mut A) -> Result<T>,
    ) -> Result<T> {
        let mut tx = wrap(self.begin_with(options)?);
        let result = work(&mut tx)?;
        unwrap(tx)?.commit()?;
        Ok(result)
    }

    /// Returns whether every call that would write fails; see [`Builder::read_only`] and [`Database::set_replica`].
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.shared.store.is_read_only() || self.is_replica()
    }

    /// Makes the database a replica, or ends that. In a replica, only [`Database::apply_changes`] and
    /// [`Database::apply_changes_across_forks`] write; the commit of any other transaction that wrote something fails
    /// with `ReadOnly`. So the database cannot make a commit of its own, which would keep it from following the other
    /// database. This setting is not stored: set it again after each opening, before the database is used.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// let db = pando::Database::builder().in_memory()?;
    /// let table = db.ensure_table("t")?;
    /// db.set_replica(true);
    /// assert_eq!(db.put(&table, b"k", b"v").unwrap_err().kind(), pando::ErrorKind::ReadOnly);
    /// db.set_replica(false);
    /// db.put(&table, b"k", b"v")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_replica(&self, is_replica: bool) {
        self.shared.is_replica.store(is_replica, Ordering::SeqCst);
    }

    /// Returns whether only changes of another database are applied to this one; see [`Database::set_replica`].
    #[inline]
    #[must_use]
    pub fn is_replica(&self) -> bool {
        self.shared.is_replica.load(Ordering::SeqCst)
    }

    /// Returns a copy of the value of `key`, read through a new snapshot, or `None` if the key does not exist.
    ///
    /// # Errors
    /// As for [`Database::snapshot`] and [`Snapshot::get`].
    #[track_caller]
    pub fn get(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.snapshot()?.get(table, key.as_ref())
    }

    /// Sets `key` to `value` in a transaction of its own.
    ///
    /// # Errors
    /// As for [`Transaction::put`] and [`Transaction::commit`].
    #[track_caller]
    pub fn put(&self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(|tx| tx.put(table, key.as_ref(), value.as_ref()))
    }

    /// Sets `key` to `value` in a transaction of its own, in a table with a TTL by key. The entry expires once `ttl`
    /// has passed; see [`Transaction::put_with_ttl`].
    ///
    /// # Errors
    /// As for [`Transaction::put_with_ttl`].
    #[track_caller]
    pub fn put_with_ttl(
        &self,
        table: &Table,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        self.write(|tx| tx.put_with_ttl(table, key.as_ref(), value.as_ref(), ttl))
    }

    /// Deletes `key` in a transaction of its own. It is not an error if the key does not exist.
    pub fn delete(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(|tx| tx.delete(table, key.as_ref()))
    }

    /// Returns whether a transaction that writes `bytes` of keys and values, and spills nothing, would now wait
    /// before its commit is acknowledged: for a flush, for other commits, for memory, for merge debt or for room in
    /// the log.
    ///
    /// Use it on a thread that must not wait, such as one that serves many sockets: write there if it returns `false`,
    /// and hand the write to another thread if it returns `true`. The result is an estimate that takes tens of
    /// nanoseconds: work of other threads can still make the commit wait, rarely and briefly.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// use pando::Durability;
    /// let db = pando::Database::builder().in_memory()?;
    /// assert!(db.would_wait(Durability::Sync, 100), "for its flush");
    /// assert!(!db.would_wait(Durability::Buffered, 100));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn would_wait(&self, durability: Durability, bytes: usize) -> bool {
        let Shared { store, signals, gate, .. } = &*self.shared;
        durability == Durability::Sync
            || signals.holds_writers()
            || gate.is_held()
            || store.would_delay(bytes as u64)
    }

    /// Makes a checkpoint now: merges everything committed so far into the trees. No program needs it for correctness;
    /// it makes the next opening and the next scan quicker.
    ///
    /// # Errors
    /// `Full` if the disk or the memory is full; `Latched` after an earlier failure; `Invalid` within a function that
    /// [`Database::check_all`] calls; `ReadOnly`; `Closed`; errors of the disk.
    pub fn checkpoint(&self) -> Result<()> {
        self.shared.store.checkpoint()?;
        self.shared.signals.set_full(self.shared.store.pressure().is_full());
        // The worker releases what readers still hold of the previous state.
        self.shared.signals.checkpoint.ring();
        Ok(())
    }

    /// Makes everything committed so far durable, including `Buffered` and `Lazy` commits.
    ///
    /// # Errors
    /// `Latched` after an earlier failure; `Closed`; errors of the disk.
    pub fn sync(&self) -> Result<()> {
        self.shared.store.sync()
    }

    /// Checks, without waiting for the disk, that no earlier failure has stopped all writing. If the disk has failed
    /// since the last flush, only the next flush notices it.
    ///
    /// # Errors
    /// [`Latched`](crate::ErrorKind::Latched) after such a failure; [`ReadOnly`](crate::ErrorKind::ReadOnly);
    /// [`Closed`](crate::ErrorKind::Closed).
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// let db = pando::Database::builder().in_memory()?;
    /// db.check_writes()?;
    /// db.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn check_writes(&self) -> Result<()> {
        self.shared.store.check_writes()
    }

    /// Returns the error with which writes fail because the disk is full, or `None` while there is room. On a full
    /// disk, reads and commits that only delete continue. The state ends by itself after space becomes free: within a
    /// second, or with the next checkpoint.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// let db = pando::Database::builder().in_memory()?;
    /// assert!(db.short_of_room().is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn short_of_room(&self) -> Option<Error> {
        self.shared.store.short_of_room()
    }
}

/// Pauses with exponential backoff and full jitter: up to 2^attempt * 20 microseconds.
fn pause(attempt: u32) {
    let most_us = 20 << attempt;
    thread::sleep(Duration::from_micros(Random::from_entropy().below(most_us)));
}

impl Shared {
    /// Returns whether a transaction holds the gate.
    #[cfg(feature = "aio")]
    pub fn holds_commits(&self) -> bool {
        self.gate.is_held()
    }

    /// Waits while another transaction holds the gate. It costs one load if the gate is free.
    #[inline]
    pub fn pass_gate(&self) {
        self.gate.pass();
    }
}
