//! The first pass over a table: puts into the target what differs from the source.
//!
//! 1. Both sides are read in key order. A key that only the target has is deleted; a record that is the same on both
//!    sides is not written. So a copy that continues an earlier one makes the target equal to its own snapshot of the
//!    source, whatever the earlier one had done. In a new target there is nothing to compare with.
//! 2. Writes are collected in batches, each of which is one transaction.
//! 3. A long value is never in a batch. It goes from one side to the other without being in memory as a whole, if the
//!    target is a directory.
//! 4. The digest of the source is made on the way, for the second pass.

use super::digest::{Digest, sum_of, sum_of_long};
use super::ends::Target;
use super::mark::Mark;
use crate::failure::{Failure, Outcome};
use crate::text;
use crate::values::SHORT_BYTES;
use indicatif::ProgressBar;
use pando::{Error, ReadSnapshot, ReadTables, RecordCursor, Span, Table, ValueReader, WriteTables};

/// The number of writes in a batch: enough that a round trip for each batch does not matter.
const MOST_BATCH_RECORDS: usize = 1000;
/// The size at which a batch is written, even if it has fewer records.
const MOST_BATCH_BYTES: usize = 4 << 20;

/// What the pass did to a table.
#[derive(Debug)]
pub struct Copied {
    /// The digest of the source.
    pub digest: Digest,
    pub written: u64,
    /// The number of records that were the same before.
    pub unchanged: u64,
    pub deleted: u64,
}

/// The pass over one table.
#[derive(Debug)]
pub struct Pass<'a, S, T: Target> {
    pub source: &'a S,
    pub from: &'a Table,
    pub target: &'a T,
    pub into: &'a Table,
    pub mark: &'a Mark,
    /// The target as it was, if it may have records.
    pub earlier: Option<&'a T::Snapshot>,
    /// Whether records are written even if they are the same: their TTL begins again.
    pub rewrite: bool,
    pub bar: &'a ProgressBar,
}

impl<S: ReadSnapshot, T: Target> Pass<'_, S, T> {
    /// Copies the table. After a failure the batches before it stay.
    pub fn run(&self) -> Outcome<Copied> {
        let mut writer = Writer::new(self.target, self.into, self.mark);
        let mut copied = Copied { digest: Digest::new(), written: 0, unchanged: 0, deleted: 0 };
        let mut earlier =
            Earlier::new(self.earlier.map(|old| old.cursor(self.into, Span::all())).transpose()?)?;
        let mut cursor = self.source.cursor(self.from, Span::all())?;
        while cursor.advance()? {
            let value_bytes = cursor.value_len().unwrap_or(0);
            let is_long = value_bytes > SHORT_BYTES;
            if !is_long {
                cursor.value()?;
            }
            let key = cursor.key().unwrap_or_default();
            copied.deleted += writer.delete_before(Some(key), &mut earlier)?;
            let may_be_same = earlier.key() == Some(key) && !self.rewrite;
            let is_same = if is_long {
                let sum = sum_of_long(self.value(self.source, self.from, key)?)?;
                copied.digest.add(key, value_bytes, sum);
                let is_same = may_be_same && self.sum_of_earlier(key, value_bytes)? == Some(sum);
                if !is_same {
                    writer.put_long(key, self.value(self.source, self.from, key)?)?;
                }
                is_same
            } else {
                let value = cursor.current().map(|(_, value)| value).unwrap_or_default();
                copied.digest.add(key, value_bytes, sum_of(value));
                let is_same = may_be_same && earlier.has_short(value)?;
                if !is_same {
                    writer.put(key, value)?;
                }
                is_same
            };
            *(if is_same { &mut copied.unchanged } else { &mut copied.written }) += 1;
            if earlier.key() == Some(key) {
                earlier.advance()?;
            }
            self.bar.inc(1);
        }
        copied.deleted += writer.delete_before(None, &mut earlier)?;
        writer.flush()?;
        Ok(copied)
    }

    /// Returns a reader of a long value that the snapshot has just shown.
    fn value(&self, reader: &impl ReadTables, table: &Table, key: &[u8]) -> Outcome<ValueReader> {
        let gone = || Error::corruption(format!("key {}: a snapshot has lost its value", text::name(key)));
        Ok(reader.value_reader(table, key)?.ok_or_else(gone)?)
    }

    /// Returns the checksum of the value that the target had, if it has this length.
    fn sum_of_earlier(&self, key: &[u8], value_bytes: u64) -> Outcome<Option<u64>> {
        let Some(earlier) = self.earlier else { return Ok(None) };
        let value = earlier.value_reader(self.into, key)?.filter(|value| value.len_bytes() == value_bytes);
        value.map(sum_of_long).transpose()
    }
}

