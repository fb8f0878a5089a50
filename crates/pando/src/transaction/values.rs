//! Values of any length: written and read a piece at a time.

use super::Transaction;
use crate::cursor::Beginning;
use base::{Error, ErrorKind, Result};
use std::io::{self, Read};
use store::{OwnedValueWriter, Table, ValueReader, ValueWriter};

impl Transaction {
    /// Sets `key` to everything that `from` yields, and returns the number of bytes. At most about 1 MiB of the value
    /// is in memory at any time; the limit is [`crate::limits::MAX_VALUE_BYTES`]. For a value that arrives in pieces,
    /// use [`Transaction::value_writer`]. If [`Database::write`](crate::Database::write) runs the transaction again, it
    /// reads `from` again: open `from` within the function, because a second run could put only what the first run has
    /// not read.
    ///
    /// A value of more than 1 MiB is written to the data file before the commit, and the commit then flushes that file
    /// as well: two flushes for `Sync`, one for the other durabilities, for any number of such values.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.ensure_table("t")?;
    /// use std::io::Read;
    /// let stored = db.write(|tx| tx.put_reader(&table, b"film", std::io::repeat(7).take(3 << 20)))?;
    /// assert_eq!(stored, 3 << 20);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Io` if reading `from` fails; `Full` if the disk is full; `Invalid` as for [`Transaction::put`]. After an
    /// error nothing is put, and the transaction can continue.
    pub fn put_reader(&mut self, table: &Table, key: impl AsRef<[u8]>, from: impl Read) -> Result<u64> {
        fill(self.value_writer(table, key.as_ref())?, from)
    }

    /// Returns a [`std::io::Write`] whose bytes become the value of `key` when it is finished.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.ensure_table("t")?;
    /// let mut tx = db.begin()?;
    /// let mut writer = tx.value_writer(&table, b"report")?;
    /// for line in 0..3 {
    ///     writer.append(format!("line {line}\n").as_bytes())?;
    /// }
    /// assert_eq!(writer.finish()?, 21);
    /// assert_eq!(tx.value_len(&table, b"report")?, Some(21));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` if the key is over its limit.
    pub fn value_writer(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<ValueWriter<'_>> {
        self.inner.value_writer(table, key.as_ref())
    }

    /// Returns an owned [`std::io::Write`] for the value of `key`. Unlike [`Transaction::value_writer`], it does not
    /// borrow this transaction: other calls can use the transaction before [`Transaction::finish_value`] puts the
    /// value. Each such value collects up to 1 MiB outside of the memory budget.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.ensure_table("t")?;
    /// let mut tx = db.begin()?;
    /// let [mut left, mut right] = [tx.owned_value_writer(&table, b"l")?, tx.owned_value_writer(&table, b"r")?];
    /// for (at, byte) in b"abcd".iter().enumerate() {
    ///     if at % 2 == 0 { left.append(&[*byte])? } else { right.append(&[*byte])? }
    /// }
    /// tx.put(&table, b"count", b"4")?;
    /// assert_eq!((tx.finish_value(left)?, tx.finish_value(right)?), (2, 2));
    /// assert_eq!(tx.get(&table, b"r")?.as_deref(), Some(&b"bd"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` if the key is over its limit.
    pub fn owned_value_writer(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<OwnedValueWriter> {
        self.inner.owned_value_writer(table, key.as_ref())
    }

    /// Puts a value that was written a piece at a time under its key, whether or not the key exists, and returns its
    /// length in bytes. An earlier transaction of the same database can have begun the value. A TTL counts from the
    /// beginning of the writing.
    ///
    /// # Errors
    /// As for [`Transaction::put`]; `Missing` if the table was dropped in the meantime; `Invalid` if a write to the
    /// value has failed, if the value was begun in another database or another copy of this one, and if the table had
    /// another kind of TTL then.
    pub fn finish_value(&mut self, value: OwnedValueWriter) -> Result<u64> {
        self.inner.finish_value(value)
    }

    /// Returns a reader of the value of `key`, including this transaction's writes; see
    /// [`crate::Snapshot::value_reader`]. It can outlive the transaction, even one that is rolled back.
    pub fn value_reader(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<ValueReader>> {
        self.inner.value_reader(table, key.as_ref())
    }

    /// Calls `with` on the beginning of the value of `key`, including this transaction's writes; see
    /// [`crate::Snapshot::get_beginning`].
    pub fn get_beginning<T>(
        &self,
        table: &Table,
        key: impl AsRef<[u8]>,
        whole_bytes: usize,
        with: impl FnOnce(Beginning<'_>) -> T,
    ) -> Result<Option<T>> {
        self.inner.get_beginning(table, key.as_ref(), whole_bytes, with)
    }

    /// Returns the length of the value of `key` in bytes, including this transaction's writes. A long value is not
    /// read.
    pub fn value_len(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        self.inner.value_len(table, key.as_ref())
    }
}

/// The number of bytes that are read from a reader at once.
const PIECE_BYTES: usize = 64 << 10;

/// Writes everything that `from` yields, and finishes the value. Returns the number of bytes.
pub(super) fn fill(mut writer: ValueWriter<'_>, mut from: impl Read) -> Result<u64> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return writer.finish(),
            Ok(count) => writer.append(&piece[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(reading_failed(error)),
        }
    }
}

/// Converts the error of the reader of a value. An error of this crate inside it, for example from a `ValueReader`, is
/// returned as it is.
#[cold]
fn reading_failed(error: io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(ours) => ours.within("reading the value to store"),
        Err(theirs) => Error::new(ErrorKind::Io, "the reader of the value to store failed").caused_by(theirs),
    }
}
