//! Prepared statements that a connection keeps for their next use. A program repeats few statements, and preparing one
//! takes longer than a look-up by it.

use super::{Connection, Error, Statement};
use crate::sys::{self, Stmt};
use std::ptr::NonNull;

/// How many statements are kept.
const MOST: usize = 32;

impl Connection {
    /// Prepares the only statement of `sql`, or takes it from a cache of the 32 statements that were last prepared by
    /// this call. Its parameters are `NULL`.
    ///
    /// # Errors
    /// Those of [`Connection::prepare`]; an error if there is a second statement.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use pando_sqlite::{Connection, Value};
    /// let connection = Connection::in_memory()?;
    /// connection.execute("CREATE TABLE fruit(name)")?;
    /// for name in ["apple", "plum"] {
    ///     let mut insert = connection.prepare_kept("INSERT INTO fruit VALUES (?)")?;
    ///     insert.bind(1, &Value::Text(name.into()))?;
    ///     insert.step()?;
    /// }
    /// # assert_eq!(connection.query("SELECT count(*) FROM fruit")?, [[Value::Integer(2)]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn prepare_kept(&self, sql: &str) -> Result<Statement<'_>, Error> {
        let mut kept = self.kept.borrow_mut();
        if let Some(at) = kept.0.iter().rposition(|(text, _)| **text == *sql)
            && let Some((text, statement)) = kept.0.remove(at)
        {
            return Ok(Statement::kept(self, statement, text));
        }
        drop(kept);
        Ok(self.prepare_only(sql)?.keep_as(sql))
    }

    /// Frees the statements in the cache of [`Connection::prepare_kept`].
    pub fn flush_statements(&self) {
        for (_, statement) in self.kept.take().0 {
            finalize(statement);
        }
    }

    /// Keeps a statement that is not in use.
    pub(super) fn keep(&self, text: Box<str>, statement: NonNull<Stmt>) {
        let mut kept = self.kept.borrow_mut();
        kept.0.push_back((text, statement));
        let oldest = if kept.0.len() > MOST { kept.0.pop_front() } else { None };
        drop(kept);
        if let Some((_, statement)) = oldest {
            finalize(statement);
        }
    }
}

/// Frees a statement that was kept, and that nothing else knows.
fn finalize(statement: NonNull<Stmt>) {
    // SAFETY: the statement is prepared, its connection is open, and this is its last use.
    unsafe { sys::pando_sqlite3_finalize(statement.as_ptr()) };
}
