//! A tree's records under what the log says of them, in key order.

use super::report::Lost;
use super::walk::Values;
use base::{CommitTs, Result, TableId};
use memtable::{Cursor, Found, Memtable};
use page::Value;

/// Takes records in key order.
pub trait Take {
    /// The next one.
    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
}

/// Which of the tree's records the log's word replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hides {
    /// Those that it changes, and those that it deletes: it goes on where the tree ends.
    All,
    /// Those that it changes. Where nobody knows which is newer, a delete is no reason to leave a record out.
    Puts,
    /// None.
    Nothing,
}

/// Puts the log's word before the tree's, key by key.
pub struct Blend<'a, T> {
    memtable: &'a Memtable,
    table: TableId,
    hides: Hides,
    values: Values<'a>,
    /// What the log has, from here on; `None`: it only hides.
    cursor: Option<Cursor<'a>>,
    out: &'a mut T,
    /// Keys whose values cannot be read.
    pub lost: Vec<Lost>,
}

impl<'a, T: Take> Blend<'a, T> {
    /// A blend of `table`.
    pub fn new(
        memtable: &'a Memtable,
        table: TableId,
        hides: Hides,
        values: Values<'a>,
        out: &'a mut T,
    ) -> Self {
        let mut cursor = memtable.cursor(table, CommitTs::MAX);
        cursor.seek_first();
        Blend { memtable, table, hides, values, cursor: Some(cursor), out, lost: Vec::new() }
    }

    /// From now on the log's own records are left out: they were taken elsewhere.
    pub fn without_log(&mut self) {
        self.cursor = None;
    }

    /// The tree's next record, whose value is read only if the log says nothing of the key.
    pub fn tree(&mut self, key: &[u8], value: Value<'_>) -> Result<()> {
        self.log_before(Some(key))?;
        let is_hidden = match self.memtable.get(self.table, key, CommitTs::MAX) {
            Some(Found::Value(_) | Found::Large(_)) => self.hides != Hides::Nothing,
            Some(Found::Deleted) => self.hides == Hides::All,
            None => false,
        };
        if is_hidden { Ok(()) } else { self.take(key, value) }
    }

    /// What the log has behind the tree's last record.
    pub fn finish(&mut self) -> Result<()> {
        self.log_before(None)
    }

    fn log_before(&mut self, limit: Option<&[u8]>) -> Result<()> {
        // The log's record of `limit` itself comes before the tree's next one.
        while let Some((key, found)) = self.cursor.as_ref().and_then(Cursor::entry) {
            if limit.is_some_and(|limit| key >= limit) {
                break;
            }
            match found {
                Found::Value(value) => self.take(key, Value::Inline(value))?,
                Found::Large(large) => self.take(key, Value::Large(large))?,
                Found::Deleted => {}
            }
            self.cursor.as_mut().expect("it had an entry").next();
        }
        Ok(())
    }

    fn take(&mut self, key: &[u8], value: Value<'_>) -> Result<()> {
        match self.values.read(value) {
            Ok(value) => self.out.take(key, &value),
            Err(error) => {
                self.lost.push(Lost::one(key, &error));
                Ok(())
            }
        }
    }
}
