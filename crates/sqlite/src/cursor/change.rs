//! Changes at a cursor.

use super::{Cursor, nowhere};
use crate::failure::{CORRUPT, Failure, Outcome};
use crate::key;
use crate::state::read;
use crate::sys::place;
use pando::{Error, ReadTables, RecordCursor, Table};

impl Cursor<'_> {
    /// Puts a row, with so many zeros after it. The cursor is on it then.
    pub(crate) fn put_row(&mut self, rowid: i64, record: &[u8], zeros: usize) -> Outcome<()> {
        let key = key::of_rowid(rowid);
        if zeros == 0 {
            return self.put(&key, record);
        }
        let mut whole = Vec::with_capacity(record.len() + zeros);
        whole.extend_from_slice(record);
        whole.resize(record.len() + zeros, 0);
        self.put(&key, &whole)
    }

    /// Puts a record into an index. The cursor is on it then.
    pub(crate) fn put_entry(&mut self, record: &[u8]) -> Outcome<()> {
        let mut key = std::mem::take(&mut self.own.sought);
        let shape = self.own.shape.as_ref().ok_or_else(|| Failure::new(CORRUPT, "not an index"))?;
        let put = match shape.key_of(record, &mut key) {
            Ok(()) => self.put(&key, record),
            Err(malformed) => Err(malformed.into()),
        };
        self.own.sought = key;
        put
    }

    fn put(&mut self, key: &[u8], record: &[u8]) -> Outcome<()> {
        self.state.check_pins(&self.own.tree, self.tail)?;
        let open = self.state.writable()?;
        open.transaction.put(&self.own.tree.table, key, record).map_err(|error| of_key(error, key))?;
        self.own.tree.touch();
        self.own.key.clear();
        self.own.key.extend_from_slice(key);
        self.tail.place = place::SAVED;
        Ok(())
    }

    /// Deletes the entry that the cursor is on. The cursor is between its neighbours then.
    pub(crate) fn delete(&mut self) -> Outcome<()> {
        self.check_fault()?;
        self.current_key()?;
        self.state.check_pins(&self.own.tree, self.tail)?;
        let open = self.state.writable()?;
        open.transaction.delete(&self.own.tree.table, &self.own.key)?;
        self.own.tree.touch();
        self.tail.place = place::GAP;
        Ok(())
    }

    /// Replaces a part of the row that the cursor is on.
    pub(crate) fn put_data(&mut self, offset: usize, data: &[u8]) -> Outcome<()> {
        self.current_key()?;
        let key = self.own.key.clone();
        if !self.load_one(&key)? {
            return Err(nowhere());
        }
        let mut record = self.own.bytes[..self.own.rows[0].bytes as usize].to_vec();
        let part = record.get_mut(offset..).and_then(|rest| rest.get_mut(..data.len()));
        part.ok_or_else(|| Failure::new(CORRUPT, "a blob ends before its end"))?.copy_from_slice(data);
        self.put(&key, &record)
    }

    /// Counts the entries.
    pub(crate) fn count(&mut self) -> Outcome<i64> {
        self.check_fault()?;
        let table = &self.own.tree.table;
        read!(self.state, reader => count(reader, table).map_err(Failure::from))
    }
}

/// Counts the entries of a table.
pub(crate) fn count(reader: &impl ReadTables, table: &Table) -> pando::Result<i64> {
    let mut cursor = reader.cursor(table, ..)?;
    let mut count = 0;
    while cursor.advance()? {
        count += 1;
        count += cursor.run_on(usize::MAX, |_, _, _| {})? as i64;
    }
    Ok(count)
}

/// Says of which key an error is: SQLite's words for a length speak of values.
fn of_key(error: Error, key: &[u8]) -> Failure {
    if error.kind() == pando::ErrorKind::Invalid {
        return error.within(format!("an index entry has a key of {} bytes", key.len())).into();
    }
    error.into()
}
