//! Connections, which run statements: `prepare.rs` decides how.

use crate::answer::to_owned;
use crate::catalog::{Engine, SqlTable};
use crate::error::{Error, Result};
use crate::lexer;
use crate::machine::{self, CachedStatement};
use crate::others::Others;
use crate::read_texts::ReadTexts;
use crate::session::Session;
use crate::stop::{Asked, Stop};
use crate::tables::Tables;
use crate::vtab::Host;
use pando::TransactionOptions;
use pando::any::AnyDatabase;
use rusqlite::types::Value;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// SQL for a database: what all its connections share. A clone refers to the same database.
///
/// ```
/// # fn main() -> Result<(), pando_sql::Error> {
/// # let db = pando::Database::builder().in_memory()?;
/// let sql = pando_sql::Sql::new(db);
/// let connection = sql.connect()?;
/// connection.execute_batch(
///     "CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
///      INSERT INTO fruit(name) VALUES ('apple'), ('lemon');",
/// )?;
/// let mut statement = connection.prepare("SELECT name FROM fruit WHERE id = ?")?;
/// let mut rows = statement.query(&[2.into()])?;
/// assert_eq!(rows.next()?.unwrap().get(0), pando_sql::ValueRef::Text(b"lemon"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Sql {
    pub(crate) engine: Arc<Engine>,
}

impl Sql {
    /// Adds SQL to a database.
    pub fn new(db: impl Into<AnyDatabase>) -> Self {
        Sql { engine: Arc::new(Engine::new(db.into())) }
    }

    /// Returns the database.
    pub fn database(&self) -> &AnyDatabase {
        &self.engine.db
    }

    /// Opens a new connection, with its own transactions, temporary tables and settings. It takes some tens of
    /// microseconds. Until the connection is used, it takes no memory of the database's budget.
    pub fn connect(&self) -> Result<Connection> {
        let sqlite = machine::open(&self.engine.db)?;
        let host = Host::new(&sqlite);
        let tables = Arc::new(Tables::new(&self.engine, host));
        tables.register_marker(host)?;
        let connection = Connection::new(sqlite, tables, host);
        connection.count_changes()?;
        Ok(connection)
    }
}

#[cfg(feature = "loadable")]
impl Sql {
    /// Adds the tables to an SQLite connection of the caller, as virtual tables that its own statements can read and
    /// change. The returned connection runs the statements that SQLite does not support for virtual tables: `CREATE`,
    /// `RETURNING`, `ON CONFLICT`, and `INSERT` without columns that have a default. It keeps no prepared statements,
    /// so the caller's connection can be closed.
    pub fn attach(&self, sqlite: rusqlite::Connection) -> Result<Connection> {
        sqlite.set_prepared_statement_cache_capacity(0);
        let host = Host::new(&sqlite);
        let tables = Arc::new(Tables::new(&self.engine, host));
        tables.register_marker(host)?;
        tables.session.attach();
        tables.register_views(host)?;
        let connection = Connection::new(sqlite, tables, host);
        // The program may create tables of its own on this connection.
        connection.has_others.set(true);
        connection.reload()?;
        Ok(connection)
    }
}

impl fmt::Debug for Sql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sql").field("database", &self.engine.db).finish_non_exhaustive()
    }
}

/// A connection, with one transaction at a time. It is `Send`, but not `Sync`: use one for each thread. Connections can
/// write at the same time.
///
/// A statement outside of a transaction is a transaction by itself. If it conflicts with another connection, it runs
/// again, up to 8 times, the last two times while other writers wait. Within `BEGIN`, a conflict is an error of
/// `COMMIT` with the code `SQLITE_BUSY_SNAPSHOT` ([`crate::Error::is_conflict`]): run the transaction again.
pub struct Connection {
    // It is the first field, so that it is closed before what its tables refer to is dropped.
    pub(crate) sqlite: machine::Connection,
    pub(crate) tables: Arc<Tables>,
    pub(crate) host: Host,
    pub(crate) asked: Asked,
    pub(crate) is_confined: bool,
    pub(crate) read_texts: ReadTexts,
    /// Whether tables of SQLite's own may have been made or attached.
    pub(crate) has_others: Cell<bool>,
    /// The generation of the tables for which statements were kept.
    pub(crate) kept_since: Cell<u64>,
    /// The tables of SQLite's own when a statement was last prepared.
    others: RefCell<Arc<Others>>,
    /// The value of `changes()` after a statement in steps; -1: SQLite's own count.
    changes: Arc<AtomicI64>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("database", &self.tables.engine.db).finish_non_exhaustive()
    }
}

/// A handle that stops a statement of a connection from another thread.
pub struct Interrupt(machine::InterruptHandle);

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interrupt")
    }
}

impl Interrupt {
    /// Stops the running statement. The statement fails with [`crate::Error::is_interrupted`], and its own transaction
    /// is rolled back.
    pub fn interrupt(&self) {
        self.0.interrupt();
    }
}

