//! The progress of shipping, and the callers that wait for it.

use base::sync::lock;
use base::{Error, ErrorKind, Result};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// What the shipper is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum State {
    /// The shipper is taking the lineage over.
    #[default]
    Starting,
    /// The shipper is shipping.
    Shipping,
    /// A request failed, and the shipper tries it again. [`Status::last_error`] has the error.
    Retrying,
    /// Another writer has taken the lineage over, and shipping has ended.
    Fenced,
    /// Shipping has ended with an error.
    Failed,
    /// Shipping was stopped.
    Stopped,
}

/// The progress of shipping.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Status {
    /// What the shipper is doing.
    pub state: State,
    /// The epoch of this writer; 0 before it has taken over.
    pub epoch: u64,
    /// Whether the bucket has a base. Without one, nothing can be restored from it.
    pub has_base: bool,
    /// The number of the commit through which all commits are in the bucket.
    pub shipped_commit: u64,
    /// The number of the newest commit of the database.
    pub newest_commit: u64,
    /// The number of commits that are not in the bucket yet.
    pub lag_commits: u64,
    /// The number of bytes of changes that were read from the database and are not in the bucket yet.
    pub lag_bytes: u64,
    /// The seconds since the oldest change was read that is not in the bucket yet; 0 if there is none. Before this
    /// writer has taken over, it reads no changes, and this is the time since shipping began.
    pub lag_seconds: f64,
    /// The number of segments that were written.
    pub segments: u64,
    /// The number of bases that were published.
    pub bases: u64,
    /// The number of put requests that were sent, including failed ones.
    pub puts: u64,
    /// The number of bytes of changes in the segments that were written.
    pub change_bytes: u64,
    /// The number of bytes of the segments in the bucket.
    pub segment_bytes: u64,
    /// The number of bytes of the bases in the bucket.
    pub base_bytes: u64,
    /// The text of the last error. It stays after a success.
    pub last_error: Option<String>,
}

impl Status {
    /// Returns the error of the last request while the request is being repeated, or `None` if shipping works or has
    /// ended.
    #[must_use]
    pub fn difficulty(&self) -> Option<&str> {
        self.last_error.as_deref().filter(|_| self.state == State::Retrying)
    }
}

/// Shared by the shipper's thread, its waiters, and those who ask for its status.
#[derive(Debug, Default)]
pub(crate) struct Board {
    inner: Mutex<Inner>,
    changed: Condvar,
    stopping: AtomicBool,
    /// Whether the end is said in the bucket.
    releasing: AtomicBool,
    /// Whether the end is that of the database, which is dropped.
    dropping: AtomicBool,
    /// The newest commit that somebody waits for.
    wanted: AtomicU64,
}

/// Called once, when a commit is in the bucket or never will be.
type Waiter = Box<dyn FnOnce(Result<()>) + Send>;

struct Inner {
    status: Status,
    began: Instant,
    waiting_since: Option<Instant>,
    ended: Option<Error>,
    /// Each with its commit.
    waiters: Vec<(u64, Waiter)>,
}

impl Default for Inner {
    fn default() -> Self {
        let status = Status::default();
        Inner { status, began: Instant::now(), waiting_since: None, ended: None, waiters: Vec::new() }
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { status, ended, waiters, .. } = self;
        let waiters = waiters.len();
        f.debug_struct("Inner")
            .field("status", status)
            .field("ended", ended)
            .field("waiters", &waiters)
            .finish()
    }
}

impl Status {
    /// Returns whether `commit` is in the bucket. Commit 0 is a new database, which is there once it has a base.
    fn has(&self, commit: u64) -> bool {
        self.has_base && commit <= self.shipped_commit
    }
}

impl Inner {
    /// Takes the waiters that can be called now.
    fn take_ready(&mut self) -> Vec<Waiter> {
        let (status, is_over) = (&self.status, self.ended.is_some());
        let ready = self.waiters.extract_if(.., |(commit, _)| is_over || status.has(*commit));
        ready.map(|(_, waiter)| waiter).collect()
    }
}

impl Board {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    pub fn update(&self, change: impl FnOnce(&mut Status)) {
        let ready = {
            let mut inner = self.inner();
            change(&mut inner.status);
            inner.take_ready()
        };
        self.changed.notify_all();
        ready.into_iter().for_each(|waiter| waiter(Ok(())));
    }

    /// Notes how many bytes wait, and since when.
    pub fn set_waiting(&self, bytes: u64, since: Option<Instant>) {
        let mut inner = self.inner();
        inner.status.lag_bytes = bytes;
        inner.waiting_since = since;
    }

