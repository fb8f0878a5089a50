//! Opening a database with a builder's options.

use super::Database;
use crate::builder::{self, Builder};
use crate::options::Setting;
use base::{Error, ErrorKind, Result};
use io::{Dir, MemDir, OsDir};
use std::path::Path;
use std::sync::Arc;

impl Builder {
    /// Opens the database in the directory `path`, or creates it, including parent directories.
    ///
    /// # Errors
    /// `Locked` if another process (or this one) has the database open; `Mismatch` if an option contradicts the
    /// stored value; `Foreign` or `Corruption` if the files are not a valid database; `Invalid` with
    /// [`Builder::read_only`].
    pub fn create(mut self, path: impl AsRef<Path>) -> Result<Database> {
        self.check_may_create()?;
        self.options.admits_readers = true;
        self.start(Arc::new(OsDir::create(path.as_ref())?), true)
    }

    /// Opens the existing database in the directory `path`.
    ///
    /// # Errors
    /// `Missing` if there is no database; otherwise as for [`Builder::create`].
    pub fn open(mut self, path: impl AsRef<Path>) -> Result<Database> {
        self.options.admits_readers = true;
        self.start(Arc::new(OsDir::open(path.as_ref())?), false)
    }

    /// Creates a database in memory only. Its contents are lost when the last handle is dropped.
    pub fn in_memory(self) -> Result<Database> {
        self.start(Arc::new(MemDir::new()), true)
    }

    /// Creates or opens a database in any directory that implements [`Dir`]. Tests use it.
    #[doc(hidden)]
    pub fn create_in(self, dir: Arc<dyn Dir>) -> Result<Database> {
        self.start(dir, true)
    }

    /// Opens an existing database in any directory that implements [`Dir`]. Tests use it.
    #[doc(hidden)]
    pub fn open_in(self, dir: Arc<dyn Dir>) -> Result<Database> {
        self.start(dir, false)
    }

    fn check_may_create(&self) -> Result<()> {
        if self.options.read_only {
            return Err(Error::invalid(
                "cannot create a database read-only; use open, or leave out read_only",
            ));
        }
        Ok(())
    }

    fn start(self, dir: Arc<dyn Dir>, create: bool) -> Result<Database> {
        if create {
            self.check_may_create()?;
        }
        builder::check(&self)?;
        #[cfg(feature = "tracing")]
        crate::trace::begin();
        let open = if create { store::open_or_create } else { store::open };
        match open(Arc::clone(&dir), &self.options) {
            Err(error) if self.options.read_only && error.kind() == ErrorKind::Locked => {
                let (store, follower) = store::beside::open(dir, &self.options)?;
                Database::follow(store, follower, self)
            }
            opened => {
                let store = opened?;
                // A reader that cannot register with a writer keeps writers out.
                let stands_by = self.options.read_only && self.options.admits_readers;
                let follower = match stands_by {
                    true => store::beside::stand_by(&store, dir, &self.options)?,
                    false => None,
                };
                match follower {
                    Some(follower) => Database::follow(store, follower, self),
                    None => Database::start(store, self),
                }
            }
        }
    }

    /// Returns the value that each option would have if `db`'s directory were opened with this builder, or, with
    /// `None`, if a new database were created with it. A value was set, is stored, or is computed from this machine and
    /// other options.
    ///
    /// # Errors
    /// `Invalid` if an option is out of its range; those of [`Database::stats`].
    pub fn settings(&self, db: Option<&Database>) -> Result<Vec<Setting>> {
        builder::check(self)?;
        let stats = db.map(Database::stats).transpose()?;
        Ok(self.settings_with(stats.as_ref()))
    }
}
