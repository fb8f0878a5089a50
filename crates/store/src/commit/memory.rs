//! The memory of a commit, which is reserved while it can still be refused.

use crate::commit::Request;
use crate::state::committer::Committer;
use crate::state::memory::Patience;
use crate::state::store::Store;
use base::Result;
use base::budget::MemoryCategory;
use base::latency::Cause;
use base::sync::{lock, lock_timed};
use memtable::{Staged, Writer};
use std::sync::MutexGuard;

/// The size of a record from which on a commit that gets no memory waits only shortly before its writes are spilled.
const WORTH_SPILLING_BYTES: usize = 256 << 10;

impl Store {
    /// Takes the commit lock.
    #[inline]
    fn lock_committer(&self) -> MutexGuard<'_, Committer> {
        lock_timed(&self.committer, |ns| self.slots.latencies.record(Cause::CommitQueue, ns))
    }

    /// Takes the commit lock, with memory reserved for the writes, and room on the disk for the checkpoint that absorbs
    /// them, because a commit cannot be abandoned after its append. It costs comparisons, unless the last allowance is
    /// used up. What was `staged` in the open memtable has its memory. A wait for memory or room drops it, since it may
    /// keep a memtable that was merged meanwhile.
    ///
    /// The writes of a commit with spilled runs go to the next memtable, and do not find the room that is left in the
    /// open one.
    #[inline]
    pub(crate) fn lock_with_memory_for(
        &self,
        request: &mut Request<'_>,
        staged: &mut Option<Staged>,
    ) -> Result<MutexGuard<'_, Committer>> {
        let (bytes, operations) = (request.record.len(), request.writes.operations());
        let mut committer = self.lock_committer();
        let (spilled_records, spilled_bytes) = request.spilled.unwrap_or_default();
        let (records, all_bytes) = (operations + spilled_records, bytes as u64 + spilled_bytes);
        if !committer.room.take(records, all_bytes) {
            drop(committer);
            committer = self.lock_with_room(request.record, records, all_bytes, staged)?;
        }
        let is_anew = request.spilled.is_some();
        let reserve = |writer: &mut Writer| match is_anew {
            true => writer.reserve_anew(bytes, operations),
            false => writer.reserve(bytes, operations),
        };
        let is_staged = staged.as_ref().is_some_and(|staged| staged.is_in(&committer.open));
        if is_staged || reserve(&mut committer.writer) {
            return Ok(committer);
        }
        let mut patience = Patience::new(request.can_spill && bytes >= WORTH_SPILLING_BYTES);
        loop {
            let missing = match is_anew {
                true => committer.writer.missing_anew(bytes, operations),
                false => committer.writer.missing(bytes, operations),
            };
            drop(committer);
            staged.take();
            let charge = self.memory.account.charge_making_room(MemoryCategory::Memtables, missing);
            if charge.is_none() && !self.wait_for_memory(&mut patience) {
                request.should_spill = request.can_spill;
                return Err(self.no_memory("the transaction's commit", missing));
            }
            committer = lock(&self.committer);
            charge.into_iter().for_each(|charge| committer.writer.add_credit(charge));
            // This can fail: the memtable may have been sealed, or others may have taken the added memory.
            if reserve(&mut committer.writer) {
                return Ok(committer);
            }
        }
    }
}
