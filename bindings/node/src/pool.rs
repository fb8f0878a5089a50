//! Threads for work that can wait. libuv has four, which the file system and DNS use as well; commits that wait for the
//! same flush need one each.
//!
//! 1. A job goes to a thread that is idle, or to a new one. A thread that was idle for ten seconds ends.
//! 2. So many jobs run at a time, and the others wait for one of them: [`MOST_JOBS`].
//! 3. An urgent job never waits. It belongs to something for which running jobs may wait, such as a transaction of SQL
//!    that keeps other writers out: its COMMIT would wait for them, and they for it. There is at most one for each such
//!    transaction, as the calls of a connection follow one another.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The most jobs at a time that are not urgent: as many commits can share a flush. With 64, 100 commits at a time were
/// a twentieth quicker, but a flush woke more threads than a small machine has processors for, and timers of the event
/// loop were 13 to 42 ms late.
const MOST_JOBS: usize = 16;
const IDLE_TIME: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// Whether a job may wait for others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    Usual,
    Urgent,
}

struct State {
    urgent: VecDeque<Job>,
    usual: VecDeque<Job>,
    /// How many usual jobs run.
    running: usize,
    threads: usize,
    /// How many of the threads have no job: they wait, or have just been started.
    idle: usize,
}

impl State {
    /// How many of the waiting jobs can run now.
    fn ready(&self) -> usize {
        self.urgent.len() + self.usual.len().min(MOST_JOBS.saturating_sub(self.running))
    }

    /// Takes the next job that can run.
    fn take(&mut self) -> Option<(Urgency, Job)> {
        if let Some(job) = self.urgent.pop_front() {
            return Some((Urgency::Urgent, job));
        }
        if self.running >= MOST_JOBS {
            return None;
        }
        let job = self.usual.pop_front()?;
        self.running += 1;
        Some((Urgency::Usual, job))
    }

    /// Notes the end of a job.
    fn end(&mut self, urgency: Urgency) {
        if urgency == Urgency::Usual {
            self.running -= 1;
        }
    }
}

static STATE: Mutex<State> =
    Mutex::new(State { urgent: VecDeque::new(), usual: VecDeque::new(), running: 0, threads: 0, idle: 0 });
static WAKE: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, State> {
    // Jobs catch their panics, and no code below panics.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `job` on some thread, some time; at once if it is urgent.
pub fn run(urgency: Urgency, job: impl FnOnce() + Send + 'static) {
    let mut state = lock();
    match urgency {
        Urgency::Usual => state.usual.push_back(Box::new(job)),
        Urgency::Urgent => state.urgent.push_back(Box::new(job)),
    }
    if state.ready() <= state.idle {
        WAKE.notify_one();
    } else {
        state.threads += 1;
        state.idle += 1;
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
    state.idle -= 1;
    let taken = if state.threads == 0 { state.take() } else { None };
    drop(state);
    if let Some((urgency, job)) = taken {
        job();
        lock().end(urgency);
    }
}

fn work() {
    let mut state = lock();
    let mut is_over = false;
    loop {
        if let Some((urgency, job)) = state.take() {
            state.idle -= 1;
            drop(state);
            job();
            state = lock();
            state.end(urgency);
            state.idle += 1;
        } else if is_over {
            state.threads -= 1;
            state.idle -= 1;
            return;
        }
        if state.ready() > 0 {
            continue;
        }
        let (woken, waited) = WAKE.wait_timeout(state, IDLE_TIME).unwrap_or_else(PoisonError::into_inner);
        state = woken;
        is_over = waited.timed_out();
    }
}
