//! A database in a remote store.

use crate::database::TableOptions;
use crate::remote::in_doubt::InDoubt;
use crate::remote::memory::WriteMemory;
use crate::remote::reads::Reads;
use crate::remote::seam::{Failure, Limits, Mode, Store, Token, id_of};
use crate::remote::snapshot::RemoteSnapshot;
use crate::remote::transaction::{RemoteTransaction, failed};
use base::env::Random;
use base::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use store::Table;
use txn::Isolation;

/// The number of attempts of a read or a transaction.
const ATTEMPTS: u32 = 16;
/// The longest pause before another attempt, in microseconds. Sixteen attempts pause for at most half a second.
const LONGEST_PAUSE_US: u64 = 64_000;
/// The time after which a read that has a conflict is not begun again.
const LONGEST_READ: Duration = Duration::from_secs(2);
/// The number of records among which expired ones are deleted in one round trip.
const SWEPT_AT_ONCE: usize = 1000;

/// A database in a remote store. A clone is another handle on the same connections. It is `Send` and `Sync`.
///
/// Every call that needs the store blocks its thread until the store has responded.
///
/// ```no_run
/// use pando::Result;
/// use pando::remote::RemoteDatabase;
///
/// // An adapter opens the database, such as `pando_postgres::open`.
/// fn paint(db: &RemoteDatabase) -> Result<()> {
///     let fruit = db.ensure_table("fruit")?;
///     db.write(|tx| tx.put(&fruit, "apple", "red"))?;
///     assert_eq!(db.get(&fruit, "apple")?.as_deref(), Some(&b"red"[..]));
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct RemoteDatabase {
    store: Arc<dyn Store>,
    /// How often a read or a transaction was begun again.
    repeats: Arc<AtomicU64>,
    memory: Option<Arc<WriteMemory>>,
}

/// The error of an attempt.
enum Failed {
    /// Another attempt may succeed.
    Again(Error),
    ForGood(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        if error.is_retryable() { Failed::Again(error) } else { Failed::ForGood(error) }
    }
}

impl RemoteDatabase {
    /// Returns a database over `store`. Adapters call this; programs call the adapter.
    pub fn over(store: Arc<dyn Store>) -> Self {
        RemoteDatabase { store, repeats: Arc::default(), memory: None }
    }

    /// Limits the memory that the writes of open transactions take. Databases that get a clone of the same `memory`
    /// share the limit. Without it, only the store limits the size of each transaction ([`Limits`]).
    #[must_use]
    pub fn with_write_memory(self, memory: Arc<WriteMemory>) -> Self {
        RemoteDatabase { memory: Some(memory), ..self }
    }

