//! The contents of a write set, for a commit and its validation, a scan, or a spill.

use super::table::{self, Entry, State, TableSet};
use super::{Cursor, Prior, WriteSet};
use crate::uncommitted::large::Unpublished;
use base::op::Op;
use base::{TableId, Value};
use std::sync::Arc;
use txn::WrittenKey;

impl WriteSet {
    /// Returns the number of puts, deletes and range deletes to commit.
    pub fn operations(&self) -> u64 {
        self.sets().iter().map(|set| set.operations() as u64).sum()
    }

    /// Returns the number of puts, deletes and range deletes to commit, by table.
    pub fn operations_by_table(&self) -> impl Iterator<Item = (TableId, u64)> {
        let sets = self.sets().iter().map(|set| (set.table, set.operations() as u64));
        sets.filter(|&(_, operations)| operations > 0)
    }

    /// Returns the tables with something to commit, in the order of their ids.
    pub fn tables(&self) -> impl Iterator<Item = TableId> {
        self.sets().iter().filter(|set| set.operations() > 0).map(|set| set.table)
    }

    /// Sorts one table's writes by key, and keeps them sorted from now on. O(n log n) the first time, O(1) after that.
    pub fn sort(&self, table: TableId) {
        if let Some(at) = self.position(table) {
            self.tables[at].ensure_order(&self.arena);
        }
    }

    /// Calls [`WriteSet::sort`] for every table.
    pub fn sort_all(&self) {
        for set in self.sets() {
            set.ensure_order(&self.arena);
        }
    }

    /// Runs the first part of a commit, outside the critical section: sorts every table with more than one write, so
    /// that [`WriteSet::records`] and [`WriteSet::for_each_op`] can be called.
    pub fn sort_for_commit(&self) {
        for set in self.sets() {
            set.ensure_records(&self.arena);
        }
    }

