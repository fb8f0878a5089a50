//! What only ended or expired readers needed is freed: old views with their memtables, conflict history, retired pages.

use crate::store::Store;
use base::CheckpointNo;
use base::sync::lock;
use std::sync::atomic::Ordering;

impl Store {
    /// Whether readers, or what is pinned for a copy, keep something that [`Store::reclaim`] would free after them.
    pub fn waits_for_readers(&self) -> bool {
        self.views.count() > 1 || lock(&self.space).stats().retired_units > 0
    }

    /// Frees what only ended or expired readers needed: old views with their memtables, conflict history, retired
    /// pages. A checkpoint does it as its last step; after a long reader has ended it is worth doing in between.
    pub fn reclaim(&self) {
        let _checkpoint = self.claim_checkpoint();
        self.free_unneeded();
        // What fails here is tried again by the next checkpoint, and costs nothing but room.
        let _ = self.latch.check().and_then(|()| self.give_back(false));
    }

    pub(crate) fn free_unneeded(&self) {
        self.expire_readers();
        let read = self.free_memtables();
        let noted = CheckpointNo(self.noted.load(Ordering::SeqCst));
        lock(&self.space).release(noted.min(self.pins.oldest()), &read);
    }

    /// The part of it that is memory: old views and conflict history. Answers which checkpoints are still read.
    pub(crate) fn free_memtables(&self) -> Vec<CheckpointNo> {
        let forgotten = self.prune_history(&mut lock(&self.committer));
        drop(forgotten);
        self.views.reclaim(&self.slots)
    }
}
