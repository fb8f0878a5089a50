//! Stretches of keys that are known to have no live entries, so that a cursor can skip the dead ones in them.
//!
//! A queue is written at its end and read at its head: until a checkpoint, or in an LSM table until a merge, the
//! removed entries lie dead before the head, and every look for the first record would skip all of them one by one.
//!
//! 1. *What is known*: as of commit `ts`, no key in `[start, end)` has a value that is visible to a reader whose time
//!    has passed `oldest_ms` ([`Reading::Dated`]). A cursor that walked over the stretch has seen it, and what was
//!    committed does not change: it stays true, whatever is committed, merged or expires later.
//! 2. *Who may use it*: a reader at `ts` or later. For that reader, only what was put in the stretch after `ts` can be
//!    alive. As long as its view has all of that in memtables, which know commits, the first such key is found in O(log
//!    n) ([`Memtable::key_changed_since`]), and one seek moves all layers up to it. So the view's runs must hold
//!    nothing newer than `ts` ([`View::absorbed`]), and no run may have been attached since. A reader before `ts`
//!    walks.
//! 3. *Private knowledge* needs no commits: a snapshot does not change, and a transaction's own put takes its key out
//!    of the stretch ([`Stretches::cut`]). A rollback to a savepoint forgets all of it.
//! 4. Newer knowledge replaces older: it has fewer changes to look at. A reader with an old timestamp keeps its own.
//! 5. A stretch is recorded if a walk skipped dozens of dead entries, each of which takes more memory than the stretch.
//!    All stretches together are bounded nevertheless ([`Known`]), and are forgotten when they would take more.
//!
//! A read that skips no dead entries, or only a few, does not use this module: it takes no lock and writes nothing.

use base::budget::{Account, Charge, MemoryCategory};
use base::sync::lock;
use base::{CommitTs, TableId};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex};

/// The most memory of a stretch in addition to its keys.
const STRETCH_BYTES: usize = 160;
/// The number of stretches of a table that one snapshot or transaction keeps for itself; beyond it, it begins anew.
pub(crate) const MOST_OWN: usize = 1024;

pub(crate) type End = Option<Box<[u8]>>;

/// A stretch; see 1. It begins at its key in the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub end: End,
    pub ts: CommitTs,
    pub oldest_ms: u64,
}

/// The stretches of one table, which are disjoint.
#[derive(Debug, Default)]
pub(crate) struct Stretches {
    pub by_start: BTreeMap<Box<[u8]>, Stretch>,
    bytes: usize,
}

/// The private knowledge of one snapshot or transaction, by table. It is boxed, so that an empty one is small and costs
/// nothing.
pub(crate) type Own = RefCell<Option<Box<HashMap<TableId, Stretches>>>>;

fn bytes(start: &[u8], stretch: &Stretch) -> usize {
    start.len() + stretch.end.as_ref().map_or(0, |end| end.len()) + STRETCH_BYTES
}

pub(crate) fn is_before(key: &[u8], end: Option<&[u8]>) -> bool {
    end.is_none_or(|end| key < end)
}

/// Returns the first key after `key`.
pub(crate) fn after(key: &[u8]) -> Box<[u8]> {
    [key, &[0]].concat().into()
}

impl Stretches {
    /// Returns the stretch that contains `key`.
    pub fn around(&self, key: &[u8]) -> Option<(&[u8], &Stretch)> {
        let until_key = (Bound::Unbounded, Bound::Included(key));
        let (start, stretch) = self.by_start.range::<[u8], _>(until_key).next_back()?;
        is_before(key, stretch.end.as_deref()).then_some((&**start, stretch))
    }

    /// Returns the stretches that overlap `start..end`, the last one first.
    fn within<'s>(
        &'s self,
        start: &'s [u8],
        end: Option<&[u8]>,
    ) -> impl Iterator<Item = (&'s [u8], &'s Stretch)> + use<'s> {
        let until = end.map_or(Bound::Unbounded, Bound::Excluded);
        let before_end = self.by_start.range::<[u8], _>((Bound::Unbounded, until)).rev();
        let before_end = before_end.map(|(start, stretch)| (&**start, stretch));
        before_end.take_while(move |(_, stretch)| is_before(start, stretch.end.as_deref()))
    }

    fn put(&mut self, start: Box<[u8]>, stretch: Stretch) {
        self.bytes += bytes(&start, &stretch);
        self.by_start.insert(start, stretch);
    }

    fn take(&mut self, start: &[u8]) -> Option<(Box<[u8]>, Stretch)> {
        let (start, stretch) = self.by_start.remove_entry(start)?;
        self.bytes -= bytes(&start, &stretch);
        Some((start, stretch))
    }

    /// Records a stretch, which is not empty. It replaces what was known of its keys, unless that is newer.
    pub fn note(&mut self, start: Box<[u8]>, new: Stretch) {
        if self.within(&start, new.end.as_deref()).any(|(_, old)| old.ts > new.ts) {
            return;
        }
        let mut rest = Vec::new();
        let overlapping: Vec<Box<[u8]>> =
            self.within(&start, new.end.as_deref()).map(|(start, _)| start.into()).collect();
        for old_start in overlapping {
            let (old_start, old) = self.take(&old_start).expect("a key of the map");
            if let Some(end) = &new.end
                && is_before(end, old.end.as_deref())
            {
                rest.push((end.clone(), old.clone()));
            }
            if old_start < start {
                rest.push((old_start, Stretch { end: Some(start.clone()), ..old }));
            }
        }
        self.put(start, new);
        rest.into_iter().for_each(|(start, old)| self.put(start, old));
    }

    /// Notes that `key` is alive.
    fn cut(&mut self, key: &[u8]) {
        let Some(start) = self.around(key).map(|(start, _)| Box::<[u8]>::from(start)) else { return };
        let (start, old) = self.take(&start).expect("a key of the map");
        let behind = after(key);
        if is_before(&behind, old.end.as_deref()) {
            self.put(behind, old.clone());
        }
        if *start < *key {
            self.put(start, Stretch { end: Some(key.into()), ..old });
        }
    }
}

