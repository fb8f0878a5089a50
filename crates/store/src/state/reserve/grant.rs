//! Commits that ask for room, and the handling of a lack of room.

use super::{
    ALLOWANCE_BYTES, ALLOWANCE_RECORDS, Allowance, Fallback, LEAST_ALLOWANCE, LOG_SPARE_UNITS, LOG_UNITS,
    MOST_ASKED, Purpose,
};
use crate::state::committer::Committer;
use crate::state::store::Store;
use base::limits::UNIT_BYTES;
use base::sync::lock;
use base::{Error, ErrorKind, Result};
use memtable::Staged;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

/// The greatest number of checkpoints for which a commit waits, and of slices for each.
const MOST_WAITS: u32 = 2;
const MOST_MOMENTS: u32 = 5_000;

impl Store {
    /// Returns the commit lock, after room was ensured for `record`, of `records` records and `bytes` bytes, and taken
    /// (rule 2).
    ///
    /// # Errors
    /// [`ErrorKind::Full`], and those of the file.
    #[cold]
    pub(crate) fn lock_with_room(
        &self,
        record: &[u8],
        records: u64,
        bytes: u64,
        staged: &mut Option<Staged>,
    ) -> Result<MutexGuard<'_, Committer>> {
        let mut waits = 0;
        loop {
            let refused = match self.grant(record, Allowance { records, bytes }) {
                Err(refused) if refused.kind() == ErrorKind::Full => refused,
                done => return done,
            };
            waits += 1;
            staged.take();
            if waits > MOST_WAITS || !self.wait_for_checkpoint() {
                return Err(self.refuse(refused, Allowance { records, bytes }));
            }
        }
    }

    fn grant(&self, record: &[u8], least: Allowance) -> Result<MutexGuard<'_, Committer>> {
        let _granting = lock(&self.reservations.granting);
        let mut committer = lock(&self.committer);
        // The commit that had the lock before may have ensured enough. If that were taken away again, its thread would
        // wait here at its next commit, and then this one, and so on.
        if committer.room.take(least.records, least.bytes) {
            return Ok(committer);
        }
        // Other commits ask for room as well meanwhile, and wait: so nothing is committed that is not counted.
        committer.room = Allowance::default();
        drop(committer);
        let mut allowance = self.room_for(least, record)?;
        let mut committer = lock(&self.committer);
        let covers = allowance.take(least.records, least.bytes);
        debug_assert!(covers, "an allowance covers what it was given for");
        committer.room = allowance;
        Ok(committer)
    }

    fn room_for(&self, least: Allowance, record: &[u8]) -> Result<Allowance> {
        let endless = Allowance { records: u64::MAX, bytes: u64::MAX };
        if !self.reservations.is_supported() {
            return Ok(endless);
        }
        let debt = self.debt();
        let more = Allowance {
            records: least.records + debt.records.clamp(ALLOWANCE_RECORDS.0, ALLOWANCE_RECORDS.1),
            bytes: least.bytes + debt.bytes.clamp(ALLOWANCE_BYTES.0, ALLOWANCE_BYTES.1),
        };
        let fewer = Allowance {
            records: least.records + LEAST_ALLOWANCE.records,
            bytes: least.bytes + LEAST_ALLOWANCE.bytes,
        };
        let mut refused = None;
        for allowance in [more, fewer] {
            let then = debt.with(allowance);
            if self.is_tiny(then) {
                self.reservations.is_kept.store(false, Ordering::SeqCst);
                return Ok(allowance);
            }
            match self.set_all_aside(then) {
                Ok(()) if self.reservations.is_supported() => return Ok(allowance),
                Ok(()) => return Ok(endless),
                Err(error) if error.kind() != ErrorKind::Full => return Err(error),
                Err(full) => refused = Some(full),
            }
        }
        match (Purpose::classify(record), refused) {
            (Purpose::Adds, Some(refused)) => return Err(refused),
            // Deletes may use what is kept for the log.
            _ => self.set_aside(self.want_units(debt.with(least)).saturating_sub(LOG_UNITS))?,
        }
        Ok(least)
    }

    /// Makes room in the log for `record`; an empty record is one that itself leads to more room.
    ///
    /// # Errors
    /// [`ErrorKind::Full`], and those of making a file.
    #[cold]
    pub(crate) fn make_log_room(&self, record: &[u8]) -> Result<()> {
        let bytes = record.len() as u64;
        self.let_log_grow(bytes, true);
        let mut waits = 0;
        loop {
            let refused = match self.log.reserve(bytes) {
                Err(refused) if refused.kind() == ErrorKind::Full => refused,
                done => return done,
            };
            let kept = match Purpose::classify(record) {
                // Closing the database and ending a checkpoint have no other way.
                _ if record.is_empty() => 0,
                // What is kept for the log is part of the need.
                Purpose::Frees => self.want_units(self.owed_at_most()).saturating_sub(LOG_UNITS),
                Purpose::Adds => self.want_units(self.owed_at_most()) + self.deletes_units(),
            };
            if self.give_room_to_log(bytes, kept).is_ok() {
                return Ok(());
            }
            if record.is_empty() {
                // Closing the database and ending a checkpoint do not wait for a checkpoint.
                return Err(refused);
            }
            waits += 1;
            if waits > MOST_WAITS || !self.wait_for_checkpoint() {
                return Err(self.refuse(refused, Allowance { records: 1, bytes }));
            }
        }
    }

    /// Allocates units that only the log will refer to. If there are none, a checkpoint may free some that were deleted
    /// or replaced. What this transaction's own snapshot keeps is freed later, when it ends.
    ///
    /// # Errors
    /// [`ErrorKind::Full`], and those of the file.
    pub(crate) fn allocate_logged(&self, units: u64) -> Result<u64> {
        let allocate = || -> Result<u64> {
            let mut space = lock(&self.space);
            let unit = space.allocate_logged(units)?;
            // The lock is held, so that a check sees both or neither.
            self.early.add(units);
            Ok(unit)
        };
        match allocate() {
            Err(full) if full.kind() == ErrorKind::Full && self.wait_for_checkpoint() => allocate(),
            done => done,
        }
    }

    /// Returns firm units beyond `kept_units` to the file system, as many as a short segment for a block of `bytes`
    /// takes, and creates that segment.
    fn give_room_to_log(&self, bytes: u64, kept_units: u64) -> Result<()> {
        if self.log.reserve_least(bytes).is_ok() {
            return Ok(());
        }
        let units = self.log.least_segment_bytes(bytes).div_ceil(UNIT_BYTES as u64) + LOG_SPARE_UNITS;
        {
            let mut space = lock(&self.space);
            // Which units have their blocks is known only after the file system was asked.
            let firm = space.firm_up(kept_units + units, self.page_units())?;
            if firm.units < kept_units + units {
                return Err(firm.refused.unwrap_or_else(|| {
                    Error::new(
                        ErrorKind::Full,
                        "no room was reserved for a checkpoint; free space on the disk",
                    )
                }));
            }
            space.give_up_firm(units)?;
        }
        self.log.reserve_least(bytes)
    }

    /// Waits until a checkpoint has absorbed the memtables. Returns false if there are none, nothing makes checkpoints,
    /// or the last one failed. The caller holds no lock.
    fn wait_for_checkpoint(&self) -> bool {
        if self.debt().records == 0 {
            return false;
        }
        let done = || {
            // Relaxed: tallies, which order nothing.
            (
                self.tallies.checkpoints.load(Ordering::Relaxed),
                self.reservations.failures.load(Ordering::SeqCst),
            )
        };
        let (made, failed) = done();
        for _ in 0..MOST_MOMENTS {
            if !self.merge_a_moment() {
                return false;
            }
            let (now_made, now_failed) = done();
            if now_made != made || now_failed != failed {
                return now_made != made;
            }
        }
        false
    }

    /// Rejects a commit with `refused`: [`Store::short_of_room`] returns it, until a small commit would be accepted.
    #[cold]
    fn refuse(&self, refused: Error, asked: Allowance) -> Error {
        // A very large commit may never fit; others are not rejected because of it.
        let asked = Allowance {
            records: asked.records.min(MOST_ASKED.records),
            bytes: asked.bytes.min(MOST_ASKED.bytes),
        };
        self.reservations.set_short(Some((refused.duplicate(), asked)));
        self.look_after_room();
        self.merge_soon();
        refused
    }

    /// Checks whether there is room again after there was none. Call it now and then.
    pub fn look_after_room(&self) {
        let is_fallback = self.reservations.fallback() != Fallback::None;
        if (!self.reservations.is_short.load(Ordering::SeqCst) && !is_fallback)
            || self.is_closed()
            || self.latch.check().is_err()
        {
            return;
        }
        let asked = lock(&self.reservations.why).as_ref().map_or(Allowance::default(), |(_, asked)| *asked);
        let asked = Allowance {
            records: asked.records + LEAST_ALLOWANCE.records,
            bytes: asked.bytes + LEAST_ALLOWANCE.bytes,
        };
        let debt = self.owed_at_most().with(asked);
        let want_units = self.want_units(debt) + self.deletes_units();
        if is_fallback
            && self
                .data
                .room_bytes()
                .is_ok_and(|room| room.is_none_or(|bytes| bytes / UNIT_BYTES as u64 > want_units))
        {
            self.reservations.fallback.store(Fallback::None as u8, Ordering::SeqCst);
        }
        let has_room = !self.reservations.is_supported()
            || self.is_tiny(debt)
            || self.set_aside(want_units).is_ok()
            || (self.log.drop_spares().is_ok() && self.set_aside(want_units).is_ok());
        let has_log = || {
            self.log.has_room(asked.bytes).unwrap_or(false)
                || self.log.reserve(asked.bytes).is_ok()
                || self.give_room_to_log(asked.bytes, want_units).is_ok()
        };
        if has_room && has_log() {
            self.reservations.set_short(None);
        } else if self.memory.attendant().is_some() && self.seal_early() {
            // Committed data needs less room after it is absorbed, and the log can be dropped.
            self.merge_soon();
        }
    }

    /// Sets aside what the next checkpoint needs, including what may still be committed, and releases what is beyond
    /// that; best effort.
    pub(crate) fn renew_reserve(&self) {
        let debt = self.debt();
        if self.is_tiny(debt) {
            lock(&self.space).keep_firm(0, 1);
        } else if self.reservations.is_supported() {
            let _ = self.set_all_aside(self.owed_at_most());
        }
        self.look_after_room();
    }

    /// Returns how many free units stay in the data file when the rest is returned to the file system.
    pub(crate) fn reserve_units(&self) -> u64 {
        lock(&self.space).kept_units()
    }

    /// Limits a careful checkpoint to certain units in the space map.
    pub(crate) fn enter_fallback(&self) {
        let want = self.want_units(self.debt());
        let mut space = lock(&self.space);
        if let Ok(firm) = space.firm_up(want, self.page_units())
            && firm.is_supported
        {
            space.set_firm_only(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use base::{TableId, Value};
    use io::sim::SimDisk;

    /// A commit that waits for a checkpoint does not keep the memtable that the checkpoint merges.
    #[test]
    fn a_wait_for_room_lets_go_of_what_was_staged() {
        let disk = SimDisk::new();
        let options = Options { page_bytes: Some(4096), memory_bytes: 4 << 20, ..Options::default() };
        let store = crate::open_or_create(disk.dir(), &options).unwrap();
        let open = store.views.open_memtable();
        let mut staged = Staged::begin(&open, 2, 1, usize::MAX);
        staged.as_mut().unwrap().push(TableId(16), b"k", Value::Inline(b"v"));
        drop(store.lock_with_room(b"record", 1, 2, &mut staged).unwrap());
        assert!(staged.is_some(), "there is room");
        disk.set_capacity(disk.used_bytes());
        let refused = store.lock_with_room(b"record", 1 << 20, 1 << 30, &mut staged);
        assert_eq!(refused.map(drop).unwrap_err().kind(), ErrorKind::Full);
        assert!(staged.is_none());
    }

    /// A commit that waited while another one ensured room takes of that, and ensures none again.
    #[test]
    fn room_that_another_commit_ensured_is_used() {
        let disk = SimDisk::new();
        let options = Options { page_bytes: Some(4096), memory_bytes: 4 << 20, ..Options::default() };
        let store = crate::open_or_create(disk.dir(), &options).unwrap();
        let granting = lock(&store.reservations.granting);
        lock(&store.committer).room = Allowance::default();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| drop(store.lock_with_room(b"record", 1, 6, &mut None).unwrap()));
            lock(&store.committer).room = Allowance { records: 1 << 40, bytes: 1 << 40 };
            drop(granting);
            waits.join().unwrap();
        });
        let left = lock(&store.committer).room;
        assert_eq!((left.records, left.bytes), ((1 << 40) - 1, (1 << 40) - 6));
    }

    /// A checkpoint that fails before it has begun restricts nothing: there is none whose end would undo that.
    #[test]
    fn a_checkpoint_that_cannot_begin_restricts_no_allocation() {
        let disk = SimDisk::new();
        let options = Options { page_bytes: Some(4096), memory_bytes: 4 << 20, ..Options::default() };
        let store = crate::open_or_create(disk.dir(), &options).unwrap();
        let is_restricted = || lock(&store.space).is_firm_only();
        store.reservations.note_failure(Fallback::None);
        let taken: Vec<_> = std::iter::from_fn(|| store.slots.claim()).collect();
        let refused = store.begin_moving_checkpoint(None).map(drop).unwrap_err();
        assert_eq!((refused.kind(), is_restricted()), (ErrorKind::Full, false));
        drop(taken);
        let checkpoint = store.begin_moving_checkpoint(None).unwrap();
        assert!(is_restricted());
        drop(checkpoint);
        assert!(!is_restricted());
    }
}
