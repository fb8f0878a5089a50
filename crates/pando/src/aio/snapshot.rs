//! Reads from a snapshot. The lock makes the snapshot shareable between tasks; it is held for a look at memory, never
//! across an `.await`.

use super::Threads;
use super::scan::Scan;
use crate::cursor::Span;
use base::Result;
use base::sync::lock;
use std::sync::{Arc, Mutex};
use store::{Resident, Table};

/// A read-only view of everything that was acknowledged at one moment; see [`crate::Snapshot`], whose documentation
/// says what it keeps. It can be shared by several tasks.
#[derive(Debug)]
#[must_use = "a snapshot keeps what it sees from being freed, and does nothing by itself"]
pub struct Snapshot {
    inner: Mutex<crate::Snapshot>,
    threads: Arc<Threads>,
}

impl Snapshot {
    pub(super) fn new(inner: crate::Snapshot, threads: Arc<Threads>) -> Self {
        Snapshot { inner: Mutex::new(inner), threads }
    }

    /// Returns a copy of the value of `key`, or `None` if the key does not exist. It completes at once if the pages are
    /// in memory.
    ///
    /// ```
    /// # futures_executor::block_on(async {
    /// # let db = pando::aio::Database::new(pando::Database::builder().in_memory()?)?;
    /// # let table = db.run(|db| db.ensure_table("t")).await?;
    /// db.put(&table, b"k", b"before").await?;
    /// let snapshot = db.snapshot()?;
    /// db.put(&table, b"k", b"after").await?;
    /// assert_eq!(snapshot.get(&table, b"k").await?, Some(b"before".to_vec()));
    /// # Ok::<(), pando::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As for [`crate::Snapshot::get`].
    pub async fn get(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let waiting = {
            let inner = lock(&self.inner);
            match inner.get_resident(table, key.as_ref())? {
                Resident::Found(value) => return Ok(Some(value)),
                Resident::Absent => return Ok(None),
                // The thread gets a snapshot of its own: others read from this one meanwhile.
                Resident::WouldWait => inner.try_clone()?,
            }
        };
        let (table, key) = (table.clone(), key.as_ref().to_vec());
        self.threads.pool.run(move || waiting.get(&table, key)).await
    }

    /// Runs `work` with a blocking snapshot of the same commit, on a thread of the pool.
    ///
    /// # Errors
    /// Those of `work`, and of [`crate::Snapshot::try_clone`].
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&crate::Snapshot) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let own = lock(&self.inner).try_clone()?;
        self.threads.pool.run(move || work(&own)).await
    }

    /// Returns the records of `span` in key order, in batches. The stream has a snapshot of the same commit, and may
    /// outlive this one.
    ///
    /// # Errors
    /// As for [`crate::Snapshot::try_clone`].
    pub fn scan(&self, table: &Table, span: impl Into<Span>) -> Result<Scan> {
        let own = lock(&self.inner).try_clone()?;
        Ok(Scan::new(own, Arc::clone(&self.threads), table.clone(), span.into()))
    }

    /// Returns the number of the last commit that the snapshot sees.
    #[must_use]
    pub fn commit_number(&self) -> u64 {
        lock(&self.inner).commit_number()
    }
}
