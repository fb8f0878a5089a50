//! Reading a page: plain slices into its bytes, without allocation and without the checks of [`Page::verify`].

use crate::header::{DELETED_BIT, Kind, LARGE_BIT, Slot, cell_bytes, field};
use crate::{Large, Value};
use base::prefetch::prefetch;
use base::{CheckpointNo, PagePtr, TableId, checksum};
use std::ops::Range;

/// A verified page. Copying it copies a reference.
///
/// ```
/// use base::{CheckpointNo, DatabaseId, PagePtr};
/// use pando_page::{EditCounters, Kind, Page, PageMut, Value};
///
/// let mut bytes = vec![0; 4096];
/// let mut counters = EditCounters::default();
/// let mut leaf = PageMut::init(&mut bytes, Kind::Leaf, 0, CheckpointNo(1));
/// leaf.insert(0, b"apple", Value::Inline(b"red"), &mut counters).unwrap();
/// leaf.insert(1, b"apricot", Value::Inline(b"orange"), &mut counters).unwrap();
/// let checksum = leaf.seal(DatabaseId(7), 3);
///
/// let page = Page::verify(&bytes, PagePtr::new(3, 1, checksum), DatabaseId(7)).unwrap();
/// assert_eq!(page.prefix(), b"ap");
/// assert_eq!(page.search(b"apricot"), Ok(1));
/// assert_eq!(page.value(1), Value::Inline(b"orange"));
/// ```
#[derive(Clone, Copy)]
pub struct Page<'a> {
    pub(crate) bytes: &'a [u8],
}

/// The places of a leaf entry's suffix and payload in its page. They are valid until the page is edited.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    start: u32,
    suffix_len: u16,
    payload_len: u16,
    /// 0 for a value, else the bit that gives the type of the payload.
    class: u16,
}

impl Parts {
    /// Returns the offset of the suffix's first byte in the page.
    #[inline]
    pub(crate) fn start(self) -> usize {
        self.start as usize
    }

    #[inline]
    pub(crate) fn suffix_len(self) -> usize {
        usize::from(self.suffix_len)
    }

    /// Returns whether the entry has a value that is stored in the page.
    #[inline]
    pub fn is_inline(self) -> bool {
        self.class == 0
    }
}

/// An entry of a leaf whose value lies in the page: its key without the page's prefix, its value, and how many bytes of
/// the page come after the value.
pub type InlineRecord<'p> = (&'p [u8], &'p [u8], usize);

/// The three parts of a cell, in their order.
#[derive(Clone, Copy)]
pub(crate) struct Cell<'a> {
    /// A leaf's value length, or an inner page's child.
    pub front: &'a [u8],
    pub suffix: &'a [u8],
    /// A leaf's value; nothing in an inner page.
    pub back: &'a [u8],
}

impl Cell<'_> {
    /// Returns the bytes that the cell takes up in the page.
    #[inline]
    pub fn bytes(&self) -> usize {
        cell_bytes(self.front.len() + self.suffix.len() + self.back.len())
    }
}

impl<'a> Page<'a> {
    /// Returns a page that passed [`Page::verify`] before, or that [`PageMut`](crate::PageMut) built. For other bytes
    /// the accessors may panic.
    #[inline]
    pub fn trusted(bytes: &'a [u8]) -> Page<'a> {
        Page { bytes }
    }

    /// Returns the page's bytes.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns whether the page is a leaf or an inner page.
    #[inline]
    pub fn kind(self) -> Kind {
        field::kind(self.bytes).expect("a verified page has a kind")
    }

    /// Returns the level: 0 for a leaf, else one more than its children's.
    #[inline]
    pub fn level(self) -> u8 {
        field::level(self.bytes)
    }

    /// Returns the number of entries.
    #[inline]
    pub fn count(self) -> usize {
        usize::from(field::count(self.bytes))
    }

    /// Returns the checkpoint that wrote the page.
    #[inline]
    pub fn birth(self) -> CheckpointNo {
        CheckpointNo(field::birth(self.bytes))
    }

    /// Returns the table whose records the page holds or leads to, or `None` if it belongs to no table yet.
    #[inline]
    pub fn table(self) -> Option<TableId> {
        field::table(self.bytes).checked_sub(1).map(TableId)
    }

    /// Returns the prefix that all keys of the page share.
    #[inline]
    pub fn prefix(self) -> &'a [u8] {
        let start = field::prefix_offset(self.bytes) as usize;
        &self.bytes[start..start + usize::from(field::prefix_len(self.bytes))]
    }