    /// Returns the largest keys, values and transactions that the store accepts.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.store.limits()
    }

    /// Returns the id of the database, which was chosen at random when it was created.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.store.id()
    }

    /// Returns a number that distinguishes this open database from others in this process, as
    /// [`Database::instance`](crate::Database::instance) does.
    #[must_use]
    pub fn instance(&self) -> usize {
        Arc::as_ptr(&self.store).addr()
    }

    /// Returns the number of connections to the store that are open now, idle ones included.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.store.connections()
    }

    /// Returns how many times [`RemoteDatabase::write`] ran a transaction again, or a read began again, since the
    /// database was opened, by this handle and its clones. A number that grows fast means that transactions change the
    /// same records, or that one of them stays open for long.
    #[must_use]
    pub fn repeats(&self) -> u64 {
        self.repeats.load(Ordering::SeqCst)
    }

    /// Returns a snapshot. It takes no round trip; the first read decides which state it sees.
    pub fn snapshot(&self) -> RemoteSnapshot {
        RemoteSnapshot::new(&self.store)
    }

    /// Begins a serializable transaction. It takes no round trip; the first read decides which state it sees.
    pub fn begin(&self) -> RemoteTransaction {
        self.begin_with(Isolation::Serializable)
    }

    /// Begins a transaction with this isolation.
    pub fn begin_with(&self, isolation: Isolation) -> RemoteTransaction {
        RemoteTransaction::begin(&self.store, isolation, self.memory.clone())
    }

    /// Runs `work` in a serializable transaction and commits it. It makes at most 16 attempts, with random pauses of up
    /// to 64 ms. It tries again after a conflict, and if the connection is lost during the commit and nothing can have
    /// been written. A connection that is lost during a read ends it with `Io`.
    ///
    /// `work` can run several times, so its effects outside the transaction must be safe to repeat.
    ///
    /// # Errors
    /// The error of `work` or of the commit. A conflict is returned only if the last attempt had one, too.
    pub fn write<T>(&self, work: impl FnMut(&mut RemoteTransaction) -> Result<T>) -> Result<T> {
        self.write_with(Isolation::Serializable, work)
    }

    /// Runs `work` as [`RemoteDatabase::write`] does, in transactions with this isolation.
    ///
    /// # Errors
    /// As for [`RemoteDatabase::write`].
    pub fn write_with<T>(
        &self,
        isolation: Isolation,
        work: impl FnMut(&mut RemoteTransaction) -> Result<T>,
    ) -> Result<T> {
        self.write_as(isolation, |tx| tx, Ok, work)
    }

    /// Runs `work` as [`RemoteDatabase::write_with`] does, on a type that `wrap` makes of a transaction.
    pub(crate) fn write_as<A, T>(
        &self,
        isolation: Isolation,
        wrap: impl Fn(RemoteTransaction) -> A,
        unwrap: impl Fn(A) -> Result<RemoteTransaction>,
        mut work: impl FnMut(&mut A) -> Result<T>,
    ) -> Result<T> {
        self.repeated(|| {
            let mut tx = wrap(self.begin_with(isolation));
            let result = work(&mut tx)?;
            match unwrap(tx)?.try_commit() {
                Ok(()) => Ok(result),
                Err(failure) => {
                    let is_lost = matches!(failure, Failure::NotCommitted(_));
                    let error = failed(failure, id_of(&*self.store));
                    Err(if is_lost { Failed::Again(error) } else { Failed::from(error) })
                }
            }
        })
    }

    /// Runs `work` on a snapshot, and on a new snapshot after a conflict: at most 16 times, with random pauses of up to
    /// 64 ms, and not after two seconds. A store can report a conflict for reads alone, even if the writing
    /// transactions changed other records, because it may track what a transaction has read only for larger parts of a
    /// table.
    ///
    /// `work` can run several times, so its effects must be safe to repeat. It may return the snapshot. What it has
    /// read is certain to fit a serial order of the commits once the snapshot is dropped, unless the connection was
    /// lost before.
    ///
    /// ```no_run
    /// use pando::remote::RemoteDatabase;
    ///
    /// /// Returns the balances of two accounts, both as of one state.
    /// fn balances(db: &RemoteDatabase) -> pando::Result<Vec<Option<Vec<u8>>>> {
    ///     let accounts = db.ensure_table("accounts")?;
    ///     db.read(|snapshot| snapshot.multi_get(&accounts, &["ann", "bob"]))
    /// }
    /// ```
    ///
    /// # Errors
    /// The error of `work`. A conflict is returned only if the last attempt had one, too.
    pub fn read<T>(&self, mut work: impl FnMut(RemoteSnapshot) -> Result<T>) -> Result<T> {
        self.read_again(|| work(self.snapshot()))
    }

    /// Reads, and again after a conflict.
    fn read_again<T>(&self, mut read: impl FnMut() -> Result<T>) -> Result<T> {
        let begun = Instant::now();
        self.repeated(|| {
            read().map_err(|error| match error.kind() {
                ErrorKind::Conflict if begun.elapsed() < LONGEST_READ => Failed::Again(error),
                _ => Failed::ForGood(error),
            })
        })
    }

    /// Makes attempts until one of them should not be repeated.
    fn repeated<T>(&self, mut attempt: impl FnMut() -> std::result::Result<T, Failed>) -> Result<T> {
        for attempts in 1..ATTEMPTS {
            match attempt() {
                Ok(done) => return Ok(done),
                Err(Failed::ForGood(error)) => return Err(error),
                Err(Failed::Again(_)) => {}
            }
            self.repeats.fetch_add(1, Ordering::SeqCst);
            let most_us = (100 << attempts).min(LONGEST_PAUSE_US);
            thread::sleep(Duration::from_micros(Random::from_entropy().below(most_us)));
        }
        attempt().map_err(|(Failed::Again(error) | Failed::ForGood(error))| error)
    }

    /// Returns the value of `key` in one round trip, or `None` if the key does not exist. It reads again after a
    /// conflict, as [`RemoteDatabase::read`] does.
    ///
    /// It returns the newest committed value. A single record always fits a serial order of all transactions, so the
    /// store need not remember that it was read: `get` takes no memory there, and causes no conflicts. There is one
    /// exception. A transaction that began before `table` was renamed, and writes to it through the old name, counts as
    /// earlier than the renaming; until it commits, `get` through the new name does not see what it writes. A snapshot
    /// does not have this exception.
    pub fn get(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut found = self.get_in(Mode::Record, table, &[key.as_ref()])?;
        Ok(found.pop().flatten())
    }

    /// Returns the values of many keys, in the order of `keys`, in one round trip. It reads again after a conflict, as
    /// [`RemoteDatabase::read`] does.
    pub fn multi_get<K: AsRef<[u8]>>(&self, table: &Table, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<_> = keys.iter().map(AsRef::as_ref).collect();
        self.get_in(Mode::Single, table, &keys)
    }

    fn get_in(&self, mode: Mode, table: &Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.read_again(|| Reads::new(&self.store, mode).get_many(table, keys, usize::MAX))
    }

    /// Sets `key` to `value` in a transaction of its own, in one round trip.
    pub fn put(&self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(|tx| tx.put(table, key.as_ref(), value.as_ref()))
    }

    /// Deletes `key` in a transaction of its own. It is not an error if the key does not exist.
    pub fn delete(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(|tx| tx.delete(table, key.as_ref()))
    }

    /// Returns the table named `name`, or `None` if there is none.
    pub fn table(&self, name: &str) -> Result<Option<Table>> {
        self.read(|snapshot| snapshot.table(name))
    }

    /// Creates a table with these options, in a transaction of its own.
    ///
    /// # Errors
    /// As for [`RemoteTransaction::create_table`].
    pub fn create_table(&self, name: &str, options: &TableOptions) -> Result<Table> {
        self.write(|tx| tx.create_table(name, options))
    }

    /// Returns the table named `name`, and creates it with the default options if it does not exist.
    ///
    /// # Errors
    /// As for [`RemoteTransaction::ensure_table`].
    pub fn ensure_table(&self, name: &str) -> Result<Table> {
        match self.table(name)? {
            Some(table) => Ok(table),
            None => self.write(|tx| tx.ensure_table(name)),
        }
    }

    /// Drops the table named `name` and everything in it.
    ///
    /// # Errors
    /// `Missing` if there is no table of this name.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.write(|tx| match tx.table(name)? {
            Some(table) => tx.drop_table(&table),
            None => Err(Error::new(ErrorKind::Missing, format!("there is no table {name:?}"))),
        })
    }

    /// Returns all tables, ordered by name.
    pub fn tables(&self) -> Result<Vec<Table>> {
        self.read(|snapshot| snapshot.tables())
    }

    /// Deletes the entries of a table that have expired, and returns their number. Reads never see these entries, but
    /// only this call frees their space in the store: call it from time to time for each table with a TTL. It looks at
    /// 1,000 records in each round trip, and needs no transaction. Writers continue; a transaction that replaces an
    /// entry while it is deleted has a conflict.
    ///
    /// # Errors
    /// `Invalid` if the table has no TTL; `Missing` if the handle is stale; `Io` if the store cannot be reached.
    pub fn delete_expired(&self, table: &Table) -> Result<u64> {
        let admitted = self.read_again(|| Reads::new(&self.store, Mode::Snapshot).admit(table))?;
        let Some(oldest_ms) = admitted else {
            return Err(Error::invalid(format!(
                "table {:?} has no TTL, so its entries do not expire",
                table.name()
            )));
        };
        let (mut deleted, mut start) = (0, Vec::new());
        loop {
            let swept = self.store.delete_older(table.id(), oldest_ms, &start, SWEPT_AT_ONCE)?;
            deleted += swept.deleted;
            let Some(last) = swept.last else { return Ok(deleted) };
            start = last;
            // The next possible key.
            start.push(0);
        }
    }

    /// Returns whether the commit with this token happened. Call it after a commit failed with `Indeterminate`; the
    /// message of the error has the token. A commit that has not happened by now never will.
    ///
    /// # Errors
    /// `Io` if the store cannot be reached; `TooOld` if it may have forgotten the token.
    pub fn outcome(&self, token: Token) -> Result<bool> {
        self.store.outcome(token)
    }

    /// Returns whether `commit` happened, as [`RemoteDatabase::outcome`] does. [`InDoubt::in_error`] finds `commit` in
    /// the error.
    ///
    /// ```no_run
    /// use pando::remote::{InDoubt, RemoteDatabase, RemoteTransaction};
    ///
    /// /// Returns whether the transaction committed.
    /// fn settle(db: &RemoteDatabase, tx: RemoteTransaction) -> pando::Result<bool> {
    ///     let Err(error) = tx.commit() else { return Ok(true) };
    ///     match InDoubt::in_error(&error) {
    ///         Some(commit) => db.resolve(&commit),
    ///         None => Err(error),
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// `Missing` if `commit` belongs to another database; otherwise as for [`RemoteDatabase::outcome`].
    pub fn resolve(&self, commit: &InDoubt) -> Result<bool> {
        if commit.database != self.id() {
            let message =
                format!("the commit {commit} belongs to another database; call resolve on that database");
            return Err(Error::new(ErrorKind::Missing, message));
        }
        self.outcome(commit.token)
    }

    /// Closes the connections that no snapshot or transaction has used for `unused_for`. Later calls open new ones.
    pub fn close_idle(&self, unused_for: Duration) {
        self.store.close_idle(unused_for);
    }

    /// Closes the connections that no snapshot or transaction uses. Later calls fail with `Closed`, except for
    /// [`RemoteDatabase::outcome`].
    pub fn close(&self) {
        self.store.close();
    }
}
