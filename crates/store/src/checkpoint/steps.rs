//! Checkpoint: sealed memtables are merged into the runs, in steps that leave the database consistent in between.
//!
//! 1. *Seal* the open memtable, so that everything committed so far is in sealed ones.
//! 2. Check that the files still belong to this process (`ownership`), and *sync the log* through the seal: a memtable
//!    is merged only when all of it is visible and durable (invariant 5).
//! 3. *Absorb*, a table a step, according to its layout. New pages go only to free places (invariant 3).
//! 4. *Compact*, a slice of an LSM table a step, as long as the quota lasts (see [`crate::lsm`]); then *sweep* expired
//!    entries of tables with a TTL (see `crate::checkpoint::sweep`).
//! 5. *Relocate*, a table a step, if much of the file is free: some pages at its end move (`relocate`).
//! 6. Write the *physical rows* of the changed tables in their own tree.
//! 7. Check the superblock once more, then write the *space map*: its changed chunks, copy-on-write like the pages.
//! 8. *Sync the data file*: a superblock refers only to what is on the disk (invariant 2).
//! 9. Write the *superblock* into the slot that does not hold the previous one. 10. *Sync it.*
//! 11. *Switch* to a view with the new runs and without the absorbed memtables.
//! 12. *Note* the checkpoint's number in the log, durably. After this the previous superblock is never needed.
//! 13. *Free* the retired pages that no view reads. Free space beyond the need of the next checkpoint is returned to
//!     the file system.
//! 14. *Drop* the log before the seal.
//!
//! A failure before step 8 leaves only unreachable pages: the space map is reset, and the next checkpoint starts over.
//! A failed sync latches, as always. In steps 9 to 11 it is unknown which superblock the disk holds, so any failure
//! latches. A note that could not be written, because the log has no room or its end cannot be read, ends only this
//! checkpoint: nothing is freed until a later checkpoint has made its own.

use crate::checkpoint::besides::Moves;
use crate::checkpoint::besides::Sweeps;
use crate::checkpoint::lsm::Quota;
use crate::checkpoint::tables::ChangedTables;
use crate::state::committer::Committer;
use crate::state::reserve::{Allowance, Fallback, Leaves};
use crate::state::store::Store;
use crate::state::superblock::Superblock;
use crate::state::tables::Layout;
use crate::state::view::SealedMemtable;
use base::budget::Charge;
use base::phases::{self, Phase};
use base::slots::Reader;
use base::sync::lock;
use base::{CheckpointNo, CommitTs, ErrorKind, Result, TableId};
use run::{Editor, Run, WriteContext};
use std::cell::OnceCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

/// The number of records after which a merge reports its progress.
pub(crate) const PROGRESS_RECORDS: u64 = 64;

/// The next step of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // The head of this file says what each is.
pub enum Step {
    SyncLog,
    Absorb,
    Compact,
    Relocate,
    PhysicalRows,
    SpaceMap,
    SyncData,
    Superblock,
    SyncSuperblock,
    Switch,
    Note,
    Free,
    DropLog,
    Done,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Step {
    /// Returns the name of the step in a word or two.
    pub fn name(self) -> &'static str {
        match self {
            Step::SyncLog => "sync log",
            Step::Absorb => "absorb",
            Step::Compact => "compact",
            Step::Relocate => "relocate",
            Step::PhysicalRows => "physical rows",
            Step::SpaceMap => "space map",
            Step::SyncData => "sync data",
            Step::Superblock => "superblock",
            Step::SyncSuperblock => "sync superblock",
            Step::Switch => "switch",
            Step::Note => "note in log",
            Step::Free => "free",
            Step::DropLog => "drop log",
            Step::Done => "done",
        }
    }

    fn next(self) -> Step {
        use Step::*;
        match self {
            SyncLog => Absorb,
            Absorb => Compact,
            Compact => Relocate,
            Relocate => PhysicalRows,
            PhysicalRows => SpaceMap,
            SpaceMap => SyncData,
            SyncData => Superblock,
            Superblock => SyncSuperblock,
            SyncSuperblock => Switch,
            Switch => Note,
            Note => Free,
            Free => DropLog,
            DropLog | Done => Done,
        }
    }
}

