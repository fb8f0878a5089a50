//! Entries with a TTL of their own, in tables that were created with
//! [`TableOptions::ttl_by_key`](crate::TableOptions::ttl_by_key).

use super::Transaction;
use super::values::fill;
use base::Result;
use std::io::Read;
use std::time::Duration;
use store::ttl::Expiry;
use store::{OwnedValueWriter, Table, ValueWriter};

impl Transaction {
    /// Sets `key` to `value`, whether or not the key exists. The entry expires once `ttl` has passed: snapshots and
    /// transactions that begin after that do not see it. A later call replaces the TTL, and [`Transaction::put`]
    /// removes it.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// use pando::{Clock, Database, Expiry, TableOptions};
    /// use std::sync::atomic::Ordering;
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::set_by_hand(1_000_000);
    /// let db = Database::builder().clock(clock).in_memory()?;
    /// let cache = db.create_table("cache", &TableOptions::default().ttl_by_key())?;
    /// db.write(|tx| {
    ///     tx.put_with_ttl(&cache, "weather", "rain", Duration::from_secs(60))?;
    ///     tx.put(&cache, "name", "Ann")
    /// })?;
    /// let snapshot = db.snapshot()?;
    /// assert_eq!(snapshot.expiry(&cache, "weather")?, Some(Expiry::In(Duration::from_secs(60))));
    /// assert_eq!(snapshot.expiry(&cache, "name")?, Some(Expiry::Never));
    /// hand.fetch_add(60_000, Ordering::SeqCst);
    /// assert_eq!(db.get(&cache, "weather")?, None);
    /// assert_eq!(snapshot.get(&cache, "weather")?.as_deref(), Some(&b"rain"[..]), "a snapshot does not change");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` if the table has no TTL by key, and for a TTL of less than 1 ms; otherwise as for
    /// [`Transaction::put`].
    pub fn put_with_ttl(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.inner.put_with_ttl(table, key, value, ttl)?;
        self.wrote(key.len() + value.len());
        Ok(())
    }

    /// Sets `key` to everything that `from` yields, as [`Transaction::put_reader`] does, and returns the number of
    /// bytes. The entry expires `ttl` after this call.
    ///
    /// # Errors
    /// Those of [`Transaction::put_with_ttl`], and of [`Transaction::put_reader`].
    pub fn put_reader_with_ttl(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        from: impl Read,
        ttl: Duration,
    ) -> Result<u64> {
        fill(self.value_writer_with_ttl(table, key, ttl)?, from)
    }

    /// Returns a [`std::io::Write`] for the value of `key`, as [`Transaction::value_writer`] does. The entry expires
    /// `ttl` after this call.
    ///
    /// # Errors
    /// `Invalid` if the table has no TTL by key, for a TTL of less than 1 ms, and if the key is over its limit.
    pub fn value_writer_with_ttl(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<ValueWriter<'_>> {
        self.inner.value_writer_with_ttl(table, key.as_ref(), ttl)
    }

    /// Returns an owned [`std::io::Write`] for the value of `key`, as [`Transaction::owned_value_writer`] does. The
    /// entry expires `ttl` after this call.
    ///
    /// # Errors
    /// `Invalid` if the table has no TTL by key, for a TTL of less than 1 ms, and if the key is over its limit.
    pub fn owned_value_writer_with_ttl(
        &self,
        table: &Table,
        key: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<OwnedValueWriter> {
        self.inner.owned_value_writer_with_ttl(table, key.as_ref(), ttl)
    }

    /// Returns when the entry of `key` expires, as this transaction sees it; see
    /// [`Snapshot::expiry`](crate::Snapshot::expiry).
    ///
    /// # Errors
    /// `Invalid` if the table has no TTL by key.
    pub fn expiry(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Expiry>> {
        self.inner.expiry(table, key.as_ref())
    }

    /// Makes the existing entry of `key` expire once `ttl` has passed, or never for `None`. Returns whether the entry
    /// exists. The call reads the value and puts it again, a piece at a time, so a change of the key by another
    /// transaction is a conflict.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// use pando::{Expiry, TableOptions};
    /// use std::time::Duration;
    /// let cache = db.create_table("cache", &TableOptions::default().ttl_by_key())?;
    /// db.write(|tx| {
    ///     tx.put_with_ttl(&cache, "k", "v", Duration::from_secs(60))?;
    ///     assert!(tx.set_expiry(&cache, "k", None)?);
    ///     assert_eq!(tx.expiry(&cache, "k")?, Some(Expiry::Never));
    ///     assert!(!tx.set_expiry(&cache, "absent", None)?);
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` if the table has no TTL by key, and for a TTL of less than 1 ms; otherwise as for
    /// [`Transaction::put`].
    pub fn set_expiry(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        ttl: Option<Duration>,
    ) -> Result<bool> {
        let key = key.as_ref();
        // This refuses other tables before anything is written.
        if self.expiry(table, key)?.is_none() {
            return Ok(false);
        }
        let Some(value) = self.value_reader(table, key)? else { return Ok(false) };
        let writer = match ttl {
            Some(ttl) => self.value_writer_with_ttl(table, key, ttl)?,
            None => self.value_writer(table, key)?,
        };
        fill(writer, value)?;
        Ok(true)
    }
}
