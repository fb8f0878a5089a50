//! Single writes, committed together.
//!
//! 0. A short write that asks for no flush, and that nothing keeps waiting, is made on the thread that read it from its
//!    socket. That takes microseconds, and no other thread must be woken. For any other write:
//! 1. The write joins its database's queue. If no thread is committing, one is started.
//! 2. That thread takes the waiting writes, up to a bound, puts them into one transaction, and commits it with one
//!    record of the log and one flush, for any number of clients. Meanwhile the next writes queue up.
//! 3. Every client gets the outcome of its own write. A write that cannot be put, because its key is too long or its
//!    table was dropped, fails alone. A failure of the commit fails all its writes.
//! 4. When the queue is empty, the thread ends its work.
//!
//! Writes are blind, so they conflict only with a drop of their table. The order within a commit is that of the queue:
//! of two writes of one key, the last one stays.

use crate::data::engine::{Engine, Native};
use crate::spans::Phases;
use crate::wire::problem::{Answer, Problem};
use bytes::Bytes;
use pando::{Database, Durability, Error, Expiry, Table, Transaction, TransactionOptions, WriteTables};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// The largest change that is made at once. Copying a longer one takes longer than handing it to another thread.
const AT_ONCE_BYTES: usize = 32 << 10;
/// The most bytes of values that are committed together, unless a single value is longer.
const BATCH_BYTES: usize = 1 << 20;
/// The most writes that are committed together.
const BATCH_WRITES: usize = 4096;
/// The most writes that can wait. Further ones are rejected with 503, because waiting would only use memory.
const MOST_WAITING: usize = 65_536;
/// The most bytes of waiting writes, over all databases. The write of a client that disconnects stays in the queue, and
/// the memory that it was counted as while it was received is available to the next request.
pub const MOST_WAITING_BYTES: usize = 256 << 20;
/// How often a commit is tried that conflicts with the drop of a table.
const ATTEMPTS: u32 = 3;

/// The change of a key.
#[derive(Clone, Debug)]
pub enum Change {
    /// The key gets this value.
    Put(Bytes),
    /// The key gets this value, which expires once the time has passed.
    PutFor(Bytes, Duration),
    /// The key gets this value, which expires when the value before would have. It is committed by itself.
    PutKeeping(Bytes),
    /// The key is deleted if it exists.
    Delete,
}

/// How long an entry lives that is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Until it is deleted, or as long as its table says.
    Unlimited,
    /// For this time from now on.
    For(Duration),
    /// Until the entry that it replaces would have expired. One that replaces none lives until it is deleted.
    AsBefore,
}

impl Life {
    /// Returns how long the entry of `key` lives from now on; `None`: it has no time of its own.
    ///
    /// # Errors
    /// Those of [`Engine::expiry_in`].
    pub fn ttl<E: Engine>(
        self,
        tx: &E::Transaction,
        table: &Table,
        key: &[u8],
    ) -> Result<Option<Duration>, Error> {
        match self {
            Life::Unlimited => Ok(None),
            Life::For(ttl) => Ok(Some(ttl)),
            Life::AsBefore => Ok(match E::expiry_in(tx, table, key)? {
                // The shortest time there is: it expires at once.
                Some(Expiry::In(left)) => Some(left.max(Duration::from_millis(1))),
                Some(Expiry::Never) | None => None,
            }),
        }
    }
}

#[derive(Debug)]
struct Write {
    table: Table,
    key: Vec<u8>,
    change: Change,
    asked: Instant,
    reply: oneshot::Sender<Result<Committed, Error>>,
    /// The memory that the waiting write is counted as.
    _memory: OwnedSemaphorePermit,
}

/// A committed write.
#[derive(Clone, Copy, Debug)]
pub struct Committed {
    /// The number of the commit; `None` if the engine has no order of commits.
    pub number: Option<u64>,
    /// The phases of the write; `None` if it did not wait in a queue.
    pub phases: Option<Phases>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<Write>,
    /// Whether a thread is committing or was started.
    attended: bool,
}

/// The queue of single writes of a database.
#[derive(Debug)]
pub struct Writer {
    db: Database,
    queue: Mutex<[Queue; 3]>,
    /// A permit for each byte of waiting writes.
    memory: Arc<Semaphore>,
}

