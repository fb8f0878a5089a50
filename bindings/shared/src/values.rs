//! Values of any length, read and written a piece at a time. Memory holds one piece of 256 KiB of a value that is
//! longer than 1 MiB.

use crate::failure::{Failure, Kind, Outcome};
use crate::handle::{Begun, Handle, try_lock};
use crate::source::Source;
use pando::{Error, OwnedValueWriter, Table, ValueReader};
use std::io::{self, BufRead, Seek, SeekFrom};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A value that is read from any place, by one call at a time. It stays as it was when it was opened, whatever is
/// committed meanwhile, and whatever becomes of its snapshot or transaction.
#[derive(Debug)]
pub struct ReadValue {
    handle: Arc<Handle>,
    inner: Mutex<Option<ValueReader>>,
    len_bytes: u64,
}

impl ReadValue {
    /// Opens the value of `key`, if it exists.
    pub fn open(source: &Source, table: &Table, key: &[u8]) -> Outcome<Option<Self>> {
        let found = source.read(|reads| reads.value_reader(table, key))?;
        Ok(found.map(|reader| ReadValue {
            handle: Arc::clone(source.handle()),
            len_bytes: reader.len_bytes(),
            inner: Mutex::new(Some(reader)),
        }))
    }

    /// The length of the value.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn with<T>(&self, work: impl FnOnce(&mut ValueReader) -> io::Result<T>) -> Outcome<T> {
        self.handle.open()?;
        let mut guard = try_lock(&self.inner, "the reader of a value")?;
        let reader = guard.as_mut().ok_or_else(|| Failure::closed("the reader of a value"))?;
        work(reader).map_err(failed)
    }

    /// Calls `take` with the next bytes, a part after the other, until it got `most` bytes or the value ends. Returns
    /// how many it got. After an error the place is where the call began, so that no byte is skipped.
    pub fn read(&self, most: usize, take: &mut dyn FnMut(&[u8])) -> Outcome<usize> {
        self.with(|reader| {
            let began = reader.stream_position()?;
            let done = read_up_to(reader, most, take);
            if done.is_err() {
                reader.seek(SeekFrom::Start(began))?;
            }
            done
        })
    }

    /// Goes to a place, which may be after the end. Returns how many bytes are before it.
    pub fn seek(&self, to: SeekFrom) -> Outcome<u64> {
        self.with(|reader| reader.seek(to))
    }

    /// Ends the reader, so that what it keeps can be freed. A second time has no effect.
    pub fn close(&self) -> Outcome<()> {
        self.handle.check_process()?;
        drop(try_lock(&self.inner, "the reader of a value")?.take());
        Ok(())
    }
}

fn read_up_to(reader: &mut ValueReader, most: usize, take: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
    let mut taken = 0;
    while taken < most {
        let ready = reader.fill_buf()?;
        let part = &ready[..ready.len().min(most - taken)];
        if part.is_empty() {
            break;
        }
        take(part);
        let count = part.len();
        reader.consume(count);
        taken += count;
    }
    Ok(taken)
}

/// The failure of a reader: an error of the library, or a place before the value.
#[cold]
fn failed(error: io::Error) -> Failure {
    match error.downcast::<Error>() {
        Ok(ours) => Failure::from(ours),
        Err(error) => Failure::invalid(error.to_string()),
    }
}

/// A value that is written a piece at a time, by one call at a time. Its transaction can be used meanwhile.
#[derive(Debug)]
pub struct WrittenValue {
    begun: Arc<Begun>,
    inner: Mutex<Option<OwnedValueWriter>>,
}

impl WrittenValue {
    /// Begins a value for `key`. In a table with a TTL by key its entry can have a TTL.
    pub fn begin(begun: &Arc<Begun>, table: &Table, key: &[u8], ttl: Option<Duration>) -> Outcome<Self> {
        let writer = begun.read(|tx| match ttl {
            Some(ttl) => tx.owned_value_writer_with_ttl(table, key, ttl),
            None => tx.owned_value_writer(table, key),
        })?;
        Ok(WrittenValue { begun: Arc::clone(begun), inner: Mutex::new(Some(writer)) })
    }

    /// Appends bytes. An error gives the value up, unless another call uses the writer.
    pub fn append(&self, bytes: &[u8]) -> Outcome<()> {
        self.begun.handle().check_process()?;
        let mut guard = try_lock(&self.inner, WRITER)?;
        let writer = guard.as_mut().ok_or_else(ended)?;
        let appended = self.begun.handle().open().and_then(|_| Ok(writer.append(bytes)?));
        if appended.is_err() {
            *guard = None;
        }
        appended
    }

    /// Puts the value in its transaction, and returns the value's length. It ends the writer whatever the result is,
    /// unless another call uses the writer or the transaction.
    pub fn finish(&self) -> Outcome<u64> {
        self.begun.handle().check_process()?;
        let mut guard = try_lock(&self.inner, WRITER)?;
        if guard.is_none() {
            return Err(ended());
        }
        let finished = self.begun.write(|tx| guard.take().map(|writer| tx.finish_value(writer)).transpose());
        if finished.as_ref().is_err_and(|failure| failure.kind != Kind::InUse) {
            *guard = None;
        }
        finished?.ok_or_else(ended)
    }

    /// Gives the value up. A second time, and after the value was finished, it has no effect.
    pub fn abandon(&self) -> Outcome<()> {
        self.begun.handle().check_process()?;
        drop(try_lock(&self.inner, WRITER)?.take());
        Ok(())
    }
}

const WRITER: &str = "the writer of a value";

#[cold]
fn ended() -> Failure {
    Failure::closed(WRITER)
}
