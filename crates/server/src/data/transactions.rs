//! Interactive transactions: one request begins a transaction, others use it, and a last one ends it. An unused
//! transaction is rolled back.
//!
//! 1. A transaction is identified by a token of 16 random bytes, and belongs to one database.
//! 2. One request at a time uses it. A second one is rejected, because waiting would occupy a thread.
//! 3. A transaction that is unused for the idle time is rolled back, and so is one that exceeds the longest lifetime.
//!    This also bounds what the readers of disconnected clients keep from being freed.
//! 4. The number of transactions is limited. A request for one more gets 429 and may retry.

use crate::data::engine::{Engine, Native};
use crate::data::open::Open;
use crate::limits::handoff::hand_off;
use crate::wire::digits::{hex, random};
use crate::wire::problem::{Answer, Problem};
use axum::http::StatusCode;
use pando::TransactionOptions;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// The longest lifetime of a transaction, in idle times.
const LONGEST_IDLES: u32 = 20;

/// The transactions that clients hold.
#[derive(Debug)]
pub struct Transactions<E: Engine = Native> {
    held: Mutex<HashMap<String, Arc<Entry<E>>>>,
    most: usize,
    idle: Duration,
}

#[derive(Debug)]
struct Entry<E: Engine> {
    database: String,
    open: Arc<Open<E>>,
    /// The id by which others see the transaction. The token is a secret of its client.
    id: E::Id,
    inner: Mutex<Inner<E>>,
}

#[derive(Debug)]
struct Inner<E: Engine> {
    /// The transaction; `None` once it has ended.
    transaction: Option<E::Transaction>,
    begun: Instant,
    used: Instant,
}

fn no_such() -> Problem {
    let detail = "there is no such transaction: it has ended, or was rolled back after it was idle for \
                  too long; begin another";
    Problem::new(StatusCode::NOT_FOUND, "no-transaction", detail)
}

impl<E: Engine> Transactions<E> {
    /// Allows `most` transactions at a time, each rolled back after it was unused for `idle`.
    pub fn new(most: usize, idle: Duration) -> Self {
        Transactions { held: Mutex::default(), most, idle }
    }

    /// Returns how long a transaction can stay unused.
    pub fn idle(&self) -> Duration {
        self.idle
    }

    /// Returns the number of open transactions.
    pub fn count(&self) -> usize {
        self.held().len()
    }

    fn held(&self) -> MutexGuard<'_, HashMap<String, Arc<Entry<E>>>> {
        self.held.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Begins a transaction and returns its token.
    pub async fn begin(
        self: &Arc<Self>,
        name: &str,
        open: Arc<Open<E>>,
        options: TransactionOptions,
    ) -> Answer<String> {
        let (this, database) = (Arc::clone(self), name.to_owned());
        hand_off(move || {
            let transaction = E::begin(&open.db, &options)?;
            let mut bytes = [0; 16];
            random(&mut bytes)?;
            let (token, now) = (hex(&bytes), Instant::now());
            let id = E::id(&transaction);
            let inner = Mutex::new(Inner { transaction: Some(transaction), begun: now, used: now });
            let entry = Arc::new(Entry { database, open, id, inner });
            let mut held = this.held();
            if held.len() >= this.most {
                let detail = "the limit of open transactions is reached (--max-transactions); end some, \
                              or try again in a moment";
                let mut problem =
                    Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many-transactions", detail);
                problem.retry_after_s = Some(1);
                return Err(problem);
            }
            held.insert(token.clone(), entry);
            Ok(token)
        })
        .await
    }

