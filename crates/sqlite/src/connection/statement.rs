//! Prepared statements.

mod bound;

pub use bound::Bound;

use super::{Connection, Error, Value, ValueRef};
use crate::failure::{DONE, OK, ROW};
use crate::sys::{self, Stmt};
use std::ffi::{CStr, CString, c_char, c_int};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

/// SQLite copies a parameter's bytes.
const TRANSIENT: isize = -1;
const UTF8: u8 = 1;

/// A prepared statement.
#[derive(Debug)]
pub struct Statement<'c> {
    connection: &'c Connection,
    statement: NonNull<Stmt>,
    /// Its text, if the connection keeps it for the next use.
    kept_as: Option<Box<str>>,
}

impl<'c> Statement<'c> {
    /// Prepares the first statement of `sql`, and returns it with the text after it.
    pub(super) fn prepare<'s>(
        connection: &'c Connection,
        sql: &'s str,
    ) -> Result<(Option<Statement<'c>>, &'s str), Error> {
        // SQLite would take it for the end of the text, and run what is before it.
        if sql.contains('\0') {
            return Err(Error::misuse(
                "the text of a statement has a zero byte; values can have one, as parameters",
            ));
        }
        let bytes = c_int::try_from(sql.len()).map_err(|_| Error::misuse("the text is too long"))?;
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
        let prepared =
            NonNull::new(statement).map(|statement| Statement { connection, statement, kept_as: None });
        // A comment is no statement, and more may come after it.
        match prepared {
            None if used < sql.len() && used > 0 => Statement::prepare(connection, &sql[used..]),
            prepared => Ok((prepared, &sql[used..])),
        }
    }

    /// Takes a statement that the connection has kept.
    pub(super) fn kept(
        connection: &'c Connection,
        statement: NonNull<Stmt>,
        text: Box<str>,
    ) -> Statement<'c> {
        Statement { connection, statement, kept_as: Some(text) }
    }

    /// Marks the statement as one that the connection keeps for the next use.
    pub(super) fn keep_as(mut self, text: &str) -> Statement<'c> {
        self.kept_as = Some(text.into());
        self
    }

    /// Binds a value to a parameter, counted from 1.
    ///
    /// # Errors
    /// An error if there is no such parameter, or if the statement is running.
    pub fn bind(&mut self, at: usize, value: &Value) -> Result<(), Error> {
        self.bind_ref(at, value.into())
    }

    /// Binds a borrowed value to a parameter, counted from 1. SQLite copies it.
    ///
    /// # Errors
    /// As for [`Statement::bind`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use pando_sqlite::{Connection, ValueRef};
    /// let connection = Connection::in_memory()?;
    /// let mut statement = connection.prepare("SELECT upper(:name)")?;
    /// let at = statement.parameter_index(":name").expect("it is in the statement");
    /// statement.bind_ref(at, ValueRef::Text(b"plum"))?;
    /// assert!(statement.step()?);
    /// assert_eq!(statement.value_ref(0), ValueRef::Text(b"PLUM"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn bind_ref(&mut self, at: usize, value: ValueRef<'_>) -> Result<(), Error> {
        let at = c_int::try_from(at).map_err(|_| Error::misuse("no such parameter"))?;
        let statement = self.statement.as_ptr();
        // SAFETY: the statement is prepared, and SQLite copies the bytes. A pointer to no bytes is not null, which
        // would bind `NULL`.
        let code = unsafe {
            match value {
                ValueRef::Null => sys::pando_sqlite3_bind_null(statement, at),
                ValueRef::Integer(value) => sys::pando_sqlite3_bind_int64(statement, at, value),
                ValueRef::Real(value) => sys::pando_sqlite3_bind_double(statement, at, value),
                ValueRef::Text(text) => sys::pando_sqlite3_bind_text64(
                    statement,
                    at,
                    text.as_ptr().cast(),
                    text.len() as u64,
                    TRANSIENT,
                    UTF8,
                ),
                ValueRef::Blob(bytes) => sys::pando_sqlite3_bind_blob64(
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

    /// Binds `NULL` to all parameters, which is their value before the first bind.
    pub fn clear_bindings(&mut self) {
        // SAFETY: the statement is prepared.
        unsafe { sys::pando_sqlite3_clear_bindings(self.statement.as_ptr()) };
    }

    /// Returns the number of parameters, which is the highest number of a parameter.
    #[must_use]
    pub fn parameters(&self) -> usize {
        // SAFETY: the statement is prepared.
        let count = unsafe { sys::pando_sqlite3_bind_parameter_count(self.statement.as_ptr()) };
        usize::try_from(count).unwrap_or(0)
    }

    /// Returns the name of a parameter, counted from 1, with its `:`, `@`, `$` or `?`. Returns `None` for a plain `?`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let connection = pando_sqlite::Connection::in_memory()?;
    /// let statement = connection.prepare("SELECT ?, :a, ?7")?;
    /// assert_eq!(statement.parameters(), 7);
    /// assert_eq!(statement.parameter_name(1), None);
    /// assert_eq!(statement.parameter_name(2).as_deref(), Some(":a"));
    /// assert_eq!(statement.parameter_name(7).as_deref(), Some("?7"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn parameter_name(&self, at: usize) -> Option<String> {
        let at = c_int::try_from(at).ok()?;
        // SAFETY: the statement is prepared; SQLite checks the number, and a name is a string of C.
        unsafe { owned(sys::pando_sqlite3_bind_parameter_name(self.statement.as_ptr(), at)) }
    }

    /// Returns the number of a named parameter, counted from 1, or `None` if there is none. The name includes its `:`,
    /// `@` or `$`.
    #[must_use]
    pub fn parameter_index(&self, name: &str) -> Option<usize> {
        let name = CString::new(name).ok()?;
        // SAFETY: the statement is prepared, and the name is a string of C.
        let at = unsafe { sys::pando_sqlite3_bind_parameter_index(self.statement.as_ptr(), name.as_ptr()) };
        usize::try_from(at).ok().filter(|&at| at > 0)
    }

    /// Runs the statement up to its next row. Returns whether there is one.
    ///
    /// A statement outside of `BEGIN` that writes and returns rows has done all of its writes when it returns the first
    /// row, and its commit has no conflict from then on: until the statement has ended, other writers get `SQLITE_BUSY`
    /// after their busy timeout. Within [`Connection::repeating`] and over a remote store, other writers are not
    /// excluded, and the commit can fail with a conflict.
    ///
    /// # Errors
    /// Those of the statement. The statement is then reset.
    pub fn step(&mut self) -> Result<bool, Error> {
        // SAFETY: the statement is prepared.
        match unsafe { sys::pando_sqlite3_step(self.statement.as_ptr()) } {
            ROW => Ok(true),
            DONE => {
                self.end();
                Ok(false)
            }
            code => {
                let error = self.connection.error(code);
                self.end();
                Err(error)
            }
        }
    }

    /// Runs the statement row by row. Dropping the result ends the statement. If the statement writes, this commits as
    /// [`Statement::reset`] does, but an error of the commit is lost.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use pando_sqlite::{Connection, ValueRef};
    /// let connection = Connection::in_memory()?;
    /// let mut statement = connection.prepare("VALUES (1), (2), (3)")?;
    /// let (mut rows, mut sum) = (statement.run(), 0);
    /// while let Some(row) = rows.next()? {
    ///     let ValueRef::Integer(number) = row.value_ref(0) else { unreachable!("all are integers") };
    ///     sum += number;
    /// }
    /// assert_eq!(sum, 6);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(&mut self) -> Running<'_> {
        let Statement { connection, statement, .. } = *self;
        let same = Statement { connection, statement, kept_as: None };
        Running { statement: ManuallyDrop::new(same), has_ended: false, lent: PhantomData }
    }

    /// Ends the statement, so that it can run again.
    ///
    /// # Errors
    /// The error of a commit: a statement outside of `BEGIN` that writes, and was not stepped to its end after it
    /// returned a row, commits here. Dropping the statement does the same, but loses the error. The commit can have a
    /// conflict only in the cases that [`Statement::step`] lists, or if Rust code without SQL commits at the moment of
    /// the first row.
    pub fn reset(&mut self) -> Result<(), Error> {
        // SAFETY: the statement is prepared.
        match unsafe { sys::pando_sqlite3_reset(self.statement.as_ptr()) } {
            OK => Ok(()),
            code => Err(self.connection.error(code)),
        }
    }

    /// Returns whether the statement was stepped and has not ended.
    fn is_running(&self) -> bool {
        // SAFETY: the statement is prepared.
        unsafe { sys::pando_sqlite3_stmt_busy(self.statement.as_ptr()) != 0 }
    }

    /// Ends the statement, of which everything is known.
    fn end(&mut self) {
        // SAFETY: the statement is prepared. The code repeats what the last step returned.
        unsafe { sys::pando_sqlite3_reset(self.statement.as_ptr()) };
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        // SAFETY: the statement is prepared.
        unsafe { sys::pando_sqlite3_column_count(self.statement.as_ptr()) as usize }
    }

    /// Returns the name of a column, counted from 0, or `None` if there is no such column.
    #[must_use]
    pub fn name(&self, at: usize) -> Option<String> {
        let at = c_int::try_from(at).ok()?;
        // SAFETY: the statement is prepared; SQLite checks the number, and a name is a string of C.
        unsafe { owned(sys::pando_sqlite3_column_name(self.statement.as_ptr(), at)) }
    }

    /// Returns the declared type of a column, counted from 0, such as `VARCHAR(20)`. Returns `None` for an expression,
    /// and for a column whose table declares no type.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let connection = pando_sqlite::Connection::in_memory()?;
    /// connection.execute("CREATE TABLE fruit(name VARCHAR(20))")?;
    /// let statement = connection.prepare("SELECT name, length(name) FROM fruit")?;
    /// assert_eq!(statement.declared_type(0).as_deref(), Some("VARCHAR(20)"));
    /// assert_eq!(statement.declared_type(1), None);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn declared_type(&self, at: usize) -> Option<String> {
        let at = c_int::try_from(at).ok()?;
        // SAFETY: as above.
        unsafe { owned(sys::pando_sqlite3_column_decltype(self.statement.as_ptr(), at)) }
    }

    /// Returns whether the statement writes to no database. `BEGIN`, `COMMIT` and `ROLLBACK` also count as writing
    /// nothing.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        // SAFETY: the statement is prepared.
        unsafe { sys::pando_sqlite3_stmt_readonly(self.statement.as_ptr()) != 0 }
    }

    /// Returns whether the statement is an `EXPLAIN` or `EXPLAIN QUERY PLAN`.
    #[must_use]
    pub fn is_explain(&self) -> bool {
        // SAFETY: the statement is prepared.
        unsafe { sys::pando_sqlite3_stmt_isexplain(self.statement.as_ptr()) != 0 }
    }

    /// Returns how many times SQLite prepared the statement again because a definition had changed. Its columns can
    /// then be different.
    #[must_use]
    pub fn times_prepared_again(&self) -> i32 {
        const REPREPARE: c_int = 5;
        // SAFETY: the statement is prepared.
        unsafe { sys::pando_sqlite3_stmt_status(self.statement.as_ptr(), REPREPARE, 0) }
    }

    /// Returns a value of the current row, counted from 0. It is `NULL` if there is no such column.
    #[must_use]
    pub fn value(&self, at: usize) -> Value {
        self.value_ref(at).to_owned()
    }

    /// Returns a value of the current row in place, without a copy, counted from 0. It is `NULL` if there is no such
    /// column.
    #[must_use]
    pub fn value_ref(&self, at: usize) -> ValueRef<'_> {
        let Ok(at) = c_int::try_from(at) else { return ValueRef::Null };
        let statement = self.statement.as_ptr();
        // SAFETY: the statement is prepared; SQLite checks the number. Bytes are asked for before their number, as
        // SQLite requires. They stay where they are until the statement is stepped, reset or finalized, for which it
        // is borrowed mutably, or until a column is converted: each is only ever asked for as what it is.
        unsafe {
            match sys::pando_sqlite3_column_type(statement, at) {
                1 => ValueRef::Integer(sys::pando_sqlite3_column_int64(statement, at)),
                2 => ValueRef::Real(sys::pando_sqlite3_column_double(statement, at)),
                3 => {
                    let text = sys::pando_sqlite3_column_text(statement, at);
                    ValueRef::Text(lent(text, sys::pando_sqlite3_column_bytes(statement, at)))
                }
                4 => {
                    let bytes = sys::pando_sqlite3_column_blob(statement, at);
                    ValueRef::Blob(lent(bytes.cast(), sys::pando_sqlite3_column_bytes(statement, at)))
                }
                _ => ValueRef::Null,
            }
        }
    }
}