    /// Returns a cursor over the writes to `table`, which must have been sorted; `None` if there are none, so that a
    /// scan need not merge anything. Range deletes count, because the merged cursor must know what they hide.
    pub fn cursor(&self, table: TableId) -> Option<Cursor<'_>> {
        let set = self.table(table).filter(|set| set.operations() > 0)?;
        Some(Cursor::new(set, &self.arena, &self.large))
    }

    /// Returns the first key, or the last one, that was put or deleted in `[start, end)` of `table`, which must have
    /// been sorted; no `end` means to the end of the table. O(log n).
    pub fn end_in(&self, table: TableId, start: &[u8], end: Option<&[u8]>, is_last: bool) -> Option<&[u8]> {
        let mut cursor = self.cursor(table)?;
        match (is_last, end) {
            (false, _) => cursor.seek(start),
            (true, Some(end)) => cursor.seek_before(end),
            (true, None) => cursor.seek_last(),
        }
        let (key, _) = cursor.entry()?;
        (key >= start && end.is_none_or(|end| key < end)).then_some(key)
    }

    /// Returns whether a range delete of `table` overlaps `[start, end)`. O(range deletes).
    pub fn has_range_in(&self, table: TableId, start: &[u8], end: Option<&[u8]>) -> bool {
        self.ranges(table)
            .any(|(low, high)| end.is_none_or(|end| low < end) && high.is_none_or(|high| start < high))
    }

    /// Returns the range deletes of `table` in key order: disjoint `[start, end)`, to be applied before the records.
    pub fn ranges(&self, table: TableId) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.table(table).into_iter().flat_map(|set| set.ranges.spans())
    }

    /// Returns whether there is a range delete in any table. O(tables).
    pub fn has_ranges(&self) -> bool {
        self.sets().iter().any(|set| set.ranges.len() > 0)
    }

    /// Returns the puts and deletes of `table`, which must have been sorted, in strictly ascending order.
    pub fn records(&self, table: TableId) -> impl Iterator<Item = (&[u8], Value<'_>)> {
        let record = |entry: &table::Entry| (entry.key(&self.arena), entry.own(&self.arena, &self.large));
        self.table(table).into_iter().flat_map(move |set| set.in_order(&self.arena).map(record))
    }

    /// Passes on everything to commit in `table`, which must have been sorted, in the order of the log. This is no
    /// iterator, because moving one costs a commit of a single put 3% of its instructions.
    pub fn for_each_op<'w>(&'w self, table: TableId, mut each: impl FnMut(Op<'w>)) {
        let Some(set) = self.table(table) else { return };
        set.ranges.spans().for_each(|(start, end)| each(Op::DeleteRange { start, end }));
        set.in_order(&self.arena).for_each(|entry| {
            let key = entry.key(&self.arena);
            each(match entry.own(&self.arena, &self.large) {
                Value::Inline(value) => Op::Put { key, value },
                Value::Large(large) => Op::PutLarge { key, large },
                Value::Deleted => Op::Delete { key },
            });
        });
    }

    /// Returns what validation needs, table by table, for the tables for which `changed` returns true. It is in key
    /// order if the table was sorted, which uses the history's caches better.
    pub fn written(
        &self,
        mut changed: impl FnMut(TableId) -> bool,
    ) -> impl Iterator<Item = (TableId, WrittenKey<'_>)> {
        self.sets().iter().filter(move |set| changed(set.table)).flat_map(|set| {
            let ranges = set.ranges.spans().map(|(start, end)| WrittenKey::Range { start, end });
            let keys = set.to_validate(&self.arena).map(|entry| {
                let (key, read) = (entry.key(&self.arena), entry.read());
                if entry.state() == State::Gone {
                    WrittenKey::Read { key }
                } else {
                    WrittenKey::Key { key, read }
                }
            });
            ranges.chain(keys).map(|written| (set.table, written))
        })
    }

    /// Returns how many keys of `table` were written or taken back, and the first and the last of them, if that is
    /// known: after sorting, and for a table without range deletes.
    pub fn ends(&self, table: TableId) -> Option<(usize, &[u8], &[u8])> {
        let set = self.table(table)?;
        set.ends(&self.arena).map(|(first, last)| (set.entries(), first, last))
    }

    /// Returns the keys that were looked up before they were written: all, or only those whose writes are gone.
    pub fn read_keys(&self, gone: bool) -> impl Iterator<Item = (TableId, &[u8])> {
        let keys = move |set: &'_ TableSet| {
            let read =
                set.all().iter().filter(move |entry| entry.read() && (!gone || entry.state() == State::Gone));
            read.map(|entry| (set.table, entry.key(&self.arena))).collect::<Vec<_>>()
        };
        self.sets().iter().flat_map(keys)
    }

    /// Returns whether many of the keys that are written in `table` were looked up before: at least a quarter.
    pub fn is_mostly_read(&self, table: TableId) -> bool {
        self.table(table).is_some_and(is_mostly_read)
    }

    /// Returns the keys that are written, and were looked up before, in tables in which these are few.
    pub fn rarely_read_keys(&self) -> impl Iterator<Item = (TableId, &[u8])> {
        let sets = self.sets().iter().filter(|set| !is_mostly_read(set));
        sets.flat_map(|set| {
            let read = set.all().iter().filter(|entry| is_read(entry));
            read.map(|entry| (set.table, entry.key(&self.arena)))
        })
    }

    /// Returns the large values that were put, each with whether its key was looked up before. Every table was sorted.
    pub fn large_entries(&self) -> impl Iterator<Item = (TableId, &[u8], &Arc<Unpublished>, Prior)> {
        let sets = if self.has_large() { self.sets() } else { &[] };
        sets.iter().flat_map(move |set| {
            set.in_order(&self.arena).filter_map(move |entry| {
                let prior = if entry.read() { Prior::Read } else { Prior::Unread };
                Some((set.table, entry.key(&self.arena), self.large.get(entry.large()?), prior))
            })
        })
    }

    /// Returns the large values to be committed. Every table was sorted.
    pub(crate) fn committed_large(&self) -> impl Iterator<Item = &Arc<Unpublished>> {
        let sets = if self.has_large() { self.sets() } else { &[] };
        sets.iter()
            .flat_map(|set| set.in_order(&self.arena))
            .filter_map(|entry| Some(self.large.get(entry.large()?)))
    }
}

/// Returns whether the key is written, and was looked up before.
fn is_read(entry: &Entry) -> bool {
    entry.read() && entry.state() != State::Gone
}

fn is_mostly_read(set: &TableSet) -> bool {
    let read = set.all().iter().filter(|entry| is_read(entry)).count();
    read > 0 && 4 * read >= set.entries()
}
