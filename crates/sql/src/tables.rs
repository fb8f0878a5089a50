//! The tables that a connection knows, and their shared state: the session, and a scratch database for `CHECK`.

use crate::catalog::{Catalog, Engine};
use crate::error::Result;
use crate::failure::{Failure, Outcome};
use crate::introspect::{PREFIX as VIEW_PREFIX, Shadow, VIEWS, ViewConnector};
use crate::machine::{self, Connection};
use crate::marker::MarkerConnector;
use crate::others::Others;
use crate::plain::is_plain;
use crate::session::{MARKER, Session, Source, with_reader};
use crate::table::Connector;
use crate::vtab::{self, Host};
use pando::Conflict;
use pando::any::AnySnapshot;
use rusqlite::ffi;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The largest number of bytes of a key that a message shows, if the key is not a row's.
const SHOWN_KEY_BYTES: usize = 32;

/// The flag beside a cookie that is good for one transaction alone.
const WITHIN: u64 = 1 << 32;

/// The shared state of a connection's tables.
pub(crate) struct Tables {
    pub engine: Arc<Engine>,
    pub session: Session,
    known: Mutex<Arc<Catalog>>,
    /// The cookie of `known`, and [`WITHIN`] if that was read within a transaction: each statement asks for it.
    known_cookie: AtomicU64,
    /// Counts how often the tables were read.
    generation: AtomicU64,
    checker: Mutex<Option<Connection>>,
    /// See `introspect.rs`.
    pub shadow: Mutex<Option<Arc<Shadow>>>,
    has_views: AtomicBool,
    /// The statement that is being prepared, if it is one of this connection's, and the names of SQLite's own tables.
    preparing: Mutex<(String, Arc<Others>)>,
    /// The generation for which the running statement was planned, plus one; 0 if there is none. See
    /// [`Tables::by_plan`].
    plan: AtomicU64,
    /// Whether a row was refused because the tables have another generation now.
    is_plan_old: AtomicBool,
}

impl Tables {
    pub fn new(engine: &Arc<Engine>, host: Host) -> Self {
        Tables {
            engine: Arc::clone(engine),
            session: Session::new(engine.db.clone(), host),
            known: Mutex::default(),
            known_cookie: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            checker: Mutex::default(),
            shadow: Mutex::default(),
            has_views: AtomicBool::new(false),
            preparing: Mutex::default(),
            plan: AtomicU64::new(0),
            is_plan_old: AtomicBool::new(false),
        }
    }