    /// Runs `work` in the transaction, on a thread that may wait.
    pub async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        database: &str,
        token: &str,
        work: impl FnOnce(&Arc<Open<E>>, &mut E::Transaction) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let entry = self.find(database, token)?;
        hand_off(move || {
            let mut inner = entry.take_turn()?;
            let transaction = inner.transaction.as_mut().ok_or_else(no_such)?;
            let done = work(&entry.open, transaction);
            inner.used = Instant::now();
            done
        })
        .await
    }

    /// Ends the transaction with `end`, which commits it or rolls it back.
    pub async fn end<T: Send + 'static>(
        self: &Arc<Self>,
        database: &str,
        token: &str,
        end: impl FnOnce(E::Transaction) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let entry = self.find(database, token)?;
        let (this, token) = (Arc::clone(self), token.to_owned());
        hand_off(move || {
            let transaction = entry.take_turn()?.transaction.take().ok_or_else(no_such)?;
            this.held().remove(&token);
            end(transaction)
        })
        .await
    }

    fn find(&self, database: &str, token: &str) -> Answer<Arc<Entry<E>>> {
        let entry = self.held().get(token).map(Arc::clone);
        entry.filter(|entry| entry.database == database).ok_or_else(no_such)
    }

    /// Returns the transactions of a database, each with the time since a request last used it.
    pub fn of(&self, database: &str) -> Vec<(E::Id, Duration)> {
        let now = Instant::now();
        let idle = |entry: &Entry<E>| match entry.inner.try_lock() {
            Ok(inner) => now.saturating_duration_since(inner.used),
            Err(_) => Duration::ZERO,
        };
        let held = self.held();
        let own = held.values().filter(|entry| entry.database == database);
        own.map(|entry| (entry.id, idle(entry))).collect()
    }

    /// Rolls back the transaction of a database that has this id. Returns `false` if there is none, or if a request is
    /// using it.
    pub fn give_up(&self, database: &str, id: E::Id) -> bool {
        let mut held = self.held();
        let is_it = |(_, entry): &(&String, &Arc<Entry<E>>)| entry.database == database && entry.id == id;
        let found = held.iter().find(is_it).map(|(token, entry)| (token.clone(), Arc::clone(entry)));
        let Some((token, entry)) = found else { return false };
        let Ok(mut inner) = entry.inner.try_lock() else { return false };
        held.remove(&token);
        drop(held);
        inner.transaction.take().is_some()
    }

    /// Rolls back transactions that were unused for too long. The caller may wait.
    pub fn give_up_idle(&self) {
        let now = Instant::now();
        let mut given_up = Vec::new();
        self.held().retain(|_, entry| {
            let inner = match entry.inner.try_lock() {
                Ok(inner) => inner,
                // A transaction in use is not idle.
                Err(TryLockError::WouldBlock) => return true,
                // A request that panicked left this transaction, and no request can use it.
                Err(TryLockError::Poisoned(_)) => {
                    given_up.push(Arc::clone(entry));
                    return false;
                }
            };
            let stays = now.duration_since(inner.used) < self.idle
                && now.duration_since(inner.begun) < self.idle * LONGEST_IDLES;
            if !stays {
                given_up.push(Arc::clone(entry));
            }
            stays
        });
        // A request that found the transaction a moment ago may be about to use it. It sees that the transaction has
        // ended.
        for entry in given_up {
            drop(entry.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).transaction.take());
        }
    }

    /// Rolls back all transactions.
    pub fn give_up_all(&self) {
        self.held().clear();
    }
}

impl<E: Engine> Entry<E> {
    fn take_turn(&self) -> Answer<MutexGuard<'_, Inner<E>>> {
        match self.inner.try_lock() {
            Ok(inner) => Ok(inner),
            Err(TryLockError::Poisoned(_)) => Err(no_such()),
            Err(TryLockError::WouldBlock) => {
                let detail = "another request is using this transaction; send one request at a time";
                Err(Problem::new(StatusCode::CONFLICT, "transaction-busy", detail))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pando::Database;

    #[test]
    fn one_whose_request_ended_badly_is_given_up() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let open = Arc::new(Open::alone(Database::builder().in_memory().unwrap()));
        let transactions = Arc::new(Transactions::new(1, Duration::from_secs(30)));
        let begin = || transactions.begin("d", Arc::clone(&open), open.db.transaction_options());
        runtime.block_on(async {
            let token = begin().await.unwrap();
            assert_eq!(begin().await.unwrap_err().status, StatusCode::TOO_MANY_REQUESTS);
            transactions.give_up_idle();
            let failed: Answer<()> = transactions.run("d", &token, |_, _| panic!("a slip of ours")).await;
            assert_eq!(failed.unwrap_err().status, StatusCode::INTERNAL_SERVER_ERROR);
            let gone: Answer<()> = transactions.run("d", &token, |_, _| Ok(())).await;
            assert_eq!(gone.unwrap_err().status, StatusCode::NOT_FOUND);
            transactions.give_up_idle();
            assert_eq!((transactions.count(), Arc::strong_count(&open)), (0, 1));
            begin().await.unwrap();
        });
    }
}
