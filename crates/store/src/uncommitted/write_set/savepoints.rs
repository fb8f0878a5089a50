//! Going back: to a savepoint by undoing, and to a set that was frozen while its successor was written.
//!
//! 1. While a savepoint is live, each change is logged with what it replaced. A rollback undoes changes from the end;
//!    the savepoint stays, those made after it do not.
//! 2. A set is *frozen* as of its last savepoint, without the later memory, when its contents are spilled. Later writes
//!    go to a new set, whose savepoint numbers continue, so that all numbers differ. *Thawing* restores the earlier
//!    set.

use super::WriteSet;
use super::arena::Mark;
use super::ranges::Replaced;
use super::table::Content;
use base::{Error, Result, TableId};

/// A savepoint to which [`WriteSet::rollback_to`] goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a savepoint has an effect only if the transaction is rolled back to it"]
pub struct Savepoint {
    serial: u64,
}

impl Savepoint {
    /// Returns whether it was made before the call of [`WriteSet::moment`] that returned `moment`.
    pub fn is_before(self, moment: u64) -> bool {
        self.serial < moment
    }
}

/// One change, with what it replaced.
#[derive(Debug)]
pub(super) enum Undo {
    Entry { table: TableId, number: u32, old: Content },
    Range { table: TableId, change: Replaced },
}

#[derive(Debug)]
pub(super) struct LiveSavepoint {
    serial: u64,
    undo_len: usize,
    /// The sizes of the arena and of each table.
    arena: Mark,
    entries: Vec<(TableId, usize)>,
}

impl LiveSavepoint {
    /// Returns the bytes of memory that it takes.
    fn bytes(&self) -> usize {
        size_of::<Self>() + size_of::<(TableId, usize)>() * self.entries.capacity() + self.arena.bytes()
    }
}

impl WriteSet {
    /// Records the present state until the savepoint is released, or an earlier one is rolled back to. O(tables).
    pub fn savepoint(&mut self) -> Savepoint {
        let serial = self.next_serial;
        self.next_serial += 1;
        let entries = self.sets().iter().map(|set| (set.table, set.len())).collect();
        let (undo_len, arena) = (self.undo.len(), self.arena.mark());
        let made = LiveSavepoint { serial, undo_len, arena, entries };
        self.savepoint_bytes += made.bytes();
        self.savepoints.push(made);
        Savepoint { serial }
    }

    /// Forgets all but the first `count` savepoints.
    fn truncate_savepoints(&mut self, count: usize) {
        self.savepoint_bytes -= self.savepoints.drain(count..).map(|live| live.bytes()).sum::<usize>();
    }

    /// Returns a number that grows with each savepoint.
    pub fn moment(&self) -> u64 {
        self.next_serial
    }

