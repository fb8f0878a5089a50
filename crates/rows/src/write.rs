//! Writing rows together with their index entries. Each call does all of it or nothing.

use crate::cause::Cause;
use crate::columns::Columns;
use crate::scan::KeyRange;
use crate::table::{DynamicTable, Entry, OpenIndex, atomically};
use crate::value::Value;
use pando::{ErrorKind, Isolation, ReadTables, RecordCursor, Result, Span, WriteTables};
use std::cell::Cell;
use std::ops::Bound;

/// A row as a record. The thread keeps its memory from one row to the next.
#[derive(Default)]
struct Record {
    key: Vec<u8>,
    value: Vec<u8>,
}

/// The length of the longest value whose memory is kept.
const KEPT_VALUE_BYTES: usize = 16 << 10;
/// The number of keys that a delete of rows collects at a time, so that its memory does not depend on the number of
/// rows in the range.
const GATHERED_KEYS: usize = 256;

thread_local! {
    static EMPTIED: Cell<Record> = const { Cell::new(Record { key: Vec::new(), value: Vec::new() }) };
}

impl Record {
    /// Returns an empty record.
    #[inline]
    fn take() -> Self {
        EMPTIED.try_with(Cell::take).unwrap_or_default()
    }

    #[inline]
    fn keep(mut self) {
        self.key.clear();
        self.value.clear();
        if self.value.capacity() <= KEPT_VALUE_BYTES {
            // A thread that is ending keeps nothing.
            let _ = EMPTIED.try_with(|kept| kept.set(self));
        }
    }
}

