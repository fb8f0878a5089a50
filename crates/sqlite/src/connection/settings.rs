//! Settings of a connection: transactions, waiting, limits.

use super::{Connection, Error};
use crate::failure::{MISUSE, OK};
use crate::sys;
use pando::TransactionOptions;
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A limit on the statements of a connection. [SQLite's documentation](https://www.sqlite.org/limits.html) has the
/// default of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(i32)]
pub enum Limit {
    /// The longest text, blob or row in bytes, including intermediate results.
    ValueBytes = 0,
    /// The longest statement in bytes.
    SqlBytes = 1,
    /// The most columns of a table, an index, a result or a clause.
    Columns = 2,
    /// The deepest nesting of an expression.
    ExpressionDepth = 3,
    /// The most `SELECT`s that `UNION` and its kin combine.
    CompoundSelects = 4,
    /// The most instructions of a prepared statement.
    Instructions = 5,
    /// The most arguments of a function.
    FunctionArguments = 6,
    /// The most attached databases.
    AttachedDatabases = 7,
    /// The longest pattern of `LIKE` and `GLOB` in bytes.
    PatternBytes = 8,
    /// The highest number of a parameter.
    Parameters = 9,
    /// The deepest nesting of triggers.
    TriggerDepth = 10,
    /// The most threads that help to sort.
    WorkerThreads = 11,
    /// The deepest stack of the parser.
    ParserDepth = 12,
}

impl Connection {
    /// Sets the durability and isolation of transactions that begin from now on. `PRAGMA synchronous` below `FULL` turns
    /// [`pando::Durability::Sync`] into `Buffered`.
    ///
    /// The isolation is serializable, whatever the options say, once a table was created in the database by SQL:
    /// SQLite finds out by reading whether a constraint holds, so under another isolation two transactions could both
    /// insert what has to be unique. Serializable transactions also keep what the weaker isolation promises. Before
    /// that, only virtual tables of the program can be written, and the isolation is the one of the options.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let db = pando::Database::builder().in_memory()?;
    /// let connection = pando_sqlite::Connection::open(&db)?;
    /// let mut options = db.transaction_options();
    /// options.durability = pando::Durability::Buffered;
    /// connection.set_transaction_options(options);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_transaction_options(&self, options: TransactionOptions) {
        self.with_state(|state| state.options = Some(options));
    }

    /// Sets whether the connection only reads its database. From its next transaction on, what writes to the database
    /// fails with `SQLITE_READONLY`, and transactions are snapshots, which never conflict. `TEMP` tables can be
    /// written.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let db = pando::Database::builder().in_memory()?;
    /// let connection = pando_sqlite::Connection::open(&db)?;
    /// connection.execute("CREATE TABLE fruit(name)")?;
    /// connection.set_read_only(true);
    /// let error = connection.execute("INSERT INTO fruit VALUES ('plum')").unwrap_err();
    /// assert_eq!(error.code, 8);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_read_only(&self, is_read_only: bool) {
        self.with_state(|state| state.set_read_only(is_read_only));
    }

    /// Sets how long a statement waits for a connection that excludes others, as `BEGIN IMMEDIATE` does, before it
    /// fails with [`Error::is_busy`]. The default is not to wait. Conflicts are not waited for.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let db = pando::Database::builder().in_memory()?;
    /// let [one, two] = [pando_sqlite::Connection::open(&db)?, pando_sqlite::Connection::open(&db)?];
    /// one.execute("BEGIN IMMEDIATE")?;
    /// two.set_busy_timeout(std::time::Duration::from_millis(20));
    /// assert!(two.execute("CREATE TABLE fruit(name)").unwrap_err().is_busy());
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_busy_timeout(&self, timeout: Duration) {
        let timeout_ms = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: the connection is open.
        unsafe { sys::pando_sqlite3_busy_timeout(self.db.as_ptr(), timeout_ms) };
    }

    /// Returns a limit.
    #[must_use]
    pub fn limit(&self, limit: Limit) -> u32 {
        // SAFETY: the connection is open; a negative value changes nothing.
        let value = unsafe { sys::pando_sqlite3_limit(self.db.as_ptr(), limit as c_int, -1) };
        u32::try_from(value).unwrap_or(0)
    }

    /// Lowers or raises a limit for statements that are prepared from now on, and returns what it was. More than SQLite
    /// was compiled for sets that.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use pando_sqlite::{Connection, Limit};
    /// let connection = Connection::in_memory()?;
    /// connection.set_limit(Limit::ValueBytes, 1000);
    /// assert_eq!(connection.query("SELECT zeroblob(1001)").unwrap_err().code, 18);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_limit(&self, limit: Limit, most: u32) -> u32 {
        let most = c_int::try_from(most).unwrap_or(c_int::MAX);
        // SAFETY: the connection is open; SQLite checks the value.
        let before = unsafe { sys::pando_sqlite3_limit(self.db.as_ptr(), limit as c_int, most) };
        u32::try_from(before).unwrap_or(0)
    }
}