/// A running statement, which [`Statement::run`] returns.
#[derive(Debug)]
pub struct Running<'s> {
    /// A duplicate of the statement that is lent; that one frees it.
    statement: ManuallyDrop<Statement<'s>>,
    /// Whether the last step has ended it.
    has_ended: bool,
    lent: PhantomData<&'s mut ()>,
}

impl<'s> Running<'s> {
    /// Moves to the next row, and returns the statement on it, or `None` after the last row.
    ///
    /// # Errors
    /// Those of the statement. The statement has then ended.
    #[expect(clippy::should_implement_trait, reason = "a row is lent until the next call")]
    pub fn next(&mut self) -> Result<Option<&Statement<'s>>, Error> {
        // After an error, too.
        self.has_ended = true;
        if !self.statement.step()? {
            return Ok(None);
        }
        self.has_ended = false;
        Ok(Some(&*self.statement))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.statement.end();
        }
    }
}

/// Returns a copy of a name, or `None` if it is null.
///
/// # Safety
/// It is a string of C, or null.
unsafe fn owned(name: *const c_char) -> Option<String> {
    // SAFETY: as the caller promises.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}

/// Returns bytes of C's.
///
/// # Safety
/// There are `len` bytes that live for `'b`, or it is null.
pub(super) unsafe fn lent<'b>(bytes: *const u8, len: c_int) -> &'b [u8] {
    match usize::try_from(len) {
        // SAFETY: as the caller promises.
        Ok(len) if len > 0 && !bytes.is_null() => unsafe { std::slice::from_raw_parts(bytes, len) },
        _ => &[],
    }
}

impl Drop for Statement<'_> {
    fn drop(&mut self) {
        if let Some(text) = self.kept_as.take() {
            self.end();
            self.clear_bindings();
            self.connection.keep(text, self.statement);
            return;
        }
        // SAFETY: the statement is prepared, and this is its last use.
        unsafe { sys::pando_sqlite3_finalize(self.statement.as_ptr()) };
    }
}
