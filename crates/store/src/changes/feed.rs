//! A position in the log of a live database that moves from visible commit to visible commit.
//!
//! A feed can begin at the newest checkpoint, whose trees contain the names of tables, and at the position of any other
//! feed, because what that one needs is kept. From the best of these positions it skips the commits that its owner
//! already has.
//!
//! While the feed stands at a commit, it has passed only the one before. So what the record refers to is kept until the
//! next call of [`Feed::advance`].

use super::change::{Change, Current};
use super::guard::Guard;
use crate::open::pinned::following;
use crate::state::catalog::TableRow;
use crate::state::feeds::{Held, Hold};
use crate::state::names::{Names, TableInfo, changes_in, name_of};
use crate::state::store::Store;
use crate::state::tables::Tables;
use base::op::Decoder;
use base::{CommitTs, Error, ErrorKind, Result, TableId};
use log::Follow;
use page::Value;
use run::Cursor;
use std::sync::Arc;
use std::task::Waker;

/// A position in the log; see the module.
#[derive(Debug)]
pub struct Feed {
    guard: Guard,
    follow: Follow,
    /// The position that the feed has passed.
    held: Held,
    /// The last commit that the owner already has.
    after: CommitTs,
    fork: u32,
    current: Option<Current>,
}

impl Store {
    /// Returns a feed of the changes after commit `after`; `None` means as far back as possible. From this call on
    /// commits record when they were made.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use pando_store::{Transaction, TransactionOptions, RequestedLayout, changes::Operation};
    /// # let options = pando_store::Options { memory_bytes: 2 << 20, ..pando_store::Options::default() };
    /// let store = pando_store::open_or_create(Arc::new(io::MemDir::new()), &options)?;
    /// let mut feed = store.feed(None)?;
    /// let mut tx = Transaction::begin(&store, TransactionOptions::default())?;
    /// let table = tx.create_table("fruit", RequestedLayout::BTree)?;
    /// tx.put(&table, b"apple", b"red")?;
    /// store.acknowledge(tx.apply()?)?;
    ///
    /// assert!(feed.advance()?);
    /// let mut operations = feed.change().operations()?;
    /// assert!(matches!(operations.next()?, Some(Operation::Table(_))));
    /// assert!(matches!(operations.next()?, Some(Operation::Put { key: b"apple", .. })));
    /// assert!(operations.next()?.is_none());
    /// assert!(!feed.advance()?);
    /// # base::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// [`TooOld`](ErrorKind::TooOld) if the commit after `after` is no longer kept; the message names the oldest commit
    /// after which changes are kept. [`Invalid`](ErrorKind::Invalid) if there is no commit `after` yet;
    /// [`Locked`](ErrorKind::Locked) if another process writes.
    pub fn feed(self: &Arc<Self>, after: Option<u64>) -> Result<Feed> {
        self.check_open()?;
        self.processes.check_not_beside("following the changes", "Database::changes")?;
        let visible = self.clocks.visible();
        if let Some(after) = after.filter(|&after| after > visible.0) {
            let message = format!("there is no commit {after} yet: the newest one is {}", visible.0);
            return Err(Error::invalid(message));
        }
        let guard = Guard { store: Arc::clone(self), hold: self.feeds.join() };
        let (held, fork) = self.place_for(&guard.hold, after.map(CommitTs))?;
        let follow = self.log.follow(held.at)?;
        guard.hold.pass(held.clone());
        let after = after.map_or(held.last, CommitTs);
        Ok(Feed { guard, follow, held, after, fork, current: None })
    }

    /// Returns the oldest commit after which a feed can begin now.
    ///
    /// # Errors
    /// As [`Store::feed`].
    pub fn oldest_feed(self: &Arc<Self>) -> Result<u64> {
        self.feed(None).map(|feed| feed.held.last.0)
    }

    /// Returns the names of the tables of a checkpoint.
    fn tables_of(&self, tables: &Tables) -> Result<Names> {
        let reader = self.slots.claim_or_full()?;
        let mut names = Names::new();
        let mut cursor = Cursor::new(tables.layers(TableId::CATALOG).1);
        cursor.seek_first(&self.pool, &reader)?;
        while let Some((key, value)) = cursor.entry() {
            let Value::Inline(value) = value else {
                return Err(Error::corruption("the catalog holds a large value"));
            };
            let row = TableRow::decode(key, value)?;
            names.insert(row.id, TableInfo { name: name_of(key)?.into(), row });
            cursor.next(&self.pool, &reader)?;
        }
        Ok(names)
    }
}

