//! The writes of a transaction. No other transaction sees them before the commit; a large value is written to the data
//! file at once, where nothing refers to it yet.

use super::Transaction;
use crate::read::handle::{Admitted, Table, not_by_key};
use crate::state::ttl::{DATE_BYTES, NEVER_MS, Reading, Ttl};
use crate::uncommitted::large::{Stream, Streamed};
use crate::uncommitted::write_set::Prior;
use crate::write::scan_mut::CursorMut;
use crate::write::value_writer::{OwnedValueWriter, ValueWriter};
use base::{Error, ErrorKind, Result, Span, TableId, limits};
use std::time::Duration;

impl Transaction {
    /// Sets `key` to `value`, whether or not the key exists.
    pub fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        let admitted = self.admitted(table)?;
        self.put_in(admitted, key, value)
    }

    #[inline]
    pub(crate) fn put_in(&mut self, of: Admitted, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_record(key, value)?;
        self.make_room_for(of, key, value)?;
        let prior = self.take_read(of.id, key);
        if prior == Prior::Read {
            self.note_put(of, key);
        }
        let written = self.write(of, key, value, prior);
        if written.is_err() {
            self.note_prior(of.id, key, prior);
        }
        written
    }

    /// Sets `key` to `value` if the key does not exist.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if the key exists; the transaction can continue.
    pub fn insert(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        let admitted = self.admitted(table)?;
        let id = admitted.id;
        self.check_record(key, value)?;
        self.make_room_for(admitted, key, value)?;
        // That the key was read is recorded with its write; a duplicate writes nothing, so its read is recorded here.
        let own = self.find_own(id, key)?.map(|own| own.is_present());
        let (present, prior) = match own {
            Some(present) => (present, Prior::Unread),
            None => (self.is_in_snapshot(admitted, key)?, Prior::Read),
        };
        if present {
            if prior == Prior::Read {
                self.note_read(id, key);
            }
            return Err(exists(table, key));
        }
        if prior == Prior::Read {
            self.note_put(admitted, key);
        }
        let written = self.write(admitted, key, value, prior);
        if written.is_err() {
            self.note_prior(id, key, prior);
        }
        written
    }

    /// Takes the read of `key` out of the read set for a write of the key, which is then validated as its read, if it
    /// was the last read of the table that was recorded.
    #[inline]
    fn take_read(&mut self, table: TableId, key: &[u8]) -> Prior {
        let reads = &mut self.scratch.as_mut().expect("taken by drop alone").reads;
        if reads.take_last(table, key) { Prior::Read } else { Prior::Unread }
    }

    /// Records the read of `key` again after its write has failed: the caller may draw conclusions from it.
    #[cold]
    fn note_prior(&self, table: TableId, key: &[u8], prior: Prior) {
        if prior == Prior::Read {
            self.note_read(table, key);
        }
    }

    /// Deletes `key`, whether or not it exists. It reads nothing and so causes no conflicts.
    pub fn delete(&mut self, table: &Table, key: &[u8]) -> Result<()> {
        let id = self.admit(table)?;
        self.check_key(key)?;
        self.make_room(key.len())?;
        let prior = self.take_read(id, key);
        self.writes_mut().delete(id, key, prior);
        Ok(())
    }

    /// Deletes `key` and returns its value.
    pub fn remove(&mut self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let old = self.get(table, key)?;
        if old.is_some() {
            self.make_room(key.len())?;
            let prior = self.take_read(table.id(), key);
            self.writes_mut().delete(table.id(), key, prior);
        }
        Ok(old)
    }

    /// Deletes every key in `span` without reading it: the cost does not depend on the number of keys.
    pub fn delete_range(&mut self, table: &Table, span: &Span) -> Result<()> {
        let id = self.admit(table)?;
        let (start, end) = (span.start(), span.end());
        // The first bound after the longest key is one byte longer.
        let longest = limits::max_key_bytes(self.store().page_bytes) + 1;
        if start.len() > longest || end.is_some_and(|end| end.len() > longest) {
            return Err(Error::invalid(format!(
                "a bound of a range is too long: it can have at most {longest} bytes"
            )));
        }
        if end.is_none_or(|end| start < end) {
            self.make_room(start.len() + end.map_or(0, <[u8]>::len))?;
            self.writes_mut().delete_range(id, start, end);
        }
        Ok(())
    }

    /// Sets `key` to `new` (`None`: deletes it) if its value is `expected` (`None`: absent). Returns whether it did.
    pub fn compare_and_swap(
        &mut self,
        table: &Table,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let same = self.get_with(table, key, |value| expected == Some(value))?.unwrap_or(expected.is_none());
        if same {
            match new {
                Some(value) => self.put(table, key, value)?,
                None => self.delete(table, key)?,
            }
        }
        Ok(same)
    }

    /// Begins to put a value under `key` a piece at a time.
    pub fn value_writer(&mut self, table: &Table, key: &[u8]) -> Result<ValueWriter<'_>> {
        let value = self.owned_value_writer(table, key)?;
        Ok(ValueWriter::new(self, value))
    }

    /// Begins to write a value for `key` a piece at a time, without a borrow of the transaction.
    pub fn owned_value_writer(&self, table: &Table, key: &[u8]) -> Result<OwnedValueWriter> {
        let admitted = self.admitted(table)?;
        self.check_key(key)?;
        OwnedValueWriter::new(self, (table, admitted), key, None)
    }

    /// Sets `key` to `value` in a table with a TTL by key. The entry expires once `ttl` has passed.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the table has no TTL by key, and for a TTL of less than 1 ms.
    pub fn put_with_ttl(&mut self, table: &Table, key: &[u8], value: &[u8], ttl: Duration) -> Result<()> {
        let admitted = self.admitted(table)?;
        let date = self.date_after(table, admitted, ttl)?;
        self.check_record(key, value)?;
        self.make_room_for(admitted, key, value)?;
        self.write_dated(admitted.id, key, value, date, Prior::Unread)
    }

    /// Begins to put a value under `key` a piece at a time. The entry expires once `ttl` has passed.
    ///
    /// # Errors
    /// Those of [`Transaction::put_with_ttl`].
    pub fn value_writer_with_ttl(
        &mut self,
        table: &Table,
        key: &[u8],
        ttl: Duration,
    ) -> Result<ValueWriter<'_>> {
        let value = self.owned_value_writer_with_ttl(table, key, ttl)?;
        Ok(ValueWriter::new(self, value))
    }

    /// Begins to write a value for `key` a piece at a time, without a borrow of the transaction. The entry expires once
    /// `ttl` has passed.
    ///
    /// # Errors
    /// Those of [`Transaction::put_with_ttl`].
    pub fn owned_value_writer_with_ttl(
        &self,
        table: &Table,
        key: &[u8],
        ttl: Duration,
    ) -> Result<OwnedValueWriter> {
        let admitted = self.admitted(table)?;
        let date = self.date_after(table, admitted, ttl)?;
        self.check_key(key)?;
        OwnedValueWriter::new(self, (table, admitted), key, Some(date))
    }

    fn date_after(&self, table: &Table, of: Admitted, ttl: Duration) -> Result<[u8; DATE_BYTES]> {
        if !of.reading.is_by_key() {
            return Err(not_by_key(table));
        }
        // The largest number means never.
        let until_ms = self.store().time.now_ms().saturating_add(Ttl::new(ttl)?.ms).min(NEVER_MS - 1);
        Ok(until_ms.to_le_bytes())
    }

    /// Puts the value that a [`ValueWriter`] has finished.
    pub(crate) fn put_streamed(&mut self, table: TableId, key: &[u8], streamed: Streamed) -> Result<()> {
        let value_bytes = match &streamed {
            Streamed::Logged(value) => value.len(),
            Streamed::Large(_) => base::LargeRef::BYTES,
        };
        self.make_room(key.len() + value_bytes)?;
        self.write_streamed(table, key, streamed, Prior::Unread);
        Ok(())
    }

    /// Returns a cursor over the keys in `span` that can also put and delete at its position.
    pub fn cursor_mut(&mut self, table: &Table, span: Span) -> Result<CursorMut<'_>> {
        self.admit(table)?;
        Ok(CursorMut::new(self, table.clone(), span))
    }

    pub(crate) fn check_key(&self, key: &[u8]) -> Result<()> {
        let most = limits::max_key_bytes(self.store().page_bytes);
        if key.len() > most {
            let message = format!(
                "a key of {} bytes is too long: with this database's pages the limit is {most} bytes",
                key.len()
            );
            return Err(Error::invalid(message));
        }
        Ok(())
    }

    pub(crate) fn check_record(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_key(key)?;
        self.store().early.check_value_len(value.len())
    }

    /// Puts `value`, for which room was made; if it is large, into the data file.
    #[inline]
    fn write(&mut self, of: Admitted, key: &[u8], value: &[u8], prior: Prior) -> Result<()> {
        if of.reading.is_dated() {
            self.write_dated(of.id, key, value, self.date(of.reading), prior)
        } else {
            self.store_value(of.id, key, value, prior)
        }
    }

    /// Puts `value` after `date`, in a table with a TTL. The snapshot's time is older: it was fixed when the table was
    /// admitted.
    fn write_dated(
        &mut self,
        table: TableId,
        key: &[u8],
        value: &[u8],
        date: [u8; DATE_BYTES],
        prior: Prior,
    ) -> Result<()> {
        let mut dated = std::mem::take(&mut self.scratch.as_mut().expect("taken by drop alone").dated);
        dated.clear();
        dated.extend_from_slice(&date);
        dated.extend_from_slice(value);
        let written = self.store_value(table, key, &dated, prior);
        self.scratch.as_mut().expect("taken by drop alone").dated = dated;
        written
    }

    /// Returns the date of a value that is put now into a table with a TTL.
    pub(crate) fn date(&self, reading: Reading) -> [u8; DATE_BYTES] {
        reading.date_of_put(self.store().time.now_ms())
    }

    #[inline]
    pub(crate) fn store_value(
        &mut self,
        table: TableId,
        key: &[u8],
        value: &[u8],
        prior: Prior,
    ) -> Result<()> {
        if self.store().early.is_large(value.len() as u64) {
            return self.write_large(table, key, value, prior);
        }
        self.writes_mut().put(table, key, value, prior);
        Ok(())
    }

    #[cold]
    fn write_large(&mut self, table: TableId, key: &[u8], value: &[u8], prior: Prior) -> Result<()> {
        let mut stream = Stream::new(self.store());
        stream.write(value)?;
        let streamed = stream.finish()?;
        self.write_streamed(table, key, streamed, prior);
        Ok(())
    }

    fn write_streamed(&mut self, table: TableId, key: &[u8], streamed: Streamed, prior: Prior) {
        match streamed {
            Streamed::Logged(value) => self.writes_mut().put(table, key, &value, prior),
            Streamed::Large(value) => self.writes_mut().put_large(table, key, value, prior),
        }
    }
}

#[cold]
fn exists(table: &Table, key: &[u8]) -> Error {
    let (name, key) = (table.name(), key.escape_ascii());
    Error::new(ErrorKind::Exists, format!("table {name:?} has the key \"{key}\" already"))
}
