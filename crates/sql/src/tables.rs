//! The tables that a connection knows, and what they share: its session, and a scratch database for `CHECK`.

use crate::catalog::{Catalog, Engine};
use crate::confine;
use crate::failure::{Failure, Outcome};
use crate::introspect::{PREFIX as VIEW_PREFIX, Shadow, VIEWS, ViewConnector};
use crate::marker::MarkerConnector;
use crate::plain::is_plain;
use crate::session::{MARKER, Session, Source, with_reader};
use crate::table::Connector;
use crate::vtab::{self, Host};
use pando::Snapshot;
use rusqlite::ffi;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the tables of a connection share.
pub(crate) struct Tables {
    pub engine: Arc<Engine>,
    pub session: Session,
    known: Mutex<Arc<Catalog>>,
    /// Counts what was learned.
    generation: AtomicU64,
    checker: Mutex<Option<rusqlite::Connection>>,
    /// See `introspect.rs`.
    pub shadow: Mutex<Option<Arc<Shadow>>>,
    has_views: AtomicBool,
    /// The statement that is being prepared, if it is one of this connection's.
    preparing: Mutex<String>,
    /// By which generation the statement that runs was planned, and one; 0 if it was by none. See [`Tables::by_plan`].
    plan: AtomicU64,
    /// Whether a row was refused because another generation is known by now.
    is_plan_old: AtomicBool,
}

impl Tables {
    pub fn new(engine: &Arc<Engine>) -> Self {
        Tables {
            engine: Arc::clone(engine),
            session: Session::new(engine.db.clone()),
            known: Mutex::default(),
            generation: AtomicU64::new(0),
            checker: Mutex::default(),
            shadow: Mutex::default(),
            has_views: AtomicBool::new(false),
            preparing: Mutex::default(),
            plan: AtomicU64::new(0),
            is_plan_old: AtomicBool::new(false),
        }
    }

