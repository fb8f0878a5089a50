//! Reading a value a piece at a time, from any place in it.

use crate::read::handle::Table;
use crate::read::located::Located;
use crate::read::snapshot::Snapshot;
use crate::uncommitted::large::Unpublished;
use base::{Error, Result};
use run::Pieces;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::sync::Arc;

/// A reader of a value, from any position, a piece at a time: [`Read`], [`BufRead`] and [`Seek`]. It is owned, and
/// `Send`.
///
/// It sees the value as its snapshot or transaction saw it, whatever is committed later. Until it is dropped, it keeps
/// the bytes of the value from being freed, as a snapshot does. It expires as a snapshot does, and then fails with
/// `SnapshotTooOld`.
///
/// It holds one piece of a large value in memory, usually 256 KiB (at most 1 MiB), and the list of pieces, 16 bytes for
/// each. It verifies a piece before it returns a byte of it: damage is an [`io::Error`] whose inner error is a
/// [`base::Error`] of kind `Corruption`.
#[derive(Debug)]
#[must_use = "a reader reads the value only as it is asked"]
pub struct ValueReader {
    source: Source,
    len_bytes: u64,
    position: u64,
}

#[derive(Debug)]
enum Source {
    Bytes(Vec<u8>),
    Large(Box<LargeSource>),
}

#[derive(Debug)]
struct LargeSource {
    pieces: Pieces,
    /// The bytes before the value's first byte.
    front_bytes: u64,
    /// The piece that `buffer` holds.
    read: Option<usize>,
    buffer: Vec<u8>,
    /// The snapshot keeps the extents from being freed; for a transaction's own value its guard does.
    snapshot: Snapshot,
    _own: Option<Arc<Unpublished>>,
}

impl Snapshot {
    /// Returns a reader of the value of `key`, for values that should not be in memory completely.
    pub fn value_reader(&self, table: &Table, key: &[u8]) -> Result<Option<ValueReader>> {
        let reading = table.check(self)?;
        let located = self.locate_in(table.id(), reading, key)?;
        located.map(|located| ValueReader::new(located, self, None)).transpose()
    }
}

impl ValueReader {
    /// Creates a reader of what `snapshot` found; `own` guards a value that is not committed yet.
    pub(crate) fn new(
        located: Located,
        snapshot: &Snapshot,
        own: Option<Arc<Unpublished>>,
    ) -> Result<ValueReader> {
        let len_bytes = located.len_bytes();
        let source = match located {
            Located::Bytes(bytes) => Source::Bytes(bytes),
            Located::Large(large, front_bytes) => {
                let snapshot = snapshot.try_clone()?;
                let call = snapshot.call()?.suspend();
                let pieces = Pieces::open(&snapshot.store().pool, large)?;
                drop(call);
                let (read, buffer, front_bytes) = (None, Vec::new(), front_bytes as u64);
                Source::Large(Box::new(LargeSource {
                    pieces,
                    front_bytes,
                    read,
                    buffer,
                    snapshot,
                    _own: own,
                }))
            }
        };
        Ok(ValueReader { source, len_bytes, position: 0 })
    }

    /// Creates a reader of bytes that are in memory.
    pub(crate) fn in_memory(bytes: Vec<u8>) -> Self {
        ValueReader { len_bytes: bytes.len() as u64, source: Source::Bytes(bytes), position: 0 }
    }

    /// Returns the length of the value in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns the bytes at the position that are in memory: at least one, unless the position is at the end.
    fn at_hand(&mut self) -> Result<&[u8]> {
        let position = self.position;
        if position >= self.len_bytes {
            return Ok(&[]);
        }
        match &mut self.source {
            Source::Bytes(bytes) => Ok(&bytes[position as usize..]),
            Source::Large(large) => {
                let (piece, from) = large.pieces.place_of(large.front_bytes + position);
                if large.read != Some(piece) {
                    large.read = None;
                    let _call = large.snapshot.call()?.suspend();
                    large.pieces.read(&large.snapshot.store().pool, piece, &mut large.buffer)?;
                    large.read = Some(piece);
                }
                Ok(&large.buffer[from..])
            }
        }
    }
}

impl Read for ValueReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let ready = self.at_hand().map_err(outward)?;
        let count = ready.len().min(buffer.len());
        buffer[..count].copy_from_slice(&ready[..count]);
        self.position += count as u64;
        Ok(count)
    }
}

impl BufRead for ValueReader {
    /// Returns the bytes at the position that are in memory: what is left of a piece, or of a value that is not large.
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.at_hand().map_err(outward)
    }

    fn consume(&mut self, count: usize) {
        self.position += count as u64;
    }
}

impl Seek for ValueReader {
    /// Moves the position. It may be after the end, where there is nothing to read.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(distance) => self.len_bytes.checked_add_signed(distance),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
        };
        let before = || {
            io::Error::new(io::ErrorKind::InvalidInput, "cannot seek to before the first byte of the value")
        };
        self.position = target.ok_or_else(before)?;
        Ok(self.position)
    }
}

/// Converts an error into one of `std::io`.
pub(crate) fn outward(error: Error) -> io::Error {
    io::Error::other(error)
}
