//! Replay: the log's commits become memtables again, and checkpoints where memtables find no room.
//!
//! The log is read twice. [`Survey`] accompanies the scan in the read-only half of recovery:
//! 1. Every record is decoded to its end; its timestamp must follow the previous one; ids of tables are noted.
//! 2. Its references into the data file are claimed at once. So when the scan has found the end of the log, no extent
//!    that any of its commits needs can be allocated, whichever part of the log is replayed first.
//!
//! [`Store::replay`] is the mutating half, on a log that can be appended to and that has nothing left to lose:
//! 3. Records are applied in order, through the function that commit used, and memtables are sealed at the thresholds
//!    that commits use; runs are attached as their commit attached them.
//! 4. When the memtables' share of the memory is full, or one more would be sealed or more runs would be attached than
//!    allowed, a checkpoint absorbs them. It is a checkpoint like any other: its superblock names the position from
//!    which the rest of the log is to be replayed, and the log before that may be dropped. So recovery needs no more
//!    than the budget, however large the log is, and after a crash during recovery the next one continues from there.
//!
//! One record can be larger than the share: then it alone is in memory, charged by force. (A transaction's writes are
//! spilled beyond a sixteenth of its memory, at most a block of the log.)
//!
//! Nothing else uses the store yet: no reader, no worker, no commit. A read-only store makes no checkpoint, and has a
//! limit instead ([`crate::open::read_only`]).

use crate::commit::apply::apply_record;
use crate::open::claims::{claim, references};
use crate::open::pinned::following;
use crate::open::read_only::Ceiling;
use crate::state::attach::Attached;
use crate::state::catalog::TableRow;
use crate::state::memory::least_budget_bytes;
use crate::state::options::MAX_SEALED;
use crate::state::store::Store;
use base::budget::MemoryCategory;
use base::op::{Decoder, Op};
use base::slots::Reader;
use base::sync::lock;
use base::{CommitTs, Error, ErrorKind, Result, TableId};
use log::{Block, Position};
use pool::Pool;
use space::Space;
use std::sync::Arc;

/// The results of the log's scan: steps 1 and 2.
pub(crate) struct Survey<'a> {
    pub pool: &'a Pool,
    pub space: &'a mut Space,
    pub reader: Reader,
    /// The last commit.
    pub last: CommitTs,
    /// The id after all ids that were ever used.
    pub next_table: TableId,
    /// The least time that the database had reached when a table's TTL was changed.
    pub time_ms: u64,
}

/// Checks that `record` is a commit record to its end, so that it is applied completely or not at all. A follower has
/// no [`Survey`].
///
/// Errors: [`ErrorKind::Corruption`] if it is not.
pub(super) fn check_record(record: &[u8]) -> Result<()> {
    let mut decoder = Decoder::begin(record).ok_or_else(no_record)?;
    decoder.by_ref().for_each(drop);
    decoder.finish().filter(|rest| rest.is_empty()).map(drop).ok_or_else(no_record)
}

impl Survey<'_> {
    pub fn block(&mut self, block: &Block<'_>) -> Result<()> {
        if block.payload.is_empty() {
            return Ok(());
        }
        self.record(block.payload).map_err(|error| error.within(format!("log block at LSN {}", block.lsn)))
    }

    fn record(&mut self, record: &[u8]) -> Result<()> {
        let mut decoder = Decoder::begin(record).ok_or_else(no_record)?;
        self.last = following(self.last, record)?;
        for (table, op) in &mut decoder {
            if let Some(row) = catalog_row(table, op) {
                let row = row?;
                self.next_table = self.next_table.max(TableId(row.id.0.saturating_add(1)));
                self.time_ms = self.time_ms.max(row.floor_ms());
            }
        }
        decoder.finish().filter(|rest| rest.is_empty()).ok_or_else(no_record)?;
        // Runs that cannot be attached are detected before anything is written.
        Attached::recover(record, self.pool, &self.reader)?;
        references(record).try_for_each(|reference| claim(&reference, self.pool, self.space))
    }
}

/// Returns the row that `op` puts into the catalog, if it does.
fn catalog_row(table: TableId, op: Op<'_>) -> Option<Result<TableRow>> {
    match (table, op) {
        (TableId::CATALOG, Op::Put { key, value }) => Some(TableRow::decode(key, value)),
        _ => None,
    }
}

