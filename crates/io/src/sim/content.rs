//! The bytes of a file, shared copy-on-write in blocks, and the bytes of a write, cut at the same blocks.
//!
//! 1. `blocks.len()` is the length in blocks, rounded up; bytes of the last block past the length are zero.
//! 2. A block that was never written, or that was discarded, is a hole: `None`, which reads as zeros.
//! 3. A block's hash is computed once, however many files, images and disks share it. So taking and fingerprinting
//!    an image costs one reference count and one hash step a block, and copies only what is torn.

use std::sync::{Arc, LazyLock, OnceLock};

pub(super) const BLOCK_BYTES: usize = 4096;
const BLOCK: u64 = BLOCK_BYTES as u64;

pub(super) struct Block {
    bytes: [u8; BLOCK_BYTES],
    hash: OnceLock<u64>,
}

impl Block {
    fn new(bytes: [u8; BLOCK_BYTES]) -> Block {
        Block { bytes, hash: OnceLock::new() }
    }

    fn hash(&self) -> u64 {
        *self.hash.get_or_init(|| base::checksum::header(&self.bytes))
    }
}

impl Clone for Block {
    /// A copy is made to be changed: it does not inherit the hash.
    fn clone(&self) -> Block {
        Block::new(self.bytes)
    }
}

static ZEROS: LazyLock<Arc<Block>> = LazyLock::new(|| Arc::new(Block::new([0; BLOCK_BYTES])));

/// Folds `word` into `state`: the finalizer of SplitMix64.
pub(super) fn fold(state: u64, word: u64) -> u64 {
    let mut z = state.rotate_left(23).wrapping_add(0x9e37_79b9_7f4a_7c15) ^ word;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[derive(Clone, Default)]
pub(super) struct Content {
    len: u64,
    blocks: Vec<Option<Arc<Block>>>,
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns how many blocks hold disk space.
    pub(super) fn allocated_blocks(&self) -> u64 {
        self.blocks.iter().flatten().count() as u64
    }

    /// Returns whether the block that holds byte `offset` has disk space.
    pub(super) fn is_allocated(&self, offset: u64) -> bool {
        self.blocks.get((offset / BLOCK) as usize).is_some_and(Option::is_some)
    }

    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let count = self.len.saturating_sub(offset).min(buffer.len() as u64) as usize;
        for (at, part) in parts(offset, count) {
            let target = &mut buffer[(at - offset) as usize..][..part];
            match &self.blocks[(at / BLOCK) as usize] {
                Some(block) => target.copy_from_slice(&block.bytes[(at % BLOCK) as usize..][..part]),
                None => target.fill(0),
            }
        }
        count
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        if bytes.is_empty() {
            return;
        }
        self.resize(self.len.max(offset + bytes.len() as u64));
        for (at, part) in parts(offset, bytes.len()) {
            let source = &bytes[(at - offset) as usize..][..part];
            self.block_mut(at)[(at % BLOCK) as usize..][..part].copy_from_slice(source);
        }
    }

    /// Writes a whole block by sharing it.
    fn share(&mut self, block: &Arc<Block>, offset: u64) {
        self.resize(self.len.max(offset + BLOCK));
        self.blocks[(offset / BLOCK) as usize] = Some(Arc::clone(block));
    }

    /// Returns the bytes of the block that holds `offset`, to be changed.
    fn block_mut(&mut self, offset: u64) -> &mut [u8; BLOCK_BYTES] {
        let slot = self.blocks[(offset / BLOCK) as usize].get_or_insert_with(|| Arc::clone(&ZEROS));
        let block = Arc::make_mut(slot);
        block.hash.take();
        &mut block.bytes
    }

    pub(super) fn resize(&mut self, len: u64) {
        if len < self.len && !len.is_multiple_of(BLOCK) && self.is_allocated(len) {
            self.block_mut(len)[(len % BLOCK) as usize..].fill(0);
        }
        self.blocks.resize(len.div_ceil(BLOCK) as usize, None);
        self.len = len;
    }

    /// Allocates disk space for the blocks of `len` bytes from `offset` on.
    pub(super) fn allocate(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        self.resize(self.len.max(end));
        for block in &mut self.blocks[(offset / BLOCK) as usize..end.div_ceil(BLOCK) as usize] {
            block.get_or_insert_with(|| Arc::clone(&ZEROS));
        }
    }

    /// Turns the whole blocks of a range into holes, and the rest of it into zeros.
    pub(super) fn punch(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.len);
        let Some(count) = end.checked_sub(offset) else { return };
        for (at, part) in parts(offset, count as usize) {
            if part == BLOCK_BYTES || (at % BLOCK == 0 && at + part as u64 == self.len) {
                self.blocks[(at / BLOCK) as usize] = None;
            } else if self.is_allocated(at) {
                self.block_mut(at)[(at % BLOCK) as usize..][..part].fill(0);
            }
        }
    }

    /// Returns a hash of the length and all bytes; a hole and zeros are the same.
    pub(super) fn fingerprint(&self) -> u64 {
        let hashes = self.blocks.iter().map(|block| block.as_ref().unwrap_or(&ZEROS).hash());
        hashes.fold(self.len, fold)
    }
}

