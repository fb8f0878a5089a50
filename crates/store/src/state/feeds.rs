//! The readers of changes, and what is kept for them.
//!
//! A feed reads the log after a moving position (`crate::changes`). What its next commits need must stay:
//!
//! 1. *The log* from its position on: `Store::drop_log` asks for the first segment that any feed needs.
//! 2. *The data that its records refer to* in the data file: the extents of large values and of attached runs. A
//!    checkpoint that absorbs a record takes them over, and a later one may retire them. The space map remembers which
//!    extents the records that each checkpoint absorbed referred to, and keeps them while some feed still has to pass
//!    that checkpoint's last commit ([`space::Space::need_named`]).
//! 3. *The names of tables* as of its position, because a record refers to tables by id.
//!
//! Items 1 and 2 have a common bound (`Options::max_changes_bytes`). Beyond it the oldest feed is revoked: it fails
//! with [`TooOld`](base::ErrorKind::TooOld) from its next call on. So a late reader never stops the writer.
//!
//! A waker is code of the program: it can panic, commit, or take a lock that another thread holds while it commits. So
//! only threads that hold no lock of the store wake it. A checkpoint and a look at the readers hold the claim on
//! checkpoints: what they find is *owed*, and the store's driver wakes for it ([`crate::Store::wake_owed`]).
//!
//! A database without feeds pays two loads for each commit.

use crate::state::names::Names;
use base::CommitTs;
use base::sync::lock;
use log::Position;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

/// The position of a feed: it has passed `last`, and the next record begins at `at`.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub last: CommitTs,
    pub at: Position,
    /// The names of tables as of `last`.
    pub names: Arc<Names>,
}

/// The data that one feed holds back.
#[derive(Debug)]
pub(crate) struct Hold {
    held: Mutex<Held>,
    is_revoked: AtomicBool,
}

impl Hold {
    /// Returns whether what the feed needs may have been freed.
    pub fn is_revoked(&self) -> bool {
        self.is_revoked.load(Ordering::SeqCst)
    }

    /// Revokes the hold: what the feed needs is no longer kept.
    pub fn revoke(&self) {
        self.is_revoked.store(true, Ordering::SeqCst);
    }

    /// Returns the position of the feed.
    pub fn held(&self) -> Held {
        lock(&self.held).clone()
    }

    /// Moves the position of the feed.
    pub fn pass(&self, held: Held) {
        *lock(&self.held) = held;
    }
}

/// All feeds.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    holds: Mutex<Vec<Arc<Hold>>>,
    /// Whether commits record when they were made: from the first feed on.
    records_time: AtomicBool,
    /// The wakers for the next visible commit; each is woken once.
    waiting: Mutex<Vec<Waker>>,
    /// The number of wakers in `waiting`.
    waiters: AtomicUsize,
    /// Whether feeds have news, and no wake has followed.
    owes_wake: AtomicBool,
}

/// The common need of all feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// The commit after which all commits are needed.
    pub after: CommitTs,
    /// The first segment of the log that is needed.
    pub segment: u64,
}

impl Need {
    const NOTHING: Need = Need { after: CommitTs::MAX, segment: u64::MAX };
}

impl Feeds {
    /// Adds a feed that needs everything until it has found its position with [`Hold::pass`].
    pub fn join(&self) -> Arc<Hold> {
        self.records_time.store(true, Ordering::SeqCst);
        let at = Position { segment: 0, generation: 0, lsn: base::Lsn(0) };
        let held = Held { last: CommitTs(0), at, names: Arc::default() };
        let hold = Arc::new(Hold { held: Mutex::new(held), is_revoked: AtomicBool::new(false) });
        lock(&self.holds).push(Arc::clone(&hold));
        hold
    }

    /// Removes a feed. The next checkpoint frees what it kept.
    pub fn leave(&self, hold: &Arc<Hold>) {
        lock(&self.holds).retain(|other| !Arc::ptr_eq(other, hold));
    }

    /// Returns the positions of the feeds that are not revoked, except `own`.
    pub fn others(&self, own: &Arc<Hold>) -> Vec<Held> {
        let holds = lock(&self.holds);
        let others = holds.iter().filter(|other| !Arc::ptr_eq(other, own) && !other.is_revoked());
        // A feed that has not found its position yet has none to share.
        others.map(|other| other.held()).filter(|held| held.at.segment > 0).collect()
    }

