//! The last two steps of a commit, its flush and its acknowledgement, for one commit or for many at once.

use crate::commit::steps::Applied;
use crate::commit::unpublished::indeterminate;
use crate::state::committer::Committer;
use crate::state::store::Store;
use base::sync::lock;
use base::{CommitTs, Lsn, Result};
use txn::Durability;

impl Store {
    /// Returns when the commit is as durable as it requires, and every reader sees it (steps 7 and 8).
    ///
    /// # Errors
    /// [`Indeterminate`](base::ErrorKind::Indeterminate) if the flush failed: the commit may or may not survive.
    pub fn acknowledge(&self, applied: Applied) -> Result<CommitTs> {
        if self.needs_no_flush(&applied) {
            self.wake_readers(&applied);
            return Ok(applied.ts);
        }
        self.sync_and_wake(self.durable_point(&applied)).map_err(|cause| indeterminate(&cause))?;
        debug_assert!(self.clocks.visible() >= applied.ts);
        Ok(applied.ts)
    }

    /// Wakes readers of changes if the commit was visible at once. [`Store::acknowledge`] does it: call this before
    /// [`Store::acknowledge_all`], or instead of a call that would return at once. The caller must hold no lock that a
    /// waker may need.
    #[inline]
    pub fn wake_readers(&self, applied: &Applied) {
        if applied.is_visible {
            self.feeds.wake();
        }
    }

    /// Returns whether [`Store::acknowledge`] would return at once, without a flush.
    #[inline]
    pub fn needs_no_flush(&self, applied: &Applied) -> bool {
        self.clocks.visible() >= applied.ts && applied.durability != Durability::Sync
    }

    /// Returns when each commit is as durable as it requires, and every reader sees it, with at most one flush for all
    /// of them.
    ///
    /// # Errors
    /// [`Indeterminate`](base::ErrorKind::Indeterminate) if the flush failed: each of the commits may or may not
    /// survive.
    pub fn acknowledge_all<'a>(&self, commits: impl Iterator<Item = &'a Applied>) -> Result<()> {
        let waiting = commits.filter(|applied| !self.needs_no_flush(applied));
        match waiting.map(|applied| self.durable_point(applied)).max() {
            Some(through) => self.sync_and_wake(through).map_err(|cause| indeterminate(&cause)),
            None => Ok(()),
        }
    }

    /// Returns the position through which the log must be durable for the commit to be acknowledged.
    fn durable_point(&self, applied: &Applied) -> Lsn {
        match applied.durability {
            Durability::Sync => applied.durable_at,
            Durability::Buffered | Durability::Lazy => self.durable_point_of(applied.ts),
        }
    }

    /// Returns where the log must be durable for everything through `ts` to be visible: after the last `Sync` commit at
    /// or before it.
    pub(super) fn durable_point_of(&self, ts: CommitTs) -> Lsn {
        if self.clocks.visible() >= ts {
            return Lsn(0);
        }
        let committer = lock(&self.committer);
        committer.unsynced.iter().rev().find(|(at, _)| *at <= ts).map_or(Lsn(0), |(_, lsn)| *lsn)
    }

    /// Moves `visible` as far as the log's synced point allows.
    pub(crate) fn publish_synced(&self) {
        self.publish_synced_in(&mut lock(&self.committer));
    }

    /// Moves `visible` as far as the log's synced point allows. The caller holds the commit lock.
    pub(crate) fn publish_synced_in(&self, committer: &mut Committer) {
        let synced = self.log.synced();
        while committer.unsynced.front().is_some_and(|(_, lsn)| *lsn <= synced) {
            committer.unsynced.pop_front();
        }
        // Not `committer.last`: that is set before the commit is in the memtable, and a panic may leave it half there.
        let applied = || self.clocks.applied();
        let visible = committer.unsynced.front().map_or_else(applied, |(ts, _)| CommitTs(ts.0 - 1));
        self.clocks.publish(visible);
        self.show_readers();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, RequestedLayout, Transaction, TransactionOptions};
    use std::sync::Arc;

    /// A commit panicked after its append. Another thread, which has looked at the latch before, has flushed its own.
    #[test]
    fn a_commit_that_is_not_applied_completely_is_not_published() {
        let options = Options { memory_bytes: 4 << 20, ..Options::default() };
        let store = crate::open_or_create(Arc::new(io::MemDir::new()), &options).unwrap();
        let mut tx = Transaction::begin(&store, TransactionOptions::default()).unwrap();
        tx.create_table("t", RequestedLayout::BTree).unwrap();
        let applied = tx.apply().unwrap();
        store.log.sync(applied.durable_at).unwrap();
        lock(&store.committer).last = CommitTs(applied.ts.0 + 1);
        store.publish_synced();
        assert_eq!(store.clocks.visible(), applied.ts);
        lock(&store.committer).last = applied.ts;
        store.close().unwrap();
    }
}