    pub fn status(&self, newest: Option<u64>) -> Status {
        let inner = self.inner();
        let mut status = inner.status.clone();
        status.newest_commit = newest.unwrap_or(status.newest_commit).max(status.shipped_commit);
        status.lag_commits = status.newest_commit - status.shipped_commit;
        let has_begun = status.epoch > 0 || inner.ended.is_some();
        let since = inner.waiting_since.or((!has_begun).then_some(inner.began));
        status.lag_seconds = since.map_or(0.0, |since| since.elapsed().as_secs_f64());
        status
    }

    /// Ends everything with `error`; `None` if it was stopped.
    pub fn end(&self, error: Option<Error>) {
        let mut inner = self.inner();
        inner.status.state = match &error {
            None => State::Stopped,
            Some(error) if error.kind() == ErrorKind::Fenced => State::Fenced,
            Some(_) => State::Failed,
        };
        if let Some(error) = &error {
            inner.status.last_error = Some(error.to_string());
        }
        let stopped = || Error::new(ErrorKind::Closed, "shipping was stopped");
        let error = error.unwrap_or_else(stopped);
        inner.ended = Some(error.duplicate());
        let ready = inner.take_ready();
        drop(inner);
        self.changed.notify_all();
        ready.into_iter().for_each(|waiter| waiter(Err(error.duplicate())));
    }

    /// Calls `waiter` when `commit` is in the bucket, or never will be.
    pub fn when_shipped(&self, commit: u64, waiter: Waiter) {
        self.wanted.fetch_max(commit, Ordering::SeqCst);
        let outcome = {
            let mut inner = self.inner();
            let has = inner.status.has(commit);
            if !has && inner.ended.is_none() {
                inner.waiters.push((commit, waiter));
                return;
            }
            match &inner.ended {
                Some(error) if !has => Err(error.duplicate()),
                _ => Ok(()),
            }
        };
        waiter(outcome);
    }

    /// Returns the error with which shipping ended, if it has ended.
    pub fn ended(&self) -> Option<Error> {
        self.inner().ended.as_ref().map(Error::duplicate)
    }

    /// Asks shipping to stop, and wakes it. [`Board::sleep`] looks at the flag under the lock, so the flag is set under
    /// it: between that look and the wait there is no stop that the wait would miss.
    pub fn stop(&self) {
        let _inner = self.inner();
        self.stopping.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }

    pub fn release(&self) {
        self.releasing.store(true, Ordering::SeqCst);
        self.stop();
    }

    pub fn drop_database(&self) {
        self.dropping.store(true, Ordering::SeqCst);
        self.stop();
    }

    pub fn is_dropping(&self) -> bool {
        self.dropping.load(Ordering::SeqCst)
    }

    pub fn is_releasing(&self) -> bool {
        self.releasing.load(Ordering::SeqCst)
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    pub fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::SeqCst)
    }

    /// Waits until `commit` is in the bucket, or `until`; `false` if that came first.
    pub fn wait(&self, commit: u64, until: Option<Instant>) -> Result<bool> {
        self.wanted.fetch_max(commit, Ordering::SeqCst);
        let mut inner = self.inner();
        loop {
            if inner.status.has(commit) {
                return Ok(true);
            }
            if let Some(error) = &inner.ended {
                return Err(error.duplicate());
            }
            // A second at most, as a safety net.
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(false);
            }
            let pause = left.unwrap_or(Duration::MAX).min(Duration::from_secs(1));
            inner = self.changed.wait_timeout(inner, pause).unwrap_or_else(|error| error.into_inner()).0;
        }
    }

    /// Sleeps for `pause`, or until shipping is stopped.
    pub fn sleep(&self, pause: Duration) {
        let until = Instant::now() + pause;
        let mut inner = self.inner();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.is_stopping() {
                return;
            }
            inner = self.changed.wait_timeout(inner, left).unwrap_or_else(|error| error.into_inner()).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sleep looks at the flag and begins to wait under the lock. A stop that did not take it could come in between,
    /// and wake nothing.
    #[test]
    fn a_stop_waits_for_a_sleep_that_is_about_to_begin() {
        let board = Board::default();
        std::thread::scope(|scope| {
            let inner = board.inner();
            let stopper = scope.spawn(|| board.stop());
            std::thread::sleep(Duration::from_millis(100));
            assert!(!board.is_stopping(), "it stopped between the look and the wait");
            drop(inner);
            stopper.join().unwrap();
        });
        board.sleep(Duration::from_secs(3600));
    }
}
