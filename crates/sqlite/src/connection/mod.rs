//! Connections and statements.
//!
//! Reading order: this file (opening, running), `statement`, `kept` (prepared statements that are kept), `value`,
//! `error`, `repeating`; `functions`; `action`, `authorizer`, `interrupt`, `stop`, `limit`, `settings`, `memory` (what
//! bounds statements).

mod action;
mod authorizer;
mod error;
mod functions;
mod interrupt;
mod kept;
mod limit;
mod memory;
mod repeating;
mod settings;
mod statement;
mod stop;
mod value;

pub use action::{Access, Action, Decision};
pub use error::Error;
pub use interrupt::Interrupt;
pub use limit::Limit;
pub use memory::{count_memory, limit_memory};
pub use statement::{Bound, Running, Statement};
pub use value::{Value, ValueRef};

use crate::failure::{BUSY_SNAPSHOT, CLOSED, INTERRUPT, OK};
use crate::registry::Offer;
use crate::state::{Conflict, State};
use crate::sys::{self, Sqlite3, Stmt};
use action::Authorizer;
use interrupt::Progress;
use pando::any::AnyDatabase;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_int};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// The statements that are kept and not in use, the one that was used last at the end.
#[derive(Debug, Default)]
struct Kept(VecDeque<(Box<str>, NonNull<Stmt>)>);

/// The rows of a query.
pub type Rows = Vec<Vec<Value>>;

/// A connection of SQLite whose main database is a Pando database. Its `TEMP` tables, attached files and databases in
/// memory are SQLite's own.
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
pub struct Connection {
    db: NonNull<Sqlite3>,
    interrupt: Interrupt,
    /// Interrupts the connection when the database is closed.
    on_close: Option<Arc<dyn Fn() + Send + Sync>>,
    kept: RefCell<Kept>,
    /// The callbacks, which SQLite knows by these addresses.
    authorizer: Option<*mut Authorizer>,
    progress: Option<*mut Progress>,
}

// SAFETY: SQLite is compiled for several threads and ties no connection to one; the state below it has no data of one
// thread either. Both are used by one thread at a time: a connection is not `Sync`, and its statements, which borrow
// it, are not `Send`. The callbacks are `Send`.
unsafe impl Send for Connection {}

/// How SQLite opens: `READWRITE`, `CREATE`, `URI`, and `NOMUTEX`. Without a mutex of its own, a connection is not
/// locked in each call.
const OPEN_FLAGS: c_int = 0x2 | 0x4 | 0x40 | 0x8000;

impl Connection {
    /// Opens a connection to a database. Several connections can read and write at once.
    ///
    /// # Errors
    /// Those of the database.
    pub fn open(db: impl Into<AnyDatabase>) -> Result<Connection, Error> {
        let db = db.into();
        let offer = Offer::new(&db);
        // The code of an opening that failed is a general one.
        let is_closed = || matches!(&db, AnyDatabase::Native(db) if db.is_closed());
        let opened = Self::open_uri(&offer.uri());
        let mut connection = opened.map_err(|error| if is_closed() { Error::closed() } else { error })?;
        drop(offer);
        if let AnyDatabase::Native(db) = db {
            let on_close = connection.interrupt.on_close();
            db.on_close(&on_close);
            connection.on_close = Some(on_close);
        }
        Ok(connection)
    }

    /// Opens a connection to a new database in memory, which is SQLite's own.
    ///
    /// # Errors
    /// An error if there is not enough memory.
    pub fn in_memory() -> Result<Connection, Error> {
        Self::open_uri(":memory:")
    }

    fn open_uri(uri: &str) -> Result<Connection, Error> {
        memory::initialize(false)?;
        let name = CString::new(uri).map_err(|_| Error::misuse("the name has a zero byte"))?;
        let mut db = ptr::null_mut();
        // SAFETY: the name is a string of C, and `db` can be written.
        let code = unsafe { sys::pando_sqlite3_open_v2(name.as_ptr(), &raw mut db, OPEN_FLAGS, ptr::null()) };
        let Some(db) = NonNull::new(db) else { return Err(Error::misuse("out of memory")) };
        let (interrupt, kept) = (Interrupt::of(db), RefCell::default());
        let connection = Connection { db, interrupt, on_close: None, kept, authorizer: None, progress: None };
        // SAFETY: the connection is open.
        unsafe { sys::pando_sqlite3_extended_result_codes(db.as_ptr(), 1) };
        if code == OK { Ok(connection) } else { Err(connection.error(code)) }
    }

