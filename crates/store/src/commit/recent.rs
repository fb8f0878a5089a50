//! The recent commits, as validation reads them: memtables, and the runs attached among them.
//!
//! Runs are on the disk, and reading one may fail, which [`txn::History`] cannot express: the failure is stored,
//! validation returns a conflict, and the caller reports the failure.
//!
//! The spilled writes of a transaction are validated in the other direction: each change in the history is looked up in
//! its runs, instead of each of its keys in the history. There are fewer changes, and their number depends on other
//! commits, not on the transaction.

use crate::state::committer::Committer;
use crate::state::store::Store;
use crate::state::view::SealedMemtable;
use crate::uncommitted::spill::{Reads, Spilled, Spills};
use crate::uncommitted::write_set::WriteSet;
use base::slots::Reader;
use base::{CommitTs, Error, Result, TableId};
use memtable::Memtable;
use run::Delta;
use std::cell::RefCell;
use std::ops::Bound;
use txn::{Conflict, History, Isolation};

/// The recent commits; see the module.
pub(crate) struct Recent<'a> {
    open: &'a Memtable,
    /// The sealed memtables, newest first.
    history: &'a [SealedMemtable],
    /// The commit to which the history reaches back.
    pub floor: CommitTs,
    /// The newest commit in the history.
    pub last: CommitTs,
    store: &'a Store,
    reader: &'a Reader,
    pub failure: RefCell<Option<Error>>,
}

impl Committer {
    /// Returns the recent commits, for validation.
    pub fn recent<'a>(&'a self, store: &'a Store, reader: &'a Reader) -> Recent<'a> {
        Recent::new(&self.open, &self.history, self.history_floor, self.last, store, reader)
    }
}

impl<'a> Recent<'a> {
    pub fn new(
        open: &'a Memtable,
        history: &'a [SealedMemtable],
        floor: CommitTs,
        last: CommitTs,
        store: &'a Store,
        reader: &'a Reader,
    ) -> Self {
        Recent { open, history, floor, last, store, reader, failure: RefCell::default() }
    }

    fn sealed_since(&self, since: CommitTs) -> impl Iterator<Item = &SealedMemtable> {
        self.history.iter().take_while(move |sealed| sealed.sealed_at > since)
    }

    fn since(&self, since: CommitTs) -> impl Iterator<Item = &Memtable> {
        std::iter::once(self.open).chain(self.sealed_since(since).map(|sealed| &*sealed.memtable))
    }

    /// Returns the runs of `table` that were attached after `since`, newest first, each with its commit.
    fn attached_since(&self, table: TableId, since: CommitTs) -> impl Iterator<Item = (CommitTs, &Delta)> {
        self.sealed_since(since).flat_map(move |sealed| {
            sealed.attached_for(table, CommitTs::MAX).iter().map(|delta| (sealed.sealed_at, delta))
        })
    }

    /// Returns the first result of `says` for the runs that were attached since.
    fn in_attached<T>(
        &self,
        table: TableId,
        since: CommitTs,
        says: impl Fn(CommitTs, &Delta) -> Result<Option<T>>,
        failed: impl FnOnce() -> T,
    ) -> Option<T> {
        for (ts, delta) in self.attached_since(table, since) {
            match says(ts, delta) {
                Ok(None) => {}
                Ok(found) => return found,
                Err(error) => {
                    *self.failure.borrow_mut() = Some(error);
                    return Some(failed());
                }
            }
        }
        None
    }

    /// Returns whether a cheap check shows that nothing between the first and the last key that `writes` has of `table`
    /// changed after `since`. Rows that come in order have adjacent keys, and are then validated by one look-up instead
    /// of one each.
    pub fn can_skip(&self, writes: &WriteSet, table: TableId, since: CommitTs) -> bool {
        let Some((count, first, last)) = writes.ends(table) else { return false };
        // The limit is a small part of the cost of the look-ups.
        let most = u32::try_from(count / 4).unwrap_or(u32::MAX - 1);
        most > 0
            && self.attached_since(table, since).next().is_none()
            && self.since(since).all(|memtable| memtable.is_unchanged(table, first, last, since, most))
    }