impl Connection {
    fn new(sqlite: machine::Connection, tables: Arc<Tables>, host: Host) -> Self {
        Connection {
            sqlite,
            tables,
            host,
            asked: Asked::default(),
            is_confined: false,
            read_texts: ReadTexts::default(),
            has_others: Cell::new(false),
            kept_since: Cell::new(0),
            others: RefCell::default(),
            changes: Arc::new(AtomicI64::new(-1)),
        }
    }

    /// Makes `changes()` count statements in steps as it counts others.
    fn count_changes(&self) -> Result<()> {
        let (steps, host) = (Arc::clone(&self.changes), self.host);
        // Relaxed: it is stored by this connection, which one thread uses at a time.
        let changes = move || match steps.load(Ordering::Relaxed) {
            -1 => host.changes(),
            changes => changes,
        };
        machine::count_changes(&self.sqlite, changes)
    }

    /// Notes how many rows a statement in steps has changed; `None` for other statements.
    pub(crate) fn note_changes(&self, of_steps: Option<u64>) {
        let changes = of_steps.map_or(-1, |changes| i64::try_from(changes).unwrap_or(i64::MAX));
        // Relaxed: see where it is read.
        self.changes.store(changes, Ordering::Relaxed);
    }

    /// Returns the value of `changes()`.
    pub(crate) fn noted_changes(&self) -> Option<u64> {
        // Relaxed: see where it is stored.
        match self.changes.load(Ordering::Relaxed) {
            -1 => u64::try_from(self.host.changes()).ok(),
            changes => u64::try_from(changes).ok(),
        }
    }

    /// Returns how many rows a statement has changed that began with this value of `total_changes`, without those that
    /// its triggers and foreign keys have changed. SQLite counts all of them in that value.
    pub(crate) fn changes_since(&self, total_before: u64) -> u64 {
        if self.sqlite.total_changes() == total_before { 0 } else { self.sqlite.changes() }
    }

    /// Returns SQLite's own tables as they are now. If they have changed, prepared statements are dropped.
    pub(crate) fn others(&self) -> Result<Arc<Others>> {
        if self.has_others.get() {
            let now = Others::read(&self.sqlite)?;
            if now != **self.others.borrow() {
                self.names_changed();
                *self.others.borrow_mut() = Arc::new(now);
            }
        }
        Ok(Arc::clone(&self.others.borrow()))
    }

    /// Returns SQLite's own tables as they were when [`Connection::others`] was called last.
    pub(crate) fn known_others(&self) -> Arc<Others> {
        Arc::clone(&self.others.borrow())
    }

    /// Notes that names may stand for other tables, because tables of SQLite's own were made, dropped or attached.
    pub(crate) fn names_changed(&self) {
        self.has_others.set(true);
        self.sqlite.flush_prepared_statement_cache();
        self.tables.forget_plans();
    }

    /// Sets the isolation and durability of transactions that begin from now on.
    pub fn set_transaction_options(&self, options: TransactionOptions) {
        #[cfg(not(feature = "loadable"))]
        self.sqlite.set_transaction_options(options);
        #[cfg(feature = "loadable")]
        self.session().set_options(options);
    }

    /// Makes the connection read-only, or ends that. On a read-only connection, statements that write fail with
    /// `SQLITE_READONLY`, and transactions that begin are snapshots.
    pub fn set_read_only(&self, read_only: bool) {
        #[cfg(not(feature = "loadable"))]
        self.sqlite.set_read_only(read_only);
        self.session().set_read_only(read_only);
    }

    /// Returns a handle that stops a running statement.
    pub fn interrupt_handle(&self) -> Interrupt {
        Interrupt(self.sqlite.get_interrupt_handle())
    }

    /// Calls `stop` about every 100,000 steps of a running statement, and every thousand rows of a `CREATE INDEX`.
    /// After it returns `true`, the statement fails with [`crate::Error::is_interrupted`]. Use it for time limits and
    /// to show progress. `None` ends the calls.
    pub fn on_progress(&mut self, stop: Option<impl FnMut() -> bool + Send + 'static>) -> Result<()> {
        const STEPS: i32 = 100_000;
        self.ask(STEPS, stop.map(|stop| Box::new(stop) as Stop))
    }

    /// Returns whether no explicit transaction is open.
    pub fn is_autocommit(&self) -> bool {
        self.sqlite.is_autocommit()
    }

    /// Returns the id of the row that was inserted last.
    pub fn last_insert_row_id(&self) -> i64 {
        self.sqlite.last_insert_rowid()
    }

    /// Runs a statement to its end, with `parameters` for its `?`. Returns the number of rows that it inserted, updated
    /// or deleted.
    ///
    /// # Errors
    /// An [`Error`](crate::Error) with SQLite's result code: of a syntax error, a constraint, a conflict, or the
    /// engine.
    pub fn execute(&self, sql: &str, parameters: &[Value]) -> Result<u64> {
        self.prepare(sql)?.execute(parameters)
    }

