//! The compressed form of a page, which takes fewer units on the disk than the page has.
//!
//! | bytes | field |
//! |---|---|
//! | 0-7 | checksum of bytes 8 to the end, as the pointer holds it |
//! | 8-63 | the page's header as it is, but for bytes 42-43: length of the block, not 0 |
//! | 64- | the block: bytes 64 to the end of the page, as an LZ4 block |
//! | | zeros to the end of the last unit |
//!
//! The compressed form takes as many units as the block needs, and always fewer than the page: a page that would not
//! become shorter is stored as it is. The pointer's length tells the two forms apart. In memory there are only whole
//! pages. Their byte 42 is 0, and their checksum field has no meaning if they were compressed.
//!
//! # Why the checksum covers the compressed bytes
//! The checksum is compared before a byte is decompressed, so damaged bytes are never interpreted. Bytes that pass may
//! still be forged, so they are not trusted: the output is bounded by the page, the block must fill it exactly, and the
//! page is verified like any other.
//!
//! LZ4: Yann Collet, "LZ4 Block Format Description", 2011-; the code is `lz4_flex`'s, without `unsafe`.

use crate::header::{HEADER_BYTES, field};
use crate::{Page, PageMut};
use base::limits::{MAX_PAGE_BYTES, UNIT_BYTES, is_page_size};
use base::{DatabaseId, Error, PagePtr, Result, checksum};
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};

const _: () = assert!(MAX_PAGE_BYTES - UNIT_BYTES <= u16::MAX as usize, "a block's length fits its field");

/// Compresses pages, one after the other, in memory that is allocated once: 8 KiB, and about a page.
#[derive(Default)]
pub struct Compressor {
    table: CompressTable,
    block: Vec<u8>,
}

/// The result of [`Compressor::compress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compressed {
    /// The bytes of the compressed form without padding. They are more than the page has if it cannot be compressed.
    pub compressed_bytes: usize,
    /// The units that the stored form takes: as many as the page has if it is stored as it is.
    pub units: u64,
}

impl Compressor {
    /// Appends to `out` the form in which `page` is to be stored. The caller seals it when its place is known. Clears
    /// the gap, which may hold older entries.
    pub fn compress(&mut self, page: &mut PageMut<'_>, out: &mut Vec<u8>) -> Compressed {
        page.clear_gap();
        let bytes: &[u8] = page.bytes;
        let cells = &bytes[HEADER_BYTES..];
        self.block.resize(get_maximum_output_size(cells.len()), 0);
        let block_bytes = compress_into_with_table(cells, &mut self.block, &mut self.table)
            .expect("there is room for a block of the greatest length");
        let compressed_bytes = HEADER_BYTES + block_bytes;
        let stored_bytes = compressed_bytes.next_multiple_of(UNIT_BYTES);
        if stored_bytes >= bytes.len() {
            out.extend_from_slice(bytes);
            return Compressed { compressed_bytes, units: (bytes.len() / UNIT_BYTES) as u64 };
        }
        let begins_at = out.len();
        out.extend_from_slice(&bytes[..HEADER_BYTES]);
        field::set_block_bytes(&mut out[begins_at..], block_bytes as u16);
        out.extend_from_slice(&self.block[..block_bytes]);
        out.resize(begins_at + stored_bytes, 0);
        Compressed { compressed_bytes, units: (stored_bytes / UNIT_BYTES) as u64 }
    }
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

/// Returns the bytes of the stored form that begins with `stored` (at least a header), if it is a compressed page's.
pub fn stored_bytes(stored: &[u8]) -> Option<usize> {
    match usize::from(field::block_bytes(stored)) {
        0 => None,
        block_bytes => Some((HEADER_BYTES + block_bytes).next_multiple_of(UNIT_BYTES)),
    }
}

/// Computes, stores and returns the checksum of a stored form, compressed or not, for its place at `unit`.
pub fn seal(stored: &mut [u8], database: DatabaseId, unit: u64) -> u64 {
    PageMut::edit(stored).seal_stored(database, unit)
}

impl<'a> Page<'a> {
    /// Decompresses `stored` into `bytes`. Checks that `stored` is what `ptr` points to, and everything that
    /// [`Page::verify`] checks. After an error the contents of `bytes` are undefined.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`](base::ErrorKind::Corruption) names the unit, what was expected and what was found.
    pub fn decompress(
        stored: &[u8],
        ptr: PagePtr,
        database: DatabaseId,
        bytes: &'a mut [u8],
    ) -> Result<Page<'a>> {
        let unit = ptr.unit();
        let refuse = |what: &str, expected: &dyn std::fmt::Display, found: usize| {
            Err(Error::corruption(format!(
                "compressed page at unit {unit}: {what}: expected {expected}, found {found}"
            )))
        };
        let is_shorter = stored.len() >= UNIT_BYTES && stored.len() < bytes.len();
        if !is_shorter || !is_page_size(bytes.len()) || ptr.len_bytes() != stored.len() {
            let expected = format!("whole units, fewer than the page's {}", bytes.len() / UNIT_BYTES);
            return refuse("length in bytes", &expected, stored.len());
        }
        check_checksum(stored, ptr, database)?;
        let block_bytes = usize::from(field::block_bytes(stored));
        let compressed_bytes = HEADER_BYTES + block_bytes;
        if stored_bytes(stored) != Some(stored.len()) {
            let expected = format!("one that needs {} units", ptr.units());
            return refuse("length of the block", &expected, block_bytes);
        }
        if let Some(at) = stored[compressed_bytes..].iter().position(|&byte| byte != 0) {
            return refuse("byte after the block", &"0", usize::from(stored[compressed_bytes + at]));
        }
        let (header, cells) = bytes.split_at_mut(HEADER_BYTES);
        header.copy_from_slice(&stored[..HEADER_BYTES]);
        field::set_block_bytes(header, 0);
        let expected = cells.len();
        match decompress_into(&stored[HEADER_BYTES..compressed_bytes], cells) {
            Ok(found) if found == expected => {}
            Ok(found) => return refuse("bytes in the block", &expected, found),
            Err(error) => {
                let message =
                    format!("compressed page at unit {unit}: no LZ4 block of {expected} bytes: {error}");
                return Err(Error::corruption(message));
            }
        }
        Page::verify_structure(bytes, unit)
    }
}

