//! The memory of the log. Its newest segment is mapped, and counts as the process's memory.
//!
//! 1. Segments up to [`LEAST_BYTES`] are always charged. Longer ones are made only after the difference was charged,
//!    so an idle database costs little, however large the budget is. If the budget has no room, segments stay as
//!    short as they are, and more of them are made.
//! 2. A record that fits no such segment gets one of its own length, which is not charged. A segment that was made when
//!    the log had more memory is not mapped.
//! 3. If others need memory and little was logged since the last checkpoint, the log moves to a short segment.

use super::Memory;
use crate::state::store::Store;
use base::Result;
use base::budget::{Account, Charge, MemoryCategory};
use base::sync::lock;
use log::Log;
use std::sync::Arc;

/// The length of segments up to which no more memory is charged, in bytes.
const LEAST_BYTES: u64 = 64 << 10;

/// Charges the segment that a log was opened with, and limits the next ones to its length.
pub(super) fn charge_opened(account: &Arc<Account>, log: &Log) -> Charge {
    let Some(mapped_bytes) = log.mapped_bytes() else {
        return Charge::none(account, MemoryCategory::Log);
    };
    let bytes = mapped_bytes.max(LEAST_BYTES);
    log.grant_segments(bytes);
    // The pools of other databases evict pages. If they have none, it is charged nevertheless, because it is mapped.
    let charge = account.charge_making_room(MemoryCategory::Log, bytes as usize);
    charge.unwrap_or_else(|| account.charge_by_force(MemoryCategory::Log, bytes as usize))
}

impl Memory {
    /// Releases the charge of the log: no segment of it is mapped.
    pub fn give_back_log(&self) {
        lock(&self.log).shrink_to(0);
    }

    /// Returns whether more than the least is charged for the log.
    fn has_long_log(&self) -> bool {
        self.account.held().bytes(MemoryCategory::Log) as u64 > LEAST_BYTES
    }
}

impl Store {
    /// Lets the next segment of the log be longer, if it should be and there is memory for that: see
    /// [`Log::wanted_grant`].
    pub(crate) fn let_log_grow(&self, payload_bytes: u64, is_needed: bool) {
        if let Some(bytes) = self.log.wanted_grant(payload_bytes, is_needed) {
            let mut charge = lock(&self.memory.log);
            if bytes as usize <= charge.bytes() || charge.resize(bytes as usize) {
                self.log.grant_segments(bytes);
            }
        }
    }

    /// Returns whether the log has memory that [`Store::give_log_back`] would free.
    pub(super) fn has_idle_log(&self) -> bool {
        let logged_bytes = self.log.end().lsn.0.saturating_sub(self.checkpoints.replay_from().0);
        self.memory.has_long_log() && logged_bytes <= LEAST_BYTES
    }

    /// Moves a log in which little was written since the last checkpoint to a short segment, and frees the memory of
    /// the long one. Call it when others need memory.
    ///
    /// # Errors
    /// As [`Log::shorten`].
    pub fn give_log_back(&self) -> Result<()> {
        if !self.has_idle_log() {
            return Ok(());
        }
        // Held to the end: nothing grows meanwhile.
        let mut charge = lock(&self.memory.log);
        self.log.grant_segments(LEAST_BYTES);
        self.log.shorten()?;
        charge.shrink_to(LEAST_BYTES as usize);
        Ok(())
    }
}
