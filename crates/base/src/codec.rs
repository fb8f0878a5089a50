//! Conversion between bytes and numbers. Reading never panics: it returns `None` where bytes are missing.

/// A reader from the front of a byte slice. Every method returns `None` if there are too few bytes or they are not
/// valid, and then leaves the reader where it was.
///
/// ```
/// use pando_base::codec::{Reader, Writer};
/// let mut bytes = Vec::new();
/// bytes.put_varint(300);
/// bytes.put_bytes(b"abc");
/// let mut reader = Reader::new(&bytes);
/// assert_eq!(reader.varint(), Some(300));
/// assert_eq!(reader.bytes(), Some(&b"abc"[..]));
/// assert_eq!(reader.u8(), None);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Creates a reader of all of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// Returns the bytes that were not read yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns whether everything was read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads the next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(n)?;
        self.rest = tail;
        Some(head)
    }

    /// Reads the next `N` bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N).map(|bytes| bytes.try_into().expect("take gave N bytes"))
    }

    /// Reads one byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|b| b[0])
    }

    /// Reads a little-endian `u16`.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Reads a little-endian `u32`.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads a little-endian `u64`.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a LEB128 number of at most 64 bits: seven bits in each byte, low bits first. Rejects a form that is
    /// longer than needed, which no writer makes.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        let (&first, tail) = self.rest.split_first()?;
        if first < 0x80 {
            self.rest = tail;
            return Some(u64::from(first));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for (index, &byte) in self.rest.iter().take(10).enumerate() {
            let bits = u64::from(byte & 0x7f);
            if index == 9 && bits > 1 {
                return None;
            }
            value |= bits << (7 * index);
            if byte < 0x80 {
                if byte == 0 {
                    return None;
                }
                self.rest = &self.rest[index + 1..];
                return Some(value);
            }
        }
        None
    }

    /// Reads a length as a varint, followed by that many bytes.
    #[inline]
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let before = *self;
        let length = self.varint()?;
        let taken = usize::try_from(length).ok().and_then(|n| self.take(n));
        if taken.is_none() {
            *self = before;
        }
        taken
    }
}

/// Appends encoded values to a growing buffer, the counterpart of [`Reader`].
pub trait Writer {
    /// Appends bytes as they are.
    fn put(&mut self, bytes: &[u8]);

    /// Appends one byte.
    #[inline]
    fn put_u8(&mut self, value: u8) {
        self.put(&[value]);
    }
    /// Appends a little-endian `u16`.
    #[inline]
    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }
    /// Appends a little-endian `u32`.
    #[inline]
    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }
    /// Appends a little-endian `u64`.
    #[inline]
    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }
    /// Appends a LEB128 number, which [`Reader::varint`] reads.
    #[inline]
    fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.put_u8(value as u8);
    }
    /// Appends a length as a varint, followed by the bytes.
    #[inline]
    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_varint(bytes.len() as u64);
        self.put(bytes);
    }
}

impl Writer for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_come_back(value: u64) {
            let mut bytes = Vec::new();
            bytes.put_varint(value);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.varint(), Some(value));
            prop_assert!(reader.is_empty());
            for cut in 0..bytes.len() {
                let mut short = Reader::new(&bytes[..cut]);
                prop_assert_eq!(short.varint(), None);
                prop_assert_eq!(short.rest().len(), cut);
            }
        }
    }

    #[test]
    fn a_varint_has_one_form() {
        assert_eq!(Reader::new(&[0x80, 0x00]).varint(), None);
        assert_eq!(Reader::new(&[0xff; 11]).varint(), None);
        assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]).varint(), None);
    }

    #[test]
    fn a_length_that_overruns_leaves_the_reader_in_place() {
        let mut reader = Reader::new(&[5, 1, 2]);
        assert_eq!(reader.bytes(), None);
        assert_eq!(reader.rest(), &[5, 1, 2]);
    }
}
