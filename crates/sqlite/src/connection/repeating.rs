//! Transactions that run again as a whole.

use super::Connection;
use crate::state::pause;

impl Connection {
    /// Runs `work`, which is one transaction: a statement outside of `BEGIN` with all of its rows, or everything from
    /// `BEGIN` to `COMMIT`. If it ends with a conflict, it runs again, at most 8 times in all. During the last two
    /// attempts other writers wait. Single statements in it are not repeated, and the rows that they return can be
    /// those of an attempt that fails later.
    ///
    /// An interrupt stops `work` even if it arrives between two attempts or two statements: from then on every
    /// statement fails, and so does `ROLLBACK`, unless you call [`Connection::forget_interrupt`] before it.
    ///
    /// Within a transaction, and while another statement of the connection is running, `work` runs only once, because
    /// the rows of that statement would be of another state.
    ///
    /// # Errors
    /// The error of the last attempt.
    ///
    /// ```
    /// # fn main() -> Result<(), pando_sqlite::Error> {
    /// # let db = pando::Database::builder().in_memory().expect("it opens");
    /// let connection = pando_sqlite::Connection::open(&db)?;
    /// connection.execute("CREATE TABLE stock(count)")?;
    /// let insert = || connection.query("INSERT INTO stock VALUES (1) RETURNING rowid");
    /// let rows = connection.repeating(insert, pando_sqlite::Error::is_conflict)?;
    /// assert_eq!(rows, [[pando_sqlite::Value::Integer(1)]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn repeating<T, E>(
        &self,
        mut work: impl FnMut() -> Result<T, E>,
        is_conflict: impl Fn(&E) -> bool,
    ) -> Result<T, E> {
        let can_repeat = !self.is_running() && !self.is_in_transaction();
        let begins = can_repeat
            && self.with_state(|state| !state.is_repeated && state.begin_attempt(0)).unwrap_or(false);
        if !begins {
            return work();
        }
        let _attempts = Attempts(self);
        self.with_state(|state| state.repeats_rows = true);
        // One that arrived before the first statement begins is about nothing, as elsewhere.
        self.forget_interrupt();
        let mut number = 0;
        loop {
            match work() {
                Err(error) if is_conflict(&error) && !self.is_in_transaction() => {
                    number += 1;
                    if self.with_state(|state| state.begin_attempt(number)) != Some(true) {
                        return Err(error);
                    }
                    pause(number);
                }
                done => return done,
            }
        }
    }
}

/// The attempts of a transaction. Dropping it ends them, also after a panic.
struct Attempts<'c>(&'c Connection);

impl Drop for Attempts<'_> {
    fn drop(&mut self) {
        self.0.with_state(|state| {
            state.end_attempts();
            state.repeats_rows = false;
            // If `work` has left a transaction open, its end depends on the program.
            state.lengthen_turn();
        });
    }
}
