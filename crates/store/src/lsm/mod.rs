//! LSM tables: what a checkpoint makes of a memtable's part that is not merged into one run at once.
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
//! spill and attach, read by the same code. Each says of some keys what they hold, or that they are deleted; what it
//! says hides all that lies below.
//!
//! * [`stack`]: the stack, how it is read, and its rows on the disk.
//! * `absorb`: a checkpoint puts the memtable's part on top, as one more delta.
//! * [`plan`]: which deltas are merged into one, and when.
//! * `compact`: merging them, a slice of keys with each checkpoint.
//!
//! Why so: docs/decisions/0023-lsm-slices.md.

mod absorb;
mod compact;
pub mod plan;
pub mod stack;

pub(crate) use compact::Quota;
pub use stack::{Role, Stack, Stacked};

use crate::attach::Attached;
use crate::catalog::{TableRow, WantedLayout};
use crate::checkpoint::Checkpoint;
use crate::handle::Table;
use crate::store::Store;
use crate::tables::{Layout, Tables};
use base::slots::Reader;
use base::{Error, ErrorKind, Result, TableId};
use page::Value;
use pool::Pool;
use run::{Cursor, Run};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// The layout that each table's owner asked for, as the catalog's run has it.
pub(crate) type WantedLayouts = Arc<BTreeMap<TableId, WantedLayout>>;

/// What the catalog said when it was looked at last.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    last: Mutex<Option<(Run, WantedLayouts)>>,
}

impl Wanted {
    /// What `catalog`, table 0's run, says. Read once for each run.
    pub fn of(&self, catalog: Run, pool: &Pool, reader: &Reader) -> Result<WantedLayouts> {
        let mut last = base::sync::lock(&self.last);
        if let Some((run, wanted)) = &*last
            && *run == catalog
        {
            return Ok(Arc::clone(wanted));
        }
        let mut wanted = BTreeMap::new();
        let mut cursor = Cursor::new(catalog);
        cursor.seek_first(pool, reader)?;
        while let Some((name, value)) = cursor.entry() {
            let Value::Inline(row) = value else {
                return Err(Error::corruption("the catalog holds a large value"));
            };
            let row = TableRow::decode(name, row)?;
            wanted.insert(row.id, row.layout);
            cursor.next(pool, reader)?;
        }
        let wanted = Arc::new(wanted);
        *last = Some((catalog, Arc::clone(&wanted)));
        Ok(wanted)
    }
}

/// A checkpoint merges so many times what it absorbs, if there is as much to merge: more than a record is written in
/// the end, so that merging catches up.
const PACE: u64 = 8;

impl Store {
    /// Whether some table's runs are to be merged, or its layout changed. The caller holds the lock on the checkpoint.
    pub(crate) fn is_compaction_due(&self, tables: &Tables, wholly: bool) -> Result<bool> {
        let full = || Error::new(ErrorKind::Full, "every reader slot is taken; drop some snapshots");
        let reader = self.slots.claim().ok_or_else(full)?;
        let wanted = self.wanted.of(tables.layers(TableId::CATALOG).1, &self.pool, &reader)?;
        let is_due = |(table, layout): (TableId, &Layout)| {
            let wanted = wanted.get(&table).copied().unwrap_or_default();
            is_due(self, layout, wanted, wholly)
        };
        Ok(tables.iter().filter(|(table, _)| *table >= TableId::FIRST_USER).any(is_due))
    }
}

impl Store {
    /// Runs that LSM tables have.
    pub(crate) fn stacked_runs(&self) -> u64 {
        let runs = |(_, layout): (TableId, &Layout)| match layout {
            Layout::BTree(_) => 0,
            Layout::Lsm(stack) => stack.entries().len() as u64,
        };
        self.views.with_current(|view| view.tables.iter().map(runs).sum())
    }

    /// How a table is laid out now, with its runs; `None`: it has none.
    pub fn layout_of(&self, table: &Table) -> Option<Layout> {
        self.views.with_current(|view| view.tables.get(table.id()).cloned())
    }
}

fn is_due(store: &Store, layout: &Layout, wanted: WantedLayout, wholly: bool) -> bool {
    match layout {
        Layout::BTree(_) => wanted != WantedLayout::BTree,
        Layout::Lsm(stack) => {
            let sizes = compact::sizes(stack.entries(), store.page_bytes);
            plan::plan(&sizes, wanted, wholly, store.fan) != plan::Plan::Rest
        }
    }
}

impl Checkpoint<'_> {
    /// How much it merges of LSM tables besides what it absorbs.
    pub(crate) fn usual_quota(&self) -> u64 {
        let attached = |attached: &Attached| {
            attached
                .tables()
                .flat_map(|table| attached.of(table))
                .map(|delta| delta.records.bytes)
                .sum::<u64>()
        };
        let attached: u64 =
            self.sealed().iter().filter_map(|s| s.attached.as_ref()).map(|a| attached(a)).sum();
        PACE * (self.merging_bytes() + attached)
    }

    /// About how many records will be merged within the quota, if the memtables have `records`.
    pub(crate) fn records_to_compact(&self, records: u64) -> u64 {
        let moving = |(_, layout): (TableId, &Layout)| match layout {
            Layout::BTree(_) => 0,
            // What moves already, or what would if the memtable's part were one delta too many.
            Layout::Lsm(stack) => {
                let bytes = |entry: &Stacked| entry.delta.records.bytes;
                let moves =
                    stack.entries().iter().filter(|entry| entry.role == Role::Moves).map(bytes).sum::<u64>();
                if moves > 0 { moves } else { self.merging_bytes() }
            }
        };
        let bytes: u64 = self.tables.iter().map(moving).sum();
        let record_bytes = (self.merging_bytes() / records.max(1)).max(1);
        bytes.min(self.quota.bytes) / record_bytes
    }

    /// The tables that are due, those first that come after the one that was compacted last.
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
        // Relaxed: whose turn it is orders nothing.
        let last = self.store.compacted.load(Ordering::Relaxed);
        let behind = due.partition_point(|table| table.0 <= last);
        due.rotate_left(behind);
        Ok(due)
    }

    /// One slice of one table. Answers whether another may follow.
    pub(crate) fn compact_next(&mut self) -> Result<bool> {
        let Some(&table) = self.to_compact.front().filter(|_| self.quota.bytes > 0) else { return Ok(false) };
        // Relaxed: as where it is loaded.
        self.store.compacted.store(table.0, Ordering::Relaxed);
        if !self.work_on(table, |checkpoint| checkpoint.compact(table))? {
            self.to_compact.pop_front();
        }
        Ok(true)
    }

    /// The layout that is wanted for `table`, once the catalog itself is absorbed: it comes first. What is not in it
    /// (itself, and what was dropped) has one run.
    pub(crate) fn wanted(&self, table: TableId) -> Result<WantedLayout> {
        if table < TableId::FIRST_USER {
            return Ok(WantedLayout::BTree);
        }
        let (_, catalog) = self.tables.layers(TableId::CATALOG);
        let wanted = self.store.wanted.of(catalog, &self.store.pool, self.site().reader)?;
        Ok(wanted.get(&table).copied().unwrap_or_default())
    }
}