/// Notes that the transaction that owns `own` puts `key`.
#[inline]
pub(crate) fn cut(own: &mut Own, table: TableId, key: &[u8]) {
    if let Some(known) = own.get_mut() {
        known.get_mut(&table).into_iter().for_each(|stretches| stretches.cut(key));
    }
}

/// The common knowledge of all readers of a database, within a bound of memory that is charged to its account.
#[derive(Debug)]
pub(crate) struct Known {
    most_bytes: usize,
    tables: Mutex<Tables>,
}

#[derive(Debug)]
struct Tables {
    by_id: HashMap<TableId, Stretches>,
    charge: Charge,
}

impl Known {
    /// Creates empty knowledge, which later takes at most a 64th of the memory, or 4 MiB.
    pub fn new(account: &Arc<Account>) -> Known {
        let most_bytes = (account.budget().limit_bytes() / 64).min(4 << 20);
        let charge = Charge::none(account, MemoryCategory::Memtables);
        Known { most_bytes, tables: Mutex::new(Tables { by_id: HashMap::new(), charge }) }
    }

    /// Returns the stretch around `key`, if `may_use` accepts it.
    pub fn around(
        &self,
        table: TableId,
        key: &[u8],
        may_use: impl Fn(&Stretch) -> bool,
    ) -> Option<(Box<[u8]>, Stretch)> {
        let tables = lock(&self.tables);
        let (start, stretch) = tables.by_id.get(&table)?.around(key)?;
        may_use(stretch).then(|| (start.into(), stretch.clone()))
    }

    pub fn note(&self, table: TableId, start: Box<[u8]>, stretch: Stretch) {
        let mut tables = lock(&self.tables);
        let Tables { by_id, charge } = &mut *tables;
        let stretches = by_id.entry(table).or_default();
        let before = stretches.bytes;
        stretches.note(start, stretch);
        let wanted = (charge.bytes() + stretches.bytes).saturating_sub(before);
        if wanted > self.most_bytes || !charge.resize(wanted) {
            by_id.clear();
            charge.shrink_to(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::env::Random;

    /// The test compares with an array of what is known of each key.
    #[test]
    fn newer_knowledge_takes_the_place_of_older_and_cuts_are_exact() {
        for seed in 0..60 {
            let mut random = Random::seeded(seed);
            let (mut stretches, mut known, mut noted) = (Stretches::default(), [None; 100], 0);
            for _ in 0..40 {
                let start = random.below(99) as u8;
                if random.chance(1, 4) {
                    stretches.cut(&[start]);
                    known[start as usize] = None;
                } else {
                    let end = (u64::from(start) + 1 + random.below(30)).min(100) as u8;
                    let ts = random.below(9);
                    let place = &mut known[start as usize..end as usize];
                    let end = (end < 100).then(|| Box::from([end]));
                    let new = Stretch { end, ts: CommitTs(ts), oldest_ms: 0 };
                    stretches.note([start].into(), new.clone());
                    // It is rejected completely if anything in it is known better.
                    if stretches.by_start.get(&[start][..]) == Some(&new) {
                        assert!(place.iter().flatten().all(|old| *old <= ts), "seed {seed}");
                        place.fill(Some(ts));
                        noted += 1;
                    }
                }
                for (key, known) in known.iter().enumerate() {
                    let found = stretches.around(&[key as u8]).map(|(_, stretch)| stretch.ts.0);
                    // Between two of these keys there are others, of which a cut leaves as much known.
                    assert_eq!(found, *known, "seed {seed}, key {key}");
                }
                let all: usize =
                    stretches.by_start.iter().map(|(start, stretch)| bytes(start, stretch)).sum();
                assert_eq!(stretches.bytes, all);
            }
            assert!(noted > 5, "seed {seed}");
        }
    }
}
