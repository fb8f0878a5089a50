//! Finding a key in a page.
//!
//! 1. A key that does not begin with the page's prefix sorts before all entries or after all.
//! 2. A search over the slots finds the first whose head is not less than the key's. It touches no cell. It starts near
//!    the place where the head would be if heads were spread evenly, and halves what is left. Halving has no branch
//!    that depends on a key (`partition_point` selects instead).
//! 3. Suffixes are compared only among slots with the same head, and only if both are longer than a head. With equal
//!    heads a suffix of at most four bytes is a prefix of the other one (zeros pad a head, so `a` and `a\0` share one),
//!    and the shorter of the two is less.

use crate::header::{SLOT_BYTES, Slot, field, head_of};
use crate::{EditCounters, Kind, Page};
use base::prefetch::prefetch;
use std::cmp::Ordering;

/// Suffixes up to this long are known from head and length alone.
const HEAD_BYTES: usize = 4;

impl<'a> Page<'a> {
    /// Returns the position of `key` as `Ok`, or the position where it would have to be inserted as `Err`. In an inner
    /// page both are at least 1, because entry 0 has no key and precedes all others. O(log count).
    #[inline]
    pub fn search(self, key: &[u8]) -> Result<usize, usize> {
        self.locate(self.strip_prefix(key)?, &mut 0, |_| ())
    }

    /// Returns the position of `key` as `Ok`, or the position where it would have to be inserted as `Err`, for a caller
    /// that is about to edit. Counts the comparisons that had to read a cell, and compares with the last entry first,
    /// so that ascending keys find their place in O(1).
    #[inline]
    pub fn search_counted(self, key: &[u8], counters: &mut EditCounters) -> Result<usize, usize> {
        self.fetch_gap_end();
        let suffix = self.strip_prefix(key)?;
        let count = self.count();
        if count > self.kind().first_keyed() {
            let last = self.slot(count - 1);
            let order = self.compare(last, head_of(suffix), suffix, &mut counters.key_decodes);
            if order == Ordering::Less {
                return Err(count);
            }
        }
        self.locate(suffix, &mut counters.key_decodes, |_| ())
    }

    /// Prefetches the place where the next cell will probably be written, which a search does not touch.
    #[inline]
    fn fetch_gap_end(self) {
        if let Some(last) = (field::cells_start(self.bytes()) as usize).checked_sub(1) {
            prefetch(self.bytes().as_ptr().wrapping_add(last));
        }
    }

    /// Returns the child of an inner page that covers `key`: the last one whose key is not greater.
    #[inline]
    pub fn child_for(self, key: &[u8]) -> usize {
        self.child_near(key, |_| ())
    }

    /// Returns the child of an inner page that covers `key`: the last one whose key is not greater. If it guesses where
    /// the child is, it calls `near` with the guess a little earlier, in time for a prefetch.
    #[inline]
    pub fn child_near(self, key: &[u8], near: impl FnOnce(usize)) -> usize {
        match self.strip_prefix(key).and_then(|suffix| self.locate(suffix, &mut 0, near)) {
            Ok(i) => i,
            Err(i) => i - 1,
        }
    }

    /// Returns how many entries of a leaf after entry `from` (back: before it) come before `key` in that direction,
    /// `most` or fewer. It looks at the farthest of them first, then gallops: O(log of the result).
    #[inline]
    pub fn run_before(self, from: usize, key: &[u8], forward: bool, most: usize) -> usize {
        debug_assert_eq!(self.kind(), Kind::Leaf);
        let left = if forward { (self.count() - 1).saturating_sub(from) } else { from }.min(most);
        let Some(suffix) = self.suffix_of(key) else {
            return if (key < self.prefix()) == forward { 0 } else { left };
        };
        let (head, before) = (head_of(suffix), if forward { Ordering::Less } else { Ordering::Greater });
        let comes_first = |distance: usize| {
            let slot = self.slot(if forward { from + distance } else { from - distance });
            self.compare(slot, head, suffix, &mut 0) == before
        };
        if left == 0 || comes_first(left) {
            return left;
        }
        let (mut low, mut high) = (0, 1);
        while high < left && comes_first(high) {
            (low, high) = (high, 2 * high);
        }
        // The entry at distance `low` comes first, and that at `high` does not.
        high = high.min(left);
        while high - low > 1 {
            let middle = (low + high) / 2;
            if comes_first(middle) { low = middle } else { high = middle }
        }
        low
    }

    /// Returns the part of `key` after the page's prefix, or `None` if the key does not begin with it.
    #[inline]
    pub fn suffix_of(self, key: &[u8]) -> Option<&[u8]> {
        let prefix = self.prefix();
        // Byte by byte: comparing most prefixes takes less time than a call of `memcmp`.
        key.split_at_checked(prefix.len()).and_then(|(front, rest)| front.iter().eq(prefix).then_some(rest))
    }

    /// Returns [`Page::suffix_of`] `key`, or `Err` with the insert position if it has another prefix.
    #[inline]
    fn strip_prefix(self, key: &[u8]) -> Result<&[u8], usize> {
        self.suffix_of(key).ok_or_else(|| match key < self.prefix() {
            true => self.kind().first_keyed().min(self.count()),
            false => self.count(),
        })
    }

