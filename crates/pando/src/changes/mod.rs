//! Changes: every commit in order, as the operations that it made; and their application to a copy of the database.
//!
//! `format` defines the bytes of a change, `write` and `read` encode and decode them, and `apply` applies them.

mod apply;
mod filter;
mod format;
mod read;
mod write;

use crate::database::Database;
use crate::workers::Bell;
use base::{Error, Result};
use filter::Filter;
use std::io::Write;
use std::mem;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};
use store::changes as engine;
use store::changes::Feed;

pub use apply::Applied;
pub use store::changes::{ChangeValue, ChangeValueReader, ConsumerInfo, Operation, TableChange, TableInfo};

/// The options of a reader of changes.
///
/// ```
/// # fn main() -> pando::Result<()> {
/// # let db = pando::Database::builder().in_memory()?;
/// # let orders = db.ensure_table("orders")?;
/// let options = pando::ChangesOptions::default().after(1).table("orders").prefix(b"2026-");
/// let mut changes = db.changes_with(options)?;
/// db.put(&orders, b"2025-12-31", b"")?;
/// db.put(&orders, b"2026-01-01", b"")?;
/// assert_eq!(changes.next()?.expect("the second put").commit_number(), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ChangesOptions {
    after: u64,
    filter: Filter,
}

impl ChangesOptions {
    /// Begins after the commit of this number. The default, 0, begins as far back as possible.
    pub fn after(mut self, commit: u64) -> Self {
        self.after = commit;
        self
    }

    /// Selects only operations on the table `name`, and leaves out those on others. Call it again to select more
    /// tables. `name` is the name that the table has after the change.
    pub fn table(mut self, name: &str) -> Self {
        self.filter.add_table(name);
        self
    }

    /// Selects only keys that begin with `prefix`. Of a range delete, the reader returns the part within the prefix.
    pub fn prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.filter.set_prefix(prefix.as_ref());
        self
    }
}

/// A reader of changes. It goes from commit to commit, in order and without gaps, and returns only acknowledged
/// commits. It is `Send`.
///
/// The database keeps what the reader still has to read, up to
/// [`Builder::max_changes_bytes`](crate::Builder::max_changes_bytes). A reader for which it would have to keep more
/// fails with `TooOld`; writers do not wait for readers.
#[derive(Debug)]
#[must_use = "changes are read only when they are asked for, and are kept until then"]
pub struct Changes {
    feed: Feed,
    filter: Filter,
    bell: Arc<Bell>,
    /// Whether the next change is the one at which the feed stands. If so, it stands at one.
    repeats: bool,
}

/// One committed transaction.
#[derive(Debug)]
pub struct Change<'a> {
    inner: engine::Change<'a>,
    filter: &'a Filter,
}

/// The operations of a change, one after the other.
#[derive(Debug)]
pub struct Operations<'a> {
    inner: engine::Operations<'a>,
    filter: &'a Filter,
}

impl Database {
    /// Returns a reader of all changes after the commit of number `after`; 0 begins as far back as possible.
    /// [`Transaction::commit`](crate::Transaction::commit) returns the number of a commit.
    ///
    /// The database keeps the changes since the last checkpoint, and all that an open reader or a consumer still has to
    /// read. A new database has all of its changes until its first checkpoint.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// use pando::Operation;
    /// let db = pando::Database::builder().in_memory()?;
    /// let mut changes = db.changes(0)?;
    /// let fruit = db.ensure_table("fruit")?;
    /// db.put(&fruit, b"apple", b"red")?;
    ///
    /// let mut seen = Vec::new();
    /// while let Some(change) = changes.next()? {
    ///     let mut operations = change.operations()?;
    ///     while let Some(operation) = operations.next()? {
    ///         if let Operation::Put { table, key, value } = operation {
    ///             seen.push((change.commit_number(), table.name().to_owned(), key.to_vec(), value.to_vec()?));
    ///         }
    ///     }
    /// }
    /// assert_eq!(seen, [(2, "fruit".to_owned(), b"apple".to_vec(), b"red".to_vec())]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `TooOld` if the changes after `after` are no longer kept; the message names the oldest commit after which a
    /// reader can begin. `Invalid` if there is no commit `after` yet; `Locked` if another process has the database open
    /// for writing; `Closed`.
    pub fn changes(&self, after: u64) -> Result<Changes> {
        self.changes_with(ChangesOptions::default().after(after))
    }

