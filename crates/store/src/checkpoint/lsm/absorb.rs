//! The part of a table's memtables that a checkpoint puts on the stack as one more delta on top.
//!
//! Sealed memtables are processed oldest first. The runs that were attached below each of them are merged into one
//! delta first, because their pages cannot become the table's (see [`crate::attach`]).
//!
//! * Over an empty stack deletes have no effect, and are left out.
//! * A range delete of everything empties the stack first: pages are freed unread.
//! * Range deletes are kept in memory as long as their delta exists, and reads check them, so there must be few. If
//!   there are many, they are applied to the deltas below, as in a B+tree, and none is kept.

use crate::checkpoint::{Checkpoint, PROGRESS_RECORDS};
use crate::state::stack::{MOST_RANGES_BYTES, MOST_STACKED, Stacked};
use base::{CommitTs, Result, TableId};
use memtable::Memtable;
use page::Value;
use run::{BitsPerKey, Delta, DeltaBuilder, Merge, Ranges, Run, WriteContext};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

/// The filter bits of deltas that are merged soon. These filters are precise: together they let through about one in a
/// hundred keys that no delta contains.
pub(super) const UPPER_BITS: BitsPerKey = BitsPerKey(14);
/// The builder of a table's delta.
pub(super) type Build<'a> = DeltaBuilder<'a, &'a Mutex<space::Space>>;

impl Checkpoint<'_> {
    /// Puts the part of `table` that the checkpoint merges onto `entries`, newest first.
    pub(super) fn stack_up(&self, table: TableId, entries: &mut Vec<Stacked>) -> Result<()> {
        for sealed in self.sealed() {
            if let Some(attached) = &sealed.attached {
                self.stack_attached(table, attached.runs(table), entries)?;
            }
            self.stack_memtable(table, &sealed.memtable, entries)?;
        }
        Ok(())
    }

    fn stack_memtable(&self, table: TableId, memtable: &Memtable, entries: &mut Vec<Stacked>) -> Result<()> {
        if memtable.newest(table).0 == 0 {
            return Ok(());
        }
        let (context, reading) = (self.context(), self.reading(table)?);
        let spans = memtable.ranges(table, CommitTs::MAX).spans(CommitTs(0));
        let (ranges, ranges_run) = self.keep_ranges(table, Ranges::joined(spans), entries)?;
        let mut builder = self.builder(table)?;
        let has_below = !entries.is_empty();
        // A large value is identified by its first unit.
        let (mut kept, mut buffer) = (HashSet::new(), Vec::new());
        let mut cursor = memtable.cursor(table, CommitTs::MAX);
        cursor.seek_first();
        let mut read = 0;
        while let Some((key, found)) = cursor.entry() {
            let has_expired = reading.has_expired(found)?;
            match if has_expired { Value::Deleted } else { found } {
                Value::Inline(_) => builder.add(key, found)?,
                Value::Large(large) => {
                    let large = large.reference();
                    kept.insert(large.ptr.unit());
                    builder.add(key, context.adopt_large(large, &mut buffer)?)?;
                }
                Value::Deleted if has_below => builder.add(key, Value::Deleted)?,
                Value::Deleted => {}
            }
            cursor.next();
            read += 1;
            if read % PROGRESS_RECORDS == 0 {
                self.store.merging.advance(PROGRESS_RECORDS);
            }
        }
        // These values were replaced, deleted or expired before a checkpoint.
        for large in memtable.large_refs(table) {
            if !kept.contains(&large.ptr.unit()) {
                context.retire_large(large)?;
            }
        }
        put_on(builder.finish(ranges, ranges_run)?, entries);
        Ok(())
    }

    fn stack_attached(&self, table: TableId, deltas: &[Delta], entries: &mut Vec<Stacked>) -> Result<()> {
        if deltas.is_empty() {
            return Ok(());
        }
        let (context, reading) = (self.context(), self.reading(table)?);
        let spans = deltas.iter().flat_map(|delta| delta.ranges.iter());
        let (ranges, ranges_run) = self.keep_ranges(table, Ranges::joined(spans), entries)?;
        let mut builder = self.builder(table)?;
        let has_below = !entries.is_empty();
        let mut merge = Merge::open(deltas, context.pool, context.reader)?;
        while merge.next(&mut |value| context.retire_value(value))? {
            let (key, value) = merge.entry().expect("the merge is on a record");
            let value = reading.unless_expired(value, &context)?;
            if has_below || value != Value::Deleted {
                builder.add(key, value)?;
            }
        }
        drop(merge);
        put_on(builder.finish(ranges, ranges_run)?, entries);
        deltas.iter().try_for_each(|delta| context.retire_pages(delta))
    }

    fn builder(&self, table: TableId) -> Result<Build<'_>> {
        let WriteContext { pool, space, birth, .. } = self.context();
        let builder = DeltaBuilder::new(pool, space, birth, self.buffer_bytes(), UPPER_BITS);
        self.for_table(builder, table)
    }

    /// Makes `builder` write as the table's row specifies.
    pub(super) fn for_table<'b>(&self, builder: Build<'b>, table: TableId) -> Result<Build<'b>> {
        let builder = builder.of_table(table);
        Ok(if self.compresses_leaves(table)? { builder.compressing_leaves() } else { builder })
    }

    /// Returns the range deletes that a delta over `below` keeps, and their run. The others have been applied by then.
    pub(super) fn keep_ranges(
        &self,
        table: TableId,
        ranges: Ranges,
        below: &mut Vec<Stacked>,
    ) -> Result<(Arc<Ranges>, Run)> {
        let context = self.context();
        if ranges.covers_all() {
            for entry in below.drain(..) {
                context.retire_delta(&entry.delta)?;
            }
        } else if ranges.bytes() > MOST_RANGES_BYTES {
            self.carry_out(table, &ranges, below)?;
        } else if !below.is_empty() && !ranges.is_empty() {
            let run = ranges.write(context.pool, context.space, context.birth)?;
            return Ok((Arc::new(ranges), run));
        }
        Ok((Arc::default(), Run::EMPTY))
    }

    /// Removes the records that `ranges` cover from each delta of `below`. Filters still contain them, but those
    /// records no longer exist.
    fn carry_out(&self, table: TableId, ranges: &Ranges, below: &mut [Stacked]) -> Result<()> {
        for entry in below.iter_mut() {
            entry.delta.records = self.edit(entry.delta.records, table, |editor| {
                ranges.iter().try_for_each(|(start, end)| editor.remove_range(start, end))
            })?;
            if entry.delta.records.root.is_none() {
                self.context().retire_run(entry.delta.filter, false)?;
                entry.delta.filter = Run::EMPTY;
            }
        }
        Ok(())
    }

    /// Returns whether a table has as many deltas as it may have.
    pub(super) fn is_tall(entries: &[Stacked]) -> bool {
        entries.len() >= MOST_STACKED
    }
}

fn put_on(delta: Delta, entries: &mut Vec<Stacked>) {
    let entry = Stacked::rests(delta);
    if !entry.is_empty() {
        entries.insert(0, entry);
    }
}
