//! One flush for all who wait.
//!
//! 1. Who finds its LSN synced returns at once, without a lock.
//! 2. Of those who wait, the first becomes the leader; the others sleep.
//! 3. The leader notes the end of the log, and syncs the files of ended segments, oldest first, then the current
//!    one. Appends go on meanwhile: they do not take the lock that a flush is led under. If many pages were stored
//!    into, they are released first: the kernel takes them from a mapping one by one otherwise, and tells all
//!    processors.
//! 4. It publishes the end it noted, or latches the log, and wakes everybody. Who needs more leads the next flush.
//!
//! Where nobody asks for a flush, [`Log::write_behind`] has the disk begin all the same, so that the one at the next
//! checkpoint finds little left.

use crate::append::{Mapped, Stop};
use crate::handle::Log;
use base::phases::{self, Phase};
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::{Condvar, Mutex, lock, wait};
use base::{Error, Lsn, Result};

/// The disk is asked to start writing the log when so much was appended since the last request or flush.
const BEHIND_BYTES: u64 = 1 << 20;

/// The meeting place of those who wait for a flush.
#[derive(Debug, Default)]
pub(crate) struct Flush {
    /// Whether somebody leads one.
    led: Mutex<bool>,
    done: Condvar,
    /// Flushes led, and the syncs that were asked for and not already met.
    pub flushes: AtomicU64,
    pub asked: AtomicU64,
}

impl Flush {
    fn step_down(&self) {
        *lock(&self.led) = false;
        self.done.notify_all();
    }
}

/// Wakes the followers also when the leader panics.
struct Lead<'a>(&'a Flush);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.0.step_down();
    }
}

impl Log {
    /// Returns when everything before `through` is durable. Callers at the same time share flushes.
    ///
    /// # Errors
    /// [`Invalid`](base::ErrorKind::Invalid) for an LSN beyond the end. A failed flush latches the log: this call
    /// gets the cause, everyone after it [`Latched`](base::ErrorKind::Latched). What was durable before stays so,
    /// and is still confirmed.
    #[inline]
    pub fn sync(&self, through: Lsn) -> Result<()> {
        if self.synced() >= through {
            return Ok(());
        }
        self.wait_for_flush(through)
    }

    /// Has the disk begin with what was appended since it last did, if that is much: the flush that a checkpoint begins
    /// with finds little left to do, where nobody else asks for one.
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
        let mut led = lock(&self.flush.led);
        while *led {
            led = wait(&self.flush.done, led);
            if self.synced() >= through {
                return Ok(());
            }
        }
        // The flush before may have ended between the caller's look and this lock.
        if self.synced() >= through {
            return Ok(());
        }
        *led = true;
        drop(led);
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
            for file in &files {
                file.sync().inspect_err(|error| lock(&self.appender).latch(error))?;
            }
            Ok::<(), Error>(())
        })?;
        self.synced.store(through.0, Ordering::SeqCst);
        Ok(())
    }
}
