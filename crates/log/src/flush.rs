//! Group flush: one flush serves all threads that wait for one.
//!
//! 1. A thread whose LSN is already synced returns at once, without a lock.
//! 2. The first thread that must wait becomes the leader; the others sleep.
//! 3. The leader reads the end of the log, and syncs the files of ended segments, oldest first, then the current one,
//!    which the disk has begun to write by then. Appends continue meanwhile, because they do not take the lock of the
//!    leader. If many pages were stored into, the leader releases them first: otherwise the kernel takes them from the
//!    mapping one by one, and interrupts all processors for each.
//! 4. The leader publishes that end, or latches the log, and wakes all threads. A thread that needs a later LSN leads
//!    the next flush.
//!
//! If no thread asks for a flush, [`Log::write_behind`] asks the disk to start writing all the same, so that the flush
//! of the next checkpoint has little left to do.

use crate::append::{Mapped, Stop};
use crate::handle::Log;
use base::phases::{self, Phase};
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::{Condvar, Mutex, lock, wait};
use base::{Error, Lsn, Result};

/// The disk is asked to start writing the log when this much was appended since the last request or flush.
const BEHIND_BYTES: u64 = 1 << 20;

/// The threads that need a flush.
#[derive(Debug, Default)]
struct Queue {
    /// Whether a thread leads a flush.
    is_led: bool,
    /// The number of threads that wait for its end. To wake none is a system call, too.
    followers: usize,
}

/// The state that threads share while they wait for a flush.
#[derive(Debug, Default)]
pub(crate) struct Flush {
    queue: Mutex<Queue>,
    done: Condvar,
    /// The number of flushes, and the number of syncs that had to wait for one.
    pub flushes: AtomicU64,
    pub asked: AtomicU64,
}

impl Flush {
    fn step_down(&self) {
        let followers = {
            let mut queue = lock(&self.queue);
            queue.is_led = false;
            queue.followers
        };
        if followers > 0 {
            self.done.notify_all();
        }
    }
}

/// A guard that wakes the followers, even when the leader panics.
struct Lead<'a>(&'a Flush);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.0.step_down();
    }
}

impl Log {
    /// Returns when everything before `through` is durable. Concurrent callers share flushes.
    ///
    /// # Errors
    /// [`Invalid`](base::ErrorKind::Invalid) for an LSN beyond the end. A failed flush latches the log: this call
    /// returns the cause, and all later calls return [`Latched`](base::ErrorKind::Latched). What was durable before
    /// stays durable, and calls for it still succeed.
    #[inline]
    pub fn sync(&self, through: Lsn) -> Result<()> {
        if self.synced() >= through {
            return Ok(());
        }
        self.wait_for_flush(through)
    }

    /// Asks the disk to start writing the blocks appended since the last request, if they are many. The flush at the
    /// start of a checkpoint then has little left to do, even if no other thread asks for one.
    pub(crate) fn write_behind(&self) {
        let (mapped, files) = {
            let mut appender = lock(&self.appender);
            let from = appender.begun.max(self.synced());
            if appender.end.0.saturating_sub(from.0) < BEHIND_BYTES {
                return;
            }
            appender.begun = appender.end;
            let files: Vec<_> = appender.unsynced.iter().chain([&appender.segment.file]).cloned().collect();
            (appender.take_mapped(from), files)
        };
        mapped.into_iter().flatten().for_each(Mapped::release);
        files.iter().for_each(|file| file.begin_sync());
    }

    fn wait_for_flush(&self, through: Lsn) -> Result<()> {
        let end = self.end().lsn;
        if through > end {
            return Err(Error::invalid(format!(
                "cannot sync the log through LSN {through}: it ends at LSN {end}"
            )));
        }
        self.flush.asked.fetch_add(1, Ordering::SeqCst);
        let mut queue = lock(&self.flush.queue);
        while queue.is_led {
            queue.followers += 1;
            queue = wait(&self.flush.done, queue);
            queue.followers -= 1;
            if self.synced() >= through {
                return Ok(());
            }
        }
        // The previous flush may have ended between the caller's look and this lock.
        if self.synced() >= through {
            return Ok(());
        }
        queue.is_led = true;
        drop(queue);
        let _lead = Lead(&self.flush);
        self.lead_flush()
    }

    fn lead_flush(&self) -> Result<()> {
        let (through, files, mapped) = {
            let mut appender = lock(&self.appender);
            if let Some(stop @ Stop::Latched(_)) = &appender.stop {
                return Err(stop.refusal());
            }
            if appender.reopened.is_some() {
                // Only the closing block could lack its flush, and the first append writes it again.
                return Ok(());
            }
            let mut files = std::mem::take(&mut appender.unsynced);
            files.push(appender.segment.file.clone());
            (appender.end, files, appender.take_mapped(self.synced()))
        };
        mapped.into_iter().flatten().for_each(Mapped::release);
        self.flush.flushes.fetch_add(1, Ordering::SeqCst);
        phases::within(Phase::LogFlush, || {
            // The disk writes a segment while the one before it is waited for.
            files.iter().skip(1).for_each(|file| file.begin_sync());
            for file in &files {
                file.sync().inspect_err(|error| lock(&self.appender).latch(error))?;
            }
            Ok::<(), Error>(())
        })?;
        self.synced.store(through.0, Ordering::SeqCst);
        Ok(())
    }
}