/// A checkpoint in progress. If it is dropped before the space map is written, the database stays as it was; between
/// that and the switch, dropping it latches the database, as a failure there does.
#[derive(Debug)]
pub struct Checkpoint<'s> {
    pub(crate) store: &'s Store,
    /// The last superblock. Holding it ensures that there is one checkpoint at a time.
    pub(super) last: MutexGuard<'s, Superblock>,
    pub(super) next: Superblock,
    /// The memtables that are absorbed, oldest first.
    pub(super) sealed: Vec<SealedMemtable>,
    pub(crate) tables: ChangedTables,
    pub(crate) to_absorb: VecDeque<TableId>,
    pub(crate) to_compact: VecDeque<TableId>,
    pub(crate) quota: Quota,
    pub(crate) sweeps: Sweeps,
    /// The time by which expired entries are dropped, once the checkpoint has met a table with a TTL.
    pub(crate) dropping_at_ms: OnceCell<u64>,
    /// The changed tables, each with the keys of the rows that it had.
    pub(super) changed: BTreeMap<TableId, Vec<Vec<u8>>>,
    pub(crate) moves: Option<Moves>,
    pub(super) step: Step,
    /// How carefully the checkpoint uses disk space.
    pub(crate) fallback: Fallback,
    /// The reader with which the editors look at pages.
    pub(super) reader: Reader,
    /// The memory that its dirty pages may take beyond the account's reserve.
    pub(super) memory: Charge,
}

