//! A database's tables: created, opened, changed and dropped, each in a transaction of its own.

use super::Database;
use base::{Error, ErrorKind, Result};
use std::time::Duration;
use store::ttl::Ttl;
use store::{Compression, RequestedLayout as Layout, Table};

/// The options of a table, all of which are stored with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableOptions {
    /// The layout of the table on disk.
    pub layout: Layout,
    /// The time that an entry lives after its put; `None` keeps entries until they are deleted.
    pub ttl: Option<Duration>,
    /// Whether each entry has a TTL of its own, instead of one TTL for the table.
    pub ttl_by_key: bool,
    /// The compression of the pages of an LSM table.
    pub compression: Compression,
}

impl TableOptions {
    /// Returns the default options with this layout.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// use pando::{Layout, TableOptions};
    /// let events = db.create_table("events", &TableOptions::with_layout(Layout::Lsm))?;
    /// assert_eq!(events.layout(), Layout::Lsm);
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_layout(layout: Layout) -> Self {
        TableOptions { layout, ..TableOptions::default() }
    }

    /// Sets how long entries live: `ttl`, at least 1 ms, after their put. Another put of the key starts the time again.
    ///
    /// An entry that has expired does not exist for a snapshot or transaction whose first read of a table with a TTL
    /// comes after that; later merges free its space. The time is that of the database's clock, in milliseconds; if the
    /// clock goes back, time stands still until the clock has caught up. A TTL costs 8 bytes for each entry. A table
    /// without a TTL has no such cost.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// use pando::{Clock, Database, TableOptions};
    /// use std::sync::atomic::Ordering;
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::set_by_hand(1_000_000);
    /// let db = Database::builder().clock(clock).in_memory()?;
    /// let options = TableOptions::default().ttl(Duration::from_secs(60));
    /// let sessions = db.create_table("sessions", &options)?;
    /// db.put(&sessions, b"ann", b"in")?;
    /// hand.fetch_add(59_999, Ordering::SeqCst);
    /// assert!(db.get(&sessions, b"ann")?.is_some());
    /// hand.fetch_add(1, Ordering::SeqCst);
    /// assert!(db.get(&sessions, b"ann")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        TableOptions { ttl: Some(ttl), ..self }
    }

    /// Gives each entry a TTL of its own, which [`put_with_ttl`](crate::Transaction::put_with_ttl) sets. Entries of
    /// every other put never expire. The option costs 8 bytes for each entry, and cannot be changed later. A table has
    /// either this option or [`TableOptions::ttl`].
    #[must_use]
    pub fn ttl_by_key(self) -> Self {
        TableOptions { ttl_by_key: true, ..self }
    }

    /// Returns the options' TTL as the store has it.
    pub(crate) fn lives(&self) -> Result<Option<Ttl>> {
        match (self.ttl, self.ttl_by_key) {
            (None, false) => Ok(None),
            (None, true) => Ok(Some(Ttl::BY_KEY)),
            (Some(ttl), false) => Ttl::new(ttl).map(Some),
            (Some(_), true) => Err(Error::invalid("a table has a TTL of its own or one by key, not both")),
        }
    }

    /// Sets the compression of leaves that merges write, for LSM tables only. Compression saves disk space, reads and
    /// writes, and costs a few microseconds each time a leaf is read from disk. Pages in memory are not compressed.
    /// Each leaf is compressed by itself, and stored uncompressed if it does not get shorter.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// use pando::{Compression, Layout, TableOptions};
    /// let options = TableOptions::with_layout(Layout::Lsm).compression(Compression::Lz4);
    /// let events = db.create_table("events", &options)?;
    /// for number in 0..10_000_u32 {
    ///     db.put(&events, &number.to_be_bytes(), b"{\"kind\": \"view\", \"page\": \"/\"}")?;
    /// }
    /// db.checkpoint()?;
    /// let stats = &db.table_stats()?[0];
    /// assert!(stats.saved_bytes > stats.stored_bytes);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn compression(self, compression: Compression) -> Self {
        TableOptions { compression, ..self }
    }

    /// Returns `table` if it has these options.
    pub(crate) fn check(&self, table: Table) -> Result<Table> {
        let name = table.name();
        let message = if table.layout() != self.layout {
            let (stored, asked) = (table.layout(), self.layout);
            format!(
                "table {name:?} has layout {stored}, but {asked} was asked for; change the layout of \
                 the table, or ask for the one that it has"
            )
        } else if table.has_ttl_by_key() != self.ttl_by_key {
            let named = |by_key| if by_key { "a TTL by key" } else { "no TTL by key" };
            let (stored, asked) = (named(table.has_ttl_by_key()), named(self.ttl_by_key));
            format!(
                "table {name:?} has {stored}, but {asked} was asked for; that cannot change, so copy the \
                 entries into another table"
            )
        } else if table.ttl() != self.ttl {
            let named =
                |ttl: Option<Duration>| ttl.map_or("no TTL".into(), |ttl| format!("a TTL of {ttl:?}"));
            let (stored, asked) = (named(table.ttl()), named(self.ttl));
            format!(
                "table {name:?} has {stored}, but {asked} was asked for; change the TTL of the \
                 table, or ask for the one that it has"
            )
        } else if table.compression() != self.compression {
            let (stored, asked) = (table.compression(), self.compression);
            format!(
                "table {name:?} has compression {stored}, but {asked} was asked for; change the \
                 compression of the table, or ask for the one that it has"
            )
        } else {
            return Ok(table);
        };
        Err(Error::new(ErrorKind::Mismatch, message))
    }
}

