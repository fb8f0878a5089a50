//! A database: opened, shared by its clones, closed once.

mod gate;
mod inspect;
mod tables;

pub use tables::TableOptions;

use crate::builder::Builder;
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;
use crate::workers::{Foreman, Signals, Workers};
use base::latency::Cause;
use base::seams::{Random, Stopwatch};
use base::sync::lock;
use base::{Error, Result};
use gate::Gate;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use store::{Store, Table, TransactionOptions};
use txn::Durability;

/// An open database. A clone is another handle on the same one; when the last is dropped, it closes.
///
/// ```
/// # fn main() -> pando::Result<()> {
/// let db = pando::Database::builder().in_memory()?;
/// let counts = db.table("counts")?;
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

/// What the handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub store: Arc<Store>,
    pub signals: Arc<Signals>,
    workers: Mutex<Option<Workers>>,
    builder: Builder,
    gate: Gate,
}

/// The attempts of [`Database::write`] before the one that holds the gate.
const OPEN_ATTEMPTS: u32 = 7;
/// Attempts with the gate held: only commits that were past it already can still conflict.
const GATED_ATTEMPTS: u32 = 4;

impl Database {
    /// Opens the database in the directory `path` with the default options, or creates it.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        Builder::default().create(path)
    }

    /// Opens the database in the directory `path` with the default options.
    ///
    /// # Errors
    /// `Missing` if there is none.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Builder::default().open(path)
    }

    /// Opens the database in the directory `path` to read it alone, with the default options: see
    /// [`Builder::read_only`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self> {
        Builder::default().read_only(true).open(path)
    }

    /// Options first.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A handle on `store`, which `builder` opened.
    pub(crate) fn start(store: Arc<Store>, builder: Builder) -> Result<Self> {
        let signals = Arc::new(Signals::new(builder.lazy_interval, builder.watch.clone(), store.latencies()));
        let workers = if store.is_read_only() { None } else { Some(Workers::start(&store, &signals)?) };
        store.set_attendant(Box::new(Foreman(Arc::clone(&signals))));
        let (workers, gate) = (Mutex::new(workers), Gate::default());
        Ok(Database { shared: Arc::new(Shared { store, signals, workers, builder, gate }) })
    }

    /// A read-only snapshot of everything acknowledged so far. Costs nanoseconds: no allocation, no lock.
    #[inline]
    #[track_caller]
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.shared.store.snapshot().map(Snapshot::new)
    }

    /// Begins a read-write transaction with the database's default isolation and durability.
    #[track_caller]
    pub fn begin(&self) -> Result<Transaction> {
        self.begin_with(self.shared.builder.transactions)
    }

    /// Begins a read-write transaction.
    ///
    /// ```
    /// # use pando::{Database, Durability, TransactionOptions};
    /// # fn main() -> pando::Result<()> {
    /// # let db = Database::builder().in_memory()?;
    /// # let table = db.table("t")?;
    /// let options = TransactionOptions { durability: Durability::Buffered, ..db.transaction_options() };
    /// let mut tx = db.begin_with(options)?;
    /// tx.put(&table, b"k", b"v")?;
    /// tx.commit()?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn begin_with(&self, options: TransactionOptions) -> Result<Transaction> {
        // Before the first lock: another thread of the parent may have held it.
        self.shared.store.check_process()?;
        self.shared.signals.wait_for_room()?;
        Transaction::begin(&self.shared, options)
    }

    /// The isolation and durability of transactions that name none.
    pub fn transaction_options(&self) -> TransactionOptions {
        self.shared.builder.transactions
    }

    /// Runs `work` in a transaction and commits it; on a conflict runs it again, after a short random pause, at
    /// most 7 times, and then with other commits held back, so that it ends.
    ///
    /// `work` may run several times: its effects outside the transaction must bear that.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// let accounts = db.table("accounts")?;
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
    /// What `work` or the commit answers. A conflict that even the last attempt met is returned as such.
    #[track_caller]
    pub fn write<T>(&self, mut work: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        match self.attempt(&mut work) {
            Err(error) if error.is_retryable() => {}
            done => return done,
        }
        let watch = Stopwatch::start();
        let done = self.write_again(work);
        self.shared.store.latencies().record(Cause::ConflictRetry, watch.elapsed_ns());
        done
    }

    /// After a first conflict.
    #[track_caller]
    fn write_again<T>(&self, mut work: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        for attempt in 1..OPEN_ATTEMPTS {
            pause(attempt - 1);
            match self.attempt(&mut work) {
                Err(error) if error.is_retryable() => {}
                done => return done,
            }
        }
        pause(OPEN_ATTEMPTS - 1);
        let _held = self.shared.gate.hold();
        for _ in 1..GATED_ATTEMPTS {
            match self.attempt(&mut work) {
                Err(error) if error.is_retryable() => {}
                done => return done,
            }
        }
        self.attempt(&mut work)
    }

    /// Loads many records in one transaction of their own: see [`Transaction::bulk_load`]. They appear all at once,
    /// over what the table had. It conflicts only with somebody who drops the table meanwhile.
    ///
    /// # Errors
    /// Those of `records`, as they are; those of [`Transaction::put`] and [`Transaction::commit`]. Nothing was loaded.
    #[track_caller]
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        table: &Table,
        records: impl IntoIterator<Item = Result<(K, V)>>,
    ) -> Result<u64> {
        self.shared.signals.wait_for_room()?;
        let mut tx = Transaction::begin(&self.shared, self.shared.builder.transactions)?;
        let loaded = tx.bulk_load(table, records)?;
        tx.commit()?;
        Ok(loaded)
    }

    #[track_caller]
    fn attempt<T>(&self, work: &mut impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        self.shared.store.check_process()?;
        self.shared.signals.wait_for_room()?;
        let mut tx = Transaction::begin(&self.shared, self.shared.builder.transactions)?;
        let result = work(&mut tx)?;
        tx.commit()?;
        Ok(result)
    }

    /// Whether every call that would write is refused: see [`Builder::read_only`].
    pub fn is_read_only(&self) -> bool {
        self.shared.store.is_read_only()
    }

    /// A copy of the value of `key`, through a snapshot of its own.
    #[track_caller]
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.snapshot()?.get(table, key)
    }

    /// Sets `key` to `value` in a transaction of its own.
    #[track_caller]
    pub fn put(&self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(|tx| tx.put(table, key, value))
    }

    /// Removes `key` in a transaction of its own.
    pub fn delete(&self, table: &Table, key: &[u8]) -> Result<()> {
        self.write(|tx| tx.delete(table, key))
    }

    /// Whether a transaction that writes `bytes` of keys and values, and of which nothing is spilled, would wait now
    /// before its commit is acknowledged: for a flush, for others' commits, for memory, for debt, for the log's room.
    ///
    /// For a thread on which nobody may wait, as one that serves many sockets: it writes if this says no, and leaves
    /// the write to another thread if not. An estimate, of tens of nanoseconds: what others do meanwhile may make the
    /// commit wait all the same, seldom and briefly.
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
    pub fn would_wait(&self, durability: Durability, bytes: usize) -> bool {
        let Shared { store, signals, gate, .. } = &*self.shared;
        durability == Durability::Sync
            || signals.holds_writers()
            || gate.is_held()
            || store.would_delay(bytes as u64)
    }

    /// Merges everything committed so far into the trees, now. Never needed for correctness; it makes the next
    /// opening and the next scan quicker.
    pub fn checkpoint(&self) -> Result<()> {
        self.shared.store.checkpoint()?;
        self.shared.signals.set_full(self.shared.store.pressure().is_full());
        // The worker looks after what readers still hold of the state before.
        self.shared.signals.checkpoint.ring();
        Ok(())
    }

    /// Makes everything committed so far durable, `Buffered` and `Lazy` commits included.
    pub fn sync(&self) -> Result<()> {
        self.shared.store.sync()
    }

    /// Why writes are refused for want of room on the disk; `None`: they are not. Reads go on, and so do commits that
    /// only delete. It ends by itself once there is room: within a second, or with the next checkpoint.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// let db = pando::Database::builder().in_memory()?;
    /// assert!(db.short_of_room().is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn short_of_room(&self) -> Option<Error> {
        self.shared.store.short_of_room()
    }

    /// Syncs the log, stops the workers and lets go of the directory. Every later call on any handle fails with
    /// `Closed`, except that snapshots which still live go on reading. Closing twice does nothing.
    pub fn close(&self) -> Result<()> {
        self.shared.close()
    }
}

/// Exponential backoff with full jitter: up to 2^attempt * 20 microseconds.
fn pause(attempt: u32) {
    let most_us = 20 << attempt;
    thread::sleep(Duration::from_micros(Random::from_entropy().below(most_us)));
}

impl Shared {
    fn close(&self) -> Result<()> {
        if let Err(forked) = self.store.check_process() {
            // The threads are the parent's; there is nothing here to stop or to wait for.
            std::mem::forget(lock(&self.workers).take());
            return Err(forked);
        }
        drop(lock(&self.workers).take());
        self.store.close()
    }

    /// Waits while another transaction holds the gate. One load when none does.
    #[inline]
    pub fn pass_gate(&self) {
        self.gate.pass();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Nobody is left to be told; whoever wants to know calls `close`.
        let _ = self.close();
    }
}
