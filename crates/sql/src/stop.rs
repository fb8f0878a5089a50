//! Stops a running statement, in whichever part of the code it runs.
//!
//! 1. While SQLite runs, it calls the callback after a number of steps ([`Connection::ask`]), and checks for
//!    interrupts.
//! 2. A statement that SQLite runs as several, and one that it does not run, such as `CREATE INDEX`, calls
//!    [`Connection::go_on`] for the same checks: between its parts, or every thousand rows.

use crate::connection::Connection;
use crate::error::Result;
use crate::machine;
use crate::vtab;
use std::sync::{Arc, Mutex, PoisonError};

/// A callback that returns whether to stop.
pub(crate) type Stop = Box<dyn FnMut() -> bool + Send>;

/// The registered callback.
#[derive(Clone, Default)]
pub(crate) struct Asked(Arc<Mutex<Option<Stop>>>);

impl Asked {
    fn is_over(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut().is_some_and(|stop| stop())
    }
}

/// The first version of SQLite that reports whether it was interrupted.
pub(crate) const TELLS_INTERRUPTS: i32 = 3_041_000;

impl Connection {
    /// Registers `stop`, which SQLite calls every `steps` steps.
    pub(crate) fn ask(&mut self, steps: i32, stop: Option<Stop>) -> Result<()> {
        let is_asked = stop.is_some();
        *self.asked.0.lock().unwrap_or_else(PoisonError::into_inner) = stop;
        let asked = self.asked.clone();
        machine::on_progress(&mut self.sqlite, steps, is_asked.then_some(move || asked.is_over()))
    }

    /// Checks that the statement should continue.
    pub(crate) fn go_on(&self) -> Result<()> {
        let can_tell = vtab::version_number() >= TELLS_INTERRUPTS;
        if self.asked.is_over() || can_tell && self.sqlite.is_interrupted() {
            return Err(self.host.stopped().into());
        }
        Ok(())
    }

    /// Clears an earlier interrupt. SQLite does so when a statement begins, but the caller is not a statement of
    /// SQLite.
    pub(crate) fn begin_uninterrupted(&self) -> Result<()> {
        Ok(self.host.execute(c"SELECT 1")?)
    }
}
