//! Merging deltas, a slice of keys at a time.
//!
//! A *round*, within a checkpoint, moves the next slice from the moving deltas to the filling one:
//! 1. A builder continues at the end of the filling delta (`Builder::resume`). It adds a merge of the moving deltas,
//!    from their first keys on, record by record, until the slice is large enough or nothing is left. Records that
//!    newer deltas replace or hide are dropped together with their large values; deletes are dropped if nothing lies
//!    below.
//! 2. Everything up to the last moved key is cut off the moving deltas (`run::cut`): pages are freed unread. Range
//!    deletes are cut at the same key: their front goes to the filling delta, below which lie the same deltas.
//! 3. Empty deltas are removed. If no moving delta is left, the filled one rests.
//!
//! So moved records exist only once: a merge of any size needs space for one slice, and memory for the builder's
//! buffers and a page of each delta. The checkpoint's superblock makes a round happen completely or not at all.

use super::absorb::UPPER_BITS;
use super::plan::{Plan, Size, plan};
use crate::checkpoint::{Checkpoint, PROGRESS_RECORDS};
use crate::state::attach::{Absorb, Attached};
use crate::state::catalog::RequestedLayout;
use crate::state::stack::{MOST_RANGES_BYTES, Role, Stack, Stacked};
use crate::state::tables::Layout;
use base::sync::lock;
use base::{CheckpointNo, Result, TableId};
use page::Value;
use run::{BitsPerKey, Delta, DeltaBuilder, Merge, Ranges, Residence, Run};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The filter bits of the lowest delta, which has most of the keys: one absent key in a hundred passes.
const LOWEST_BITS: BitsPerKey = BitsPerKey(10);
/// The size that a record counts in addition to its bytes.
const RECORD_BYTES: u64 = 16;

