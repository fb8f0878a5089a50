//! A database of the engine or of a remote store.

use crate::any::reads::{AnySnapshot, AnyTransaction};
use crate::database::Database;
use crate::remote::RemoteDatabase;
use base::Result;
use store::{Table, TransactionOptions};
use txn::Isolation;

/// A database of the engine, or one in a remote store. A clone is another handle on the same database.
///
/// ```
/// use pando::any::AnyDatabase;
/// use pando::{Database, ReadTables, WriteTables};
///
/// # fn main() -> pando::Result<()> {
/// // Or a database that `pando_postgres::open` has returned.
/// let db = AnyDatabase::from(Database::builder().in_memory()?);
/// let fruit = db.ensure_table("fruit")?;
/// db.write(|tx| tx.put(&fruit, "apple", "red"))?;
/// let found = db.read(|snapshot| snapshot.get(&fruit, "apple"))?;
/// assert_eq!(found.as_deref(), Some(&b"red"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub enum AnyDatabase {
    /// A database of the engine.
    Native(Database),
    /// A database in a remote store.
    Remote(RemoteDatabase),
}

impl From<Database> for AnyDatabase {
    fn from(db: Database) -> Self {
        AnyDatabase::Native(db)
    }
}

impl From<RemoteDatabase> for AnyDatabase {
    fn from(db: RemoteDatabase) -> Self {
        AnyDatabase::Remote(db)
    }
}

impl From<&AnyDatabase> for AnyDatabase {
    fn from(db: &AnyDatabase) -> Self {
        db.clone()
    }
}

impl From<&Database> for AnyDatabase {
    fn from(db: &Database) -> Self {
        AnyDatabase::Native(db.clone())
    }
}

impl From<&RemoteDatabase> for AnyDatabase {
    fn from(db: &RemoteDatabase) -> Self {
        AnyDatabase::Remote(db.clone())
    }
}

impl AnyDatabase {
    /// Returns the database if it is one of the engine, or `None` if it is in a remote store.
    #[must_use]
    pub fn native(&self) -> Option<&Database> {
        match self {
            AnyDatabase::Native(db) => Some(db),
            AnyDatabase::Remote(_) => None,
        }
    }

    /// Returns whether every call that would write fails. A remote store is never read-only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.native().is_some_and(Database::is_read_only)
    }

    /// Returns a number that distinguishes this open database from all others that are open in this process. Clones of
    /// a handle have the same number. After the last of them is dropped, another database can get the number.
    #[must_use]
    pub fn instance(&self) -> usize {
        match self {
            AnyDatabase::Native(db) => db.instance(),
            AnyDatabase::Remote(db) => db.instance(),
        }
    }

    /// Returns a snapshot.
    ///
    /// # Errors
    /// Those of [`Database::snapshot`]. For a remote store the call always succeeds; the first read can fail.
    #[track_caller]
    pub fn snapshot(&self) -> Result<AnySnapshot> {
        match self {
            AnyDatabase::Native(db) => db.snapshot().map(AnySnapshot::Native),
            AnyDatabase::Remote(db) => Ok(AnySnapshot::Remote(db.snapshot())),
        }
    }

    /// Begins a transaction with the default options of the database.
    ///
    /// # Errors
    /// Those of [`Database::begin`]. For a remote store the call always succeeds; the first read can fail.
    #[track_caller]
    pub fn begin(&self) -> Result<AnyTransaction> {
        self.begin_with(&self.transaction_options())
    }

    /// Begins a transaction with these options. A remote store ignores the durability in them: it has one durability
    /// for all transactions.
    ///
    /// # Errors
    /// As for [`AnyDatabase::begin`].
    #[track_caller]
    pub fn begin_with(&self, options: &TransactionOptions) -> Result<AnyTransaction> {
        match self {
            AnyDatabase::Native(db) => db.begin_with(options).map(AnyTransaction::Native),
            AnyDatabase::Remote(db) => Ok(AnyTransaction::Remote(db.begin_with(options.isolation))),
        }
    }

    /// Returns the options of transactions that [`AnyDatabase::begin`] begins.
    #[must_use]
    pub fn transaction_options(&self) -> TransactionOptions {
        self.native().map_or_else(TransactionOptions::default, Database::transaction_options)
    }

    /// Runs `work` in a transaction, commits it, and tries again after a conflict; see [`Database::write`] and
    /// [`RemoteDatabase::write`]. `work` can run several times.
    ///
    /// # Errors
    /// The error of `work` or of the commit. A conflict is returned only if the last attempt had one, too.
    #[track_caller]
    pub fn write<T>(&self, work: impl FnMut(&mut AnyTransaction) -> Result<T>) -> Result<T> {
        let (native, remote) = (AnyTransaction::Native, AnyTransaction::Remote);
        match self {
            AnyDatabase::Native(db) => {
                db.write_as(&db.transaction_options(), native, AnyTransaction::into_native, work)
            }
            AnyDatabase::Remote(db) => {
                db.write_as(Isolation::Serializable, remote, AnyTransaction::into_remote, work)
            }
        }
    }

    /// Runs `work` on a snapshot. In a remote store, a read can have a conflict; `work` then runs again on a new
    /// snapshot (see [`RemoteDatabase::read`]).
    ///
    /// # Errors
    /// The error of `work`, and those of [`AnyDatabase::snapshot`].
    #[track_caller]
    pub fn read<T>(&self, mut work: impl FnMut(AnySnapshot) -> Result<T>) -> Result<T> {
        match self {
            AnyDatabase::Native(db) => work(AnySnapshot::Native(db.snapshot()?)),
            AnyDatabase::Remote(db) => db.read(|snapshot| work(AnySnapshot::Remote(snapshot))),
        }
    }

    /// Returns the table named `name`, or `None` if there is none.
    ///
    /// # Errors
    /// Those of [`Database::table`] and [`RemoteDatabase::table`].
    pub fn table(&self, name: &str) -> Result<Option<Table>> {
        match self {
            AnyDatabase::Native(db) => db.table(name),
            AnyDatabase::Remote(db) => db.table(name),
        }
    }

    /// Returns the table named `name`, and creates it with the default options if there is none.
    ///
    /// # Errors
    /// Those of [`Database::ensure_table`] and [`RemoteDatabase::ensure_table`].
    pub fn ensure_table(&self, name: &str) -> Result<Table> {
        match self {
            AnyDatabase::Native(db) => db.ensure_table(name),
            AnyDatabase::Remote(db) => db.ensure_table(name),
        }
    }

    /// Returns all tables, ordered by name.
    ///
    /// # Errors
    /// Those of [`Database::tables`] and [`RemoteDatabase::tables`].
    pub fn tables(&self) -> Result<Vec<Table>> {
        match self {
            AnyDatabase::Native(db) => db.tables(),
            AnyDatabase::Remote(db) => db.tables(),
        }
    }
}
