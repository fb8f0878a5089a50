//! Reads and writes of one transaction on a remote store. Writes stay here until the commit sends them all.

use crate::cursor::Span;
use crate::remote::cursor::RemoteCursor;
use crate::remote::in_doubt::InDoubt;
use crate::remote::memory::{Reserved, WriteMemory};
use crate::remote::reads::{Oldest, Reads};
use crate::remote::seam::{Commit, Failure, Limits, Mode, Put, Store};
use crate::remote::shared_reads::shared_reads;
use base::{DatabaseId, Error, ErrorKind, Result, TableId, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::write_set::{Prior, WriteSet};
use store::{Savepoint, Table};
use txn::Isolation;

/// The number of the next transaction.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// A read-write transaction on a remote store. It sees the store as of its first read, and its own writes. If it is
/// dropped without [`RemoteTransaction::commit`], it has no effect. It is `Send`, but not `Sync`.
///
/// Each read takes a round trip, and the first one takes a connection, which the transaction holds until its end. A
/// write takes no round trip: the commit sends all writes at once. If the transaction only writes to a table, the
/// commit checks the table's handle, and reports a stale one.
///
/// ```no_run
/// # fn transfer(db: &pando::remote::RemoteDatabase) -> pando::Result<()> {
/// let accounts = db.ensure_table("accounts")?;
/// let mut tx = db.begin();
/// let balance = tx.get(&accounts, "ann")?.map_or(0, |value| value[0]);
/// tx.put(&accounts, "ann", [balance + 1])?;
/// tx.commit()
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a transaction that is dropped is rolled back; call `commit`"]
pub struct RemoteTransaction {
    pub(super) reads: Reads,
    pub(super) writes: WriteSet,
    /// The tables that were written before their rows were looked up.
    unchecked: Vec<Table>,
    /// The tables with a TTL that were written.
    dated: Vec<TableId>,
    /// The handles that were made here, and when.
    pub(super) made: Vec<(u64, Table)>,
    limits: Limits,
    reserved: Reserved,
    isolation: Isolation,
    number: u64,
}

impl RemoteTransaction {
    pub(super) fn begin(
        store: &Arc<dyn Store>,
        isolation: Isolation,
        memory: Option<Arc<WriteMemory>>,
    ) -> Self {
        let mode = match isolation {
            Isolation::Serializable => Mode::Write,
            Isolation::Snapshot => Mode::WriteOverSnapshot,
        };
        RemoteTransaction {
            reads: Reads::new(store, mode),
            writes: WriteSet::new(),
            unchecked: Vec::new(),
            dated: Vec::new(),
            made: Vec::new(),
            limits: store.limits(),
            reserved: Reserved::new(memory),
            isolation,
            number: NEXT_NUMBER.fetch_add(1, Ordering::SeqCst),
        }
    }

    /// Returns how the values of a table are read: by the row that the transaction wrote, or that the store has.
    pub(super) fn admit(&self, table: &Table) -> Result<Oldest> {
        if let Some(oldest) = self.reads.known(table)? {
            return Ok(oldest);
        }
        match self.own_row(table.name()) {
            Some(row) => {
                let row = table.check_elsewhere(self.reads.database, row)?;
                self.reads.know(table, row)
            }
            None => self.reads.admit(table),
        }
    }

    /// Returns the catalog row of this name that the transaction wrote; `Some(None)` if it deleted it.
    #[allow(clippy::option_option)] // Nothing written, deleted, and written are three things.
    pub(super) fn own_row(&self, name: &str) -> Option<Option<&[u8]>> {
        self.writes.get(TableId::CATALOG, name.as_bytes()).map(|own| match own {
            Value::Inline(row) => Some(row),
            Value::Large(..) | Value::Deleted => None,
        })
    }

    /// Admits a table to be written without being read.
    fn admit_blind(&mut self, table: &Table) -> Result<()> {
        let row = table.own_row(self.reads.database)?;
        if self.reads.known(table)?.is_none() {
            match self.own_row(table.name()) {
                Some(own) => drop(table.check_elsewhere(self.reads.database, own)?),
                None if self.unchecked.iter().any(|known| is_same(known, table)) => {}
                None => self.unchecked.push(table.clone()),
            }
        }
        if row.ttl.is_some() && !self.dated.contains(&row.id) {
            self.dated.push(row.id);
        }
        Ok(())
    }

    fn check_key(&self, key: &[u8]) -> Result<()> {
        let most = self.limits.max_key_bytes;
        if key.len() > most {
            let (length, store) = (key.len(), self.reads.store.name());
            let message =
                format!("a key of {length} bytes is too long: on {store} the limit is {most} bytes");
            return Err(Error::invalid(message));
        }
        Ok(())
    }

    /// Rejects a record that is over a limit, and reserves memory for it.
    fn admit_record(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_record(key, value)?;
        self.reserved.grow_to(self.writes.bytes() + key.len() + value.len())
    }

    fn check_record(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_key(key)?;
        let (most, length, store) = (self.limits.max_value_bytes, value.len(), self.reads.store.name());
        if length > most {
            let message =
                format!("a value of {length} bytes is too long: on {store} the limit is {most} bytes");
            return Err(Error::invalid(message));
        }
        self.check_size(key.len() + length)
    }

    /// Rejects `bytes` more if the writes would exceed the limit of a transaction.
    fn check_size(&self, bytes: usize) -> Result<()> {
        let (most, store) = (self.limits.max_transaction_bytes, self.reads.store.name());
        if self.writes.bytes() + bytes > most {
            let message = format!(
                "the writes of a transaction exceed {most} bytes, the limit on {store}; write less in each"
            );
            return Err(Error::new(ErrorKind::Full, message));
        }
        Ok(())
    }

    shared_reads!();

    /// Returns the values of `keys`, in their order, in at most one round trip. If the values reach `most_bytes`, the
    /// list ends with the value that reaches it, and can be shorter than `keys`; it has at least one value.
    pub fn multi_get_within<K: AsRef<[u8]>>(
        &self,
        table: &Table,
        keys: &[K],
        most_bytes: usize,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let own = |key: &K| self.writes.get(table.id(), key.as_ref());
        let asked: Vec<&[u8]> = keys.iter().filter(|key| own(key).is_none()).map(AsRef::as_ref).collect();
        let may_ask = self.reads.known(table)?.is_none() && self.own_row(table.name()).is_none();
        if !may_ask || asked.is_empty() {
            self.admit(table)?;
        }
        let found = match asked.is_empty() {
            true => Vec::new(),
            false => self.reads.get_many(table, &asked, most_bytes)?,
        };
        let (mut found, mut values, mut bytes) = (found.into_iter(), Vec::with_capacity(keys.len()), 0);
        for key in keys {
            let value = match own(key) {
                Some(Value::Inline(value)) => Some(value.to_vec()),
                Some(Value::Large(..) | Value::Deleted) => None,
                None => match found.next() {
                    Some(found) => found,
                    None => break,
                },
            };
            bytes += value.as_ref().map_or(0, Vec::len);
            values.push(value);
            if bytes >= most_bytes {
                break;
            }
        }
        Ok(values)
    }

    /// Returns a cursor over `span`, positioned before its first record.
    pub fn cursor(&self, table: &Table, span: impl Into<Span>) -> Result<RemoteCursor<'_>> {
        let oldest = self.admit(table)?;
        Ok(RemoteCursor::new(&self.reads, Some(&self.writes), table.id(), oldest, span.into()))
    }

    /// Sets `key` to `value`. It takes no round trip.
    ///
    /// # Errors
    /// `Invalid` if the key or the value is over the store's [`Limits`]; `Full` if the transaction is over its limit
    /// there, or if open transactions use up the [`WriteMemory`] of the database.
    pub fn put(&mut self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.admit_record(key, value)?;
        self.admit_blind(table)?;
        self.writes.put(table.id(), key, value, Prior::Unread);
        Ok(())
    }

    /// Sets `key` to `value` if the key does not exist.
    ///
    /// # Errors
    /// `Exists` if the key exists; the transaction can continue. Otherwise as for [`RemoteTransaction::put`].
    pub fn insert(&mut self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.check_record(key, value)?;
        if self.get(table, key)?.is_some() {
            let message = format!("the key exists already in table {:?}", table.name());
            return Err(Error::new(ErrorKind::Exists, message));
        }
        self.put(table, key, value)
    }

    /// Deletes `key`, whether or not it exists. It takes no round trip.
    ///
    /// # Errors
    /// As for [`RemoteTransaction::put`].
    pub fn delete(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.admit_record(key, &[])?;
        self.admit_blind(table)?;
        self.writes.delete(table.id(), key, Prior::Unread);
        Ok(())
    }

    /// Deletes `key` and returns the value that it had, or `None` if it did not exist.
    pub fn remove(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        let old = self.get(table, key)?;
        if old.is_some() {
            self.delete(table, key)?;
        }
        Ok(old)
    }

    /// Makes the commit fail if another transaction has renamed or dropped the table since this one began. It takes a
    /// round trip.
    ///
    /// # Errors
    /// `Missing` if the handle is stale.
    pub fn use_table(&self, table: &Table) -> Result<()> {
        self.get_with(table, b"", |_| ()).map(drop)
    }

    /// Makes the commit fail with a conflict if another transaction has changed a key of `span` since this one began.
    /// The call reads the range, so it takes a round trip.
    ///
    /// # Errors
    /// `Invalid` at snapshot isolation, where a remote store checks only what is written.
    pub fn require_unchanged(&self, table: &Table, span: impl Into<Span>) -> Result<()> {
        if self.isolation != Isolation::Serializable {
            let message =
                "at snapshot isolation a remote store checks no ranges; use a serializable transaction";
            return Err(Error::invalid(message));
        }
        let mut cursor = self.cursor(table, span)?;
        while cursor.advance()? {}
        Ok(())
    }

    /// Deletes every key in `span` without reading it. It takes no round trip. The store deletes the records one by
    /// one.
    ///
    /// # Errors
    /// As for [`RemoteTransaction::put`].
    pub fn delete_range(&mut self, table: &Table, span: impl Into<Span>) -> Result<()> {
        let span = span.into();
        // The first bound after the longest key is one byte longer.
        let most = self.limits.max_key_bytes + 1;
        if span.start().len() > most || span.end().is_some_and(|end| end.len() > most) {
            return Err(Error::invalid(format!("a bound of a range is too long: the limit is {most} bytes")));
        }
        let bytes = span.start().len() + span.end().map_or(0, <[u8]>::len);
        self.check_size(bytes)?;
        self.reserved.grow_to(self.writes.bytes() + bytes)?;
        self.admit_blind(table)?;
        self.writes.delete_range(table.id(), span.start(), span.end());
        Ok(())
    }

    /// Sets `key` to `new` if its value is `expected`, and returns whether it was. `None` as `expected` means that the
    /// key must not exist, and as `new` that it is deleted.
    pub fn compare_and_swap(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let key = key.as_ref();
        if self.get(table, key)?.as_deref() != expected {
            return Ok(false);
        }
        match new {
            Some(value) => self.put(table, key, value)?,
            None => self.delete(table, key)?,
        }
        Ok(true)
    }

    /// Returns the isolation of the transaction.
    #[must_use]
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Returns a number that no other transaction of this process has.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Marks a point that [`RemoteTransaction::rollback_to`] can return to. Savepoints nest, and take no round trip.
    pub fn savepoint(&mut self) -> Savepoint {
        self.writes.savepoint()
    }

    /// Undoes every write since `savepoint`. Reads since then can still cause a conflict.
    ///
    /// # Errors
    /// `Invalid` if the savepoint was released before, or the transaction was rolled back to an earlier one.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        self.writes.rollback_to(*savepoint)?;
        self.undo_made(|moment| savepoint.is_before(moment));
        self.reads.forget_all();
        Ok(())
    }

    /// Releases `savepoint` and those made after it. The writes remain.
    ///
    /// # Errors
    /// As for [`RemoteTransaction::rollback_to`].
    pub fn release(&mut self, savepoint: &Savepoint) -> Result<()> {
        self.writes.release(*savepoint)
    }

    /// Marks the handles whose making was rolled back.
    fn undo_made(&mut self, is_undone: impl Fn(u64) -> bool) {
        self.made.retain(|(moment, table)| {
            let undone = is_undone(*moment);
            if undone {
                table.undo_elsewhere();
            }
            !undone
        });
    }

    /// Commits all changes or none. When this returns, the commit is as durable as the store makes it. Commit a
    /// transaction that only read, too: only then is it certain that its reads fit a serial order.
    ///
    /// # Errors
    /// `Conflict`: nothing was written; run the transaction again. `Missing`: nothing was written, because a table no
    /// longer exists under the name of its handle. `Io` and `Full`: nothing was written. `Indeterminate`: the
    /// connection was lost, and the store could not be asked whether it committed; [`InDoubt`] is the cause.
    pub fn commit(self) -> Result<()> {
        let database = self.reads.database;
        self.try_commit().map_err(|failure| failed(failure, database))
    }

    pub(super) fn try_commit(mut self) -> std::result::Result<(), Failure> {
        self.writes.sort_all();
        // A rollback may have left nothing to check.
        self.unchecked.retain(|table| self.writes.tables().any(|written| written == table.id()));
        let rows: Vec<_> = self.unchecked.iter().map(|table| table.handle_row().encode()).collect();
        let checks = self
            .unchecked
            .iter()
            .zip(&rows)
            .map(|(table, row)| (TableId::CATALOG, table.name().as_bytes(), &row[..]));
        let mut commit = Commit { checks: checks.collect(), ..Commit::default() };
        commit.checks.sort_unstable();
        for table in self.writes.tables() {
            commit.ranges.extend(self.writes.ranges(table).map(|(start, end)| (table, start, end)));
            let is_dated = self.dated.contains(&table);
            for (key, own) in self.writes.records(table) {
                match own {
                    Value::Inline(value) => commit.puts.push(Put { table, key, value, is_dated }),
                    Value::Large(..) | Value::Deleted => commit.deletes.push((table, key)),
                }
            }
        }
        let done = self.reads.session().commit(&commit);
        if done.is_ok() {
            self.made.clear();
        }
        done
    }

    /// Rolls the transaction back, as dropping it does.
    pub fn abort(self) {}
}

impl Drop for RemoteTransaction {
    fn drop(&mut self) {
        self.undo_made(|_| true);
    }
}

fn is_same(one: &Table, other: &Table) -> bool {
    one.id() == other.id() && one.name() == other.name()
}

/// Returns the error of a failed commit; see [`RemoteTransaction::commit`].
pub(super) fn failed(failure: Failure, database: DatabaseId) -> Error {
    match failure {
        Failure::Unmet => Error::new(
            ErrorKind::Missing,
            "a table that the transaction wrote to was dropped, renamed or changed after its handle was \
             opened; nothing was written: open the table again",
        ),
        Failure::NotCommitted(error) => error.within(
            "the connection was lost during a commit, and nothing was written: run the transaction again",
        ),
        Failure::Unknown(token, reason) => InDoubt { database: database.0, token }.because_of(reason),
        Failure::Refused(error) => error,
    }
}