impl Checkpoint<'_> {
    /// Merges the memtables' part of a table that has a stack, or is to have one.
    pub(crate) fn absorb_in_stack(&mut self, table: TableId) -> Result<()> {
        let mut entries = match self.tables.get(table) {
            None => Vec::new(),
            Some(Layout::BTree(run)) => vec![Stacked::rests(without_filter(*run))],
            Some(Layout::Lsm(stack)) => stack.entries().to_vec(),
        };
        self.stack_up(table, &mut entries)?;
        while Self::is_tall(&entries) {
            let fresh = entries.iter().take_while(|entry| entry.role == Role::Rests).count();
            let filling = match entries.iter().position(|entry| entry.role == Role::Fills) {
                // A single new delta cannot be reduced; the moving deltas are then merged to their end.
                Some(filling) if fresh < 2 => filling,
                _ => {
                    begin(&mut entries, 0..=fresh - 1);
                    fresh
                }
            };
            self.round(table, &mut entries, filling, u64::MAX)?;
        }
        drop_empty(&mut entries);
        self.set_stack(table, entries);
        Ok(())
    }

    /// Merges one slice of `table`, within the quota. Returns whether there was anything to do.
    pub(crate) fn compact(&mut self, table: TableId) -> Result<bool> {
        let wanted = self.wanted(table)?;
        let stack = match self.tables.get(table) {
            None => return Ok(false),
            Some(Layout::BTree(_)) if wanted == RequestedLayout::BTree => return Ok(false),
            Some(Layout::BTree(run)) => {
                let entries = vec![Stacked::rests(without_filter(*run))];
                self.set_stack(table, entries);
                return Ok(true);
            }
            Some(Layout::Lsm(stack)) => stack.clone(),
        };
        let mut entries = stack.entries().to_vec();
        match plan(&sizes(&entries, self.store.page_bytes), wanted, self.quota.wholly, self.store.upkeep.fan)
        {
            Plan::Rest => return Ok(false),
            Plan::Begin(range) => {
                let filling = range.end() + 1;
                begin(&mut entries, range);
                self.slice(table, &mut entries, filling)?;
            }
            Plan::GoOn(filling) => self.slice(table, &mut entries, filling)?,
            Plan::Flatten => {
                let run = self.flatten(table, entries)?;
                self.set_run(table, run);
                return Ok(true);
            }
            Plan::BecomeBTree => {
                let Delta { records, filter, .. } = &entries[0].delta;
                self.context().retire_run(*filter, false)?;
                self.set_run(table, *records);
                return Ok(true);
            }
        }
        self.set_stack(table, entries);
        Ok(true)
    }

    fn slice(&mut self, table: TableId, entries: &mut Vec<Stacked>, filling: usize) -> Result<()> {
        let moved = self.round(table, entries, filling, self.quota.bytes)?;
        self.quota.bytes = self.quota.bytes.saturating_sub(moved.max(1));
        // Relaxed: a tally, which orders nothing.
        self.store.tallies.compacted_bytes.fetch_add(moved, Ordering::Relaxed);
        Ok(())
    }

    fn set_stack(&mut self, table: TableId, entries: Vec<Stacked>) {
        self.set_layout(table, Stack::new(entries).map(Layout::Lsm));
    }

    /// Runs one round; see the module. Returns about how many bytes it moved.
    fn round(&self, table: TableId, entries: &mut Vec<Stacked>, filling: usize, quota: u64) -> Result<u64> {
        let first = (0..filling).rev().take_while(|&at| entries[at].role == Role::Moves).last();
        let first = first.unwrap_or(filling);
        let is_lowest = filling + 1 == entries.len();
        let sources: Vec<Delta> = entries[first..filling].iter().map(|entry| entry.delta.clone()).collect();
        let filled = entries[filling].delta.clone();
        let (mut filled, until, moved) = self.move_slice(table, &sources, filled, is_lowest, quota)?;
        let mut rest = Vec::new();
        for source in &sources {
            rest.extend(until.as_ref().map(|key| self.cut(source, key)).transpose()?);
        }
        if until.is_none() {
            sources.iter().try_for_each(|source| self.context().retire_pages(source))?;
        }
        let mut below = entries.split_off(filling + 1);
        if !is_lowest {
            let until = until.as_deref();
            let spans = sources.iter().flat_map(|source| source.ranges.before(until));
            let all = Ranges::joined(filled.ranges.iter().chain(spans));
            if all != *filled.ranges {
                self.context().retire_run(filled.ranges_run, false)?;
                (filled.ranges, filled.ranges_run) = self.keep_ranges(table, all, &mut below)?;
                if below.is_empty() {
                    // What lay below no longer exists; the filled delta may still hold deletes.
                    below.push(Stacked::rests(without_filter(Run::EMPTY)));
                }
            }
        }
        entries.truncate(first);
        let moving = rest.into_iter().map(|delta| Stacked { delta, role: Role::Moves });
        entries.extend(moving.filter(|entry| !entry.is_empty()));
        let is_done = entries.len() == first;
        let role = if is_done { Role::Rests } else { Role::Fills };
        entries.push(Stacked { delta: filled, role });
        entries.append(&mut below);
        drop_empty(entries);
        Ok(moved)
    }

    /// Moves the next slice of `sources` to the delta `filled` (step 1). Returns the filled delta, the first key that
    /// was not moved (`None`: nothing is left), and about how many bytes were moved.
    fn move_slice(
        &self,
        table: TableId,
        sources: &[Delta],
        filled: Delta,
        is_lowest: bool,
        quota: u64,
    ) -> Result<(Delta, Option<Vec<u8>>, u64)> {
        let (context, reading) = (self.context(), self.reading(table)?);
        let bits = if is_lowest { LOWEST_BITS } else { UPPER_BITS };
        let builder = DeltaBuilder::resume(&filled, context, self.buffer_bytes(), bits)?;
        let mut builder = self.for_table(builder, table)?;
        let mut merge = Merge::open(sources, context.pool, context.reader)?;
        let (mut moved, mut records) = (0, 0_u64);
        let mut last = Vec::new();
        let until = loop {
            if moved >= quota {
                // The least key after the last one.
                last.push(0);
                break Some(last);
            }
            if !merge.next(&mut |value| context.retire_value(value))? {
                break None;
            }
            let (key, value) = merge.entry().expect("the merge is on a record");
            let value = reading.unless_expired(value, &context)?;
            let value_bytes = match value {
                Value::Inline(value) => value.len(),
                Value::Large(..) | Value::Deleted => 0,
            };
            moved += (key.len() + value_bytes) as u64 + RECORD_BYTES;
            records += 1;
            if records.is_multiple_of(PROGRESS_RECORDS) {
                self.store.merging.advance(PROGRESS_RECORDS);
            }
            if !is_lowest || value != Value::Deleted {
                builder.add(key, value)?;
            }
            if moved >= quota {
                last = key.to_vec();
            }
        };
        drop(merge);
        Ok((builder.finish(filled.ranges, filled.ranges_run)?, until, moved))
    }

    /// Cuts everything before `key` off one of the moving deltas (step 2).
    fn cut(&self, source: &Delta, key: &[u8]) -> Result<Delta> {
        let context = self.context();
        let records = source.records.cut(context, key)?;
        let filter = match records.root {
            Some(_) => run::filter::cut(source.filter, context, key)?,
            None => {
                context.retire_run(source.filter, false)?;
                Run::EMPTY
            }
        };
        let ranges = Ranges::joined(source.ranges.from(key));
        // It knows all keys of what remains, and more.
        let residence = source.residence.clone();
        if ranges == *source.ranges {
            let (ranges, ranges_run) = (Arc::clone(&source.ranges), source.ranges_run);
            return Ok(Delta { records, ranges, ranges_run, filter, residence });
        }
        context.retire_run(source.ranges_run, false)?;
        let ranges_run = ranges.write(context.pool, context.space, context.birth)?;
        Ok(Delta { records, ranges: Arc::new(ranges), ranges_run, filter, residence })
    }

    /// Merges everything above the lowest delta into its records with the editor, as a B+tree's checkpoint merges
    /// attached runs.
    fn flatten(&self, table: TableId, mut entries: Vec<Stacked>) -> Result<Run> {
        let context = self.context();
        let lowest = entries.pop().expect("a stack has a lowest delta").delta;
        let deltas = entries.into_iter().map(|entry| entry.delta).collect();
        let absorb = Absorb {
            pool: context.pool,
            reader: context.reader,
            space: context.space,
            birth: context.birth,
            // Deltas of a stack may be as old as the table.
            since: CheckpointNo(0),
            reading: self.reading(table)?,
            buffer_bytes: self.buffer_bytes(),
        };
        let (run, edits) = absorb.absorb(lowest.records, table, &Attached::of_stack(table, deltas))?;
        *lock(&self.store.tallies.edits) += edits;
        context.retire_run(lowest.filter, false)?;
        Ok(run)
    }
}

