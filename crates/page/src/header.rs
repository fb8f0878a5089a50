//! The page header and the slots: every fixed byte of a page, its encoder and its decoder.
//!
//! All numbers are little-endian. Offsets count from the page's first byte and are multiples of [`GRANULE_BYTES`], as
//! are the lengths of all cells. So a freed cell always has room for its own list node, and no free bytes are lost.
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 0-7 | checksum | `base::checksum::extent` of bytes 8.., seeded with database and unit |
//! | 8-9 | magic | `P` and the format, 1 |
//! | 10 | kind | 1 leaf, 2 inner |
//! | 11 | level | 0 for a leaf, else one more than the children's |
//! | 12-13 | count | entries |
//! | 14-15 | prefix length | bytes |
//! | 16-23 | birth | the checkpoint that wrote the page |
//! | 24-27 | cells start | offset of the lowest cell or freed cell; the page's length when there is none |
//! | 28-31 | prefix offset | where the prefix lies: 48 if it has at most 16 bytes, else among the cells |
//! | 32-33 | free list | offset of the first freed cell; 0: none |
//! | 34-35 | large count | entries that are, or lead to, large values |
//! | 36-39 | free bytes | in the free list; the gap is not counted |
//! | 40-41 | deletes | leaf entries that say that their key is deleted |
//! | 42-43 | block | of a [compressed](crate::compressed) page the length of its block; of any other on the disk 0 |
//! |       | front gap | of a page that is edited: bytes between header and [slots](crate::slots) |
//! | 44-47 | table | its id and 1; 0: of no table, as the records of an unfinished transaction are |
//! | 48-63 | prefix | a prefix of at most 16 bytes, then zeros |
//! | 64-.. | slots | after the front gap; 8 bytes each: suffix length u16, cell offset u16, head u32 |
//!
//! A leaf cell is `value length u16 · suffix · value`. The top two bits of the length give the type of the value: 00 is
//! the value itself; 10 is the 32 bytes of a [`LargeRef`](crate::LargeRef); 01 is a deleted key (the length is 0); 11
//! is reserved. An inner cell is `PagePtr, 16 bytes · suffix`. A freed cell is `next u16 · length u16 · anything`. A
//! cell's length is rounded up to the granule; the padding has no meaning.
//!
//! Most prefixes are short, and a search needs the prefix before anything else. In the header it is fetched with the
//! count. A prefix among the cells is in another cache line, which nothing else in the search uses.
//!
//! Example: a 4096-byte leaf that holds `ab` = `x` and `ac` = `yz`. The prefix is `a`, at 48. The cell of `ab` is at
//! 4092: `01 00 62 78`. The cell of `ac` is at 4084: `02 00 63 79 7a`, then three bytes of padding. Its slot, at 72, is
//! `01 00 f4 0f 00 00 00 63`: one suffix byte, the cell at 0x0ff4, the head 0x63000000.

/// The bytes before the first slot.
pub const HEADER_BYTES: usize = 64;
/// The length of one slot in bytes.
pub const SLOT_BYTES: usize = 8;
/// The alignment in bytes of cells and of their lengths: the size of a free-list node.
pub const GRANULE_BYTES: usize = 4;
/// The longest prefix in bytes that is stored in the header; a longer one is stored among the cells.
pub const HEADER_PREFIX_BYTES: usize = HEADER_BYTES - field::PREFIX;

/// The magic number: `P`, then the format.
pub(crate) const MAGIC: u16 = u16::from_le_bytes([b'P', 1]);
/// The bit of a leaf cell's value length that marks a large reference.
pub(crate) const LARGE_BIT: u16 = 1 << 15;
/// The bit of a leaf cell's value length that marks a deleted key.
pub(crate) const DELETED_BIT: u16 = 1 << 14;

const _: () = assert!(HEADER_BYTES.is_multiple_of(SLOT_BYTES) && SLOT_BYTES.is_multiple_of(GRANULE_BYTES));
const _: () = assert!(
    base::limits::max_inline_bytes(base::limits::MAX_PAGE_BYTES) < DELETED_BIT as usize,
    "an inline value's length leaves the top two bits free"
);

/// The kind of a page, which says what its cells hold besides keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Values.
    Leaf,
    /// Pointers to the pages below.
    Inner,
}

impl Kind {
    const LEAF: u8 = 1;
    const INNER: u8 = 2;

    /// Returns the bytes of a cell that come before its suffix.
    #[inline]
    pub(crate) fn front_bytes(self) -> usize {
        match self {
            Kind::Leaf => 2,
            Kind::Inner => base::PagePtr::BYTES,
        }
    }

    /// Returns the first entry that has a key.
    #[inline]
    pub(crate) fn first_keyed(self) -> usize {
        match self {
            Kind::Leaf => 0,
            Kind::Inner => 1,
        }
    }
}

