//! The two threads of an open database.
//!
//! * *checkpoint* merges sealed memtables when it is told that there are some;
//! * *log* readies the next segment before it is needed and syncs `Lazy` commits within their interval.
//!
//! Each sleeps until rung; an idle database uses no processor. Both are joined when the database closes.

use base::{ErrorKind, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use store::Store;

/// How long a checkpoint that found the disk full waits before it tries again.
const RETRY_FULL: Duration = Duration::from_millis(500);

/// Wakes a sleeper: rung any number of times before the sleeper looks, it wakes once.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    pub fn ring(&self) {
        *base::sync::lock(&self.rung) = true;
        self.changed.notify_all();
    }

    /// Returns when the bell was rung, or after `at_most`.
    fn wait(&self, at_most: Option<Duration>) {
        let mut rung = base::sync::lock(&self.rung);
        while !*rung {
            match at_most {
                None => rung = self.changed.wait(rung).unwrap_or_else(|poisoned| poisoned.into_inner()),
                Some(limit) => {
                    let waited = self.changed.wait_timeout(rung, limit);
                    rung = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
                    break;
                }
            }
        }
        *rung = false;
    }
}

/// What workers and callers tell each other.
#[derive(Debug)]
pub(crate) struct Signals {
    /// Rung when a memtable was sealed.
    pub checkpoint: Bell,
    /// Rung when the log wants its next segment, or a lazy commit waits for its sync.
    pub log: Bell,
    /// Set by a `Lazy` commit, taken by the log thread.
    pub lazy_waits: AtomicBool,
    /// The memtables are at their limit: writers wait at [`Signals::wait_for_room`].
    full: Mutex<bool>,
    room: Condvar,
    /// A copy of `full` that the commit path reads without the lock.
    is_full: AtomicBool,
    stop: AtomicBool,
    lazy_interval: Duration,
}

impl Signals {
    pub fn new(lazy_interval: Duration) -> Self {
        Signals {
            checkpoint: Bell::default(),
            log: Bell::default(),
            lazy_waits: AtomicBool::new(false),
            full: Mutex::new(false),
            room: Condvar::new(),
            is_full: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            lazy_interval,
        }
    }

    /// Notes whether the memtables are at their limit.
    pub fn set_full(&self, full: bool) {
        let mut guarded = base::sync::lock(&self.full);
        *guarded = full;
        self.is_full.store(full, Ordering::SeqCst);
        self.room.notify_all();
    }

    /// Waits while the memtables are at their limit. One atomic load when they are not.
    #[inline]
    pub fn wait_for_room(&self) {
        if self.is_full.load(Ordering::SeqCst) {
            self.wait_until_room();
        }
    }

    #[cold]
    fn wait_until_room(&self) {
        let mut full = base::sync::lock(&self.full);
        while *full && !self.stopping() {
            full = self.room.wait(full).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

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

    fn spawn(&mut self, name: &str, store: &Arc<Store>, run: fn(&Store, &Signals)) -> Result<()> {
        let (store, signals) = (Arc::clone(store), Arc::clone(&self.signals));
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || run(&store, &signals));
        self.threads
            .push(thread.map_err(|cause| base::Error::io(format!("start the thread {name}"), cause))?);
        Ok(())
    }
}

impl Drop for Workers {
    /// Stops the threads and waits for them: a checkpoint under way is finished first.
    fn drop(&mut self) {
        self.signals.stop.store(true, Ordering::SeqCst);
        self.signals.checkpoint.ring();
        self.signals.log.ring();
        self.signals.set_full(false);
        for thread in self.threads.drain(..) {
            // A worker that panicked has said so on stderr; closing goes on.
            let _ = thread.join();
        }
    }
}

fn run_checkpoints(store: &Store, signals: &Signals) {
    while !signals.stopping() {
        let result = store.begin_pending_checkpoint().and_then(|pending| match pending {
            Some(checkpoint) => checkpoint.finish().map(|()| true),
            None => Ok(false),
        });
        signals.set_full(result.is_ok() && store.pressure().is_full());
        match result {
            Ok(true) => {}
            Ok(false) => signals.checkpoint.wait(None),
            // Writers are let through meanwhile: they get `Full` themselves where it concerns them.
            Err(error) if error.kind() == ErrorKind::Full => signals.checkpoint.wait(Some(RETRY_FULL)),
            // Latched or closed: whoever writes is told so. There is nothing left to do here.
            Err(_) => break,
        }
    }
}

fn run_log(store: &Store, signals: &Signals) {
    while !signals.stopping() {
        signals.log.wait(None);
        // A failure to ready a segment shows again, to the caller whom it concerns, when the segment is needed.
        let _ = store.prepare_log();
        while signals.lazy_waits.swap(false, Ordering::SeqCst) && !signals.stopping() {
            signals.log.wait(Some(signals.lazy_interval));
            // A failed sync latches; whoever writes next is told.
            let _ = store.sync();
            let _ = store.prepare_log();
        }
    }
}
