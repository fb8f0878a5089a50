//! One segment file that is being written.

use crate::format::{ALIGN_BYTES, END_BLOCK_BYTES, SegmentHeader, block_bytes};
use crate::stock::Room;
use base::{Lsn, Result};
use io::{Dir, File, LogMap};
use std::sync::Arc;

/// The way in which a block is written to its file. In all cases it is then in the page cache, and survives a killed
/// process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By stores into the mapping, if the file is mapped: no system call.
    Store,
    /// By a system call. A page that was stored into must be taken from the mapping when it is flushed, which
    /// interrupts the processors on which the process has threads, and the next store into it is a page fault. So
    /// between two flushes one or two blocks are written more cheaply by calls.
    Call,
    /// By system calls that each write to one piece of the file, if it is mapped: see [`PIECE_BYTES`].
    Pieces,
}

impl Way {
    /// Returns the cheaper way for a block that is not to be synced at once.
    #[inline]
    pub fn unsynced(payload_bytes: usize) -> Way {
        if payload_bytes < CALL_BYTES { Way::Store } else { Way::Pieces }
    }
}

/// The payload in bytes from which on a call costs less than stores: the first store into each page is a fault, which
/// takes 5 us on ext4 in a virtual machine, where a call takes 2 us and another one for each page. Commits of one row
/// of 1 KiB are a sixth cheaper by stores, those of 3 KiB a seventh cheaper by calls.
const CALL_BYTES: usize = 2 << 10;

/// The pieces of a mapped file in which long unsynced blocks are written. A longer write fills the page cache with
/// larger folios, and a store into the mapping of a file that is used again dirties a whole one: a flush of 100 bytes
/// wrote up to 250 KiB, and with these pieces up to 16 KiB. Pieces of 4 KiB would cost a quarter more. Where commits
/// are synced, few blocks are stored, and they are written whole.
const PIECE_BYTES: u64 = 16 << 10;

/// The bytes of a block that is synced at once from which on the disk begins to write them while the commit is applied.
const BEGUN_BYTES: usize = 256 << 10;

/// The longest payload in bytes that is copied after its header before both are written: the copy costs less than a
/// second store or call. A longer payload is written from where it is.
const STORE_TWICE_BYTES: usize = 512;
const CALL_TWICE_BYTES: usize = 64 << 10;

/// A segment whose whole file has its disk space. If the file is mapped, blocks can be written by [`Way::Store`].
/// Otherwise all blocks are written by calls.
#[derive(Debug)]
pub(crate) struct Segment {
    pub header: SegmentHeader,
    pub file: Arc<dyn File>,
    pub map: Option<Arc<dyn LogMap>>,
    /// Whether the file is not mapped because it is too long.
    pub is_too_long: bool,
    /// How the space of the file was secured, as far as no blocks were written since.
    pub room: Room,
}

impl Segment {
    /// Returns the segment in `file`, which `header` and `room` must describe. Maps the file, if it can be mapped.
    pub fn new(header: SegmentHeader, file: Arc<dyn File>, room: Room) -> Result<Segment> {
        let map = file.map(header.len_bytes)?;
        if map.is_some() {
            // `Log::write_behind` begins them, in a thread for which no commit waits.
            file.begin_no_syncs();
        }
        Ok(Segment { header, file, map, is_too_long: false, room })
    }

    /// Opens the file of `header` to append to it. A copy of the directory may have holes where the file was allocated
    /// and never written, so their space is secured again. A file longer than `max_mapped_bytes`, made when the log had
    /// more memory, is not mapped.
    pub fn open_to_append(
        dir: &Arc<dyn Dir>,
        header: SegmentHeader,
        room: Room,
        max_mapped_bytes: u64,
    ) -> Result<Segment> {
        let file = dir.open(&header.name())?;
        file.allocate(header.len_bytes)?;
        if header.len_bytes > max_mapped_bytes {
            return Ok(Segment::too_long(header, file, room));
        }
        Segment::new(header, file, room)
    }

    /// Returns the segment in `file`, which is too long to be mapped.
    pub fn too_long(header: SegmentHeader, file: Arc<dyn File>, room: Room) -> Segment {
        Segment { header, file, map: None, is_too_long: true, room }
    }

    /// Opens the file of `header`, to which nothing is appended.
    pub fn open(dir: &Arc<dyn Dir>, header: SegmentHeader) -> Result<Segment> {
        let file = dir.open(&header.name())?;
        Ok(Segment { header, file, map: None, is_too_long: false, room: Room::Written })
    }

    /// Returns whether blocks are stored into a mapping.
    pub fn is_mapped(&self) -> bool {
        self.map.is_some()
    }

    /// Returns whether a block with this much payload fits at `at` and leaves room for an end block.
    #[inline]
    pub fn has_room(&self, at: Lsn, payload_bytes: usize) -> bool {
        self.header.offset_of(at) + block_bytes(payload_bytes) + END_BLOCK_BYTES <= self.header.len_bytes
    }

    /// Returns the length of the longest payload that fits at `at`, or less; 0 if there is no room.
    #[inline]
    pub fn room_bytes(&self, at: Lsn) -> u64 {
        let taken = self.header.offset_of(at) + block_bytes(0) + END_BLOCK_BYTES + ALIGN_BYTES;
        self.header.len_bytes.saturating_sub(taken)
    }

    /// Writes the parts of a block at `lsn`, which has room for them. A short block is assembled in `buffer` and
    /// written at once; a long payload is written from where it is.
    #[inline]
    pub fn write(&self, lsn: Lsn, head: &[u8], payload: &[u8], buffer: &mut Vec<u8>, way: Way) -> Result<()> {
        let offset = self.header.offset_of(lsn);
        debug_assert!(offset + (head.len() + payload.len()) as u64 <= self.header.len_bytes);
        let is_stored = way == Way::Store && self.is_mapped();
        if payload.len() > if is_stored { STORE_TWICE_BYTES } else { CALL_TWICE_BYTES } {
            self.put(way, offset, head)?;
            return self.put(way, offset + head.len() as u64, payload);
        }
        buffer.clear();
        buffer.extend_from_slice(head);
        buffer.extend_from_slice(payload);
        self.put(way, offset, buffer)
    }

    #[inline]
    fn put(&self, way: Way, offset: u64, bytes: &[u8]) -> Result<()> {
        match (way, &self.map) {
            (Way::Store, Some(map)) => map.write(offset, bytes),
            (Way::Pieces, Some(_)) => self.write_pieces(offset, bytes),
            (Way::Call, Some(_)) if bytes.len() >= BEGUN_BYTES => {
                self.file.write_at(bytes, offset)?;
                self.file.begin_sync();
                Ok(())
            }
            _ => self.file.write_at(bytes, offset),
        }
    }

    fn write_pieces(&self, mut offset: u64, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let room = PIECE_BYTES - offset % PIECE_BYTES;
            let (piece, rest) = bytes.split_at(bytes.len().min(room as usize));
            self.file.write_at(piece, offset)?;
            (offset, bytes) = (offset + piece.len() as u64, rest);
        }
        Ok(())
    }
}