/// The records that the target had, read beside those of the source.
struct Earlier<C> {
    /// It is on a record; `None` after the last one.
    cursor: Option<C>,
}

impl<C: RecordCursor> Earlier<C> {
    fn new(cursor: Option<C>) -> Outcome<Self> {
        let mut earlier = Earlier { cursor };
        earlier.advance()?;
        Ok(earlier)
    }

    fn key(&self) -> Option<&[u8]> {
        self.cursor.as_ref()?.key()
    }

    /// Returns whether the current value is this one, which is short.
    fn has_short(&mut self, value: &[u8]) -> Outcome<bool> {
        match &mut self.cursor {
            Some(cursor) if cursor.value_len() == Some(value.len() as u64) => {
                Ok(cursor.value()? == Some(value))
            }
            _ => Ok(false),
        }
    }

    fn advance(&mut self) -> Outcome {
        if let Some(cursor) = &mut self.cursor
            && !cursor.advance()?
        {
            self.cursor = None;
        }
        Ok(())
    }
}

/// Writes in batches, each of which is one transaction.
struct Writer<'a, T> {
    target: &'a T,
    table: &'a Table,
    mark: &'a Mark,
    /// Keys in order; `None` deletes.
    batch: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    batch_bytes: usize,
}

impl<'a, T: Target> Writer<'a, T> {
    fn new(target: &'a T, table: &'a Table, mark: &'a Mark) -> Self {
        Writer { target, table, mark, batch: Vec::new(), batch_bytes: 0 }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome {
        self.add(key, Some(value.to_vec()))
    }

    fn put_long(&mut self, key: &[u8], value: ValueReader) -> Outcome {
        self.flush()?;
        let put = self.target.put_long(self.table, key, value, |tx| self.mark.check(tx));
        put.map_err(|failure| self.named(key, failure))
    }

    /// Deletes the records before a key that only the target has, and returns their number; `None`: all that are left.
    fn delete_before<C: RecordCursor>(
        &mut self,
        end: Option<&[u8]>,
        earlier: &mut Earlier<C>,
    ) -> Outcome<u64> {
        let mut deleted = 0;
        while let Some(key) = earlier.key().filter(|key| end.is_none_or(|end| *key < end)) {
            self.add(key, None)?;
            earlier.advance()?;
            deleted += 1;
        }
        Ok(deleted)
    }

    fn add(&mut self, key: &[u8], value: Option<Vec<u8>>) -> Outcome {
        self.batch_bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        self.batch.push((key.to_vec(), value));
        let is_full = self.batch.len() == MOST_BATCH_RECORDS || self.batch_bytes >= MOST_BATCH_BYTES;
        if is_full { self.flush() } else { Ok(()) }
    }

    /// Writes what was collected.
    fn flush(&mut self) -> Outcome {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.target.write(|tx| {
            self.mark.check(tx)?;
            for (key, value) in &self.batch {
                let done = match value {
                    Some(value) => tx.put(self.table, key, value),
                    None => tx.delete(self.table, key),
                };
                done.map_err(|error| error.within(self.place(key)))?;
            }
            Ok(())
        })?;
        self.batch.clear();
        self.batch_bytes = 0;
        Ok(())
    }

    fn place(&self, key: &[u8]) -> String {
        format!("table {:?}, key {}", self.table.name(), text::name(key))
    }

    fn named(&self, key: &[u8], failure: Failure) -> Failure {
        match failure {
            Failure::Engine(error) => Failure::Engine(error.within(self.place(key))),
            other => other,
        }
    }
}

/// Returns the digest of a table, for the second pass.
pub fn digest_of(snapshot: &impl ReadSnapshot, table: &Table, bar: &ProgressBar) -> Outcome<Digest> {
    let mut digest = Digest::new();
    let mut cursor = snapshot.cursor(table, Span::all())?;
    while cursor.advance()? {
        let value_bytes = cursor.value_len().unwrap_or(0);
        let sum = if value_bytes > SHORT_BYTES {
            let value = snapshot.value_reader(table, cursor.key().unwrap_or_default())?;
            value.map_or(Ok(0), sum_of_long)?
        } else {
            sum_of(cursor.value()?.unwrap_or_default())
        };
        digest.add(cursor.key().unwrap_or_default(), value_bytes, sum);
        bar.inc(1);
    }
    Ok(digest)
}
