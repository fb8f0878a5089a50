//! Threads for work that can wait. libuv has four, which the file system and DNS use as well; commits that wait for the
//! same flush need one each.
//!
//! A job goes to a thread that is idle, or to a new one while there are fewer than the most. A thread that was idle for
//! ten seconds ends.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The most threads: as many commits can share a flush. With 64, 100 commits at a time were a twentieth quicker, but a
/// flush woke more threads than a small machine has processors for, and timers of the event loop were 13 to 42 ms late.
const MOST_THREADS: usize = 16;
const IDLE_TIME: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

static STATE: Mutex<State> = Mutex::new(State { jobs: VecDeque::new(), threads: 0, idle: 0 });
static WAKE: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, State> {
    // Jobs catch their panics, and no code below panics.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `job` on some thread, some time.
pub fn run(job: impl FnOnce() + Send + 'static) {
    let mut state = lock();
    state.jobs.push_back(Box::new(job));
    if state.jobs.len() <= state.idle {
        WAKE.notify_one();
    } else if state.threads < MOST_THREADS {
        state.threads += 1;
        drop(state);
        let started = thread::Builder::new().name("pando-node".to_owned()).spawn(work);
        if started.is_err() {
            without_thread();
        }
    }
}

/// No thread could be started. Another one takes the job; without any, it runs here, as a promise must be settled.
#[cold]
fn without_thread() {
    let mut state = lock();
    state.threads -= 1;
    let job = if state.threads == 0 { state.jobs.pop_front() } else { None };
    drop(state);
    if let Some(job) = job {
        job();
    }
}

fn work() {
    let mut state = lock();
    loop {
        if let Some(job) = state.jobs.pop_front() {
            drop(state);
            job();
            state = lock();
            continue;
        }
        state.idle += 1;
        let (woken, waited) = WAKE.wait_timeout(state, IDLE_TIME).unwrap_or_else(PoisonError::into_inner);
        state = woken;
        state.idle -= 1;
        if waited.timed_out() && state.jobs.is_empty() {
            state.threads -= 1;
            return;
        }
    }
}
