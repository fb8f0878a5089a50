//! What the connections of a process to one database share: whose turn it is to commit, and which rowids were given.
//!
//! # Turns
//! 1. A commit is *shared*: any number of them run at once, and the engine decides which of them conflict.
//! 2. A turn is *exclusive* from `BEGIN IMMEDIATE`, or from the first row of a statement that writes outside of `BEGIN`
//!    ([`State::secure`](crate::state::State::secure)), to the end of its transaction. It begins after the commits that
//!    are running have ended, and it holds the engine's commit gate, so that nothing at all is committed meanwhile.
//!    Other connections get `SQLITE_BUSY` for what writes, after their busy handler has given up.
//! 3. A turn is *brief* while a transaction is repeated for the last time, and while a statement writes beside a
//!    running query of its connection. Commits wait for its end, without their busy handler: a program that set none
//!    would see an error that it has done nothing to cause. It becomes exclusive once its end depends on the program:
//!    the statement returns a row, or is within `BEGIN`. And a thread does not wait for its own: a function that the
//!    statement calls may write through a second connection. A statement can take long, so a wait is in parts of
//!    [`PART`]: between them, the caller looks at interrupts and time limits ([`Blocked::ForNow`]).
//!
//! # Rowids
//! SQLite gives a new row the number after the last one. Transactions that run at once would all give the same number,
//! so each also passes over the numbers that others have given: those that still run, and those that ended after it
//! began, whose rows it does not see. So with one writer the numbers are exactly SQLite's.

use crate::counters::Counted;
use pando::CommitHold;
use pando::any::{AnyDatabase, AnyTransaction};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// Those of databases, by [`AnyDatabase::instance`]. A connection holds both, so that the number is not given to
/// another database meanwhile.
type ByInstance = HashMap<usize, Weak<Writers>>;

/// Those of all databases that have connections.
static ALL: Mutex<Option<ByInstance>> = Mutex::new(None);

#[derive(Debug, Default)]
pub(crate) struct Writers {
    inner: Mutex<Inner>,
    changed: Condvar,
    /// The counters of `AUTOINCREMENT`.
    pub counted: Counted,
}

#[derive(Debug, Default)]
struct Inner {
    turn: Option<Turn>,
    /// How many commits are running.
    committing: usize,
    /// Counts the beginnings and ends of transactions.
    clock: u64,
    /// How many transactions are running.
    running: usize,
    /// How many threads wait for a change. To wake none is a system call, too, and would be one for each commit.
    waiting: usize,
    given: HashMap<u32, Given>,
}

/// The kind of a turn that excludes others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Exclusive,
    /// With the thread whose turn it is.
    Brief(ThreadId),
}

impl Turn {
    /// Returns a brief turn of this thread.
    pub(crate) fn brief() -> Turn {
        Turn::Brief(thread::current().id())
    }
}

/// Why a turn or a commit cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// By a transaction whose end depends on a program, or by a turn of the same thread.
    Excluded,
    /// By something that ends by itself: it is to be tried again at once, unless the wait is to stop.
    ForNow,
}

impl Inner {
    /// Returns whether another thread has a brief turn, whose end is worth waiting for.
    fn is_brief_elsewhere(&self) -> bool {
        matches!(self.turn, Some(Turn::Brief(by)) if by != thread::current().id())
    }
}

/// The rowids that were given in one table.
#[derive(Debug, Default)]
struct Given {
    /// Each running transaction's number, and the last rowid that is its own.
    running: Vec<(u64, i64)>,
    /// The last rowid of transactions that ended, and when the last of them did.
    ended: Option<(i64, u64)>,
}

/// How often, and after which pauses, a brief turn asks for the commit gate, because no busy handler waits for it.
const GATE_TRIES: u32 = 200;
const GATE_PAUSE: Duration = Duration::from_millis(1);

/// How long a call waits for a brief turn, or for running commits, before it returns [`Blocked::ForNow`].
const PART: Duration = Duration::from_millis(10);
/// The parts of a wait for running commits. Meanwhile no other commit begins, so it is longer: given up too early, it
/// would begin anew each time, and never end among many writers.
const PARTS_FOR_COMMITS: u32 = 20;

