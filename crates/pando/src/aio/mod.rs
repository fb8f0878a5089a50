//! The database for asynchronous programs, with the feature `aio`.
//!
//! A commit waits for its flush without a thread, reads of pages in memory complete at once, and everything else that
//! can wait runs on a bounded number of threads. The futures are plain [`Future`]s: they work with tokio and every
//! other executor, and need no reactor.
//!
//! ```
//! # futures_executor::block_on(async {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path();
//! let db = pando::aio::Database::new(pando::Database::create(path)?)?;
//! let visits = db.run(|db| db.ensure_table("visits")).await?;
//! let count = db
//!     .transact(|mut tx| {
//!         let visits = &visits;
//!         async move {
//!             let before = tx.get(visits, b"home").await?.map_or(0, |value| value[0]);
//!             tx.put(visits, b"home", [before + 1]).await?;
//!             Ok(before + 1)
//!         }
//!     })
//!     .await?;
//! assert_eq!(count, 1);
//! assert_eq!(db.get(&visits, b"home").await?, Some(vec![1]));
//! # Ok::<(), pando::Error>(())
//! # }).unwrap();
//! ```
//!
//! # Where the work is done
//! | call | in the task that polls it | on a thread of the pool |
//! |---|---|---|
//! | a get | if the pages are in memory | otherwise |
//! | a put, a delete | while the transaction has less than 32 KiB of writes | otherwise, as it may wait for memory |
//! | a commit | if it has less than 32 KiB, and nothing holds it up before its flush | otherwise |
//! | the flush of a commit | never: one thread waits for the disk, for all commits at once | never |
//! | a batch of a [`Scan`] | never | always |
//! | [`Database::run`], [`Transaction::run`] | never | always |
//!
//! A call on memory takes a few microseconds. A task that makes thousands of such calls without an `.await` that waits
//! keeps its executor's thread, as any computation does: yield now and then.
//!
//! # Futures that are dropped
//! You can drop every future at any time, for example by a timeout or `select!`:
//! * A dropped read has no effect. A [`Snapshot`] stays usable.
//! * A [`Transaction`] whose call was on a thread of the pool is rolled back, and later calls on it return `Invalid`. A
//!   transaction whose call was not on such a thread stays usable. As you cannot know which of the two happened, drop
//!   the transaction, too.
//! * A commit happens completely or not at all, but you do not learn which, as after a lost connection. If it happens,
//!   it is flushed and becomes visible without another call. A commit whose future was never polled does not happen.
//! * The future of [`Database::transact`] drops its transaction, so the rule for commits applies.

mod flusher;
mod pool;
mod scan;
mod snapshot;
mod transaction;

pub use scan::{Batch, Scan};
pub use snapshot::Snapshot;
pub use transaction::Transaction;

use crate::cursor::Span;
use base::env::Random;
use base::{Error, Result};
use flusher::Flusher;
use pool::Pool;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use store::{Resident, Table, TransactionOptions};

/// The number of threads for work that waits, if it is not set: as many reads of an SSD at once bring most of its
/// speed.
const USUAL_THREADS: usize = 16;
/// The number of attempts of [`Database::transact`].
const MOST_ATTEMPTS: u32 = 24;
/// The greatest pause after a conflict, in turns of the executor, is two to this power.
const MOST_PAUSE_LOG2: u32 = 8;

/// The threads that handles, snapshots and transactions share.
#[derive(Debug)]
struct Threads {
    pool: Pool,
    flusher: Flusher,
}

/// An asynchronous handle on an open database: its calls do not block a thread while they wait. A clone is another
/// handle on the same database.
///
/// Create one handle for each [`pando::Database`](crate::Database) and clone it, because each has threads of its own.
/// You can use the asynchronous and the blocking handle at the same time; their commits share flushes.
#[derive(Clone, Debug)]
pub struct Database {
    db: crate::Database,
    threads: Arc<Threads>,
}

impl Database {
    /// Returns an asynchronous handle on `db`, with at most 16 threads for work that waits.
    ///
    /// # Errors
    /// `Io` if the thread that waits for flushes cannot be started.
    pub fn new(db: crate::Database) -> Result<Self> {
        Self::with_threads(db, USUAL_THREADS)
    }

    /// Returns an asynchronous handle on `db`, with at most `threads` threads for work that waits. A thread starts when
    /// it is needed, and ends after ten seconds without work. Choose more threads if many gets miss the cache and the
    /// disk serves many requests at once.
    ///
    /// # Errors
    /// `Invalid` if `threads` is not within 1 to 1024; `Io` as for [`Database::new`].
    pub fn with_threads(db: crate::Database, threads: usize) -> Result<Self> {
        if !(1..=1024).contains(&threads) {
            let message = format!("the number of threads must be within 1 to 1024, not {threads}");
            return Err(Error::invalid(message));
        }
        let flusher = Flusher::start(&db.shared.store, &db.shared.signals)?;
        Ok(Database { db, threads: Arc::new(Threads { pool: Pool::new(threads), flusher }) })
    }

    /// Returns the blocking handle on the same database.
    #[must_use]
    pub fn blocking(&self) -> &crate::Database {
        &self.db
    }

