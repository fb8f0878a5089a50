//! The check whether a commit would be delayed, before it begins.

use crate::state::committer::Committer;
use crate::state::store::Store;

/// The most bytes of a small record in addition to its keys and values.
const RECORD_SLACK_BYTES: u64 = 256;
/// The number of looks at a taken commit lock, some microseconds, after which the commit that holds it counts as a long
/// one.
const SHORT_COMMIT_LOOKS: u32 = 64;

impl Store {
    /// Returns whether a commit of `bytes` of keys and values that needs no flush would be delayed now: by a longer
    /// one, by a flush that an earlier one waits for, or because the log's next segment is not ready.
    pub fn would_delay(&self, bytes: u64) -> bool {
        self.look_at_committer(bytes, |committer| !committer.unsynced.is_empty())
    }

    /// Returns whether the steps of a commit before its flush would be delayed now: by a longer commit, or because the
    /// log's next segment is not ready. It is an estimate, as [`Store::would_delay`] is.
    pub fn would_delay_apply(&self, bytes: u64) -> bool {
        self.look_at_committer(bytes, |_| false)
    }

    fn look_at_committer(&self, bytes: u64, delays: impl FnOnce(&Committer) -> bool) -> bool {
        let committer = (0..SHORT_COMMIT_LOOKS).find_map(|_| {
            std::hint::spin_loop();
            base::sync::try_lock(&self.committer)
        });
        let is_held = committer.is_none_or(|committer| delays(&committer));
        // A record that no block can hold is rejected without a wait.
        is_held || !self.log.has_room(bytes + RECORD_SLACK_BYTES).unwrap_or(true)
    }
}
