//! The full structural check: after it no accessor panics and every edit is safe, whatever the bytes were.
//!
//! 1. The length is that of a page and of the pointer. The checksum is that of the pointer and of the bytes.
//! 2. The header's fields are in their ranges and agree with each other.
//! 3. Prefix, cells and freed cells lie between `cells start` and the end, and each granule there belongs to exactly
//!    one of them: a bitmap finds an overlap, a sum finds a granule that belongs to none.
//! 4. Every slot's head is its suffix's, keys ascend strictly, lengths are within the limits.
//! 5. Pointers have only flags that are allowed on disk, and a large value fits its extent (or the limits, if the
//!    extent holds the index of its pieces).
//!
//! One pass over slots and cells, without allocation; it runs on each page fault.

use crate::alloc::FreeCell;
use crate::edit::is_large;
use crate::header::{
    DELETED_BIT, GRANULE_BYTES, HEADER_BYTES, HEADER_PREFIX_BYTES, Kind, MAGIC, SLOT_BYTES, Slot, cell_bytes,
    field, head_of,
};
use crate::{LargeRef, Page};
use base::limits::{
    MAX_BEGINNING_BYTES, MAX_PAGE_BYTES, MAX_VALUE_BYTES, is_page_size, max_inline_bytes, max_key_bytes,
};
use base::{DatabaseId, Error, PagePtr, Result, checksum};
use std::fmt::Display;

/// The words of a bitmap with one bit for every granule of the largest page.
const MAP_WORDS: usize = MAX_PAGE_BYTES / GRANULE_BYTES / u64::BITS as usize;

struct Check<'a> {
    page: Page<'a>,
    unit: u64,
    /// The granules that belong to a cell, a freed cell or the prefix.
    taken: [u64; MAP_WORDS],
    taken_bytes: usize,
    large_count: usize,
    deletes: usize,
}