/// Cuts `offset..offset + len` at block borders. Returns the start and the length of each part.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize)> {
    let end = offset + len as u64;
    let mut at = offset;
    std::iter::from_fn(move || {
        let part = (BLOCK - at % BLOCK).min(end - at);
        let start = at;
        at += part;
        (part > 0).then_some((start, part as usize))
    })
}

/// The bytes of one write. Cloning shares them.
#[derive(Clone)]
pub struct Payload {
    offset: u64,
    len: u64,
    pieces: Arc<[Piece]>,
}

/// A part of a write, within one block.
#[derive(Clone)]
enum Piece {
    Whole { offset: u64, block: Arc<Block> },
    Part { offset: u64, bytes: Arc<[u8]> },
}

impl Piece {
    fn part(offset: u64, bytes: &[u8]) -> Piece {
        match <[u8; BLOCK_BYTES]>::try_from(bytes) {
            Ok(bytes) => Piece::Whole { offset, block: Arc::new(Block::new(bytes)) },
            Err(_) => Piece::Part { offset, bytes: bytes.into() },
        }
    }

    fn bytes(&self) -> (u64, &[u8]) {
        match self {
            Piece::Whole { offset, block } => (*offset, &block.bytes),
            Piece::Part { offset, bytes } => (*offset, bytes),
        }
    }

    fn apply(&self, content: &mut Content) {
        match self {
            Piece::Whole { offset, block } => content.share(block, *offset),
            Piece::Part { offset, bytes } => content.write(bytes, *offset),
        }
    }
}

impl Payload {
    pub(super) fn new(bytes: &[u8], offset: u64) -> Payload {
        let piece = |(at, part): (u64, usize)| Piece::part(at, &bytes[(at - offset) as usize..][..part]);
        Payload { offset, len: bytes.len() as u64, pieces: parts(offset, bytes.len()).map(piece).collect() }
    }

    /// Returns the offset of the first byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the write is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the offset after the last byte.
    pub fn end(&self) -> u64 {
        self.offset + self.len
    }

    /// Returns how many sectors of `sector_bytes` the write touches.
    pub fn sectors(&self, sector_bytes: u64) -> u64 {
        if self.is_empty() { 0 } else { (self.end() - 1) / sector_bytes - self.offset / sector_bytes + 1 }
    }

    pub(super) fn apply(&self, content: &mut Content) {
        self.pieces.iter().for_each(|piece| piece.apply(content));
    }

    /// Applies the sectors (counted from the first that the write touches) for which `keep` returns true.
    pub(super) fn apply_sectors(
        &self,
        content: &mut Content,
        sector_bytes: u64,
        mut keep: impl FnMut(u64) -> bool,
    ) {
        debug_assert!(BLOCK.is_multiple_of(sector_bytes));
        let first = self.offset / sector_bytes;
        for (start, bytes) in self.pieces.iter().map(Piece::bytes) {
            let end = start + bytes.len() as u64;
            for sector in start / sector_bytes..=(end - 1) / sector_bytes {
                if keep(sector - first) {
                    let from = start.max(sector * sector_bytes);
                    let to = end.min((sector + 1) * sector_bytes);
                    content.write(&bytes[(from - start) as usize..(to - start) as usize], from);
                }
            }
        }
    }

