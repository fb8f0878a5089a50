//! Extents that the log names although checkpoints have adopted them, kept for readers that follow the log.
//!
//! A log record names extents: a large value, or the pages of an attached run. The checkpoint that absorbs the record
//! adopts them, and that checkpoint or any later one may retire them. A reader that has not yet read the record still
//! has to read the extents.
//!
//! 1. Each save leaves a list of the extents that it adopted, under the last commit that its checkpoint absorbed. The
//!    records up to that commit, after those of the checkpoint before, have named exactly these extents.
//! 2. As long as commits after *c* are needed, the extents in the lists of later commits are not released.
//! 3. The newest list is always kept: a reader that begins to follow while that checkpoint is under way begins before
//!    it.
//!
//! Memory: 16 bytes for each extent, plus the overhead of a tree.

use crate::root::Extent;
use base::CommitTs;
use std::collections::BTreeMap;

/// Extents, by unit.
type Extents = BTreeMap<u64, u64>;

/// The extents that readers of the log need; see the module.
#[derive(Debug)]
pub(crate) struct Named {
    /// The extents that the last save has adopted.
    pub saved: Extents,
    pub lists: BTreeMap<CommitTs, Extents>,
    /// The commit after which all commits are needed.
    pub needed_after: CommitTs,
    /// The units that the last release kept only because a needed commit names them.
    pub kept_units: u64,
}

impl Default for Named {
    fn default() -> Self {
        let (saved, lists) = (Extents::new(), BTreeMap::new());
        Named { saved, lists, needed_after: CommitTs::MAX, kept_units: 0 }
    }
}

impl Named {
    /// Drops the lists that are no longer needed.
    pub fn forget(&mut self) {
        let (needed, newest) = (self.needed_after, self.lists.last_key_value().map(|(newest, _)| *newest));
        self.lists.retain(|absorbed, _| *absorbed > needed || Some(*absorbed) == newest);
    }

    /// Splits `extents` into those that must be kept and those that may be released.
    pub fn split(&mut self, extents: Vec<Extent>) -> (Vec<Extent>, Vec<Extent>) {
        if self.needed_after == CommitTs::MAX {
            return (Vec::new(), extents);
        }
        let (mut kept, mut free) = (Vec::new(), extents);
        for (_, list) in self.lists.range(CommitTs(self.needed_after.0 + 1)..) {
            let mut left = Vec::new();
            for extent in free {
                split_one(list, extent, &mut kept, &mut left);
            }
            free = left;
        }
        self.kept_units += kept.iter().map(|extent| extent.units).sum::<u64>();
        (kept, free)
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
        named.needed_after = CommitTs(4);
        let (kept, free) = named.split(whole.clone());
        assert_eq!(kept, [extent(10, 4), extent(20, 2), extent(16, 2)]);
        assert_eq!(free, [extent(8, 2), extent(14, 2), extent(18, 2), extent(22, 6)]);
        assert_eq!(named.kept_units, 8);
        assert_eq!(named.split(vec![extent(12, 1)]), (vec![extent(12, 1)], vec![]));
        assert_eq!(named.split(vec![extent(14, 1)]), (vec![], vec![extent(14, 1)]));
        named.needed_after = CommitTs(5);
        named.forget();
        assert_eq!(named.split(whole).0, [extent(16, 2)]);
        named.needed_after = CommitTs::MAX;
        named.forget();
        assert_eq!(named.lists.len(), 1, "the newest list stays");
    }
}