    /// Returns entry `i`'s key without the prefix. It is empty for entry 0 of an inner page, which has no key.
    #[inline]
    pub fn suffix(self, i: usize) -> &'a [u8] {
        self.suffix_in(self.slot(i))
    }

    #[inline]
    pub(crate) fn suffix_in(self, slot: Slot) -> &'a [u8] {
        let start = slot.offset() + self.kind().front_bytes();
        &self.bytes[start..start + slot.suffix_len()]
    }

    /// Copies entry `i`'s whole key into `into`, which is cleared first. Entry 0 of an inner page has no key: `into`
    /// stays empty.
    #[inline]
    pub fn copy_key(self, i: usize, into: &mut Vec<u8>) {
        into.clear();
        if i >= self.kind().first_keyed() {
            into.extend_from_slice(self.prefix());
            into.extend_from_slice(self.suffix(i));
        }
    }

    /// Returns the pointer to child `i` of an inner page.
    #[inline]
    pub fn child(self, i: usize) -> PagePtr {
        debug_assert_eq!(self.kind(), Kind::Inner);
        let offset = self.slot(i).offset();
        PagePtr::decode(self.bytes[offset..offset + PagePtr::BYTES].try_into().expect("16 bytes"))
    }

    /// Returns the contents of entry `i` of a leaf.
    #[inline]
    pub fn value(self, i: usize) -> Value<'a> {
        self.value_at(self.parts(i))
    }

    /// Returns [`Page::suffix`] and [`Page::value`] of entry `i` of a leaf, found at once.
    #[inline]
    pub fn record(self, i: usize) -> (&'a [u8], Value<'a>) {
        let parts = self.parts(i);
        (&self.bytes[parts.start()..][..parts.suffix_len()], self.value_at(parts))
    }

    /// Returns the entries of a range of a leaf in which [`Page::is_all_inline`].
    #[inline]
    pub fn inline_records(self, entries: Range<usize>) -> impl Iterator<Item = InlineRecord<'a>> + use<'a> {
        debug_assert!(self.is_all_inline());
        let bytes = self.bytes;
        self.slots()[entries].iter().map(move |slot| {
            let slot = Slot::decode(*slot);
            let (front, rest) = bytes[slot.offset()..].split_at(Kind::Leaf.front_bytes());
            let (suffix, rest) = rest.split_at(slot.suffix_len());
            let value_len = u16::from_le_bytes(front.try_into().expect("2 bytes"));
            let (value, rest) = rest.split_at(usize::from(value_len));
            (suffix, value, rest.len())
        })
    }

    /// Returns whether the key of entry `i` of a leaf begins with `front`.
    pub fn key_begins_with(self, i: usize, front: &[u8]) -> bool {
        let prefix = self.prefix();
        match front.get(..prefix.len()) {
            None => prefix.starts_with(front),
            Some(of_all) => of_all == prefix && self.record(i).0.starts_with(&front[prefix.len()..]),
        }
    }

    /// Returns the length of the longest key of a range of entries of a leaf; 0 if the range is empty. It touches no
    /// cell.
    pub fn longest_key(self, entries: Range<usize>) -> usize {
        let suffixes = self.slots()[entries].iter().map(|slot| Slot::decode(*slot).suffix_len());
        suffixes.max().map_or(0, |suffix| self.prefix().len() + suffix)
    }

    /// Finds the parts of entry `i` of a leaf, which is most of the work of reading it.
    #[inline]
    pub fn parts(self, i: usize) -> Parts {
        debug_assert_eq!(self.kind(), Kind::Leaf);
        let slot = self.slot(i);
        let (payload_len, class) = self.value_len(slot.offset());
        let start = slot.offset() + Kind::Leaf.front_bytes();
        Parts {
            start: start as u32,
            suffix_len: slot.suffix_len() as u16,
            payload_len: payload_len as u16,
            class,
        }
    }

    /// Prefetches entry `i`'s cell, if there is one: cells are in no order.
    #[inline]
    pub fn fetch_cell(self, i: usize) {
        if let Some(slot) = self.slots().get(i) {
            prefetch(self.bytes.as_ptr().wrapping_add(Slot::decode(*slot).offset()));
        }
    }

    /// Returns the payload of the entry of `parts`: its value, if [`Parts::is_inline`].
    #[inline]
    pub fn payload_at(self, parts: Parts) -> &'a [u8] {
        let start = parts.start() + parts.suffix_len();
        &self.bytes[start..start + usize::from(parts.payload_len)]
    }

    /// Returns the contents of the entry of `parts`.
    #[inline]
    pub fn value_at(self, parts: Parts) -> Value<'a> {
        let payload = self.payload_at(parts);
        match parts.class {
            0 => Value::Inline(payload),
            DELETED_BIT => Value::Deleted,
            _ => Value::Large(Large::of(payload)),
        }
    }

    /// Returns the length in bytes of the payload of the leaf cell at `offset`, and its class: 0 for a value, else the
    /// bit that gives its type.
    #[inline]
    pub(crate) fn value_len(self, offset: usize) -> (usize, u16) {
        let field = u16::from_le_bytes(self.bytes[offset..offset + 2].try_into().expect("2 bytes"));
        match field & (LARGE_BIT | DELETED_BIT) {
            0 => (usize::from(field), 0),
            DELETED_BIT => (0, DELETED_BIT),
            _ => (usize::from(field & !(LARGE_BIT | DELETED_BIT)), LARGE_BIT),
        }
    }

    /// Returns the length that the cell of `slot` takes up.
    #[inline]
    pub(crate) fn cell_len(self, slot: Slot) -> usize {
        let payload_len = match self.kind() {
            Kind::Leaf => self.value_len(slot.offset()).0,
            Kind::Inner => 0,
        };
        cell_bytes(self.kind().front_bytes() + slot.suffix_len() + payload_len)
    }

    #[inline]
    pub(crate) fn cell(self, i: usize) -> Cell<'a> {
        let slot = self.slot(i);
        let kind = self.kind();
        let back_len = match kind {
            Kind::Leaf => self.value_len(slot.offset()).0,
            Kind::Inner => 0,
        };
        let (front, rest) = self.bytes[slot.offset()..].split_at(kind.front_bytes());
        let (suffix, rest) = rest.split_at(slot.suffix_len());
        Cell { front, suffix, back: &rest[..back_len] }
    }

    /// Returns whether an entry is a large reference, or a child's pointer says that there is one below it.
    #[inline]
    pub fn has_large(self) -> bool {
        field::large_count(self.bytes) != 0
    }

    /// Returns whether the value of each entry of a leaf lies in the page.
    #[inline]
    pub fn is_all_inline(self) -> bool {
        self.kind() == Kind::Leaf && !self.has_large() && self.deletes() == 0
    }

    /// Returns how many of a leaf's entries are deletions.
    #[inline]
    pub fn deletes(self) -> usize {
        usize::from(field::deletes(self.bytes))
    }

    /// Returns the bytes of header, slots, cells and prefix: the page's length less [`Page::free_bytes`].
    #[inline]
    pub fn used_bytes(self) -> usize {
        self.bytes.len() - self.free_bytes()
    }

    /// Returns the bytes in the gaps and in freed cells. An entry takes 8 of them for its slot and, rounded up to 4,
    /// its cell.
    #[inline]
    pub fn free_bytes(self) -> usize {
        let front_gap = usize::from(field::front_gap(self.bytes));
        front_gap + self.gap_bytes() + field::free_bytes(self.bytes) as usize
    }

    /// Returns the wrapping sum of `base::checksum::record` over a leaf's records, where a large value counts as its
    /// encoded reference with the beginning after it, and a delete as an empty value. A merge must conserve it.
    /// `buffer` is scratch space for keys; reuse it from page to page.
    pub fn record_sum(self, buffer: &mut Vec<u8>) -> u64 {
        debug_assert_eq!(self.kind(), Kind::Leaf);
        buffer.clear();
        buffer.extend_from_slice(self.prefix());
        let prefix_len = buffer.len();
        (0..self.count()).fold(0u64, |sum, i| {
            let cell = self.cell(i);
            buffer.truncate(prefix_len);
            buffer.extend_from_slice(cell.suffix);
            sum.wrapping_add(checksum::record(buffer, cell.back))
        })
    }
}

impl std::fmt::Debug for Page<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Page")
            .field("kind", &self.kind())
            .field("level", &self.level())
            .field("count", &self.count())
            .field("prefix", &self.prefix().escape_ascii().to_string())
            .field("free_bytes", &self.free_bytes())
            .finish()
    }
}