/// Locks a mutex. Between two statements the data are whole, so a panic elsewhere leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writers {
    /// Returns those of a database.
    pub(crate) fn of(db: &AnyDatabase) -> Arc<Writers> {
        let mut all = lock(&ALL);
        let all = all.get_or_insert_default();
        if let Some(writers) = all.get(&db.instance()).and_then(Weak::upgrade) {
            return writers;
        }
        all.retain(|_, writers| writers.strong_count() > 0);
        let writers = Arc::new(Writers::default());
        all.insert(db.instance(), Arc::downgrade(&writers));
        writers
    }

    /// Changes what others may wait for, and wakes them.
    fn change(&self, how: impl FnOnce(&mut Inner)) {
        let waiting = {
            let mut inner = lock(&self.inner);
            how(&mut inner);
            inner.waiting
        };
        if waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// Waits while `holds` returns true, at most for `time`.
    fn wait_while<'g>(
        &self,
        mut inner: MutexGuard<'g, Inner>,
        time: Duration,
        holds: impl Fn(&Inner) -> bool,
    ) -> Result<MutexGuard<'g, Inner>, Blocked> {
        inner.waiting += 1;
        let waited = self.changed.wait_timeout_while(inner, time, |inner| holds(inner));
        let (mut inner, end) = waited.unwrap_or_else(PoisonError::into_inner);
        inner.waiting -= 1;
        if end.timed_out() { Err(Blocked::ForNow) } else { Ok(inner) }
    }

    /// Waits for the end of a brief turn, and checks that the turn is free.
    fn wait_for_turn(&self) -> Result<MutexGuard<'_, Inner>, Blocked> {
        let inner = self.wait_while(lock(&self.inner), PART, Inner::is_brief_elsewhere)?;
        if inner.turn.is_some() { Err(Blocked::Excluded) } else { Ok(inner) }
    }

    /// Returns whether another transaction excludes writers until its end.
    pub(crate) fn is_excluded(&self) -> bool {
        lock(&self.inner).turn == Some(Turn::Exclusive)
    }

    /// Excludes other writers, after the commits that are running.
    ///
    /// # Errors
    /// Something excludes this.
    pub(crate) fn exclude(self: &Arc<Self>, db: &AnyDatabase, turn: Turn) -> Result<Excluding, Blocked> {
        let mut inner = self.wait_for_turn()?;
        inner.turn = Some(turn);
        // From here on, what is dropped gives the turn back.
        let is_brief = turn != Turn::Exclusive;
        let mut excluding = Excluding { writers: Arc::clone(self), hold: None, is_brief };
        drop(self.wait_while(inner, PART * PARTS_FOR_COMMITS, |inner| inner.committing > 0)?);
        // A remote store has no gate: writers of other processes are not excluded, and can conflict.
        let Some(db) = db.native() else { return Ok(excluding) };
        // A retry of `Database::write` can have the gate, for as long as its closure runs.
        for _ in 0..if is_brief { GATE_TRIES } else { 0 } {
            excluding.hold = db.try_hold_commits();
            if excluding.hold.is_some() {
                return Ok(excluding);
            }
            thread::sleep(GATE_PAUSE);
        }
        excluding.hold = Some(db.try_hold_commits().ok_or(Blocked::Excluded)?);
        Ok(excluding)
    }

    /// Begins a commit beside others.
    ///
    /// # Errors
    /// Something excludes this.
    pub(crate) fn begin_commit(&self) -> Result<Committing<'_>, Blocked> {
        self.wait_for_turn()?.committing += 1;
        Ok(Committing(self))
    }

    /// Notes that a transaction begins. Call it before the transaction reads.
    pub(crate) fn enter(self: &Arc<Self>) -> Ticket {
        let mut inner = lock(&self.inner);
        inner.clock += 1;
        inner.running += 1;
        Ticket { writers: Arc::clone(self), number: inner.clock, roots: Vec::new() }
    }
}