/// Returns the rows that `record` puts into the catalog.
fn catalog_rows(record: &[u8]) -> impl Iterator<Item = Result<TableRow>> {
    Decoder::begin(record).into_iter().flatten().filter_map(|(table, op)| catalog_row(table, op))
}

#[cold]
fn no_record() -> Error {
    Error::corruption("its checksum is correct, but it is not a commit record")
}

impl Store {
    /// Applies all of the log after `from`, which [`Survey`] has seen, to the store (steps 3 and 4).
    ///
    /// # Errors
    /// Those of a checkpoint. Everything done by then is consistent: open the database again.
    pub(crate) fn replay(&self, from: Position, ceiling: Option<Ceiling>) -> Result<()> {
        let mut follow = self.log.follow(from)?;
        let _buffer =
            self.memory.account.charge_making_room(MemoryCategory::Recovery, log::Follow::LEAST_BYTES);
        let mut replay = Replay::new(self, self.slots.claim_or_full()?, from, ceiling);
        while follow.advance()? {
            let lsn = replay.at.lsn;
            replay.record(follow.payload(), follow.end()).map_err(|error| {
                with_need(self, error).within(format!("replaying the log from LSN {lsn}"))
            })?;
        }
        if replay.is_overfull() {
            // Otherwise later work would find no memory for a checkpoint.
            replay.checkpoint().map_err(|error| with_need(self, error))?;
        }
        lock(&self.committer).may_drop = true;
        Ok(())
    }
}

/// The pages that a checkpoint of the replay may have beyond the budget if commits took all of it: as many as the least
/// budget has for it (see [`least_budget_bytes`]).
const LENT_PAGES: usize = 64;

/// Returns an error that states how much memory would be enough, if there was too little memory.
#[cold]
fn with_need(store: &Store, error: Error) -> Error {
    let (budget, pressure) = (store.memory.account.budget(), store.pressure());
    if error.kind() != ErrorKind::Full || pressure.memtables_bytes <= pressure.limit_bytes {
        return error;
    }
    let (limit, needed) =
        (budget.limit_bytes(), budget.peak_bytes() + 2 * least_budget_bytes(store.page_bytes));
    error.within(format!(
        "the log holds a commit that does not fit within the memory limit of {limit} bytes; open the \
         database \
         once with memory_bytes of {needed} or more"
    ))
}

/// A replay applies records of the log to a store, one after the other.
pub(crate) struct Replay<'s> {
    store: &'s Store,
    reader: Reader,
    /// The position after the last applied record.
    at: Position,
    ceiling: Option<Ceiling>,
}

impl<'s> Replay<'s> {
    /// Begins at `at`. `ceiling` limits what is applied. `reader` is one of the store's: a store that is being opened
    /// has free slots, and one that follows a writer may have none.
    pub fn new(store: &'s Store, reader: Reader, at: Position, ceiling: Option<Ceiling>) -> Self {
        Replay { store, reader, at, ceiling }
    }

    /// Returns the position after the last applied record.
    pub fn at(&self) -> Position {
        self.at
    }

    /// Returns the limit, as far as it is used up.
    pub fn into_ceiling(self) -> Option<Ceiling> {
        self.ceiling
    }

