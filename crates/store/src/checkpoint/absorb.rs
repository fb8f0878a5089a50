//! Merging a table's part of the sealed memtables into its runs, according to its layout.

use super::{Checkpoint, PROGRESS_RECORDS};
use crate::state::attach::{Absorb, attached_since};
use crate::state::catalog::RequestedLayout;
use crate::state::pacing::Merging;
use crate::state::tables::Layout;
use crate::state::ttl::Reading;
use crate::state::view::SealedMemtable;
use base::sync::lock;
use base::{CommitTs, Result, TableId};
use memtable::Memtable;
use page::Value;
use run::{Editor, Run};
use std::collections::HashSet;

impl Checkpoint<'_> {
    pub(super) fn absorb(&mut self, table: TableId) -> Result<()> {
        match (self.tables.get(table), self.wanted(table)?) {
            (None, RequestedLayout::BTree) => self.absorb_in_run_of(table, Run::EMPTY),
            (Some(&Layout::BTree(run)), RequestedLayout::BTree) => self.absorb_in_run_of(table, run),
            (None | Some(Layout::BTree(_)), RequestedLayout::Lsm) | (Some(Layout::Lsm(_)), _) => {
                self.absorb_in_stack(table)
            }
        }
    }

    fn absorb_in_run_of(&mut self, table: TableId, run: Run) -> Result<()> {
        let run = self.absorb_in_run(run, table)?;
        self.set_run(table, run);
        Ok(())
    }

    /// Merges the memtables, oldest first: all of them in one session of the editor, unless attached runs are between
    /// them.
    fn absorb_in_run(&self, mut run: Run, table: TableId) -> Result<Run> {
        let store = self.store;
        let reading = self.reading(table)?;
        let has_runs =
            |sealed: &SealedMemtable| sealed.attached.as_ref().is_some_and(|a| !a.runs(table).is_empty());
        for sealed in self.sealed.chunk_by(|_, next| !has_runs(next)) {
            if let Some(attached) = sealed[0].attached.as_ref().filter(|_| has_runs(&sealed[0])) {
                let absorb = Absorb {
                    pool: &store.pool,
                    reader: &self.reader,
                    space: &store.space,
                    birth: self.next.checkpoint,
                    since: attached_since(self.next.checkpoint),
                    reading,
                    buffer_bytes: self.buffer_bytes(),
                };
                let (absorbed, counters) = absorb.absorb(run, table, attached)?;
                *lock(&store.tallies.edits) += counters;
                run = absorbed;
            }
            run = self.edit(run, table, |editor| {
                sealed.iter().try_for_each(|sealed| {
                    absorb_memtable(editor, &sealed.memtable, table, reading, &store.merging)
                })
            })?;
        }
        Ok(run)
    }
}

fn absorb_memtable(
    editor: &mut Editor<'_>,
    memtable: &Memtable,
    table: TableId,
    reading: Reading,
    progress: &Merging,
) -> Result<()> {
    let mut read = 0;
    for (start, end) in memtable.ranges(table, CommitTs::MAX).spans(CommitTs(0)) {
        editor.remove_range(start, end)?;
    }
    // A large value is identified by its first unit.
    let mut kept = HashSet::new();
    let mut cursor = memtable.cursor(table, CommitTs::MAX);
    cursor.seek_first();
    while let Some((key, found)) = cursor.entry() {
        match found {
            value if reading.has_expired(value)? => editor.remove(key)?,
            Value::Inline(value) => editor.put(key, value)?,
            Value::Large(large) => {
                let large = large.reference();
                kept.insert(large.ptr.unit());
                editor.put_large(key, large)?
            }
            Value::Deleted => editor.remove(key)?,
        };
        cursor.next();
        read += 1;
        if read % PROGRESS_RECORDS == 0 {
            progress.advance(PROGRESS_RECORDS);
        }
    }
    // These values were replaced, deleted or expired before a checkpoint.
    for large in memtable.large_refs(table) {
        if !kept.contains(&large.ptr.unit()) {
            editor.retire_large(large)?;
        }
    }
    Ok(())
}
