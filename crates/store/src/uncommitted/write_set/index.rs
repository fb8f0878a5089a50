//! From a key's hash to an entry number: open addressing in groups of eight, with a byte of each hash kept apart.
//!
//! 1. A *slot* holds 32 bits of hash and the entry number; eight slots are a group and fill a cache line. A *tag*, one
//!    byte per slot, is 0 for an empty slot and seven bits of the hash with the top bit set otherwise. A group's eight
//!    tags are one word and are compared at once (as in Abseil's Swiss tables, Kulukundis 2017).
//! 2. A key that is absent, the common case of an insert, is refused by tags alone. They are a ninth of the index and
//!    stay in the cache where the slots do not.
//! 3. A hash's home group is given by its *high* bits, so that doubling reads the old slots and writes the new ones in
//!    one sweep, and needs neither the entries nor their keys.
//! 4. Nothing is ever removed singly: a group with an empty slot ends every search that comes to it.

use base::env::Random;
use std::sync::OnceLock;

const GROUP: usize = 8;
/// The number of groups of the smallest index.
const MIN_GROUPS: usize = 8;
/// The most groups that an emptied index keeps: clearing them takes well under a microsecond.
const KEPT_GROUPS: usize = 256;

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// An index; see the module. An empty one owns no memory.
#[derive(Debug, Default)]
pub(super) struct Index {
    tags: Vec<u64>,
    slots: Vec<[u64; GROUP]>,
    used: usize,
}

#[inline]
fn tag(hash: u32) -> u64 {
    u64::from(hash & 0x7f | 0x80)
}

impl Index {
    /// Returns the entry with this `hash` for which `is` returns true. It looks at one group on average.
    #[inline]
    pub(super) fn find(&self, hash: u32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.tags.is_empty() {
            return None;
        }
        let mut group = self.home(hash);
        loop {
            let tags = self.tags[group];
            // A byte that equals the tag becomes 0, and 0 bytes get their top bit set. A byte above one of them may be
            // reported wrongly; its slot's hash decides.
            let difference = tags ^ (LOW_BITS * tag(hash));
            let mut matches = difference.wrapping_sub(LOW_BITS) & !difference & HIGH_BITS;
            while matches != 0 {
                let slot = self.slots[group][matches.trailing_zeros() as usize / 8];
                if (slot >> 32) as u32 == hash && is(slot as u32) {
                    return Some(slot as u32);
                }
                matches &= matches - 1;
            }
            if !tags & HIGH_BITS != 0 {
                return None;
            }
            group = (group + 1) & (self.tags.len() - 1);
        }
    }

    /// Returns the number of entries.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.used
    }

    /// Adds an entry that does not exist yet.
    #[inline]
    pub(super) fn insert(&mut self, hash: u32, entry: u32) {
        // It is at most 3/4 full: most searches then end in their home group.
        if self.used * 4 >= self.tags.len() * GROUP * 3 {
            self.grow();
        }
        self.used += 1;
        self.place(hash, u64::from(hash) << 32 | u64::from(entry));
    }

    #[inline]
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.tags.len() as u64) >> 32) as usize
    }

    #[inline]
    fn place(&mut self, hash: u32, slot: u64) {
        let mut group = self.home(hash);
        loop {
            let empty = !self.tags[group] & HIGH_BITS;
            if empty != 0 {
                let at = empty.trailing_zeros() as usize / 8;
                self.tags[group] |= tag(hash) << (8 * at);
                self.slots[group][at] = slot;
                return;
            }
            group = (group + 1) & (self.tags.len() - 1);
        }
    }

    #[cold]
    fn grow(&mut self) {
        let groups = (self.tags.len() * 2).max(MIN_GROUPS);
        let old_tags = std::mem::replace(&mut self.tags, vec![0; groups]);
        let old_slots = std::mem::replace(&mut self.slots, vec![[0; GROUP]; groups]);
        for (tags, slots) in old_tags.into_iter().zip(old_slots) {
            // Slots of a group are filled from the front.
            let filled = (tags & HIGH_BITS).count_ones() as usize;
            slots[..filled].iter().for_each(|&slot| self.place((slot >> 32) as u32, slot));
        }
    }

    /// Forgets all entries, and keeps a small buffer.
    pub(super) fn clear(&mut self) {
        if self.tags.len() > KEPT_GROUPS {
            *self = Index::default();
        } else if self.used > 0 {
            self.tags.fill(0);
        }
        self.used = 0;
    }
}

/// Returns a seed that is drawn once per process, so that a client cannot choose keys that collide.
pub(super) fn process_seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| Random::from_entropy().next_u64())
}

/// Returns the folded product (Wang Yi's wyhash, 2019): 64 x 64 bits to 128, halves xored.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Returns the hash of `key`, whose [`base::keys::head8`] is `head`. A key of at most eight bytes is its head and
/// length.
#[inline]
pub(super) fn hash(seed: u64, head: u64, key: &[u8]) -> u32 {
    const ODD: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xa076_1d64_78bd_642f];
    let mut state = fold(head ^ seed, ODD[0] ^ key.len() as u64);
    if key.len() > 8 {
        let (words, rest) = key[8..].as_chunks::<8>();
        for word in words {
            state = fold(state ^ u64::from_le_bytes(*word), ODD[1] ^ seed);
        }
        if !rest.is_empty() {
            state = fold(state ^ base::keys::head8(rest), ODD[1] ^ seed);
        }
    }
    (fold(state, ODD[1] ^ seed) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_found_and_no_other() {
        let mut index = Index::default();
        let mut random = Random::seeded(1);
        // There are few distinct hashes, so that clusters are long and wrap around.
        let hashes: Vec<u32> = (0..3000).map(|_| (random.below(700) << 22) as u32 | 0xffff).collect();
        for round in 0..2 {
            for (entry, &hash) in hashes.iter().enumerate() {
                let entry = entry as u32;
                assert_eq!(index.find(hash, |found| found == entry), None, "round {round}");
                index.insert(hash, entry);
            }
            for (entry, &hash) in hashes.iter().enumerate() {
                assert_eq!(index.find(hash, |found| found == entry as u32), Some(entry as u32));
            }
            index.clear();
        }
    }

    #[test]
    fn hashes_of_like_keys_differ() {
        let keys =
            (0..20_000u32).flat_map(|n| [n.to_be_bytes().to_vec(), format!("common prefix {n}").into()]);
        let mut hashes: Vec<u32> = keys.map(|key| hash(7, base::keys::head8(&key), &key)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert!(hashes.len() > 39_900, "{} distinct of 40,000", hashes.len());
    }
}
