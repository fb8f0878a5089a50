//! The commit of a transaction that spilled: its runs are made durable first, and attached.
//!
//! It works as [`crate::commit`] does, with these differences. No work under the commit lock is proportional to the
//! transaction.
//! 1. Deltas are merged until few are left, validated against the commits so far, and named by the record, before the
//!    writes that are still in memory.
//! 2. If too many runs wait for a checkpoint, the transaction makes one. The data file is *synced*, whatever the
//!    durability: the log may survive a power loss without having been synced, and the runs that it names must then
//!    exist. A failure latches, as a checkpoint's does.
//! 3. The transaction is validated again, against the commits since; and once more under the lock.
//! 4. The open memtable is sealed below the commit's timestamp. The record is appended; the writes in memory go into
//!    the new memtable, which is sealed at once with the runs below it: see [`crate::view`] for their visibility.
//!
//! If the commit is abandoned before the append, the runs' extents are free again. From the append on they belong to
//! the log.

use crate::commit::apply::apply_record;
use crate::commit::{Applied, Request, encode, next_stamp};
use crate::read::merge::cursor::MOST_LAYERS;
use crate::state::attach::Attached;
use crate::state::committer::Committer;
use crate::state::options::MAX_SEALED;
use crate::state::stack::MOST_STACKED;
use crate::state::store::Store;
use crate::state::view::SealedMemtable;
use crate::uncommitted::spill::{MERGED, Spills};
use base::{CommitTs, Error, ErrorKind, Result};
use log::Position;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

/// The most attached runs that may wait for a checkpoint: a scan merges them all, with memtables and a transaction's
/// own runs above, and an LSM table's deltas below.
const MOST_WAITING: usize = MOST_LAYERS / 4;
/// How often a commit makes a checkpoint, and finds that others have taken the room.
const MOST_ATTEMPTS: u32 = 32;
const _: () =
    assert!(MOST_WAITING + MOST_STACKED + MAX_SEALED + 5 * MERGED <= MOST_LAYERS, "a scan has room for all");
const _: () =
    assert!(MOST_WAITING + MOST_STACKED + 2 * MAX_SEALED <= MOST_LAYERS, "also where nothing is written");

impl Store {
    /// Validates, appends, applies and publishes a commit with `spills`: steps 1 to 6, with the differences of this
    /// module.
    pub(crate) fn apply_spilled(&self, request: &mut Request<'_>, spills: Spills) -> Result<Applied> {
        let since = self.validate_ahead(request, Some(&spills), request.begin)?;
        let mut prepared = spills.prepare(request.reader)?;
        encode(request.writes, Some(&prepared.attached), self.is_timed(request), request.record);
        self.reserve_log(request.record)?;
        request.spilled = Some((prepared.attached.records(), prepared.attached.bytes()));
        self.make_room_for(prepared.attached.count())?;
        self.sync_data()?;
        let since = self.validate_ahead(request, Some(&prepared.spills), since)?;
        let (mut applied, dropped) = {
            let mut committer = self.lock_with_room_for(request, prepared.attached.count())?;
            let committer = &mut *committer;
            self.check_open()?;
            self.validate(&committer.recent(self, request.reader), request, Some(&prepared.spills), since)?;
            let ts = next_stamp(committer, request)?;
            self.seal(committer);
            let unpublished = self.append(request, ts)?;
            let dropped = prepared.publish(self);
            committer.last = ts;
            apply_record(request.record, &mut committer.writer).expect("the record was encoded a moment ago");
            self.attach_at(committer, ts, self.log.end(), Arc::clone(&prepared.attached));
            (self.publish(committer, request, ts, unpublished), dropped)
        };
        self.free_unpublished(&dropped);
        applied.sealed = true;
        Ok(applied)
    }

