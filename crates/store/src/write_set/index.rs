//! From a key's hash to an entry number: open addressing with linear probing.
//!
//! A slot is one word: 32 bits of hash above, the entry number plus one below, 0 for an empty slot. A slot's home is
//! given by its hash's *high* bits, so that doubling reads the old slots and writes the new ones in one sweep, and
//! needs neither the entries nor their keys.

use base::seams::Random;
use std::sync::OnceLock;

/// Slots of the smallest index.
const MIN_SLOTS: usize = 64;
/// An emptied index keeps at most these: clearing them takes well under a microsecond.
const KEPT_SLOTS: usize = 4096;

/// See the module. An empty one owns no memory.
#[derive(Debug, Default)]
pub(super) struct Index {
    slots: Vec<u64>,
    used: usize,
}

impl Index {
    /// The entry with this `hash` for which `is` says yes. Two probes on average.
    #[inline]
    pub(super) fn find(&self, hash: u32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = self.home(hash)?;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            let entry = slot as u32 - 1;
            if (slot >> 32) as u32 == hash && is(entry) {
                return Some(entry);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds an entry that is not there yet.
    #[inline]
    pub(super) fn insert(&mut self, hash: u32, entry: u32) {
        // At most 5/8 full: longer clusters cost more than the memory is worth.
        if self.used * 8 >= self.slots.len() * 5 {
            self.grow();
        }
        self.used += 1;
        self.place(u64::from(hash) << 32 | u64::from(entry + 1));
    }

    #[inline]
    fn home(&self, hash: u32) -> Option<usize> {
        let bits = self.slots.len().checked_ilog2()?;
        Some(((u64::from(hash) << bits) >> 32) as usize)
    }

    #[inline]
    fn place(&mut self, slot: u64) {
        let mask = self.slots.len() - 1;
        let mut at = self.home((slot >> 32) as u32).expect("the index has slots");
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }

    #[cold]
    fn grow(&mut self) {
        let slots = (self.slots.len() * 2).max(MIN_SLOTS);
        let old = std::mem::replace(&mut self.slots, vec![0; slots]);
        old.into_iter().filter(|&slot| slot != 0).for_each(|slot| self.place(slot));
    }

    /// Forgets all entries; keeps a small buffer.
    pub(super) fn clear(&mut self) {
        if self.slots.len() > KEPT_SLOTS {
            self.slots = Vec::new();
        } else if self.used > 0 {
            self.slots.fill(0);
        }
        self.used = 0;
    }
}

/// Drawn once per process, so that nobody can choose keys that collide.
pub(super) fn process_seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| Random::from_entropy().next_u64())
}

/// Folded multiplication (Wang Yi's wyhash, 2019): 64 x 64 bits to 128, halves xored.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The hash of `key`, whose [`base::keys::head8`] is `head`. A key of at most eight bytes is its head and length.
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
        // Few distinct hashes, so that clusters are long and wrap around.
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
