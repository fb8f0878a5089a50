//! A bounded number of threads for work that may wait for the disk or for other threads.
//!
//! A job goes to a thread that is idle, or to a new one while there are fewer than the most, or waits in a queue. A
//! thread that was idle for ten seconds ends, and all end when the pool is dropped, after the jobs in the queue.

use base::sync::lock;
use futures_channel::oneshot::{self, Receiver, Sender};
use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

const IDLE_TIME: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    most_threads: usize,
}

/// The handle of a pool; see the module.
pub(super) struct Pool(Arc<Shared>);

/// The result of a job, as a future. A panic of the job continues in the task that polls this.
#[must_use = "a future does nothing unless it is polled"]
pub(super) struct Work<T>(Receiver<Result<T, Box<dyn Any + Send>>>);

impl<T> Future for Work<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(context).map(|done| {
            match done.expect("the pool runs every job that is awaited") {
                Ok(result) => result,
                Err(panicked) => panic::resume_unwind(panicked),
            }
        })
    }
}

impl Pool {
    pub fn new(most_threads: usize) -> Self {
        Pool(Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), most_threads }))
    }

    /// Returns the result of `work`, which runs on a thread of the pool. If the future is dropped before a thread has
    /// begun, `work` is dropped, too; after that it is finished, and its result is dropped.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Work<T> {
        let (sender, receiver): (Sender<Result<T, _>>, _) = oneshot::channel();
        self.spawn(move || {
            if !sender.is_canceled() {
                drop(sender.send(panic::catch_unwind(AssertUnwindSafe(work))));
            }
        });
        Work(receiver)
    }

    /// Runs `job` on a thread of the pool.
    pub fn spawn(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = lock(&self.0.state);
        state.jobs.push_back(Box::new(job));
        if state.jobs.len() <= state.idle {
            drop(state);
            self.0.changed.notify_one();
        } else if state.threads < self.0.most_threads {
            state.threads += 1;
            drop(state);
            let shared = Arc::clone(&self.0);
            let started = thread::Builder::new().name("pando-aio".to_owned()).spawn(move || shared.work());
            if started.is_err() {
                self.0.without_thread();
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        lock(&self.0.state).closed = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    /// No thread could be started. Another one takes the job; without any, it runs here, as it must be done.
    #[cold]
    fn without_thread(&self) {
        let mut state = lock(&self.state);
        state.threads -= 1;
        let job = if state.threads == 0 { state.jobs.pop_front() } else { None };
        drop(state);
        if let Some(job) = job {
            job();
        }
    }

    fn work(&self) {
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                // A panic was printed, and the job's future learns of it. Other jobs need the thread.
                let _ = panic::catch_unwind(AssertUnwindSafe(job));
                state = lock(&self.state);
                continue;
            }
            if state.closed {
                state.threads -= 1;
                return;
            }
            state.idle += 1;
            let waited = self.changed.wait_timeout(state, IDLE_TIME).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            state.idle -= 1;
            if waited.1.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("most_threads", &self.0.most_threads).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Work<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").finish_non_exhaustive()
    }
}
