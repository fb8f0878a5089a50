//! Connections and statements.

mod statement;

pub use statement::Statement;

use crate::failure::OK;
use crate::registry::Offer;
use crate::sys::{self, Sqlite3};
use pando::Database;
use std::ffi::{CStr, CString, c_int};
use std::fmt;
use std::ptr::{self, NonNull};

/// An error of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// SQLite's extended result code, for example 517 for `SQLITE_BUSY_SNAPSHOT`.
    pub code: i32,
    /// What happened. A conflict's message names the table and the key.
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for Error {}

/// A value of a row or of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `NULL`.
    Null,
    /// An integer.
    Integer(i64),
    /// A float.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// The rows of a query.
pub type Rows = Vec<Vec<Value>>;

/// A connection of SQLite whose main database is Pando's. Its `TEMP` tables, attached files and databases in memory
/// are SQLite's own.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use pando_sqlite::{Connection, Value};
/// let db = pando::Database::builder().in_memory()?;
/// let connection = Connection::open(&db)?;
/// connection.execute("CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT)")?;
/// connection.execute("INSERT INTO fruit(name) VALUES ('apple'), ('lemon')")?;
/// let rows = connection.query("SELECT name FROM fruit WHERE id = 2")?;
/// assert_eq!(rows, [[Value::Text("lemon".into())]]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Connection {
    db: NonNull<Sqlite3>,
}

// SAFETY: SQLite is compiled in its serialized mode and ties no connection to a thread; the state behind it has no
// data of one thread either, and is used under the mutex of the connection.
unsafe impl Send for Connection {}

const OPEN_FLAGS: c_int = 0x2 | 0x4 | 0x40; // READWRITE | CREATE | URI

impl Connection {
    /// Opens a connection to a database. Several connections can read and write at once.
    ///
    /// # Errors
    /// Those of the database.
    pub fn open(db: &Database) -> Result<Connection, Error> {
        let offer = Offer::new(db);
        let connection = Self::open_uri(&offer.uri())?;
        drop(offer);
        Ok(connection)
    }

    /// Opens a connection to a new database in memory that is SQLite's own.
    ///
    /// # Errors
    /// Out of memory.
    pub fn in_memory() -> Result<Connection, Error> {
        Self::open_uri(":memory:")
    }

    fn open_uri(uri: &str) -> Result<Connection, Error> {
        let name = CString::new(uri).map_err(|_| misuse("the name has a zero byte"))?;
        let mut db = ptr::null_mut();
        // SAFETY: the name is a string of C, and `db` can be written.
        let code = unsafe { sys::pando_sqlite3_open_v2(name.as_ptr(), &raw mut db, OPEN_FLAGS, ptr::null()) };
        let Some(db) = NonNull::new(db) else { return Err(misuse("out of memory")) };
        let connection = Connection { db };
        // SAFETY: the connection is open.
        unsafe { sys::pando_sqlite3_extended_result_codes(db.as_ptr(), 1) };
        if code == OK { Ok(connection) } else { Err(connection.error(code)) }
    }

    /// Runs statements, separated by semicolons.
    ///
    /// # Errors
    /// That of the first statement that fails; those before it took effect.
    pub fn execute(&self, sql: &str) -> Result<(), Error> {
        let mut rest = sql;
        loop {
            let (statement, after) = Statement::prepare(self, rest)?;
            let Some(mut statement) = statement else { return Ok(()) };
            while statement.step()? {}
            rest = after;
        }
    }

    /// Runs one statement, and returns its rows.
    ///
    /// # Errors
    /// Those of the statement.
    pub fn query(&self, sql: &str) -> Result<Rows, Error> {
        let mut statement = self.prepare(sql)?;
        let mut rows = Vec::new();
        while statement.step()? {
            rows.push((0..statement.columns()).map(|at| statement.value(at)).collect());
        }
        Ok(rows)
    }

    /// Prepares the first statement of `sql`.
    ///
    /// # Errors
    /// Those of the text; an empty one is an error, too.
    pub fn prepare(&self, sql: &str) -> Result<Statement<'_>, Error> {
        Statement::prepare(self, sql)?.0.ok_or_else(|| misuse("there is no statement"))
    }

    /// Returns how many rows the last statement inserted, changed or deleted.
    #[must_use]
    pub fn changes(&self) -> i64 {
        // SAFETY: the connection is open.
        unsafe { sys::pando_sqlite3_changes64(self.db.as_ptr()) }
    }

    /// Returns the rowid of the last row that was inserted.
    #[must_use]
    pub fn last_insert_rowid(&self) -> i64 {
        // SAFETY: the connection is open.
        unsafe { sys::pando_sqlite3_last_insert_rowid(self.db.as_ptr()) }
    }

    /// Returns whether a transaction was begun and is not ended.
    #[must_use]
    pub fn is_in_transaction(&self) -> bool {
        // SAFETY: the connection is open.
        unsafe { sys::pando_sqlite3_get_autocommit(self.db.as_ptr()) == 0 }
    }

    /// Returns the error that a call ended with.
    fn error(&self, code: c_int) -> Error {
        // SAFETY: the connection is open, and SQLite's message is a string of C until the next call.
        let message = unsafe { CStr::from_ptr(sys::pando_sqlite3_errmsg(self.db.as_ptr())) };
        Error { code, message: message.to_string_lossy().into_owned() }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: it is open, and its statements, which borrow it, are gone.
        unsafe { sys::pando_sqlite3_close_v2(self.db.as_ptr()) };
    }
}

fn misuse(message: &str) -> Error {
    Error { code: 21, message: message.to_owned() }
}
