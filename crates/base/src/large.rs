//! What a layer knows of a key: its value, a reference to a value in extents of its own, or that it is deleted.

use crate::PagePtr;

/// The contents of a key in one layer: the writes of a transaction, a memtable, a run or a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// The key has this value.
    Inline(&'a [u8]),
    /// The key has a value that is stored in extents of its own.
    Large(Large<'a>),
    /// The key is deleted, whatever lower layers contain. The lowest layer of a table has no such entry.
    Deleted,
}

/// A reference to a large value in its on-disk form, with as many of the value's first bytes after it as this layer
/// has: at most [`limits::beginning_bytes`](crate::limits::beginning_bytes), and none in memory and in the log.
///
/// ```
/// use pando_base::{Large, LargeRef, PagePtr};
/// let reference = LargeRef { ptr: PagePtr::new(9, 2, 0xabcd), len_bytes: 8000, head: *b"title: x" };
/// let encoded = [&reference.encode()[..], b"title: xy"].concat();
/// let large = Large::of(&encoded);
/// assert_eq!((large.reference(), large.beginning()), (reference, &b"title: xy"[..]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Large<'a>(&'a [u8]);

impl<'a> Large<'a> {
    /// Takes encoded bytes. Panics if there are too few for a reference.
    #[inline]
    pub fn of(bytes: &'a [u8]) -> Large<'a> {
        assert!(bytes.len() >= LargeRef::BYTES, "a large reference's bytes");
        Large(bytes)
    }

    /// Returns the encoded bytes.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns the encoded bytes of the reference alone.
    #[inline]
    pub fn encoded_reference(self) -> &'a [u8; LargeRef::BYTES] {
        self.0.first_chunk().expect("checked when it was made")
    }

    /// Returns the reference.
    #[inline]
    pub fn reference(self) -> LargeRef {
        LargeRef::decode(self.encoded_reference())
    }

    /// Returns the first bytes of the value, as far as they are known here.
    #[inline]
    pub fn beginning(self) -> &'a [u8] {
        &self.0[LargeRef::BYTES..]
    }
}

/// A reference to a value that is too long for a page, or for the log.
///
/// Without [`PagePtr::IN_PIECES`] the pointer names the one extent that the value fills, and its checksum covers
/// exactly `len_bytes` bytes, not the padding of the last unit. With the flag, the pointer names an index: the list of
/// the pieces.
///
/// The reference also holds the first bytes of the value, so that a prefix of it (the expiry date in a table with a
/// TTL) is read without the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeRef {
    /// The pointer to the extent or to the index.
    pub ptr: PagePtr,
    /// The length of the value in bytes.
    pub len_bytes: u64,
    /// The first bytes of the value, padded with zeros if it is shorter.
    pub head: [u8; 8],
}

impl LargeRef {
    /// The length of the encoded form in bytes: the pointer, the length as a little-endian `u64`, the first bytes.
    pub const BYTES: usize = PagePtr::BYTES + 16;

    /// Returns the first bytes of `value`, as a reference to it holds them.
    pub fn head_of(value: &[u8]) -> [u8; 8] {
        let mut head = [0; 8];
        let len = value.len().min(head.len());
        head[..len].copy_from_slice(&value[..len]);
        head
    }

    /// Returns whether the value can begin with `beginning`: the first bytes in the reference are the same.
    pub fn begins_with(self, beginning: &[u8]) -> bool {
        let compared = beginning.len().min(self.head.len());
        self.head[..compared] == beginning[..compared]
    }

    /// Returns whether the pointer names an index of pieces.
    #[inline]
    pub fn is_in_pieces(self) -> bool {
        self.ptr.flags() & PagePtr::IN_PIECES != 0
    }

    /// Returns the on-disk form.
    #[inline]
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..PagePtr::BYTES].copy_from_slice(&self.ptr.encode());
        out[PagePtr::BYTES..][..8].copy_from_slice(&self.len_bytes.to_le_bytes());
        out[PagePtr::BYTES + 8..].copy_from_slice(&self.head);
        out
    }

    /// Returns the on-disk form with the value's beginning after it, in a buffer whose content it replaces.
    pub fn encode_with<'b>(self, beginning: &[u8], buffer: &'b mut Vec<u8>) -> Large<'b> {
        buffer.clear();
        buffer.extend_from_slice(&self.encode());
        buffer.extend_from_slice(beginning);
        Large(buffer)
    }

    /// Decodes the on-disk form. Any 32 bytes decode to a reference. The code that follows it checks that the length
    /// fits the extents, and that the extents lie within the file.
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
