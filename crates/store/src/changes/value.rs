//! A value that a change put: in the record, in a page of an attached run, or in extents of the data file.

use super::guard::Guard;
use crate::state::ttl::DATE_BYTES;
use base::limits::UNIT_BYTES;
use base::{Error, LargeRef, Result};
use page::Value;
use run::Pieces;
use std::io::{self, Read};

/// A value that a change put. It can be read as a whole, or a piece at a time if it is long.
#[derive(Clone, Copy, Debug)]
pub struct ChangeValue<'a> {
    guard: &'a Guard,
    stored: Stored<'a>,
    /// The length of the date before the value, in a table with a TTL.
    front_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
enum Stored<'a> {
    Inline(&'a [u8]),
    Large(LargeRef),
}

impl<'a> ChangeValue<'a> {
    /// Returns the value, or `None` if the record is a delete.
    pub(super) fn new(guard: &'a Guard, value: Value<'a>, is_dated: bool) -> Result<Option<ChangeValue<'a>>> {
        let stored = match value {
            Value::Inline(bytes) => Stored::Inline(bytes),
            Value::Large(large) => Stored::Large(large.reference()),
            Value::Deleted => return Ok(None),
        };
        let front_bytes = if is_dated { DATE_BYTES } else { 0 };
        let value = ChangeValue { guard, stored, front_bytes };
        if value.stored_len() < front_bytes as u64 {
            return Err(Error::corruption("a value of a table with a TTL is too short for its date"));
        }
        Ok(Some(value))
    }

    /// Returns the length of the value in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.stored_len() - self.front_bytes as u64
    }

    /// Returns when the value was put, in milliseconds since 1970, if its table has a TTL, and `None` otherwise. For a
    /// TTL by key it returns when the entry expires; `u64::MAX` means never.
    pub fn date_ms(&self) -> Option<u64> {
        if self.front_bytes == 0 {
            return None;
        }
        Some(match self.stored {
            Stored::Inline(bytes) => u64::from_le_bytes(*bytes.first_chunk()?),
            Stored::Large(large) => u64::from_le_bytes(large.head),
        })
    }

    /// Returns the value, or `None` if it is stored in extents of its own.
    pub fn inline(&self) -> Option<&'a [u8]> {
        self.stored_inline().map(|bytes| &bytes[self.front_bytes..])
    }

    /// Returns a copy of the value. For a long value use [`ChangeValue::reader`].
    ///
    /// # Errors
    /// Those of reading; `Full` if there is not enough memory for the value.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        match self.stored {
            Stored::Inline(bytes) => Ok(bytes[self.front_bytes..].to_vec()),
            Stored::Large(large) => {
                let read = self.guard.store.read_large(large);
                let mut value = self.guard.judge(read)?;
                value.drain(..self.front_bytes);
                Ok(value)
            }
        }
    }

    /// Returns a reader of the value. Its memory is one piece: usually 256 KiB, and at most 1 MiB.
    ///
    /// # Errors
    /// Those of reading the disk.
    pub fn reader(&self) -> Result<ChangeValueReader<'a>> {
        self.reader_from(self.front_bytes as u64)
    }

    /// Returns the stored length, which includes the date.
    #[doc(hidden)]
    pub fn stored_len(&self) -> u64 {
        match self.stored {
            Stored::Inline(bytes) => bytes.len() as u64,
            Stored::Large(large) => large.len_bytes,
        }
    }

    /// Returns the stored value, which includes the date, unless it is stored in extents of its own.
    #[doc(hidden)]
    pub fn stored_inline(&self) -> Option<&'a [u8]> {
        match self.stored {
            Stored::Inline(bytes) => Some(bytes),
            Stored::Large(_) => None,
        }
    }

    /// Returns a reader of the stored value, which includes the date.
    #[doc(hidden)]
    pub fn stored_reader(&self) -> Result<ChangeValueReader<'a>> {
        self.reader_from(0)
    }

    fn reader_from(&self, position: u64) -> Result<ChangeValueReader<'a>> {
        let source = match self.stored {
            Stored::Inline(bytes) => Source::Inline(bytes),
            Stored::Large(large) => {
                let opened = Pieces::open(&self.guard.store.pool, large);
                Source::Large { pieces: Box::new(self.guard.judge(opened)?), read: None, buffer: Vec::new() }
            }
        };
        Ok(ChangeValueReader { guard: self.guard, source, position, len_bytes: self.stored_len() })
    }
}

/// A reader of a value that a change put. It implements [`Read`], and verifies every piece before it returns a byte of
/// it.
#[derive(Debug)]
pub struct ChangeValueReader<'a> {
    guard: &'a Guard,
    source: Source<'a>,
    position: u64,
    len_bytes: u64,
}

#[derive(Debug)]
enum Source<'a> {
    Inline(&'a [u8]),
    Large { pieces: Box<Pieces>, read: Option<usize>, buffer: Vec<u8> },
}

impl ChangeValueReader<'_> {
    fn at_hand(&mut self) -> Result<&[u8]> {
        let position = self.position;
        if position >= self.len_bytes {
            return Ok(&[]);
        }
        match &mut self.source {
            Source::Inline(bytes) => Ok(&bytes[position as usize..]),
            Source::Large { pieces, read, buffer } => {
                let (piece, from) = pieces.place_of(position);
                if *read != Some(piece) {
                    *read = None;
                    let done = pieces.read(&self.guard.store.pool, piece, buffer);
                    self.guard.judge(done)?;
                    *read = Some(piece);
                }
                Ok(&buffer[from..])
            }
        }
    }
}

impl Read for ChangeValueReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let ready = self.at_hand().map_err(io::Error::other)?;
        let count = ready.len().min(buffer.len());
        buffer[..count].copy_from_slice(&ready[..count]);
        self.position += count as u64;
        Ok(count)
    }
}

const _: () = assert!(DATE_BYTES < UNIT_BYTES, "a value in extents has room for its date");
