//! The two threads of an open database.
//!
//! * *checkpoint* merges sealed memtables after a commit has sealed one, and runs of LSM tables in between, a slice at
//!   a time.
//! * *log* prepares the next segment before it is needed, and syncs `Lazy` commits within their interval. It is also
//!   the store's clock: four times a second it sets the time, checks readers that have been open long, and removes
//!   files of the log and memory of merged memtables that are no longer needed.
//!
//! Each thread sleeps until its bell rings. An idle database uses no processor time except the clock's few microseconds
//! a second. While readers hold back what a checkpoint replaced, the first thread checks twice a second whether they
//! have ended. Both are joined when the database closes.
//!
//! A database that another process writes has one thread instead, which follows that process (`follow`).

mod follow;
mod signals;
mod throttle;

use base::{Error, ErrorKind, Result};
pub(crate) use follow::Following;
pub(crate) use signals::{Bell, Foreman, ReaderWatch, Signals};
use signals::{Room, TICK};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use store::Store;
use store::checkpoint::{Checkpoint, Step};

/// The wait before a failed checkpoint is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// How often a checkpoint is begun again because every page of the cache was in use, and the pause before it. Each
/// waits for pages by itself, up to a second.
const MOST_WITHOUT_PAGES: u32 = 10;
const SOON: Duration = Duration::from_millis(10);
/// The interval at which the worker checks whether a reader that held back memory or space has ended. Ending a reader
/// rings no bell, so that it costs nothing.
const RECLAIM: Duration = Duration::from_millis(500);

/// The running threads.
#[derive(Debug)]
pub(crate) struct Workers {
    signals: Arc<Signals>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    pub fn start(store: &Arc<Store>, signals: &Arc<Signals>) -> Result<Self> {
        let mut workers = Workers { signals: Arc::clone(signals), threads: Vec::new() };
        workers.spawn("pando-checkpoint", store, run_checkpoints)?;
        workers.spawn("pando-log", store, run_log)?;
        Ok(workers)
    }

    fn spawn(&mut self, name: &str, store: &Arc<Store>, run: fn(&Arc<Store>, &Arc<Signals>)) -> Result<()> {
        let (store, signals) = (Arc::clone(store), Arc::clone(&self.signals));
        let named = name.to_owned();
        let run = move || {
            if let Err(panic) = attend(&named, || run(&store, &signals)) {
                // It may have left work half done: later commits return the reason.
                store.stop_writing(panic);
                signals.set_room(Room::Unattended);
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
        self.threads
            .push(thread.map_err(|cause| base::Error::io(format!("start the thread {name}"), cause))?);
        Ok(())
    }
}

impl Drop for Workers {
    /// Stops the threads and waits for them. A checkpoint in progress is finished first.
    fn drop(&mut self) {
        self.signals.stop_waiting();
        for thread in self.threads.drain(..) {
            // A callback that drops the last handle closes the database on the log thread, which then ends by itself.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

/// Runs the worker `name`.
///
/// # Errors
/// [`ErrorKind::Latched`] with the message of its panic.
fn attend(name: &str, run: impl FnOnce()) -> Result<()> {
    panic::catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
        let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
        let said = said.unwrap_or_else(|| "no message".to_owned());
        Error::new(ErrorKind::Latched, format!("the thread {name} of the database panicked: {said}"))
    })
}

fn run_checkpoints(store: &Arc<Store>, signals: &Arc<Signals>) {
    // However the worker ends, no thread must go on waiting for it.
    struct Leaving<'a>(&'a Signals);
    impl Drop for Leaving<'_> {
        fn drop(&mut self) {
            self.0.set_room(Room::Unattended);
        }
    }
    let _leaving = Leaving(signals);
    let mut lacked_pages = 0;
    while !signals.stopping() {
        let fallback = store.fallback_level();
        let result = next_checkpoint(store).and_then(|next| match next {
            Some(checkpoint) => make(checkpoint, store, signals).map(|()| true),
            None => Ok(false),
        });
        let full = store.pressure().is_full();
        match result {
            Ok(more) => {
                lacked_pages = 0;
                signals.set_full(full);
                // Checkpoints come first. A failure that matters is met again there.
                let more = more || store.keep_filters().unwrap_or(false);
                if !more {
                    if signals.memory_wanted.swap(false, Ordering::SeqCst) {
                        // If the log is latched, the next write gets the error.
                        let _ = store.give_log_back();
                    }
                    let waits = store.waits_to_reclaim();
                    signals.checkpoint.wait(waits.then_some(RECLAIM));
                    if waits {
                        throttle::throttled(store, signals, || store.reclaim());
                    }
                }
            }
            // The next write gets the error from the store. There is nothing left to do here.
            Err(error) if matches!(error.kind(), ErrorKind::Latched | ErrorKind::Closed) => break,
            // The disk is full, and a checkpoint that uses the reserve has not been tried yet.
            Err(error) if store.should_fall_back(&error, fallback) => {}
            Err(error) if store.lacked_pages(&error) && lacked_pages < MOST_WITHOUT_PAGES => {
                lacked_pages += 1;
                signals.checkpoint.wait(Some(SOON));
            }
            // The sealed memtables are still there. A full disk, or a page that cannot be read, may recover.
            Err(error) => {
                signals.set_room(if full { Room::Stuck(error) } else { Room::Free });
                signals.checkpoint.wait(Some(RETRY));
            }
        }
    }
}

/// Returns the checkpoint that is due: of the sealed memtables, or else a slice of an LSM table, if one is due or there
/// is no room.
fn next_checkpoint(store: &Arc<Store>) -> Result<Option<Checkpoint<'_>>> {
    if let Some(pending) = store.begin_pending_checkpoint()? {
        return Ok(Some(pending));
    }
    match store.begin_compaction()? {
        Some(slice) => Ok(Some(slice)),
        None => store.begin_merging_for_room(),
    }
}

