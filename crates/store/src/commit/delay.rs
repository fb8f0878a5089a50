//! Whether a commit would be held up, found out before it begins.

use crate::state::store::Store;

/// What the record of a few writes has beside their keys and values, at most.
const RECORD_SLACK_BYTES: u64 = 256;
/// Who finds the commit lock taken looks so often, some microseconds, before the commit that has it counts as a long
/// one.
const SHORT_COMMIT_LOOKS: u32 = 64;

impl Store {
    /// Whether a commit of `bytes` of keys and values that asks for no flush would be held up now: by a longer one, by
    /// a flush that one before it waits for, or because the log's next segment is not ready.
    pub fn would_delay(&self, bytes: u64) -> bool {
        let committer = (0..SHORT_COMMIT_LOOKS).find_map(|_| {
            std::hint::spin_loop();
            self.committer.try_lock().ok()
        });
        let is_held = committer.is_none_or(|committer| !committer.unsynced.is_empty());
        // A record that no block can hold is refused without any wait.
        is_held || !self.log.has_room(bytes + RECORD_SLACK_BYTES).unwrap_or(true)
    }
}
