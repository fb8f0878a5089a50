//! Extents that the log names although checkpoints have adopted them, kept for readers that follow the log, and for
//! the validation of open transactions.
//!
//! A log record names extents: a large value, or the pages of an attached run. The checkpoint that absorbs the record
//! adopts them, and that checkpoint or any later one may retire them. A reader that has not yet read the record still
//! has to read the extents. So does a transaction that is open since before the commit, when it is validated against
//! the attached runs, although its own view has neither them nor their checkpoint.
//!
//! 1. Each save leaves a list of the extents that it adopted, under the last commit that its checkpoint absorbed. The
//!    records up to that commit, after those of the checkpoint before, have named exactly these extents.
//! 2. As long as readers need the commits after *c*, the extents in the lists of later commits are not released. The
//!    same holds for the commits after which a transaction may be validated. What is kept for either is counted
//!    separately: it is not a feed's fault that a transaction is long, nor the reverse.
//! 3. The newest list is always kept: a reader that begins to follow while that checkpoint is under way begins before
//!    it.
//!
//! Memory: 16 bytes for each extent, plus the overhead of a tree.

use crate::root::Extent;
use base::CommitTs;
use std::collections::BTreeMap;

/// Extents, by unit.
type Extents = BTreeMap<u64, u64>;

/// The extents that readers of the log and validation need; see the module.
#[derive(Debug)]
pub(crate) struct Named {
    /// The extents that the last save has adopted.
    pub saved: Extents,
    pub lists: BTreeMap<CommitTs, Extents>,
    /// The commits after which all commits are needed.
    pub needed: NamedNeed,
    /// The units that the last release kept because a commit that followers need names them.
    pub followed_units: u64,
    /// The units that the last release kept because a commit that validation needs names them, by the list's commit.
    pub validated_units: BTreeMap<CommitTs, u64>,
}

/// The commits after which the extents that commits name are not released. [`CommitTs::MAX`]: none are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedNeed {
    /// The commit after which readers that follow the log need them.
    pub followed_after: CommitTs,
    /// The commit after which the validation of open transactions needs them.
    pub validated_after: CommitTs,
}

impl NamedNeed {
    /// No commit is needed.
    pub const NOTHING: NamedNeed =
        NamedNeed { followed_after: CommitTs::MAX, validated_after: CommitTs::MAX };

    /// Returns the commit after which anything needs them.
    fn after(&self) -> CommitTs {
        self.followed_after.min(self.validated_after)
    }
}

impl Default for Named {
    fn default() -> Self {
        let (saved, lists) = (Extents::new(), BTreeMap::new());
        let (followed_units, validated_units) = (0, BTreeMap::new());
        Named { saved, lists, needed: NamedNeed::NOTHING, followed_units, validated_units }
    }
}

impl Named {
    /// Drops the lists that are no longer needed.
    pub fn forget(&mut self) {
        let (needed, newest) = (self.needed.after(), self.lists.last_key_value().map(|(newest, _)| *newest));
        self.lists.retain(|absorbed, _| *absorbed > needed || Some(*absorbed) == newest);
    }

    /// Splits `extents` into those that must be kept and those that may be released.
    pub fn split(&mut self, extents: Vec<Extent>) -> (Vec<Extent>, Vec<Extent>) {
        let after = self.needed.after();
        if after == CommitTs::MAX {
            return (Vec::new(), extents);
        }
        let (mut kept, mut free) = (Vec::new(), extents);
        for (&absorbed, list) in self.lists.range(CommitTs(after.0 + 1)..) {
            let (mut left, before) = (Vec::new(), kept.len());
            for extent in free {
                split_one(list, extent, &mut kept, &mut left);
            }
            free = left;
            let units: u64 = kept[before..].iter().map(|extent| extent.units).sum();
            if absorbed > self.needed.followed_after {
                self.followed_units += units;
            }
            if absorbed > self.needed.validated_after && units > 0 {
                *self.validated_units.entry(absorbed).or_default() += units;
            }
        }
        (kept, free)
    }

    /// Begins to count anew, for a release.
    pub fn forget_counts(&mut self) {
        self.followed_units = 0;
        self.validated_units.clear();
    }
}

/// Moves the parts of `extent` that are in `list` to `kept`, and the others to `left`.
fn split_one(list: &Extents, extent: Extent, kept: &mut Vec<Extent>, left: &mut Vec<Extent>) {
    let mut at = extent.unit;
    let before = list.range(..=at).next_back();
    let within = list.range(at + 1..extent.end().max(at + 1));
    for (&unit, &units) in before.into_iter().chain(within) {
        let (from, to) = (unit.max(at), (unit + units).min(extent.end()));
        if from >= to {
            continue;
        }
        if at < from {
            left.push(Extent { unit: at, units: from - at });
        }
        kept.push(Extent { unit: from, units: to - from });
        at = to;
    }
    if at < extent.end() {
        left.push(Extent { unit: at, units: extent.end() - at });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(unit: u64, units: u64) -> Extent {
        Extent { unit, units }
    }

    #[test]
    fn what_is_needed_is_split_from_what_is_not() {
        let mut named = Named::default();
        named.lists.insert(CommitTs(5), Extents::from([(10, 4), (20, 2)]));
        named.lists.insert(CommitTs(9), Extents::from([(16, 2)]));
        let whole = vec![extent(8, 20)];
        assert_eq!(named.split(whole.clone()), (vec![], whole.clone()), "nobody follows");
        named.needed.followed_after = CommitTs(4);
        let (kept, free) = named.split(whole.clone());
        assert_eq!(kept, [extent(10, 4), extent(20, 2), extent(16, 2)]);
        assert_eq!(free, [extent(8, 2), extent(14, 2), extent(18, 2), extent(22, 6)]);
        assert_eq!((named.followed_units, named.validated_units.len()), (8, 0));
        assert_eq!(named.split(vec![extent(12, 1)]), (vec![extent(12, 1)], vec![]));
        assert_eq!(named.split(vec![extent(14, 1)]), (vec![], vec![extent(14, 1)]));
        named.needed.followed_after = CommitTs(5);
        named.forget();
        assert_eq!(named.split(whole).0, [extent(16, 2)]);
        named.needed = NamedNeed::NOTHING;
        named.forget();
        assert_eq!(named.lists.len(), 1, "the newest list stays");
    }

    #[test]
    fn what_is_kept_is_counted_for_those_who_need_it() {
        let mut named = Named::default();
        named.lists.insert(CommitTs(5), Extents::from([(10, 4)]));
        named.lists.insert(CommitTs(9), Extents::from([(16, 2)]));
        let whole = vec![extent(8, 20)];
        named.needed.validated_after = CommitTs(4);
        assert_eq!(named.split(whole.clone()).0, [extent(10, 4), extent(16, 2)]);
        assert_eq!(named.validated_units, BTreeMap::from([(CommitTs(5), 4), (CommitTs(9), 2)]));
        assert_eq!(named.followed_units, 0);
        named.forget_counts();
        named.needed = NamedNeed { followed_after: CommitTs(4), validated_after: CommitTs(5) };
        assert_eq!(named.split(whole).0, [extent(10, 4), extent(16, 2)]);
        assert_eq!((named.followed_units, &named.validated_units), (6, &BTreeMap::from([(CommitTs(9), 2)])));
        named.forget();
        assert_eq!(named.lists.len(), 2, "a follower needs both");
    }
}
