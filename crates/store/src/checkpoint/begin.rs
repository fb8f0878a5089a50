//! The beginning of a checkpoint: which memtables it merges, and from which position the log is needed after it.

use super::{Checkpoint, Step};
use crate::checkpoint::besides::Moves;
use crate::checkpoint::besides::Sweeps;
use crate::checkpoint::lsm::Quota;
use crate::checkpoint::tables::ChangedTables;
use crate::state::options::MAX_SEALED;
use crate::state::reserve::Fallback;
use crate::state::store::Store;
use crate::state::superblock::Superblock;
use crate::state::tables::Tables;
use crate::state::view::SealedMemtable;
use base::limits::{NUMBER_LIMIT, used_up};
use base::sync::lock;
use base::{CheckpointNo, CommitTs, ErrorKind, Result};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

impl Store {
    /// Seals the memtable, and begins a checkpoint of everything committed so far. Returns `None` if there is nothing
    /// to merge. If as many sealed memtables wait as may (because checkpoints failed, or came too late), the checkpoint
    /// merges only these.
    ///
    /// # Errors
    /// [`ErrorKind::Latched`] and [`ErrorKind::Closed`].
    pub fn begin_checkpoint(&self) -> Result<Option<Checkpoint<'_>>> {
        self.check_process()?;
        let last = self.checkpoints.claim()?;
        self.check_open()?;
        self.latch.check()?;
        if self.pressure().sealed < MAX_SEALED {
            self.seal(&mut lock(&self.committer));
        }
        self.checkpoint_of_sealed(last)
    }

    /// Begins a checkpoint of the sealed memtables. Returns `None` if there are none.
    pub fn begin_pending_checkpoint(&self) -> Result<Option<Checkpoint<'_>>> {
        self.check_process()?;
        let last = self.checkpoints.claim()?;
        self.check_open()?;
        self.latch.check()?;
        self.checkpoint_of_sealed(last)
    }

    /// Begins a checkpoint that merges a slice of an LSM table, and the sealed memtables. Returns `None` if no table is
    /// due.
    ///
    /// # Errors
    /// [`ErrorKind::Latched`] and [`ErrorKind::Closed`]; those of reading the catalog.
    pub fn begin_compaction(&self) -> Result<Option<Checkpoint<'_>>> {
        self.begin_merging(false)
    }

    /// Begins a checkpoint that merges a slice of an LSM table, and the sealed memtables. Returns `None` if no table is
    /// due; with `wholly`, a table is due until it is one run. For errors see [`Store::begin_compaction`].
    pub(crate) fn begin_merging(&self, wholly: bool) -> Result<Option<Checkpoint<'_>>> {
        self.check_process()?;
        let last = self.checkpoints.claim()?;
        self.check_open()?;
        self.latch.check()?;
        let (sealed, tables) =
            self.views.with_current(|view| (view.sealed.clone(), Arc::clone(&view.tables)));
        if !self.is_compaction_due(&tables, wholly)? || !self.reservations.may_merge() {
            return Ok(None);
        }
        let base = sealed.first().map(|newest| (newest.sealed_at, newest.log_end));
        // If there is nothing to merge, the log is needed from the same position as after the last checkpoint.
        let base = base.unwrap_or((last.absorbed, last.replay_from));
        let mut checkpoint = self.checkpoint_over(last, base, sealed, tables, None)?;
        checkpoint.quota = Quota { bytes: self.usual_slice_bytes(), wholly };
        checkpoint.expect_compaction()?;
        Ok(Some(checkpoint))
    }

    /// Begins a checkpoint that merges a slice of an LSM table, due or not, if writes fail because the disk is full:
    /// deleted records take space until they are merged. Returns `None` if writes do not fail, or if each table is one
    /// run.
    ///
    /// # Errors
    /// As [`Store::begin_compaction`].
    pub fn begin_merging_for_room(&self) -> Result<Option<Checkpoint<'_>>> {
        if !self.reservations.is_short.load(Ordering::SeqCst) {
            return Ok(None);
        }
        self.begin_merging(true)
    }

    fn checkpoint_of_sealed<'s>(
        &'s self,
        last: MutexGuard<'s, Superblock>,
    ) -> Result<Option<Checkpoint<'s>>> {
        let (sealed, tables) =
            self.views.with_current(|view| (view.sealed.clone(), Arc::clone(&view.tables)));
        let Some(newest) = sealed.first() else { return Ok(None) };
        let base = (newest.sealed_at, newest.log_end);
        self.checkpoint_over(last, base, sealed, tables, None).map(Some)
    }

    /// Begins a checkpoint of everything committed so far, even if there is nothing to merge, that may also move pages.
    pub(crate) fn begin_moving_checkpoint(&self, moves: Option<Moves>) -> Result<Checkpoint<'_>> {
        let last = self.checkpoints.claim()?;
        self.check_open()?;
        self.latch.check()?;
        // One lock covers the seal and the read of the position, so that no commit comes between them.
        let mut committer = lock(&self.committer);
        if self.pressure().sealed < MAX_SEALED {
            self.seal(&mut committer);
        }
        let (sealed, tables) =
            self.views.with_current(|view| (view.sealed.clone(), Arc::clone(&view.tables)));
        let base = match sealed.first() {
            Some(newest) => (newest.sealed_at, newest.log_end),
            // Everything committed is in the trees already.
            None => (committer.last, self.log.end()),
        };
        drop(committer);
        self.checkpoint_over(last, base, sealed, tables, moves)
    }

    /// Begins a checkpoint that merges `sealed`, newest first, and after which recovery begins at (timestamp, log
    /// position).
    fn checkpoint_over<'s>(
        &'s self,
        last: MutexGuard<'s, Superblock>,
        (absorbed, replay_from): (CommitTs, log::Position),
        mut sealed: Vec<SealedMemtable>,
        tables: Arc<Tables>,
        moves: Option<Moves>,
    ) -> Result<Checkpoint<'s>> {
        // Transactions that were open when the last checkpoint ended have kept the pages that it replaced. By now most
        // have ended, and this checkpoint can use the space.
        self.free_unneeded();
        let fallback = self.reservations.fallback();
        let moves = moves.filter(|_| fallback != Fallback::NoMerges);
        let checkpoint = CheckpointNo(last.checkpoint.0 + 1);
        if checkpoint.0 >= NUMBER_LIMIT {
            return Err(used_up("checkpoint", last.checkpoint.0));
        }
        let next = Superblock { checkpoint, absorbed, replay_from, ..*last };
        sealed.reverse();
        let attached = || sealed.iter().filter_map(|sealed| sealed.attached.as_ref());
        let written: BTreeSet<_> = sealed.iter().flat_map(|sealed| sealed.memtable.tables()).collect();
        let written = written.into_iter().chain(attached().flat_map(|attached| attached.tables()));
        let written: BTreeSet<_> = written.collect();
        let reader = self.slots.claim_or_full()?;
        if fallback != Fallback::None {
            // Nothing fails from here to the checkpoint, whose end allows all units again.
            self.enter_fallback();
        }
        let mut checkpoint = Checkpoint {
            store: self,
            last,
            next,
            sealed,
            tables: ChangedTables::new(tables),
            to_absorb: written.into_iter().collect(),
            to_compact: VecDeque::new(),
            quota: Quota { bytes: 0, wholly: false },
            sweeps: Sweeps::default(),
            dropping_at_ms: OnceCell::new(),
            changed: BTreeMap::new(),
            moves,
            step: Step::SyncLog,
            fallback,
            reader,
            memory: self.memory.charge_dirty_pages(),
        };
        checkpoint.quota.bytes = checkpoint.usual_quota();
        let records: u64 = checkpoint.sealed.iter().map(|sealed| sealed.memtable.records()).sum();
        self.merging.begin(checkpoint.merging_bytes(), records);
        checkpoint.expect_compaction()?;
        Ok(checkpoint)
    }

    /// Makes a whole checkpoint. Returns whether there was anything to do. If the disk is full, it is made again with
    /// less optional work.
    pub fn checkpoint(&self) -> Result<bool> {
        self.with_fallback(|| self.begin_checkpoint())
    }

    /// Runs the checkpoint that `begin` returns to its end. If it finds no space, it is begun again with the
    /// next [`Fallback`]. Returns whether there was one.
    pub(crate) fn with_fallback<'s>(
        &'s self,
        begin: impl Fn() -> Result<Option<Checkpoint<'s>>>,
    ) -> Result<bool> {
        loop {
            let fallback = self.reservations.fallback();
            let made = begin().and_then(|checkpoint| match checkpoint {
                Some(checkpoint) => checkpoint.finish().map(|()| true),
                None => Ok(false),
            });
            match made {
                Err(error) if error.kind() == ErrorKind::Full && self.reservations.fallback() > fallback => {}
                made => return made,
            }
        }
    }

    /// Returns whether the checkpoint that failed with `error` should be made again at once, because the next one
    /// leaves out more than `before`, the value of [`Store::fallback_level`] when it began.
    pub fn should_fall_back(&self, error: &base::Error, before: u8) -> bool {
        error.kind() == ErrorKind::Full && self.fallback_level() > before
    }

    /// Returns whether the checkpoint that failed with `error` found every page of the pool in use. Other calls have
    /// them, mostly for microseconds.
    pub fn lacked_pages(&self, error: &base::Error) -> bool {
        pool::is_exhausted(error)
    }

    /// Returns how much the next checkpoint leaves out because the disk was full: 0 is nothing, 2 is all optional work.
    pub fn fallback_level(&self) -> u8 {
        self.reservations.fallback() as u8
    }
}