/// A commit that runs, until this is dropped.
#[must_use = "the commit has ended once this is dropped"]
pub(crate) struct Committing<'w>(&'w Writers);

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        self.0.change(|inner| inner.committing -= 1);
    }
}

/// The right to be the only one that commits. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Excluding {
    writers: Arc<Writers>,
    hold: Option<CommitHold>,
    is_brief: bool,
}

impl Excluding {
    /// Commits past the gate, which this holds.
    pub(crate) fn commit(&self, transaction: AnyTransaction) -> pando::Result<Option<u64>> {
        match (&self.hold, transaction) {
            (Some(hold), AnyTransaction::Native(transaction)) => hold.commit(transaction).map(Some),
            (_, transaction) => transaction.commit(),
        }
    }

    /// Checks that a transaction meets no conflict in [`Excluding::commit`], as long as it reads and writes nothing
    /// more. A remote store cannot be asked that.
    pub(crate) fn check(&self, transaction: &mut AnyTransaction) -> pando::Result<()> {
        match (&self.hold, transaction) {
            (Some(hold), AnyTransaction::Native(transaction)) => hold.check(transaction),
            _ => Ok(()),
        }
    }

    /// Makes a brief turn exclusive, so that others wait for it only with a busy handler.
    pub(crate) fn lengthen(&mut self) {
        if std::mem::take(&mut self.is_brief) {
            self.writers.change(|inner| inner.turn = Some(Turn::Exclusive));
        }
    }
}

impl Drop for Excluding {
    fn drop(&mut self) {
        // The gate opens first: a writer that finds the turn free must not find the gate held.
        self.hold = None;
        self.writers.change(|inner| inner.turn = None);
    }
}

/// A transaction that runs. Dropping it says that it has ended: after its commit, or without one.
#[derive(Debug)]
pub(crate) struct Ticket {
    writers: Arc<Writers>,
    pub number: u64,
    /// The tables in which it was given rowids.
    roots: Vec<u32>,
}

impl Ticket {
    /// Gives the transaction `count` rowids of a table, from `next` on or after those of others. Returns the first, or
    /// `None` if fewer are left.
    pub(crate) fn give(&mut self, root: u32, next: i64, count: i64) -> Option<i64> {
        let mut inner = lock(&self.writers.inner);
        let given = inner.given.entry(root).or_default();
        let of_running =
            given.running.iter().filter(|&&(owner, _)| owner != self.number).map(|&(_, last)| last);
        let of_ended = given.ended.filter(|&(_, at)| at > self.number).map(|(last, _)| last);
        let first = match of_running.chain(of_ended).max() {
            Some(last) => next.max(last.checked_add(1)?),
            None => next,
        };
        let last = first.checked_add(count - 1)?;
        match given.running.iter_mut().find(|(owner, _)| *owner == self.number) {
            Some((_, own)) => *own = last.max(*own),
            None => {
                given.running.push((self.number, last));
                self.roots.push(root);
            }
        }
        Some(first)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut inner = lock(&self.writers.inner);
        inner.clock += 1;
        inner.running -= 1;
        if inner.running == 0 {
            // A transaction that begins from now on sees everything.
            inner.given.clear();
            return;
        }
        let now = inner.clock;
        for root in &self.roots {
            let Some(given) = inner.given.get_mut(root) else { continue };
            let Some(at) = given.running.iter().position(|&(owner, _)| owner == self.number) else {
                continue;
            };
            let (_, last) = given.running.swap_remove(at);
            given.ended = Some((given.ended.map_or(last, |(before, _)| before.max(last)), now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pando::Database;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn fresh() -> (AnyDatabase, Arc<Writers>) {
        let db = AnyDatabase::from(Database::builder().in_memory().expect("it opens"));
        let writers = Writers::of(&db);
        (db, writers)
    }

    /// Runs `waiter` in another thread and expects that it returns only after `act`.
    fn waits_for<T: Send>(waiter: impl FnOnce() -> T + Send, act: impl FnOnce()) -> T {
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let result = waiter();
                is_done.store(true, Ordering::SeqCst);
                result
            });
            thread::sleep(Duration::from_millis(30));
            assert!(!is_done.load(Ordering::SeqCst), "it does not wait");
            act();
            waiting.join().expect("it ends")
        })
    }