impl<'a> Page<'a> {
    /// Checks that `bytes` are the page that `ptr` points to, and everything that the accessors and edits rely on.
    /// [`ErrorKind::Corruption`](base::ErrorKind::Corruption) names the unit, what was expected and what was found.
    pub fn verify(bytes: &'a [u8], ptr: PagePtr, database: DatabaseId) -> Result<Page<'a>> {
        let mut check = Check::new(bytes, ptr.unit());
        check.identity(ptr, database)?;
        check.structure()
    }

    /// Checks rules 2 to 5, for bytes that are known to be what was written to `unit`.
    pub(crate) fn verify_structure(bytes: &'a [u8], unit: u64) -> Result<Page<'a>> {
        Check::new(bytes, unit).structure()
    }
}

impl<'a> Check<'a> {
    #[inline]
    fn new(bytes: &'a [u8], unit: u64) -> Self {
        let page = Page { bytes };
        Check { page, unit, taken: [0; MAP_WORDS], taken_bytes: 0, large_count: 0, deletes: 0 }
    }

    fn structure(&mut self) -> Result<Page<'a>> {
        let kind = self.header()?;
        self.prefix()?;
        for i in 0..self.page.count() {
            self.entry(i, kind)?;
        }
        self.free_list()?;
        self.totals()?;
        Ok(self.page)
    }

    /// Returns an error unless `holds`.
    #[inline]
    fn expect(&self, holds: bool, what: &str, expected: impl Display, found: impl Display) -> Result<()> {
        if holds { Ok(()) } else { Err(self.refusal(what, &expected, &found)) }
    }

    #[cold]
    #[inline(never)]
    fn refusal(&self, what: &str, expected: &dyn Display, found: &dyn Display) -> Error {
        Error::corruption(format!("page at unit {}: {what}: expected {expected}, found {found}", self.unit))
    }

    fn identity(&self, ptr: PagePtr, database: DatabaseId) -> Result<()> {
        let bytes = self.page.bytes;
        self.expect(is_page_size(bytes.len()), "length", "a page size", bytes.len())?;
        self.expect(ptr.len_bytes() == bytes.len(), "length in the pointer", bytes.len(), ptr.len_bytes())?;
        let sum = checksum::extent(database, ptr.unit(), &bytes[size_of::<u64>()..]);
        self.expect(sum == ptr.checksum(), "checksum of the bytes", ptr.checksum(), sum)?;
        let stored = field::checksum(bytes);
        self.expect(stored == sum, "checksum in the header", sum, stored)
    }

    fn header(&self) -> Result<Kind> {
        let bytes = self.page.bytes;
        self.expect(field::magic(bytes) == MAGIC, "magic and format", MAGIC, field::magic(bytes))?;
        let Some(kind) = field::kind(bytes) else {
            return Err(self.refusal("kind", &"1 (leaf) or 2 (inner)", &bytes[10]));
        };
        let level = field::level(bytes);
        self.expect((kind == Kind::Leaf) == (level == 0), "level", "0 in a leaf and only there", level)?;
        let block_bytes = field::block_bytes(bytes);
        self.expect(block_bytes == 0, "length of a block in a page that is not compressed", 0, block_bytes)?;
        let count = self.page.count();
        self.expect(kind == Kind::Leaf || count > 0, "entries of an inner page", "at least one", count)?;
        let slots_end = HEADER_BYTES + SLOT_BYTES * count;
        let start = field::cells_start(bytes) as usize;
        let fits = slots_end <= start && start <= bytes.len() && start.is_multiple_of(GRANULE_BYTES);
        self.expect(fits, "start of the cells", format_args!("{slots_end}..={}", bytes.len()), start)?;
        Ok(kind)
    }

    fn prefix(&mut self) -> Result<()> {
        let bytes = self.page.bytes;
        let offset = field::prefix_offset(bytes) as usize;
        let len = usize::from(field::prefix_len(bytes));
        let in_header = if len > HEADER_PREFIX_BYTES { 0 } else { len };
        let rest = &bytes[field::PREFIX + in_header..HEADER_BYTES];
        self.expect(rest.iter().all(|&byte| byte == 0), "header bytes after the prefix", "zeros", "others")?;
        match in_header == len {
            true => self.expect(offset == field::PREFIX, "offset of a short prefix", field::PREFIX, offset),
            false => self.take(offset, cell_bytes(len), "prefix"),
        }
    }

    /// Marks `len` bytes at `offset` as belonging to `what`.
    fn take(&mut self, offset: usize, len: usize, what: &str) -> Result<()> {
        let start = field::cells_start(self.page.bytes) as usize;
        let end = self.page.bytes.len();
        let inside =
            offset >= start && offset.is_multiple_of(GRANULE_BYTES) && len <= end.saturating_sub(offset);
        if !inside {
            let expected = format!("{len} bytes at a multiple of {GRANULE_BYTES} in {start}..{end}");
            return Err(self.refusal(what, &expected, &offset));
        }
        let (mut granule, last) = (offset / GRANULE_BYTES, (offset + len) / GRANULE_BYTES);
        while granule < last {
            let bit = granule % 64;
            let run = (64 - bit).min(last - granule);
            let mask = (u64::MAX >> (64 - run)) << bit;
            let word = &mut self.taken[granule / 64];
            if *word & mask != 0 {
                return Err(self.refusal(what, &"bytes of its own", &format_args!("an overlap at {offset}")));
            }
            *word |= mask;
            granule += run;
        }
        self.taken_bytes += len;
        Ok(())
    }

    fn entry(&mut self, i: usize, kind: Kind) -> Result<()> {
        let slot = self.page.slot(i);
        let bytes = self.page.bytes;
        let front_len = kind.front_bytes();
        let longest = max_key_bytes(bytes.len());
        let key_len = self.page.prefix().len() + slot.suffix_len();
        self.expect(key_len <= longest, "key length", format_args!("at most {longest}"), key_len)?;
        self.expect(
            slot.offset() + front_len <= bytes.len(),
            "cell offset",
            "one inside the page",
            slot.offset(),
        )?;
        let back_len = match kind {
            Kind::Leaf => self.payload(slot)?,
            Kind::Inner => 0,
        };
        self.take(slot.offset(), cell_bytes(front_len + slot.suffix_len() + back_len), "cell")?;
        if kind == Kind::Inner {
            self.child_pointer(i)?;
        }
        let head = head_of(self.page.suffix_in(slot));
        self.expect(slot.head() == head, "head", head, slot.head())?;
        if i < kind.first_keyed() {
            self.expect(slot.suffix_len() == 0, "key length of entry 0", 0, slot.suffix_len())
        } else {
            let ascends = i == kind.first_keyed() || self.page.ascends_at(i);
            self.expect(ascends, "key", "one greater than the key before", format_args!("entry {i}"))
        }
    }

    /// Returns the length of a leaf cell's payload, after checking it.
    fn payload(&mut self, slot: Slot) -> Result<usize> {
        let bytes = self.page.bytes;
        let (len, class) = self.page.value_len(slot.offset());
        if class == 0 {
            let longest = max_inline_bytes(bytes.len());
            self.expect(len <= longest, "value length", format_args!("at most {longest}"), len)?;
            return Ok(len);
        }
        let written = u16::from_le_bytes([bytes[slot.offset()], bytes[slot.offset() + 1]]);
        if class == DELETED_BIT {
            self.deletes += 1;
            self.expect(written == DELETED_BIT, "length of a deleted key's value", DELETED_BIT, written)?;
            return Ok(0);
        }
        self.large_count += 1;
        let (least, most) = (LargeRef::BYTES, LargeRef::BYTES + MAX_BEGINNING_BYTES);
        let is_reference = written & DELETED_BIT == 0 && (least..=most).contains(&len);
        let expected = format_args!("{least} to {most}, marked as one");
        self.expect(is_reference, "length of a large reference", expected, written)?;
        let start = slot.offset() + Kind::Leaf.front_bytes() + slot.suffix_len();
        let payload = bytes.get(start..).and_then(|rest| rest.get(..len));
        let Some((reference, beginning)) = payload.and_then(|payload| payload.split_first_chunk()) else {
            return Err(self.refusal(
                "large reference",
                &format_args!("{len} bytes inside the page"),
                &start,
            ));
        };
        let large = LargeRef::decode(reference);
        let is_of_value = beginning.len() as u64 <= large.len_bytes && large.begins_with(beginning);
        self.expect(is_of_value, "beginning of a large value", "its first bytes", beginning.escape_ascii())?;
        let LargeRef { ptr, len_bytes, .. } = large;
        let known = ptr.flags() & !PagePtr::IN_PIECES == 0;
        self.expect(known, "flags of a large reference", "0 or 2", ptr.flags())?;
        let in_pieces = ptr.flags() & PagePtr::IN_PIECES != 0;
        let longest = if in_pieces { MAX_VALUE_BYTES } else { ptr.len_bytes() as u64 };
        let fits = len_bytes <= longest;
        self.expect(fits, "length of a large value", format_args!("at most {longest}"), len_bytes)?;
        Ok(len)
    }

    fn child_pointer(&mut self, i: usize) -> Result<()> {
        let child = self.page.child(i);
        self.large_count += usize::from(is_large(&child.encode()));
        let known = child.flags() & !PagePtr::HAS_LARGE == 0;
        self.expect(known, "flags of a child pointer", "0 or 1", child.flags())
    }

    /// Checks the free list. It ends because every cell takes bytes that no other has taken.
    fn free_list(&mut self) -> Result<()> {
        let bytes = self.page.bytes;
        let mut offset = usize::from(field::free_head(bytes));
        let before = self.taken_bytes;
        while offset != 0 {
            if offset + GRANULE_BYTES > bytes.len() {
                return Err(self.refusal("freed cell", &"an offset inside the page", &offset));
            }
            let freed = FreeCell::read(bytes, offset);
            let whole = freed.len > 0 && freed.len.is_multiple_of(GRANULE_BYTES);
            self.expect(whole, "length of a freed cell", "a multiple of 4, not 0", freed.len)?;
            self.take(offset, freed.len, "freed cell")?;
            offset = freed.next;
        }
        let listed = self.taken_bytes - before;
        let stated = field::free_bytes(bytes) as usize;
        self.expect(stated == listed, "bytes of freed cells", listed, stated)
    }

    fn totals(&self) -> Result<()> {
        let bytes = self.page.bytes;
        let area = bytes.len() - field::cells_start(bytes) as usize;
        self.expect(self.taken_bytes == area, "bytes of all cells", area, self.taken_bytes)?;
        let large = usize::from(field::large_count(bytes));
        self.expect(large == self.large_count, "large count", self.large_count, large)?;
        let deletes = usize::from(field::deletes(bytes));
        self.expect(deletes == self.deletes, "count of deleted keys", self.deletes, deletes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EditCounters, PageMut, Value};
    use base::CheckpointNo;

    const DATABASE: DatabaseId = DatabaseId(1);

    /// Seals and verifies, and returns the message of the error.
    fn refusal(bytes: &mut [u8]) -> Option<String> {
        let ptr = PagePtr::new(6, 1, PageMut::edit(bytes).seal(DATABASE, 6));
        Page::verify(bytes, ptr, DATABASE).err().map(|error| error.message().to_string())
    }

    /// Returns a page of three records whose cells, read as freed cells, are four bytes long and the last of their
    /// list.
    fn example() -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        let mut counters = EditCounters::default();
        let mut page = PageMut::init(&mut bytes, Kind::Leaf, 0, CheckpointNo(1));
        for (at, key) in [[4, 0], [5, 0], [6, 0]].iter().enumerate() {
            page.insert(at, key, Value::Inline(b""), &mut counters).unwrap();
        }
        page.remove(1, &mut counters);
        bytes
    }

    #[test]
    fn an_overlap_is_found_though_all_sums_agree() {
        let mut bytes = example();
        assert_eq!(refusal(&mut bytes), None);
        let cell = Page::trusted(&bytes).slot(0).offset();
        field::set_free_head(&mut bytes, cell as u16);
        let message = refusal(&mut bytes).unwrap();
        assert!(message.starts_with("page at unit 6: freed cell: expected bytes of its own"), "{message}");
    }

    #[test]
    fn a_lost_cell_is_found() {
        let mut bytes = example();
        field::set_free_head(&mut bytes, 0);
        field::set_free_bytes(&mut bytes, 0);
        assert!(refusal(&mut bytes).unwrap().contains("bytes of all cells: expected 12, found 8"));
    }

    #[test]
    fn a_prefix_out_of_its_place_is_found() {
        let refused = |change: &dyn Fn(&mut [u8])| {
            let mut bytes = example();
            change(&mut bytes);
            refusal(&mut bytes).unwrap()
        };
        let behind = refused(&|bytes| bytes[field::PREFIX + 3] = 1);
        assert!(behind.contains("header bytes after the prefix"), "{behind}");
        let elsewhere = refused(&|bytes| field::set_prefix_offset(bytes, 4092));
        assert!(elsewhere.contains("offset of a short prefix: expected 48, found 4092"), "{elsewhere}");
        let longer = refused(&|bytes| field::set_prefix_len(bytes, 17));
        assert!(longer.contains("prefix: expected 20 bytes at a multiple of 4"), "{longer}");
    }

    #[test]
    fn keys_out_of_order_are_found() {
        let mut bytes = example();
        let (first, second) = (HEADER_BYTES..HEADER_BYTES + SLOT_BYTES, HEADER_BYTES + SLOT_BYTES);
        let slot = bytes[first.clone()].to_vec();
        bytes.copy_within(second..second + SLOT_BYTES, first.start);
        bytes[second..second + SLOT_BYTES].copy_from_slice(&slot);
        assert!(refusal(&mut bytes).unwrap().contains("key: expected one greater"));
    }

    #[test]
    fn a_pointer_into_memory_is_refused() {
        let mut bytes = vec![0; 4096];
        let mut page = PageMut::init(&mut bytes, Kind::Inner, 1, CheckpointNo(1));
        let child = PagePtr::new(1, 1, 1).with_flags(PagePtr::IN_MEMORY);
        page.insert_child(0, b"", child, &mut EditCounters::default()).unwrap();
        assert!(refusal(&mut bytes).unwrap().contains("flags of a child pointer"));
    }
}