impl Writer {
    /// Creates a queue for `db`, within `memory`, which has [`MOST_WAITING_BYTES`] permits.
    pub fn new(db: Database, memory: Arc<Semaphore>) -> Arc<Self> {
        Arc::new(Writer { db, queue: Mutex::default(), memory })
    }

    /// Makes the change and returns its commit once it has the requested durability.
    pub async fn write(
        self: &Arc<Self>,
        table: Table,
        key: Vec<u8>,
        change: Change,
        durability: Durability,
    ) -> Answer<Committed> {
        let (change, key) = match self.write_at_once(&table, key, change, durability) {
            Ok(done) => return Ok(done?),
            Err(queued) => queued,
        };
        let busy = || Problem::busy("too many writes are waiting to be committed");
        let bytes = (key.len() + change.len()).clamp(1, MOST_WAITING_BYTES) as u32;
        let memory = Arc::clone(&self.memory).try_acquire_many_owned(bytes).map_err(|_| busy())?;
        let asked = Instant::now();
        let (reply, outcome) = oneshot::channel();
        let lane = durability as usize;
        let send = {
            let queue = &mut self.queues()[lane];
            if queue.waiting.len() >= MOST_WAITING {
                return Err(busy());
            }
            queue.waiting.push(Write { table, key, change, asked, reply, _memory: memory });
            !std::mem::replace(&mut queue.attended, true)
        };
        if send {
            let writer = Arc::clone(self);
            tokio::task::spawn_blocking(move || writer.attend(durability));
        }
        match outcome.await {
            Ok(outcome) => Ok(outcome?),
            Err(_) => Err(Problem::internal(
                "the commit failed unexpectedly, and it is not known whether it was stored; read it back",
            )),
        }
    }

    /// Makes a short change on this thread, which serves sockets, if it need not wait for earlier writes or for the
    /// engine. Handing it to another thread and back takes many times as long as such a commit. In the other cases the
    /// change is returned.
    fn write_at_once(
        &self,
        table: &Table,
        key: Vec<u8>,
        change: Change,
        durability: Durability,
    ) -> Result<Result<Committed, Error>, (Change, Vec<u8>)> {
        let bytes = key.len() + change.len();
        if bytes > AT_ONCE_BYTES
            || self.queues()[durability as usize].attended
            || self.db.would_wait(durability, bytes)
        {
            return Err((change, key));
        }
        let options = TransactionOptions { durability, ..self.db.transaction_options() };
        let outcome = self.db.begin_with(&options).and_then(|mut tx| {
            change.put::<Native>(&mut tx, table, &key)?;
            tx.commit()
        });
        match outcome {
            Err(conflict) if conflict.is_retryable() => Err((change, key)),
            outcome => Ok(outcome.map(|number| Committed { number: Some(number), phases: None })),
        }
    }

    fn queues(&self) -> MutexGuard<'_, [Queue; 3]> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Commits the waiting writes of one durability, batch by batch, until none is left (steps 2 to 4).
    fn attend(&self, durability: Durability) {
        let lane = durability as usize;
        let mut leaving = Leaving { writer: self, lane, attended: true };
        loop {
            let batch = {
                let queue = &mut self.queues()[lane];
                if queue.waiting.is_empty() {
                    queue.attended = false;
                    leaving.attended = false;
                    return;
                }
                let mut bytes = 0;
                let fits = queue.waiting.iter().take(BATCH_WRITES).take_while(|write| {
                    let before = bytes;
                    bytes += write.key.len() + write.change.len();
                    before == 0 || bytes <= BATCH_BYTES
                });
                let count = fits.count();
                let rest = queue.waiting.split_off(count);
                std::mem::replace(&mut queue.waiting, rest)
            };
            self.commit(batch, durability);
        }
    }

