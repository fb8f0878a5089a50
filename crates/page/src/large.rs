//! What a leaf's entry holds: a value, a reference to one that lies outside the page, or that there is none.

use base::PagePtr;

/// A value longer than `base::limits::max_inline_bytes`, in an extent of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeRef {
    /// Where. Its checksum covers exactly `len_bytes` bytes, not the padding of the last unit.
    pub ptr: PagePtr,
    /// How long the value is.
    pub len_bytes: u64,
}

impl LargeRef {
    /// Bytes of the encoded form: the pointer, then the length as a little-endian `u64`.
    pub const BYTES: usize = PagePtr::BYTES + 8;

    /// The on-disk form.
    #[inline]
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..PagePtr::BYTES].copy_from_slice(&self.ptr.encode());
        out[PagePtr::BYTES..].copy_from_slice(&self.len_bytes.to_le_bytes());
        out
    }

    /// Reads the on-disk form. Any 24 bytes are some reference; who follows it checks that the length fits the
    /// extent, and the extent the file.
    #[inline]
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let ptr = PagePtr::decode(bytes.first_chunk().expect("16 of 24 bytes"));
        let len_bytes = u64::from_le_bytes(*bytes.last_chunk().expect("8 of 24 bytes"));
        LargeRef { ptr, len_bytes }
    }
}

/// What a leaf's entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// The value itself.
    Inline(&'a [u8]),
    /// Where the value is.
    Large(LargeRef),
    /// The key is deleted, whatever older runs say. In runs that lie over others alone: see `run::Run::deletes`.
    Deleted,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_comes_back() {
        let large = LargeRef { ptr: PagePtr::new(9, 300, 0xabcd).with_flags(1), len_bytes: 1_228_000 };
        assert_eq!(LargeRef::decode(&large.encode()), large);
    }
}
