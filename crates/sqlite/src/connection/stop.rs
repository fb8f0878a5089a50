//! Stopping statements: interrupts from other threads, and a callback that is called while statements run.

use super::interrupt::{Interrupt, Progress};
use super::{Connection, Error};
use crate::sys;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

impl Connection {
    /// Returns a handle that stops a running statement.
    #[must_use]
    pub fn interrupt_handle(&self) -> Interrupt {
        self.interrupt.clone()
    }

    /// Returns whether an interrupt is in effect, until all running statements have ended.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        // SAFETY: the connection is open.
        unsafe { sys::pando_sqlite3_is_interrupted(self.db.as_ptr()) != 0 }
    }

    /// Ends the effect of an interrupt. A statement that begins while no other one is running also ends it, except for
    /// statements within [`Connection::repeating`].
    ///
    /// ```
    /// # fn main() -> Result<(), pando_sqlite::Error> {
    /// let connection = pando_sqlite::Connection::in_memory()?;
    /// connection.interrupt_handle().interrupt();
    /// connection.forget_interrupt();
    /// assert!(!connection.is_interrupted());
    /// # Ok(())
    /// # }
    /// ```
    pub fn forget_interrupt(&self) {
        // SAFETY: the connection is open.
        unsafe { sys::pando_forget_interrupt(self.db.as_ptr()) };
    }

    /// Sets a callback that is called about every `steps` steps of a running statement, or removes it. After it returns
    /// `true`, or panics, the statement fails with [`Error::is_interrupted`]. A step is an instruction of SQLite's
    /// virtual machine; a scan takes about ten for each row. The callback must not use the connection.
    ///
    /// # Errors
    /// An error if `steps` is 0.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let db = pando::Database::builder().in_memory()?;
    /// let mut connection = pando_sqlite::Connection::open(&db)?;
    /// let mut calls = 0;
    /// connection.set_progress_handler(1000, Some(move || {
    ///     calls += 1;
    ///     calls > 100
    /// }))?;
    /// let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    /// assert!(connection.query(endless).unwrap_err().is_interrupted());
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_progress_handler(
        &mut self,
        steps: u32,
        stop: Option<impl FnMut() -> bool + Send + 'static>,
    ) -> Result<(), Error> {
        if steps == 0 {
            return Err(Error::misuse("a callback is called after at least one step"));
        }
        let steps = c_int::try_from(steps).unwrap_or(c_int::MAX);
        let stop = stop.map(|stop| Box::into_raw(Box::new(Box::new(stop) as Progress)));
        let (callback, context) = match stop {
            Some(context) => (Some(called as sys::Progress), context.cast()),
            None => (None, ptr::null_mut()),
        };
        // SAFETY: the connection is open, and the context lives until another one is set or the connection is closed.
        unsafe { sys::pando_sqlite3_progress_handler(self.db.as_ptr(), steps, callback, context) };
        let before = std::mem::replace(&mut self.progress, stop);
        // SAFETY: SQLite has the new callback, and none is running, because this borrows the connection mutably.
        unsafe { super::free(before) };
        Ok(())
    }
}

/// # Safety
/// SQLite calls it with the context that was set.
unsafe extern "C" fn called(context: *mut c_void) -> c_int {
    // SAFETY: the context is that of `set_progress_handler`. SQLite calls it in the thread that runs a statement of the
    // connection, and the callback runs no statement of that.
    let stop = unsafe { &mut *context.cast::<Progress>() };
    c_int::from(catch_unwind(AssertUnwindSafe(stop)).unwrap_or(true))
}
