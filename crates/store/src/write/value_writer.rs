//! Writing a value a piece at a time.

use crate::read::handle::Admitted;
use crate::read::value_reader::outward;
use crate::state::ttl::DATE_BYTES;
use crate::uncommitted::large::Stream;
use crate::write::transaction::Transaction;
use base::{Result, TableId};
use std::io::{self, Write};

/// A value that is being put, a piece at a time: [`Write`], then [`ValueWriter::finish`]. [`Transaction::value_writer`]
/// returns it.
///
/// The value is not part of the transaction before it is finished: if it is dropped, or after an error, it has no
/// effect, and the transaction can continue. Up to 1 MiB is collected in memory; beyond that the value is written to
/// the data file as it arrives, and memory holds one piece of 256 KiB and 40 bytes for each piece written.
#[derive(Debug)]
#[must_use = "the value is written only if `finish` is called"]
pub struct ValueWriter<'t> {
    tx: &'t mut Transaction,
    table: TableId,
    key: Vec<u8>,
    stream: Stream,
    /// The bytes before the value's first byte.
    front_bytes: u64,
}

impl<'t> ValueWriter<'t> {
    /// Creates a writer of a value with this date, or that of any put.
    pub(crate) fn new(
        tx: &'t mut Transaction,
        of: Admitted,
        key: &[u8],
        date: Option<[u8; DATE_BYTES]>,
    ) -> Result<Self> {
        let mut stream = Stream::new(tx.store());
        if of.reading.is_dated() {
            stream.write(&date.unwrap_or_else(|| tx.date(of.reading)))?;
        }
        let front_bytes = stream.len_bytes();
        Ok(ValueWriter { tx, table: of.id, key: key.to_vec(), stream, front_bytes })
    }

    /// Appends `bytes` to the value.
    /// # Errors
    /// [`base::ErrorKind::Full`] if the disk is full; [`base::ErrorKind::Invalid`] if the value is longer than the
    /// limit, and after an error; errors of writing. The value is then given up, and the transaction can continue.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write(bytes)
    }

    /// Returns how many bytes were appended so far.
    pub fn len_bytes(&self) -> u64 {
        self.stream.len_bytes() - self.front_bytes
    }

    /// Puts the value under its key, whether or not the key exists, and returns its length. It is durable when the
    /// transaction is.
    ///
    /// # Errors
    /// As for [`ValueWriter::append`].
    pub fn finish(self) -> Result<u64> {
        let len_bytes = self.len_bytes();
        let streamed = self.stream.finish()?;
        self.tx.put_streamed(self.table, &self.key, streamed)?;
        Ok(len_bytes)
    }
}

impl Write for ValueWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.append(bytes).map_err(outward)?;
        Ok(bytes.len())
    }

    /// Does nothing: the commit makes the value durable.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