    /// Returns whether nothing that a transaction's spilled writes depend on was changed after `since`.
    pub fn validate_spills(
        &self,
        spills: &Spills,
        isolation: Isolation,
        since: CommitTs,
    ) -> std::result::Result<(), Conflict> {
        for (table, spilled, written) in spills.to_validate() {
            let matters = match isolation {
                Isolation::Serializable => spilled.reads != Reads::Nothing,
                Isolation::Snapshot => written,
            };
            if !matters || self.table_newest(table) <= since {
                continue;
            }
            let changed = self.changed_of(table, spilled, isolation, since).unwrap_or_else(|error| {
                *self.failure.borrow_mut() = Some(error);
                Some(Vec::new())
            });
            if let Some(key) = changed {
                return Err(Conflict::at(table, key));
            }
        }
        Ok(())
    }

    /// Returns a key of `spilled` that was changed after `since`. A serializable transaction's range deletes read
    /// nothing, and count only if they have hidden what was read.
    fn changed_of(
        &self,
        table: TableId,
        spilled: &Spilled,
        isolation: Isolation,
        since: CommitTs,
    ) -> Result<Option<Vec<u8>>> {
        let (pool, reader) = (&self.store.pool, self.reader);
        let own = match isolation {
            Isolation::Snapshot => spilled.delta.clone(),
            Isolation::Serializable if spilled.reads == Reads::Everything => spilled.delta.clone(),
            Isolation::Serializable => Delta { ranges: Default::default(), ..spilled.delta.clone() },
        };
        for memtable in self.since(since) {
            for (start, end) in memtable.ranges(table, CommitTs::MAX).spans(since) {
                let end = end.map_or(Bound::Unbounded, Bound::Excluded);
                if let Some(key) = own.any_in(pool, reader, start, end)? {
                    return Ok(Some(key));
                }
            }
            let mut from = Vec::new();
            while let Some(key) = memtable.key_changed_since(table, &from, since) {
                if own.knows(pool, reader, key)? {
                    return Ok(Some(key.to_vec()));
                }
                from.clear();
                from.extend_from_slice(key);
                from.push(0);
            }
        }
        for (_, other) in self.attached_since(table, since) {
            if let Some(key) = own.conflict_with(pool, reader, other)? {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }
}

impl History for Recent<'_> {
    fn newest_in(&self, table: TableId, key: &[u8], since: CommitTs) -> Option<CommitTs> {
        let mut memtables = self.since(since);
        let in_memory =
            memtables.find_map(|memtable| memtable.newest_in(table, key).filter(|ts| *ts > since));
        let in_attached = || {
            let (pool, reader) = (&self.store.pool, self.reader);
            let knows = |ts, delta: &Delta| Ok(delta.knows(pool, reader, key)?.then_some(ts));
            self.in_attached(table, since, knows, || CommitTs::MAX)
        };
        in_memory.or_else(in_attached)
    }

    fn changed_in(
        &self,
        table: TableId,
        start: &[u8],
        end: Bound<&[u8]>,
        since: CommitTs,
    ) -> Option<Vec<u8>> {
        let mut memtables = self.since(since);
        let in_memory = memtables.find_map(|memtable| memtable.changed_since(table, start, end, since));
        let in_attached = || {
            let (pool, reader) = (&self.store.pool, self.reader);
            let any = |_, delta: &Delta| delta.any_in(pool, reader, start, end);
            self.in_attached(table, since, any, Vec::new)
        };
        in_memory.or_else(in_attached)
    }

    fn table_newest(&self, table: TableId) -> CommitTs {
        let in_memory = self.since(CommitTs(0)).map(|memtable| memtable.newest(table));
        let in_attached = self.attached_since(table, CommitTs(0)).map(|(ts, _)| ts);
        in_memory.chain(in_attached).max().unwrap_or(CommitTs(0))
    }
}