    #[test]
    fn a_turn_begins_after_the_commits_that_are_running() {
        let (db, writers) = fresh();
        for turn in [Turn::Exclusive, Turn::brief()] {
            let running = writers.begin_commit().expect("nobody excludes it");
            let excluding = waits_for(|| writers.exclude(&db, turn), || drop(running));
            assert!(excluding.is_ok());
        }
    }

    #[test]
    fn a_turn_that_waits_for_commits_is_woken() {
        let (db, writers) = fresh();
        // Without a wake-up, the wait ends with its part. Another process may hold one of them up.
        let wait = || {
            let running = writers.begin_commit().expect("nobody excludes it");
            let began = std::time::Instant::now();
            let excluding = waits_for(|| writers.exclude(&db, Turn::brief()), || drop(running));
            assert!(excluding.is_ok());
            began.elapsed()
        };
        let shortest = (0..5).map(|_| wait()).min().expect("there are five");
        assert!(shortest < PART * PARTS_FOR_COMMITS * 3 / 4, "{shortest:?}");
    }

    #[test]
    fn a_brief_turn_waits_for_the_gate() {
        let (db, writers) = fresh();
        let hold = db.native().and_then(Database::try_hold_commits).expect("nobody else does");
        assert_eq!(writers.exclude(&db, Turn::Exclusive).map(drop), Err(Blocked::Excluded));
        let excluding = waits_for(|| writers.exclude(&db, Turn::brief()), || drop(hold));
        assert!(excluding.is_ok());
    }

    /// Repeats `attempt` while it is blocked for now, as `sqlite3_step` does without an interrupt.
    fn again<T>(attempt: impl Fn() -> Result<T, Blocked>) -> Result<(), Blocked> {
        loop {
            match attempt() {
                Err(Blocked::ForNow) => {}
                done => return done.map(drop),
            }
        }
    }

    #[test]
    fn commits_wait_for_a_brief_turn_and_not_for_one_whose_end_is_open() {
        let (db, writers) = fresh();
        let excluding = writers.exclude(&db, Turn::brief()).expect("nobody else does");
        let own = Err(Blocked::Excluded);
        assert!(!writers.is_excluded());
        assert_eq!(writers.begin_commit().map(drop), own, "it would wait for itself");
        assert_eq!(writers.exclude(&db, Turn::Exclusive).map(drop), own, "it would wait for itself");
        assert_eq!(waits_for(|| again(|| writers.begin_commit()), || drop(excluding)), Ok(()));

        let mut excluding = writers.exclude(&db, Turn::brief()).expect("nobody else does");
        let waited = waits_for(|| again(|| writers.begin_commit()), || excluding.lengthen());
        assert_eq!(waited, Err(Blocked::Excluded));
        assert!(writers.is_excluded());
        drop(excluding);
        assert!(!writers.is_excluded() && writers.begin_commit().is_ok());
    }

    #[test]
    fn a_wait_can_be_stopped() {
        let (db, writers) = fresh();
        let elsewhere = |attempt: &(dyn Fn() -> Result<(), Blocked> + Sync)| {
            thread::scope(|scope| scope.spawn(attempt).join().expect("it ends"))
        };
        let excluding = writers.exclude(&db, Turn::brief()).expect("nobody else does");
        assert_eq!(elsewhere(&|| writers.begin_commit().map(drop)), Err(Blocked::ForNow));
        assert_eq!(elsewhere(&|| writers.exclude(&db, Turn::Exclusive).map(drop)), Err(Blocked::ForNow));
        drop(excluding);
        // A commit that takes long is not waited for without end, and the turn is given back.
        let running = writers.begin_commit().expect("nobody excludes it");
        assert_eq!(writers.exclude(&db, Turn::brief()).map(drop), Err(Blocked::ForNow));
        assert!(writers.begin_commit().is_ok());
        drop(running);
        assert!(writers.exclude(&db, Turn::brief()).is_ok());
    }
}
