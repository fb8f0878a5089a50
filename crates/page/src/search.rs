//! Finding a key in a page.
//!
//! 1. A key that does not begin with the page's prefix sorts before all entries or behind all.
//! 2. A binary search over the slots finds the first whose head is not less than the key's. It touches no cell,
//!    and has no branch that depends on a key (`partition_point` selects instead).
//! 3. Only among slots with the very same head are suffixes compared, and only if both are longer than a head:
//!    with equal heads a suffix of at most four bytes is a prefix of the other one (zeros pad a head, so `a` and
//!    `a\0` share one), and the shorter of the two is the lesser.

use crate::header::{SLOT_BYTES, Slot, head_of};
use crate::{EditCounters, Page};
use std::cmp::Ordering;

/// Suffixes up to this long are known from head and length alone.
const HEAD_BYTES: usize = 4;

impl<'a> Page<'a> {
    /// The position of `key`, or where it would have to be inserted. In an inner page both are at least 1, since
    /// entry 0 has no key and precedes everything. O(log count).
    #[inline]
    pub fn search(self, key: &[u8]) -> Result<usize, usize> {
        self.locate(self.strip_prefix(key)?, &mut 0)
    }

    /// [`Page::search`] for a caller that is about to edit: counts the comparisons that had to look into a cell, and
    /// compares with the last entry first, so that ascending keys find their place in O(1).
    #[inline]
    pub fn search_counted(self, key: &[u8], counters: &mut EditCounters) -> Result<usize, usize> {
        let suffix = self.strip_prefix(key)?;
        let count = self.count();
        if count > self.kind().first_keyed() {
            let last = self.slot(count - 1);
            let order = self.compare(last, head_of(suffix), suffix, &mut counters.key_decodes);
            if order == Ordering::Less {
                return Err(count);
            }
        }
        self.locate(suffix, &mut counters.key_decodes)
    }

    /// The child of an inner page that covers `key`: the last one whose key is not greater.
    #[inline]
    pub fn child_for(self, key: &[u8]) -> usize {
        match self.search(key) {
            Ok(i) => i,
            Err(i) => i - 1,
        }
    }

    /// What follows the page's prefix in `key`; `Err` with the insert position if `key` has another prefix.
    #[inline]
    fn strip_prefix(self, key: &[u8]) -> Result<&[u8], usize> {
        let prefix = self.prefix();
        match key.strip_prefix(prefix) {
            Some(suffix) => Ok(suffix),
            None if key < prefix => Err(self.kind().first_keyed().min(self.count())),
            None => Err(self.count()),
        }
    }

    /// Steps 2 and 3.
    #[inline]
    fn locate(self, suffix: &[u8], decodes: &mut u64) -> Result<usize, usize> {
        let slots = self.slots();
        let head = head_of(suffix);
        let least = Slot::new(head, 0, 0).0;
        let first = self.kind().first_keyed().min(slots.len());
        let low = first + slots[first..].partition_point(|&slot| Slot::decode(slot).0 < least);
        let same = |slot: &[u8; SLOT_BYTES]| Slot::decode(*slot).head() == head;
        let equal = match &slots[low..] {
            [one, ..] if !same(one) => return Err(low),
            [one, other, ..] if !same(other) => std::slice::from_ref(one),
            rest => &rest[..rest.partition_point(same)],
        };
        match equal.binary_search_by(|&slot| self.compare(Slot::decode(slot), head, suffix, decodes)) {
            Ok(i) => Ok(low + i),
            Err(i) => Err(low + i),
        }
    }

    /// How the key of `slot` compares with `suffix`, whose head is `head`.
    #[inline]
    fn compare(self, slot: Slot, head: u32, suffix: &[u8], decodes: &mut u64) -> Ordering {
        let by_head = slot.head().cmp(&head);
        if by_head != Ordering::Equal {
            return by_head;
        }
        if slot.suffix_len() <= HEAD_BYTES || suffix.len() <= HEAD_BYTES {
            return slot.suffix_len().cmp(&suffix.len());
        }
        *decodes += 1;
        self.suffix_in(slot)[HEAD_BYTES..].cmp(&suffix[HEAD_BYTES..])
    }

    /// Whether entry `i - 1`'s key is less than entry `i`'s; both have keys.
    #[inline]
    pub(crate) fn ascends_at(self, i: usize) -> bool {
        let (before, slot) = (self.slot(i - 1), self.slot(i));
        before.head() < slot.head()
            || self.compare(before, slot.head(), self.suffix_in(slot), &mut 0) == Ordering::Less
    }
}
