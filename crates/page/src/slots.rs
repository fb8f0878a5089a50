//! The slot array of a page that is edited, which can move at both ends.
//!
//! An inserted slot moves the slots after it, half of the array on average: 3.8 KiB in a full leaf of short records,
//! which was two fifths of an insert. So while a page is edited its slots may begin after a *front gap*, and an insert
//! into the lower half moves the slots before it down instead. The front gap is opened when it is first needed, some
//! slots at a time. It is closed before anything else could see it: pages on disk and full pages have none.

use crate::header::{HEADER_BYTES, SLOT_BYTES, Slot, field};
use crate::{Page, PageMut};

/// The size in bytes by which the front gap is opened. Each opening moves the whole array, for the next 64 slots that
/// are inserted in the lower half.
const OPENING_BYTES: usize = 64 * SLOT_BYTES;
/// Shorter arrays are moved at their end alone, because they are a few cache lines.
const MIN_COUNT: usize = 64;

impl<'a> Page<'a> {
    /// Returns the offset of the first slot.
    #[inline]
    pub(crate) fn slots_start(self) -> usize {
        HEADER_BYTES + usize::from(field::front_gap(self.bytes))
    }

    #[inline]
    pub(crate) fn slots(self) -> &'a [[u8; SLOT_BYTES]] {
        let start = self.slots_start();
        self.bytes[start..start + SLOT_BYTES * self.count()].as_chunks().0
    }

    #[inline]
    pub(crate) fn slot(self, i: usize) -> Slot {
        Slot::decode(self.slots()[i])
    }

    /// Returns the contiguous free bytes between slots and cells.
    #[inline]
    pub(crate) fn gap_bytes(self) -> usize {
        field::cells_start(self.bytes) as usize - self.slots_start() - SLOT_BYTES * self.count()
    }
}

