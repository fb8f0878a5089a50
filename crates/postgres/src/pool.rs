//! The connections of a database: at most so many, used again and again.

use crate::connection::{Alone, Connection, Driven};
use crate::failure::Trouble;
use crate::options::Options;
use crate::statements::Prepared;
use crate::tls::Tls;
use base::sync::lock;
use base::{Error, ErrorKind, Result};
use pando::remote::Fault;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, Config};

/// The time within which a thread that makes many requests comes back to its connection.
const MISSED_WITHIN: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) struct Pool {
    config: Config,
    tls: Tls,
    options: Options,
    state: Mutex<State>,
    freed: Condvar,
    /// The number of commits with writes.
    commits: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// The idle connections, in the order in which they became idle.
    idle: Vec<Idle>,
    /// The number of connections that exist, idle ones included, and of those that are being opened.
    open: usize,
    /// The number of those that are being opened.
    opening: usize,
    /// The number of threads that wait for one. A condition variable makes a system call for each notice, also if no
    /// thread waits.
    waiting: usize,
    is_closed: bool,
}

#[derive(Debug)]
struct Idle {
    connection: Box<Connection>,
    since: Instant,
    /// The thread that used it last.
    user: ThreadId,
}

impl State {
    /// Takes the idle connection that fits best. O(connections).
    fn take_idle(&mut self, user: ThreadId, alone: Option<Alone>) -> Option<Box<Connection>> {
        let of = |idle: &Idle| (idle.user, idle.since.elapsed(), idle.connection.alone());
        let place = best(self.idle.iter().map(of), user, alone)?;
        Some(self.idle.remove(place).connection)
    }
}

/// Returns the place of the idle connection that fits best. Of each are given the thread that used it last, how long it
/// has been idle, which becomes less from one to the next, and its isolation. In this order:
///
/// 1. One that this thread used last, if possible with the isolation that is needed. A connection that another thread
///    has used is in the caches of another processor, and so is the server's process for it: with two threads on two
///    processors, a get on it took half as much processor time again.
/// 2. The newest that no thread will miss. A thread without its connection takes that of another thread, and so on.
/// 3. The oldest.
fn best(
    idle: impl DoubleEndedIterator<Item = (ThreadId, Duration, Option<Alone>)> + ExactSizeIterator,
    user: ThreadId,
    alone: Option<Alone>,
) -> Option<usize> {
    let (mut own, mut left, mut oldest) = (None, None, None);
    for (place, (last, unused, isolation)) in idle.enumerate().rev() {
        if last == user && alone.is_none_or(|alone| isolation == Some(alone)) {
            return Some(place);
        }
        own = own.or((last == user).then_some(place));
        left = left.or((unused >= MISSED_WITHIN).then_some(place));
        oldest = Some(place);
    }
    own.or(left).or(oldest)
}

/// A connection, and what a request on it returned.
type Ran<T> = (Lease, std::result::Result<T, Trouble>);

