//! A database's tables: made, opened, changed and dropped, each in a transaction of its own.

use super::Database;
use base::{Error, ErrorKind, Result};
use std::time::Duration;
use store::{Compression, Table, WantedLayout as Layout};

/// Options of a table. All are stored; opening a table with others is an error, never silence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableOptions {
    /// How the table is laid out.
    pub layout: Layout,
    /// How long an entry lives; `None`: until it is deleted.
    pub ttl: Option<Duration>,
    /// Whether an LSM table's pages are compressed.
    pub compression: Compression,
}

impl TableOptions {
    /// The default options, with this layout.
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

    /// These options, with entries that live for `ttl`, 1 ms or more. An entry expires when as much time has passed
    /// since its put: from then on it is absent to every snapshot and transaction that learns the time later, and the
    /// merges that come give its room back. A put sets the time anew. Times are the clock's, in milliseconds; where
    /// that goes back, time stands still until it has come as far again. Costs 8 bytes an entry; a table without a TTL
    /// costs nothing.
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

    /// These options, with leaves compressed as they are written by merges: for LSM tables only. Less space, and fewer
    /// bytes read and written, for a few microseconds where a leaf is read from the disk; what is in memory is not
    /// compressed. Each leaf is compressed by itself, and one that does not get shorter is stored as it is.
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
}

impl Database {
    /// The table named `name`, made with default options if it does not exist.
    pub fn table(&self, name: &str) -> Result<Table> {
        match self.snapshot()?.table(name)? {
            Some(table) => Ok(table),
            None => self.write(|tx| match tx.table(name)? {
                Some(table) => Ok(table),
                None => tx.create_table(name, &TableOptions::default()),
            }),
        }
    }

    /// The table named `name`, which must exist and have these options.
    ///
    /// # Errors
    /// `Missing` if it does not exist, `Mismatch` if it has other options.
    pub fn open_table(&self, name: &str, options: &TableOptions) -> Result<Table> {
        let missing =
            || Error::new(ErrorKind::Missing, format!("there is no table {name:?}; create it first"));
        let table = self.snapshot()?.table(name)?.ok_or_else(missing)?;
        check_options(&table, options)?;
        Ok(table)
    }

    /// Makes a table.
    ///
    /// # Errors
    /// `Exists` if there is one of that name.
    pub fn create_table(&self, name: &str, options: &TableOptions) -> Result<Table> {
        self.write(|tx| tx.create_table(name, options))
    }

    /// Drops a table with all it holds. Snapshots that see it go on seeing it; its space comes back as they end.
    ///
    /// # Errors
    /// `Missing` if it does not exist.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.write(|tx| match tx.table(name)? {
            Some(table) => tx.drop_table(&table),
            None => Err(Error::new(ErrorKind::Missing, format!("there is no table {name:?}"))),
        })
    }

    /// Gives a table another name, in a transaction of its own: see [`rename_table`](crate::Transaction::rename_table).
    ///
    /// # Errors
    /// `Missing` if there is no table `name`, `Exists` if there is one that is called `new` already.
    pub fn rename_table(&self, name: &str, new: &str) -> Result<Table> {
        self.write(|tx| match tx.table(name)? {
            Some(table) => tx.rename_table(&table, new),
            None => Err(Error::new(ErrorKind::Missing, format!("there is no table {name:?}"))),
        })
    }

    /// Gives a table another layout, while it is used: what comes is written in the new one, and what is there is
    /// rewritten in the background, a slice at a time. Reads and writes go on; a crash leaves the table readable, and
    /// the rest is done after it. [`Database::compact`] returns when it is done.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// let table = db.table("events")?;
    /// db.put(&table, b"k", b"v")?;
    /// db.set_layout("events", pando::Layout::Lsm)?;
    /// assert_eq!(db.get(&table, b"k")?.as_deref(), Some(&b"v"[..]));
    /// assert_eq!(db.table("events")?.layout(), pando::Layout::Lsm);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Missing` if there is no table of that name.
    pub fn set_layout(&self, name: &str, layout: Layout) -> Result<()> {
        self.write(|tx| match tx.table(name)? {
            Some(table) => tx.set_layout(&table, layout),
            None => Err(Error::new(ErrorKind::Missing, format!("there is no table {name:?}"))),
        })?;
        // The worker learns of it from the catalog that a checkpoint writes.
        self.checkpoint()
    }

    /// Has the leaves that merges write for an LSM table from now on be compressed, or not. What is there stays as it
    /// is until it is merged: [`Database::compact`] does not rewrite what is merged already.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// use pando::{Compression, Layout, TableOptions};
    /// db.create_table("events", &TableOptions::with_layout(Layout::Lsm))?;
    /// db.set_compression("events", Compression::Lz4)?;
    /// assert_eq!(db.table("events")?.compression(), Compression::Lz4);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Missing` if there is no table of that name; `Invalid` if it is not an LSM table, or if the database
    /// has pages of 4 KiB, which cannot get shorter.
    pub fn set_compression(&self, name: &str, compression: Compression) -> Result<()> {
        self.write(|tx| match tx.table(name)? {
            Some(table) => tx.set_compression(&table, compression),
            None => Err(Error::new(ErrorKind::Missing, format!("there is no table {name:?}"))),
        })
    }

    /// Has a table's entries live for `ttl` from their put on, those that are there included; `None`: until they are
    /// deleted. What has expired before stays so, also where the new TTL is longer. Takes no time: nothing is
    /// rewritten.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # use std::time::Duration;
    /// let options = pando::TableOptions::default().ttl(Duration::from_secs(60));
    /// db.create_table("sessions", &options)?;
    /// db.set_ttl("sessions", Some(Duration::from_secs(3600)))?;
    /// assert_eq!(db.table("sessions")?.ttl(), Some(Duration::from_secs(3600)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Missing` if there is no table of that name; `Invalid` for less than 1 ms, and where the table was made without
    /// a TTL and written to: its entries do not say when they were put.
    pub fn set_ttl(&self, name: &str, ttl: Option<Duration>) -> Result<()> {
        self.write(|tx| match tx.table(name)? {
            Some(table) => tx.set_ttl(&table, ttl),
            None => Err(Error::new(ErrorKind::Missing, format!("there is no table {name:?}"))),
        })
    }

    /// All tables, by name.
    pub fn tables(&self) -> Result<Vec<Table>> {
        self.snapshot()?.tables()
    }
}

fn check_options(table: &Table, options: &TableOptions) -> Result<()> {
    let name = table.name();
    let message = if table.layout() != options.layout {
        let (stored, asked) = (table.layout(), options.layout);
        format!("table {name:?} has layout {stored}, {asked} was asked for; set_layout changes it")
    } else if table.ttl() != options.ttl {
        let named = |ttl: Option<Duration>| ttl.map_or("no TTL".into(), |ttl| format!("a TTL of {ttl:?}"));
        let (stored, asked) = (named(table.ttl()), named(options.ttl));
        format!("table {name:?} has {stored}, {asked} was asked for; set_ttl changes it")
    } else if table.compression() != options.compression {
        let (stored, asked) = (table.compression(), options.compression);
        format!("table {name:?} has compression {stored}, {asked} was asked for; set_compression changes it")
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Mismatch, message))
}