    /// Returns a reader of the changes that `options` select.
    ///
    /// # Errors
    /// As for [`Database::changes`].
    pub fn changes_with(&self, options: ChangesOptions) -> Result<Changes> {
        let ChangesOptions { after, filter } = options;
        let feed = self.shared.store.feed((after > 0).then_some(after))?;
        Ok(Changes::new(feed, filter))
    }

    /// Opens the consumer named `name`, or creates it after the newest commit if it does not exist. Only one handle on
    /// a consumer can be open at a time. If the consumer's reader starts from a copy of the data, create the consumer
    /// first, then take a backup or a snapshot: the consumer then has every change after the copy.
    ///
    /// # Errors
    /// `TooOld` if more than [`Builder::max_changes_bytes`](crate::Builder::max_changes_bytes) would have been kept for
    /// the consumer: drop it, and begin again; `Locked` if it is open; `Invalid` for a name that is empty or longer
    /// than 100 bytes; `ReadOnly`; errors of writing.
    pub fn consumer(&self, name: &str) -> Result<Consumer> {
        Ok(Consumer { inner: self.shared.store.consumer(name)? })
    }

    /// Returns all consumers, ordered by name.
    ///
    /// # Errors
    /// `Closed`.
    pub fn consumers(&self) -> Result<Vec<ConsumerInfo>> {
        self.shared.store.consumers()
    }

    /// Removes the consumer named `name`. Later checkpoints free what was kept for it.
    ///
    /// # Errors
    /// `Missing` if there is no consumer of this name; `Locked` if it is open; errors of removing its file.
    pub fn drop_consumer(&self, name: &str) -> Result<()> {
        self.shared.store.drop_consumer(name)
    }

    /// Returns the oldest commit after which [`Database::changes`] can begin now.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// let db = pando::Database::builder().in_memory()?;
    /// db.ensure_table("t")?;
    /// assert_eq!(db.oldest_change()?, 0);
    /// db.checkpoint()?;
    /// assert_eq!(db.oldest_change()?, 1);
    /// assert_eq!(db.changes(0)?.position(), 1, "as far back as possible");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Locked` and `Closed`, as for [`Database::changes`].
    pub fn oldest_change(&self) -> Result<u64> {
        self.shared.store.oldest_feed()
    }
}

/// A named consumer of changes, whose position survives restarts. The position is the last commit that the consumer has
/// acknowledged; it is stored in the database's directory. The database keeps the changes after it, up to
/// [`Builder::max_changes_bytes`](crate::Builder::max_changes_bytes).
///
/// Read with [`Consumer::changes`], do the work, then call [`Consumer::acknowledge`]. After a crash, the changes that
/// were not acknowledged are returned again. If the work is safe to repeat, or stores the commit's number with its
/// result, each change takes effect exactly once.
///
/// ```
/// # fn main() -> pando::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let db = pando::Database::create(dir.path())?;
/// let orders = db.ensure_table("orders")?;
/// let mut mails = db.consumer("mails")?;
/// db.put(&orders, b"1", b"two books")?;
/// db.put(&orders, b"2", b"a pen")?;
///
/// let mut changes = mails.changes()?;
/// let first = changes.next()?.expect("the first order").commit_number();
/// mails.acknowledge(first)?;
/// drop((changes, mails, db));
///
/// let db = pando::Database::open(dir.path())?;
/// let mails = db.consumer("mails")?;
/// assert_eq!(mails.changes()?.next()?.expect("the second order").commit_number(), first + 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a consumer keeps what it has not acknowledged, and does nothing by itself"]
pub struct Consumer {
    inner: engine::Consumer,
}

