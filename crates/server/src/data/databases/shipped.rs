//! Shipping the databases, and making those of a replica a primary's. A database that was closed before the bucket had
//! everything is opened again: see [`unreleased`](crate::data::unreleased).

use super::Databases;
use crate::data::open::Open;
use crate::data::places::Place;
use crate::shipping::{Ship, Shipping};
use crate::wire::problem::{Answer, Problem};
use axum::http::StatusCode;
use pando::{Database, Error, ErrorKind, Result};

impl Databases {
    /// Makes every open database accept writes, and begins to ship it if databases are shipped. It is called after the
    /// server has become a primary. After an error it can be called again.
    pub fn begin_writing(&self) -> Answer<()> {
        for name in self.names()? {
            // The gate is waited for: a database that is just being opened may have been opened as a replica's.
            self.at_gate(&name, |place| match place.open() {
                Some(open) => self.begin_writing_to(place, &open),
                None => Ok(()),
            })?;
        }
        Ok(())
    }

    fn begin_writing_to(&self, place: &Place, open: &Open) -> Answer<()> {
        // It is shipped before it accepts writes: in sync mode, a write waits for the bucket.
        if let Some(shipping) = self.shipping.as_ref().filter(|_| open.ship().is_none()) {
            open.set_ship(self.begin_to_ship(&**shipping, &place.name, &open.db)?);
        }
        open.db.set_replica(false);
        Ok(())
    }

    /// Refuses a new database if another server has replaced this one: a lineage that does not exist is not fenced.
    pub(super) fn check_not_replaced(&self) -> Answer<()> {
        for (_, open) in self.all_open() {
            let refusal = open.ship().and_then(|ship| ship.refusal());
            if let Some(error) = refusal.filter(|error| error.kind() == ErrorKind::Fenced) {
                return Err(replaced(&error));
            }
        }
        Ok(())
    }

    pub(super) fn begin_to_ship(
        &self,
        shipping: &dyn Shipping,
        name: &str,
        db: &Database,
    ) -> Result<Box<dyn Ship>> {
        self.unreleased.ship(name, || shipping.begin(name, db))
    }

    /// Returns how a primary ships, for the log: `sync`, `async` or `none`.
    pub fn ship_mode(&self) -> &'static str {
        match self.shipping.as_ref().map(|shipping| shipping.is_sync()) {
            Some(true) => "sync",
            Some(false) => "async",
            None => "none",
        }
    }

    /// Returns whether databases are shipped to a bucket, now or after a promotion.
    pub fn is_shipped(&self) -> bool {
        self.shipping.is_some()
    }

    /// Returns whether a write is acknowledged only when it is in the bucket.
    #[cfg(feature = "sql")]
    pub fn waits_for_bucket(&self) -> bool {
        self.shipping.as_ref().is_some_and(|shipping| shipping.is_sync())
    }

    /// Begins to ship each database by opening it: first those that were not released when they were last open. A
    /// database that cannot be opened is logged.
    pub fn begin_shipping(&self) -> Result<()> {
        if self.shipping.is_some() && !self.is_replica() {
            let mut names = self.names().map_err(Problem::into_error)?;
            self.unreleased.first(&mut names)?;
            // Databases beyond the limit of open ones are shipped when they are used, or when there is room for them.
            names.retain(|name| {
                let is_open = self.get_open(name).is_some();
                if is_open {
                    self.unreleased.give_up(name);
                }
                !is_open
            });
            let room = self.most_open.saturating_sub(self.all_open().len());
            for name in names.into_iter().take(room) {
                self.open_to_ship(&name);
            }
        }
        Ok(())
    }

    /// Opens one of the databases that were closed before the bucket had everything, which ships the rest. It is called
    /// every second.
    pub fn ship_unreleased(&self) {
        // Another one would be closed for it, which may be no better.
        if !self.is_memory_short()
            && let Some(name) = self.unreleased.next()
        {
            self.open_to_ship(&name);
        }
    }

    fn open_to_ship(&self, name: &str) {
        let opened = self.open(name);
        // Only if shipping has begun, it does not wait any more.
        self.unreleased.give_up(name);
        if let Err(problem) = opened {
            tracing::error!(database = %name, "it is not shipped: {}", problem.detail);
        }
    }

    /// Returns how many databases are closed although the bucket may lack commits of them.
    pub fn unreleased_count(&self) -> usize {
        self.unreleased.count()
    }
}

#[cold]
fn replaced(error: &Error) -> Problem {
    let detail = format!("no database is created on a server that was replaced: {error}");
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "fenced", detail)
}
