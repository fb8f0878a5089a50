//! Reads of one moment.

use crate::cursor::{Cursor, Range, Span};
use base::Result;
use store::{Resident, Table, ValueReader};

/// Everything that was acknowledged at one moment, for as long as this lives. `Send`, not `Sync`: for another
/// thread make another with [`Snapshot::try_clone`].
///
/// A snapshot keeps what it sees from being freed: memory and disk space that was overwritten or deleted since
/// comes back when it is dropped. What it may keep is bounded: past a share of the memory, or
/// [`crate::Builder::max_pinned_space_bytes`], the oldest snapshots expire, and every call on them fails with
/// `SnapshotTooOld`. [`crate::Database::readers`] shows who keeps what.
///
/// ```
/// # fn main() -> pando::Result<()> {
/// # let db = pando::Database::builder().in_memory()?;
/// # let table = db.table("t")?;
/// db.put(&table, b"k", b"before")?;
/// let snapshot = db.snapshot()?;
/// db.put(&table, b"k", b"after")?;
/// assert_eq!(snapshot.get(&table, b"k")?, Some(b"before".to_vec()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Snapshot {
    inner: store::Snapshot,
}

impl Snapshot {
    #[inline]
    pub(crate) fn new(inner: store::Snapshot) -> Self {
        Snapshot { inner }
    }

    /// A copy of the value of `key`.
    ///
    /// # Errors
    /// `Missing` if the table does not exist at this moment; `Io` and `Corruption` from the disk.
    #[inline]
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.inner.get(table, key)
    }

    /// A copy of the value of `key`, if memory alone can tell: nothing is read from the disk and nobody is waited for,
    /// so that a thread with other business may ask. [`Resident::WouldWait`] says to call [`Snapshot::get`] where one
    /// may wait. It also answers so for long values that lie outside the pages, and once after tables were made or
    /// dropped.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.table("t")?;
    /// db.put(&table, b"k", b"v")?;
    /// let snapshot = db.snapshot()?;
    /// assert_eq!(snapshot.get_resident(&table, b"k")?, pando::Resident::Found(b"v".to_vec()));
    /// assert_eq!(snapshot.get_resident(&table, b"other")?, pando::Resident::Absent);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn get_resident(&self, table: &Table, key: &[u8]) -> Result<Resident<Vec<u8>>> {
        self.inner.get_resident(table, key)
    }

    /// Runs `with` on the value of `key` where it lies, without a copy. `None` if the key is absent.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.table("t")?;
    /// # db.put(&table, b"k", b"value")?;
    /// assert_eq!(db.snapshot()?.get_with(&table, b"k", |value| value.len())?, Some(5));
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn get_with<T>(&self, table: &Table, key: &[u8], with: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        self.inner.get_with(table, key, with)
    }

    /// A reader of the value of `key`: [`std::io::Read`] and [`std::io::Seek`], so that any part of a value of
    /// gigabytes is read with the memory of one piece of it (256 KiB, and 16 bytes for each piece there is). It is
    /// owned, can go to another thread, and keeps the value as this snapshot sees it while it lives.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.table("t")?;
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
    pub fn value_reader(&self, table: &Table, key: &[u8]) -> Result<Option<ValueReader>> {
        self.inner.value_reader(table, key)
    }

    /// The length of the value of `key`, in bytes. A long value is not read.
    pub fn value_len(&self, table: &Table, key: &[u8]) -> Result<Option<u64>> {
        self.inner.value_len(table, key)
    }

    /// The values of many keys, in the order of the keys.
    pub fn multi_get<K: AsRef<[u8]>>(&self, table: &Table, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        keys.iter().map(|key| self.get(table, key.as_ref())).collect()
    }

    /// Whether `key` is present.
    #[inline]
    pub fn contains(&self, table: &Table, key: &[u8]) -> Result<bool> {
        self.inner.contains(table, key)
    }

    /// The records of `span` in order, each copied; forwards, or backwards with `.rev()`. For no copies use
    /// [`Snapshot::cursor`].
    pub fn range(&self, table: &Table, span: impl Into<Span>) -> Result<Range<'_>> {
        Range::new(|span| self.inner.cursor(table, span), span.into())
    }

    /// The records whose keys begin with `prefix`.
    pub fn prefix(&self, table: &Table, prefix: &[u8]) -> Result<Range<'_>> {
        self.range(table, Span::prefix(prefix))
    }

    /// A cursor over `span`, before its first record.
    pub fn cursor(&self, table: &Table, span: impl Into<Span>) -> Result<Cursor<'_>> {
        self.inner.cursor(table, span.into())
    }

    /// The table named `name`, if it exists at this moment.
    pub fn table(&self, name: &str) -> Result<Option<Table>> {
        self.inner.table(name)
    }

    /// All tables that exist at this moment, by name.
    pub fn tables(&self) -> Result<Vec<Table>> {
        self.inner.tables()
    }

    /// About how many records the table has, at the cost of a look-up: what a checkpoint absorbed is exact (but
    /// for ranges that it dropped unread), and what is still in memory counts every write.
    pub fn approximate_len(&self, table: &Table) -> Result<u64> {
        self.inner.approximate_len(table)
    }

    /// A key that no record of the table is behind: its last, one that was deleted and is not forgotten yet, or one
    /// that somebody has added since. For numbers that go on: a cursor that goes back from the end passes over all
    /// such keys, this looks once into each layer, O(log n).
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.table("t")?;
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

    /// The number of the last commit that it sees. Commits are numbered from 1.
    pub fn commit(&self) -> u64 {
        self.inner.ts().0
    }

    /// A second snapshot of the same moment, for another thread.
    #[track_caller]
    pub fn try_clone(&self) -> Result<Self> {
        self.inner.try_clone().map(Snapshot::new)
    }
}