impl Consumer {
    /// Returns the name of the consumer.
    #[must_use]
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// Returns the number of the last commit that the consumer has acknowledged.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.inner.position()
    }

    /// Returns a reader of the changes after the last acknowledged commit.
    ///
    /// # Errors
    /// As for [`Database::changes`].
    pub fn changes(&self) -> Result<Changes> {
        self.changes_with(ChangesOptions::default())
    }

    /// Returns a reader of the changes that `options` select. [`ChangesOptions::after`] has no effect.
    ///
    /// # Errors
    /// As for [`Database::changes`].
    pub fn changes_with(&self, options: ChangesOptions) -> Result<Changes> {
        Ok(Changes::new(self.inner.feed()?, options.filter))
    }

    /// Records durably that all changes through the commit of number `commit` are done. An older commit has no effect.
    /// The call takes two flushes, and one of the log, so acknowledge many changes at once, for example once a second.
    ///
    /// # Errors
    /// `Invalid` if there is no such commit yet; `TooOld` as for [`Database::consumer`]; errors of writing. After an
    /// error the position is unchanged.
    pub fn acknowledge(&mut self, commit: u64) -> Result<()> {
        self.inner.acknowledge(commit)
    }
}

impl Changes {
    fn new(feed: Feed, filter: Filter) -> Self {
        Changes { feed, filter, bell: Arc::default(), repeats: false }
    }

    /// Returns the next change, or `None` if there is none now. With a filter, the reader skips changes that have no
    /// selected operation. The call lets the database free what the previous change needed.
    ///
    /// # Errors
    /// `TooOld` if the changes are no longer kept; the message names a commit from which a new reader can begin.
    /// `Closed`; `Corruption`; errors of reading the disk.
    #[allow(clippy::should_implement_trait)] // It lends: an iterator cannot.
    pub fn next(&mut self) -> Result<Option<Change<'_>>> {
        let has_advanced = self.advance()?;
        Ok(has_advanced.then(|| Change { inner: self.feed.change(), filter: &self.filter }))
    }

    /// Returns the next change. If there is none, waits for one for at most `at_most`, and then returns `None`.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// use std::time::Duration;
    /// let db = pando::Database::builder().in_memory()?;
    /// let mut changes = db.changes(0)?;
    /// assert!(changes.wait(Duration::from_millis(5))?.is_none());
    /// let writer = std::thread::spawn({
    ///     let db = db.clone();
    ///     move || db.ensure_table("t").map(drop)
    /// });
    /// assert_eq!(changes.wait(Duration::from_secs(60))?.expect("the table").commit_number(), 1);
    /// writer.join().unwrap()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Changes::next`].
    pub fn wait(&mut self, at_most: Duration) -> Result<Option<Change<'_>>> {
        let until = Instant::now().checked_add(at_most);
        let waker = Waker::from(Arc::clone(&self.bell));
        loop {
            let is_over = until.is_some_and(|until| Instant::now() >= until);
            if self.is_ready(&waker) || is_over {
                if self.advance()? {
                    return Ok(Some(Change { inner: self.feed.change(), filter: &self.filter }));
                }
                if is_over {
                    return Ok(None);
                }
                continue;
            }
            self.bell.wait(until.map(|until| until.saturating_duration_since(Instant::now())));
        }
    }

    /// Moves to the next selected change. Returns false if there is none now.
    fn advance(&mut self) -> Result<bool> {
        while mem::take(&mut self.repeats) || self.feed.advance()? {
            if self.filter.is_all() {
                return Ok(true);
            }
            // A change that cannot be read now may be a selected one.
            let has_any = self.filter.has_any(self.feed.change()).inspect_err(|_| self.repeats = true)?;
            if has_any {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes the next call of [`Changes::next`] or [`Changes::wait`] return the same change again. Call it after an
    /// error of reading the change, so that the change is not skipped. It has no effect before the first change, and
    /// after a call that returned `None`.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// let db = pando::Database::builder().in_memory()?;
    /// let mut changes = db.changes(0)?;
    /// db.ensure_table("t")?;
    /// assert_eq!(changes.next()?.expect("the table").commit_number(), 1);
    /// changes.repeat();
    /// assert_eq!(changes.next()?.expect("the table again").commit_number(), 1);
    /// assert!(changes.next()?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn repeat(&mut self) {
        self.repeats = self.feed.has_current();
    }

    /// Returns whether [`Changes::next`] would return a change or an error now. If it would return `None`, `waker` is
    /// woken once as soon as that changes. Use it in tasks that must not block; it needs no runtime.
    ///
    /// The waker runs in a thread that commits or closes the database, or in one of the database's own, which holds no
    /// lock meanwhile. Keep it brief: these threads wait for it. If it panics, only this wake-up is lost.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use std::task::{Wake, Waker};
    /// #[derive(Default)]
    /// struct Flag(AtomicBool);
    /// impl Wake for Flag {
    ///     fn wake(self: Arc<Self>) {
    ///         self.0.store(true, Ordering::SeqCst);
    ///     }
    /// }
    /// let db = pando::Database::builder().in_memory()?;
    /// let changes = db.changes(0)?;
    /// let flag = Arc::new(Flag::default());
    /// assert!(!changes.is_ready(&Waker::from(flag.clone())));
    /// db.ensure_table("t")?;
    /// assert!(flag.0.load(Ordering::SeqCst) && changes.is_ready(Waker::noop()));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_ready(&self, waker: &Waker) -> bool {
        // The waker is registered in any case.
        self.feed.is_ready(waker) || self.repeats
    }

    /// Returns the number of the last commit that the reader has passed. A new reader that begins after this commit
    /// continues here. The change that [`Changes::next`] returned last is not passed yet.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.feed.passed()
    }
}

