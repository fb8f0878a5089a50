//! LSM tables: how a checkpoint merges a memtable's part of a table whose runs are not merged into one at once.
//!
//! ```text
//!   memtable ──► delta 0, newest   (rests)
//!                delta 1           (rests)
//!                delta 2           (moves) ─┐ keys from k on
//!                delta 3           (moves) ─┤
//!                delta 4           (fills) ◄┘ keys before k
//!                delta 5, lowest   (rests): no deletes, nothing is below it
//! ```
//!
//! A table of this layout is a *stack* of deltas, newest first: the same runs with filters that large transactions
//! spill and attach, read by the same code. Each delta states for some keys what they hold, or that they are deleted;
//! this hides all deltas below.
//!
//! * [`stack`]: the stack, how it is read, and its rows on the disk.
//! * `absorb`: a checkpoint puts the memtable's part on top, as one more delta.
//! * [`plan`]: which deltas are merged into one, and when.
//! * `compact`: merging them, a slice of keys with each checkpoint.
//! * `filters`: which filters are in memory.
//!
//! The reasons are in docs/decisions/0023-lsm-slices.md.

mod absorb;
mod compact;
mod filters;
pub mod plan;

pub use crate::state::stack::{self, Role, Stack, Stacked};
pub(crate) use plan::Quota;

use crate::checkpoint::Checkpoint;
use crate::read::handle::Table;
use crate::state::attach::Attached;
use crate::state::catalog::{Compression, RequestedLayout, TableRow};
use crate::state::store::Store;
use crate::state::tables::{Layout, Tables};
use crate::state::ttl::Reading;
use base::limits::UNIT_BYTES;
use base::sync::lock;
use base::{Result, TableId};
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// The ratio of what a checkpoint merges to what it absorbs, if there is as much to merge. It is more than the number
/// of times that a record is written, so that merging catches up.
const PACE: u64 = 8;

/// The share of what the file holds that a checkpoint merges at most, because merged records stay until it ends, in
/// addition to their copies.
const MOST_MERGED_SHARE: u64 = 4;
/// The least ratio of what a checkpoint merges to what it absorbs, even beyond that share: a merge would otherwise
/// never end.
const LEAST_PACE: u64 = 2;
/// The smallest slice, in bytes, that is worth merging between checkpoints that nothing waits for.
const LEAST_SLICE_BYTES: u64 = 1 << 20;

impl Store {
    /// Returns how much one checkpoint may merge, in bytes, without making the file too large meanwhile.
    fn most_merged_bytes(&self) -> u64 {
        lock(&self.space).used_units() * UNIT_BYTES as u64 / MOST_MERGED_SHARE
    }

    /// Returns how much a checkpoint merges that absorbs nothing, in bytes.
    pub(crate) fn usual_slice_bytes(&self) -> u64 {
        self.upkeep.slice_bytes.min(self.most_merged_bytes().max(LEAST_SLICE_BYTES))
    }

    /// Returns whether a table's runs are due for merging, or its layout changed. The caller holds the lock on the
    /// checkpoint.
    pub(crate) fn is_compaction_due(&self, tables: &Tables, wholly: bool) -> Result<bool> {
        let reader = self.slots.claim_or_full()?;
        let wanted = self.upkeep.wanted.rows(tables.layers(TableId::CATALOG).1, &self.pool, &reader)?;
        let is_due = |(table, layout): (TableId, &Layout)| {
            let wanted = wanted.get(&table).map_or_else(RequestedLayout::default, |row| row.layout);
            is_due(self, layout, wanted, wholly)
        };
        Ok(tables.iter().filter(|(table, _)| *table >= TableId::FIRST_USER).any(is_due))
    }
}

impl Store {
    /// Returns the number of runs of LSM tables.
    pub(crate) fn stacked_runs(&self) -> u64 {
        let runs = |(_, layout): (TableId, &Layout)| match layout {
            Layout::BTree(_) => 0,
            Layout::Lsm(stack) => stack.entries().len() as u64,
        };
        self.views.with_current(|view| view.tables.iter().map(runs).sum())
    }

    /// Returns the present layout of a table that has runs; `None` if it has none.
    pub fn layout_of(&self, table: &Table) -> Option<Layout> {
        self.views.with_current(|view| view.tables.get(table.id()).cloned())
    }
}

fn is_due(store: &Store, layout: &Layout, wanted: RequestedLayout, wholly: bool) -> bool {
    match layout {
        Layout::BTree(_) => wanted != RequestedLayout::BTree,
        Layout::Lsm(stack) => {
            let sizes = compact::sizes(stack.entries(), store.page_bytes);
            plan::plan(&sizes, wanted, wholly, store.upkeep.fan) != plan::Plan::Rest
        }
    }
}

