//! Reading a segment through one buffer that slides over it.

use crate::format::{
    BLOCK_HEADER_BYTES, BlockHeader, Place, SegmentHeader, block_bytes, block_checksum, stored_checksum,
};
use base::{Error, Lsn, Result};
use io::File;
use std::sync::Arc;

/// The least number of bytes that are read at once, if the file has them.
pub(crate) const READ_BYTES: u64 = 256 << 10;

/// A segment's file, up to the length in its header. It uses 256 KiB of memory, or the longest block if that is more.
#[derive(Debug)]
pub(crate) struct Window {
    pub header: SegmentHeader,
    file: Arc<dyn File>,
    buffer: Vec<u8>,
    start: u64,
}

/// What was found at an LSN.
pub(crate) enum Found<'a> {
    /// A block whose checksum is right.
    Block { header: BlockHeader, checksum: u64, payload: &'a [u8] },
    /// No valid block: what was expected, and what was found.
    Bad(String),
}

impl Window {
    /// Opens a window over the file of `header`. Returns `Corruption` if the file is shorter than it was made.
    pub fn open(dir: &Arc<dyn io::Dir>, header: SegmentHeader) -> Result<Window> {
        let file = dir.open(&header.name())?;
        let len = file.len()?;
        if len < header.len_bytes {
            let name = header.name();
            return Err(Error::corruption(format!(
                "{name}: expected {} bytes, found {len}",
                header.len_bytes
            )));
        }
        Ok(Window { header, file, buffer: Vec::new(), start: 0 })
    }

    /// Returns `bytes` bytes at `offset`, or `None` where the segment ends before.
    pub fn bytes(&mut self, offset: u64, bytes: usize) -> Result<Option<&[u8]>> {
        let end = offset.checked_add(bytes as u64).filter(|&end| end <= self.header.len_bytes);
        let Some(end) = end else { return Ok(None) };
        if offset < self.start || end > self.start + self.buffer.len() as u64 {
            let wanted = READ_BYTES.max(bytes as u64).min(self.header.len_bytes - offset) as usize;
            match wanted <= self.buffer.capacity() {
                true => self.buffer.resize(wanted, 0),
                // Memory that is new is zero already.
                false => self.buffer = vec![0; wanted],
            }
            self.start = offset;
            let read = self.file.read_exact_at(&mut self.buffer, offset);
            if read.is_err() {
                self.buffer.clear();
            }
            read?;
        }
        let from = (offset - self.start) as usize;
        Ok(Some(&self.buffer[from..from + bytes]))
    }

    /// Returns the bytes from `offset` on that are at hand after reading `bytes` of them: at least these, or none where
    /// the segment ends before.
    pub fn bytes_at_hand(&mut self, offset: u64, bytes: usize) -> Result<&[u8]> {
        match self.bytes(offset, bytes)? {
            Some(_) => Ok(&self.buffer[(offset - self.start) as usize..]),
            None => Ok(&[]),
        }
    }

    /// Drops the buffer, so that the bytes are read again.
    pub fn forget(&mut self) {
        self.buffer.clear();
    }

    /// Returns `bytes` bytes at `offset`, which lie within the last request.
    pub fn read_before(&self, offset: u64, bytes: usize) -> &[u8] {
        match bytes {
            0 => &[],
            _ => &self.buffer[(offset - self.start) as usize..][..bytes],
        }
    }

    /// Returns the header at `lsn`, if the bytes there have the form of one.
    #[inline]
    pub fn block_header(&mut self, lsn: Lsn) -> Result<Option<BlockHeader>> {
        let Some(bytes) = self.bytes(self.header.offset_of(lsn), BLOCK_HEADER_BYTES)? else {
            return Ok(None);
        };
        Ok(BlockHeader::decode(bytes.try_into().expect("as many as asked for")))
    }

    /// Returns the block at `lsn`, or why there is none.
    pub fn block(&mut self, lsn: Lsn) -> Result<Found<'_>> {
        let (offset, place) = (self.header.offset_of(lsn), self.header.place(lsn));
        let room = self.header.len_bytes - offset.min(self.header.len_bytes);
        let Some(header) = self.block_header(lsn)? else {
            return Ok(Found::Bad("expected a block header, found none".into()));
        };
        let bytes = block_bytes(header.payload_bytes as usize);
        match self.bytes(offset, bytes as usize)? {
            Some(block) => Ok(judge(header, place, block)),
            None => Ok(Found::Bad(format!("expected a block of at most {room} bytes, found one of {bytes}"))),
        }
    }

    /// Returns whether the bytes of the block header at `lsn` are all zero.
    pub fn is_blank(&mut self, lsn: Lsn) -> Result<bool> {
        let bytes = self.bytes(self.header.offset_of(lsn), BLOCK_HEADER_BYTES)?;
        Ok(bytes.is_some_and(|bytes| bytes.iter().all(|&byte| byte == 0)))
    }
}

fn judge(header: BlockHeader, place: Place, block: &[u8]) -> Found<'_> {
    let (head, rest) = block.split_first_chunk().expect("a block has a header");
    let payload = &rest[..header.payload_bytes as usize];
    let (expected, found) = (block_checksum(place, head, payload), stored_checksum(head));
    if expected == found {
        Found::Block { header, checksum: found, payload }
    } else {
        Found::Bad(format!("expected checksum {expected:016x}, found {found:016x}"))
    }
}