    /// Returns the catalog that the connection knows.
    pub fn known(&self) -> Arc<Catalog> {
        Arc::clone(&self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the generation: how often tables were read. What was connected before is stale.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Runs a statement that was made for the tables of a generation, such as an `INSERT` with the omitted columns
    /// added. SQLite would prepare it again unchanged after a table was changed. Returns `None` if it must be planned
    /// again; no row was written then.
    pub fn by_plan<T>(
        &self,
        generation: u64,
        run: impl FnOnce() -> crate::Result<T>,
    ) -> Option<crate::Result<T>> {
        if generation != self.generation() {
            return None;
        }
        // Relaxed, here and where it is read, in callbacks on this thread.
        self.plan.store(generation + 1, Ordering::Relaxed);
        let done = run();
        self.plan.store(0, Ordering::Relaxed);
        let is_old = self.is_plan_old.swap(false, Ordering::Relaxed);
        if is_old && done.is_err() { None } else { Some(done) }
    }

    /// Checks that the running statement was planned for the current generation.
    #[inline]
    pub fn check_plan(&self) -> Outcome {
        // Relaxed: stored by `by_plan` on this thread.
        let plan = self.plan.load(Ordering::Relaxed);
        if plan == 0 || plan == self.generation() + 1 { Ok(()) } else { Err(self.plan_is_old()) }
    }

    #[cold]
    fn plan_is_old(&self) -> Failure {
        // Relaxed: read by `by_plan` on this thread.
        self.is_plan_old.store(true, Ordering::Relaxed);
        Failure::new(
            ffi::SQLITE_ABORT,
            "tables were changed after the statement was planned; prepare it again",
        )
    }

    /// Returns a snapshot of the last acknowledged commit, for estimates.
    pub fn latest_snapshot(&self) -> pando::Result<AnySnapshot> {
        self.engine.db.snapshot()
    }

    /// Registers the table by which reading transactions participate.
    pub fn register_marker(self: &Arc<Self>, host: Host) -> Outcome {
        vtab::register(host, MARKER, Box::new(MarkerConnector(Arc::clone(self))))
    }

    /// Registers the views that describe tables, once.
    pub fn register_views(self: &Arc<Self>, host: Host) -> Outcome {
        if self.has_views.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        VIEWS.iter().try_for_each(|view| {
            let connector = ViewConnector { tables: Arc::clone(self), view };
            vtab::register(host, &format!("{VIEW_PREFIX}{}", view.name), Box::new(connector))
        })
    }

    /// Notes that a statement is going to be prepared; an empty text notes the end.
    pub fn preparing(&self, sql: &str, others: &Arc<Others>) {
        let mut preparing = self.preparing.lock().unwrap_or_else(PoisonError::into_inner);
        preparing.0.clear();
        preparing.0.push_str(sql);
        preparing.1 = Arc::clone(others);
    }

    /// Returns whether the statement that is being prepared compares columns only with plain values: see `plain.rs`.
    pub fn prepares_plain(&self) -> bool {
        let preparing = self.preparing.lock().unwrap_or_else(PoisonError::into_inner);
        let (sql, others) = &*preparing;
        let known = self.known();
        let is_typed = |name: &str| known.find(name).is_some() && !others.is_temporary(name);
        !sql.is_empty() && is_plain(sql, is_typed)
    }

    /// Makes statements that were planned before be planned again, because names may stand for other tables.
    pub fn forget_plans(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes over the catalog that another connection has read. Returns whether it is new. A transaction can see older
    /// tables, and reads them itself.
    pub fn take_latest(self: &Arc<Self>, host: Host) -> Outcome<bool> {
        if !host.is_autocommit() {
            return Ok(false);
        }
        match self.engine.latest() {
            Some(latest) if !Arc::ptr_eq(&latest, &self.known()) => self.learn(host, latest).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Reads the catalog again, as the current transaction sees it, and registers exactly its tables with SQLite.
    pub fn reload(self: &Arc<Self>, host: Host) -> Outcome {
        let loaded = self.session.read(|source| {
            let within = within(&source);
            let loaded = with_reader!(source, reader => self.engine.load(reader))?;
            let loaded = Arc::new(Catalog { within, ..loaded });
            if within.is_none() {
                self.engine.publish(&loaded);
            }
            Ok(loaded)
        })?;
        self.learn(host, loaded)
    }

    /// Commits. The error of a conflict names SQL's table and key.
    pub fn sync(&self) -> Outcome {
        self.session.sync().map_err(|error| {
            let conflict = Conflict::in_error(&error);
            let place = conflict.and_then(|conflict| Some((conflict.table()?, conflict.key())));
            match place.and_then(|(table, key)| self.in_words_of_sql(table, key)) {
                Some((_, message)) => Failure { message, ..Failure::from(error) },
                None => Failure::from(error),
            }
        })
    }

    /// Returns the table of SQL to which a table of the engine belongs, and the message of a conflict there: the table
    /// or the index, and the values of the key. `None`: typed tables do not consist of it.
    pub fn in_words_of_sql(&self, name: &str, key: Option<&[u8]>) -> Option<(String, String)> {
        let known = self.known();
        for table in &known.tables {
            let in_rows = table.rows.data().name() == name;
            let in_index = table.rows.schema().indexes().iter().map(rows::Index::name).find(|index| {
                !in_rows && table.rows.index_data(index).is_some_and(|data| data.name() == name)
            });
            let place = match in_index {
                Some(index) => format!("index {index} of table {}", table.name()),
                None if in_rows => format!("table {}", table.name()),
                None => continue,
            };
            let named = |message| Some((table.name().to_owned(), message));
            let Some(key) = key else {
                return named(format!(
                    "conflict about {place}: another transaction created or dropped it after this one began"
                ));
            };
            let values = if in_rows { table.rows.read_key(key) } else { None };
            let key = match values {
                Some(values) => {
                    format!("({})", values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
                }
                None => shown(key),
            };
            return named(format!(
                "conflict in {place} at key {key}: another transaction changed it after this one began"
            ));
        }
        None
    }

    /// Returns whether the current transaction sees typed tables, known or not.
    pub fn are_any(&self) -> Outcome<bool> {
        self.session
            .read(|source| Ok(with_reader!(source, reader => rows::DynamicTable::any_created(reader))?))
    }

    /// Returns whether SQLite may have changed a definition since the tables were read: a name may stand for one of its
    /// own tables now, or for none of them any longer. The cookie of a change that was undone is given again, to
    /// another change, so one that was read within a transaction is good for that transaction alone.
    #[cfg(not(feature = "loadable"))]
    pub fn are_old(&self) -> Outcome<bool> {
        // Relaxed: stored by `learn`, with which this takes turns.
        let known = self.known_cookie.load(Ordering::Relaxed);
        if known & WITHIN != 0 {
            let within_known = self.known().within;
            if self.session.read(|source| Ok(within_known != within(&source)))? {
                return Ok(true);
            }
        }
        Ok(known & !WITHIN != u64::from(self.session.schema_cookie()?))
    }

    /// Returns false: another program's SQLite has no tables of the same names.
    #[cfg(feature = "loadable")]
    #[allow(clippy::unused_self, reason = "the other machine looks")]
    pub fn are_old(&self) -> Outcome<bool> {
        Ok(false)
    }

    fn learn(self: &Arc<Self>, host: Host, catalog: Arc<Catalog>) -> Outcome {
        let known = self.known();
        // Otherwise no name stands for another table than before.
        if known.cookie != catalog.cookie || !known.tables.is_empty() || !catalog.tables.is_empty() {
            self.generation.fetch_add(1, Ordering::SeqCst);
        }
        for table in known.tables.iter().filter(|table| catalog.find(table.name()).is_none()) {
            vtab::unregister(host, table.name())?;
        }
        for table in &catalog.tables {
            let (table, tables) = (Arc::clone(table), Arc::clone(self));
            let name = table.name().to_owned();
            vtab::register(host, &name, Box::new(Connector { table, tables }))?;
        }
        host.forget_view_columns();
        let is_within = if catalog.within.is_some() { WITHIN } else { 0 };
        // Relaxed: see where it is read.
        self.known_cookie.store(u64::from(catalog.cookie) | is_within, Ordering::Relaxed);
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = catalog;
        // Its tables have the constraints that were known before.
        *self.checker.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }

    /// Returns the database in memory that checks constraints.
    pub fn checker(&self) -> Result<Checker<'_>> {
        let mut held = self.checker.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            *held = Some(machine::alone()?);
        }
        Ok(Checker(held))
    }
}

/// Returns what stands for the state after which a transaction began, if it is one.
fn within(source: &Source<'_>) -> Option<u64> {
    match source {
        Source::Snapshot(_) => None,
        Source::Transaction(transaction) => Some(transaction.begun_at()),
    }
}

/// Returns the bytes of a key for a message, in hexadecimal, and shortened if the key is long.
fn shown(key: &[u8]) -> String {
    let bytes = &key[..key.len().min(SHOWN_KEY_BYTES)];
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    if bytes.len() < key.len() {
        format!("0x{digits}... ({} bytes)", key.len())
    } else {
        format!("0x{digits}")
    }
}

/// The database in memory that checks constraints.
pub(crate) struct Checker<'a>(MutexGuard<'a, Option<Connection>>);

impl std::ops::Deref for Checker<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.0.as_ref().expect("it was just opened")
    }
}