impl Checkpoint<'_> {
    /// Returns how much the checkpoint merges of LSM tables in addition to what it absorbs.
    pub(crate) fn usual_quota(&self) -> u64 {
        let attached = |attached: &Attached| {
            attached
                .tables()
                .flat_map(|table| attached.runs(table))
                .map(|delta| delta.records.bytes)
                .sum::<u64>()
        };
        let attached: u64 =
            self.sealed().iter().filter_map(|s| s.attached.as_ref()).map(|a| attached(a)).sum();
        let absorbed = self.merging_bytes() + attached;
        (PACE * absorbed).min(self.store.most_merged_bytes().max(LEAST_PACE * absorbed))
    }

    /// Estimates the number of records of LSM tables to merge: those that move already, and those that are merged next,
    /// within the quota. It assumes that each table that is still to be absorbed gets a delta.
    pub(crate) fn expect_compaction(&self) -> Result<()> {
        let mut left = self.quota.bytes;
        let mut records = 0;
        for (table, layout) in self.tables.iter() {
            let Layout::Lsm(stack) = layout else { continue };
            let mut sizes = compact::sizes(stack.entries(), self.store.page_bytes);
            // They are in the order of their ids.
            if self.to_absorb.binary_search(&table).is_ok() {
                let bytes = self.merging_bytes() / self.to_absorb.len() as u64;
                sizes.insert(0, plan::Size { bytes, records: 0, role: Role::Rests, filtered: true });
            }
            let begun =
                match plan::plan(&sizes, self.wanted(table)?, self.quota.wholly, self.store.upkeep.fan) {
                    plan::Plan::Begin(range) => range,
                    _ => RangeInclusive::new(1, 0),
                };
            let moves =
                sizes.iter().enumerate().filter(|(at, size)| size.role == Role::Moves || begun.contains(at));
            let (bytes, all) = moves
                .fold((0, 0), |(bytes, records), (_, size)| (bytes + size.bytes, records + size.records));
            let taken = left.min(bytes);
            records += (u128::from(all) * u128::from(taken) / u128::from(bytes.max(1))) as u64;
            left -= taken;
        }
        self.store.merging.expect(records);
        Ok(())
    }

    /// Returns the tables that are due, beginning after the one that was compacted last.
    pub(crate) fn due_for_compaction(&self) -> Result<VecDeque<TableId>> {
        if self.quota.bytes == 0 {
            return Ok(VecDeque::new());
        }
        let mut due = VecDeque::new();
        for (table, layout) in self.tables.iter() {
            if is_due(self.store, layout, self.wanted(table)?, self.quota.wholly) {
                due.push_back(table);
            }
        }
        let last = self.store.upkeep.last_compacted();
        let behind = due.partition_point(|table| *table <= last);
        due.rotate_left(behind);
        Ok(due)
    }

    /// Merges one slice of one table. Returns whether another may follow.
    pub(crate) fn compact_next(&mut self) -> Result<bool> {
        let Some(&table) = self.to_compact.front().filter(|_| self.quota.bytes > 0) else { return Ok(false) };
        self.store.upkeep.note_compacted(table);
        if !self.work_on(table, |checkpoint| checkpoint.compact(table))? {
            self.to_compact.pop_front();
        }
        Ok(true)
    }

    /// Returns the layout that `table` should have, after the catalog itself was absorbed, which comes first. A table
    /// that is not in the catalog (the catalog itself, and dropped tables) has one run.
    pub(crate) fn wanted(&self, table: TableId) -> Result<RequestedLayout> {
        Ok(self.wanted_row(table)?.map_or_else(RequestedLayout::default, |row| row.layout))
    }

    fn wanted_row(&self, table: TableId) -> Result<Option<TableRow>> {
        if table < TableId::FIRST_USER {
            return Ok(None);
        }
        let (_, catalog) = self.tables.layers(TableId::CATALOG);
        let wanted = self.store.upkeep.wanted.rows(catalog, &self.store.pool, self.context().reader)?;
        Ok(wanted.get(&table).copied())
    }

    /// Returns whether the leaves that this checkpoint writes for `table` are compressed.
    pub(crate) fn compresses_leaves(&self, table: TableId) -> Result<bool> {
        let compresses =
            |row: TableRow| row.layout == RequestedLayout::Lsm && row.compression == Compression::Lz4;
        Ok(self.wanted_row(table)?.is_some_and(compresses))
    }

    /// Returns how this checkpoint reads the values of `table`: it drops entries that have expired by its time.
    pub(crate) fn reading(&self, table: TableId) -> Result<Reading> {
        let dropping_at_ms = || self.store.dropping_time_ms(self.absorbed());
        let ttl = self.wanted_row(table)?.and_then(|row| row.ttl);
        Ok(Reading::at(ttl, || *self.dropping_at_ms.get_or_init(dropping_at_ms)))
    }
}