fn check_checksum(stored: &[u8], ptr: PagePtr, database: DatabaseId) -> Result<()> {
    let sum = checksum::extent(database, ptr.unit(), &stored[size_of::<u64>()..]);
    let wrong = |what: &str, expected: u64, found: u64| {
        let unit = ptr.unit();
        Err(Error::corruption(format!(
            "compressed page at unit {unit}: {what}: expected {expected}, found {found}"
        )))
    };
    if sum != ptr.checksum() {
        return wrong("checksum of the bytes", ptr.checksum(), sum);
    }
    match field::checksum(stored) {
        header if header == sum => Ok(()),
        header => wrong("checksum in the header", sum, header),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EditCounters, Kind, Value};
    use base::CheckpointNo;

    const DATABASE: DatabaseId = DatabaseId(7);

    #[test]
    fn the_example_in_the_documentation_is_true() {
        // docs/format.md shows these bytes.
        let mut bytes = vec![0; 8192];
        let mut page = PageMut::init(&mut bytes, Kind::Leaf, 0, CheckpointNo(1));
        let counters = &mut EditCounters::default();
        page.insert(0, b"ab", Value::Inline(b"x"), counters).unwrap();
        page.insert(1, b"ac", Value::Inline(b"yz"), counters).unwrap();
        let mut stored = Vec::new();
        let compressed = Compressor::default().compress(&mut page, &mut stored);
        assert_eq!(compressed, Compressed { compressed_bytes: 64 + 64, units: 1 });
        let sum = seal(&mut stored, DATABASE, 3);
        assert_eq!(stored[8..12], [0x50, 1, 1, 0], "the header is as it was");
        assert_eq!(stored[40..48], [0, 0, 0x40, 0, 0, 0, 0, 0], "but for the block's length, 64");
        // 11 literals, the slot of `ab` and three bytes more; then 4 bytes repeated from 8 before, and so on.
        assert_eq!(stored[64..80], *b"\xb0\x01\0\xfc\x1f\0\0\0\x62\x01\0\xf4\x08\0\x2f\x63");
        assert_eq!(stored[114..130], *b"\xaf\xc0\x02\0\x63\x79\x7a\0\0\0\x01\0\x62\x78\0\0");
        assert_eq!(sum, 0xbff8_7000_2f05_1ef6);
        let mut again = vec![1; 8192];
        Page::decompress(&stored, PagePtr::new(3, 1, sum), DATABASE, &mut again).unwrap();
        assert_eq!(again[8..], bytes[8..]);
    }
}
