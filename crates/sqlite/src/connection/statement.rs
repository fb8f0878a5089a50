//! Prepared statements.

use super::{Connection, Error, Value, misuse};
use crate::failure::{DONE, OK, ROW};
use crate::sys::{self, Stmt};
use std::ffi::{CStr, c_char, c_int};
use std::ptr::{self, NonNull};

/// SQLite copies a parameter's bytes.
const TRANSIENT: isize = -1;
const UTF8: u8 = 1;

/// A prepared statement.
#[derive(Debug)]
pub struct Statement<'c> {
    connection: &'c Connection,
    statement: NonNull<Stmt>,
}

impl<'c> Statement<'c> {
    /// Prepares the first statement of `sql`, and returns it with the text after it.
    pub(super) fn prepare<'s>(
        connection: &'c Connection,
        sql: &'s str,
    ) -> Result<(Option<Statement<'c>>, &'s str), Error> {
        let bytes = c_int::try_from(sql.len()).map_err(|_| misuse("the text is too long"))?;
        let (mut statement, mut tail) = (ptr::null_mut(), ptr::null());
        let start = sql.as_ptr().cast::<c_char>();
        // SAFETY: the connection is open, and the text has so many bytes.
        let code = unsafe {
            sys::pando_sqlite3_prepare_v2(
                connection.db.as_ptr(),
                start,
                bytes,
                &raw mut statement,
                &raw mut tail,
            )
        };
        if code != OK {
            return Err(connection.error(code));
        }
        // SAFETY: SQLite returns a place within the text.
        let used = usize::try_from(unsafe { tail.offset_from(start) }).unwrap_or(sql.len());
        let prepared = NonNull::new(statement).map(|statement| Statement { connection, statement });
        // A comment is no statement, and more may come after it.
        match prepared {
            None if used < sql.len() && used > 0 => Statement::prepare(connection, &sql[used..]),
            prepared => Ok((prepared, &sql[used..])),
        }
    }

    /// Binds a value to a parameter, counted from 1.
    ///
    /// # Errors
    /// There is no such parameter, or the statement is running.
    pub fn bind(&mut self, at: usize, value: &Value) -> Result<(), Error> {
        let at = c_int::try_from(at).map_err(|_| misuse("no such parameter"))?;
        let statement = self.statement.as_ptr();
        // SAFETY: the statement is prepared, and SQLite copies the bytes.
        let code = unsafe {
            match value {
                Value::Null => sys::pando_sqlite3_bind_null(statement, at),
                Value::Integer(value) => sys::pando_sqlite3_bind_int64(statement, at, *value),
                Value::Real(value) => sys::pando_sqlite3_bind_double(statement, at, *value),
                Value::Text(text) => sys::pando_sqlite3_bind_text64(
                    statement,
                    at,
                    text.as_ptr().cast(),
                    text.len() as u64,
                    TRANSIENT,
                    UTF8,
                ),
                Value::Blob(bytes) => sys::pando_sqlite3_bind_blob64(
                    statement,
                    at,
                    bytes.as_ptr().cast(),
                    bytes.len() as u64,
                    TRANSIENT,
                ),
            }
        };
        if code == OK { Ok(()) } else { Err(self.connection.error(code)) }
    }

    /// Runs the statement up to its next row. Returns whether there is one.
    ///
    /// # Errors
    /// Those of the statement. It is reset then.
    pub fn step(&mut self) -> Result<bool, Error> {
        // SAFETY: the statement is prepared.
        match unsafe { sys::pando_sqlite3_step(self.statement.as_ptr()) } {
            ROW => Ok(true),
            DONE => {
                self.reset();
                Ok(false)
            }
            code => {
                let error = self.connection.error(code);
                self.reset();
                Err(error)
            }
        }
    }

    /// Ends the statement, so that it can run again.
    pub fn reset(&mut self) {
        // SAFETY: the statement is prepared. The code repeats what the last step returned.
        unsafe { sys::pando_sqlite3_reset(self.statement.as_ptr()) };
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        // SAFETY: the statement is prepared.
        unsafe { sys::pando_sqlite3_column_count(self.statement.as_ptr()) as usize }
    }

    /// Returns the name of a column, counted from 0.
    #[must_use]
    pub fn name(&self, at: usize) -> Option<String> {
        // SAFETY: the statement is prepared; SQLite checks the number, and a name is a string of C.
        unsafe {
            let name = sys::pando_sqlite3_column_name(self.statement.as_ptr(), c_int::try_from(at).ok()?);
            (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
        }
    }

    /// Returns a value of the current row, counted from 0. It is `NULL` if there is no such column.
    #[must_use]
    pub fn value(&self, at: usize) -> Value {
        let Ok(at) = c_int::try_from(at) else { return Value::Null };
        let statement = self.statement.as_ptr();
        // SAFETY: the statement is prepared; SQLite checks the number. Bytes are asked for before their number, as
        // SQLite requires, and copied at once.
        unsafe {
            match sys::pando_sqlite3_column_type(statement, at) {
                1 => Value::Integer(sys::pando_sqlite3_column_int64(statement, at)),
                2 => Value::Real(sys::pando_sqlite3_column_double(statement, at)),
                3 => {
                    let text = sys::pando_sqlite3_column_text(statement, at);
                    let bytes = copied(text, sys::pando_sqlite3_column_bytes(statement, at));
                    Value::Text(String::from_utf8_lossy(&bytes).into_owned())
                }
                4 => {
                    let bytes = sys::pando_sqlite3_column_blob(statement, at);
                    Value::Blob(copied(bytes.cast(), sys::pando_sqlite3_column_bytes(statement, at)))
                }
                _ => Value::Null,
            }
        }
    }
}

/// Returns a copy of bytes of C's.
///
/// # Safety
/// There are `len` bytes, or it is null.
unsafe fn copied(bytes: *const u8, len: c_int) -> Vec<u8> {
    match usize::try_from(len) {
        // SAFETY: as the caller promises.
        Ok(len) if len > 0 && !bytes.is_null() => unsafe { std::slice::from_raw_parts(bytes, len) }.to_vec(),
        _ => Vec::new(),
    }
}

impl Drop for Statement<'_> {
    fn drop(&mut self) {
        // SAFETY: the statement is prepared, and this is its last use.
        unsafe { sys::pando_sqlite3_finalize(self.statement.as_ptr()) };
    }
}