/// Returns a B+tree's run as a delta.
fn without_filter(records: Run) -> Delta {
    let residence = Residence::default();
    Delta { records, ranges: Arc::default(), ranges_run: Run::EMPTY, filter: Run::EMPTY, residence }
}

/// Marks the deltas of `range` as moving, to a new delta right below them.
fn begin(entries: &mut Vec<Stacked>, range: RangeInclusive<usize>) {
    let filling = range.end() + 1;
    entries[range].iter_mut().for_each(|entry| entry.role = Role::Moves);
    entries.insert(filling, Stacked { delta: without_filter(Run::EMPTY), role: Role::Fills });
}

/// Drops resting deltas that have become empty because of range deletes; but not the lowest one under others, which may
/// hold deletes.
fn drop_empty(entries: &mut Vec<Stacked>) {
    let lowest = entries.pop();
    entries.retain(|entry| entry.role != Role::Rests || !entry.is_empty());
    entries.extend(lowest.filter(|lowest| !entries.is_empty() || !lowest.is_empty()));
}

/// Returns the input of the plan.
pub(crate) fn sizes(entries: &[Stacked], page_bytes: usize) -> Vec<Size> {
    let size = |entry: &Stacked| {
        let Run { records, leaves, root, .. } = entry.delta.records;
        let filtered = root.is_none() || entry.delta.filter.root.is_some();
        Size { bytes: leaves * page_bytes as u64, records, role: entry.role, filtered }
    };
    entries.iter().map(size).collect()
}

const _: () = assert!(MOST_RANGES_BYTES >= 1 << 10, "a few range deletes are kept");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::stack::MOST_STACKED;
    use crate::{Options, Span, Store, Table, Transaction, TransactionOptions};
    use std::collections::BTreeMap;

    type Model = BTreeMap<Vec<u8>, Vec<u8>>;

    /// Writes two records, one of which every round writes, and merges `bytes` of what is due.
    fn round(store: &Arc<Store>, table: &Table, model: &mut Model, number: u32, bytes: u64) {
        let mut tx = Transaction::begin(store, TransactionOptions::default()).unwrap();
        for key in [b"same".to_vec(), number.to_be_bytes().to_vec()] {
            let value = number.to_string().into_bytes();
            tx.put(table, &key, &value).unwrap();
            model.insert(key, value);
        }
        store.acknowledge(tx.apply().unwrap()).unwrap();
        let mut checkpoint = store.begin_checkpoint().unwrap().expect("there is something to absorb");
        checkpoint.quota.bytes = bytes;
        checkpoint.finish().unwrap();
    }

    /// Other tables can use the whole merge quota for so long that this table's stack has its greatest height when its
    /// merge begins, and again before the merge continues.
    #[test]
    fn a_stack_that_moves_whole_stays_low() {
        for tall in MOST_STACKED - 4..MOST_STACKED {
            let options = Options { page_bytes: Some(4096), memory_bytes: 4 << 20, ..Options::default() };
            let store = crate::open_or_create(Arc::new(io::MemDir::new()), &options).unwrap();
            let mut tx = Transaction::begin(&store, TransactionOptions::default()).unwrap();
            let table = tx.create_table("t", RequestedLayout::Lsm).unwrap();
            store.acknowledge(tx.apply().unwrap()).unwrap();
            let (mut model, mut number) = (Model::new(), 0);
            for bytes in std::iter::repeat_n(0, tall - 1).chain([1]).chain(std::iter::repeat_n(0, 60)) {
                round(&store, &table, &mut model, number, bytes);
                number += 1;
                let runs = store.stacked_runs() as usize;
                assert!(runs < MOST_STACKED + 1, "{runs} runs, after {tall} and at {number}");
            }
            let snapshot = store.snapshot().unwrap();
            let mut cursor = snapshot.cursor(&table, Span::all()).unwrap();
            let mut found = Model::new();
            while let Some((key, value)) = cursor.next().unwrap() {
                found.insert(key.to_vec(), value.to_vec());
            }
            assert_eq!(found, model);
            store.check().unwrap();
        }
    }
}