/// Makes a checkpoint, and records for the pacer how long it took. It pauses while it merges and moves pages, while
/// memtables are freed, and while space and files of the log are freed. The steps in between are short, and hold locks
/// that writers may wait for.
fn make(mut checkpoint: Checkpoint<'_>, store: &Arc<Store>, signals: &Arc<Signals>) -> Result<()> {
    let (begun, bytes) = (Instant::now(), checkpoint.merging_bytes());
    let mut paused = Duration::ZERO;
    let mut step_to = |last: Step| -> Result<()> {
        while checkpoint.next_step() <= last {
            checkpoint.step()?;
        }
        Ok(())
    };
    let mut with_pauses = |work: &mut dyn FnMut() -> Result<()>| {
        let (outcome, took) = throttle::throttled(store, signals, work);
        paused += took;
        outcome.map(|()| begun.elapsed() - paused)
    };
    step_to(Step::SyncLog)?;
    let records = with_pauses(&mut || step_to(Step::Compact))?;
    with_pauses(&mut || step_to(Step::PhysicalRows))?;
    step_to(Step::SyncSuperblock)?;
    let worked = with_pauses(&mut || step_to(Step::Switch))?;
    store.note_checkpoint(records.as_nanos() as u64, (worked - records).as_nanos() as u64);
    // The memory is free already; the remaining work takes another flush.
    signals.set_full(store.pressure().is_full());
    step_to(Step::Note)?;
    let worked = with_pauses(&mut || step_to(Step::DropLog))?;
    if bytes > 0 || store.pressure().sealed > 0 {
        signals.pacer.absorbed(bytes, worked);
    }
    Ok(())
}

fn run_log(store: &Arc<Store>, signals: &Arc<Signals>) {
    let mut ticked = Instant::now();
    while !signals.stopping() {
        signals.log.wait(Some(TICK));
        signals.tick(store, &mut ticked);
        ready_log(store, signals);
        while let Some(due) = signals.lazy_sync_due().filter(|_| !signals.stopping()) {
            wait_lazily(store, signals, &mut ticked, due);
            signals.begin_lazy_sync();
            // A failed sync latches; the next write gets the error.
            let _ = store.sync();
        }
    }
}

/// Waits until a lazy sync is `due`, and prepares segments meanwhile. The commits of the interval do not ring: all wait
/// for one sync.
fn wait_lazily(store: &Store, signals: &Signals, ticked: &mut Instant, due: Instant) {
    while !signals.stopping() {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        signals.log.wait(Some(left.min(TICK)));
        signals.tick(store, ticked);
        ready_log(store, signals);
    }
}

/// Prepares a segment if one is due or was asked for. A failure occurs again, for the caller whom it concerns, when the
/// segment is needed.
fn ready_log(store: &Store, signals: &Signals) {
    let _ = match signals.expected_bytes.swap(0, Ordering::SeqCst) {
        0 => store.prepare_log(&|time| {
            // A due sync must not be late, and closing must not wait.
            let has_time = !signals.stopping() && signals.lazy_sync_due().is_none();
            if has_time {
                thread::sleep(time);
            }
            has_time
        }),
        bytes => store.expect_record(bytes),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The log thread may prepare a segment for long before it looks, and the commit waits meanwhile.
    #[test]
    fn the_interval_of_lazy_commits_begins_with_the_first_that_waits() {
        let interval = Duration::from_millis(800);
        let options = store::Options { memory_bytes: 4 << 20, ..Default::default() };
        let store = store::open_or_create(Arc::new(io::MemDir::new()), &options).unwrap();
        let signals = Signals::new(interval, ReaderWatch::default(), store.latencies());
        assert_eq!(signals.lazy_sync_due(), None);
        signals.want_lazy_sync();
        thread::sleep(interval / 2);
        signals.want_lazy_sync();
        thread::sleep(interval / 2);
        let begun = Instant::now();
        let due = signals.lazy_sync_due().expect("two commits wait");
        wait_lazily(&store, &signals, &mut Instant::now(), due);
        assert!(begun.elapsed() < interval / 4, "{:?}", begun.elapsed());
        signals.begin_lazy_sync();
        assert_eq!(signals.lazy_sync_due(), None);
    }
}
