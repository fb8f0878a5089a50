//! Reads from a snapshot: the state of one moment.

use crate::cursor::{Beginning, Cursor, Range, Span};
use base::Result;
use store::ttl::Expiry;
use store::{Resident, Table, ValueReader, ValueRef};

/// A read-only view of everything that was acknowledged at one moment. It is `Send`, but not `Sync`: make another one
/// for another thread with [`Snapshot::try_clone`].
///
/// While a snapshot is open, the memory and disk space of the entries that it sees cannot be freed, even if they are
/// overwritten or deleted. The amount is bounded: beyond a share of the memory, or beyond
/// [`crate::Builder::max_pinned_space_bytes`], the oldest snapshots expire, and every call on them fails with
/// `SnapshotTooOld`. [`crate::Database::readers`] lists what each snapshot keeps.
///
/// ```
/// # fn main() -> pando::Result<()> {
/// # let db = pando::Database::builder().in_memory()?;
/// # let table = db.ensure_table("t")?;
/// db.put(&table, b"k", b"before")?;
/// let snapshot = db.snapshot()?;
/// db.put(&table, b"k", b"after")?;
/// assert_eq!(snapshot.get(&table, b"k")?, Some(b"before".to_vec()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a snapshot keeps what it sees from being freed, and does nothing by itself"]
pub struct Snapshot {
    inner: store::Snapshot,
}

impl Snapshot {
    #[inline]
    pub(crate) fn new(inner: store::Snapshot) -> Self {
        Snapshot { inner }
    }

    /// Returns when the entry of `key` expires, counted from the time of this snapshot, or `None` if the key does not
    /// exist. A long value is not read. [`Transaction::put_with_ttl`](crate::Transaction::put_with_ttl) has an example.
    ///
    /// # Errors
    /// `Invalid` if the table was not created with [`TableOptions::ttl_by_key`](crate::TableOptions::ttl_by_key).
    pub fn expiry(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Expiry>> {
        self.inner.expiry(table, key.as_ref())
    }

    /// Returns a copy of the value of `key`, or `None` if the key does not exist. O(log n).
    ///
    /// # Errors
    /// `Missing` if the table does not exist in this snapshot; `SnapshotTooOld`; `Io` and `Corruption` from the disk.
    #[inline]
    pub fn get(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.inner.get(table, key.as_ref())
    }

    /// Returns the value of `key` in place, without a copy and without an allocation, or `None` if the key does not
    /// exist. O(log n).
    ///
    /// [`Snapshot::get`] returns a vector that you can keep and send. For a value of 100 bytes the two cost the same;
    /// for longer values `get_ref` costs less. [`ValueRef`] documents what it keeps while you hold it.
    ///
    /// # Errors
    /// As for [`Snapshot::get`].
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.ensure_table("t")?;
    /// # db.put(&table, b"k", b"value")?;
    /// let snapshot = db.snapshot()?;
    /// let value = snapshot.get_ref(&table, b"k")?.expect("it was put");
    /// assert!(value.starts_with(b"val"));
    /// assert_eq!(&value[3..], b"ue");
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn get_ref(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<ValueRef<'_>>> {
        self.inner.get_ref(table, key.as_ref())
    }

    /// Returns a copy of the value of `key` if the value is in memory. The call never reads from disk and never waits.
    /// If it returns [`Resident::WouldWait`], call [`Snapshot::get`] on a thread that may wait. It also returns
    /// `WouldWait` for long values outside the pages, and once after tables were created or dropped.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.ensure_table("t")?;
    /// db.put(&table, b"k", b"v")?;
    /// let snapshot = db.snapshot()?;
    /// assert_eq!(snapshot.get_resident(&table, b"k")?, pando::Resident::Found(b"v".to_vec()));
    /// assert_eq!(snapshot.get_resident(&table, b"other")?, pando::Resident::Absent);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn get_resident(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Resident<Vec<u8>>> {
        self.inner.get_resident(table, key.as_ref())
    }

    /// Calls `with` on the value of `key` in place, without a copy, and returns its result, or `None` if the key does
    /// not exist.
    ///
    /// # Errors
    /// As for [`Snapshot::get`].
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.ensure_table("t")?;
    /// # db.put(&table, b"k", b"value")?;
    /// assert_eq!(db.snapshot()?.get_with(&table, b"k", |value| value.len())?, Some(5));
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn get_with<T>(
        &self,
        table: &Table,
        key: impl AsRef<[u8]>,
        with: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        self.inner.get_with(table, key.as_ref(), with)
    }

    /// Calls `with` on the beginning of the value of `key`: the whole value, or, of a value that is stored outside of
    /// pages, the part that its page has. Such a value is read as a whole only if it has at most `whole_bytes` bytes,
    /// so the beginning of a long value costs as much as a short value.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.ensure_table("t")?;
    /// db.put(&table, "k", [b"title: x\n".as_slice(), &[0; 100_000]].concat())?;
    /// db.checkpoint()?; // Until then it is in memory as a whole.
    /// let title = db.snapshot()?.get_beginning(&table, "k", 16 << 10, |beginning| {
    ///     assert_eq!((beginning.bytes.len(), beginning.len_bytes), (480, 100_009));
    ///     beginning.bytes[..8].to_vec()
    /// })?;
    /// assert_eq!(title.as_deref(), Some(&b"title: x"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_beginning<T>(
        &self,
        table: &Table,
        key: impl AsRef<[u8]>,
        whole_bytes: usize,
        with: impl FnOnce(Beginning<'_>) -> T,
    ) -> Result<Option<T>> {
        self.inner.get_beginning(table, key.as_ref(), whole_bytes, with)
    }

