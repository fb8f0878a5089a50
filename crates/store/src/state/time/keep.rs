//! The time of a store, by which its entries age, and how it is stored.

use super::UNSAVED_MS;
use crate::state::store::Store;
use crate::state::superblock::Superblock;
use base::CommitTs;
use base::Result;
use base::sync::lock;

impl Store {
    /// Returns the time for entries with a TTL, in milliseconds since 1970: the clock's, but never less than before.
    pub fn time_ms(&self) -> u64 {
        self.time.now_ms()
    }

    /// Returns the time by which a checkpoint that absorbs the commits through `absorbed` drops expired entries.
    pub(crate) fn dropping_time_ms(&self, absorbed: CommitTs) -> u64 {
        let mut committer = lock(&self.committer);
        if committer.may_drop && self.catalog.newest() <= absorbed {
            committer.dropping_at_ms = self.time.now_ms();
        }
        committer.dropping_at_ms
    }

    /// Writes the time beside the superblock if ten seconds have passed, so that a killed process forgets little. It
    /// syncs nothing, and does nothing during a checkpoint. The log thread calls it four times a second.
    pub fn keep_time(&self) {
        // If no table has a TTL, no caller asked for the time.
        if self.time.times().time_ms == 0 || self.latch.check().is_err() {
            return;
        }
        // This notices a set wall clock although no caller asks.
        self.time.look();
        if let Some(mut superblock) = self.checkpoints.try_claim() {
            // After a failure, the next call tries again.
            let _ = self.save_time(&mut superblock, UNSAVED_MS);
        }
    }

    /// Writes the time beside `superblock`, the last one, if more than `unsaved_ms` of it has passed since. Returns
    /// whether it did.
    pub(crate) fn save_time(&self, superblock: &mut Superblock, unsaved_ms: u64) -> Result<bool> {
        let times = self.time.times();
        if times.time_ms <= superblock.times.time_ms.saturating_add(unsaved_ms) {
            return Ok(false);
        }
        superblock.times = times;
        superblock.write_times(&*self.data)?;
        Ok(true)
    }
}
