//! Removing expired entries from runs that no merge rewrites, a range of keys at a time.
//!
//! An LSM table drops expired entries when it merges. A B+tree's checkpoint meets only the keys that were written, and
//! an entry expires because nothing writes it any longer: in a time series, the other end of the table. So:
//!
//! * A checkpoint that absorbs into a dated B+tree also looks at [`PACE`] times as many of its records, from the place
//!   where the one before stopped, in a cycle. It removes the entries that have expired by its time. While *n* records
//!   are added to a table of *n* live records, the sweep makes four cycles. So at most a quarter of the live size is
//!   expired, at the price of four records read in order for each one written. Runs of neighbours are removed as
//!   ranges, without reading their leaves.
//! * A [`Compaction`](crate::relocate::Compaction) looks at every record of every dated table, including those of an
//!   LSM table's one run, a bounded number with each of its checkpoints.
//!
//! A table without writes keeps its expired entries until it is written or compacted. The place where the last sweep
//! stopped is only in memory: after a restart the next one begins at the first key.

use crate::checkpoint::Checkpoint;
use crate::state::catalog::RequestedLayout;
use crate::state::stack::Role;
use crate::state::store::Store;
use crate::state::tables::Layout;
use crate::state::ttl::Reading;
use crate::state::view::SealedMemtable;
use base::{CommitTs, Result, TableId};
use run::{Cursor, Run};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The number of records that are looked at for each absorbed one.
const PACE: u64 = 4;
/// The least number of records that are looked at: a small table is swept with each checkpoint.
const LEAST_RECORDS: u64 = 256;
/// The number of records in one step of a checkpoint.
const STEP_RECORDS: u64 = 16 << 10;
/// The most bytes of keys that a step remembers.
const STEP_KEY_BYTES: usize = 1 << 20;
/// The number of records in one round of a compaction. Checkpoints that writers wait for come between rounds.
const ROUND_RECORDS: u64 = 1 << 20;

/// The result of a step.
struct Found {
    looked_at: u64,
    /// Ranges of keys all of which have expired, each with their number.
    expired: Vec<(Vec<u8>, Vec<u8>, u64)>,
    /// The key at which to continue; `None`: the end was reached.
    next: Option<Vec<u8>>,
}

impl Store {
    /// Makes the next round of a compaction sweep from the first table on, if there is anything to sweep.
    pub(crate) fn begin_sweeping(&self) -> Result<()> {
        let tables = self.views.with_current(|view| Arc::clone(&view.tables));
        let Some(reader) = self.slots.claim() else { return Ok(()) };
        let rows = self.upkeep.wanted.rows(tables.layers(TableId::CATALOG).1, &self.pool, &reader)?;
        let is_dated = rows.values().any(|row| row.ttl.is_some());
        self.upkeep.swept().compacting = is_dated.then(|| (TableId::FIRST_USER, Vec::new()));
        Ok(())
    }

    /// Returns whether a compaction should continue to sweep.
    pub(crate) fn is_sweeping(&self) -> bool {
        self.upkeep.swept().compacting.is_some()
    }
}