impl Database {
    /// Returns the table named `name`, or `None` if there is none. The call writes nothing. [`Database::create_table`]
    /// creates a table; [`Database::ensure_table`] opens or creates one.
    ///
    /// # Errors
    /// `Invalid` for a name that is empty or too long; `Closed`; errors of reading the disk.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// assert!(db.table("fruit")?.is_none());
    /// let created = db.create_table("fruit", &pando::TableOptions::default())?;
    /// assert_eq!(db.table("fruit")?.map(|found| found.id()), Some(created.id()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn table(&self, name: &str) -> Result<Option<Table>> {
        self.snapshot()?.table(name)
    }

    /// Creates a table with these options, in a transaction of its own.
    ///
    /// # Errors
    /// `Exists` if there is already a table of this name, whatever its options; `Invalid` for options that contradict
    /// each other, and for a name that is empty or too long; those of [`Database::write`].
    pub fn create_table(&self, name: &str, options: &TableOptions) -> Result<Table> {
        self.write(|tx| tx.create_table(name, options))
    }

    /// Returns the table named `name`, and creates it with the default options if it does not exist. An existing table
    /// is returned as it is, whatever its options. If the table exists, nothing is written, so the call then also works
    /// on a read-only database. If two threads call it at once, both get the same table.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// use pando::{Layout, TableOptions};
    /// db.create_table("events", &TableOptions::with_layout(Layout::Lsm))?;
    /// assert_eq!(db.ensure_table("events")?.layout(), Layout::Lsm, "it exists");
    /// assert_eq!(db.ensure_table("users")?.layout(), Layout::BTree, "it is new");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` for a name that is empty or too long; the errors of [`Database::write`] if the table must be created.
    pub fn ensure_table(&self, name: &str) -> Result<Table> {
        match self.table(name)? {
            Some(table) => Ok(table),
            None => self.write(|tx| tx.ensure_table(name)),
        }
    }

    /// Returns the table named `name`, and creates it with these options if it does not exist. An existing table must
    /// have exactly these options: the call never changes a table. Nothing is written if the table exists.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// use pando::{ErrorKind, Layout, TableOptions};
    /// let options = TableOptions::with_layout(Layout::Lsm);
    /// let events = db.ensure_table_with("events", &options)?;
    /// assert_eq!(db.ensure_table_with("events", &options)?.id(), events.id());
    /// let other = db.ensure_table_with("events", &TableOptions::default());
    /// assert_eq!(other.unwrap_err().kind(), ErrorKind::Mismatch);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Mismatch` if the table exists and has other options; its message names both, and what to change.
    /// Otherwise as for [`Database::create_table`].
    pub fn ensure_table_with(&self, name: &str, options: &TableOptions) -> Result<Table> {
        match self.table(name)? {
            Some(table) => options.check(table),
            None => self.write(|tx| tx.ensure_table_with(name, options)),
        }
    }

    /// Drops a table and everything in it. Snapshots that see the table keep it; its space is freed after they end.
    ///
    /// # Errors
    /// `Missing` if the table does not exist.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.write(|tx| match tx.table(name)? {
            Some(table) => tx.drop_table(&table),
            None => Err(Error::new(ErrorKind::Missing, format!("there is no table {name:?}"))),
        })
    }

    /// Renames a table in a transaction of its own; see [`rename_table`](crate::Transaction::rename_table).
    ///
    /// # Errors
    /// `Missing` if there is no table `name`; `Exists` if there is already a table `new`.
    pub fn rename_table(&self, name: &str, new: &str) -> Result<Table> {
        self.write(|tx| match tx.table(name)? {
            Some(table) => tx.rename_table(&table, new),
            None => Err(Error::new(ErrorKind::Missing, format!("there is no table {name:?}"))),
        })
    }

    /// Changes the layout of a table while it is in use: new entries are written in the new layout, and a background
    /// thread rewrites existing ones, a slice at a time. Reads and writes continue. After a crash the table is
    /// readable, and the rewriting continues. [`Database::settle`] waits until it is done.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// let table = db.ensure_table("events")?;
    /// db.put(&table, b"k", b"v")?;
    /// db.set_layout("events", pando::Layout::Lsm)?;
    /// assert_eq!(db.get(&table, b"k")?.as_deref(), Some(&b"v"[..]));
    /// assert_eq!(db.ensure_table("events")?.layout(), pando::Layout::Lsm);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Missing` if there is no table of this name.
    pub fn set_layout(&self, name: &str, layout: Layout) -> Result<()> {
        self.write(|tx| match tx.table(name)? {
            Some(table) => tx.set_layout(&table, layout),
            None => Err(Error::new(ErrorKind::Missing, format!("there is no table {name:?}"))),
        })?;
        // The worker finds the new layout in the catalog that a checkpoint writes.
        self.checkpoint()
    }

    /// Sets the compression of leaves that merges of an LSM table write from now on. Existing leaves stay as they are
    /// until they are merged; [`Database::compact`] does not rewrite leaves that are already merged.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// use pando::{Compression, Layout, TableOptions};
    /// db.create_table("events", &TableOptions::with_layout(Layout::Lsm))?;
    /// db.set_compression("events", Compression::Lz4)?;
    /// assert_eq!(db.ensure_table("events")?.compression(), Compression::Lz4);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Missing` if there is no table of this name; `Invalid` if it is not an LSM table, or if the database has pages
    /// of 4 KiB, for which compression has no effect.
    pub fn set_compression(&self, name: &str, compression: Compression) -> Result<()> {
        self.write(|tx| match tx.table(name)? {
            Some(table) => tx.set_compression(&table, compression),
            None => Err(Error::new(ErrorKind::Missing, format!("there is no table {name:?}"))),
        })
    }

    /// Sets how long entries of a table live after their put, including existing entries. `None` keeps entries until
    /// they are deleted. Entries that have already expired stay expired, even if the new TTL is longer. Nothing is
    /// rewritten, so the call takes no time.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # use std::time::Duration;
    /// let options = pando::TableOptions::default().ttl(Duration::from_secs(60));
    /// db.create_table("sessions", &options)?;
    /// db.set_ttl("sessions", Some(Duration::from_secs(3600)))?;
    /// assert_eq!(db.ensure_table("sessions")?.ttl(), Some(Duration::from_secs(3600)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Missing` if there is no table of this name; `Invalid` for less than 1 ms, or if the table was created without
    /// a TTL and has been written to: its entries do not have the date of their put.
    pub fn set_ttl(&self, name: &str, ttl: Option<Duration>) -> Result<()> {
        self.write(|tx| match tx.table(name)? {
            Some(table) => tx.set_ttl(&table, ttl),
            None => Err(Error::new(ErrorKind::Missing, format!("there is no table {name:?}"))),
        })
    }

    /// Returns all tables, ordered by name.
    ///
    /// # Errors
    /// As for [`Database::snapshot`]; errors of reading the disk.
    pub fn tables(&self) -> Result<Vec<Table>> {
        self.snapshot()?.tables()
    }
}
