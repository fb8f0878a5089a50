//! Reading a log that another process writes.
//!
//! The writer publishes up to where its commits may be read, after it wrote their blocks. A reader asks only for blocks
//! before that position, so every block that it needs is whole.
//!
//! The reader depends on the writer to keep the segments that it still has to read. If one was removed all the same, or
//! holds something else, [`Beside::advance`] fails, and the reader must start again at a newer checkpoint. A recycled
//! file is never mistaken for the segment that it was: checksums are seeded with database, generation and LSN.

use crate::append::{Appender, Stop};
use crate::format::{
    BLOCK_HEADER_BYTES, Kind, Parsed, Position, SEGMENT_HEADER_BYTES, SegmentHeader, Successor, block_bytes,
    segment_name,
};
use crate::handle::{Log, Options};
use crate::segment::Segment;
use crate::stock::Stock;
use crate::window::{Found, Window};
use base::{CheckpointNo, DatabaseId, Error, Lsn, Result};
use io::Dir;
use std::sync::Arc;

/// A reader of a log that another process writes. It uses memory for one block, at least 256 KiB.
///
/// ```
/// # use std::sync::Arc;
/// # use pando_log::{Beside, Log, Options};
/// let dir: Arc<dyn io::Dir> = Arc::new(io::MemDir::new());
/// let log = Log::create(dir.clone(), base::DatabaseId(1), Options::default())?;
/// let mut beside = Beside::open(&dir, base::DatabaseId(1), log.end())?;
/// assert!(!beside.advance()?, "nothing was appended yet");
/// log.append(b"a commit")?;
/// assert!(beside.advance()?);
/// assert_eq!(beside.payload(), b"a commit");
/// # base::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Beside {
    dir: Arc<dyn Dir>,
    window: Window,
    at: Lsn,
    /// The place of the current payload in the window's segment, and its length.
    payload: (u64, usize),
}

impl Beside {
    /// Opens the log at `from`.
    ///
    /// # Errors
    /// [`Corruption`](base::ErrorKind::Corruption) if the log does not have the position, or no longer has it; errors
    /// of opening the segment's file.
    pub fn open(dir: &Arc<dyn Dir>, database: DatabaseId, from: Position) -> Result<Self> {
        let header = read_header(dir, database, from.segment)?;
        let is_inside = header.first_lsn <= from.lsn && from.lsn <= header.limit_lsn();
        if header.generation != from.generation || !is_inside {
            return Err(Error::corruption(format!("{} does not hold {from:?}", header.name())));
        }
        let window = Window::open(dir, header)?;
        Ok(Beside { dir: Arc::clone(dir), window, at: from.lsn, payload: (0, 0) })
    }

    /// Moves to the next payload that is not empty. Returns false if no whole block follows yet: call it again after
    /// the writer has written more.
    ///
    /// # Errors
    /// [`Corruption`](base::ErrorKind::Corruption) if the next segment is not the one that the current one names;
    /// errors of reading.
    pub fn advance(&mut self) -> Result<bool> {
        let mut is_fresh = false;
        loop {
            let found = match self.window.block(self.at)? {
                Found::Block { header, payload, .. } if header.kind == Kind::End => {
                    Some((payload.len(), Successor::decode(payload)))
                }
                Found::Block { payload, .. } => Some((payload.len(), None)),
                Found::Bad(_) => None,
            };
            match found {
                Some((_, Some(successor))) => self.enter(successor)?,
                Some((payload_bytes, None)) => {
                    let here = self.window.header;
                    self.payload = (here.offset_of(self.at) + BLOCK_HEADER_BYTES as u64, payload_bytes);
                    self.at = Lsn(self.at.0 + block_bytes(payload_bytes));
                    if payload_bytes > 0 {
                        return Ok(true);
                    }
                }
                // The window may hold bytes from before the block was written.
                None if !is_fresh => {
                    self.window.forget();
                    is_fresh = true;
                }
                None => return Ok(false),
            }
        }
    }

    /// Returns the current payload.
    pub fn payload(&self) -> &[u8] {
        let (offset, bytes) = self.payload;
        self.window.read_before(offset, bytes)
    }

    /// Returns the position after the current payload.
    pub fn end(&self) -> Position {
        let SegmentHeader { number, generation, .. } = self.window.header;
        Position { segment: number, generation, lsn: self.at }
    }

    fn enter(&mut self, successor: Successor) -> Result<()> {
        let here = self.window.header;
        // Numbers grow, so the loop of `advance` ends.
        if successor.number <= here.number {
            let (name, found) = (here.name(), successor);
            return Err(Error::corruption(format!("{name}: expected a later successor, found {found:?}")));
        }
        let header = read_header(&self.dir, self.window.header.database, successor.number)?;
        if header.as_successor() != successor {
            let (from, to) = (self.window.header.name(), header.name());
            return Err(Error::corruption(format!("{to} is not the segment that follows {from}")));
        }
        self.window = Window::open(&self.dir, header)?;
        self.at = header.first_lsn;
        Ok(())
    }
}

fn read_header(dir: &Arc<dyn Dir>, database: DatabaseId, number: u64) -> Result<SegmentHeader> {
    let name = segment_name(number);
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    dir.open(&name)?.read_exact_at(&mut bytes, 0)?;
    match SegmentHeader::parse(&bytes) {
        Parsed::Header(header) if header.number == number && header.database == database => Ok(header),
        other => Err(Error::corruption(format!("{name}: expected its segment header, found {other:?}"))),
    }
}

impl Log {
    /// Returns a log that stays at `at` and rejects every append, for a store that only reads while another process
    /// writes the log.
    ///
    /// # Errors
    /// As [`Beside::open`].
    pub fn detached(
        dir: Arc<dyn Dir>,
        database: DatabaseId,
        at: Position,
        checkpoint: CheckpointNo,
        options: Options,
    ) -> Result<Log> {
        let segment = Segment::open(&dir, read_header(&dir, database, at.segment)?)?;
        let appender = Appender { stop: Some(Stop::Closed), ..Appender::new(segment, at.lsn, 0, None) };
        let stock = Stock::new(dir, at.segment + 1, Vec::new());
        Ok(Log::new(options, stock, appender, at.lsn, checkpoint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::BlockHeader;
    use base::ErrorKind;

    #[test]
    fn a_segment_that_names_itself_as_its_successor_is_damaged() -> Result<()> {
        let dir: Arc<dyn Dir> = Arc::new(io::MemDir::new());
        let database = DatabaseId(1);
        let log = Log::create(Arc::clone(&dir), database, Options::default())?;
        let start = log.end();
        let mut beside = Beside::open(&dir, database, start)?;
        let header = read_header(&dir, database, start.segment)?;
        let payload = header.as_successor().encode();
        let payload_bytes = payload.len() as u32;
        let block =
            BlockHeader { kind: Kind::End, payload_bytes, link: 0, synced: Lsn(0), checkpoint_low: 0 };
        let (head, _) = block.seal(header.place(start.lsn), &payload);
        let file = dir.open(&header.name())?;
        file.write_at(&[&head[..], &payload[..]].concat(), header.offset_of(start.lsn))?;
        assert_eq!(beside.advance().map_err(|error| error.kind()), Err(ErrorKind::Corruption));
        Ok(())
    }
}
