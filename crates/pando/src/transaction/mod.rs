//! Reads and writes of one transaction.

mod commit;
mod expiry;
mod tables;
mod values;

#[cfg(feature = "aio")]
pub(crate) use commit::Unflushed;

use crate::cursor::{Cursor, CursorMut, Range, Span};
use crate::database::Shared;
use base::Result;
use std::sync::Arc;
use store::{Savepoint, Table, TransactionOptions, ValueRef};
use txn::Isolation;

/// A read-write transaction. It sees the database as of its beginning, and its own writes. If it is dropped without
/// [`Transaction::commit`], it has no effect. It is `Send`, but not `Sync`.
///
/// Many transactions can run at once, and no transaction waits for another. The commit checks that the transactions
/// could have happened one after another; if not, it fails with `Conflict`. [`crate::Database::write`] then runs the
/// transaction again.
///
/// ```
/// # fn main() -> pando::Result<()> {
/// # let db = pando::Database::builder().in_memory()?;
/// # let table = db.ensure_table("t")?;
/// let mut first = db.begin()?;
/// let mut second = db.begin()?;
/// first.insert(&table, b"k", b"1")?;
/// second.insert(&table, b"k", b"2")?;
/// first.commit()?;
/// assert_eq!(second.commit().unwrap_err().kind(), pando::ErrorKind::Conflict);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a transaction that is dropped is rolled back; call `commit`"]
pub struct Transaction {
    inner: store::Transaction,
    shared: Arc<Shared>,
    /// The number of bytes of keys and values written so far.
    written_bytes: usize,
    /// The number of times that the log was asked for room before the commit: the next step of [`LOG_ASKS`].
    log_asks: usize,
}

/// Steps of (bytes written, bytes of room to ask the log for). A new database's log has segments of 16 KiB, and a
/// commit that finds no segment large enough makes one itself, which takes three syncs. A fast writer reaches the next
/// step before the segment of the first one is ready, and its commit then waits for both, so the steps are long; but a
/// segment of more than 256 KiB takes one sync more. Beyond the last step it is little compared with what the commit
/// writes. Each step may make a file in vain.
const LOG_ASKS: [(usize, u64); 2] = [(8 << 10, 240 << 10), (192 << 10, 1 << 20)];

impl Transaction {
    #[track_caller]
    pub(crate) fn begin(shared: &Arc<Shared>, options: TransactionOptions) -> Result<Self> {
        let inner = store::Transaction::begin(&shared.store, options)?;
        Ok(Transaction { inner, shared: Arc::clone(shared), written_bytes: 0, log_asks: 0 })
    }

    /// Notes that the commit record will have so many more bytes.
    #[inline]
    fn wrote(&mut self, bytes: usize) {
        self.written_bytes += bytes;
        if LOG_ASKS.get(self.log_asks).is_some_and(|&(at, _)| self.written_bytes >= at) {
            self.ask_for_log();
        }
    }

    #[cold]
    fn ask_for_log(&mut self) {
        let reached =
            LOG_ASKS.iter().rposition(|&(at, _)| self.written_bytes >= at).expect("one was reached");
        self.log_asks = reached + 1;
        self.shared.signals.expect_record(LOG_ASKS[reached].1);
    }