    /// Runs statements one after another, and stops at the first one that fails. The effects of the statements before
    /// it remain.
    pub fn execute_batch(&self, mut sql: &str) -> Result<()> {
        while let Some(first) = lexer::split_first(sql) {
            self.execute(first.statement, &[])?;
            sql = first.rest;
        }
        Ok(())
    }

    /// Returns all rows of a query, each as the values of its columns.
    pub fn query(&self, sql: &str, parameters: &[Value]) -> Result<Vec<Vec<Value>>> {
        let mut statement = self.prepare(sql)?;
        let mut rows = statement.query(parameters)?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            all.push((0..row.len()).map(|column| to_owned(row.get(column))).collect());
        }
        Ok(all)
    }

    /// Returns the tables and views that the current transaction sees, ordered by name.
    pub fn tables(&self) -> Result<Vec<TableSchema>> {
        self.reload()?;
        let schema = |table: &Arc<SqlTable>| TableSchema {
            name: table.name().to_owned(),
            columns: table.columns.iter().map(|column| column.name.clone()).collect(),
            create: table.create_statement(),
            indexes: table.index_statements(),
            triggers: Vec::new(),
        };
        let mut all: Vec<_> = self.tables.known().tables.iter().map(schema).collect();
        all.extend(machine::own_tables(&self.sqlite)?);
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }

    pub(crate) fn session(&self) -> &Session {
        &self.tables.session
    }

    /// Runs `work` atomically: in a transaction of its own, which is repeated after a conflict, or within the open one.
    ///
    /// What undoes it is prepared first: after it was interrupted, or has run out of memory, nothing can be.
    pub(crate) fn atomically<T>(&self, work: impl FnMut() -> Result<T>) -> Result<T> {
        self.atomically_unless(|_| false, work)
    }

    /// Runs `work` atomically, as [`Connection::atomically`] does, except that an error for which `keeps` returns
    /// `true` undoes nothing, as with `OR FAIL`.
    pub(crate) fn atomically_unless<T>(
        &self,
        keeps: impl Fn(&Error) -> bool,
        mut work: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let is_kept = |done: &Result<T>| done.as_ref().err().is_none_or(&keeps);
        if !self.is_autocommit() {
            let mut undo = self.control("ROLLBACK TO pando_statement")?;
            let mut release = self.control("RELEASE pando_statement")?;
            let mut save = self.control("SAVEPOINT pando_statement")?;
            machine::run(&mut save)?;
            let done = work();
            if !is_kept(&done) && !self.is_autocommit() {
                self.run_uninterrupted(&mut undo)?;
            }
            if !self.is_autocommit() {
                self.run_uninterrupted(&mut release)?;
            }
            return done;
        }
        let mut undo = self.control("ROLLBACK")?;
        let [mut begin, mut commit] = [self.control("BEGIN")?, self.control("COMMIT")?];
        self.repeating(|| {
            machine::run(&mut begin)?;
            let mut done = work();
            if done.is_ok() || is_kept(&done) && !self.is_autocommit() {
                done = machine::run(&mut commit).and(done);
            }
            if done.is_err() && !self.is_autocommit() {
                self.run_uninterrupted(&mut undo)?;
                if matches!(&done, Err(error) if error.is_conflict()) {
                    // An interrupt or the end of the time ends the next attempt before it begins.
                    self.go_on()?;
                }
            }
            done
        })
    }

    /// Runs `work`, which is one transaction unless one is open, and repeats it after conflicts.
    pub(crate) fn repeating<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        if self.is_autocommit() { machine::repeating(&self.sqlite, work) } else { work() }
    }

    /// Runs a statement that ends a transaction or a part of it, whatever interrupts the connection meanwhile. An
    /// interrupt stops other statements as before.
    fn run_uninterrupted(&self, statement: &mut CachedStatement<'_>) -> Result<()> {
        #[cfg(not(feature = "loadable"))]
        {
            let mut is_interrupted = false;
            let done = loop {
                if self.sqlite.is_interrupted() {
                    is_interrupted = true;
                    self.sqlite.forget_interrupt();
                }
                match machine::run(statement) {
                    // The next one can arrive before the statement begins.
                    Err(error) if error.is_interrupted() && !self.is_autocommit() => is_interrupted = true,
                    done => break done,
                }
            };
            if is_interrupted {
                self.sqlite.get_interrupt_handle().interrupt();
            }
            done
        }
        #[cfg(feature = "loadable")]
        machine::run(statement)
    }

    fn control(&self, sql: &str) -> Result<CachedStatement<'_>> {
        machine::prepare_kept(&self.sqlite, sql)
    }
}

/// The definition of a table or a view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableSchema {
    /// The name of the table or view.
    pub name: String,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The statement `CREATE TABLE ...`, `CREATE VIRTUAL TABLE ...` or `CREATE VIEW ...`.
    pub create: String,
    /// The `CREATE INDEX` statements of its indexes.
    pub indexes: Vec<String>,
    /// The `CREATE TRIGGER` statements of its triggers.
    pub triggers: Vec<String>,
}