    /// Returns what is left of the write outside `start..end`, or `None` if that is nothing.
    pub(super) fn without(&self, start: u64, end: u64) -> Option<Payload> {
        let mut pieces = Vec::new();
        for piece in self.pieces.iter() {
            let (from, bytes) = piece.bytes();
            let to = from + bytes.len() as u64;
            if to <= start || end <= from {
                pieces.push(piece.clone());
                continue;
            }
            if from < start {
                pieces.push(Piece::part(from, &bytes[..(start - from) as usize]));
            }
            if end < to {
                pieces.push(Piece::part(end, &bytes[(end - from) as usize..]));
            }
        }
        (!pieces.is_empty()).then(|| Payload { pieces: pieces.into(), ..*self })
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes at {}", self.len, self.offset)
    }
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes, {:016x}", self.len, self.fingerprint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::env::Random;

    fn bytes_of(content: &Content) -> Vec<u8> {
        let mut bytes = vec![0xee; content.len() as usize];
        assert_eq!(content.read(&mut bytes, 0), bytes.len());
        bytes
    }

    #[test]
    fn behaves_like_a_vector() {
        let mut random = Random::seeded(1);
        for _ in 0..40 {
            let (mut content, mut model) = (Content::default(), Vec::new());
            for step in 0..60_u8 {
                let (offset, len) = (random.below(20_000), random.below(9_000) as usize);
                match random.below(5) {
                    4 => {
                        content.allocate(0, offset);
                        model.resize(model.len().max(offset as usize), 0);
                        assert!((0..offset).step_by(BLOCK_BYTES).all(|at| content.is_allocated(at)));
                    }
                    0 => {
                        content.resize(offset);
                        model.resize(offset as usize, 0);
                    }
                    1 => {
                        content.punch(offset, len as u64);
                        let end = (offset as usize + len).min(model.len());
                        model[(offset as usize).min(end)..end].fill(0);
                    }
                    _ => {
                        let bytes = vec![step | 128; len];
                        Payload::new(&bytes, offset).apply(&mut content);
                        if len > 0 {
                            model.resize(model.len().max(offset as usize + len), 0);
                            model[offset as usize..][..len].copy_from_slice(&bytes);
                        }
                    }
                }
                assert_eq!(bytes_of(&content), model);
                let mut again = Content::default();
                again.write(&model, 0);
                assert_eq!(again.fingerprint(), content.fingerprint(), "one content, one fingerprint");
            }
        }
    }

    #[test]
    fn sectors_and_remainders_cover_a_write_exactly() {
        let payload = Payload::new(&[7; 9000], 1000);
        assert_eq!((payload.sectors(512), payload.sectors(4096)), (19, 3));
        for sector_bytes in [512, 4096] {
            let mut pieces = Content::default();
            for kept in (0..payload.sectors(sector_bytes)).rev() {
                payload.apply_sectors(&mut pieces, sector_bytes, |sector| sector == kept);
            }
            let mut whole = Content::default();
            payload.apply(&mut whole);
            assert_eq!(bytes_of(&pieces), bytes_of(&whole));
        }
        let left = payload.without(3000, 5000).expect("both ends are left");
        let mut content = Content::default();
        content.write(&[1; 11_000], 0);
        left.apply(&mut content);
        let bytes = bytes_of(&content);
        assert!(bytes[1000..3000].iter().chain(&bytes[5000..10_000]).all(|&byte| byte == 7));
        assert!(
            bytes[..1000].iter().chain(&bytes[3000..5000]).chain(&bytes[10_000..]).all(|&byte| byte == 1)
        );
        assert!(payload.without(0, u64::MAX).is_none());
    }
}
