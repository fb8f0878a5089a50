//! Reading a value a piece at a time, from any place in it.

use crate::read::handle::Table;
use crate::read::located::Located;
use crate::read::snapshot::Snapshot;
use crate::uncommitted::large::Unpublished;
use base::{Error, Result};
use run::Pieces;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

/// A value, read from wherever one likes, a piece at a time: [`Read`] and [`Seek`]. Owned, and `Send`.
///
/// It sees the value as its snapshot or transaction saw it, whatever is committed meanwhile, and keeps those bytes from
/// being freed while it lives, as a snapshot does. It holds one piece of a large value in memory, 256 KiB as a rule (at
/// most 1 MiB), and the list of pieces, 16 bytes for each. A piece is verified before a byte of it is returned: rot is
/// an [`io::Error`] whose inner error is a [`base::Error`] of kind `Corruption`. It expires as a snapshot does, and
/// then fails with `SnapshotTooOld`.
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
    /// Bytes before the value's first.
    front_bytes: u64,
    /// The piece that `buffer` holds.
    read: Option<usize>,
    buffer: Vec<u8>,
    /// What keeps the extents from being freed: the view, and for a value of a transaction's own its guard.
    snapshot: Snapshot,
    _own: Option<Arc<Unpublished>>,
}

impl Snapshot {
    /// A reader of the value of `key`, for values that are not to be held in memory whole.
    pub fn value_reader(&self, table: &Table, key: &[u8]) -> Result<Option<ValueReader>> {
        let reading = table.check(self)?;
        let located = self.locate_in(table.id(), reading, key)?;
        located.map(|located| ValueReader::new(located, self, None)).transpose()
    }
}

impl ValueReader {
    /// A reader of what `snapshot` found; `own` guards a value that is not committed yet.
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
                let call = snapshot.call()?.aside();
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

    /// The length of the value, in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// The bytes from the position on that are at hand, at least one unless the position is at the end.
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
                    let _call = large.snapshot.call()?.aside();
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

impl Seek for ValueReader {
    /// Positions behind the end are allowed; there is nothing to read there.
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

/// An error as `std::io` passes it on.
pub(crate) fn outward(error: Error) -> io::Error {
    io::Error::other(error)
}
