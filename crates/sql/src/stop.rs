//! Stopping a statement that runs, whichever thread works for it.
//!
//! 1. While SQLite is, it asks: after so many steps ([`Connection::ask`]), and whether it was interrupted.
//! 2. A statement that is several to SQLite, and one that is none, such as `CREATE INDEX`, asks the same of
//!    [`Connection::go_on`]: between its parts, or every thousand rows.

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::vtab;
use std::sync::{Arc, Mutex, PoisonError};

/// Answers whether to stop.
pub(crate) type Stop = Box<dyn FnMut() -> bool + Send>;

/// Who is asked.
#[derive(Clone, Default)]
pub(crate) struct Asked(Arc<Mutex<Option<Stop>>>);

impl Asked {
    fn is_over(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut().is_some_and(|stop| stop())
    }
}

/// The version of SQLite from which on it can be asked whether it was interrupted.
const TELLS_INTERRUPTS: i32 = 3_041_000;

impl Connection {
    /// Has `stop` asked, and by SQLite every `steps` steps.
    pub(crate) fn ask(&mut self, steps: i32, stop: Option<Stop>) -> Result<()> {
        let is_asked = stop.is_some();
        *self.asked.0.lock().unwrap_or_else(PoisonError::into_inner) = stop;
        let asked = self.asked.clone();
        Ok(self.sqlite.progress_handler(steps, is_asked.then_some(move || asked.is_over()))?)
    }

    /// That nobody wants the statement stopped.
    pub(crate) fn go_on(&self) -> Result<()> {
        let can_tell = vtab::version_number() >= TELLS_INTERRUPTS;
        if self.asked.is_over() || can_tell && self.sqlite.is_interrupted() {
            return Err(Error::interrupted());
        }
        Ok(())
    }

    /// Forgets an interrupt from before: SQLite does when a statement begins, and what calls this is none to SQLite.
    pub(crate) fn begin_uninterrupted(&self) -> Result<()> {
        Ok(self.host.execute(c"SELECT 1")?)
    }
}