impl Pool {
    pub fn new(config: Config, tls: Tls, options: Options) -> Self {
        Pool {
            config,
            tls,
            options,
            state: Mutex::default(),
            freed: Condvar::new(),
            commits: AtomicU64::new(0),
        }
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the number of connections that exist, idle ones included.
    pub fn open(&self) -> usize {
        lock(&self.state).open
    }

    /// Opens a connection that the pool does not count, without prepared statements.
    pub fn open_bare(&self) -> std::result::Result<Connection, Trouble> {
        Connection::open(&self.config, &self.tls, &self.options)
    }

    /// Returns a connection, and whether it was used before. One that was may have ended without notice. `alone`: the
    /// isolation of the statement that it is taken for, if that is a transaction by itself.
    pub fn take(self: &Arc<Self>, alone: Option<Alone>) -> Result<(Lease, bool)> {
        let user = thread::current().id();
        let mut deadline = None;
        let mut state = lock(&self.state);
        loop {
            if state.is_closed {
                return Err(Error::new(ErrorKind::Closed, "the database is closed"));
            }
            if let Some(connection) = state.take_idle(user, alone) {
                return Ok((self.lease(connection), true));
            }
            if state.open < self.options.max_connections {
                break;
            }
            let now = Instant::now();
            let left = deadline.get_or_insert(now + self.options.connect_timeout).duration_since(now);
            if left.is_zero() {
                return Err(self.used_up(state.opening));
            }
            state.waiting += 1;
            state = self.freed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
        state.open += 1;
        state.opening += 1;
        drop(state);
        // From here on the lease gives the place back if this fails.
        let mut lease = Lease { pool: Arc::clone(self), connection: None, keeps_place: false };
        let opened = self.open_prepared();
        lock(&self.state).opening -= 1;
        lease.connection = Some(Box::new(opened.map_err(Error::from)?));
        Ok((lease, false))
    }

    fn open_prepared(&self) -> std::result::Result<Connection, Trouble> {
        let mut connection = self.open_bare()?;
        connection.prepare(&self.options.schema)?;
        Ok(connection)
    }

    /// Returns the error of a thread that got no connection in time, while `opening` others wait for the server.
    fn used_up(&self, opening: usize) -> Error {
        if opening > 0 {
            let message = "PostgreSQL accepts no new connection";
            let why = format!("{opening} of {} are being opened", self.options.max_connections);
            return Fault::Unavailable.error(ErrorKind::Io, message, why);
        }
        let message = format!("all {} connections to PostgreSQL are in use", self.options.max_connections);
        let advice = "end snapshots and transactions sooner, or raise max_connections";
        Fault::Busy.error(ErrorKind::Full, message, advice)
    }

    /// Runs a request that may be repeated, and returns the connection that it ran on. If a connection turns out to
    /// have ended while it was idle, the request is made once more, on a new one. `alone`: as for [`Pool::take`].
    pub fn run<T>(
        self: &Arc<Self>,
        alone: Option<Alone>,
        work: &impl AsyncFn(&Client, &Prepared) -> Driven<T>,
    ) -> Result<Ran<T>> {
        let run = |lease: &mut Lease| match alone {
            Some(alone) => lease.connection().read_alone(alone, work),
            None => lease.connection().run(work),
        };
        let (mut lease, was_used) = self.take(alone)?;
        let done = run(&mut lease);
        if !was_used || !done.as_ref().is_err_and(Trouble::is_lost) {
            return Ok((lease, done));
        }
        drop(lease);
        self.forget_idle();
        let mut lease = self.take(alone)?.0;
        let done = run(&mut lease);
        Ok((lease, done))
    }

    /// Wakes a thread that waits for a connection, or for the place of one, if there is such a thread.
    fn notify_one(&self, state: MutexGuard<'_, State>) {
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.freed.notify_one();
        }
    }

    fn lease(self: &Arc<Self>, connection: Box<Connection>) -> Lease {
        Lease { pool: Arc::clone(self), connection: Some(connection), keeps_place: false }
    }

    /// Drops the idle connections: one of them was found to have ended, so the others probably have, too.
    pub fn forget_idle(&self) {
        let mut state = lock(&self.state);
        let dropped = std::mem::take(&mut state.idle);
        state.open -= dropped.len();
        drop(state);
        self.freed.notify_all();
    }

    /// Closes the connections that have been idle for so long.
    pub fn close_idle(&self, unused_for: Duration) {
        let mut state = lock(&self.state);
        let fresh = state.idle.partition_point(|idle| idle.since.elapsed() >= unused_for);
        let closed: Vec<_> = state.idle.drain(..fresh).collect();
        state.open -= closed.len();
        drop(state);
        if !closed.is_empty() {
            self.freed.notify_all();
        }
    }

    /// Counts a commit with writes, and returns the number of those before it.
    pub fn count_commit(&self) -> u64 {
        self.commits.fetch_add(1, Ordering::SeqCst)
    }

    pub fn close(&self) {
        lock(&self.state).is_closed = true;
        self.forget_idle();
    }
}

/// A connection that one session uses. Dropping it closes the connection, unless it was given back.
#[derive(Debug)]
pub(crate) struct Lease {
    pool: Arc<Pool>,
    connection: Option<Box<Connection>>,
    /// Whether the connection lives on in the pool.
    keeps_place: bool,
}

impl Lease {
    pub fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("a lease has its connection until it is given back")
    }

    /// Gives the connection back for others. No transaction is open on it.
    pub fn give_back(mut self) {
        let Some(connection) = self.connection.take() else { return };
        if connection.has_ended() {
            return;
        }
        let idle = Idle { connection, since: Instant::now(), user: thread::current().id() };
        let mut state = lock(&self.pool.state);
        if state.is_closed {
            // The lock ends before the connection is closed.
            return;
        }
        self.keeps_place = true;
        state.idle.push(idle);
        self.pool.notify_one(state);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        drop(self.connection.take());
        if !self.keeps_place {
            let mut state = lock(&self.pool.state);
            state.open -= 1;
            self.pool.notify_one(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_connection_and_takes_none_that_another_one_misses() {
        let me = thread::current().id();
        let [busy, ended] = [(); 2].map(|()| thread::spawn(|| thread::current().id()).join().unwrap());
        let (serializable, snapshot) = (Some(Alone::Serializable), Some(Alone::Snapshot));
        let best = |idle: &[(ThreadId, u64, Option<Alone>)], alone| {
            let of = |&(user, idle_ms, isolation)| (user, Duration::from_millis(idle_ms), isolation);
            best(idle.iter().map(of), me, alone)
        };
        assert_eq!(best(&[], None), None);
        let others =
            [(ended, 900, serializable), (ended, 400, None), (busy, 3, snapshot), (busy, 1, snapshot)];
        assert_eq!(best(&others, snapshot), Some(1), "the newest that was left");
        assert_eq!(best(&others[2..], snapshot), Some(0), "the oldest");
        let own = [(me, 700, snapshot), (ended, 500, snapshot), (me, 1, serializable), (busy, 1, snapshot)];
        assert_eq!(best(&own, snapshot), Some(0));
        assert_eq!(best(&own, serializable), Some(2));
        assert_eq!(best(&own, None), Some(2), "the newest of its own");
        assert_eq!(best(&[(me, 700, None), others[3]], serializable), Some(0), "another isolation is cheap");
    }
}