    /// Applies `record`, which ends at `end`.
    pub fn record(&mut self, record: &[u8], end: Position) -> Result<()> {
        let store = self.store;
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.admit(record.len(), store.pressure().memtables_bytes)?;
        }
        let mut attached = Attached::recover(record, &store.pool, &self.reader)?;
        if let Some(attached) = &mut attached {
            self.make_room_for_runs(attached)?;
            store.seal_at(&mut lock(&store.committer), self.at);
        }
        // The catalog's id is the least, so its operations come first, unless runs are attached.
        let first = Decoder::begin(record).and_then(|mut decoder| decoder.by_ref().next());
        let changes_catalog = attached.is_some() || first.is_some_and(|(table, _)| table == TableId::CATALOG);
        let mut floor_ms = None;
        if changes_catalog {
            for row in catalog_rows(record) {
                floor_ms = floor_ms.max(Some(row?.floor_ms()));
            }
        }
        self.make_room_for(record)?;
        let mut guard = lock(&store.committer);
        let committer = &mut *guard;
        let ts = apply_record(record, &mut committer.writer)?;
        committer.last = ts;
        if let Some(attached) = attached {
            store.attach_at(committer, ts, end, Arc::new(attached));
        }
        drop(guard);
        // A reader that sees the commit finds the catalog's change noted: otherwise it would use a table as it was.
        floor_ms.into_iter().for_each(|floor_ms| store.time.pass(floor_ms));
        if changes_catalog {
            store.catalog.note(ts);
        }
        store.clocks.advance_applied(ts);
        // All of it is durable: the tail was written again and synced.
        store.clocks.publish(ts);
        self.at = end;
        let full = {
            let committer = lock(&store.committer);
            let records = committer.open.records();
            committer.writer.used_bytes() >= store.memory.shares.seal_bytes || records >= store.seal_records
        };
        match full {
            true if store.pressure().sealed >= MAX_SEALED => self.checkpoint()?,
            true => store.seal_at(&mut lock(&store.committer), end),
            false => {}
        }
        Ok(())
    }

    /// Makes a checkpoint (step 4) if there is too little memory for the range deletes of `attached`, or if too many
    /// memtables or runs would wait with it.
    ///
    /// Errors: [`ErrorKind::Full`] if nothing may be written, and there is no memory, or a scan could not merge all.
    fn make_room_for_runs(&self, attached: &mut Attached) -> Result<()> {
        let (store, runs) = (self.store, attached.count());
        let is_tall = store.pressure().sealed >= MAX_SEALED || store.check_waiting(runs).is_err();
        if is_tall || attached.is_uncharged() {
            self.checkpoint()?;
        }
        store.check_layers(runs)?;
        attached.charge_rest(!store.is_read_only())
    }

    /// Charges the memory for `record`, if there is any, after a checkpoint if necessary (step 4).
    fn make_room_for(&self, record: &[u8]) -> Result<()> {
        let (bytes, operations) = (record.len(), Decoder::begin(record).map_or(0, |decoder| decoder.left()));
        if self.is_overfull() {
            self.checkpoint()?;
        }
        if self.is_charged(bytes, operations) {
            return Ok(());
        }
        // Others who share the budget may have taken it.
        self.checkpoint()?;
        let _ = self.is_charged(bytes, operations);
        Ok(())
    }

    fn is_charged(&self, bytes: usize, operations: u64) -> bool {
        let store = self.store;
        let mut committer = lock(&store.committer);
        if committer.writer.reserve(bytes, operations) {
            return true;
        }
        let missing = committer.writer.missing(bytes, operations);
        // No lock may be held while pools evict pages.
        drop(committer);
        let Some(charge) = store.memory.account.charge_making_room(MemoryCategory::Memtables, missing) else {
            return false;
        };
        let mut committer = lock(&store.committer);
        committer.writer.add_credit(charge);
        committer.writer.reserve(bytes, operations)
    }

    /// Returns whether memtables take more than their share, as after a commit that is longer than that.
    fn is_overfull(&self) -> bool {
        let pressure = self.store.pressure();
        pressure.memtables_bytes > pressure.limit_bytes
    }

    /// Absorbs everything that was replayed, unless nothing may be written.
    fn checkpoint(&self) -> Result<()> {
        let store = self.store;
        if store.is_read_only() {
            return Ok(());
        }
        store.seal_at(&mut lock(&store.committer), self.at);
        let _loan = store.pool.lend(LENT_PAGES);
        store.with_fallback(|| store.begin_pending_checkpoint()).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::op::Encoder;

    #[test]
    fn a_record_that_promises_too_many_operations_is_damaged() {
        let record = |count| {
            let mut record = Vec::new();
            let mut encoder = Encoder::begin(&mut record, CommitTs(1), count);
            encoder.push(TableId(16), Op::Put { key: b"k", value: b"v" });
            record
        };
        check_record(&record(1)).unwrap();
        for count in [0, 2, u64::MAX / 100, u64::MAX] {
            let error = check_record(&record(count)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{count} operations");
        }
    }
}
