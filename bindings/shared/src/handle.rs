//! Databases, snapshots and transactions that can be closed before they are freed.

use crate::failure::{Failure, Outcome};
use pando::{CommitHold, Database, ErrorKind, Snapshot, Transaction, TransactionOptions};
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// An open database.
#[derive(Debug)]
pub struct Handle {
    db: Database,
    is_closed: AtomicBool,
    /// What the connections of SQL share, once there is one.
    #[cfg(feature = "sql")]
    sql: std::sync::OnceLock<sql::Sql>,
}

impl Handle {
    /// Of a database that was just opened.
    pub fn new(db: Database) -> Arc<Self> {
        Arc::new(Handle {
            db,
            is_closed: AtomicBool::new(false),
            #[cfg(feature = "sql")]
            sql: std::sync::OnceLock::new(),
        })
    }

    /// The database with SQL, if it may be used.
    #[cfg(feature = "sql")]
    pub(crate) fn sql(&self) -> Outcome<&sql::Sql> {
        let db = self.open()?;
        Ok(self.sql.get_or_init(|| sql::Sql::new(db.clone())))
    }

    /// The database, if it may be used. Also what needs no call of the database begins with this: records that were
    /// read ahead, positions, statements of SQL.
    pub fn open(&self) -> Outcome<&Database> {
        self.check_process()?;
        if self.is_closed() {
            return Err(Failure::closed("the database"));
        }
        Ok(&self.db)
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Closes the database for all that share it. A second call waits for the first, and has the same result.
    pub fn close(&self) -> Outcome<()> {
        self.is_closed.store(true, Ordering::SeqCst);
        let closed = self.db.close();
        // A check that is running has refused it: nothing is closed, unless another call has done it.
        let is_refused = closed.as_ref().is_err_and(|error| error.kind() == ErrorKind::Invalid);
        self.is_closed.store(!is_refused || self.db.is_closed(), Ordering::SeqCst);
        Ok(closed?)
    }

    /// Fails with `Forked` in the child of a fork, also if the database is closed. A call that is possible after the
    /// end of the database begins with this.
    pub fn check_process(&self) -> Outcome<()> {
        Ok(self.db.check_process()?)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Nobody is left to get the error; `close` returns it.
        let _ = self.close();
    }
}

/// A snapshot, which one call at a time reads.
#[derive(Debug)]
pub struct Held {
    handle: Arc<Handle>,
    inner: Mutex<Option<Snapshot>>,
    /// For checks without the lock.
    is_closed: AtomicBool,
}

impl Held {
    /// Takes a snapshot.
    pub fn take(handle: &Arc<Handle>) -> Outcome<Arc<Self>> {
        let snapshot = handle.open()?.snapshot()?;
        let inner = Mutex::new(Some(snapshot));
        Ok(Arc::new(Held { handle: Arc::clone(handle), inner, is_closed: AtomicBool::new(false) }))
    }

    /// Fails if the snapshot or its database is closed.
    pub fn check(&self) -> Outcome<()> {
        self.handle.open()?;
        if self.is_closed.load(Ordering::SeqCst) || self.inner.is_poisoned() {
            return Err(Failure::closed("the snapshot"));
        }
        Ok(())
    }

    /// Runs `read` on the snapshot.
    pub fn read<T>(&self, read: impl FnOnce(&Snapshot) -> pando::Result<T>) -> Outcome<T> {
        self.handle.open()?;
        let held = try_lock(&self.inner, "the snapshot")?;
        let snapshot = held.as_ref().ok_or_else(|| Failure::closed("the snapshot"))?;
        Ok(read(snapshot)?)
    }

    /// The database.
    pub fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Ends the snapshot. A second time has no effect.
    pub fn close(&self) -> Outcome<()> {
        self.handle.check_process()?;
        let mut held = try_lock(&self.inner, "the snapshot")?;
        self.is_closed.store(true, Ordering::SeqCst);
        drop(held.take());
        Ok(())
    }
}

/// A transaction, which one call at a time uses.
#[derive(Debug)]
pub struct Begun {
    handle: Arc<Handle>,
    inner: Mutex<Option<Transaction>>,
    /// For checks without the lock.
    is_ended: AtomicBool,
    /// How often something was written or undone: what was read before may differ.
    changes: AtomicU64,
}

impl Begun {
    /// Begins a transaction.
    pub fn begin(handle: &Arc<Handle>, options: &TransactionOptions) -> Outcome<Arc<Self>> {
        let inner = Mutex::new(Some(handle.open()?.begin_with(options)?));
        let (is_ended, changes) = (AtomicBool::new(false), AtomicU64::new(0));
        Ok(Arc::new(Begun { handle: Arc::clone(handle), inner, is_ended, changes }))
    }

