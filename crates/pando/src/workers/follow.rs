//! The thread that keeps a database up to date while another process writes it.

use super::attend;
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

/// The name of the thread.
const NAME: &str = "pando-follow";

/// What the thread works on.
#[derive(Debug)]
enum State {
    /// The store follows the writer.
    Following(Box<Follower>),
    /// The database was closed.
    Stopped,
    /// The thread panicked. What the follower was doing may be half done, so it is not used again.
    Failed(Error),
}

/// A follower, and the thread that makes it catch up.
#[derive(Debug)]
pub(crate) struct Following {
    state: Arc<Mutex<State>>,
    signals: Arc<Signals>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Following {
    pub fn start(follower: Follower, signals: &Arc<Signals>) -> Result<Self> {
        let state = Arc::new(Mutex::new(State::Following(Box::new(follower))));
        let run = {
            let (state, signals) = (Arc::clone(&state), Arc::clone(signals));
            move || {
                if let Err(panic) = attend(NAME, || run(&state, &signals)) {
                    *lock(&state) = State::Failed(panic);
                }
            }
        };
        let thread = thread::Builder::new().name(NAME.to_owned()).spawn(run);
        let thread = thread.map_err(|cause| Error::io(format!("start the thread {NAME}"), cause))?;
        Ok(Following { state, signals: Arc::clone(signals), thread: Mutex::new(Some(thread)) })
    }

    /// Waits until everything is visible that the writer showed when this was called.
    pub fn catch_up(&self) -> Result<()> {
        match &mut *lock(&self.state) {
            State::Following(follower) => follower.catch_up().map(drop),
            State::Stopped => Ok(()),
            State::Failed(panic) => Err(panic.duplicate()),
        }
    }

    /// Ends the thread, and lets the writer free what it kept for this database.
    pub fn stop(&self) {
        self.signals.stop_waiting();
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
        *lock(&self.state) = State::Stopped;
    }

    /// Forgets the thread in a forked child: it has no thread to end, and the files are the parent's.
    pub fn forget(&self) {
        std::mem::forget(lock(&self.thread).take());
        std::mem::forget(std::mem::replace(&mut *lock(&self.state), State::Stopped));
    }
}

fn run(state: &Mutex<State>, signals: &Signals) {
    let (begun, mut ticked, mut wait) = (Instant::now(), Instant::now(), LEAST_WAIT);
    while !signals.wait_to_follow(wait) {
        let State::Following(follower) = &mut *lock(state) else { break };
        let mut step = || {
            let mut result = Ok(());
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                result = follower.tick(begun.elapsed());
            }
            // Whatever the tick met, the log can often be followed.
            let caught_up = follower.catch_up();
            result.and(caught_up)
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
