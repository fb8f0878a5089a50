//! The records of a tree combined with the log's changes, in key order.

use super::report::Lost;
use super::walk::Values;
use base::{CommitTs, Result, TableId};
use memtable::{Cursor, Memtable};
use page::Value;

/// A receiver of records in key order.
pub trait Take {
    /// Receives the next record.
    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
}

/// The records of the tree that the log's changes replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hides {
    /// The ones that it puts, and the ones that it deletes: the log continues where the tree ends.
    All,
    /// The ones that it puts. If it is unknown which is newer, a delete is no reason to leave a record out.
    Puts,
    /// None of them.
    Nothing,
}

/// Combines the log's changes with the tree's records, key by key.
pub struct Blend<'a, T> {
    memtable: &'a Memtable,
    table: TableId,
    hides: Hides,
    values: Values<'a>,
    /// The log's changes from here on; `None`: it only hides.
    cursor: Option<Cursor<'a>>,
    out: &'a mut T,
    /// The keys whose values cannot be read.
    pub lost: Vec<Lost>,
}

impl<'a, T: Take> Blend<'a, T> {
    /// Creates a blend of `table`.
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

    /// Leaves out the log's own records from now on, because they were received elsewhere.
    pub fn without_log(&mut self) {
        self.cursor = None;
    }

    /// Adds the tree's next record, whose value is read only if the log has no change of the key.
    pub fn tree(&mut self, key: &[u8], value: Value<'_>) -> Result<()> {
        self.log_before(Some(key))?;
        let is_hidden = match self.memtable.get(self.table, key, CommitTs::MAX) {
            Some(Value::Inline(_) | Value::Large(..)) => self.hides != Hides::Nothing,
            Some(Value::Deleted) => self.hides == Hides::All,
            None => false,
        };
        if is_hidden { Ok(()) } else { self.take(key, value) }
    }

    /// Adds the log's records after the tree's last one.
    pub fn finish(&mut self) -> Result<()> {
        self.log_before(None)
    }

    fn log_before(&mut self, limit: Option<&[u8]>) -> Result<()> {
        // The log's record at `limit` itself comes before the tree's next one.
        while let Some((key, found)) = self.cursor.as_ref().and_then(Cursor::entry) {
            if limit.is_some_and(|limit| key >= limit) {
                break;
            }
            match found {
                Value::Deleted => {}
                value => self.take(key, value)?,
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