    /// What the connection knows.
    pub fn known(&self) -> Arc<Catalog> {
        Arc::clone(&self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How often tables were learned: what was connected before is out of date.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Runs a statement that was made for the tables of a generation, as an `INSERT` is that names the columns it
    /// leaves out: SQLite would prepare it anew once a table was changed, word for word. `None`: no row was written, by
    /// no fault of its own, and it is to be planned again.
    pub fn by_plan<T>(
        &self,
        generation: u64,
        run: impl FnOnce() -> crate::Result<T>,
    ) -> Option<crate::Result<T>> {
        if generation != self.generation() {
            return None;
        }
        // Relaxed, here and where it is read: that is in callbacks, on this very thread.
        self.plan.store(generation + 1, Ordering::Relaxed);
        let done = run();
        self.plan.store(0, Ordering::Relaxed);
        let is_old = self.is_plan_old.swap(false, Ordering::Relaxed);
        if is_old && done.is_err() { None } else { Some(done) }
    }

    /// That the statement that runs was not planned by what was known before.
    #[inline]
    pub fn check_plan(&self) -> Outcome {
        // Relaxed: stored by `by_plan`, on this very thread.
        let plan = self.plan.load(Ordering::Relaxed);
        if plan == 0 || plan == self.generation() + 1 { Ok(()) } else { Err(self.plan_is_old()) }
    }

    #[cold]
    fn plan_is_old(&self) -> Failure {
        // Relaxed: read by `by_plan`, on this very thread.
        self.is_plan_old.store(true, Ordering::Relaxed);
        Failure::new(
            ffi::SQLITE_ABORT,
            "tables were changed after the statement was planned; prepare it again",
        )
    }

    /// What was acknowledged last, for estimates.
    pub fn latest_snapshot(&self) -> pando::Result<Snapshot> {
        self.engine.db.snapshot()
    }

    /// Makes the table known that reading transactions take part with.
    pub fn register_marker(self: &Arc<Self>, host: Host) -> Outcome {
        vtab::register(host, MARKER, Box::new(MarkerConnector(Arc::clone(self))))
    }

    /// Makes what describes tables known, once.
    pub fn register_views(self: &Arc<Self>, host: Host) -> Outcome {
        if self.has_views.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        VIEWS.iter().try_for_each(|view| {
            let connector = ViewConnector { tables: Arc::clone(self), view };
            vtab::register(host, &format!("{VIEW_PREFIX}{}", view.name), Box::new(connector))
        })
    }

    /// A statement is going to be prepared; an empty one: it was.
    pub fn preparing(&self, sql: &str) {
        let mut preparing = self.preparing.lock().unwrap_or_else(PoisonError::into_inner);
        preparing.clear();
        preparing.push_str(sql);
    }

    /// Whether what is being prepared compares columns with plain values alone: see `plain.rs`.
    pub fn prepares_plain(&self) -> bool {
        let preparing = self.preparing.lock().unwrap_or_else(PoisonError::into_inner);
        !preparing.is_empty() && is_plain(&preparing)
    }

    /// Has statements that were planned before be planned again: names may stand for other tables than they did.
    pub fn forget_plans(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes over what another connection has read. Answers whether that is anything new.
    pub fn take_latest(self: &Arc<Self>, host: Host) -> Outcome<bool> {
        match self.engine.latest() {
            Some(latest) if !Arc::ptr_eq(&latest, &self.known()) => self.learn(host, latest).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Reads the catalog again, as the current transaction sees it, and makes SQLite know its tables and no others.
    pub fn reload(self: &Arc<Self>, host: Host) -> Outcome {
        let loaded = self.session.read(|source| {
            let is_committed = matches!(source, Source::Snapshot(_));
            let loaded = with_reader!(source, reader => self.engine.load(reader))?;
            if is_committed {
                self.engine.publish(&loaded);
            }
            Ok(loaded)
        })?;
        self.learn(host, loaded)
    }

    /// Commits. A conflict is told in the words of SQL.
    pub fn sync(&self) -> Outcome {
        self.session.sync().map_err(|failure| match failure.code {
            ffi::SQLITE_BUSY_SNAPSHOT => {
                Failure { message: self.in_words_of_sql(&failure.message), ..failure }
            }
            _ => failure,
        })
    }

    /// `conflict in table "rows/1.1/t" at key 0x...: ...`: which table of SQL that is, or which index, and which key.
    fn in_words_of_sql(&self, message: &str) -> String {
        let told = || {
            let (engine_name, rest) =
                message.strip_prefix("conflict in table \"")?.split_once("\" at key ")?;
            let (key, why) = rest.split_once(": ")?;
            let known = self.known();
            let of_rows = known.tables.iter().find(|table| table.rows.data().name() == engine_name);
            if let Some(table) = of_rows {
                let values = bytes_of(key).and_then(|bytes| {
                    let values = table.rows.read_key(&bytes)?;
                    Some(values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
                });
                let key = values.map_or(key.to_owned(), |values| format!("({values})"));
                return Some(format!("conflict in table {} at key {key}: {why}", table.name()));
            }
            known.tables.iter().find_map(|table| {
                let is_it = |index: &&rows::Index| {
                    table.rows.index_data(index.name()).is_some_and(|data| data.name() == engine_name)
                };
                let index = table.rows.schema().indexes().iter().find(is_it)?;
                Some(format!(
                    "conflict in index {} of table {} at key {key}: {why}",
                    index.name(),
                    table.name()
                ))
            })
        };
        told().unwrap_or_else(|| message.to_owned())
    }

    fn learn(self: &Arc<Self>, host: Host, catalog: Arc<Catalog>) -> Outcome {
        self.generation.fetch_add(1, Ordering::SeqCst);
        let known = self.known();
        for table in known.tables.iter().filter(|table| catalog.find(table.name()).is_none()) {
            vtab::unregister(host, table.name())?;
        }
        for table in &catalog.tables {
            let (table, tables) = (Arc::clone(table), Arc::clone(self));
            let name = table.name().to_owned();
            vtab::register(host, &name, Box::new(Connector { table, tables }))?;
        }
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = catalog;
        // Its tables are of the constraints that were known so far.
        *self.checker.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }

    /// Runs `with` on the database in memory that checks constraints.
    pub fn checker(&self) -> Outcome<Checker<'_>> {
        let mut held = self.checker.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            *held = Some(confine::alone()?);
        }
        Ok(Checker(held))
    }
}

/// The bytes that a message shows in hexadecimal.
fn bytes_of(shown: &str) -> Option<Vec<u8>> {
    let digits = shown.strip_prefix("0x")?.as_bytes();
    let pairs = digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    pairs.collect()
}

/// The database in memory that checks constraints.
pub(crate) struct Checker<'a>(MutexGuard<'a, Option<rusqlite::Connection>>);

impl std::ops::Deref for Checker<'_> {
    type Target = rusqlite::Connection;

    fn deref(&self) -> &rusqlite::Connection {
        self.0.as_ref().expect("it was just opened")
    }
}
