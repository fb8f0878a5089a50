//! The last checkpoint: its superblock, whose turn the next one is, and what the log and copies say of it.

use crate::state::pins::Pins;
use crate::state::superblock::Superblock;
use crate::state::tables::Tables;
use base::sync::lock;
use base::{CheckpointNo, Lsn};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// What is known of checkpoints.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    /// That of the last one. Held for the length of a checkpoint: there is one at a time.
    superblock: Mutex<Superblock>,
    /// So many wait for it.
    waiters: AtomicU32,
    noted: AtomicU64,
    replay_from: AtomicU64,
    /// Those whose pages and log somebody copies.
    pub pins: Pins,
}

impl Checkpoints {
    /// `last`, with its tables, is noted in the log.
    pub fn new(last: Superblock, tables: Arc<Tables>) -> Checkpoints {
        Checkpoints {
            superblock: Mutex::new(last),
            waiters: AtomicU32::new(0),
            noted: AtomicU64::new(last.checkpoint.0),
            replay_from: AtomicU64::new(last.replay_from.lsn.0),
            pins: Pins::new(last, tables),
        }
    }

    /// The last superblock, held as long as there is to be no other checkpoint. A thread that waits for it hurries the
    /// one under way.
    pub fn claim(&self) -> MutexGuard<'_, Superblock> {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let superblock = lock(&self.superblock);
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        superblock
    }

    /// The same, unless a checkpoint is under way.
    pub fn try_claim(&self) -> Option<MutexGuard<'_, Superblock>> {
        self.superblock.try_lock().ok()
    }

    /// Whether somebody waits for the checkpoint under way to end.
    pub fn is_awaited(&self) -> bool {
        self.waiters.load(Ordering::SeqCst) > 0
    }

    /// The newest checkpoint that a durable log block names: what only older ones need may be freed.
    pub fn noted(&self) -> CheckpointNo {
        CheckpointNo(self.noted.load(Ordering::SeqCst))
    }

    /// A durable log block names `checkpoint`.
    pub fn note(&self, checkpoint: CheckpointNo) {
        self.noted.store(checkpoint.0, Ordering::SeqCst);
    }

    /// Where a recovery would begin to replay: what the last superblock names.
    pub fn replay_from(&self) -> Lsn {
        Lsn(self.replay_from.load(Ordering::SeqCst))
    }

    /// The superblock that names `lsn` is written.
    pub fn set_replay_from(&self, lsn: Lsn) {
        self.replay_from.store(lsn.0, Ordering::SeqCst);
    }
}
