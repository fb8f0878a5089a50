//! The size of the reserve, and how it is set aside: rules 1 to 3 of the module.

use super::{
    DELETES_PAGES, DELETES_SHARE, Debt, FIXED_PAGES, LOG_UNITS, REFERENCES_PER_UNIT, SURE_UNITS, TINY_BYTES,
};
use crate::state::store::Store;
use base::limits::{UNIT_BYTES, max_inline_bytes};
use base::sync::lock;
use base::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

impl Store {
    /// Returns why writes fail for lack of room on the disk; `None` if they do not.
    pub fn short_of_room(&self) -> Option<Error> {
        if !self.reservations.is_short.load(Ordering::SeqCst) {
            return None;
        }
        lock(&self.reservations.why).as_ref().map(|(why, _)| why.duplicate())
    }

    /// Returns the reserve in bytes: free room of the data file that a full disk cannot take away.
    pub(crate) fn reserve_room_bytes(&self) -> u64 {
        lock(&self.space).firm_units(self.page_units()) * UNIT_BYTES as u64
    }

    pub(super) fn page_units(&self) -> u64 {
        (self.page_bytes / UNIT_BYTES) as u64
    }

    pub(super) fn debt(&self) -> Debt {
        let gap = self.reservations.gap_after(self.checkpoints.replay_from().0);
        let log_bytes = self.pressure().log_bytes.saturating_sub(gap);
        self.views.with_current(|view| {
            let (mut records, mut held_bytes, mut attached_bytes) = (0, 0, 0);
            let (mut tables, mut passes) = (BTreeSet::new(), 1);
            for memtable in view.memtables() {
                records += memtable.records();
                held_bytes += memtable.bytes() as u64;
                tables.extend(memtable.tables());
            }
            for attached in view.sealed.iter().filter_map(|sealed| sealed.attached.as_ref()) {
                records += attached.records();
                attached_bytes += attached.bytes();
                tables.extend(attached.tables());
                // The passes are for its range deletes, its records, and what was committed after it.
                passes += 3;
            }
            if records == 0 {
                return Debt::default();
            }
            let bytes = log_bytes.min(held_bytes) + attached_bytes;
            Debt { records, bytes, tables: tables.len() as u64, passes }
        })
    }

    /// Returns what a checkpoint has to absorb, including everything that may still be committed.
    pub(super) fn owed_at_most(&self) -> Debt {
        // The allowance is read first: what is committed in between then counts twice, and is not missed.
        let allowance = lock(&self.committer).room;
        self.debt().with(allowance)
    }

    /// Returns the most units that absorbing `debt` can take (rule 1).
    pub(super) fn want_units(&self, debt: Debt) -> u64 {
        let leaves = self.reservations.leaves.load(Ordering::SeqCst);
        let copies = debt.records.saturating_mul(2).min(leaves * debt.passes.max(1)) + 2 * debt.tables;
        let pages = copies + copies / 8 + FIXED_PAGES;
        let chunks = lock(&self.space).total_units() / 32_768 + 2;
        // The worst ratio of units to bytes is that of half-full leaves, or of a value that is just too long for a leaf
        // and takes a unit.
        let fullest = (UNIT_BYTES / 2).min(max_inline_bytes(self.page_bytes)) as u64;
        let new = debt.bytes.div_ceil(fullest) + debt.records.div_ceil(REFERENCES_PER_UNIT);
        let due = self.reservations.due_units.load(Ordering::SeqCst);
        pages * self.page_units() + new + due + 2 * chunks + LOG_UNITS
    }

    /// Returns the number of units that are kept for commits that only delete (rule 3).
    pub(super) fn deletes_units(&self) -> u64 {
        let (least, most) = DELETES_PAGES;
        (self.reservations.all_leaves.load(Ordering::SeqCst) / DELETES_SHARE).clamp(least, most)
            * self.page_units()
    }

    pub(super) fn is_tiny(&self, debt: Debt) -> bool {
        let used_bytes = lock(&self.space).used_units() * UNIT_BYTES as u64;
        used_bytes + debt.bytes <= TINY_BYTES
    }

    /// Makes `want_units` firm, up to what is always set aside, and checks that the file system has room for the rest.
    /// The error states why it has not.
    pub(super) fn set_aside(&self, want_units: u64) -> Result<()> {
        let mut space = lock(&self.space);
        let sure_units = want_units.min(SURE_UNITS.max(space.usual_need() / 2 * 3));
        let mut firm = space.firm_up(sure_units, self.page_units())?;
        if firm.is_supported && firm.units < want_units {
            let room_units = self.data.room_bytes()?.map_or(u64::MAX, |bytes| bytes / UNIT_BYTES as u64);
            if firm.units < sure_units || room_units / 2 < want_units - firm.units {
                firm = space.firm_up(want_units, self.page_units())?;
            }
        }
        if !firm.is_supported {
            self.reservations.is_supported.store(false, Ordering::SeqCst);
            space.keep_firm(0, 1);
            return Ok(());
        }
        space.keep_firm(sure_units.min(firm.units), self.page_units());
        match firm.refused {
            Some(refused) if firm.units < want_units => Err(self.no_room(want_units, firm.units, refused)),
            _ => Ok(()),
        }
    }

    /// Makes firm what `debt` may take, and what is kept for deletes. The error states why that is impossible.
    pub(super) fn set_all_aside(&self, debt: Debt) -> Result<()> {
        self.set_aside(self.want_units(debt) + self.deletes_units())?;
        self.reservations.is_kept.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Returns whether there is a reserve, so that deletes are accepted however full the disk is: a database that is
    /// not tiny has one, if the file system sets room aside.
    pub fn keeps_reserve(&self) -> bool {
        self.reservations.is_supported() && self.reservations.is_kept.load(Ordering::SeqCst)
    }

    #[cold]
    pub(super) fn no_room(&self, want_units: u64, has_units: u64, refused: Error) -> Error {
        let bytes = |units: u64| units * UNIT_BYTES as u64;
        let message = format!(
            "the disk of {} is full: the next checkpoint may need {} bytes and has {}; delete \
             records, drop a table, or free space on the disk",
            self.dir.describe(),
            bytes(want_units),
            bytes(has_units)
        );
        Error::new(ErrorKind::Full, message).caused_by(refused.to_string())
    }
}