    /// Rolls back to the state in which `savepoint` was made. It stays live; those made after it do not. O(changes
    /// since). Returns [`base::ErrorKind::Invalid`] if it is not live; nothing is changed then.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let level = self.level(savepoint)?;
        self.known.take();
        self.truncate_savepoints(level + 1);
        while self.undo.len() > self.savepoints[level].undo_len {
            match self.undo.pop().expect("longer than a length") {
                Undo::Entry { table, number, old } => {
                    let at = self.table_index(table);
                    let undone = self.tables[at].set(number, old, &self.arena);
                    self.large.release(undone.large());
                }
                Undo::Range { table, change } => {
                    self.undo_bytes -= change.bytes();
                    let at = self.table_index(table);
                    self.change_ranges(at, |ranges| ranges.undo(change));
                }
            }
        }
        Ok(())
    }

    /// Releases `savepoint` and those made after it; the writes remain. Returns [`base::ErrorKind::Invalid`] if it is
    /// not live.
    pub fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        let level = self.level(savepoint)?;
        self.truncate_savepoints(level);
        if level == 0 {
            self.undo_bytes = 0;
            for undo in self.undo.drain(..) {
                if let Undo::Entry { old, .. } = undo {
                    self.large.release(old.large());
                }
            }
        }
        Ok(())
    }

    /// Releases every savepoint; the writes remain.
    pub fn release_all(&mut self) {
        if let Some(first) = self.savepoints.first() {
            self.release(Savepoint { serial: first.serial }).expect("it is live");
        }
    }

    /// Returns whether there is a live savepoint.
    pub fn has_savepoints(&self) -> bool {
        !self.savepoints.is_empty()
    }

    /// Returns whether `savepoint` is live.
    pub fn knows(&self, savepoint: Savepoint) -> bool {
        self.level(savepoint).is_ok()
    }

    /// Rolls back to the last savepoint and frees all memory that was used since; returns an empty set for later
    /// writes. Without a savepoint it does nothing and returns `None`.
    pub fn freeze(&mut self) -> Option<WriteSet> {
        let serial = self.savepoints.last()?.serial;
        self.rollback_to(Savepoint { serial }).expect("the last savepoint is live");
        let last = self.savepoints.last().expect("it was just gone back to");
        for set in &mut self.tables[..self.used] {
            // They are in the order of their ids, as the tables are.
            let known = last.entries.binary_search_by_key(&set.table, |known| known.0);
            set.truncate(known.map_or(0, |at| last.entries[at].1));
        }
        (self.entries, self.range_bytes) = self.count();
        self.arena.truncate(&last.arena);
        self.arena.shrink_to_fit();
        self.undo.shrink_to_fit();
        self.tables.truncate(self.used);
        self.tables.shrink_to_fit();
        Some(WriteSet { next_serial: self.next_serial, ..WriteSet::default() })
    }

    /// Replaces this set with `earlier`, which was frozen. Savepoints keep their order.
    pub fn thaw(&mut self, earlier: WriteSet) {
        let next_serial = self.next_serial;
        *self = earlier;
        self.known.take();
        self.next_serial = next_serial;
    }

    fn level(&self, savepoint: Savepoint) -> Result<usize> {
        let live = self.savepoints.iter().rposition(|live| live.serial == savepoint.serial);
        live.ok_or_else(|| {
            Error::invalid(
                "the savepoint no longer exists: it was released, or the \
                                           transaction was rolled back to an earlier one",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::uncommitted::write_set::{Prior, Undo, WriteSet};
    use base::TableId;
    use base::env::Random;

    fn check_sums(writes: &WriteSet) {
        let replaced = writes.undo.iter().map(|undo| match undo {
            Undo::Entry { .. } => 0,
            Undo::Range { change, .. } => change.bytes(),
        });
        assert_eq!(writes.undo_bytes, replaced.sum::<usize>());
        let savepoints = writes.savepoints.iter().map(super::LiveSavepoint::bytes);
        assert_eq!(writes.savepoint_bytes, savepoints.sum::<usize>());
        let footprint = writes.footprint();
        assert!(footprint.held_bytes >= footprint.used_bytes, "{footprint:?}");
    }

    #[test]
    fn what_savepoints_and_range_deletes_take_is_counted() {
        for seed in 0..20 {
            let mut random = Random::seeded(seed);
            let (mut writes, mut made, mut frozen) = (WriteSet::new(), Vec::new(), Vec::new());
            for _ in 0..400 {
                let table = TableId(16 + random.below(3) as u32);
                let key = random.below(200) as u8;
                match random.below(12) {
                    0..4 => writes.put(table, &[key], b"value", Prior::Unread),
                    4..8 => writes.delete_range(table, &[key], Some(&[key.saturating_add(9)])),
                    8 => made.push(writes.savepoint()),
                    9 if random.chance(1, 4) => frozen.extend(writes.freeze().map(|next| {
                        let frozen = std::mem::replace(&mut writes, next);
                        check_sums(&frozen);
                        frozen
                    })),
                    9 => frozen.pop().into_iter().for_each(|earlier| writes.thaw(earlier)),
                    _ if made.is_empty() => {}
                    10 => drop(writes.rollback_to(made[random.below(made.len() as u64) as usize])),
                    _ => drop(writes.release(made.swap_remove(random.below(made.len() as u64) as usize))),
                }
                check_sums(&writes);
            }
            writes.clear();
            assert_eq!((writes.undo_bytes, writes.savepoint_bytes), (0, 0));
        }
    }
}