    /// Puts many records, of any total size and in any order, and returns their number. Of several records with the
    /// same key, the last one counts. The budget bounds the memory. Records in ascending key order are written once;
    /// others are first sorted outside of memory.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.ensure_table("t")?;
    /// db.write(|tx| {
    ///     let records = (0..100_000u32).map(|n| Ok((n.to_be_bytes(), "value")));
    ///     tx.bulk_load(&table, records)
    /// })?;
    /// assert_eq!(db.get(&table, &7u32.to_be_bytes())?.as_deref(), Some(&b"value"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `records`, unchanged; those of [`Transaction::put`]; `Full` if the data file has no room.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        table: &Table,
        records: impl IntoIterator<Item = Result<(K, V)>>,
    ) -> Result<u64> {
        self.inner.bulk_load(table, records)
    }

    /// Returns a copy of the value of `key`, or `None` if the key does not exist. O(log n).
    pub fn get(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.inner.get(table, key.as_ref())
    }

    /// Returns the value of `key` in place, without a copy; see [`crate::Snapshot::get_ref`]. While the value is
    /// borrowed, the transaction cannot write: copy it with `to_vec` first.
    #[inline]
    pub fn get_ref(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<ValueRef<'_>>> {
        self.inner.get_ref(table, key.as_ref())
    }

    /// Returns a snapshot of the moment at which the transaction began, without its own writes.
    ///
    /// ```
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.ensure_table("t")?;
    /// let mut tx = db.begin()?;
    /// tx.put(&table, "own", "1")?;
    /// assert!(!tx.snapshot()?.contains(&table, "own")?);
    /// # pando::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn snapshot(&self) -> Result<crate::Snapshot> {
        self.inner.snapshot().map(crate::Snapshot::new)
    }

    /// Calls `with` on the value of `key` in place, without a copy, and returns its result, or `None` if the key does
    /// not exist.
    pub fn get_with<T>(
        &self,
        table: &Table,
        key: impl AsRef<[u8]>,
        with: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        self.inner.get_with(table, key.as_ref(), with)
    }

    /// Returns the values of many keys, in the order of `keys`.
    pub fn multi_get<K: AsRef<[u8]>>(&self, table: &Table, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        keys.iter().map(|key| self.get(table, key.as_ref())).collect()
    }

    /// Returns whether `key` exists.
    pub fn contains(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<bool> {
        self.inner.contains(table, key.as_ref())
    }

    /// Sets `key` to `value`, whether or not the key exists. It reads nothing: two transactions that put the same key
    /// do not conflict under serializable isolation, and the value of the later commit remains.
    ///
    /// # Errors
    /// `Invalid` if the key or the value is over its limit ([`crate::limits`]); `Full` if the memory budget is
    /// exhausted.
    pub fn put(&mut self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.inner.put(table, key, value)?;
        self.wrote(key.len() + value.len());
        Ok(())
    }

    /// Sets `key` to `value` if the key does not exist.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.ensure_table("t")?;
    /// let mut tx = db.begin()?;
    /// tx.insert(&table, b"k", b"1")?;
    /// assert_eq!(tx.insert(&table, b"k", b"2").unwrap_err().kind(), pando::ErrorKind::Exists);
    /// tx.commit()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Exists` if the key exists; the transaction can continue.
    pub fn insert(&mut self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.inner.insert(table, key, value)?;
        self.wrote(key.len() + value.len());
        Ok(())
    }

    /// Deletes `key`, whether or not it exists. It reads nothing.
    pub fn delete(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<()> {
        self.inner.delete(table, key.as_ref())
    }

    /// Deletes `key` and returns the value that it had, or `None` if it did not exist.
    pub fn remove(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.inner.remove(table, key.as_ref())
    }

    /// Deletes every key in `span` without reading it: the cost does not depend on the number of keys.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.ensure_table("t")?;
    /// db.write(|tx| {
    ///     for key in ["a", "b", "c"] {
    ///         tx.put(&table, key.as_bytes(), b"")?;
    ///     }
    ///     tx.delete_range(&table, "a".."c")
    /// })?;
    /// assert_eq!(db.snapshot()?.range(&table, ..)?.count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_range(&mut self, table: &Table, span: impl Into<Span>) -> Result<()> {
        self.inner.delete_range(table, &span.into())
    }

    /// Sets `key` to `new` if its value is `expected`, and returns whether it was. `None` as `expected` means that the
    /// key must not exist, and as `new` that it is deleted.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.ensure_table("t")?;
    /// let mut tx = db.begin()?;
    /// assert!(tx.compare_and_swap(&table, b"k", None, Some(b"1"))?);
    /// assert!(!tx.compare_and_swap(&table, b"k", Some(b"2"), None)?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compare_and_swap(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        self.inner.compare_and_swap(table, key.as_ref(), expected, new)
    }

    /// Returns copies of the records of `span` in key order, including this transaction's writes; in descending order
    /// with `.rev()`.
    pub fn range(&self, table: &Table, span: impl Into<Span>) -> Result<Range<'_>> {
        Range::new(|span| self.inner.cursor(table, span), span.into())
    }

    /// Returns the records whose keys begin with `prefix`, in key order.
    pub fn prefix(&self, table: &Table, prefix: impl AsRef<[u8]>) -> Result<Range<'_>> {
        self.range(table, Span::prefix(prefix.as_ref()))
    }

    /// Returns a cursor over `span`, positioned before its first record.
    pub fn cursor(&self, table: &Table, span: impl Into<Span>) -> Result<Cursor<'_>> {
        self.inner.cursor(table, span.into())
    }

    /// Returns a cursor that can also put and delete while it scans.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.ensure_table("t")?;
    /// let mut tx = db.begin()?;
    /// for key in 0..10u8 {
    ///     tx.put(&table, &[key], b"")?;
    /// }
    /// let mut cursor = tx.cursor_mut(&table, ..)?;
    /// while let Some((key, _)) = cursor.next()? {
    ///     if key[0] % 2 == 1 {
    ///         cursor.delete()?;
    ///     }
    /// }
    /// assert_eq!(tx.range(&table, ..)?.count(), 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn cursor_mut(&mut self, table: &Table, span: impl Into<Span>) -> Result<CursorMut<'_>> {
        self.inner.cursor_mut(table, span.into())
    }

    /// Returns a cursor over `span`, own writes included, whose records do not count as read: another commit that
    /// changes them is no conflict. Use it for results that may be out of date, such as an estimate.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// let (hints, orders) = (db.ensure_table("hints")?, db.ensure_table("orders")?);
    /// let mut tx = db.begin()?;
    /// let _hint = tx.cursor_untracked(&hints, ..)?.next()?;
    /// tx.put(&orders, "1", "")?;
    /// db.put(&hints, "busiest day", "Monday")?;
    /// tx.commit()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn cursor_untracked(&self, table: &Table, span: impl Into<Span>) -> Result<Cursor<'_>> {
        self.inner.cursor_untracked(table, span.into())
    }

    /// Returns the last key of a table, own writes included. It does not count as read. Use it to choose the next of
    /// ascending numbers; [`Transaction::insert`] then makes that number count as read. A cursor would conflict with
    /// every other transaction that appends. O(log n), and a step for each deleted key at the end.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let queue = db.ensure_table("queue")?;
    /// let (mut one, mut two) = (db.begin()?, db.begin()?);
    /// assert_eq!(one.last_key_unread(&queue)?, None);
    /// one.insert(&queue, [1], "first")?;
    /// two.insert(&queue, [2], "second")?;
    /// assert_eq!(two.last_key_unread(&queue)?, Some(vec![2]));
    /// one.commit()?;
    /// two.commit()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn last_key_unread(&self, table: &Table) -> Result<Option<Vec<u8>>> {
        self.inner.last_key_unread(table)
    }

    /// Makes the commit fail with a conflict if another transaction has renamed, changed or dropped `table` since this
    /// one began. Every read or write of the table has the same effect. O(1).
    ///
    /// # Errors
    /// `Missing` if the handle is stale.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// let (version, data) = (db.ensure_table("version-1")?, db.ensure_table("data")?);
    /// let mut tx = db.begin()?;
    /// tx.use_table(&version)?;
    /// tx.put(&data, "k", "written by the rules of version 1")?;
    /// db.rename_table("version-1", "version-2")?;
    /// assert_eq!(tx.commit().unwrap_err().kind(), pando::ErrorKind::Conflict);
    /// # Ok(())
    /// # }
    /// ```
    pub fn use_table(&self, table: &Table) -> Result<()> {
        self.inner.use_table(table)
    }

    /// Makes the commit fail with a conflict if another transaction has changed a key of `span` since this one began.
    /// The keys count as read, at snapshot isolation, too. Use it to keep a rule that the written keys alone do not
    /// express, such as that a range has one entry. It takes only memory for the ends of the range.
    ///
    /// # Errors
    /// `Missing` if the handle is stale.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// use pando::{Isolation, TransactionOptions};
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let names = db.ensure_table("names")?;
    /// let options = TransactionOptions { isolation: Isolation::Snapshot, ..Default::default() };
    /// let (mut one, mut two) = (db.begin_with(&options)?, db.begin_with(&options)?);
    /// for (tx, number) in [(&mut one, "1"), (&mut two, "2")] {
    ///     tx.require_unchanged(&names, "ann/".."ann0")?;
    ///     assert_eq!(tx.prefix(&names, "ann/")?.count(), 0);
    ///     tx.put(&names, format!("ann/{number}"), "")?;
    /// }
    /// one.commit()?;
    /// assert_eq!(two.commit().unwrap_err().kind(), pando::ErrorKind::Conflict);
    /// # Ok(())
    /// # }
    /// ```
    pub fn require_unchanged(&self, table: &Table, span: impl Into<Span>) -> Result<()> {
        self.inner.require_unchanged(table, &span.into())
    }

    /// Calls `with` on the first record whose key begins with `prefix`, as
    /// [`Snapshot::first_with_prefix`](crate::Snapshot::first_with_prefix) does, own writes included. All keys from the
    /// prefix to that key count as read, or all with the prefix if none exists.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let by_email = db.ensure_table("by_email")?;
    /// let mut tx = db.begin()?;
    /// tx.put(&by_email, "ann@x.org/17", "")?;
    /// assert_eq!(tx.first_with_prefix(&by_email, "ann@x.org/", |id, _| id.to_vec())?, Some(b"17".to_vec()));
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

    /// Returns the isolation with which the transaction began.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// let db = pando::Database::builder().in_memory()?;
    /// assert_eq!(db.begin()?.isolation(), pando::Isolation::Serializable);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn isolation(&self) -> Isolation {
        self.inner.options().isolation
    }

    /// Returns the number of the last commit that the transaction sees, apart from its own writes. Unlike a
    /// [`Snapshot`](crate::Snapshot::commit_number), a transaction also sees commits that are not flushed yet.
    #[must_use]
    pub fn commit_number(&self) -> u64 {
        self.inner.commit_number()
    }

    /// Marks a point that [`Transaction::rollback_to`] can return to. Savepoints nest.
    pub fn savepoint(&mut self) -> Savepoint {
        self.inner.savepoint()
    }

    /// Undoes every write since `savepoint`. Reads since then remain in the read set and can still cause a conflict.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.ensure_table("t")?;
    /// let mut tx = db.begin()?;
    /// tx.put(&table, b"kept", b"")?;
    /// let savepoint = tx.savepoint();
    /// tx.put(&table, b"undone", b"")?;
    /// tx.rollback_to(&savepoint)?;
    /// assert_eq!(tx.range(&table, ..)?.count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        self.inner.rollback_to(savepoint)
    }

    /// Releases `savepoint` and those made after it, and the memory that a rollback to them would need. The writes
    /// remain.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.ensure_table("t")?;
    /// let mut tx = db.begin()?;
    /// let savepoint = tx.savepoint();
    /// tx.put(&table, b"kept", b"")?;
    /// tx.release(&savepoint)?;
    /// assert_eq!(tx.rollback_to(&savepoint).unwrap_err().kind(), pando::ErrorKind::Invalid);
    /// assert!(tx.contains(&table, b"kept")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` if the savepoint was released before, or the transaction was rolled back to an earlier one.
    pub fn release(&mut self, savepoint: &Savepoint) -> Result<()> {
        self.inner.release(savepoint)
    }

    /// Returns the identity by which [`Database::readers`](crate::Database::readers) lists the transaction, and by
    /// which [`Database::expire_reader`](crate::Database::expire_reader) ends it.
    pub fn reader_id(&self) -> crate::ReaderId {
        self.inner.reader_id()
    }

    /// Commits all changes or none, and returns the number of the commit. When this returns, the commit is as durable
    /// as the transaction's [`Durability`](crate::Durability) states. A transaction that wrote nothing returns the
    /// number of the last commit that it saw.
    ///
    /// # Errors
    /// `Conflict` and `SnapshotTooOld`: nothing was written; run the transaction again. `Full`: nothing was written.
    /// `Indeterminate`: the commit was written, but its sync failed. `Latched`: an earlier failure stopped all writing.
    /// `ReadOnly`: the database is a [replica](crate::Database::set_replica), and the transaction wrote something.
    pub fn commit(self) -> Result<u64> {
        self.shared.pass_gate();
        self.commit_past_gate()
    }

    /// Commits without a wait at the commit gate.
    #[inline(always)] // Otherwise the transaction would be copied for the call.
    pub(crate) fn commit_past_gate(self) -> Result<u64> {
        let (durability, bytes) = self.shared.admit(&self.inner)?;
        let applied = self.inner.apply()?;
        self.shared.finish_commit(applied, durability, bytes)
    }

    /// Returns whether this is a transaction of a database.
    pub(crate) fn is_of(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// Rolls the transaction back, as dropping it does.
    pub fn abort(self) {}
}
