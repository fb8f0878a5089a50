//! The reads of a transaction: its own writes first, then its spilled runs, then its snapshot. Reads of the snapshot
//! are recorded, for validation at commit.

use super::Transaction;
use crate::read::beginning::Beginning;
use crate::read::first::{Above, First, first_of};
use crate::read::handle::{Admitted, Table, not_by_key};
use crate::read::located::Located;
use crate::read::resident::Resident;
use crate::read::scan::Cursor;
use crate::read::value_reader::ValueReader;
use crate::read::value_ref::ValueRef;
use crate::state::ttl::Expiry;
use crate::uncommitted::large::Unpublished;
use base::{Result, Span, TableId, keys};
use page::Value;
use run::{Delta, FirstWithPrefix, PinnedRecord};
use std::ops::Bound;
use std::sync::Arc;

/// The contents of a key in a transaction's own writes.
pub(super) enum OwnEntry<'t> {
    Written(Value<'t>),
    /// A spilled record; `None`: it is deleted.
    Spilled(Option<PinnedRecord>),
}

impl OwnEntry<'_> {
    #[inline]
    fn value(&self) -> Value<'_> {
        match self {
            OwnEntry::Written(own) => *own,
            OwnEntry::Spilled(Some(record)) => record.value(),
            OwnEntry::Spilled(None) => Value::Deleted,
        }
    }

    #[inline]
    pub fn is_present(&self) -> bool {
        !matches!(self, OwnEntry::Written(Value::Deleted) | OwnEntry::Spilled(None))
    }
}