    /// Fails if the transaction has ended or its database is closed.
    pub fn check(&self) -> Outcome<()> {
        self.handle.open()?;
        if self.is_ended.load(Ordering::SeqCst) || self.inner.is_poisoned() {
            return Err(ended());
        }
        Ok(())
    }

    /// The database.
    pub fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Runs `read` on the transaction.
    pub fn read<T>(&self, read: impl FnOnce(&Transaction) -> pando::Result<T>) -> Outcome<T> {
        self.handle.open()?;
        let guard = try_lock(&self.inner, "the transaction")?;
        Ok(read(guard.as_ref().ok_or_else(ended)?)?)
    }

    /// Runs `write` on the transaction.
    pub fn write<T>(&self, write: impl FnOnce(&mut Transaction) -> pando::Result<T>) -> Outcome<T> {
        self.handle.open()?;
        let mut guard = try_lock(&self.inner, "the transaction")?;
        let transaction = guard.as_mut().ok_or_else(ended)?;
        self.changes.fetch_add(1, Ordering::SeqCst);
        Ok(write(transaction)?)
    }

    /// How often something was written or undone so far.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Commits all changes or none, and ends the transaction. Returns the number of the commit.
    pub fn commit(&self) -> Outcome<u64> {
        self.handle.open()?;
        Ok(self.take()?.ok_or_else(ended)?.commit()?)
    }

    /// Commits past what holds commits back. The rest is as for [`Begun::commit`].
    pub fn commit_within(&self, hold: &Hold) -> Outcome<u64> {
        self.handle.open()?;
        let held = hold.held().clone();
        let transaction = self.take()?.ok_or_else(ended)?;
        Ok(match held {
            Some(held) => held.commit(transaction)?,
            None => transaction.commit()?,
        })
    }

    /// Undoes all changes and ends the transaction. It has no effect on one that has ended.
    pub fn roll_back(&self) -> Outcome<()> {
        self.handle.check_process()?;
        drop(self.take()?);
        Ok(())
    }

    /// Takes the transaction, to end it; `None` if it has ended.
    fn take(&self) -> Outcome<Option<Transaction>> {
        let mut guard = try_lock(&self.inner, "the transaction")?;
        self.is_ended.store(true, Ordering::SeqCst);
        Ok(guard.take())
    }
}

/// What holds back the commits of all others, until it is released or dropped.
#[derive(Debug)]
pub struct Hold {
    handle: Arc<Handle>,
    /// A commit shares it, so that a release need not wait: the last one to have it lets others commit.
    inner: Mutex<Option<Arc<CommitHold>>>,
}

impl Hold {
    /// Holds back commits from now on. `None` if they are held back already.
    pub fn take(handle: &Arc<Handle>) -> Outcome<Option<Self>> {
        let hold = handle.open()?.try_hold_commits();
        Ok(hold.map(|hold| Hold { handle: Arc::clone(handle), inner: Mutex::new(Some(Arc::new(hold))) }))
    }

    /// The caller is in no child of a fork: a thread of the parent may have the lock.
    fn held(&self) -> MutexGuard<'_, Option<Arc<CommitHold>>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets others commit, at the latest after the commit that runs. A second time has no effect.
    pub fn release(&self) -> Outcome<()> {
        self.handle.check_process()?;
        drop(self.held().take());
        Ok(())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let held = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // In the child of a fork a thread of the parent may have the lock of the gate.
        if held.is_some() && self.handle.check_process().is_err() {
            mem::forget(held);
        }
    }
}

#[cold]
fn ended() -> Failure {
    Failure::closed("the transaction")
}

/// The lock, if no other call has it. A poisoned one counts as closed.
pub(crate) fn try_lock<'a, T>(mutex: &'a Mutex<T>, what: &str) -> Outcome<MutexGuard<'a, T>> {
    mutex.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => Failure::in_use(what),
        TryLockError::Poisoned(_) => Failure::closed(what),
    })
}
