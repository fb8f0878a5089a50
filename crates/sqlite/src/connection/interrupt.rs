//! Interrupts from other threads.

use crate::sys::{self, Sqlite3};
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The callback of a connection. It returns whether to stop.
pub(super) type Progress = Box<dyn FnMut() -> bool + Send>;

/// SQLite's handle of a connection, as long as that is open.
#[derive(Debug)]
pub(super) struct Target(Option<NonNull<Sqlite3>>);

// SAFETY: `sqlite3_interrupt` can be called from any thread, and nothing else uses the pointer.
unsafe impl Send for Target {}

/// A handle that stops the running statement of a connection from another thread. It can outlive the connection.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let db = pando::Database::builder().in_memory()?;
/// let connection = pando_sqlite::Connection::open(&db)?;
/// let interrupt = connection.interrupt_handle();
/// let stopping = std::thread::spawn(move || {
///     std::thread::sleep(std::time::Duration::from_millis(50));
///     interrupt.interrupt();
/// });
/// let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
/// assert!(connection.query(endless).unwrap_err().is_interrupted());
/// # stopping.join().unwrap();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Interrupt(Arc<Mutex<Target>>);

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interrupt")
    }
}

fn lock(target: &Mutex<Target>) -> MutexGuard<'_, Target> {
    // It has one field, which is never half changed.
    target.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Interrupt {
    /// Stops the statements that the connection runs at this moment. They fail with
    /// [`Error::is_interrupted`](super::Error::is_interrupted), and what they wrote is undone; if one of them writes
    /// within `BEGIN`, the transaction is rolled back. A commit that has begun runs to its end. If no statement is
    /// running, the call does nothing.
    pub fn interrupt(&self) {
        let target = lock(&self.0);
        if let Some(db) = target.0 {
            // SAFETY: the connection is open: closing it takes the lock of this first.
            unsafe { sys::pando_sqlite3_interrupt(db.as_ptr()) };
        }
    }

    pub(super) fn of(db: NonNull<Sqlite3>) -> Interrupt {
        Interrupt(Arc::new(Mutex::new(Target(Some(db)))))
    }

    /// Returns a call that interrupts the connection, for [`pando::Database::on_close`].
    pub(super) fn on_close(&self) -> Arc<dyn Fn() + Send + Sync> {
        let interrupt = self.clone();
        Arc::new(move || interrupt.interrupt())
    }

    /// Notes that the connection is about to be closed.
    pub(super) fn detach(&self) {
        lock(&self.0).0 = None;
    }
}