    /// Takes the commit lock with room for `runs`. Other transactions may have taken it since there was room last.
    fn lock_with_room_for(
        &self,
        request: &mut Request<'_>,
        runs: usize,
    ) -> Result<MutexGuard<'_, Committer>> {
        let mut attempts = 0;
        loop {
            let committer = self.lock_with_memory_for(request, &mut None)?;
            match self.check_waiting(runs) {
                Err(full) if attempts == MOST_ATTEMPTS => return Err(full),
                Err(_) => drop(committer),
                Ok(()) => return Ok(committer),
            }
            attempts += 1;
            self.make_room_for(runs)?;
        }
    }

    /// Makes a checkpoint if too many runs wait for one, here where the transaction holds no lock. So large
    /// transactions that follow one another faster than checkpoints wait, and do not fail.
    fn make_room_for(&self, runs: usize) -> Result<()> {
        match self.check_waiting(runs) {
            Ok(()) => Ok(()),
            Err(_) => self.checkpoint().map(drop),
        }
    }

    /// Checks that there is room for `runs`. Each commit with runs seals twice, however many memtables wait already.
    pub(crate) fn check_waiting(&self, runs: usize) -> Result<()> {
        let (waiting, memtables) = self.waiting();
        if waiting > 0
            && (waiting + runs > MOST_WAITING || waiting + runs + memtables > MOST_WAITING + MAX_SEALED)
        {
            let message = format!(
                "{waiting} runs of large transactions wait for a checkpoint; run the transaction again \
                 after it"
            );
            return Err(Error::new(ErrorKind::Full, message));
        }
        Ok(())
    }

    /// Checks that a scan has room for `runs` in a store that may not make a checkpoint, and has no transactions with
    /// runs of their own. No log that commits have written needs more: it has at most [`MOST_WAITING`] and
    /// [`MAX_SEALED`], and as many memtables again if there is less memory now.
    pub(crate) fn check_layers(&self, runs: usize) -> Result<()> {
        let (waiting, memtables) = self.waiting();
        if waiting > 0 && waiting + runs + memtables + MOST_STACKED > MOST_LAYERS {
            return Err(Error::new(
                ErrorKind::Full,
                format!(
                    "the log has {waiting} runs of large transactions that no checkpoint has merged; open \
                     the database for writing, so that they are merged"
                ),
            ));
        }
        Ok(())
    }

    /// Returns the number of attached runs that wait for a checkpoint, and the number of memtables that will when
    /// another commit with runs was applied.
    fn waiting(&self) -> (usize, usize) {
        let has_records = |sealed: &&SealedMemtable| !sealed.memtable.is_empty();
        let memtables = self.views.with_current(|view| view.sealed.iter().filter(has_records).count() + 2);
        (self.attached_runs(), memtables)
    }

    /// Returns how many attached runs no checkpoint has absorbed yet.
    pub(crate) fn attached_runs(&self) -> usize {
        self.views.with_current(|view| {
            view.sealed.iter().filter_map(|sealed| sealed.attached.as_ref()).map(|a| a.count()).sum()
        })
    }

    /// Seals the open memtable with `attached` below it, after the append (step 4). The commit's writes in memory were
    /// applied to that memtable, which has nothing else. The record of commit `ts`, which brought the runs, ends at
    /// `log_end`.
    pub(crate) fn attach_at(
        &self,
        committer: &mut Committer,
        ts: CommitTs,
        log_end: Position,
        attached: Arc<Attached>,
    ) {
        let (open, writer) = self.memory.new_memtable(committer.writer.take_credit());
        let sealed = self.views.attach(ts, log_end, attached, Arc::clone(&open));
        self.note_sealed(committer, sealed, open, writer);
        self.attached.store(ts.0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::catalog::RequestedLayout;
    use crate::{Options, Span, Transaction, TransactionOptions};
    use base::ErrorKind;
    use base::budget::MemoryCategory;
    use base::sync::lock;

    #[test]
    fn a_scan_has_room_for_all_that_waits_at_once() {
        let options = Options { page_bytes: Some(4096), memory_bytes: 4 << 20, ..Options::default() };
        let store = crate::open_or_create(Arc::new(io::MemDir::new()), &options).unwrap();
        let begin = || Transaction::begin(&store, TransactionOptions::default()).unwrap();
        let commit = |tx: Transaction| store.acknowledge(tx.apply()?).map(drop);
        let mut tx = begin();
        let table = tx.create_table("t", RequestedLayout::Lsm).unwrap();
        commit(tx).unwrap();
        let mut written = 0_u32;
        let mut put = |tx: &mut Transaction| {
            tx.put(&table, &written.to_be_bytes(), b"").unwrap();
            written += 1;
        };
        // The stack has its greatest height, because other tables use the whole merge quota.
        for _ in 1..MOST_STACKED {
            let mut tx = begin();
            put(&mut tx);
            commit(tx).unwrap();
            let mut checkpoint = store.begin_checkpoint().unwrap().unwrap();
            checkpoint.quota.bytes = 0;
            checkpoint.finish().unwrap();
        }
        let refused = loop {
            // The next commit would make a checkpoint.
            if let Err(refused) = store.check_waiting(1) {
                break refused;
            }
            let mut small = begin();
            put(&mut small);
            commit(small).unwrap();
            let mut large = begin();
            put(&mut large);
            large.spill().unwrap();
            put(&mut large);
            commit(large).unwrap();
        };
        assert_eq!(refused.kind(), ErrorKind::Full);
        let count = || {
            let snapshot = store.snapshot().unwrap();
            let mut cursor = snapshot.cursor(&table, Span::all()).unwrap();
            std::iter::from_fn(|| cursor.advance().unwrap().then_some(())).count()
        };
        let all = count();
        assert!(all > 46 + 3 * 10, "{all}");
        while store.checkpoint().unwrap() {}
        assert_eq!(count(), all);
    }

    /// What is left of the memory of the memtable that it seals is no memory for the one that it opens.
    #[test]
    fn a_spilled_commit_stays_within_the_budget() {
        let options = Options { page_bytes: Some(4096), memory_bytes: 4 << 20, ..Options::default() };
        let store = crate::open_or_create(Arc::new(io::MemDir::new()), &options).unwrap();
        let begin = || Transaction::begin(&store, TransactionOptions::default()).unwrap();
        let commit = |tx: Transaction| store.acknowledge(tx.apply()?).map(drop);
        let mut tx = begin();
        let table = tx.create_table("t", RequestedLayout::Lsm).unwrap();
        (0..200_u32).for_each(|key| tx.put(&table, &key.to_be_bytes(), &[1; 100]).unwrap());
        commit(tx).unwrap();
        let mut large = begin();
        large.put(&table, b"spilled", b"").unwrap();
        large.spill().unwrap();
        large.put(&table, b"rest", b"").unwrap();
        lock(&store.committer).writer.shrink_credit(0);
        assert!(lock(&store.committer).writer.reserve(100, 2), "the open memtable has room");
        let budget = store.memory.account.budget();
        let left = budget.limit_bytes() - budget.used_bytes();
        let others = store.memory.account.charge(MemoryCategory::Checkpoint, left).unwrap();
        let committed = commit(large);
        let (peak, limit) = (budget.peak_bytes(), budget.limit_bytes());
        assert!(peak <= limit, "{peak} bytes of {limit}: {committed:?}");
        drop(others);
    }
}