impl DynamicTable {
    /// Returns whether this library can only read the table, because SQL made it and does more at a write than store
    /// the row and its index entries.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.why_read_only().is_some()
    }

    /// Returns the reason why this library cannot write to a table that SQL made, such as a trigger, or `None` if it
    /// can write.
    #[must_use]
    pub fn why_read_only(&self) -> Option<&str> {
        self.inner.sqlite.as_ref()?.writing().err()
    }

    /// Returns whether a read may return another value than was written, because SQL made the table: in a `NUMERIC`
    /// column, the text `'5'` becomes the integer 5.
    #[must_use]
    pub fn may_convert(&self) -> bool {
        self.inner.sqlite.is_some()
    }

    /// Refuses to change the definition of a table that SQLite made.
    pub(crate) fn check_own(&self) -> Result<()> {
        match self.inner.sqlite {
            None => Ok(()),
            Some(_) => Err(self.not_defined_here()),
        }
    }

    /// Inserts a row whose primary key must not exist.
    ///
    /// # Errors
    /// `Exists` with [`Cause::Duplicate`] if the key, or the values in a unique index, exist; `Invalid` with a
    /// [`Cause`] for wrong types, nulls and keys that are too long, and for tables that only SQL can write. After an
    /// error the transaction is as it was before the call.
    ///
    /// In a table that SQLite made, a row whose rowid is null gets the number that [`DynamicTable::next_row_id`]
    /// returns.
    pub fn insert<W: WriteTables>(&self, tx: &mut W, row: &(impl Columns + ?Sized)) -> Result<()> {
        if let Some(storage) = self.storage_for(tx)? {
            let values = self.checked_values(tx, storage, row, true)?;
            let stored = self.stored_row(storage, &values)?;
            return atomically(tx, |tx| self.insert_stored(tx, &stored, &values));
        }
        self.check_row(row)?;
        let mut record = Record::take();
        self.push_key(&mut record.key, row)?;
        self.push_row(&mut record.value, row);
        let insert = |tx: &mut W| match tx.insert(&self.inner.data, &record.key, &record.value) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Exists => Err(self.duplicate(None, row)),
            Err(error) => Err(self.with_table(error, None)),
        };
        let inserted = if self.inner.indexes.is_empty() {
            insert(tx)
        } else {
            atomically(tx, |tx| {
                insert(tx)?;
                self.enter(tx, row, &record.key)
            })
        };
        record.keep();
        inserted
    }

    /// Puts a row, whether or not its primary key exists. Without indexes it reads nothing and cannot conflict.
    ///
    /// # Errors
    /// As for [`DynamicTable::insert`], except for a row at the same primary key.
    pub fn upsert(&self, tx: &mut impl WriteTables, row: &(impl Columns + ?Sized)) -> Result<()> {
        if let Some(storage) = self.storage_for(tx)? {
            let values = self.checked_values(tx, storage, row, true)?;
            let stored = self.stored_row(storage, &values)?;
            return atomically(tx, |tx| match self.overwrite_stored(tx, storage, &stored, &values)? {
                true => Ok(()),
                false => self.insert_stored(tx, &stored, &values),
            });
        }
        self.check_row(row)?;
        let key = self.key_of(row)?;
        if self.inner.indexes.is_empty() {
            let put = tx.put(&self.inner.data, &key, &self.row_bytes(row));
            return put.map_err(|error| self.with_table(error, None));
        }
        atomically(tx, |tx| match self.overwrite(tx, &key, row)? {
            true => Ok(()),
            false => {
                let put = tx.put(&self.inner.data, &key, &self.row_bytes(row));
                put.map_err(|error| self.with_table(error, None))?;
                self.enter(tx, row, &key)
            }
        })
    }

    /// Replaces the row with the same primary key. Returns whether the row existed; if not, nothing is written.
    ///
    /// # Errors
    /// As for [`DynamicTable::upsert`].
    pub fn update(&self, tx: &mut impl WriteTables, row: &(impl Columns + ?Sized)) -> Result<bool> {
        if let Some(storage) = self.storage_for(tx)? {
            let values = self.checked_values(tx, storage, row, false)?;
            let stored = self.stored_row(storage, &values)?;
            return atomically(tx, |tx| self.overwrite_stored(tx, storage, &stored, &values));
        }
        self.check_row(row)?;
        let key = self.key_of(row)?;
        atomically(tx, |tx| self.overwrite(tx, &key, row))
    }

    /// Replaces the row at `key` with `row`, which can have another primary key. Returns whether the row existed; if
    /// not, nothing is written.
    ///
    /// # Errors
    /// As for [`DynamicTable::insert`].
    pub fn replace(
        &self,
        tx: &mut impl WriteTables,
        key: &[Value<'_>],
        row: &(impl Columns + ?Sized),
    ) -> Result<bool> {
        self.replace_at(tx, &self.key_bytes(key)?, row)
    }

    /// Replaces the row at an encoded key ([`crate::BatchScan::key`]) as [`DynamicTable::replace`] does.
    ///
    /// # Errors
    /// As for [`DynamicTable::insert`].
    pub fn replace_at(
        &self,
        tx: &mut impl WriteTables,
        key: &[u8],
        row: &(impl Columns + ?Sized),
    ) -> Result<bool> {
        if let Some(storage) = self.storage_for(tx)? {
            let values = self.checked_values(tx, storage, row, false)?;
            let stored = self.stored_row(storage, &values)?;
            return atomically(tx, |tx| {
                if key == stored.key {
                    return self.overwrite_stored(tx, storage, &stored, &values);
                }
                let found = self.remove_bytes(tx, key)?.is_some();
                if found {
                    self.insert_stored(tx, &stored, &values)?;
                }
                Ok(found)
            });
        }
        self.check_row(row)?;
        let new = self.key_of(row)?;
        atomically(tx, |tx| {
            if key == new {
                return self.overwrite(tx, &new, row);
            }
            let found = self.remove_bytes(tx, key)?.is_some();
            if found {
                self.insert(tx, row)?;
            }
            Ok(found)
        })
    }

    /// Deletes the row at `key`. Returns whether the row existed.
    pub fn delete(&self, tx: &mut impl WriteTables, key: &[Value<'_>]) -> Result<bool> {
        self.delete_at(tx, &self.key_bytes(key)?)
    }

    /// Deletes the row at an encoded key ([`crate::BatchScan::key`]) as [`DynamicTable::delete`] does.
    pub fn delete_at(&self, tx: &mut impl WriteTables, key: &[u8]) -> Result<bool> {
        self.storage_for(tx)?;
        atomically(tx, |tx| self.remove_bytes(tx, key).map(|removed| removed.is_some()))
    }

    /// Deletes the row at `key` and returns it, or `None` if it did not exist.
    pub fn remove(&self, tx: &mut impl WriteTables, key: &[Value<'_>]) -> Result<Option<crate::DynamicRow>> {
        self.storage_for(tx)?;
        let key = self.key_bytes(key)?;
        let own = |bytes: Vec<u8>| {
            self.decode(&key, &bytes).map(|row| row.into_iter().map(Value::into_owned).collect())
        };
        // A row that cannot be returned is not deleted either.
        atomically(tx, |tx| self.remove_bytes(tx, &key)?.map(own).transpose())
    }

    /// Deletes all rows without reading them.
    pub fn clear(&self, tx: &mut impl WriteTables) -> Result<()> {
        self.storage_for(tx)?;
        atomically(tx, |tx| {
            tx.delete_range(&self.inner.data, ..).map_err(|error| self.with_table(error, None))?;
            self.inner.indexes.iter().try_for_each(|open| tx.delete_range(&open.table, ..))
        })
    }

    /// Deletes the rows of a range of the primary key. Without indexes it does not read the rows, and the cost does not
    /// depend on their number; with indexes it deletes them one by one.
    pub fn delete_range(&self, tx: &mut impl WriteTables, range: &KeyRange<'_>) -> Result<()> {
        self.storage_for(tx)?;
        let span = range.span(self, None)?;
        if self.inner.indexes.is_empty() {
            return tx.delete_range(&self.inner.data, span).map_err(|error| self.with_table(error, None));
        }
        let end = span.end().map_or(Bound::Unbounded, Bound::Excluded);
        atomically(tx, |tx| {
            let mut start = span.start().to_vec();
            loop {
                let keys = self.first_keys(tx, Span::between(Bound::Included(&start), end))?;
                let Some(last) = keys.last() else { return Ok(()) };
                // The next round begins at the next possible key.
                start = [&last[..], &[0]].concat();
                for key in &keys {
                    self.remove_bytes(tx, key)?;
                }
            }
        })
    }

    /// Returns the keys of the first rows of `span`: at most as many as one round collects.
    fn first_keys(&self, tx: &impl ReadTables, span: Span) -> Result<Vec<Vec<u8>>> {
        let mut keys = Vec::new();
        let mut cursor = tx.cursor(&self.inner.data, span).map_err(|error| self.with_table(error, None))?;
        while keys.len() < GATHERED_KEYS && cursor.advance()? {
            keys.extend(cursor.key().map(<[u8]>::to_vec));
        }
        Ok(keys)
    }

    fn remove_bytes(&self, tx: &mut impl WriteTables, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let removed = tx.remove(&self.inner.data, key).map_err(|error| self.with_table(error, None))?;
        if let Some(bytes) = &removed
            && !self.inner.indexes.is_empty()
        {
            if let Some(storage) = &self.inner.sqlite {
                self.leave_all_stored(tx, storage, key, bytes)?;
                return Ok(removed);
            }
            let row = self.decode(key, bytes)?;
            for open in &self.inner.indexes {
                self.leave(tx, open, &self.entry(open, &row, key)?)?;
            }
        }
        Ok(removed)
    }

    /// Sets the row at `key`. If it exists, its entries are replaced.
    fn overwrite(
        &self,
        tx: &mut impl WriteTables,
        key: &[u8],
        row: &(impl Columns + ?Sized),
    ) -> Result<bool> {
        let data = &self.inner.data;
        let Some(old) = tx.get(data, key).map_err(|error| self.with_table(error, None))? else {
            return Ok(false);
        };
        tx.put(data, key, &self.row_bytes(row)).map_err(|error| self.with_table(error, None))?;
        if self.inner.indexes.is_empty() {
            return Ok(true);
        }
        let old = self.decode(key, &old)?;
        for open in &self.inner.indexes {
            let (before, after) = (self.entry(open, &old, key)?, self.entry(open, row, key)?);
            if before != after {
                self.leave(tx, open, &before)?;
                self.enter_one(tx, open, row, &after)?;
            }
        }
        Ok(true)
    }

    /// Puts a row's entries into all indexes.
    fn enter(&self, tx: &mut impl WriteTables, row: &(impl Columns + ?Sized), key: &[u8]) -> Result<()> {
        for open in &self.inner.indexes {
            let entry = self.entry(open, row, key)?;
            self.enter_one(tx, open, row, &entry)?;
        }
        Ok(())
    }

    /// Removes a row's entry. While an index is being built, the entry may be missing, and in a unique one the entry of
    /// another row may be in its place; that one stays. The key is written in any case, so that this transaction
    /// conflicts with a chunk of the build that has read the row and puts the entry.
    fn leave(&self, tx: &mut impl WriteTables, open: &OpenIndex, entry: &Entry) -> Result<()> {
        let (table, key) = (&open.table, &entry.key[..]);
        if !open.index.building {
            return tx.delete(table, key);
        }
        let there = tx.get(table, key)?;
        let is_own = there.as_deref() == Some(&entry.value[..]);
        if !is_own && tx.isolation() == Isolation::Snapshot {
            // A remote store refuses this: there, the deletion of what does not exist conflicts with nothing.
            tx.require_unchanged(table, key..=key)?;
        }
        match there {
            Some(others) if !is_own => tx.put(table, key, others),
            _ => tx.delete(table, key),
        }
    }

    /// Puts an entry. If it is an entry of a unique index without a null, it must not exist.
    fn enter_one(
        &self,
        tx: &mut impl WriteTables,
        open: &OpenIndex,
        row: &(impl Columns + ?Sized),
        entry: &Entry,
    ) -> Result<()> {
        let entered = if entry.value.is_empty() {
            tx.put(&open.table, &entry.key, &entry.value)
        } else {
            tx.insert(&open.table, &entry.key, &entry.value)
        };
        entered.map_err(|error| match error.kind() {
            ErrorKind::Exists if Cause::in_error(&error).is_none() => self.duplicate(Some(open), row),
            _ => self.with_table(error, Some(open)),
        })
    }
}
