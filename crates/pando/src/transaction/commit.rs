//! A commit in two parts: everything before the flush, and the wait for it. `commit` runs both in the caller's thread;
//! `aio` runs the second without one.

use crate::database::Shared;
use crate::transaction::Transaction;
use base::{Error, ErrorKind, Result};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use store::commit::Applied;
use txn::Durability;

#[cold]
fn is_replica() -> Error {
    let message = "this database is a replica: make the change in the database that it follows";
    Error::new(ErrorKind::ReadOnly, message)
}

/// A commit that is in the log and the memtable, and not acknowledged yet.
#[cfg(feature = "aio")]
#[derive(Debug)]
pub(crate) struct Unflushed {
    pub applied: Applied,
    /// The bytes of its keys and values.
    pub bytes: u64,
}

impl Shared {
    /// Returns the durability of a commit and the bytes of its keys and values.
    ///
    /// It only borrows the transaction: each function that took it by value would copy it, which costs more than all
    /// of this.
    ///
    /// # Errors
    /// `ReadOnly` if the database is a replica, and the transaction wrote something.
    #[inline]
    pub(super) fn admit(&self, inner: &store::Transaction) -> Result<(Durability, u64)> {
        if self.is_replica.load(Ordering::SeqCst) && inner.has_writes() {
            return Err(is_replica());
        }
        Ok((inner.options().durability, inner.bytes() as u64))
    }

    /// Acknowledges a commit of about `bytes`, and wakes the workers for the work that it left.
    #[inline]
    pub(crate) fn finish_commit(&self, applied: Applied, durability: Durability, bytes: u64) -> Result<u64> {
        self.announce(&applied, durability);
        self.acknowledge(applied, bytes)
    }

    /// Wakes the workers for the work that a commit left.
    #[inline]
    fn announce(&self, applied: &Applied, durability: Durability) {
        if applied.sealed() {
            self.signals.pacer.activate();
            self.signals.set_full(self.store.pressure().is_full());
            self.signals.checkpoint.ring();
        }
        if durability == Durability::Lazy {
            self.signals.want_lazy_sync();
        }
        if applied.wants_segment() {
            self.signals.log.ring();
        }
    }

    /// Waits for the flush that a commit needs, and then as long as the pacer asks.
    #[inline]
    fn acknowledge(&self, applied: Applied, bytes: u64) -> Result<u64> {
        let ts = self.store.acknowledge(applied)?;
        if bytes > 0 && self.signals.pacer.pay(&self.store, bytes) {
            self.signals.note_full();
        }
        Ok(ts.0)
    }
}

impl Transaction {
    /// Checks that it would commit without a conflict now.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.shared.admit(&self.inner)?;
        self.inner.check()
    }

    /// Commits as [`Transaction::commit`] does. It calls `before` first, and calls `placed` with the commit's number as
    /// soon as the commit's place in the order of commits is certain. The commit then still waits for the disk, and if
    /// it is `Sync`, others do not see it yet.
    ///
    /// Use it to keep something outside of the database in the order of commits: a lock that `before` takes and
    /// `placed` releases orders commits, and they do not wait for one another's disk, unless they write large values or
    /// more than memory holds. `before` can write, and must not wait for another commit. `placed` must be brief. It is
    /// not called if nothing is committed, because the transaction wrote nothing or fails. If it panics, the
    /// transaction is committed, and the panic goes on after that.
    ///
    /// # Errors
    /// Those of [`Transaction::commit`] and of `before`. After the call of `placed`, only `Indeterminate`.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// let events = db.ensure_table("events")?;
    /// let order = std::sync::Mutex::new(Vec::new());
    /// let mut tx = db.begin()?;
    /// tx.put(&events, "started", "")?;
    /// let number = tx.commit_placed(|_| Ok(order.lock().unwrap()), |mut order, number| order.push(number))?;
    /// assert_eq!(*order.lock().unwrap(), [number]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn commit_placed<T>(
        mut self,
        before: impl FnOnce(&mut Transaction) -> Result<T>,
        placed: impl FnOnce(T, u64),
    ) -> Result<u64> {
        // `before` can take a lock that another thread of the parent process had at a fork.
        self.shared.store.check_process()?;
        // `before` can take a lock that the holder of the gate needs.
        self.shared.pass_gate();
        let begin = self.commit_number();
        let taken = before(&mut self)?;
        let (durability, bytes) = self.shared.admit(&self.inner)?;
        let applied = self.inner.apply()?;
        // The commit is finished although `placed` panics: without its flush, no later one would be seen either.
        let placing = panic::catch_unwind(AssertUnwindSafe(|| match applied.ts().0 {
            number if number > begin => placed(taken, number),
            _ => drop(taken),
        }));
        let finished = self.shared.finish_commit(applied, durability, bytes);
        placing.unwrap_or_else(|panicked| panic::resume_unwind(panicked));
        finished
    }
}

/// The bytes of writes up to which a transaction holds no memory that has to be charged, and is committed in tens of
/// microseconds.
#[cfg(feature = "aio")]
const SHORT_BYTES: usize = 32 << 10;

#[cfg(feature = "aio")]
impl Transaction {
    /// Returns whether another `bytes` of writes are made without a wait.
    pub(crate) fn is_short_with(&self, bytes: usize) -> bool {
        self.inner.bytes() + bytes <= SHORT_BYTES
    }

    /// Returns whether [`Transaction::apply_here`] would keep its thread for long.
    pub(crate) fn would_delay(&self) -> bool {
        !self.is_short_with(0)
            || self.shared.signals.has_no_room()
            || self.shared.holds_commits()
            || self.shared.store.would_delay_apply(self.inner.bytes() as u64)
    }

    /// Commits except for the flush. It does not wait at the commit gate: the caller has looked a moment ago, as a
    /// commit that was past the gate when another thread took it.
    pub(crate) fn apply_here(self) -> Result<Unflushed> {
        let (durability, bytes) = self.shared.admit(&self.inner)?;
        let applied = self.inner.apply()?;
        self.shared.announce(&applied, durability);
        self.shared.store.wake_readers(&applied);
        Ok(Unflushed { applied, bytes })
    }

    /// Commits except for the flush, after a wait at the commit gate.
    pub(crate) fn apply_waiting(self) -> Result<Unflushed> {
        self.shared.pass_gate();
        self.apply_here()
    }

    /// Returns a copy of the value of `key` if memory alone is sufficient; see
    /// [`crate::Snapshot::get_resident`].
    pub(crate) fn get_resident(&self, table: &store::Table, key: &[u8]) -> Result<store::Resident<Vec<u8>>> {
        self.inner.get_resident(table, key)
    }
}
