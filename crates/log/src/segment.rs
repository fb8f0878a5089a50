//! One segment file that is being written.

use crate::format::{END_BLOCK_BYTES, SegmentHeader, block_bytes};
use crate::stock::Room;
use base::{Lsn, Result};
use io::{Dir, File, LogMap};
use std::sync::Arc;

/// Up to this many bytes, a second copy costs less than a second call of the mapping.
const COPY_TWICE_BYTES: usize = 512;

/// A buffer that grew beyond this for a long payload is given back.
const KEPT_BUFFER_BYTES: usize = 1 << 20;

/// A segment whose whole file has its room on the disk: its blocks are stores into a mapping where the file can be
/// mapped, and writes otherwise.
#[derive(Debug)]
pub(crate) struct Segment {
    pub header: SegmentHeader,
    pub file: Arc<dyn File>,
    pub map: Option<Arc<dyn LogMap>>,
    /// How its file got its room, as far as blocks were not written since.
    pub room: Room,
}

impl Segment {
    /// The segment in `file`, which `header` and `room` describe truly.
    pub fn new(header: SegmentHeader, file: Arc<dyn File>, room: Room) -> Result<Segment> {
        let map = file.map(header.len_bytes)?;
        Ok(Segment { header, file, map, room })
    }

    /// Opens the file of `header`, to go on in it. A copy of the directory may have holes where it was allocated and
    /// never written: they get their room again.
    pub fn open_to_append(dir: &Arc<dyn Dir>, header: SegmentHeader, room: Room) -> Result<Segment> {
        let file = dir.open(&header.name())?;
        file.allocate(header.len_bytes)?;
        Segment::new(header, file, room)
    }

    /// Opens the file of `header`, to which nothing will be written.
    pub fn open(dir: &Arc<dyn Dir>, header: SegmentHeader) -> Result<Segment> {
        Segment::new(header, dir.open(&header.name())?, Room::Written)
    }

    /// Whether blocks are stores into a mapping.
    pub fn is_mapped(&self) -> bool {
        self.map.is_some()
    }

    /// Whether a block with this much payload fits at `at` and leaves room for an end block.
    #[inline]
    pub fn has_room(&self, at: Lsn, payload_bytes: usize) -> bool {
        self.header.offset_of(at) + block_bytes(payload_bytes) + END_BLOCK_BYTES <= self.header.len_bytes
    }

    /// Writes the parts of a block at `lsn`, which has room for them: assembled in `buffer` and written at once, or, if
    /// long, stored into the mapping straight from where they are.
    #[inline]
    pub fn write(&self, lsn: Lsn, head: &[u8], payload: &[u8], buffer: &mut Vec<u8>) -> Result<()> {
        let offset = self.header.offset_of(lsn);
        debug_assert!(offset + (head.len() + payload.len()) as u64 <= self.header.len_bytes);
        if let Some(map) = self.map.as_deref().filter(|_| payload.len() > COPY_TWICE_BYTES) {
            map.write(offset, head);
            map.write(offset + head.len() as u64, payload);
            return Ok(());
        }
        buffer.clear();
        buffer.extend_from_slice(head);
        buffer.extend_from_slice(payload);
        match &self.map {
            Some(map) => map.write(offset, buffer),
            None => self.file.write_at(buffer, offset)?,
        }
        if buffer.capacity() > KEPT_BUFFER_BYTES {
            *buffer = Vec::new();
        }
        Ok(())
    }
}