impl Transaction {
    /// Returns what this transaction itself wrote to `key`, if anything.
    #[inline]
    pub(super) fn find_own(&self, table: TableId, key: &[u8]) -> Result<Option<OwnEntry<'_>>> {
        match (self.writes().get(table, key), &self.spills) {
            (Some(own), _) => Ok(Some(OwnEntry::Written(own))),
            (None, None) => Ok(None),
            (None, Some(spills)) => {
                let found = spills.find(self.store(), self.snapshot.reader(), table, key)?;
                Ok(found.map(OwnEntry::Spilled))
            }
        }
    }

    /// Returns what this transaction itself wrote to `key`. If that is nothing, records a read of `key`, because the
    /// caller reads the snapshot next.
    #[inline]
    fn resolve(&self, table: TableId, key: &[u8]) -> Result<Option<OwnEntry<'_>>> {
        let own = self.find_own(table, key)?;
        if own.is_none() {
            self.note_read(table, key);
        }
        Ok(own)
    }

    /// Returns a copy of the value of `key`, including own writes.
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let Admitted { id, reading, .. } = self.admitted(table)?;
        let Some(own) = self.resolve(id, key)? else { return self.snapshot.get_in(id, reading, key) };
        match own.value() {
            Value::Inline(stored) => reading.copy(stored),
            Value::Large(large) => self.snapshot.large_copy(reading, large.reference()),
            Value::Deleted => Ok(None),
        }
    }

    /// Returns a copy of the value of `key`, including own writes, if memory alone is sufficient: see
    /// [`crate::Snapshot::get_resident`]. A read that was not recorded because it would wait is recorded by the call
    /// that follows; one that was recorded twice is validated twice.
    pub fn get_resident(&self, table: &Table, key: &[u8]) -> Result<Resident<Vec<u8>>> {
        // The row of a table that this transaction has not used may have to be looked up, and spilled writes are on
        // the disk.
        if self.spills.is_some() || !(self.has_admitted(table) || table.is_known_to(&self.snapshot)) {
            return Ok(Resident::WouldWait);
        }
        let Admitted { id, reading, .. } = self.admitted(table)?;
        match self.writes().get(id, key) {
            Some(Value::Inline(stored)) => {
                Ok(reading.copy(stored)?.map_or(Resident::Absent, Resident::Found))
            }
            Some(Value::Large(..)) => Ok(Resident::WouldWait),
            Some(Value::Deleted) => Ok(Resident::Absent),
            None => {
                self.note_read(id, key);
                self.snapshot.get_resident_in(id, reading, key)
            }
        }
    }

    /// Returns the value of `key` in place, including own writes: see [`ValueRef`].
    pub fn get_ref(&self, table: &Table, key: &[u8]) -> Result<Option<ValueRef<'_>>> {
        let admitted = self.admitted(table)?;
        let Admitted { id, reading, .. } = admitted;
        let Some(own) = self.resolve(id, key)? else { return self.value_in_snapshot(admitted, key) };
        if let Value::Large(large) = own.value() {
            return Ok(self.snapshot.large_copy(reading, large.reference())?.map(ValueRef::owned));
        }
        match own {
            OwnEntry::Written(Value::Inline(stored)) => Ok(reading.value(stored)?.map(ValueRef::lent)),
            OwnEntry::Spilled(Some(record)) => ValueRef::pinned(&self.snapshot, reading, record),
            _ => Ok(None),
        }
    }

    /// Calls `with` on the value of `key` in place.
    #[inline]
    pub fn get_with<T>(&self, table: &Table, key: &[u8], with: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        Ok(self.get_ref(table, key)?.map(|value| with(&value)))
    }

    /// Calls `with` on the beginning of the value of `key`, including own writes. A value of at most `whole_bytes` is
    /// read as a whole.
    pub fn get_beginning<T>(
        &self,
        table: &Table,
        key: &[u8],
        whole_bytes: usize,
        with: impl FnOnce(Beginning<'_>) -> T,
    ) -> Result<Option<T>> {
        let admitted = self.admitted(table)?;
        let Admitted { id, reading, .. } = admitted;
        let own = match self.resolve(id, key)? {
            None => return self.beginning_in_snapshot(admitted, key, whole_bytes, with),
            Some(own) => own,
        };
        match (Beginning::of(own.value(), reading)?, own.value()) {
            (Some(beginning), Value::Large(large)) if beginning.len_bytes <= whole_bytes as u64 => Ok(self
                .snapshot
                .large_copy(reading, large.reference())?
                .map(|whole| with(Beginning::whole(&whole)))),
            (beginning, _) => Ok(beginning.map(with)),
        }
    }

    /// Returns whether `key` exists.
    pub fn contains(&self, table: &Table, key: &[u8]) -> Result<bool> {
        let admitted = self.admitted(table)?;
        match self.resolve(admitted.id, key)? {
            // Its own writes have not expired: their dates are not before the snapshot's time.
            Some(own) => Ok(own.is_present()),
            None => self.is_in_snapshot(admitted, key),
        }
    }

    /// Returns the place of the value of `key`, and its guard if it is this transaction's own.
    fn locate(&self, table: &Table, key: &[u8]) -> Result<Option<(Located, Option<Arc<Unpublished>>)>> {
        let Admitted { id, reading, .. } = self.admitted(table)?;
        let Some(own) = self.resolve(id, key)? else {
            return Ok(self.snapshot.locate_in(id, reading, key)?.map(|located| (located, None)));
        };
        let located = match own.value() {
            // It is not longer than a value that the log would hold; a reference could outlive the run.
            Value::Large(large) if matches!(own, OwnEntry::Spilled(_)) => {
                self.snapshot.large_copy(reading, large.reference())?.map(Located::Bytes)
            }
            value => Located::of_value(value, reading)?,
        };
        let guard = || self.writes().large(id, key).cloned();
        Ok(located.map(|located| {
            let guard = if matches!(located, Located::Large(..)) { guard() } else { None };
            (located, guard)
        }))
    }

    /// Returns a reader of the value of `key`, including own writes. It may outlive the transaction.
    pub fn value_reader(&self, table: &Table, key: &[u8]) -> Result<Option<ValueReader>> {
        let located = self.locate(table, key)?;
        located.map(|(located, own)| ValueReader::new(located, &self.snapshot, own)).transpose()
    }

    /// Returns the length of the value of `key` in bytes, including own writes.
    pub fn value_len(&self, table: &Table, key: &[u8]) -> Result<Option<u64>> {
        let Admitted { id, reading, .. } = self.admitted(table)?;
        match self.resolve(id, key)? {
            Some(own) => reading.len_bytes(own.value()),
            None => self.snapshot.len_in(id, reading, key),
        }
    }

    /// Returns when the entry of `key` expires, including own writes; `None` if it does not exist.
    ///
    /// # Errors
    /// [`Invalid`](base::ErrorKind::Invalid) if the table has no TTL by key.
    pub fn expiry(&self, table: &Table, key: &[u8]) -> Result<Option<Expiry>> {
        let Admitted { id, reading, .. } = self.admitted(table)?;
        if !reading.is_by_key() {
            return Err(not_by_key(table));
        }
        let date = match self.resolve(id, key)? {
            Some(own) => reading.date(own.value())?,
            None => self.snapshot.date_in(id, reading, key)?,
        };
        Ok(date.map(|date| self.snapshot.expiry_at(date)))
    }

    /// Returns a cursor over the keys in `span`, including own writes. The keys that it passes become part of the read
    /// set.
    pub fn cursor(&self, table: &Table, span: Span) -> Result<Cursor<'_>> {
        let admitted = self.admitted(table)?;
        let reads = self.is_serializable().then_some(&self.scratch().reads);
        let spills = self.spills.as_deref();
        Cursor::over_transaction(&self.snapshot, self.writes(), spills, reads, admitted, span)
    }

    /// Calls `with` on the first record whose key begins with `prefix`, including own writes: on the rest of the key,
    /// and the value. The keys from the prefix to that key become part of the read set; all that begin with the prefix,
    /// if there is none.
    pub fn first_with_prefix<T>(
        &self,
        table: &Table,
        prefix: &[u8],
        with: impl FnOnce(&[u8], &[u8]) -> T,
    ) -> Result<Option<T>> {
        let Admitted { id, reading, .. } = self.admitted(table)?;
        let with = match self.own_with_prefix(id, prefix)? {
            None => with,
            Some(own) => {
                let note = |rest: Option<&[u8]>| self.note_first(id, prefix, rest);
                match self.snapshot.first_in_one_place(id, reading, prefix, own, note, with)? {
                    First::Known(found) => return Ok(found),
                    First::Unclear(with) => with,
                }
            }
        };
        first_of(self.cursor(table, Span::prefix(prefix))?, prefix, with)
    }

    /// Returns what this transaction itself has in memory under keys that begin with `prefix`, or `None` if it has
    /// spilled some.
    fn own_with_prefix(&self, table: TableId, prefix: &[u8]) -> Result<Option<Above<'_>>> {
        self.writes().sort(table);
        let mut own = Above::default();
        if let Some(mut cursor) = self.writes().cursor(table) {
            cursor.seek(prefix);
            let entry = cursor.entry().filter(|(key, _)| key.starts_with(prefix));
            own.entry = entry.map(|(key, value)| (&key[prefix.len()..], value));
            own.has_ranges = cursor.has_ranges();
        }
        let Some(spills) = &self.spills else { return Ok(Some(own)) };
        let (pool, mut guard) = (&self.store().pool, self.snapshot.reader().enter());
        for Delta { records, ranges, .. } in
            spills.deltas_from(table, prefix).iter().map(|spilled| &spilled.delta)
        {
            if records.first_with_prefix(pool, &mut guard, prefix)? != FirstWithPrefix::None {
                return Ok(None);
            }
            own.has_ranges |= !ranges.is_empty();
        }
        Ok(Some(own))
    }

    /// Makes the keys from `prefix` to the one that ends with `rest` a part of the read set; all that begin with it
    /// without one.
    fn note_first(&self, table: TableId, prefix: &[u8], rest: Option<&[u8]>) {
        if !self.is_serializable() {
            return;
        }
        let end = match rest {
            Some(rest) => Some([prefix, rest].concat()),
            None => keys::prefix_end(prefix),
        };
        let high = match (&end, rest) {
            (Some(end), Some(_)) => Bound::Included(&end[..]),
            (Some(end), None) => Bound::Excluded(&end[..]),
            (None, _) => Bound::Unbounded,
        };
        let reads = &self.scratch().reads;
        reads.close(reads.range(self.store(), table, prefix, high));
    }

    /// Returns a cursor over the keys in `span`, including own writes, that makes nothing a part of the read set.
    pub fn cursor_untracked(&self, table: &Table, span: Span) -> Result<Cursor<'_>> {
        let of = self.admitted(table)?;
        Cursor::over_transaction(&self.snapshot, self.writes(), self.spills.as_deref(), None, of, span)
    }

    /// Returns the last key, including own writes, which does not become part of the read set.
    pub fn last_key_unread(&self, table: &Table) -> Result<Option<Vec<u8>>> {
        let mut cursor = self.cursor_untracked(table, Span::all())?;
        Ok(cursor.prev()?.map(|(key, _)| key.to_vec()))
    }

    /// Makes the commit conflict with others that rename, change or drop the table after the beginning.
    pub fn use_table(&self, table: &Table) -> Result<()> {
        self.admit(table).map(drop)
    }

    /// Makes each change of `span` that others commit after the beginning a conflict, at snapshot isolation, too. In a
    /// serializable transaction the range counts as read.
    pub fn require_unchanged(&self, table: &Table, span: &Span) -> Result<()> {
        let id = self.admit(table)?;
        let end = span.end().map_or(Bound::Unbounded, Bound::Excluded);
        let reads = &self.scratch().reads;
        let token = reads.range(self.store(), id, span.start(), end);
        reads.close(token);
        reads.require();
        Ok(())
    }

    /// Returns the number of the last commit that the snapshot sees.
    pub fn commit_number(&self) -> u64 {
        self.snapshot.ts().0
    }

    pub(crate) fn note_read(&self, table: TableId, key: &[u8]) {
        if self.is_serializable() {
            self.scratch().reads.key(self.store(), table, key);
        }
    }

    /// Begins another range of the cursor that writes.
    pub(crate) fn begin_range(&mut self, table: &Table, low: &[u8], high: Bound<&[u8]>) {
        self.end_range();
        if self.is_serializable() {
            self.range = Some(self.scratch().reads.range(self.store(), table.id(), low, high));
        }
    }

    /// Extends the range forward to `high`.
    pub(crate) fn extend_range_high(&self, high: Bound<&[u8]>) {
        if let Some(token) = self.range {
            self.scratch().reads.extend_high(self.store(), token, high);
        }
    }

    /// Extends the range back to `low`.
    pub(crate) fn extend_range_low(&self, low: &[u8]) {
        if let Some(token) = self.range {
            self.scratch().reads.extend_low(self.store(), token, low);
        }
    }

    /// Ends the range: the cursor reads no more of it.
    pub(crate) fn end_range(&mut self) {
        self.range.take().into_iter().for_each(|token| self.scratch().reads.close(token));
    }
}