impl PageMut<'_> {
    /// Inserts a slot at `at`, for which the gap has room. Returns the bytes moved.
    #[inline]
    pub(crate) fn insert_slot(&mut self, at: usize, slot: Slot) -> u64 {
        let count = self.as_page().count();
        let mut moved = 0;
        let from_below = at < count / 2 && count >= MIN_COUNT && self.has_front_gap(&mut moved);
        let first = self.as_page().slots_start();
        let place = first + SLOT_BYTES * at;
        field::set_count(self.bytes, (count + 1) as u16);
        if from_below {
            self.bytes.copy_within(first..place, first - SLOT_BYTES);
            self.set_slots_start(first - SLOT_BYTES);
            moved += place - first;
        } else if at < count {
            let end = first + SLOT_BYTES * count;
            self.bytes.copy_within(place..end, place + SLOT_BYTES);
            moved += end - place;
        }
        self.set_slot(at, slot);
        moved as u64
    }

    /// Removes the slot at `at`. Returns the bytes moved.
    pub(crate) fn remove_slot(&mut self, at: usize) -> u64 {
        let count = self.as_page().count();
        let first = self.as_page().slots_start();
        let (place, end) = (first + SLOT_BYTES * at, first + SLOT_BYTES * count);
        field::set_count(self.bytes, (count - 1) as u16);
        if at < count / 2 && count >= MIN_COUNT {
            self.bytes.copy_within(first..place, first + SLOT_BYTES);
            self.set_slots_start(first + SLOT_BYTES);
            return (place - first) as u64;
        }
        self.bytes.copy_within(place + SLOT_BYTES..end, place);
        (end - place - SLOT_BYTES) as u64
    }

    #[inline]
    pub(crate) fn set_slot(&mut self, at: usize, slot: Slot) {
        let start = self.as_page().slots_start() + SLOT_BYTES * at;
        self.bytes[start..start + SLOT_BYTES].copy_from_slice(&slot.encode());
    }

    /// Returns whether a slot can be inserted from below. Opens the front gap, if there is none and there is room for
    /// it.
    #[inline]
    fn has_front_gap(&mut self, moved: &mut usize) -> bool {
        field::front_gap(self.bytes) > 0 || self.open_front_gap(moved)
    }

    #[cold]
    fn open_front_gap(&mut self, moved: &mut usize) -> bool {
        let is_wide = self.as_page().gap_bytes() >= 2 * OPENING_BYTES;
        if is_wide {
            *moved += self.move_slots(HEADER_BYTES + OPENING_BYTES);
        }
        is_wide
    }

    /// Joins the front gap to the gap. Returns the bytes moved.
    pub(crate) fn close_front_gap(&mut self) -> u64 {
        match field::front_gap(self.bytes) {
            0 => 0,
            _ => self.move_slots(HEADER_BYTES) as u64,
        }
    }

    fn move_slots(&mut self, to: usize) -> usize {
        let page = self.as_page();
        let (start, len) = (page.slots_start(), SLOT_BYTES * page.count());
        self.bytes.copy_within(start..start + len, to);
        self.set_slots_start(to);
        len
    }

    #[inline]
    fn set_slots_start(&mut self, start: usize) {
        field::set_front_gap(self.bytes, (start - HEADER_BYTES) as u16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EditCounters, Kind, Value};
    use base::env::Random;
    use base::{CheckpointNo, DatabaseId, PagePtr};

    fn leaf(bytes: &mut [u8], keys: std::ops::Range<u32>) -> PageMut<'_> {
        let mut page = PageMut::init(bytes, Kind::Leaf, 0, CheckpointNo(1));
        for (at, key) in keys.enumerate() {
            page.insert(at, &(10 * key).to_be_bytes(), Value::Inline(b""), &mut EditCounters::default())
                .unwrap();
        }
        page
    }

    fn insert(page: &mut PageMut<'_>, key: u32) -> u64 {
        let mut counters = EditCounters::default();
        let key = key.to_be_bytes();
        let at = page.as_page().search(&key).unwrap_err();
        page.insert(at, &key, Value::Inline(b""), &mut counters).unwrap();
        counters.bytes_moved
    }

    fn remove(page: &mut PageMut<'_>, key: u32) -> u64 {
        let mut counters = EditCounters::default();
        let at = page.as_page().search(&key.to_be_bytes()).unwrap();
        page.remove(at, &mut counters);
        counters.bytes_moved
    }

    #[test]
    fn the_shorter_side_moves() {
        let mut bytes = vec![0; 16384];
        let mut page = leaf(&mut bytes, 0..200);
        assert_eq!(insert(&mut page, 1985), 8, "behind the middle the slots behind it");
        assert_eq!(insert(&mut page, 15), 201 * 8 + 2 * 8, "the front gap is opened once");
        assert_eq!(insert(&mut page, 25), 4 * 8);
        assert_eq!(field::front_gap(page.bytes), 62 * 8);
        assert_eq!(remove(&mut page, 25), 4 * 8);
        assert_eq!(remove(&mut page, 1985), 8);
        assert_eq!(field::front_gap(page.bytes), 63 * 8);
        page.reset();
        assert_eq!(field::front_gap(page.bytes), 0, "of an empty page everything is gap");
    }

    #[test]
    fn a_short_array_moves_at_its_end() {
        let mut bytes = vec![0; 4096];
        let mut page = leaf(&mut bytes, 0..62);
        assert_eq!(insert(&mut page, 5), 61 * 8);
        assert_eq!(remove(&mut page, 5), 61 * 8);
        assert_eq!(field::front_gap(page.bytes), 0);
    }

    /// Checks that edits of slots never cost room for records, and that a page on disk has no front gap.
    #[test]
    fn a_front_gap_is_room_like_any_other() {
        let mut random = Random::seeded(1);
        let mut bytes = vec![0; 4096];
        let mut page = leaf(&mut bytes, 0..100);
        (0..50).for_each(|key| assert!(remove(&mut page, 10 * key) < 64 * 8));
        assert_eq!(field::front_gap(page.bytes), 37 * 8, "until too few are left");
        let mut counters = EditCounters::default();
        while page.as_page().free_bytes() >= 8 + 8 {
            let key = (500 + random.below(1 << 20) as u32).to_be_bytes();
            if let Err(at) = page.as_page().search(&key) {
                page.insert(at, &key, Value::Inline(b""), &mut counters).expect("there is room");
            }
        }
        assert_eq!((counters.compactions, counters.allocator_failures), (0, 0));
        page.remove(0, &mut counters);
        assert_ne!(field::front_gap(page.bytes), 0);
        let sum = page.seal(DatabaseId(1), 4);
        assert_eq!(field::front_gap(page.bytes), 0);
        Page::verify(&bytes, PagePtr::new(4, 1, sum), DatabaseId(1)).unwrap();
    }
}