impl Store {
    /// Returns the position at which to begin, and the fork of the database.
    fn place_for(&self, own: &Arc<Hold>, after: Option<CommitTs>) -> Result<(Held, u32)> {
        let mut places = self.feeds.others(own);
        // The checkpoint's catalog is read before a later checkpoint frees it.
        let (superblock, tables, ()) = self.checkpoints.pins.pin(|| ());
        let names = self.tables_of(&tables);
        self.checkpoints.pins.unpin(superblock.checkpoint);
        let at = superblock.replay_from;
        places.push(Held { last: superblock.absorbed, at, names: Arc::new(names?) });
        let oldest = places.iter().map(|place| place.last).min().expect("there is one at least");
        let place = match after {
            None => places.into_iter().min_by_key(|place| place.last),
            Some(after) => {
                places.into_iter().filter(|place| place.last <= after).max_by_key(|place| place.last)
            }
        };
        let after = after.map_or(0, |after| after.0);
        let place = place.ok_or_else(|| {
            let message = format!(
                "the changes after commit {after} are no longer kept; begin with a copy of the database of \
                 commit {} or later",
                oldest.0
            );
            Error::new(ErrorKind::TooOld, message)
        })?;
        Ok((place, superblock.fork))
    }
}

impl Feed {
    /// Moves to the next visible commit. Returns false if there is none now.
    ///
    /// # Errors
    /// [`TooOld`](ErrorKind::TooOld) if more was kept for this feed than `Options::max_changes_bytes`;
    /// [`Closed`](ErrorKind::Closed); [`Corruption`](ErrorKind::Corruption); errors of reading the log.
    pub fn advance(&mut self) -> Result<bool> {
        let advanced = self.go_on();
        self.guard.judge(advanced)
    }

    /// Returns the commit at which the feed stands.
    ///
    /// # Panics
    /// Before the first [`Feed::advance`] that returned true, and after one that did not.
    pub fn change(&self) -> Change<'_> {
        let current = self.current.as_ref().expect("the feed stands at a commit");
        Change { guard: &self.guard, fork: self.fork, record: self.follow.payload(), current }
    }

    /// Returns whether the feed stands at a commit, so that [`Feed::change`] returns it.
    pub fn has_current(&self) -> bool {
        self.current.is_some()
    }

    /// Returns the number of the last commit that the feed has passed, or that its owner had before.
    pub fn passed(&self) -> u64 {
        self.held.last.max(self.after).0
    }

    /// Returns whether [`Feed::advance`] would now find a commit or fail. If not, `waker` is woken once when it would.
    pub fn is_ready(&self, waker: &Waker) -> bool {
        self.guard.store.feeds.wake_next(waker);
        self.has_news()
    }

    /// Returns whether [`Feed::advance`] would find a commit or fail.
    pub fn has_news(&self) -> bool {
        let last = self.current.as_ref().map_or(self.passed(), |current| current.number.0);
        self.guard.store.clocks.visible().0 > last
            || self.guard.hold.is_revoked()
            || self.guard.store.is_closed()
    }

    /// Moves on until it has passed commit `number`, which is visible.
    pub(super) fn pass_through(&mut self, number: u64) -> Result<()> {
        while self.held.last.0 < number {
            if !self.advance()? {
                return Err(self.ends_early());
            }
            self.pass();
        }
        Ok(())
    }

    /// Returns the position that the feed has passed.
    pub(super) fn held(&self) -> &Held {
        &self.held
    }

    fn go_on(&mut self) -> Result<bool> {
        loop {
            self.pass();
            self.guard.check()?;
            if self.guard.store.clocks.visible() <= self.held.last {
                return Ok(false);
            }
            if !self.follow.advance()? {
                self.guard.store.log.extend(&mut self.follow);
                if !self.follow.advance()? {
                    return Err(self.ends_early());
                }
            }
            let record = self.follow.payload();
            let number = following(self.held.last, record)?;
            let time_ms = Decoder::begin(record).and_then(|decoder| decoder.time_ms()).unwrap_or(0);
            let (tables, names) = changes_in(record, &self.held.names)?;
            self.current = Some(Current { number, time_ms, tables, names });
            if number > self.after {
                return Ok(true);
            }
        }
    }

    /// Marks the commit at which the feed stands as passed.
    fn pass(&mut self) {
        if let Some(current) = self.current.take() {
            self.held = Held { last: current.number, at: self.follow.end(), names: current.names };
            self.guard.hold.pass(self.held.clone());
        }
    }

    #[cold]
    fn ends_early(&self) -> Error {
        let (last, visible) = (self.held.last.0, self.guard.store.clocks.visible().0);
        Error::corruption(format!("the log ends at commit {last}, but commit {visible} was visible"))
    }
}