impl Checkpoint<'_> {
    /// Returns the step that [`Checkpoint::step`] takes next.
    pub fn next_step(&self) -> Step {
        self.step
    }

    /// Returns the checkpoint's number.
    pub fn number(&self) -> CheckpointNo {
        self.next.checkpoint
    }

    /// Returns the bytes of the memtables that the checkpoint merges.
    pub fn merging_bytes(&self) -> u64 {
        self.sealed.iter().map(|sealed| sealed.memtable.bytes() as u64).sum()
    }

    /// Takes all remaining steps.
    pub fn finish(mut self) -> Result<()> {
        while self.step != Step::Done {
            self.step()?;
        }
        Ok(())
    }

    /// Takes one step and returns the next one.
    ///
    /// # Errors
    /// Up to [`Step::SpaceMap`], and from [`Step::Note`] on if nothing was written, a failure ends only this
    /// checkpoint; any other latches the database.
    pub fn step(&mut self) -> Result<Step> {
        let phase = Phase::Checkpoint { number: self.number().0, step: self.step.name() };
        let taken = phases::within(phase, || self.take_step());
        if let Err(error) = &taken
            && error.kind() == ErrorKind::Full
            && !pool::is_exhausted(error)
            && self.step <= Step::SpaceMap
        {
            self.store.reservations.note_failure(self.fallback);
        }
        taken
    }

    fn take_step(&mut self) -> Result<Step> {
        let store = self.store;
        let latching = |cause| store.latch.set(cause);
        match self.step {
            Step::SyncLog => {
                store.check_ownership(&self.last)?;
                self.sync_log()?;
                self.adopt();
            }
            Step::Absorb => {
                if let Some(table) = self.to_absorb.pop_front() {
                    self.work_on(table, |checkpoint| checkpoint.absorb(table))?;
                    return Ok(self.step);
                }
                self.quota.bytes = self.careful_quota();
                self.to_compact = self.due_for_compaction()?;
                self.expect_compaction()?;
                if self.fallback == Fallback::None {
                    self.plan_sweeps()?;
                }
            }
            Step::Compact => {
                if self.compact_next()? || self.sweep_next()? {
                    return Ok(self.step);
                }
            }
            Step::Relocate => {
                if self.relocate()? {
                    return Ok(self.step);
                }
            }
            Step::PhysicalRows => self.write_physical_rows()?,
            Step::SpaceMap => {
                store.check_superblock(&self.last)?;
                let mut space = lock(&store.space);
                if let Some(moves) = &self.moves {
                    space.move_map(moves.border_unit());
                }
                self.next.space = space.save(self.next.checkpoint)?;
                space.note_named(self.next.absorbed);
                space.set_firm_only(false);
            }
            Step::SyncData => store.sync_data()?,
            Step::Superblock => {
                self.next.log_synced = store.log.synced();
                self.next.times = store.time.times();
                self.next.time_ms = self.next.times.time_ms;
                self.next.next_table = store.catalog.next_id();
                self.next.write(&*store.data).map_err(latching)?;
            }
            Step::SyncSuperblock => store.sync_data()?,
            Step::Switch => {
                self.switch();
                store.reservations.note_made(self.fallback, !self.sealed.is_empty());
                // Writers may be waiting for this memory, and the note's flush can take as long as the data's.
                self.sealed.clear();
                store.free_memtables();
            }
            Step::Note => self.note()?,
            Step::Free => {
                store.free_unneeded();
                self.give_back()?;
                store.limit_log();
            }
            Step::DropLog => store.drop_log(self.next.replay_from)?,
            Step::Done => {}
        }
        self.step = self.step.next();
        Ok(self.step)
    }

    /// Returns how much the checkpoint may merge of LSM tables: if it is careful, only what certainly has space.
    fn careful_quota(&self) -> u64 {
        match self.fallback {
            Fallback::None => self.quota.bytes,
            Fallback::AllocatedOnly => {
                let room_bytes = self.store.reserve_room_bytes();
                self.quota.bytes.min(self.store.reservations.fallback_slice_bytes(room_bytes))
            }
            Fallback::NoMerges => 0,
        }
    }

    fn sync_log(&self) -> Result<()> {
        self.store.sync_log(self.next.replay_from.lsn)?;
        self.store.feeds.owe_wake();
        assert!(
            self.store.clocks.visible() >= self.next.absorbed,
            "a memtable to merge holds an invisible commit"
        );
        Ok(())
    }

    /// Adopts the extents that the log refers to and this checkpoint absorbs: they are saved as used, or retired.
    fn adopt(&self) {
        let mut space = lock(&self.store.space);
        for attached in self.sealed.iter().filter_map(|sealed| sealed.attached.as_ref()) {
            attached.extents.iter().for_each(|extent| space.adopt(extent.unit));
        }
    }

    /// Makes `run` the table's only run, as a B+tree.
    pub(crate) fn set_run(&mut self, table: TableId, run: Run) {
        self.set_layout(table, run.root.map(|_| Layout::BTree(run)));
    }

    /// Sets the table's layout and runs; `None`: it has none.
    pub(crate) fn set_layout(&mut self, table: TableId, layout: Option<Layout>) {
        let before = self.tables.get(table);
        if before != layout.as_ref() {
            let keys = || before.into_iter().flat_map(|layout| layout.rows(table)).map(|row| row.0).collect();
            self.changed.entry(table).or_insert_with(keys);
            self.tables.set(table, layout);
        }
    }

    /// Returns the last commit that is in the runs after the checkpoint.
    pub(crate) fn absorbed(&self) -> CommitTs {
        self.next.absorbed
    }

    /// Returns the memtables that are absorbed, oldest first.
    pub(crate) fn sealed(&self) -> &[SealedMemtable] {
        &self.sealed
    }

    /// Returns the context through which the editors work.
    pub(crate) fn context(&self) -> WriteContext<'_> {
        let Store { pool, space, .. } = self.store;
        WriteContext { pool, reader: &self.reader, space, birth: self.next.checkpoint }
    }

    /// Returns the memory that dirty pages, or a builder's buffers, may take.
    pub(crate) fn buffer_bytes(&self) -> usize {
        Editor::least_bytes(self.store.page_bytes) + self.memory.bytes()
    }

    /// Returns an editor of `run`, whose pages do not name their table.
    pub(crate) fn editor(&self, run: Run) -> Editor<'_> {
        let WriteContext { pool, reader, space, birth } = self.context();
        Editor::open(run, pool, reader, space, birth, self.buffer_bytes())
    }

    /// Returns an editor of a run of `table`'s records.
    pub(crate) fn editor_of(&self, run: Run, table: TableId) -> Result<Editor<'_>> {
        let editor = self.editor(run).of_table(table);
        Ok(if self.compresses_leaves(table)? { editor.compressing_leaves() } else { editor })
    }

    /// Opens an editor on `run`, calls `edit`, and writes the changes.
    pub(crate) fn edit(
        &self,
        run: Run,
        table: TableId,
        edit: impl FnOnce(&mut Editor<'_>) -> Result<()>,
    ) -> Result<Run> {
        self.edit_with(self.editor_of(run, table)?, edit)
    }

    /// Calls `edit` with `editor`, and writes the changes.
    pub(crate) fn edit_with(
        &self,
        mut editor: Editor<'_>,
        edit: impl FnOnce(&mut Editor<'_>) -> Result<()>,
    ) -> Result<Run> {
        edit(&mut editor)?;
        let (run, counters) = editor.finish()?;
        *lock(&self.store.tallies.edits) += counters;
        Ok(run)
    }

    fn write_physical_rows(&mut self) -> Result<()> {
        self.next.physical = self.edit(self.last.physical, TableId::PHYSICAL, |editor| {
            for (&table, before) in &self.changed {
                let rows = self.tables.get(table).map_or(Vec::new(), |layout| layout.rows(table));
                for key in before.iter().filter(|&key| rows.iter().all(|row| row.0 != *key)) {
                    editor.remove(key)?;
                }
                rows.iter().try_for_each(|(key, value)| editor.put(key, value).map(drop))?;
            }
            match &self.moves {
                Some(moves) => editor.relocate(&[], &mut moves.of_catalog()).map(drop),
                None => Ok(()),
            }
        })?;
        Ok(())
    }

    fn switch(&mut self) {
        let (store, known) = (self.store, self.known_tables());
        // All tables are gone through before commits have to wait.
        let tables = std::mem::take(&mut self.tables).finish();
        let leaves = Leaves::count(&tables, &self.next.physical, store.page_bytes);
        let mut committer: MutexGuard<'_, Committer> = lock(&store.committer);
        // The allowance's bound was that of the old runs.
        committer.room = Allowance::default();
        store.reservations.note_leaves(leaves);
        store.checkpoints.pins.switch(self.next, Arc::clone(&tables));
        store.views.switch(self.next.absorbed, tables, self.next.checkpoint);
        known.iter().for_each(|known| store.forget_dropped(&mut committer, known));
        store.processes.show_checkpoint(store.clocks.visible(), self.next.checkpoint);
        *self.last = self.next;
        store.checkpoints.set_replay_from(self.next.replay_from.lsn);
        store.merging.end();
        store.log.set_checkpoint(self.next.checkpoint);
        store.tallies.checkpoints.fetch_add(1, Ordering::Relaxed); // Relaxed: a tally, which orders nothing.
        let attached = |sealed: &SealedMemtable| sealed.attached.as_ref().map_or(0, |a| a.records());
        let records: u64 =
            self.sealed.iter().map(|sealed| sealed.memtable.records() + attached(sealed)).sum();
        store.tallies.absorbed_records.fetch_add(records, Ordering::Relaxed); // Relaxed: a tally, too.
    }

    /// Appends an empty block, which names the checkpoint as every block does, and flushes it.
    fn note(&self) -> Result<()> {
        let store = self.store;
        let end = {
            // This must not be under the lock: if the disk is full, it gives space of the data file to the log.
            store.reserve_log(&[])?;
            let _committer = lock(&store.committer);
            store.log.reserve(0)?;
            store.log.append_to_sync(&[]).map_err(|cause| store.latch_if_written(cause))?
        };
        store.sync_log(end)?;
        store.feeds.owe_wake();
        store.checkpoints.note(self.next.checkpoint);
        Ok(())
    }
}

impl Drop for Checkpoint<'_> {
    fn drop(&mut self) {
        self.store.merging.end();
        match self.step {
            step if step <= Step::SpaceMap => {
                let mut space = lock(&self.store.space);
                space.set_firm_only(false);
                space.revert();
            }
            // Without the note nothing is freed; the next checkpoint's note suffices.
            Step::Note | Step::Free | Step::DropLog | Step::Done => {}
            _ => {
                let message = "a checkpoint was given up after it had changed the space map";
                self.store.latch.set(base::Error::new(ErrorKind::Latched, message));
            }
        }
    }
}