impl<'a> Change<'a> {
    /// Returns the number of the commit. Numbers have no gaps.
    #[must_use]
    pub fn commit_number(&self) -> u64 {
        self.inner.commit_number()
    }

    /// Returns when the commit was made, in milliseconds since 1970. `None` if that is unknown: the database had not
    /// had a reader of changes since it was opened.
    #[must_use]
    pub fn time_ms(&self) -> Option<u64> {
        Some(self.inner.time_ms()).filter(|&time_ms| time_ms > 0)
    }

    /// Returns whether the transaction was so large that parts of it were written before its commit. Only in such a
    /// change can a key occur several times.
    #[must_use]
    pub fn is_in_parts(&self) -> bool {
        self.inner.is_in_parts()
    }

    /// Returns the operations of the change: first the changes of whole tables, then, table by table, range deletes,
    /// puts and deletes. Applied in this order, they lead to the state after the commit. If a large transaction wrote a
    /// key several times, the key can occur several times, and its last operation counts.
    ///
    /// # Errors
    /// `TooOld` if the change is no longer kept; errors of reading the disk.
    pub fn operations(&self) -> Result<Operations<'a>> {
        Ok(Operations { inner: self.inner.operations()?, filter: self.filter })
    }

    /// Writes the change to `out` in a form that [`Database::apply_changes`] reads, and returns the number of bytes.
    /// You can write several changes one after the other. The call needs 128 KiB of memory, and a piece of a long
    /// value.
    ///
    /// # Errors
    /// `Invalid` if the reader has a filter, because a part of a change cannot be applied; `TooOld` if the change is no
    /// longer kept; errors of `out` and of reading the disk.
    pub fn write_to(&mut self, out: &mut dyn Write) -> Result<u64> {
        if !self.filter.is_all() {
            let message =
                "a filtered change is incomplete and cannot be written; read the changes without a filter";
            return Err(Error::invalid(message));
        }
        write::write(self.inner, out)
    }
}

impl Operations<'_> {
    /// Returns the next operation, or `None` after the last.
    ///
    /// # Errors
    /// `TooOld` if the change is no longer kept; `Corruption`; errors of reading the disk.
    #[allow(clippy::should_implement_trait)] // It lends: an iterator cannot.
    pub fn next(&mut self) -> Result<Option<Operation<'_>>> {
        let filter = self.filter;
        while self.inner.advance()? {
            if self.inner.operation().map(|operation| filter.limit(operation).is_some())? {
                break;
            }
        }
        match self.inner.is_at_operation() {
            true => self.inner.operation().map(|operation| filter.limit(operation)),
            false => Ok(None),
        }
    }
}
