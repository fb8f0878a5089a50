//! Permutations: a word that says which of a node's slots count, and in which order.

/// The number of slots of a node: as many four-bit numbers as fit in a word with their count. Under loom the smallest
/// number that can split, so that every interleaving can be tried.
pub(crate) const SLOTS: usize = if cfg!(loom) { 3 } else { 15 };

/// The slots of a node that count, in their order: the count in the low four bits, then four bits a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permutation(pub u64);

impl Permutation {
    /// Returns the slots `0..count` in this order.
    pub fn identity(count: usize) -> Permutation {
        let order = 0xfedc_ba98_7654_3210_u64 & !u64::MAX.unbounded_shl(4 * count as u32);
        Permutation(order << 4 | count as u64)
    }

    #[inline]
    pub fn len(self) -> usize {
        (self.0 & 15) as usize
    }

    /// Returns the slot at `place`; 0 after the last.
    #[inline]
    pub fn slot(self, place: usize) -> usize {
        (self.0 >> (4 * place + 4)) as usize & 15
    }

    /// Returns the permutation with `slot` inserted at `place`.
    #[inline]
    #[must_use]
    pub fn insert(self, place: usize, slot: usize) -> Permutation {
        let shift = 4 * place as u32 + 4;
        let before = self.0 & !(u64::MAX << shift);
        let behind = (self.0 >> shift).unbounded_shl(shift + 4);
        Permutation((before | (slot as u64) << shift | behind) + 1)
    }

    /// Returns the permutation with `slot` replacing the one at `place`.
    #[inline]
    #[must_use]
    pub fn replace(self, place: usize, slot: usize) -> Permutation {
        let shift = 4 * place as u32 + 4;
        Permutation(self.0 & !(15 << shift) | (slot as u64) << shift)
    }

    /// Returns whether a full leaf's last inserts all came at its end: slots are filled in the order of inserts, so the
    /// last places then hold the last slots in their order.
    pub fn grew_at_its_end(self) -> bool {
        const LAST: usize = SLOTS / 3;
        self.len() == SLOTS && (SLOTS - LAST..SLOTS).all(|place| self.slot(place) == place)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use base::env::Random;

    #[test]
    fn a_permutation_is_a_list_of_slots() {
        let mut random = Random::seeded(1);
        for _ in 0..1000 {
            let mut permutation = Permutation::identity(0);
            let mut list = Vec::new();
            for slot in 0..SLOTS {
                let place = random.below(list.len() as u64 + 1) as usize;
                permutation = permutation.insert(place, slot);
                list.insert(place, slot);
                let replaced = random.below(list.len() as u64) as usize;
                let by = random.below(SLOTS as u64) as usize;
                permutation = permutation.replace(replaced, by);
                list[replaced] = by;
                assert_eq!(
                    (0..permutation.len()).map(|place| permutation.slot(place)).collect::<Vec<_>>(),
                    list
                );
            }
        }
    }

    #[test]
    fn growth_at_the_end_shows() {
        assert!(Permutation::identity(SLOTS).grew_at_its_end());
        assert!(!Permutation::identity(SLOTS - 1).grew_at_its_end());
        assert!(!Permutation::identity(SLOTS - 1).insert(0, SLOTS - 1).grew_at_its_end());
    }
}
