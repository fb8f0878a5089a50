//! Insert, replace and remove, and how they maintain the prefix.
//!
//! An insert is one slot move and one copy into the place that the allocator found. The prefix changes seldom:
//! * The first key of a page becomes its prefix as a whole. A page thus starts with the longest prefix it can have, and
//!   does not need its fences. (Fences would give a prefix that never has to shrink, but a shorter one: the leftmost
//!   pages of a tree of ascending integers would have none, and their heads would all be equal.)
//! * A key that does not share the prefix shortens it to what they share: every cell grows by the difference. That
//!   happens at most once per prefix byte, mostly while the page is nearly empty.
//! * Who fills pages in ascending order gives each the prefix that the keys of the last one shared
//!   ([`PageMut::insert_first`]), so that it seldom has to be shortened.
//! * A split lengthens it again ([`split`](crate::split)).

use crate::copy::copy_short;
use crate::header::{
    DELETED_BIT, HEADER_BYTES, HEADER_PREFIX_BYTES, Kind, LARGE_BIT, MAGIC, SLOT_BYTES, Slot, cell_bytes,
    field, head_of,
};
use crate::split::{common_len, laid_out_bytes};
use crate::view::Cell;
use crate::{Page, Value};
use base::limits::{MAX_BEGINNING_BYTES, is_page_size, max_inline_bytes, max_key_bytes};
use base::{CheckpointNo, DatabaseId, PagePtr, TableId, checksum};

/// Costs of edits. Pass the same counters to the edits of several pages to add them up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditCounters {
    /// Comparisons, in searches before an edit, that had to read a cell because heads were equal.
    pub key_decodes: u64,
    /// Pages whose cells were moved together to join their free bytes.
    pub compactions: u64,
    /// Allocations that failed although the page's free bytes sufficed; each led to a compaction.
    pub allocator_failures: u64,
    /// Bytes of slots and cells that were moved inside pages and between them.
    pub bytes_moved: u64,
    /// The number of pages that were split.
    pub splits: u64,
    /// The number of pairs of pages that were merged.
    pub merges: u64,
    /// The number of moves of entries between siblings.
    pub borrows: u64,
}

impl std::ops::AddAssign for EditCounters {
    fn add_assign(&mut self, other: Self) {
        self.key_decodes += other.key_decodes;
        self.compactions += other.compactions;
        self.allocator_failures += other.allocator_failures;
        self.bytes_moved += other.bytes_moved;
        self.splits += other.splits;
        self.merges += other.merges;
        self.borrows += other.borrows;
    }
}

/// The page is too full. Split it and try again, several times if necessary; a page of one record always has room for a
/// second. Only the order of cells may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// A page that may be edited.
pub struct PageMut<'a> {
    pub(crate) bytes: &'a mut [u8],
}

/// A value as its cell stores it.
struct Encoded<'v> {
    front: [u8; 2],
    back: &'v [u8],
}

impl<'v> Encoded<'v> {
    #[inline]
    fn new(value: Value<'v>, page_bytes: usize) -> Self {
        match value {
            Value::Inline(bytes) => {
                assert!(
                    bytes.len() <= max_inline_bytes(page_bytes),
                    "a value this long lies outside the page"
                );
                Encoded { front: (bytes.len() as u16).to_le_bytes(), back: bytes }
            }
            Value::Large(large) => {
                let back = large.bytes();
                assert!(
                    large.beginning().len() <= MAX_BEGINNING_BYTES,
                    "a beginning this long is of no value"
                );
                Encoded { front: (LARGE_BIT | back.len() as u16).to_le_bytes(), back }
            }
            Value::Deleted => Encoded { front: DELETED_BIT.to_le_bytes(), back: &[] },
        }
    }

    #[inline]
    fn cell<'c>(&'c self, suffix: &'c [u8]) -> Cell<'c> {
        Cell { front: &self.front, suffix, back: self.back }
    }
}