    /// Commits the batch in one transaction, and sends each write its outcome. It tries again only if a table was
    /// dropped meanwhile.
    fn commit(&self, batch: Vec<Write>, durability: Durability) {
        let options = TransactionOptions { durability, ..self.db.transaction_options() };
        let begun = Instant::now();
        let mut rest = batch;
        for attempt in 1..=ATTEMPTS {
            let outcome = self.db.begin_with(&options).and_then(|mut tx| {
                rest =
                    std::mem::take(&mut rest).into_iter().filter_map(|write| put(&mut tx, write)).collect();
                if rest.is_empty() { Ok(0) } else { tx.commit() }
            });
            match outcome {
                Err(conflict) if conflict.is_retryable() && attempt < ATTEMPTS => {}
                Ok(number) => {
                    let (together, committed) = (rest.len(), begun.elapsed());
                    return rest.into_iter().for_each(|write| {
                        let queued = begun.saturating_duration_since(write.asked);
                        let phases = Some(Phases { queued, committed, together });
                        reply(write, Ok(Committed { number: Some(number), phases }));
                    });
                }
                Err(error) => {
                    return rest.into_iter().for_each(|write| reply(write, Err(error.duplicate())));
                }
            }
        }
    }
}

impl Change {
    /// Returns the length of the value in bytes.
    pub fn len(&self) -> usize {
        match self {
            Change::Put(value) | Change::PutFor(value, _) | Change::PutKeeping(value) => value.len(),
            Change::Delete => 0,
        }
    }

    /// Returns whether the change depends on what is there, so that it needs a transaction of its own.
    pub fn reads(&self) -> bool {
        matches!(self, Change::PutKeeping(_))
    }

    /// Makes the change in `tx`.
    ///
    /// # Errors
    /// Those of the put or the delete.
    pub fn put<E: Engine>(&self, tx: &mut E::Transaction, table: &Table, key: &[u8]) -> Result<(), Error> {
        match self {
            Change::Put(value) => tx.put(table, key, value),
            Change::PutFor(value, ttl) => E::put_with_ttl(tx, table, key, value, *ttl),
            Change::PutKeeping(value) => match Life::AsBefore.ttl::<E>(tx, table, key)? {
                Some(ttl) => E::put_with_ttl(tx, table, key, value, ttl),
                None => tx.put(table, key, value),
            },
            Change::Delete => tx.delete(table, key),
        }
    }
}

/// Puts a write into the transaction. If that fails, its client gets the error and `None` is returned.
fn put(tx: &mut Transaction, write: Write) -> Option<Write> {
    match write.change.put::<Native>(tx, &write.table, &write.key) {
        Ok(()) => Some(write),
        Err(error) => {
            reply(write, Err(error));
            None
        }
    }
}

/// The client may have disconnected; the write was made anyway.
fn reply(write: Write, outcome: Result<Committed, Error>) {
    let _ = write.reply.send(outcome);
}

/// Cleans up if a commit panics: the next write starts a thread again, and waiting clients get an error from their
/// channels.
struct Leaving<'w> {
    writer: &'w Writer,
    lane: usize,
    attended: bool,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if self.attended {
            let queue = &mut self.writer.queues()[self.lane];
            queue.attended = false;
            queue.waiting.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn writes_that_nobody_waits_for_any_more_are_bounded() {
        let db = Database::builder().in_memory().unwrap();
        let table = db.ensure_table("t").unwrap();
        let memory = Arc::new(Semaphore::new(MOST_WAITING_BYTES));
        let writer = Writer::new(db.clone(), Arc::clone(&memory));
        // A commit is in progress.
        writer.queues()[Durability::Sync as usize].attended = true;
        let change = Change::Put(Bytes::from(vec![7; 1 << 20]));
        // A client sends a value and disconnects.
        let send = |key: u32| {
            let key = key.to_be_bytes().to_vec();
            let write = pin!(writer.write(table.clone(), key, change.clone(), Durability::Sync));
            match write.poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Err(problem)) => Some((problem.status.as_u16(), problem.retry_after_s)),
                Poll::Ready(Ok(_)) => panic!("nobody commits"),
                Poll::Pending => None,
            }
        };
        let refused = (0..1000).find_map(|key| Some((key, send(key)?)));
        assert_eq!(refused, Some((255, (503, Some(1)))));
        // One waiting write is enough to be committed.
        writer.queues()[Durability::Sync as usize].waiting.truncate(1);
        writer.attend(Durability::Sync);
        assert_eq!(db.snapshot().unwrap().get(&table, &[0; 4]).unwrap().unwrap().len(), 1 << 20);
        assert_eq!(memory.available_permits(), MOST_WAITING_BYTES);
        assert!(!writer.queues()[Durability::Sync as usize].attended);
    }
}
