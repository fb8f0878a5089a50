//! A transaction whose calls either complete at once, or move it to a thread of the pool and back.

use super::Threads;
use super::flusher::{acknowledged, outcome};
use base::sync::lock;
use base::{Error, Result};
use std::sync::{Arc, Mutex};
use store::{Resident, Table};

/// A read-write transaction; see [`crate::Transaction`]. If it is dropped without [`Transaction::commit`], it has no
/// effect.
///
/// ```
/// # futures_executor::block_on(async {
/// # let db = pando::aio::Database::new(pando::Database::builder().in_memory()?)?;
/// # let table = db.run(|db| db.ensure_table("t")).await?;
/// let mut tx = db.begin().await?;
/// tx.put(&table, b"k", b"v").await?;
/// assert_eq!(tx.get(&table, b"k").await?, Some(b"v".to_vec()));
/// let number = tx.commit().await?;
/// assert_eq!(db.snapshot()?.commit_number(), number);
/// # Ok::<(), pando::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "a transaction that is dropped is rolled back; call `commit`"]
pub struct Transaction {
    inner: Arc<Inner>,
    threads: Arc<Threads>,
}

/// The transaction; `None` while a thread has it, after the future of that call was dropped, and after its end. It has
/// a lock because [`super::Database::transact`] has a second handle; there is never a wait for it.
type Inner = Mutex<Option<crate::Transaction>>;

impl Transaction {
    pub(super) fn new(inner: crate::Transaction, threads: Arc<Threads>) -> Self {
        Transaction { inner: Arc::new(Mutex::new(Some(inner))), threads }
    }

    /// Returns another handle, with which the transaction can be committed after the first one is gone.
    pub(super) fn share(&self) -> Self {
        Transaction { inner: Arc::clone(&self.inner), threads: Arc::clone(&self.threads) }
    }

    /// Runs `call` in this task.
    fn here<T>(&self, call: impl FnOnce(&mut crate::Transaction) -> Result<T>) -> Result<T> {
        call(lock(&self.inner).as_mut().ok_or_else(ended)?)
    }

    fn take(&self) -> Result<crate::Transaction> {
        lock(&self.inner).take().ok_or_else(ended)
    }

    /// Runs `work` with the blocking transaction on a thread of the pool. Use it for what this type lacks, for example
    /// cursors, or for many reads and writes at once.
    ///
    /// ```
    /// # futures_executor::block_on(async {
    /// # let db = pando::aio::Database::new(pando::Database::builder().in_memory()?)?;
    /// # let table = db.run(|db| db.ensure_table("t")).await?;
    /// let mut tx = db.begin().await?;
    /// let of_table = table.clone();
    /// let last = tx.run(move |tx| tx.range(&of_table, ..)?.next_back().transpose()).await?;
    /// assert_eq!(last, None);
    /// # Ok::<(), pando::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of `work`. `Invalid` if the future of an earlier call was dropped while a thread had the transaction.
    ///
    /// # Panics
    /// If `work` panics; the transaction is rolled back.
    pub async fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut crate::Transaction) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let mut inner = self.take()?;
        let work = self.threads.pool.run(move || {
            let result = work(&mut inner);
            (inner, result)
        });
        let (inner, result) = work.await;
        *lock(&self.inner) = Some(inner);
        result
    }

    /// Returns a copy of the value of `key`, or `None` if the key does not exist. It sees the transaction's own writes,
    /// and completes at once if the pages are in memory.
    ///
    /// # Errors
    /// As for [`crate::Snapshot::get`], and as for [`Transaction::run`].
    pub async fn get(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        match self.here(|tx| tx.get_resident(table, key))? {
            Resident::Found(value) => Ok(Some(value)),
            Resident::Absent => Ok(None),
            Resident::WouldWait => {
                let (table, key) = (table.clone(), key.to_vec());
                self.run(move |tx| tx.get(&table, key)).await
            }
        }
    }

    /// Sets `key` to `value`, whether or not the key exists. It reads nothing.
    ///
    /// # Errors
    /// As for [`crate::Transaction::put`], and as for [`Transaction::run`].
    pub async fn put(&mut self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let bytes = key.len() + value.len();
        let put = self.here(|tx| Ok(tx.is_short_with(bytes).then(|| tx.put(table, key, value))))?;
        if let Some(put) = put {
            return put;
        }
        let (table, key, value) = (table.clone(), key.to_vec(), value.to_vec());
        self.run(move |tx| tx.put(&table, key, value)).await
    }

    /// Deletes `key`, whether or not it exists. It reads nothing.
    ///
    /// # Errors
    /// As for [`crate::Transaction::delete`], and as for [`Transaction::run`].
    pub async fn delete(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        let deleted = self.here(|tx| Ok(tx.is_short_with(key.len()).then(|| tx.delete(table, key))))?;
        if let Some(deleted) = deleted {
            return deleted;
        }
        let (table, key) = (table.clone(), key.to_vec());
        self.run(move |tx| tx.delete(&table, key)).await
    }

    /// Commits all changes or none, and returns the number of the commit. It completes once the commit is as durable as
    /// the transaction's [`Durability`](crate::Durability) states. No thread waits for this commit alone: all commits
    /// that wait at the same time share a flush.
    ///
    /// If you drop the future after it was polled, the commit continues in the background, and may fail there; see [the
    /// module](super).
    ///
    /// # Errors
    /// As for [`crate::Transaction::commit`], and as for [`Transaction::run`].
    pub async fn commit(self) -> Result<u64> {
        let inner = self.take()?;
        let (sender, receiver) = outcome();
        if inner.would_delay() {
            let threads = Arc::clone(&self.threads);
            self.threads.pool.spawn(move || {
                if !sender.is_canceled() {
                    threads.flusher.commit(|| inner.apply_waiting(), sender);
                }
            });
        } else {
            self.threads.flusher.commit(|| inner.apply_here(), sender);
        }
        acknowledged(receiver).await
    }

    /// Rolls the transaction back, as dropping it does.
    pub fn abort(self) {}
}

#[cold]
fn ended() -> Error {
    Error::invalid(
        "the transaction has ended: it was committed, or it was rolled back because the future of one of its \
         calls was dropped before it had completed; begin another one",
    )
}