    /// Runs statements, separated by semicolons.
    ///
    /// # Errors
    /// The error of the first statement that fails. The effects of the statements before it remain.
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
    /// An error if the text cannot be prepared, if it is empty, or if it contains a zero byte, at which SQLite would
    /// end it.
    pub fn prepare(&self, sql: &str) -> Result<Statement<'_>, Error> {
        Statement::prepare(self, sql)?.0.ok_or_else(|| Error::misuse("there is no statement"))
    }

    /// Prepares the only statement of `sql`. Use it for untrusted texts: a second statement is an error.
    /// ([`Connection::prepare`] ignores a second statement, and [`Connection::execute`] runs it.)
    ///
    /// # Errors
    /// Those of [`Connection::prepare`]; an error if a second statement, or any other text, follows the first one.
    ///
    /// ```
    /// # fn main() -> Result<(), pando_sqlite::Error> {
    /// let connection = pando_sqlite::Connection::in_memory()?;
    /// assert!(connection.prepare_only("SELECT 1; -- that is all").is_ok());
    /// assert!(connection.prepare_only("SELECT 1; BEGIN IMMEDIATE").is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn prepare_only(&self, sql: &str) -> Result<Statement<'_>, Error> {
        let (statement, rest) = Statement::prepare(self, sql)?;
        let statement = statement.ok_or_else(|| Error::misuse("there is no statement"))?;
        if rest.trim_ascii().is_empty() {
            return Ok(statement);
        }
        match Statement::prepare(self, rest) {
            Ok((None, _)) => Ok(statement),
            _ => Err(Error::misuse("there is more than one statement; pass one at a time")),
        }
    }

    /// Returns the number of rows that the last statement inserted, changed or deleted.
    #[must_use]
    pub fn changes(&self) -> i64 {
        // SAFETY: the connection is open.
        unsafe { sys::pando_sqlite3_changes64(self.db.as_ptr()) }
    }

    /// Returns the number of rows that were inserted, changed or deleted since the connection was opened, by triggers,
    /// too.
    #[must_use]
    pub fn total_changes(&self) -> i64 {
        // SAFETY: the connection is open.
        unsafe { sys::pando_sqlite3_total_changes64(self.db.as_ptr()) }
    }

    /// Returns the rowid of the last row that was inserted.
    #[must_use]
    pub fn last_insert_rowid(&self) -> i64 {
        // SAFETY: the connection is open.
        unsafe { sys::pando_sqlite3_last_insert_rowid(self.db.as_ptr()) }
    }

    /// Returns whether a transaction has begun and not ended.
    #[must_use]
    pub fn is_in_transaction(&self) -> bool {
        // SAFETY: the connection is open.
        unsafe { sys::pando_sqlite3_get_autocommit(self.db.as_ptr()) == 0 }
    }

    /// Returns the name of a database of the connection: `main` for 0, `temp` for 1, then the attached ones. Returns
    /// `None` if there is no such database.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let connection = pando_sqlite::Connection::in_memory()?;
    /// connection.execute("ATTACH ':memory:' AS other")?;
    /// assert_eq!(connection.database_name(2).as_deref(), Some("other"));
    /// assert_eq!(connection.database_name(3), None);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn database_name(&self, at: usize) -> Option<String> {
        let at = c_int::try_from(at).ok()?;
        // SAFETY: the connection is open; SQLite checks the number, and a name is a string of C until the database is
        // detached.
        unsafe {
            let name = sys::pando_sqlite3_db_name(self.db.as_ptr(), at);
            (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
        }
    }

    /// Returns SQLite's handle, for functions of [`crate::ffi`]. It is valid until the connection is dropped. The
    /// connection has no mutex, so only the thread that holds the connection may use the handle.
    #[must_use]
    pub fn as_ptr(&self) -> *mut crate::ffi::sqlite3 {
        self.db.as_ptr().cast()
    }

    /// Returns whether the main database was closed by another handle, which has interrupted the connection.
    fn is_closed(&self) -> bool {
        self.with_state(|state| state.is_closed()).unwrap_or(false)
    }

    /// Returns whether a statement of the connection is running.
    fn is_running(&self) -> bool {
        // SAFETY: the connection is open.
        unsafe { sys::pando_running(self.db.as_ptr()) > 0 }
    }

    /// Runs `work` on the state of the main database, if that is Pando's.
    fn with_state<T>(&self, work: impl FnOnce(&mut State) -> T) -> Option<T> {
        self.with_state_of(0, work)
    }

    /// Runs `work` on the state of a database of the connection, if that is Pando's. `work` does not call SQLite.
    fn with_state_of<T>(&self, at: c_int, work: impl FnOnce(&mut State) -> T) -> Option<T> {
        // SAFETY: the connection is open, and the number is checked. The state is alive as long as its database is
        // attached. Nothing else uses it during the call: this thread has the connection, the functions of `calls`
        // that use the state do not call back, and neither does `work`.
        unsafe { sys::pando_state(self.db.as_ptr(), at).cast::<State>().as_mut() }.map(work)
    }

    /// Returns the error that a call ended with.
    fn error(&self, code: c_int) -> Error {
        // SAFETY: the connection is open, and SQLite's message is a string of C until the next call.
        let message = unsafe { CStr::from_ptr(sys::pando_sqlite3_errmsg(self.db.as_ptr())) };
        let message = message.to_string_lossy().into_owned();
        if code == CLOSED || code & 0xff == INTERRUPT && self.is_closed() {
            return Error::closed();
        }
        let conflict = if code == BUSY_SNAPSHOT { self.conflict().map(Box::new) } else { None };
        match self.with_state(|state| state.take_failure_of_store(code)).flatten() {
            Some(failure) if failure.code != code => failure.into(),
            Some(failure) => Error { code, message, conflict, reason: failure.reason },
            None => Error { code, message, conflict, reason: None },
        }
    }

    /// Returns where the last commit met a conflict.
    #[cold]
    fn conflict(&self) -> Option<Conflict> {
        let databases = (0..).take_while(|&at| self.database_name(at).is_some());
        databases.filter_map(|at| c_int::try_from(at).ok()).find_map(|at| {
            // `temp` has no state before it has tables, and is SQLite's own.
            self.with_state_of(at, |state| state.met.clone()).flatten()
        })
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("db", &self.db).finish_non_exhaustive()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.interrupt.detach();
        self.flush_statements();
        // SAFETY: it is open, and its statements, which borrow it, are gone.
        unsafe { sys::pando_sqlite3_close_v2(self.db.as_ptr()) };
        // SAFETY: the connection that knew them is closed.
        unsafe {
            free(self.authorizer);
            free(self.progress);
        }
    }
}

/// Frees a callback.
///
/// # Safety
/// `Box::into_raw` returned it, and nothing uses it any more.
unsafe fn free<T>(callback: Option<*mut T>) {
    // SAFETY: as the caller promises.
    drop(callback.map(|callback| unsafe { Box::from_raw(callback) }));
}
