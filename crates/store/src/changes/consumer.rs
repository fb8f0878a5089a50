//! Named consumers: readers of changes that continue after a restart where they have acknowledged.
//!
//! A consumer's hold stands at the last commit that it has acknowledged. When it acknowledges more, a feed of its own
//! moves there, which knows the position in the log and the tables as of it. Then the position is written and synced
//! (`state/consumers.rs`). Only after that is the log before it released. Closing waits for what is written then.

use super::feed::Feed;
use crate::state::consumers::{self, Known};
use crate::state::feeds::Held;
use crate::state::store::Store;
use base::sync::lock;
use base::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The state of a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerInfo {
    /// The name of the consumer.
    pub name: String,
    /// The last commit that the consumer has acknowledged.
    pub position: u64,
    /// Whether the consumer has lost its position, because more than the limit would have been kept for it.
    pub is_lost: bool,
}

/// A named consumer. Only one handle can be open at a time; after it is dropped, the consumer can be opened again.
#[derive(Debug)]
pub struct Consumer {
    store: Arc<Store>,
    name: String,
    known: Arc<Known>,
    /// A feed that stands after the last acknowledged commit.
    trail: Feed,
}

impl Store {
    /// Opens consumer `name`, or creates it after the newest visible commit if it does not exist.
    ///
    /// # Errors
    /// [`TooOld`](ErrorKind::TooOld) if the consumer has lost its position; [`Locked`](ErrorKind::Locked) if it is
    /// open; [`Invalid`](ErrorKind::Invalid) for a new name that is empty, longer than 100 bytes, or has a control
    /// character; [`ReadOnly`](ErrorKind::ReadOnly); errors of writing its file.
    pub fn consumer(self: &Arc<Self>, name: &str) -> Result<Consumer> {
        self.check_open()?;
        self.latch.check()?;
        let known = lock(&self.consumers).get(name).cloned();
        let known = match known {
            Some(known) => known,
            None => {
                consumers::check_name(name)?;
                self.make_consumer(name)?
            }
        };
        if known.is_open.swap(true, Ordering::SeqCst) {
            return Err(Error::new(
                ErrorKind::Locked,
                format!("consumer {name:?} is open already; drop the other handle"),
            ));
        }
        match self.feed_of(name, &known) {
            Ok(trail) => Ok(Consumer { store: Arc::clone(self), name: name.to_owned(), known, trail }),
            Err(error) => {
                known.is_open.store(false, Ordering::SeqCst);
                Err(error)
            }
        }
    }

    fn feed_of(self: &Arc<Self>, name: &str, known: &Known) -> Result<Feed> {
        if known.hold.is_revoked() {
            let oldest = self
                .oldest_feed()
                .map_or_else(|_| String::new(), |oldest| format!(" of commit {oldest} or later"));
            let message = format!(
                "consumer {name:?} has lost its position after commit {}: the changes that it had to read \
                 are no longer kept; drop it (`pando consumers DIR --drop NAME`), and begin again with a \
                 copy of the database{oldest}",
                known.hold.held().last.0
            );
            return Err(Error::new(ErrorKind::TooOld, message));
        }
        self.feed(Some(known.hold.held().last.0))
    }

    fn make_consumer(self: &Arc<Self>, name: &str) -> Result<Arc<Known>> {
        self.sync()?;
        let mut feed = self.feed(None)?;
        feed.pass_through(self.clocks.visible().0)?;
        let held = feed.held().clone();
        let hold = self.feeds.join();
        hold.pass(held.clone());
        let known = Arc::new(Known { hold, is_open: AtomicBool::new(false) });
        let mut all = lock(&self.consumers);
        if let Some(other) = all.get(name) {
            self.feeds.leave(&known.hold);
            return Ok(Arc::clone(other));
        }
        if let Err(error) = self.write_consumer(name, &held) {
            self.feeds.leave(&known.hold);
            return Err(error);
        }
        all.insert(name.to_owned(), Arc::clone(&known));
        Ok(known)
    }

    fn write_consumer(&self, name: &str, held: &Held) -> Result<()> {
        self.while_open(|| consumers::write(&*self.dir, self.database, name, held))
    }

    /// Runs `change` on the directory, for which closing waits: after that, the next owner of the directory may have
    /// newer files, which an old one must not replace.
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed), and those of `change`.
    fn while_open(&self, change: impl FnOnce() -> Result<()>) -> Result<()> {
        let _writing = self.early.begin();
        self.check_open()?;
        change()
    }

    /// Returns the consumers, ordered by name.
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed).
    pub fn consumers(&self) -> Result<Vec<ConsumerInfo>> {
        self.check_open()?;
        let all = lock(&self.consumers);
        let info = |(name, known): (&String, &Arc<Known>)| ConsumerInfo {
            name: name.clone(),
            position: known.hold.held().last.0,
            is_lost: known.hold.is_revoked(),
        };
        Ok(all.iter().map(info).collect())
    }

    /// Removes a consumer and releases what was kept for it.
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if it does not exist; [`Locked`](ErrorKind::Locked) if it is open; errors of
    /// removing its file.
    pub fn drop_consumer(&self, name: &str) -> Result<()> {
        self.check_open()?;
        self.latch.check()?;
        let mut all = lock(&self.consumers);
        let missing = || Error::new(ErrorKind::Missing, format!("there is no consumer {name:?}"));
        let known = all.get(name).ok_or_else(missing)?;
        // It counts as open from now on: another thread may just be opening it.
        if known.is_open.swap(true, Ordering::SeqCst) {
            return Err(Error::new(
                ErrorKind::Locked,
                format!("consumer {name:?} is open; drop its handle first"),
            ));
        }
        let removed = self.while_open(|| consumers::remove(&*self.dir, name));
        removed.inspect_err(|_| known.is_open.store(false, Ordering::SeqCst))?;
        self.feeds.leave(&known.hold);
        all.remove(name);
        Ok(())
    }
}

impl Consumer {
    /// Returns the name of the consumer.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the last commit that the consumer has acknowledged.
    pub fn position(&self) -> u64 {
        self.known.hold.held().last.0
    }

    /// Returns a feed of the commits after the last acknowledged one.
    ///
    /// # Errors
    /// As [`Store::feed`].
    pub fn feed(&self) -> Result<Feed> {
        self.store.feed_of(&self.name, &self.known)
    }

    /// Records durably that everything through commit `number` is done, and releases what that needed. It takes two
    /// syncs, and one of the log's unsynced part. An older commit has no effect.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if there is no such commit yet; [`TooOld`](ErrorKind::TooOld); errors of
    /// writing. After an error the position is unchanged.
    pub fn acknowledge(&mut self, number: u64) -> Result<()> {
        if number <= self.position() {
            return Ok(());
        }
        let visible = self.store.clocks.visible().0;
        if number > visible {
            return Err(Error::invalid(format!(
                "there is no commit {number} yet: the newest one is {visible}"
            )));
        }
        // A stored position must not name a commit that a crash can undo.
        self.store.sync()?;
        self.trail.pass_through(number)?;
        let held = self.trail.held().clone();
        self.store.write_consumer(&self.name, &held)?;
        self.known.hold.pass(held);
        Ok(())
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.known.is_open.store(false, Ordering::SeqCst);
    }
}
