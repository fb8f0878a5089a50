//! Parameters that SQLite reads where they lie, for as long as a statement runs.

use super::{Running, Statement, UTF8};
use crate::connection::{Error, ValueRef};
use crate::failure::OK;
use crate::sys;
use std::ffi::c_int;

/// SQLite neither copies nor frees a parameter's bytes.
const STATIC: isize = 0;

/// A statement to which borrowed values are bound: see [`Statement::with_bound`].
#[derive(Debug)]
pub struct Bound<'s, 'c>(&'s mut Statement<'c>);

impl Bound<'_, '_> {
    /// Runs the statement row by row, as [`Statement::run`] does.
    pub fn run(&mut self) -> Running<'_> {
        self.0.run()
    }
}

impl Drop for Bound<'_, '_> {
    fn drop(&mut self) {
        // It has ended, unless the value that runs it was leaked, or binding failed because it was running.
        if self.0.is_running() {
            self.0.end();
        }
        self.0.clear_bindings();
    }
}

impl<'c> Statement<'c> {
    /// Binds borrowed values to the first parameters, calls `work`, and unbinds them. Unlike [`Statement::bind_ref`],
    /// it does not make SQLite copy texts and blobs. `work` may run the statement several times.
    ///
    /// # Errors
    /// An error if there are fewer parameters than values, or if the statement is running.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use pando_sqlite::{Connection, Value, ValueRef};
    /// let connection = Connection::in_memory()?;
    /// connection.execute("CREATE TABLE fruit(name TEXT)")?;
    /// let mut insert = connection.prepare("INSERT INTO fruit VALUES (?)")?;
    /// for name in "apple lemon plum".split(' ') {
    ///     let name = ValueRef::Text(name.as_bytes());
    ///     insert.with_bound([name], |insert| insert.run().next().map(drop))??;
    /// }
    /// assert_eq!(connection.query("SELECT max(name) FROM fruit")?, [[Value::Text("plum".into())]]);
    /// # Ok(())
    /// # }
    /// ```
    // `work` cannot take the statement out of the `Bound`, and the `Bound` is dropped here: no bytes are bound for
    // longer than they are borrowed.
    pub fn with_bound<'v, T>(
        &mut self,
        values: impl IntoIterator<Item = ValueRef<'v>>,
        work: impl FnOnce(&mut Bound<'_, 'c>) -> T,
    ) -> Result<T, Error> {
        let mut bound = Bound(self);
        for (at, value) in values.into_iter().enumerate() {
            bound.0.bind_static(at + 1, value)?;
        }
        Ok(work(&mut bound))
    }

    /// Binds a value to a parameter, counted from 1. SQLite uses its bytes until the parameter is bound anew.
    fn bind_static(&mut self, at: usize, value: ValueRef<'_>) -> Result<(), Error> {
        let bytes = match value {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
            other => return self.bind_ref(at, other),
        };
        let at = c_int::try_from(at).map_err(|_| Error::misuse("no such parameter"))?;
        let (statement, start, len) = (self.statement.as_ptr(), bytes.as_ptr(), bytes.len() as u64);
        // SAFETY: the statement is prepared. Its only caller, `with_bound`, ends it and unbinds the bytes while they
        // are still borrowed, also after a panic or an error: `Bound` does that when it is dropped.
        let code = unsafe {
            match value {
                ValueRef::Text(_) => {
                    sys::pando_sqlite3_bind_text64(statement, at, start.cast(), len, STATIC, UTF8)
                }
                _ => sys::pando_sqlite3_bind_blob64(statement, at, start.cast(), len, STATIC),
            }
        };
        if code == OK { Ok(()) } else { Err(self.connection.error(code)) }
    }
}
