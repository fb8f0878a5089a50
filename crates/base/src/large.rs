//! The name of a value that lies in extents of its own, as leaves, log records and memtables hold it.

use crate::PagePtr;

/// Where a value lies that is too long for a page, or for the log.
///
/// Without [`PagePtr::IN_PIECES`] the pointer names the one extent that the value fills, and its checksum covers
/// exactly `len_bytes` bytes, not the padding of the last unit. With it, it names an index: the list of the pieces.
///
/// The first bytes of the value are here as well, so that what lies in front of it, as the date of a table with a TTL
/// does, is read without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeRef {
    /// Where.
    pub ptr: PagePtr,
    /// How long the value is.
    pub len_bytes: u64,
    /// Its first bytes; zeros behind a shorter one.
    pub head: [u8; 8],
}

impl LargeRef {
    /// Bytes of the encoded form: the pointer, the length as a little-endian `u64`, the first bytes of the value.
    pub const BYTES: usize = PagePtr::BYTES + 16;

    /// The first bytes of `value`, as a reference to it holds them.
    pub fn head_of(value: &[u8]) -> [u8; 8] {
        let mut head = [0; 8];
        let len = value.len().min(head.len());
        head[..len].copy_from_slice(&value[..len]);
        head
    }

    /// Whether the pointer names an index of pieces.
    #[inline]
    pub fn is_in_pieces(self) -> bool {
        self.ptr.flags() & PagePtr::IN_PIECES != 0
    }

    /// The on-disk form.
    #[inline]
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..PagePtr::BYTES].copy_from_slice(&self.ptr.encode());
        out[PagePtr::BYTES..][..8].copy_from_slice(&self.len_bytes.to_le_bytes());
        out[PagePtr::BYTES + 8..].copy_from_slice(&self.head);
        out
    }

    /// Reads the on-disk form. Any 32 bytes are some reference; who follows it checks that the length fits the
    /// extents, and the extents the file.
    #[inline]
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let ptr = PagePtr::decode(bytes.first_chunk().expect("16 of 32 bytes"));
        let len_bytes = u64::from_le_bytes(*bytes[PagePtr::BYTES..].first_chunk().expect("8 of 32 bytes"));
        LargeRef { ptr, len_bytes, head: *bytes.last_chunk().expect("8 of 32 bytes") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_comes_back() {
        let ptr = PagePtr::new(9, 300, 0xabcd).with_flags(1);
        let large = LargeRef { ptr, len_bytes: 1_228_000, head: *b"aspenash" };
        assert_eq!(LargeRef::decode(&large.encode()), large);
    }
}
