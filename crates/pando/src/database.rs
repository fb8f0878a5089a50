//! A database: opened, shared by its clones, closed once.

use crate::builder::Builder;
use crate::options::Setting;
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;
use crate::workers::{Foreman, Signals, Workers};
use base::latency::Cause;
use base::seams::{Random, Stopwatch};
use base::sync::lock;
use base::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, ThreadId};
use std::time::Duration;
use store::advice::{Advice, Operations};
use store::check::{Findings, Report};
use store::stats::{Stats, TableStats};
use store::{Compression, OpenReader, Store, Table, TransactionOptions, WantedLayout as Layout};

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

/// An open database. A clone is another handle on the same one; when the last is dropped, it closes.
///
/// ```
/// # fn main() -> pando::Result<()> {
/// let db = pando::Database::builder().in_memory()?;
/// let counts = db.table("counts")?;
/// db.put(&counts, b"visits", b"1")?;
/// assert_eq!(db.get(&counts, b"visits")?, Some(b"1".to_vec()));
/// db.close()?;
/// assert_eq!(db.snapshot().unwrap_err().kind(), pando::ErrorKind::Closed);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Database {
    pub(crate) shared: Arc<Shared>,
}

/// What the handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub store: Arc<Store>,
    pub signals: Arc<Signals>,
    workers: Mutex<Option<Workers>>,
    builder: Builder,
    gate: Gate,
}

/// The attempts of [`Database::write`] before the one that holds the gate.
const OPEN_ATTEMPTS: u32 = 7;
/// Attempts with the gate held: only commits that were past it already can still conflict.
const GATED_ATTEMPTS: u32 = 4;

