//! Changes at a cursor.

use super::{Cursor, nowhere};
use crate::failure::{CORRUPT, Failure, Outcome};
use crate::state::read;
use crate::sys::{Row, place};
use pando::{ErrorKind, ReadTables, RecordCursor, Table};
use sqlite_format::key;

impl Cursor<'_> {
    /// Puts a row, with so many zeros after it. The cursor is on it then.
    pub(crate) fn put_row(&mut self, rowid: i64, record: &[u8], zeros: usize) -> Outcome<()> {
        let key = key::of_rowid(rowid);
        if zeros == 0 {
            self.put(&key, record)?;
        } else {
            let mut whole = Vec::with_capacity(record.len() + zeros);
            whole.extend_from_slice(record);
            whole.resize(record.len() + zeros, 0);
            self.put(&key, &whole)?;
        }
        self.own.tree.note_row(rowid);
        Ok(())
    }

    /// Takes a rowid for the next row. The cursor is then on an entry before it, whose record is not to be used. If
    /// there is none left, the cursor is on the last one that can be.
    pub(crate) fn new_rowid(&mut self) -> Outcome<()> {
        self.check_fault()?;
        let next = self.state.new_rowid(&self.own.tree)?;
        self.own.is_numbered = next.is_some();
        self.own.rows.clear();
        self.own.bytes.clear();
        self.own.rows.push(Row {
            rowid: next.map_or(i64::MAX, |next| next.wrapping_sub(1)),
            start: 0,
            bytes: 0,
        });
        self.show(false, false);
        // It is read again where its record is asked for.
        self.tail.stamp = 0;
        Ok(())
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
        let (open, table) = (self.state.writable()?, &self.own.tree.table);
        let is_inserted = std::mem::take(&mut self.own.is_numbered)
            && match open.transaction.insert(table, key, record) {
                // A trigger put a row there, which SQLite would replace.
                Err(error) if error.kind() == ErrorKind::Exists => false,
                inserted => inserted.map(|()| true)?,
            };
        if !is_inserted {
            open.transaction.put(table, key::stored(key), record)?;
        }
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
        open.transaction.delete(&self.own.tree.table, key::stored(&self.own.key))?;
        self.own.tree.touch();
        self.own.tree.forget_last_row();
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