impl<'a> PageMut<'a> {
    /// Makes an empty page of `bytes`, whose length must be a page size. `level` is 0 for a leaf and not 0 for an inner
    /// page.
    pub fn init(bytes: &'a mut [u8], kind: Kind, level: u8, birth: CheckpointNo) -> PageMut<'a> {
        assert!(is_page_size(bytes.len()), "{} is no page size", bytes.len());
        assert_eq!(kind == Kind::Leaf, level == 0, "leaves, and only they, are at level 0");
        bytes[..HEADER_BYTES].fill(0);
        field::set_magic(bytes, MAGIC);
        field::set_kind(bytes, kind);
        field::set_level(bytes, level);
        field::set_birth(bytes, birth.0);
        let mut page = PageMut { bytes };
        page.reset();
        page
    }

    /// Returns a trusted page (see [`Page::trusted`]) for editing.
    #[inline]
    pub fn edit(bytes: &'a mut [u8]) -> PageMut<'a> {
        PageMut { bytes }
    }

    /// Returns the page for reading.
    #[inline]
    pub fn as_page(&self) -> Page<'_> {
        Page::trusted(self.bytes)
    }

    /// Inserts into a leaf. `at` is the `Err` that [`Page::search`] returned for `key`. The key need not share the
    /// prefix. Panics if key or value is longer than `base::limits` allows in this page.
    #[inline]
    pub fn insert(
        &mut self,
        at: usize,
        key: &[u8],
        value: Value<'_>,
        counters: &mut EditCounters,
    ) -> Result<(), NoRoom> {
        debug_assert_eq!(self.as_page().kind(), Kind::Leaf);
        let encoded = Encoded::new(value, self.bytes.len());
        self.fit_prefix(key, encoded.cell(&[]), counters)?;
        let suffix = &key[usize::from(field::prefix_len(self.bytes))..];
        self.put(at, &[], encoded.cell(suffix), counters)
    }

    /// Inserts the first entry of an empty leaf. The first `prefix_len` bytes of its key become the prefix, or the
    /// whole key if it is shorter. Use it if the keys that follow are likely to share as many: [`PageMut::insert`]
    /// takes the whole key, and rewrites the entries when one does not share it. Panics as that does.
    pub fn insert_first(
        &mut self,
        key: &[u8],
        value: Value<'_>,
        prefix_len: usize,
        counters: &mut EditCounters,
    ) -> Result<(), NoRoom> {
        debug_assert!(self.as_page().kind() == Kind::Leaf && self.as_page().count() == 0);
        self.check_key(key);
        let encoded = Encoded::new(value, self.bytes.len());
        let (prefix, suffix) = key.split_at(prefix_len.min(key.len()));
        self.begin_prefix(prefix, counters);
        self.put(0, &[], encoded.cell(suffix), counters)
    }

    /// Inserts into an inner page at 1 or later, or at 0 if the page is empty. The key at 0 is not stored: entry 0 has
    /// no key. Panics if the key is longer than `base::limits` allows in this page.
    pub fn insert_child(
        &mut self,
        at: usize,
        key: &[u8],
        child: PagePtr,
        counters: &mut EditCounters,
    ) -> Result<(), NoRoom> {
        debug_assert_eq!(self.as_page().kind(), Kind::Inner);
        let front = child.encode();
        let cell = Cell { front: &front, suffix: &[], back: &[] };
        if at == 0 {
            assert_eq!(self.as_page().count(), 0, "nothing precedes entry 0 of an inner page");
            return self.put(0, &[], cell, counters);
        }
        self.fit_prefix(key, cell, counters)?;
        let suffix = &key[usize::from(field::prefix_len(self.bytes))..];
        self.put(at, &[], Cell { suffix, ..cell }, counters)
    }

    /// Changes the prefix to one that `key` shares, such that a cell with the other parts of `keyless` still fits.
    #[inline]
    fn fit_prefix(
        &mut self,
        key: &[u8],
        keyless: Cell<'_>,
        counters: &mut EditCounters,
    ) -> Result<(), NoRoom> {
        self.check_key(key);
        let page = self.as_page();
        if page.count() <= page.kind().first_keyed() {
            self.begin_prefix(key, counters);
            return Ok(());
        }
        if page.suffix_of(key).is_some() {
            return Ok(());
        }
        self.shorten_prefix(key, keyless, counters)
    }

    #[inline]
    fn check_key(&self, key: &[u8]) {
        assert!(key.len() <= max_key_bytes(self.bytes.len()), "a key of {} bytes fits no page", key.len());
    }

    /// Sets the prefix of a page that has no key yet.
    fn begin_prefix(&mut self, prefix: &[u8], counters: &mut EditCounters) {
        let page = self.as_page();
        let first_child = (page.count() > 0).then(|| page.child(0).encode());
        self.reset();
        self.set_prefix(prefix);
        if let Some(front) = &first_child {
            let cell = Cell { front, suffix: &[], back: &[] };
            self.put(0, &[], cell, counters).expect("an empty page has room for a child");
        }
    }

    #[cold]
    fn shorten_prefix(
        &mut self,
        key: &[u8],
        keyless: Cell<'_>,
        counters: &mut EditCounters,
    ) -> Result<(), NoRoom> {
        let page = self.as_page();
        let shared = common_len(page.prefix(), key);
        let new_bytes =
            SLOT_BYTES + cell_bytes(keyless.front.len() + key.len() - shared + keyless.back.len());
        // An upper bound first, because measuring visits each entry.
        let growth_bytes = page.count() * cell_bytes(page.prefix().len() - shared);
        if page.used_bytes() + growth_bytes + new_bytes > self.bytes.len()
            && laid_out_bytes(shared, &[page.into()]) + new_bytes > self.bytes.len()
        {
            return Err(NoRoom);
        }
        let image = self.bytes.to_vec();
        self.lay_out(&key[..shared], &[Page::trusted(&image).into()], counters);
        Ok(())
    }

    /// Stores the prefix of a page that was reset.
    pub(crate) fn set_prefix(&mut self, prefix: &[u8]) {
        let offset = match prefix.len() {
            ..=HEADER_PREFIX_BYTES => field::PREFIX,
            len => self.allocate(cell_bytes(len), 0).expect("an empty page has room for its prefix"),
        };
        self.bytes[offset..offset + prefix.len()].copy_from_slice(prefix);
        field::set_prefix_offset(self.bytes, offset as u32);
        field::set_prefix_len(self.bytes, prefix.len() as u16);
    }

    /// Inserts an entry at `at` whose suffix is `lead` followed by `cell.suffix`. Every new cell is written here.
    #[inline]
    pub(crate) fn put(
        &mut self,
        at: usize,
        lead: &[u8],
        cell: Cell<'_>,
        counters: &mut EditCounters,
    ) -> Result<(), NoRoom> {
        let Cell { front, suffix, back } = cell;
        let len = cell_bytes(front.len() + lead.len() + suffix.len() + back.len());
        let offset = self.allocate_entry(len, counters)?;
        let (to_front, rest) = self.bytes[offset..].split_at_mut(front.len());
        let (to_lead, rest) = rest.split_at_mut(lead.len());
        let (to_suffix, rest) = rest.split_at_mut(suffix.len());
        copy_short(to_front, front);
        copy_short(to_lead, lead);
        copy_short(to_suffix, suffix);
        copy_short(&mut rest[..back.len()], back);
        let head = if lead.is_empty() {
            head_of(suffix)
        } else {
            let start = offset + front.len();
            head_of(&self.bytes[start..start + lead.len() + suffix.len()])
        };
        let slot = Slot::new(head, offset, lead.len() + suffix.len());
        counters.bytes_moved += self.insert_slot(at, slot);
        self.add_large(i32::from(is_large(front)));
        self.add_deletes(i32::from(is_deleted(front)));
        Ok(())
    }

    #[inline]
    pub(crate) fn add_large(&mut self, change: i32) {
        if change != 0 {
            let count = i32::from(field::large_count(self.bytes)) + change;
            field::set_large_count(self.bytes, u16::try_from(count).expect("as many as entries"));
        }
    }

    #[inline]
    pub(crate) fn add_deletes(&mut self, change: i32) {
        if change != 0 {
            let count = i32::from(field::deletes(self.bytes)) + change;
            field::set_deletes(self.bytes, u16::try_from(count).expect("as many as entries"));
        }
    }

    /// Replaces the value of entry `at` of a leaf: in place if it fits its cell, else in a new cell. Panics if the
    /// value is longer than `base::limits` allows in this page.
    pub fn replace(
        &mut self,
        at: usize,
        value: Value<'_>,
        counters: &mut EditCounters,
    ) -> Result<(), NoRoom> {
        let encoded = Encoded::new(value, self.bytes.len());
        let slot = self.as_page().slot(at);
        let old = self.as_page().cell(at);
        let (old_len, old_large, old_deleted) = (old.bytes(), is_large(old.front), is_deleted(old.front));
        let parts = encoded.cell(&[]);
        let head_len = parts.front.len() + slot.suffix_len();
        let len = cell_bytes(head_len + parts.back.len());
        if len > old_len {
            if self.as_page().free_bytes() + old_len < len {
                return Err(NoRoom);
            }
            return self.replace_elsewhere(at, &encoded, len, counters);
        }
        self.release(slot.offset() + len, old_len - len);
        self.bytes[slot.offset()..][..2].copy_from_slice(parts.front);
        self.bytes[slot.offset() + head_len..][..parts.back.len()].copy_from_slice(parts.back);
        self.add_large(i32::from(is_large(parts.front)) - i32::from(old_large));
        self.add_deletes(i32::from(is_deleted(parts.front)) - i32::from(old_deleted));
        Ok(())
    }

    /// Moves the entry from its cell to one of `len` bytes, for which there is room.
    fn replace_elsewhere(
        &mut self,
        at: usize,
        encoded: &Encoded<'_>,
        len: usize,
        counters: &mut EditCounters,
    ) -> Result<(), NoRoom> {
        let slot = self.as_page().slot(at);
        let old = self.as_page().cell(at);
        let (old_len, old_large, old_deleted) = (old.bytes(), is_large(old.front), is_deleted(old.front));
        let Some(offset) = self.allocate(len, 0) else {
            let suffix = self.as_page().suffix(at).to_vec();
            self.remove_entry(at, counters);
            return self.put(at, &[], encoded.cell(&suffix), counters);
        };
        let parts = encoded.cell(&[]);
        let suffix_start = slot.offset() + parts.front.len();
        self.bytes[offset..][..2].copy_from_slice(parts.front);
        self.bytes.copy_within(suffix_start..suffix_start + slot.suffix_len(), offset + parts.front.len());
        let back_start = offset + parts.front.len() + slot.suffix_len();
        self.bytes[back_start..][..parts.back.len()].copy_from_slice(parts.back);
        self.set_slot(at, Slot::new(slot.head(), offset, slot.suffix_len()));
        self.release(slot.offset(), old_len);
        self.add_large(i32::from(is_large(parts.front)) - i32::from(old_large));
        self.add_deletes(i32::from(is_deleted(parts.front)) - i32::from(old_deleted));
        Ok(())
    }

    /// Sets the child of entry `at` of an inner page.
    pub fn set_child(&mut self, at: usize, child: PagePtr) {
        debug_assert_eq!(self.as_page().kind(), Kind::Inner);
        let offset = self.as_page().slot(at).offset();
        let front = child.encode();
        let change =
            i32::from(is_large(&front)) - i32::from(is_large(&self.bytes[offset..offset + front.len()]));
        self.bytes[offset..offset + front.len()].copy_from_slice(&front);
        self.add_large(change);
    }

    /// Removes entry `at`. If entry 0 of an inner page is removed, entry 1, if there is one, takes its place and loses
    /// its key. A page may become empty.
    pub fn remove(&mut self, at: usize, counters: &mut EditCounters) {
        self.remove_entry(at, counters);
        if at == 0 && self.as_page().kind() == Kind::Inner && self.as_page().count() > 0 {
            let slot = self.as_page().slot(0);
            let len = self.as_page().cell(0).bytes();
            self.set_slot(0, Slot::new(0, slot.offset(), 0));
            self.release(slot.offset() + PagePtr::BYTES, len - PagePtr::BYTES);
        }
    }

    fn remove_entry(&mut self, at: usize, counters: &mut EditCounters) {
        let offset = self.as_page().slot(at).offset();
        let cell = self.as_page().cell(at);
        let (len, large, deleted) = (cell.bytes(), is_large(cell.front), is_deleted(cell.front));
        counters.bytes_moved += self.remove_slot(at);
        self.release(offset, len);
        self.add_large(-i32::from(large));
        self.add_deletes(-i32::from(deleted));
    }

    /// Sets the birth.
    pub fn set_birth(&mut self, birth: CheckpointNo) {
        field::set_birth(self.bytes, birth.0);
    }

    /// Fills the gap between slots and cells with zeros. There must be no front gap.
    pub(crate) fn clear_gap(&mut self) {
        self.close_front_gap();
        let end = field::cells_start(self.bytes) as usize;
        let begin = end - self.as_page().gap_bytes();
        self.bytes[begin..end].fill(0);
    }

    /// Sets the table whose records the page holds or leads to, so that the page can be identified without its parents.
    pub fn set_table(&mut self, table: TableId) {
        field::set_table(self.bytes, table.0.wrapping_add(1));
    }

    /// Sets the checksum of the page's compressed form.
    pub fn set_checksum(&mut self, checksum: u64) {
        field::set_checksum(self.bytes, checksum);
    }

    /// Computes, stores and returns the checksum of the page for its place at `unit`. This is the last step before
    /// writing.
    pub fn seal(&mut self, database: DatabaseId, unit: u64) -> u64 {
        self.close_front_gap();
        self.seal_stored(database, unit)
    }

    /// Computes, stores and returns the checksum, for their place at `unit`, of bytes that are no longer edited,
    /// compressed or not.
    pub(crate) fn seal_stored(&mut self, database: DatabaseId, unit: u64) -> u64 {
        let sum = checksum::extent(database, unit, &self.bytes[size_of::<u64>()..]);
        field::set_checksum(self.bytes, sum);
        sum
    }
}

/// Returns whether a cell with this front is, or leads to, a large value.
#[inline]
pub(crate) fn is_large(front: &[u8]) -> bool {
    match front.first_chunk::<{ PagePtr::BYTES }>() {
        Some(child) => PagePtr::decode(child).flags() & PagePtr::HAS_LARGE != 0,
        None => u16::from_le_bytes([front[0], front[1]]) & LARGE_BIT != 0,
    }
}

/// Returns whether a cell with this front is a leaf's, of a deleted key. A child's pointer is longer than two bytes.
#[inline]
pub(crate) fn is_deleted(front: &[u8]) -> bool {
    front.len() == 2 && u16::from_le_bytes([front[0], front[1]]) & DELETED_BIT != 0
}