impl Database {
    /// Opens the database in the directory `path` with the default options, or creates it.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        Builder::default().create(path)
    }

    /// Opens the database in the directory `path` with the default options.
    ///
    /// # Errors
    /// `Missing` if there is none.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Builder::default().open(path)
    }

    /// Opens the database in the directory `path` to read it alone, with the default options: see
    /// [`Builder::read_only`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self> {
        Builder::default().read_only(true).open(path)
    }

    /// Options first.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A handle on `store`, which `builder` opened.
    pub(crate) fn start(store: Arc<Store>, builder: Builder) -> Result<Self> {
        let signals = Arc::new(Signals::new(builder.lazy_interval, builder.watch.clone(), store.latencies()));
        let workers = if store.is_read_only() { None } else { Some(Workers::start(&store, &signals)?) };
        store.set_attendant(Box::new(Foreman(Arc::clone(&signals))));
        let (workers, gate) = (Mutex::new(workers), Gate::default());
        Ok(Database { shared: Arc::new(Shared { store, signals, workers, builder, gate }) })
    }

    /// A read-only snapshot of everything acknowledged so far. Costs nanoseconds: no allocation, no lock.
    #[inline]
    #[track_caller]
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.shared.store.snapshot().map(Snapshot::new)
    }

    /// Begins a read-write transaction with the database's default isolation and durability.
    #[track_caller]
    pub fn begin(&self) -> Result<Transaction> {
        self.begin_with(self.shared.builder.transactions)
    }

    /// Begins a read-write transaction.
    ///
    /// ```
    /// # use pando::{Database, Durability, TransactionOptions};
    /// # fn main() -> pando::Result<()> {
    /// # let db = Database::builder().in_memory()?;
    /// # let table = db.table("t")?;
    /// let options = TransactionOptions { durability: Durability::Buffered, ..db.transaction_options() };
    /// let mut tx = db.begin_with(options)?;
    /// tx.put(&table, b"k", b"v")?;
    /// tx.commit()?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn begin_with(&self, options: TransactionOptions) -> Result<Transaction> {
        // Before the first lock: another thread of the parent may have held it.
        self.shared.store.check_process()?;
        self.shared.signals.wait_for_room()?;
        Transaction::begin(&self.shared, options)
    }

    /// The isolation and durability of transactions that name none.
    pub fn transaction_options(&self) -> TransactionOptions {
        self.shared.builder.transactions
    }

    /// Runs `work` in a transaction and commits it; on a conflict runs it again, after a short random pause, at
    /// most 7 times, and then with other commits held back, so that it ends.
    ///
    /// `work` may run several times: its effects outside the transaction must bear that.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// let accounts = db.table("accounts")?;
    /// let total = db.write(|tx| {
    ///     let before = tx.get(&accounts, b"a")?.map_or(0, |bytes| bytes[0]);
    ///     tx.put(&accounts, b"a", &[before + 1])?;
    ///     Ok(before + 1)
    /// })?;
    /// assert_eq!(total, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What `work` or the commit answers. A conflict that even the last attempt met is returned as such.
    #[track_caller]
    pub fn write<T>(&self, mut work: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        match self.attempt(&mut work) {
            Err(error) if error.is_retryable() => {}
            done => return done,
        }
        let watch = Stopwatch::start();
        let done = self.write_again(work);
        self.shared.store.latencies().record(Cause::ConflictRetry, watch.elapsed_ns());
        done
    }

    /// After a first conflict.
    #[track_caller]
    fn write_again<T>(&self, mut work: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        for attempt in 1..OPEN_ATTEMPTS {
            pause(attempt - 1);
            match self.attempt(&mut work) {
                Err(error) if error.is_retryable() => {}
                done => return done,
            }
        }
        pause(OPEN_ATTEMPTS - 1);
        let _held = self.shared.gate.hold();
        for _ in 1..GATED_ATTEMPTS {
            match self.attempt(&mut work) {
                Err(error) if error.is_retryable() => {}
                done => return done,
            }
        }
        self.attempt(&mut work)
    }

    /// Loads many records in one transaction of their own: see [`Transaction::bulk_load`]. They appear all at once,
    /// over what the table had. It conflicts only with somebody who drops the table meanwhile.
    ///
    /// # Errors
    /// Those of `records`, as they are; those of [`Transaction::put`] and [`Transaction::commit`]. Nothing was loaded.
    #[track_caller]
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        table: &Table,
        records: impl IntoIterator<Item = Result<(K, V)>>,
    ) -> Result<u64> {
        self.shared.signals.wait_for_room()?;
        let mut tx = Transaction::begin(&self.shared, self.shared.builder.transactions)?;
        let loaded = tx.bulk_load(table, records)?;
        tx.commit()?;
        Ok(loaded)
    }

    #[track_caller]
    fn attempt<T>(&self, work: &mut impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        self.shared.store.check_process()?;
        self.shared.signals.wait_for_room()?;
        let mut tx = Transaction::begin(&self.shared, self.shared.builder.transactions)?;
        let result = work(&mut tx)?;
        tx.commit()?;
        Ok(result)
    }

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

    /// Whether every call that would write is refused: see [`Builder::read_only`].
    pub fn is_read_only(&self) -> bool {
        self.shared.store.is_read_only()
    }

    /// Gives a table another name, in a transaction of its own: see [`Transaction::rename_table`].
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

    /// A copy of the value of `key`, through a snapshot of its own.
    #[track_caller]
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.snapshot()?.get(table, key)
    }

    /// Sets `key` to `value` in a transaction of its own.
    #[track_caller]
    pub fn put(&self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(|tx| tx.put(table, key, value))
    }

    /// Removes `key` in a transaction of its own.
    pub fn delete(&self, table: &Table, key: &[u8]) -> Result<()> {
        self.write(|tx| tx.delete(table, key))
    }

    /// Merges everything committed so far into the trees, now. Never needed for correctness; it makes the next
    /// opening and the next scan quicker.
    pub fn checkpoint(&self) -> Result<()> {
        self.shared.store.checkpoint()?;
        self.shared.signals.set_full(self.shared.store.pressure().is_full());
        // The worker looks after what readers still hold of the state before.
        self.shared.signals.checkpoint.ring();
        Ok(())
    }

    /// Makes everything committed so far durable, `Buffered` and `Lazy` commits included.
    pub fn sync(&self) -> Result<()> {
        self.shared.store.sync()
    }

    /// Reads every page, large value and space map entry that the newest view reaches, and checks every checksum
    /// and structural rule. Commits wait for nothing, checkpoints do.
    ///
    /// # Errors
    /// `Corruption` with the first thing found wrong.
    pub fn check(&self) -> Result<Report> {
        self.shared.store.check()
    }

    /// As [`Database::check`], but goes on after the first problem, beside it, and answers all that it counted and all
    /// that is wrong. `progress` is shown the counts after each table.
    ///
    /// # Errors
    /// `Closed`. What is wrong is no error here.
    pub fn check_all(&self, mut progress: impl FnMut(&Report)) -> Result<Findings> {
        self.shared.store.check_all(&mut progress)
    }

    /// What each option is set to, and who or what set it: see [`crate::options`].
    pub fn settings(&self) -> Result<Vec<Setting>> {
        self.shared.builder.settings(Some(self))
    }

    /// Counts and sizes.
    pub fn stats(&self) -> Result<Stats> {
        let mut stats = self.shared.store.stats()?;
        self.shared.signals.pacer.fill(&mut stats.pacing);
        Ok(stats)
    }

    /// What was done with each table, by name.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// let db = pando::Database::builder().in_memory()?;
    /// let fruit = db.table("fruit")?;
    /// db.put(&fruit, b"apple", b"red")?;
    /// db.get(&fruit, b"apple")?;
    /// let of_fruit = &db.table_stats()?[0];
    /// assert_eq!((of_fruit.gets, of_fruit.writes), (1, 1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn table_stats(&self) -> Result<Vec<TableStats>> {
        self.shared.store.table_stats()
    }

    /// Which layout each table wants, by name, with what an operation costs in either and what a switch would: see
    /// [`Advice`]. From what was done with each table since the database was opened, or, with `assumed`, as if as much
    /// had been done with each.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// let db = pando::Database::builder().in_memory()?;
    /// let fruit = db.table("fruit")?;
    /// for _ in 0..2_000 {
    ///     db.get(&fruit, b"apple")?;
    /// }
    /// let advice = &db.advise(None)?[0];
    /// assert_eq!((advice.operations.gets, advice.advised), (2_000, Some(pando::Layout::BTree)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn advise(&self, assumed: Option<Operations>) -> Result<Vec<Advice>> {
        let measured = self.stats()?.pacing.absorbed_bytes_per_s;
        self.shared.store.advise(assumed, (measured > 0).then_some(measured))
    }

    /// The open snapshots and transactions, the oldest first: what each keeps from being freed, since when, and where
    /// in the program it was begun. Waits for a checkpoint's current step at most.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// let snapshot = db.snapshot()?;
    /// let readers = db.readers()?;
    /// assert_eq!(readers[0].opened_at.unwrap().file(), file!());
    /// # drop(snapshot);
    /// # Ok(())
    /// # }
    /// ```
    pub fn readers(&self) -> Result<Vec<OpenReader>> {
        self.shared.store.readers()
    }

    /// Syncs the log, stops the workers and lets go of the directory. Every later call on any handle fails with
    /// `Closed`, except that snapshots which still live go on reading. Closing twice does nothing.
    pub fn close(&self) -> Result<()> {
        self.shared.close()
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

/// Exponential backoff with full jitter: up to 2^attempt * 20 microseconds.
fn pause(attempt: u32) {
    let most_us = 20 << attempt;
    thread::sleep(Duration::from_micros(Random::from_entropy().below(most_us)));
}

impl Shared {
    fn close(&self) -> Result<()> {
        if let Err(forked) = self.store.check_process() {
            // The threads are the parent's; there is nothing here to stop or to wait for.
            std::mem::forget(lock(&self.workers).take());
            return Err(forked);
        }
        drop(lock(&self.workers).take());
        self.store.close()
    }

    /// Waits while another transaction holds the gate. One load when none does.
    #[inline]
    pub fn pass_gate(&self) {
        self.gate.pass();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Nobody is left to be told; whoever wants to know calls `close`.
        let _ = self.close();
    }
}

/// Holds back all commits but those of its holder's thread, so that a commit inside a gated closure does not wait for
/// the gate that its own caller holds.
#[derive(Debug, Default)]
struct Gate {
    turn: Mutex<()>,
    holder: Mutex<Option<ThreadId>>,
    /// A copy of whether there is a holder, read by commits without the lock.
    is_held: AtomicBool,
}

/// The gate, held; opened when dropped.
struct Held<'a> {
    gate: &'a Gate,
    _turn: MutexGuard<'a, ()>,
}

impl Gate {
    /// Takes the gate; `None` if this thread has it already, further out.
    fn hold(&self) -> Option<Held<'_>> {
        let this = thread::current().id();
        if *lock(&self.holder) == Some(this) {
            return None;
        }
        let turn = lock(&self.turn);
        *lock(&self.holder) = Some(this);
        self.is_held.store(true, Ordering::SeqCst);
        Some(Held { gate: self, _turn: turn })
    }

    #[inline]
    fn pass(&self) {
        if self.is_held.load(Ordering::SeqCst) && *lock(&self.holder) != Some(thread::current().id()) {
            drop(lock(&self.turn));
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.gate.is_held.store(false, Ordering::SeqCst);
        *lock(&self.gate.holder) = None;
    }
}