    /// Calls `with` on the first record whose key begins with `prefix`: on the rest of the key, and on the value. Use
    /// it for an index whose keys consist of a value and the key of the record that has this value. Such a look-up
    /// costs a fraction of a cursor, unless it meets range deletes or deleted keys.
    ///
    /// # Errors
    /// `Missing` if the handle is stale; `SnapshotTooOld`; those of reading pages.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let by_email = db.ensure_table("by_email")?;
    /// db.put(&by_email, "ann@x.org/17", "")?;
    /// let snapshot = db.snapshot()?;
    /// assert_eq!(snapshot.first_with_prefix(&by_email, "ann@x.org/", |id, _| id.to_vec())?, Some(b"17".to_vec()));
    /// assert_eq!(snapshot.first_with_prefix(&by_email, "bob@x.org/", |id, _| id.to_vec())?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn first_with_prefix<T>(
        &self,
        table: &Table,
        prefix: impl AsRef<[u8]>,
        with: impl FnOnce(&[u8], &[u8]) -> T,
    ) -> Result<Option<T>> {
        self.inner.first_with_prefix(table, prefix.as_ref(), with)
    }

    /// Returns a reader of the value of `key`, with [`std::io::Read`] and [`std::io::Seek`]. It can read any part of a
    /// value of gigabytes with the memory of one piece (256 KiB, plus 16 bytes for each piece of the value). It is
    /// owned, can be sent to another thread, and keeps the value as this snapshot sees it until it is dropped.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.ensure_table("t")?;
    /// # db.put(&table, b"k", b"a long value")?;
    /// use std::io::{Read, Seek, SeekFrom};
    /// let mut reader = db.snapshot()?.value_reader(&table, b"k")?.expect("it was put");
    /// reader.seek(SeekFrom::End(-5)).unwrap();
    /// let mut end = String::new();
    /// reader.read_to_string(&mut end).unwrap();
    /// assert_eq!((reader.len_bytes(), &end[..]), (12, "value"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn value_reader(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<ValueReader>> {
        self.inner.value_reader(table, key.as_ref())
    }

    /// Returns the length of the value of `key` in bytes. A long value is not read.
    pub fn value_len(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        self.inner.value_len(table, key.as_ref())
    }

    /// Returns the values of many keys, in the order of `keys`. The errors are those of [`Snapshot::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, table: &Table, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        keys.iter().map(|key| self.get(table, key.as_ref())).collect()
    }

    /// Returns whether `key` exists.
    #[inline]
    pub fn contains(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<bool> {
        self.inner.contains(table, key.as_ref())
    }

    /// Returns copies of the records of `span` in key order, or in descending order with `.rev()`.
    /// [`Snapshot::cursor`] avoids the copies.
    pub fn range(&self, table: &Table, span: impl Into<Span>) -> Result<Range<'_>> {
        Range::new(|span| self.inner.cursor(table, span), span.into())
    }

    /// Returns the records whose keys begin with `prefix`, in key order.
    pub fn prefix(&self, table: &Table, prefix: impl AsRef<[u8]>) -> Result<Range<'_>> {
        self.range(table, Span::prefix(prefix.as_ref()))
    }

    /// Returns a cursor over `span`, positioned before its first record.
    ///
    /// # Errors
    /// `Missing` if the table does not exist in this snapshot; `SnapshotTooOld`; errors of reading the disk.
    pub fn cursor(&self, table: &Table, span: impl Into<Span>) -> Result<Cursor<'_>> {
        self.inner.cursor(table, span.into())
    }

    /// Returns the table named `name`, if it exists in this snapshot.
    pub fn table(&self, name: &str) -> Result<Option<Table>> {
        self.inner.table(name)
    }

    /// Returns all tables in this snapshot, ordered by name.
    pub fn tables(&self) -> Result<Vec<Table>> {
        self.inner.tables()
    }

    /// Returns approximately how many records the table has, at the cost of a look-up. Records that a checkpoint merged
    /// into a B+tree are counted exactly, except for ranges that it dropped without reading them. Each entry in memory
    /// and in the runs of an LSM table counts as one record, even if it was replaced or deleted, or has expired.
    pub fn approximate_len(&self, table: &Table) -> Result<u64> {
        self.inner.approximate_len(table)
    }

    /// Returns a key that is at or after every key of the table: the last key, a deleted key that is not purged yet, or
    /// a key that was added in the meantime. Use it to continue a sequence of numbers. A cursor that moves back from
    /// the end passes over all deleted keys; this call looks once into each layer. O(log n).
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.ensure_table("t")?;
    /// db.put(&table, b"1", b"")?;
    /// db.put(&table, b"2", b"")?;
    /// db.delete(&table, b"2")?;
    /// let bound = db.snapshot()?.last_key_bound(&table)?;
    /// assert!(bound.is_some_and(|key| key >= b"1".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn last_key_bound(&self, table: &Table) -> Result<Option<Vec<u8>>> {
        self.inner.last_key_bound(table)
    }

    /// Returns the number of the last commit that the snapshot sees. Commits are numbered from 1.
    #[must_use]
    pub fn commit_number(&self) -> u64 {
        self.inner.ts().0
    }

    /// Returns a second snapshot of the same commit, for another thread. The errors are those of
    /// [`crate::Database::snapshot`].
    #[track_caller]
    pub fn try_clone(&self) -> Result<Self> {
        self.inner.try_clone().map(Snapshot::new)
    }
}