impl Checkpoint<'_> {
    /// Makes the checkpoint sweep for a compaction.
    pub(crate) fn sweep_on(&mut self) {
        self.sweeps.compacting = ROUND_RECORDS;
    }

    /// Determines what to sweep of the tables that were written.
    pub(crate) fn plan_sweeps(&mut self) -> Result<()> {
        let of = |sealed: &SealedMemtable| -> Vec<TableId> {
            let attached = sealed.attached.iter().flat_map(|attached| attached.tables());
            sealed.memtable.tables().into_iter().chain(attached).collect()
        };
        let written: BTreeSet<TableId> = self.sealed().iter().flat_map(of).collect();
        for table in written {
            let is_tree = matches!(self.tables.get(table), Some(Layout::BTree(_)));
            if !is_tree || self.wanted(table)? != RequestedLayout::BTree || !self.reading(table)?.is_dated() {
                continue;
            }
            let records = |sealed: &SealedMemtable| {
                let attached = sealed.attached_for(table, CommitTs::MAX);
                let attached: u64 = attached.iter().map(|delta| delta.records.records).sum();
                sealed.memtable.records_of(table) + attached
            };
            let records: u64 = self.sealed().iter().map(records).sum();
            self.sweeps.due.push_back((table, (PACE * records).max(LEAST_RECORDS)));
        }
        let mut swept = self.store.upkeep.swept();
        swept.next.retain(|table, _| self.tables.get(*table).is_some());
        Ok(())
    }

    /// Takes one step. Returns whether another may follow.
    pub(crate) fn sweep_next(&mut self) -> Result<bool> {
        if let Some((table, left)) = self.sweeps.due.pop_front() {
            let from = self.store.upkeep.swept().next.remove(&table).unwrap_or_default();
            let (looked_at, next) = self.work_on(table, |checkpoint| checkpoint.sweep(table, &from, left))?;
            if let Some(next) = next {
                self.store.upkeep.swept().next.insert(table, next);
                if looked_at < left {
                    self.sweeps.due.push_front((table, left - looked_at));
                }
            }
            return Ok(true);
        }
        if self.sweeps.compacting == 0 {
            return Ok(false);
        }
        let Some((from, key)) = self.store.upkeep.swept().compacting.take() else { return Ok(false) };
        let Some((table, _)) = self.tables.from(from).next() else { return Ok(false) };
        let key = if table == from { key } else { Vec::new() };
        let most = self.sweeps.compacting;
        let (looked_at, next) = self.work_on(table, |checkpoint| checkpoint.sweep(table, &key, most))?;
        self.sweeps.compacting = self.sweeps.compacting.saturating_sub(looked_at.max(1));
        let next = next.map_or((TableId(table.0 + 1), Vec::new()), |key| (table, key));
        self.store.upkeep.swept().compacting = Some(next);
        Ok(true)
    }

    /// Looks at no more than `most` records of a dated table from `from` on, if it is one run, and removes the expired
    /// ones. Returns how many it looked at, and where to continue.
    fn sweep(&mut self, table: TableId, from: &[u8], most: u64) -> Result<(u64, Option<Vec<u8>>)> {
        let reading = self.reading(table)?;
        let layout = match self.tables.get(table) {
            Some(layout @ Layout::BTree(_)) if reading.is_dated() => layout.clone(),
            Some(layout @ Layout::Lsm(stack)) if reading.is_dated() => match stack.entries() {
                // In a run with others above it, now or soon, a record cannot be removed by itself; merging drops it.
                [only] if only.role == Role::Rests => layout.clone(),
                _ => return Ok((0, None)),
            },
            _ => return Ok((0, None)),
        };
        let (_, run) = layout.layers();
        let Found { looked_at, expired, next } =
            self.find_expired(run, from, most.min(STEP_RECORDS), reading)?;
        if expired.is_empty() {
            return Ok((looked_at, next));
        }
        // The pages that were looked at are those of `run`: all entries are found before any page is freed.
        let swept = self.edit(run, table, |editor| {
            expired.iter().try_for_each(|(start, end, count)| match count {
                1 => editor.remove(start).map(drop),
                _ => editor.remove_range(start, Some(end)),
            })
        })?;
        match (&layout, swept.root) {
            (Layout::Lsm(stack), None) => {
                self.context().retire_run(stack.entries()[0].delta.filter, false)?;
                self.set_layout(table, None);
            }
            (Layout::BTree(_), None) => self.set_layout(table, None),
            (_, Some(_)) => self.set_layout(table, Some(layout.with_run(0, swept))),
        }
        Ok((looked_at, next))
    }

    fn find_expired(&self, run: Run, from: &[u8], most: u64, reading: Reading) -> Result<Found> {
        let (pool, reader) = (&self.store.pool, self.context().reader);
        let mut found = Found { looked_at: 0, expired: Vec::new(), next: None };
        // The first of the current range of expired keys, as far as it extends, and their number.
        let mut open: Option<(Vec<u8>, u64)> = None;
        let (mut key_bytes, mut last) = (0, Vec::new());
        let mut cursor = Cursor::new(run);
        cursor.seek(pool, reader, from)?;
        while let Some((key, value)) = cursor.entry() {
            if found.looked_at == most || key_bytes > STEP_KEY_BYTES {
                found.next = Some(key.to_vec());
                break;
            }
            found.looked_at += 1;
            match (reading.has_expired(value)?, &mut open) {
                (true, Some((_, count))) => *count += 1,
                (true, None) => {
                    key_bytes += 2 * key.len();
                    open = Some((key.to_vec(), 1));
                }
                (false, _) => {
                    found.expired.extend(open.take().map(|(start, count)| (start, key.to_vec(), count)));
                }
            }
            last.clear();
            last.extend_from_slice(key);
            cursor.next(pool, reader)?;
        }
        // The least key after the last one.
        last.push(0);
        found.expired.extend(open.map(|(start, count)| (start, last, count)));
        Ok(found)
    }
}
