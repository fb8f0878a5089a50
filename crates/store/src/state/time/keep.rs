//! The time of a store: what its entries are aged by, and how it is kept on the disk.

use super::UNSAVED_MS;
use crate::state::store::Store;
use crate::state::superblock::Superblock;
use base::CommitTs;
use base::Result;
use base::sync::lock;

impl Store {
    /// What time it is for entries that live for a time, in milliseconds since 1970: the clock's, but never less than
    /// it was.
    pub fn time_ms(&self) -> u64 {
        self.time.now_ms()
    }

    /// The time by which a checkpoint that absorbs the commits through `absorbed` drops what has expired.
    pub(crate) fn dropping_time_ms(&self, absorbed: CommitTs) -> u64 {
        let mut committer = lock(&self.committer);
        if committer.may_drop && self.catalog.newest() <= absorbed {
            committer.dropping_at_ms = self.time.now_ms();
        }
        committer.dropping_at_ms
    }

    /// Writes the time beside the superblock if ten seconds of it have passed, so that a killed process forgets little.
    /// Syncs nothing, and does nothing while a checkpoint is made. The log thread calls it four times a second.
    pub fn keep_time(&self) {
        // Where no table has a TTL, nobody asked for the time.
        if self.time.times().time_ms == 0 || self.latch.check().is_err() {
            return;
        }
        // A wall that was set is noticed although nobody asks.
        self.time.look();
        if let Some(mut superblock) = self.checkpoints.try_claim() {
            // What fails here is tried again.
            let _ = self.save_time(&mut superblock, UNSAVED_MS);
        }
    }

    /// Writes the time beside `superblock`, the last one, if more than `unsaved_ms` of it has passed since. Whether it
    /// did.
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
