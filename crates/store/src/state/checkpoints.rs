//! The last checkpoint: its superblock, the threads that wait for the next one, and what the log and copies record of
//! it.

use crate::state::pins::Pins;
use crate::state::superblock::Superblock;
use crate::state::tables::Tables;
use base::sync::{lock, try_lock};
use base::{CheckpointNo, Error, Lsn, Result};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, ThreadId};

/// The state of checkpoints.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    /// The superblock of the last checkpoint. It is locked during a checkpoint, so there is one at a time.
    superblock: Mutex<Superblock>,
    /// The threads that check the database and call a function of the program meanwhile.
    callers: Mutex<Vec<ThreadId>>,
    /// The number of threads that wait for it.
    waiters: AtomicU32,
    noted: AtomicU64,
    replay_from: AtomicU64,
    /// The checkpoints whose pages and log are being copied.
    pub pins: Pins,
}

impl Checkpoints {
    /// Creates the state after `last`, with its tables, which is noted in the log.
    pub fn new(last: Superblock, tables: Arc<Tables>) -> Checkpoints {
        Checkpoints {
            superblock: Mutex::new(last),
            callers: Mutex::default(),
            waiters: AtomicU32::new(0),
            noted: AtomicU64::new(last.checkpoint.0),
            replay_from: AtomicU64::new(last.replay_from.lsn.0),
            pins: Pins::new(last, tables),
        }
    }

    /// Returns the last superblock. No other checkpoint begins while it is held. A thread that waits for it makes the
    /// current one hurry.
    ///
    /// # Errors
    /// [`Invalid`](base::ErrorKind::Invalid) in a function that [`Checkpoints::while_calling`] calls.
    pub fn claim(&self) -> Result<MutexGuard<'_, Superblock>> {
        self.check_not_called()?;
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let superblock = lock(&self.superblock);
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        Ok(superblock)
    }

    /// Returns the last superblock, or `None` if a checkpoint is in progress. No other checkpoint begins while it is
    /// held.
    pub fn try_claim(&self) -> Option<MutexGuard<'_, Superblock>> {
        try_lock(&self.superblock)
    }

    /// Returns an error in a function that a check calls on this thread: what it checks must stay.
    ///
    /// # Errors
    /// As [`Checkpoints::claim`].
    pub fn check_not_called(&self) -> Result<()> {
        if lock(&self.callers).contains(&thread::current().id()) {
            let message = "a function that is called while the database is checked can neither check, \
                           compact nor close it, nor make a checkpoint; do that after the check";
            return Err(Error::invalid(message));
        }
        Ok(())
    }

    /// Calls a function of the program during a check: [`Checkpoints::claim`] fails there.
    pub fn while_calling<T>(&self, call: impl FnOnce() -> T) -> T {
        struct Called<'c>(&'c Mutex<Vec<ThreadId>>);
        impl Drop for Called<'_> {
            fn drop(&mut self) {
                let this = thread::current().id();
                lock(self.0).retain(|caller| *caller != this);
            }
        }
        lock(&self.callers).push(thread::current().id());
        let _called = Called(&self.callers);
        call()
    }

    /// Returns whether a thread waits for the end of the current checkpoint.
    pub fn is_awaited(&self) -> bool {
        self.waiters.load(Ordering::SeqCst) > 0
    }

    /// Returns the newest checkpoint that a durable log block names: what only older ones need may be freed.
    pub fn noted(&self) -> CheckpointNo {
        CheckpointNo(self.noted.load(Ordering::SeqCst))
    }

    /// Notes that a durable log block names `checkpoint`.
    pub fn note(&self, checkpoint: CheckpointNo) {
        self.noted.store(checkpoint.0, Ordering::SeqCst);
    }

    /// Returns the position at which a recovery would begin to replay, according to the last superblock.
    pub fn replay_from(&self) -> Lsn {
        Lsn(self.replay_from.load(Ordering::SeqCst))
    }

    /// Notes that the superblock that names `lsn` is written.
    pub fn set_replay_from(&self, lsn: Lsn) {
        self.replay_from.store(lsn.0, Ordering::SeqCst);
    }
}
