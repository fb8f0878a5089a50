//! Settings of a connection: transactions, waiting, limits.

use super::Connection;
use super::limit::Limit;
use crate::sys;
use pando::TransactionOptions;
use std::ffi::c_int;
use std::time::Duration;

impl Connection {
    /// Sets the durability and isolation of transactions that begin from now on. `PRAGMA synchronous` below `FULL`
    /// turns [`pando::Durability::Sync`] into `Buffered`.
    ///
    /// Once SQL has created a table in the database, the isolation is serializable, whatever the options say. SQLite
    /// checks constraints by reading, so with a weaker isolation two transactions could both insert a value that must
    /// be unique. Until then, only virtual tables of the program can be written, with the isolation of the options.
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

    /// Makes the connection read-only, or ends that. From its next transaction on, statements that write to the
    /// database fail with `SQLITE_READONLY`, and transactions are snapshots, which never conflict. `TEMP` tables stay
    /// writable.
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

    /// Makes `BEGIN IMMEDIATE` and `BEGIN EXCLUSIVE` exclude no other writer from now on: each begins a transaction at
    /// once, which conflicts as any other does. Use it for clients that could stop between two statements: otherwise
    /// every writer of the database, also those without SQL, would wait for them.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let db = pando::Database::builder().in_memory()?;
    /// let connection = pando_sqlite::Connection::open(&db)?;
    /// connection.share_immediate();
    /// connection.execute("BEGIN IMMEDIATE")?;
    /// db.ensure_table("fruit")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn share_immediate(&self) {
        self.with_state(|state| state.shares_immediate = true);
    }

    /// Sets whether `PRAGMA integrity_check` and `quick_check` read all pages of the database. Default: yes. Turn it
    /// off if your program has already checked the pages with [`pando::Database::check_all`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let db = pando::Database::builder().in_memory()?;
    /// let connection = pando_sqlite::Connection::open(&db)?;
    /// assert!(db.check_all(|_| {})?.wrong.is_empty());
    /// connection.set_checks_pages(false);
    /// assert_eq!(connection.query("PRAGMA integrity_check")?, [[pando_sqlite::Value::Text("ok".to_owned())]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_checks_pages(&self, are_read: bool) {
        self.with_state(|state| state.checks_pages = are_read);
    }

    /// Sets how long a statement waits for a connection that excludes others, as `BEGIN IMMEDIATE` does, before it
    /// fails with [`Error::is_busy`](super::Error::is_busy). Default: zero. A statement never waits because of a
    /// conflict.
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

    /// Returns the value of a limit.
    #[must_use]
    pub fn limit(&self, limit: Limit) -> u32 {
        // SAFETY: the connection is open; a negative value changes nothing.
        let value = unsafe { sys::pando_sqlite3_limit(self.db.as_ptr(), limit as c_int, -1) };
        u32::try_from(value).unwrap_or(0)
    }

    /// Sets a limit for statements that are prepared from now on, and returns its former value. A value above the one
    /// that SQLite was compiled with sets that one.
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