    /// Returns what must be kept.
    pub fn need(&self) -> Need {
        let holds = lock(&self.holds);
        holds.iter().filter(|hold| !hold.is_revoked()).fold(Need::NOTHING, |need, hold| {
            let held = lock(&hold.held);
            Need { after: need.after.min(held.last), segment: need.segment.min(held.at.segment) }
        })
    }

    /// Revokes the oldest feed if the log that it needs, from its position to `log_end`, together with `kept_bytes` of
    /// the data file, exceeds `most_bytes`. Returns whether it did.
    pub fn revoke_late(&self, log_end: base::Lsn, kept_bytes: u64, most_bytes: u64) -> bool {
        let holds = lock(&self.holds);
        let placed = |hold: &&Arc<Hold>| !hold.is_revoked() && lock(&hold.held).at.segment > 0;
        let oldest = holds.iter().filter(placed).min_by_key(|hold| lock(&hold.held).at.lsn);
        let Some(oldest) = oldest else { return false };
        let log_bytes = log_end.0.saturating_sub(lock(&oldest.held).at.lsn.0);
        let is_late = log_bytes.saturating_add(kept_bytes) > most_bytes;
        if is_late {
            oldest.revoke();
        }
        is_late
    }

    /// Returns the number of feeds.
    pub fn count(&self) -> usize {
        lock(&self.holds).len()
    }

    /// Returns whether commits should record when they are made.
    #[inline]
    pub fn records_time(&self) -> bool {
        // Relaxed: it orders nothing. A commit that misses it has no time.
        self.records_time.load(Ordering::Relaxed)
    }

    /// Registers `waker` for the next commit that becomes visible. The caller looks once more afterwards, for a commit
    /// that came meanwhile.
    pub fn wake_next(&self, waker: &Waker) {
        // Cloned before the lock, and dropped after it if it is not needed: both are code of the program's.
        let mut own = Some(waker.clone());
        let mut waiting = lock(&self.waiting);
        if !waiting.iter().any(|other| other.will_wake(waker)) {
            waiting.extend(own.take());
        }
        self.waiters.store(waiting.len(), Ordering::SeqCst);
        drop(waiting);
    }

    /// Wakes the registered wakers: a commit has become visible, or the database is closed. The caller holds no lock.
    #[inline]
    pub fn wake(&self) {
        // SeqCst, partner `wake_next`: a task that is not seen here sees the commit when it looks once more.
        if self.waiters.load(Ordering::SeqCst) > 0 {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&self) {
        let waiting = {
            let mut waiting = lock(&self.waiting);
            self.waiters.store(0, Ordering::SeqCst);
            std::mem::take(&mut *waiting)
        };
        for waker in waiting {
            // Its panic was printed. What this thread does for the database goes on, and so do the other wakers.
            let _ = panic::catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }

    /// Notes that feeds have news, where the caller holds a lock.
    pub fn owe_wake(&self) {
        self.owes_wake.store(true, Ordering::SeqCst);
    }

    /// Wakes the registered wakers if that is owed. The caller holds no lock.
    pub fn wake_owed(&self) {
        if self.owes_wake.swap(false, Ordering::SeqCst) {
            self.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Lsn;

    fn at(segment: u64, lsn: u64) -> Position {
        Position { segment, generation: 1, lsn: Lsn(lsn) }
    }

    fn pass(hold: &Hold, last: u64, at: Position) {
        hold.pass(Held { last: CommitTs(last), at, names: Arc::default() });
    }

    #[test]
    fn the_oldest_feed_says_what_is_kept_until_it_is_revoked() {
        let feeds = Feeds::default();
        assert_eq!(feeds.need(), Need::NOTHING);
        let (old, young) = (feeds.join(), feeds.join());
        assert_eq!(feeds.need(), Need { after: CommitTs(0), segment: 0 });
        assert!(!feeds.revoke_late(Lsn(9_000), 0, 1), "one that looks for its place is not late");
        pass(&old, 7, at(2, 100));
        pass(&young, 9, at(3, 5_000));
        assert_eq!(feeds.need(), Need { after: CommitTs(7), segment: 2 });
        assert!(!feeds.revoke_late(Lsn(6_000), 100, 6_000));
        assert!(feeds.revoke_late(Lsn(6_000), 101, 6_000));
        assert!(old.is_revoked() && !young.is_revoked());
        assert_eq!(feeds.need(), Need { after: CommitTs(9), segment: 3 });
        assert!(!feeds.revoke_late(Lsn(6_000), 101, 6_000));
        feeds.leave(&young);
        assert_eq!(feeds.need(), Need::NOTHING);
    }
}