/// Whether SQLite is initialized, and whether it counts its memory then.
static INITIALIZED: Mutex<Option<bool>> = Mutex::new(None);

/// Initializes SQLite, once in a process. Returns whether it counts its memory.
pub(super) fn initialize(counts_memory: bool) -> Result<bool, Error> {
    // It is set by one statement, so a panic elsewhere leaves nothing half done.
    let mut initialized = INITIALIZED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(counts) = *initialized {
        return Ok(counts);
    }
    // SAFETY: SQLite is not initialized, and nothing else initializes it: every connection is opened after this
    // function, which holds a lock.
    let code = unsafe { sys::pando_initialize(c_int::from(counts_memory)) };
    if code != OK {
        return Err(Error::new(code, "SQLite cannot be initialized"));
    }
    *initialized = Some(counts_memory);
    Ok(counts_memory)
}

/// Makes SQLite count its memory, so that [`limit_memory`] can be called after connections were opened.
///
/// # Errors
/// A connection was opened before the first call.
pub fn count_memory() -> Result<(), Error> {
    match initialize(true)? {
        true => Ok(()),
        false => Err(Error::new(
            MISUSE,
            "SQLite's memory is not counted: a connection of this process was opened before that was asked for",
        )),
    }
}

/// Limits the memory that SQLite allocates for all connections of this process, including sorts and temporary tables. A
/// statement that needs more fails with `SQLITE_NOMEM` and is rolled back. Call this function or [`count_memory`] before
/// the first connection of the process is opened, because counting has to begin before the first allocation. Later the
/// limit can be lowered, but not raised.
///
/// The budget of a database limits the memory of Pando itself, and counts apart from this. Counting takes a lock for
/// each allocation, which is why it is off unless this function is called.
///
/// # Errors
/// A connection was opened before the first call.
///
/// ```standalone_crate
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use pando_sqlite::Connection;
/// pando_sqlite::limit_memory(32 << 20)?;
/// let connection = Connection::in_memory()?;
/// connection.execute("PRAGMA temp_store = MEMORY")?;
/// let error = connection.query("SELECT length(group_concat(hex(zeroblob(1000000)))) FROM (VALUES (1), (2), (3), (4),
///     (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15), (16), (17), (18), (19), (20))").unwrap_err();
/// assert_eq!(error.code, 7);
/// # Ok(())
/// # }
/// ```
pub fn limit_memory(bytes: u64) -> Result<(), Error> {
    count_memory()?;
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    // SAFETY: SQLite is initialized. A negative value asks for the limit.
    let before = unsafe { sys::pando_sqlite3_hard_heap_limit64(-1) };
    if before == 0 || bytes < before {
        // SAFETY: as above.
        unsafe { sys::pando_sqlite3_hard_heap_limit64(bytes) };
    }
    Ok(())
}
