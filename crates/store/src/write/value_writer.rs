//! Writing a value a piece at a time.

use crate::read::handle::{Admitted, Table};
use crate::read::value_reader::outward;
use crate::state::ttl::{DATE_BYTES, Reading};
use crate::uncommitted::large::Stream;
use crate::write::transaction::Transaction;
use base::{Error, Result};
use std::io::{self, Write};

/// A value that is being put a piece at a time: [`Write`], then [`ValueWriter::finish`]. [`Transaction::value_writer`]
/// returns it.
///
/// The value is not part of the transaction before it is finished. If this is dropped, or after an error, the value has
/// no effect, and the transaction can continue. Up to 1 MiB is collected in memory. A longer value is written to the
/// data file as it arrives; memory then holds one piece of 256 KiB, and 40 bytes for each piece written.
#[derive(Debug)]
#[must_use = "the value is written only if `finish` is called"]
pub struct ValueWriter<'t> {
    tx: &'t mut Transaction,
    value: OwnedValueWriter,
}

impl<'t> ValueWriter<'t> {
    pub(crate) fn new(tx: &'t mut Transaction, value: OwnedValueWriter) -> Self {
        ValueWriter { tx, value }
    }

    /// Appends `bytes` to the value.
    /// # Errors
    /// [`base::ErrorKind::Full`] if the disk is full; [`base::ErrorKind::Invalid`] if the value is longer than the
    /// limit, and after an error; errors of writing. After an error the value has no effect, and the transaction can
    /// continue.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.value.append(bytes)
    }

    /// Returns how many bytes were appended so far.
    pub fn len_bytes(&self) -> u64 {
        self.value.len_bytes()
    }

    /// Puts the value under its key, whether or not the key exists, and returns its length. It is durable when the
    /// transaction is.
    ///
    /// # Errors
    /// As for [`ValueWriter::append`].
    pub fn finish(self) -> Result<u64> {
        self.tx.finish_value(self.value)
    }
}

/// A value that is being put a piece at a time, as with [`ValueWriter`]. It does not borrow the transaction, which
/// other calls can use at the same time. [`Transaction::owned_value_writer`] returns it, and
/// [`Transaction::finish_value`] puts the value.
///
/// It is `Send`, and can outlive its transaction: a later transaction of the same database can put the value as well.
#[derive(Debug)]
#[must_use = "the value is written only if it is passed to `finish_value`"]
pub struct OwnedValueWriter {
    table: Table,
    reading: Reading,
    key: Vec<u8>,
    stream: Stream,
    /// The bytes before the value's first byte.
    front_bytes: u64,
}

impl OwnedValueWriter {
    /// Creates a writer of a value with this date, or that of any put.
    pub(crate) fn new(
        tx: &Transaction,
        (table, of): (&Table, Admitted),
        key: &[u8],
        date: Option<[u8; DATE_BYTES]>,
    ) -> Result<Self> {
        let mut stream = Stream::new(tx.store());
        if of.reading.is_dated() {
            stream.write(&date.unwrap_or_else(|| tx.date(of.reading)))?;
        }
        let front_bytes = stream.len_bytes();
        Ok(OwnedValueWriter {
            table: table.clone(),
            reading: of.reading,
            key: key.to_vec(),
            stream,
            front_bytes,
        })
    }

    /// Appends `bytes` to the value.
    /// # Errors
    /// As for [`ValueWriter::append`].
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write(bytes)
    }

    /// Returns how many bytes were appended so far.
    pub fn len_bytes(&self) -> u64 {
        self.stream.len_bytes() - self.front_bytes
    }
}

impl Transaction {
    /// Puts a value under its key, whether or not the key exists, and returns its length. It is durable when this
    /// transaction is.
    ///
    /// # Errors
    /// As for [`ValueWriter::append`]; [`base::ErrorKind::Missing`] if the table no longer exists;
    /// [`base::ErrorKind::Invalid`] if the value was begun in another database, a copy included, or before this one was
    /// opened, and if the table's TTL is of another kind than then.
    pub fn finish_value(&mut self, value: OwnedValueWriter) -> Result<u64> {
        if !value.stream.is_of(self.store()) {
            return Err(Error::invalid(
                "the value was begun in another database, or before this one was opened",
            ));
        }
        let admitted = self.admitted(&value.table)?;
        let has_date_of = |reading: Reading| (reading.is_dated(), reading.is_by_key());
        if has_date_of(admitted.reading) != has_date_of(value.reading) {
            return Err(Error::invalid(format!(
                "the TTL of table {:?} changed its kind after the value was begun; write the value again",
                value.table.name()
            )));
        }
        let len_bytes = value.len_bytes();
        let streamed = value.stream.finish()?;
        self.put_streamed(admitted.id, &value.key, streamed)?;
        Ok(len_bytes)
    }
}

impl Write for ValueWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.value.write(bytes)
    }

    /// Does nothing: the commit makes the value durable.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for OwnedValueWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.append(bytes).map_err(outward)?;
        Ok(bytes.len())
    }

    /// Does nothing: the commit makes the value durable.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
