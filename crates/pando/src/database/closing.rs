//! Closing a database, and the calls that are made when it is closed.

use super::{Database, Shared};
use base::Result;
use base::sync::lock;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};

/// A call that is made when a database is closed.
type Call = dyn Fn() + Send + Sync;

/// The calls that are made when a database is closed.
#[derive(Default)]
pub(super) struct OnClose(Mutex<Vec<Weak<Call>>>);

impl fmt::Debug for OnClose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OnClose({})", lock(&self.0).len())
    }
}

impl Database {
    /// Calls `call` once when the database is closed, to stop work in other threads that would notice the closing only
    /// at their next call to the database. At that time the database is already closed, and another process may have
    /// opened its directory. The database keeps only a weak reference: if you drop the last `Arc` before, nothing is
    /// called. O(registered calls), amortised.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// # fn main() -> pando::Result<()> {
    /// let db = pando::Database::builder().in_memory()?;
    /// let is_closed = Arc::new(AtomicBool::new(false));
    /// let noted = Arc::clone(&is_closed);
    /// let call: Arc<dyn Fn() + Send + Sync> = Arc::new(move || noted.store(true, Ordering::SeqCst));
    /// db.on_close(&call);
    /// db.close()?;
    /// assert!(is_closed.load(Ordering::SeqCst));
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_close(&self, call: &Arc<dyn Fn() + Send + Sync>) {
        let mut calls = lock(&self.shared.on_close.0);
        // Those of the past are removed when the list would grow.
        if calls.len() == calls.capacity() {
            calls.retain(|call| call.strong_count() > 0);
            let live = calls.len();
            calls.reserve(live + 1);
        }
        calls.push(Arc::downgrade(call));
    }

    /// Returns whether [`Database::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.shared.store.is_closed()
    }

    /// Returns an error in the child of a fork, which must not use a database of its parent. Every call that reads or
    /// writes makes this check. It costs a load and a comparison.
    ///
    /// # Errors
    /// `Forked`, also if the database is closed.
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        self.shared.store.check_process()
    }

    /// Syncs the log, stops the worker threads and unlocks the directory. Every later call on any handle fails with
    /// `Closed`. SQL statements that run in other threads are stopped, and commits that wait for a
    /// [`CommitHold`](crate::CommitHold) fail. Open snapshots stay readable until the directory is opened for writing
    /// again: the new writer may reuse pages that they need, and then their reads fail with `Closed`, too. A second
    /// call has the same result as the first.
    ///
    /// # Errors
    /// `Invalid` if a function that [`Database::check_all`] calls makes this call: the database then stays open. Errors
    /// of the last sync.
    pub fn close(&self) -> Result<()> {
        self.shared.close()
    }
}

impl Shared {
    fn close(&self) -> Result<()> {
        if let Err(forked) = self.store.check_process() {
            // The threads belong to the parent process; a forked child has none to stop or to wait for.
            std::mem::forget(lock(&self.workers).take());
            self.following.as_ref().inspect(|following| following.forget());
            return Err(forked);
        }
        self.store.check_may_close()?;
        self.following.as_ref().inspect(|following| following.stop());
        // The threads end without the lock: one of them may close the database in a function of the program.
        let workers = lock(&self.workers).take();
        drop(workers);
        let closed = self.store.close();
        self.gate.end();
        let calls = std::mem::take(&mut *lock(&self.on_close.0));
        calls.iter().filter_map(Weak::upgrade).for_each(|call| call());
        closed
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Nobody can receive the error here; call `close` to get it.
        let _ = self.close();
    }
}
