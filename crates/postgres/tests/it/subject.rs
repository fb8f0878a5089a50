//! The databases on which the conformance suite runs: the native engine, and PostgreSQL.

use crate::server;
use pando::remote::{RemoteDatabase, RemoteSnapshot, RemoteTransaction};
use pando::{
    Database, Isolation, ReadTables, Result, Snapshot, Transaction, TransactionOptions, WriteTables,
};

pub trait Subject: Send + Sync {
    type Snapshot: ReadTables;
    type Tx: WriteTables;
    /// The longest key in bytes.
    fn max_key_bytes(&self) -> usize;
    /// The longest value that the suite tries.
    fn long_value_bytes(&self) -> usize;
    fn snapshot(&self) -> Self::Snapshot;
    fn begin_with(&self, isolation: Isolation) -> Self::Tx;
    fn commit(&self, tx: Self::Tx) -> Result<()>;
    fn write<T>(&self, work: impl FnMut(&mut Self::Tx) -> Result<T>) -> Result<T>;

    fn begin(&self) -> Self::Tx {
        self.begin_with(Isolation::Serializable)
    }
}

impl Subject for Database {
    type Snapshot = Snapshot;
    type Tx = Transaction;

    fn max_key_bytes(&self) -> usize {
        pando::limits::max_key_bytes(pando::limits::DEFAULT_PAGE_BYTES)
    }

    fn long_value_bytes(&self) -> usize {
        16 << 20
    }

    fn snapshot(&self) -> Snapshot {
        Database::snapshot(self).unwrap()
    }

    fn begin_with(&self, isolation: Isolation) -> Transaction {
        Database::begin_with(self, &TransactionOptions { isolation, ..self.transaction_options() }).unwrap()
    }

    fn commit(&self, tx: Transaction) -> Result<()> {
        tx.commit().map(drop)
    }

    fn write<T>(&self, work: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        Database::write(self, work)
    }
}

impl Subject for RemoteDatabase {
    type Snapshot = RemoteSnapshot;
    type Tx = RemoteTransaction;

    fn max_key_bytes(&self) -> usize {
        self.limits().max_key_bytes
    }

    fn long_value_bytes(&self) -> usize {
        self.limits().max_value_bytes
    }

    fn snapshot(&self) -> RemoteSnapshot {
        RemoteDatabase::snapshot(self)
    }

    fn begin_with(&self, isolation: Isolation) -> RemoteTransaction {
        RemoteDatabase::begin_with(self, isolation)
    }

    fn commit(&self, tx: RemoteTransaction) -> Result<()> {
        tx.commit()
    }

    fn write<T>(&self, work: impl FnMut(&mut RemoteTransaction) -> Result<T>) -> Result<T> {
        RemoteDatabase::write(self, work)
    }
}

/// Returns a native database in memory.
pub fn native() -> Option<Database> {
    Some(Database::builder().memory_bytes(256 << 20).in_memory().unwrap())
}

/// Returns a database in PostgreSQL, if there is a server.
pub fn postgres() -> Option<RemoteDatabase> {
    server::database()
}

/// Makes tests of functions that take `&impl Subject`: each runs on the native engine and on PostgreSQL.
macro_rules! on_every_subject {
    ($($test:ident),* $(,)?) => {
        mod native {
            $(#[test]
            fn $test() {
                if let Some(subject) = crate::subject::native() {
                    super::$test(&subject);
                }
            })*
        }

        mod postgres {
            $(#[test]
            fn $test() {
                if let Some(subject) = crate::subject::postgres() {
                    super::$test(&subject);
                }
            })*
        }
    };
}
pub(crate) use on_every_subject;
