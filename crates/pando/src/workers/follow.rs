//! The thread that keeps a database up to date while another process writes it.

use super::signals::Signals;
use base::sync::lock;
use base::{Error, Result};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use store::Follower;

/// The wait after a look that found something new, and the longest wait when nothing happens. Each look is a system
/// call.
const LEAST_WAIT: Duration = Duration::from_millis(1);
const MOST_WAIT: Duration = Duration::from_millis(8);
/// The interval at which the thread checks whether its slot was taken away, and the wait after an error.
const TICK: Duration = Duration::from_millis(100);

/// A follower, and the thread that makes it catch up.
#[derive(Debug)]
pub(crate) struct Following {
    follower: Arc<Mutex<Option<Follower>>>,
    signals: Arc<Signals>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Following {
    pub fn start(follower: Follower, signals: &Arc<Signals>) -> Result<Self> {
        let follower = Arc::new(Mutex::new(Some(follower)));
        let run = {
            let (follower, signals) = (Arc::clone(&follower), Arc::clone(signals));
            move || run(&follower, &signals)
        };
        let thread = thread::Builder::new().name("pando-follow".to_owned()).spawn(run);
        let thread = thread.map_err(|cause| Error::io("start the thread pando-follow", cause))?;
        Ok(Following { follower, signals: Arc::clone(signals), thread: Mutex::new(Some(thread)) })
    }

    /// Waits until everything is visible that the writer showed when this was called.
    pub fn catch_up(&self) -> Result<()> {
        match &mut *lock(&self.follower) {
            Some(follower) => follower.catch_up().map(drop),
            None => Ok(()),
        }
    }

    /// Ends the thread, and lets the writer free what it kept for this database.
    pub fn stop(&self) {
        self.signals.stop_waiting();
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
        drop(lock(&self.follower).take());
    }

    /// Forgets the thread in a forked child: it has no thread to end, and the files are the parent's.
    pub fn forget(&self) {
        std::mem::forget(lock(&self.thread).take());
        std::mem::forget(lock(&self.follower).take());
    }
}

fn run(follower: &Mutex<Option<Follower>>, signals: &Signals) {
    let (begun, mut ticked, mut wait) = (Instant::now(), Instant::now(), LEAST_WAIT);
    while !signals.wait_to_follow(wait) {
        let mut follower = lock(follower);
        let Some(follower) = &mut *follower else { break };
        let mut step = || {
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                follower.tick(begun.elapsed())?;
            }
            follower.catch_up()
        };
        // After an error the visible state stays as it was, and `Database::catch_up` returns the error.
        wait = match step() {
            Ok(true) => LEAST_WAIT,
            Ok(false) if follower.is_alone() => TICK,
            Ok(false) => (wait * 2).min(MOST_WAIT),
            Err(_) => TICK,
        };
    }
}