    /// Runs `work` with the blocking database on a thread of the pool. Use it for what this type lacks, for example
    /// [`ensure_table`](crate::Database::ensure_table), a backup, or [`write`](crate::Database::write) with its
    /// guarantee to succeed against any number of conflicts.
    ///
    /// ```
    /// # futures_executor::block_on(async {
    /// # let db = pando::aio::Database::new(pando::Database::builder().in_memory()?)?;
    /// let fruit = db.run(|db| db.ensure_table("fruit")).await?;
    /// assert_eq!(fruit.name(), "fruit");
    /// # Ok::<(), pando::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of `work`.
    ///
    /// # Panics
    /// If `work` panics.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&crate::Database) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let db = self.db.clone();
        self.threads.pool.run(move || work(&db)).await
    }

    /// Returns a copy of the value of `key`, read through a new snapshot. `None` if the key does not exist. It
    /// completes at once if the pages are in memory.
    ///
    /// # Errors
    /// As for [`crate::Snapshot::get`].
    pub async fn get(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let snapshot = self.db.snapshot()?;
        match snapshot.get_resident(table, key.as_ref())? {
            Resident::Found(value) => Ok(Some(value)),
            Resident::Absent => Ok(None),
            Resident::WouldWait => {
                let (table, key) = (table.clone(), key.as_ref().to_vec());
                self.threads.pool.run(move || snapshot.get(&table, key)).await
            }
        }
    }

    /// Sets `key` to `value` in a transaction of its own, which reads nothing and so does not conflict. It completes
    /// once the commit is as durable as [`crate::Database::transaction_options`] says.
    ///
    /// # Errors
    /// As for [`crate::Transaction::put`] and [`Transaction::commit`].
    pub async fn put(&self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.transact(|mut tx| async move { tx.put(table, key, value).await }).await
    }

    /// Deletes `key` in a transaction of its own. It is not an error if the key does not exist.
    ///
    /// # Errors
    /// As for [`Transaction::commit`].
    pub async fn delete(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.transact(|mut tx| async move { tx.delete(table, key).await }).await
    }

    /// Takes a read-only snapshot of everything acknowledged so far. It takes nanoseconds.
    ///
    /// # Errors
    /// As for [`crate::Database::snapshot`].
    #[track_caller]
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.db.snapshot().map(|snapshot| Snapshot::new(snapshot, Arc::clone(&self.threads)))
    }

    /// Returns the records of `span` in key order, in batches, from a snapshot of its own; see [`Snapshot::scan`].
    ///
    /// # Errors
    /// As for [`crate::Database::snapshot`].
    #[track_caller]
    pub fn scan(&self, table: &Table, span: impl Into<Span>) -> Result<Scan> {
        Ok(Scan::new(self.db.snapshot()?, Arc::clone(&self.threads), table.clone(), span.into()))
    }

    /// Begins a read-write transaction with the database's default isolation and durability. It completes at once,
    /// unless the memory for writes is full.
    ///
    /// # Errors
    /// As for [`crate::Database::begin`].
    pub async fn begin(&self) -> Result<Transaction> {
        self.begin_with(&self.db.transaction_options()).await
    }

    /// Begins a read-write transaction with these options.
    ///
    /// # Errors
    /// As for [`crate::Database::begin`].
    pub async fn begin_with(&self, options: &TransactionOptions) -> Result<Transaction> {
        let begun = if self.db.shared.signals.has_no_room() {
            let (db, options) = (self.db.clone(), *options);
            self.threads.pool.run(move || db.begin_with(&options)).await
        } else {
            self.db.begin_with(options)
        };
        begun.map(|transaction| Transaction::new(transaction, Arc::clone(&self.threads)))
    }

    /// Runs `work` in a transaction and commits it. After a conflict it tries again, at most 24 times in all, after a
    /// random number of turns of the executor.
    ///
    /// `work` can run several times, so its effects outside the transaction must be safe to repeat. It gets the
    /// transaction by value, and returns without committing it. (It is not an `async` closure that borrows the
    /// transaction, because the compiler cannot yet prove that the future of such a closure is `Send`.)
    ///
    /// Unlike [`crate::Database::write`], it never holds back other commits in order to succeed: a future that holds
    /// them back and is not polled would hold them back forever. If very many tasks change one key at once, call
    /// [`crate::Database::write`] through [`Database::run`].
    ///
    /// # Errors
    /// The error of `work` or of the commit; a conflict if the last attempt had one.
    pub async fn transact<T, F>(&self, work: impl FnMut(Transaction) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        self.transact_with(&self.db.transaction_options(), work).await
    }

    /// Runs `work` in transactions with these options until it commits; see [`Database::transact`].
    ///
    /// # Errors
    /// As for [`Database::transact`].
    pub async fn transact_with<T, F>(
        &self,
        options: &TransactionOptions,
        mut work: impl FnMut(Transaction) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        for attempt in 1.. {
            let transaction = self.begin_with(options).await?;
            let done = match work(transaction.share()).await {
                Ok(result) => transaction.commit().await.map(|_| result),
                Err(error) => {
                    drop(transaction);
                    Err(error)
                }
            };
            match done {
                Err(error) if error.is_retryable() && attempt < MOST_ATTEMPTS => pause(attempt).await,
                done => return done,
            }
        }
        unreachable!("the last attempt returns")
    }

    /// Syncs the log, stops the worker threads and unlocks the directory; see [`crate::Database::close`].
    ///
    /// # Errors
    /// As for [`crate::Database::close`].
    pub async fn close(&self) -> Result<()> {
        self.run(crate::Database::close).await
    }
}

/// Waits for a random number of turns of the executor, up to 2^attempt. Turns need no timer of an executor, and last as
/// long as other tasks have work, which is when a conflict is likely to come again.
async fn pause(attempt: u32) {
    let mut turns = Random::from_entropy().below(1 << attempt.min(MOST_PAUSE_LOG2));
    poll_fn(|context| {
        if turns == 0 {
            return Poll::Ready(());
        }
        turns -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