    /// Returns the position of the key whose rest after the page's prefix is `suffix`, as [`Page::search`] does (steps
    /// 2 and 3).
    #[inline]
    fn locate(self, suffix: &[u8], decodes: &mut u64, near: impl FnOnce(usize)) -> Result<usize, usize> {
        let slots = self.slots();
        let head = head_of(suffix);
        let least = Slot::new(head, 0, 0).0;
        let first = self.kind().first_keyed().min(slots.len());
        let low = first + lower_bound(&slots[first..], least, near);
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

    /// Compares the key of `slot` with `suffix`, whose head is `head`.
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

    /// Returns whether entry `i - 1`'s key is less than entry `i`'s; both have keys.
    #[inline]
    pub(crate) fn ascends_at(self, i: usize) -> bool {
        let (before, slot) = (self.slot(i - 1), self.slot(i));
        before.head() < slot.head()
            || self.compare(before, slot.head(), self.suffix_in(slot), &mut 0) == Ordering::Less
    }
}

/// The distance from its guess within which [`lower_bound`] looks first. Halving this window takes 5 steps, on 4 or 5
/// neighbouring cache lines; among 1,000 evenly spread heads the guess is off by 16 slots on average.
const REACH: usize = 16;
/// The number of slots in a cache line.
const LINE_SLOTS: usize = 64 / SLOT_BYTES;

/// Returns the index of the first of `slots` that is not less than `least`, by value.
///
/// If there are many slots, it guesses that their heads lie evenly between the first and the last (interpolation, as in
/// Graefe, "B-tree indexes, interpolation search, and skew", 2006). Keys that are hashes, random ids or integers do,
/// and then a cache line or two is read where halving the whole array touches one for each step. A wrong guess costs
/// two looks, and shows on which side of it the search must continue.
#[inline]
fn lower_bound(slots: &[[u8; SLOT_BYTES]], least: u64, near: impl FnOnce(usize)) -> usize {
    let less = |at: usize| Slot::decode(slots[at]).0 < least;
    let (mut from, mut to) = (0, slots.len());
    if slots.len() > 4 * REACH {
        let head = |at: usize| u64::from(Slot::decode(slots[at]).head());
        let (lowest, span) = (head(0), head(slots.len() - 1).saturating_sub(head(0)).max(1));
        let share = (least >> 32).saturating_sub(lowest).min(span);
        // The product is at most 2^32 times 2^14.
        let guess = (share * (slots.len() - 1) as u64 / span) as usize;
        let (low, high) = (guess.saturating_sub(REACH), (guess + REACH).min(slots.len()));
        slots[low..high].iter().step_by(LINE_SLOTS).for_each(|line| prefetch(line));
        near(guess);
        if low > 0 && !less(low - 1) {
            to = low - 1;
        } else if high < slots.len() && less(high) {
            from = high + 1;
        } else {
            (from, to) = (low, high);
        }
    }
    from + slots[from..to].partition_point(|&slot| Slot::decode(slot).0 < least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PageMut, Value};
    use base::CheckpointNo;
    use base::env::Random;

    /// Makes the head of a slot.
    type Spread<'a> = &'a dyn Fn(usize, &mut Random) -> u32;

    #[test]
    fn a_run_before_a_key_ends_where_counting_ends() {
        let mut random = Random::seeded(4);
        for prefix in ["", "a long prefix "] {
            let mut keys: Vec<String> =
                (0..120).map(|_| format!("{prefix}{:x}", random.below(9_000))).collect();
            keys.sort_unstable();
            keys.dedup();
            let mut bytes = vec![0; 16 << 10];
            let mut leaf = PageMut::init(&mut bytes, Kind::Leaf, 0, CheckpointNo(1));
            for (at, key) in keys.iter().enumerate() {
                leaf.insert(at, key.as_bytes(), Value::Inline(b""), &mut EditCounters::default()).unwrap();
            }
            for _ in 0..3000 {
                let (from, most) = (random.below(keys.len() as u64) as usize, random.below(140) as usize);
                let key = match random.below(10) {
                    0 => "0".into(),
                    1 => "zz".into(),
                    _ => format!("{prefix}{:x}", random.below(9_000)),
                };
                let ahead = keys[from + 1..].iter().take(most).take_while(|other| **other < key).count();
                let back = keys[..from].iter().rev().take(most).take_while(|other| **other > key).count();
                let runs =
                    [true, false].map(|way| leaf.as_page().run_before(from, key.as_bytes(), way, most));
                assert_eq!(runs, [ahead, back], "from {} before {key}", keys[from]);
            }
        }
    }

    #[test]
    fn the_guess_is_right_however_heads_are_spread() {
        let mut random = Random::seeded(3);
        let even = |_: usize, random: &mut Random| random.next_u64() as u32;
        let skewed = |_: usize, random: &mut Random| (random.next_u64() >> (32 + random.below(30))) as u32;
        let equal = |_: usize, _: &mut Random| 7;
        let jump = |i: usize, _: &mut Random| if i == 0 { 0 } else { u32::MAX - (i / 3) as u32 };
        let spreads: [Spread<'_>; 4] = [&even, &skewed, &equal, &jump];
        for spread in spreads {
            for count in [1, 2, 63, 64, 65, 66, 200, 1500] {
                let mut heads: Vec<u32> = (0..count).map(|i| spread(i, &mut random)).collect();
                heads.sort_unstable();
                let slots: Vec<_> = heads.iter().map(|&head| Slot::new(head, 64, 4).encode()).collect();
                let around = |head: &u32| [head.saturating_sub(1), *head, head.saturating_add(1)];
                for head in heads.iter().flat_map(around).chain([0, u32::MAX]) {
                    let least = Slot::new(head, 0, 0).0;
                    let expected = slots.partition_point(|&slot| Slot::decode(slot).0 < least);
                    assert_eq!(lower_bound(&slots, least, |_| ()), expected, "{head} among {count}");
                }
            }
        }
    }
}
