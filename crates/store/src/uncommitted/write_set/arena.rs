//! Bytes that are appended and never move.
//!
//! Chunks double from 4 KiB to 1 MiB, so that a small transaction owns little and a huge one copies nothing when it
//! grows. Bytes that are longer than a quarter of a chunk get one of their own size.

/// The size of the first chunk: a transaction of a few dozen small records fits.
const FIRST_CHUNK_BYTES: usize = 4 << 10;
const MAX_CHUNK_BYTES: usize = 1 << 20;
/// The size up to which an emptied arena keeps memory.
const KEPT_BYTES: usize = 16 << 10;

/// The offset of some bytes: the chunk in the high half, the offset in the low half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offset(u64);

impl Offset {
    fn new(chunk: usize, offset: usize) -> Self {
        Offset((chunk as u64) << 32 | offset as u64)
    }

    /// Stores a number in the form of an offset.
    pub(super) fn of_index(index: usize) -> Self {
        Offset(index as u64)
    }

    /// Returns the number that [`Offset::of_index`] stored.
    pub(super) fn as_index(self) -> usize {
        self.0 as usize
    }

    /// Returns the offset `bytes` after this one, in the same chunk.
    #[inline]
    pub(super) fn plus(self, bytes: usize) -> Self {
        Offset(self.0 + bytes as u64)
    }
}

/// The size of the arena at some time.
#[derive(Debug)]
pub(super) struct Mark {
    lengths: Vec<usize>,
    filling: usize,
    used_bytes: usize,
}

impl Mark {
    /// Returns the bytes of memory that it takes besides itself.
    pub(super) fn bytes(&self) -> usize {
        size_of::<usize>() * self.lengths.capacity()
    }
}

/// An arena; see the module. An empty one owns no memory.
#[derive(Debug, Default)]
pub(super) struct Arena {
    chunks: Vec<Vec<u8>>,
    /// The chunk that is being filled.
    filling: usize,
    used_bytes: usize,
    /// The bytes of all chunks, used or not.
    held_bytes: usize,
}

impl Arena {
    /// Appends `first` and `second` next to each other and returns the offset of `first`.
    #[inline]
    pub(super) fn append(&mut self, first: &[u8], second: &[u8]) -> Offset {
        let bytes = first.len() + second.len();
        self.used_bytes += bytes;
        let fits = |chunk: &Vec<u8>| chunk.capacity() - chunk.len() >= bytes;
        let at = match self.chunks.get(self.filling) {
            Some(chunk) if fits(chunk) => self.filling,
            _ => self.make_room(bytes),
        };
        let chunk = &mut self.chunks[at];
        let offset = Offset::new(at, chunk.len());
        chunk.extend_from_slice(first);
        chunk.extend_from_slice(second);
        offset
    }

    /// Returns a chunk with room for `bytes`: the next one to fill, or one of its own for long ones.
    #[cold]
    fn make_room(&mut self, bytes: usize) -> usize {
        if bytes > MAX_CHUNK_BYTES / 4 {
            self.chunks.push(Vec::with_capacity(bytes));
            self.held_bytes += bytes;
            return self.chunks.len() - 1;
        }
        // A kept, emptied chunk may follow; a long value's own chunk has no room and is skipped.
        let empty = |chunk: &Vec<u8>| chunk.is_empty() && chunk.capacity() >= bytes;
        let kept = (self.filling + 1..self.chunks.len()).find(|&at| empty(&self.chunks[at]));
        self.filling = kept.unwrap_or_else(|| {
            let size = (FIRST_CHUNK_BYTES << self.chunks.len().min(8)).min(MAX_CHUNK_BYTES).max(bytes);
            self.chunks.push(Vec::with_capacity(size));
            self.held_bytes += size;
            self.chunks.len() - 1
        });
        self.filling
    }

    /// Returns the `len` bytes at `offset`.
    #[inline]
    pub(super) fn get(&self, offset: Offset, len: usize) -> &[u8] {
        let (chunk, offset) = ((offset.0 >> 32) as usize, offset.0 as u32 as usize);
        &self.chunks[chunk][offset..offset + len]
    }

    /// Overwrites the bytes at `offset`.
    #[inline]
    pub(super) fn overwrite(&mut self, offset: Offset, bytes: &[u8]) {
        let (chunk, offset) = ((offset.0 >> 32) as usize, offset.0 as u32 as usize);
        self.chunks[chunk][offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    /// Returns a mark for [`Arena::truncate`].
    pub(super) fn mark(&self) -> Mark {
        let lengths = self.chunks.iter().map(Vec::len).collect();
        Mark { lengths, filling: self.filling, used_bytes: self.used_bytes }
    }

    /// Forgets what was appended since `mark`.
    pub(super) fn truncate(&mut self, mark: &Mark) {
        self.chunks.truncate(mark.lengths.len());
        self.held_bytes = self.chunks.iter().map(Vec::capacity).sum();
        self.chunks.iter_mut().zip(&mark.lengths).for_each(|(chunk, length)| chunk.truncate(*length));
        (self.filling, self.used_bytes) = (mark.filling, mark.used_bytes);
    }

    /// Frees the room that chunks have for more.
    pub(super) fn shrink_to_fit(&mut self) {
        self.chunks.iter_mut().for_each(Vec::shrink_to_fit);
        self.held_bytes = self.chunks.iter().map(Vec::capacity).sum();
    }

    /// Returns the number of bytes appended since the last [`Arena::clear`].
    pub(super) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Returns the number of bytes of all chunks.
    #[inline]
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Forgets all bytes. It keeps small chunks, at most 16 KiB: less than what a transaction is not charged for.
    pub(super) fn clear(&mut self) {
        self.used_bytes = 0;
        self.filling = 0;
        self.held_bytes = 0;
        self.chunks.retain_mut(|chunk| {
            chunk.clear();
            let is_kept = self.held_bytes + chunk.capacity() <= KEPT_BYTES;
            self.held_bytes += if is_kept { chunk.capacity() } else { 0 };
            is_kept
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_where_they_were_put() {
        let mut arena = Arena::default();
        for round in 0..3 {
            let sizes = (0..400).map(|n| if n % 50 == 49 { 300 << 10 } else { n * 7 });
            let places: Vec<_> = sizes
                .enumerate()
                .map(|(n, size)| (arena.append(&[n as u8], &vec![n as u8; size]), size))
                .collect();
            for (n, &(offset, size)) in places.iter().enumerate() {
                assert!(arena.get(offset, size + 1).iter().all(|&byte| byte == n as u8), "round {round}");
            }
            arena.clear();
            assert!(arena.chunks.iter().map(Vec::capacity).sum::<usize>() <= KEPT_BYTES);
        }
    }

    #[test]
    fn what_is_held_is_what_the_chunks_take() {
        let mut arena = Arena::default();
        let is_true = |arena: &Arena| {
            assert_eq!(arena.held_bytes(), arena.chunks.iter().map(Vec::capacity).sum::<usize>());
        };
        let fill = |arena: &mut Arena| {
            for n in 0..300 {
                arena.append(&[1; 5000], &[]);
                if n % 70 == 9 {
                    arena.append(&[2; 300 << 10], &[]);
                }
                is_true(arena);
            }
        };
        fill(&mut arena);
        let mark = arena.mark();
        for _ in 0..3 {
            fill(&mut arena);
            arena.truncate(&mark);
            is_true(&arena);
        }
        arena.shrink_to_fit();
        is_true(&arena);
        assert_eq!(arena.held_bytes(), arena.used_bytes());
        fill(&mut arena);
        arena.clear();
        is_true(&arena);
    }
}
