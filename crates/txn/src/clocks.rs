//! The two clocks of a database: the newest applied commit, and the newest visible one.
//!
//! 1. `applied` is the newest commit whose writes are all in the memtable. Read-write transactions begin there.
//! 2. `visible` is the newest commit at or below which every commit is as durable as it was promised to be.
//!    Read-only snapshots begin there, so that they never show what a power loss may take back.
//! 3. Both only grow, and `visible` <= `applied` always.
//! 4. A commit is applied before its timestamp is stored, and the store is `SeqCst`: a thread that loads the timestamp
//!    sees the writes.
//!
//! Each clock has its own cache lines. A reader's begin loads one word, which changes once per group of commits.

use base::CommitTs;
use base::sync::atomic::{AtomicU64, Ordering};

/// A word on two cache lines of its own, because neighbouring lines are fetched in pairs.
#[repr(align(128))]
#[derive(Debug)]
struct Line(AtomicU64);

/// The two clocks of a database. No call waits.
///
/// ```
/// use base::CommitTs;
/// let clocks = pando_txn::Clocks::new(CommitTs(7));
/// clocks.advance_applied(CommitTs(9));
/// assert_eq!((clocks.applied(), clocks.visible()), (CommitTs(9), CommitTs(7)));
/// clocks.publish(CommitTs(9));
/// assert_eq!(clocks.visible(), CommitTs(9));
/// ```
#[derive(Debug)]
pub struct Clocks {
    applied: Line,
    visible: Line,
}

impl Clocks {
    /// Creates both clocks at `start`: the newest commit that recovery found, or 0 for a new database.
    pub fn new(start: CommitTs) -> Self {
        Clocks { applied: Line(AtomicU64::new(start.0)), visible: Line(AtomicU64::new(start.0)) }
    }

    /// Returns the newest commit whose writes are in the memtable: a read-write transaction begins here. Its reads
    /// may not be durable yet, which is why its own commit waits until `visible` has reached them.
    #[inline]
    pub fn applied(&self) -> CommitTs {
        CommitTs(self.applied.0.load(Ordering::SeqCst))
    }

    /// Returns the newest commit that may be shown outside: a read-only snapshot begins here.
    #[inline]
    pub fn visible(&self) -> CommitTs {
        CommitTs(self.visible.0.load(Ordering::SeqCst))
    }

    /// Sets `applied`: every commit up to `ts` is in the memtable. Only the thread that applies calls it, in commit
    /// order.
    #[inline]
    pub fn advance_applied(&self, ts: CommitTs) {
        debug_assert!(ts >= self.applied(), "applied went back from {:?} to {ts:?}", self.applied());
        self.applied.0.store(ts.0, Ordering::SeqCst);
    }

    /// Sets `visible`: every commit up to `ts` may be shown. Any thread may call it, in any order: an older `ts` has
    /// no effect.
    #[inline]
    pub fn publish(&self, ts: CommitTs) {
        debug_assert!(ts <= self.applied(), "{ts:?} is published but not applied");
        self.visible.0.fetch_max(ts.0, Ordering::SeqCst);
    }
}