/// The fields, in the order of the table. The accessors panic only on a slice shorter than a header.
pub(crate) mod field {
    use super::Kind;

    macro_rules! number {
        ($get:ident, $set:ident, $type:ty, $at:expr) => {
            #[inline]
            pub fn $get(bytes: &[u8]) -> $type {
                const END: usize = $at + size_of::<$type>();
                <$type>::from_le_bytes(bytes[$at..END].try_into().expect("a field's bytes"))
            }
            #[inline]
            pub fn $set(bytes: &mut [u8], value: $type) {
                const END: usize = $at + size_of::<$type>();
                bytes[$at..END].copy_from_slice(&value.to_le_bytes());
            }
        };
    }

    number!(checksum, set_checksum, u64, 0);
    number!(magic, set_magic, u16, 8);
    number!(level, set_level, u8, 11);
    number!(count, set_count, u16, 12);
    number!(prefix_len, set_prefix_len, u16, 14);
    number!(birth, set_birth, u64, 16);
    number!(cells_start, set_cells_start, u32, 24);
    number!(prefix_offset, set_prefix_offset, u32, 28);
    number!(free_head, set_free_head, u16, 32);
    number!(large_count, set_large_count, u16, 34);
    number!(free_bytes, set_free_bytes, u32, 36);
    number!(deletes, set_deletes, u16, 40);
    number!(block_bytes, set_block_bytes, u16, 42);
    number!(front_gap, set_front_gap, u16, 42);
    number!(table, set_table, u32, 44);
    /// The offset of a short prefix, which reaches to the end of the header.
    pub const PREFIX: usize = 48;

    /// Returns the kind, or `None` if the byte is no known kind.
    #[inline]
    pub fn kind(bytes: &[u8]) -> Option<Kind> {
        match bytes[10] {
            Kind::LEAF => Some(Kind::Leaf),
            Kind::INNER => Some(Kind::Inner),
            _ => None,
        }
    }

    #[inline]
    pub fn set_kind(bytes: &mut [u8], kind: Kind) {
        bytes[10] = match kind {
            Kind::Leaf => Kind::LEAF,
            Kind::Inner => Kind::INNER,
        };
    }
}

/// One slot as a number: head in bits 32-63, cell offset in 16-31, suffix length in 0-15. Slots with unequal heads
/// therefore compare like their heads, without unpacking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub u64);

impl Slot {
    #[inline]
    pub fn new(head: u32, offset: usize, suffix_len: usize) -> Slot {
        debug_assert!(offset <= usize::from(u16::MAX) && suffix_len <= usize::from(u16::MAX));
        Slot(u64::from(head) << 32 | (offset as u64) << 16 | suffix_len as u64)
    }

    #[inline]
    pub fn decode(bytes: [u8; SLOT_BYTES]) -> Slot {
        Slot(u64::from_le_bytes(bytes))
    }

    #[inline]
    pub fn encode(self) -> [u8; SLOT_BYTES] {
        self.0.to_le_bytes()
    }

    #[inline]
    pub fn head(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    pub fn offset(self) -> usize {
        usize::from((self.0 >> 16) as u16)
    }

    #[inline]
    pub fn suffix_len(self) -> usize {
        usize::from(self.0 as u16)
    }
}

/// Returns the head of a suffix: its first four bytes as a big-endian number, padded with zeros.
#[inline]
pub(crate) fn head_of(suffix: &[u8]) -> u32 {
    match suffix.first_chunk::<4>() {
        Some(first) => u32::from_be_bytes(*first),
        None => suffix.iter().enumerate().fold(0, |head, (i, &byte)| head | u32::from(byte) << (24 - 8 * i)),
    }
}

/// Returns the length that a cell of `bytes` takes up.
#[inline]
pub(crate) fn cell_bytes(bytes: usize) -> usize {
    bytes.next_multiple_of(GRANULE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EditCounters, PageMut, Value};
    use base::CheckpointNo;

    #[test]
    fn the_example_in_the_table_is_true() {
        let mut bytes = vec![0; 4096];
        let mut counters = EditCounters::default();
        let mut page = PageMut::init(&mut bytes, Kind::Leaf, 0, CheckpointNo(1));
        page.insert(0, b"ab", Value::Inline(b"x"), &mut counters).unwrap();
        page.insert(1, b"ac", Value::Inline(b"yz"), &mut counters).unwrap();
        assert_eq!(bytes[48..64], *b"a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(bytes[4092..], [1, 0, 0x62, 0x78]);
        assert_eq!(bytes[4084..4092], [2, 0, 0x63, 0x79, 0x7a, 0, 0, 0]);
        assert_eq!(bytes[72..80], [1, 0, 0xf4, 0x0f, 0, 0, 0, 0x63]);
        assert_eq!(Slot::decode(*bytes[72..].first_chunk().unwrap()), Slot::new(0x6300_0000, 4084, 1));
    }
}
