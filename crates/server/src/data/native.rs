//! Pando's own engine as that of a server.

use crate::data::databases::Databases;
use crate::data::engine::{Engine, Found, Native};
use crate::data::open::{Open, Own};
use crate::data::served::Served;
use crate::data::writer::{Change, Committed};
use crate::wire::problem::Answer;
use pando::any::AnyDatabase;
use pando::{
    Database, Durability, Expiry, Layout, ReaderId, Result, Snapshot, Table, TableOptions, Transaction,
    TransactionOptions, ValueReader,
};
use std::sync::Arc;
use std::time::Duration;

/// The number of times that a write is tried after conflicts.
const ATTEMPTS: u32 = 8;

impl Engine for Native {
    type Database = Database;
    type Snapshot = Snapshot;
    type Transaction = Transaction;
    type Databases = Databases;
    type Own = Own;
    type Id = ReaderId;

    const HOLDS_CONNECTIONS: bool = false;

    #[inline]
    fn read<T>(db: &Database, mut work: impl FnMut(Snapshot) -> Answer<T>) -> Answer<T> {
        work(db.snapshot()?)
    }

    fn read_one(db: &Database, table: &Table, key: &[u8]) -> Result<Option<ValueReader>> {
        db.snapshot()?.value_reader(table, key)
    }

    /// One key, whose value may be long.
    fn look_up(snapshot: &Snapshot, table: &Table, keys: &[Vec<u8>], found: &mut Found) -> Result<()> {
        found.push_back(snapshot.value_reader(table, &keys[0])?);
        Ok(())
    }

    fn look_up_in(tx: &Transaction, table: &Table, keys: &[Vec<u8>], found: &mut Found) -> Result<()> {
        found.push_back(tx.value_reader(table, &keys[0])?);
        Ok(())
    }

    #[inline]
    fn end(snapshot: Snapshot) {
        drop(snapshot);
    }

    fn any(db: &Database) -> AnyDatabase {
        db.into()
    }

    fn transaction_options(db: &Database) -> TransactionOptions {
        db.transaction_options()
    }

    fn begin(db: &Database, options: &TransactionOptions) -> Result<Transaction> {
        db.begin_with(options)
    }

    fn id(tx: &Transaction) -> ReaderId {
        tx.reader_id()
    }

    fn commit(tx: Transaction) -> Result<Option<u64>> {
        tx.commit().map(Some)
    }

    fn write<T>(
        db: &Database,
        durability: Durability,
        mut work: impl FnMut(&mut Transaction) -> Answer<T>,
    ) -> Answer<(T, Option<u64>)> {
        let options = TransactionOptions { durability, ..db.transaction_options() };
        let mut attempt = 1;
        loop {
            let mut tx = db.begin_with(&options)?;
            let outcome = work(&mut tx)?;
            match tx.commit() {
                Ok(number) => return Ok((outcome, Some(number))),
                Err(error) if error.is_retryable() && attempt < ATTEMPTS => {
                    attempt += 1;
                    std::thread::sleep(Duration::from_micros(50 << attempt));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn check_durability(_: Durability) -> Answer<()> {
        Ok(())
    }

    fn expiry_at(snapshot: &Snapshot, table: &Table, key: &[u8]) -> Result<Option<Expiry>> {
        snapshot.expiry(table, key)
    }

    fn expiry_in(tx: &Transaction, table: &Table, key: &[u8]) -> Result<Option<Expiry>> {
        tx.expiry(table, key)
    }

    fn put_with_ttl(
        tx: &mut Transaction,
        table: &Table,
        key: &[u8],
        value: &[u8],
        ttl: Duration,
    ) -> Result<()> {
        tx.put_with_ttl(table, key, value, ttl)
    }
}

impl Served for Native {
    fn get_open(databases: &Databases, name: &str) -> Option<Arc<Open>> {
        databases.get_open(name)
    }

    fn open(databases: &Databases, name: &str) -> Answer<Arc<Open>> {
        databases.open(name)
    }

    fn entity_table(open: &Open, name: &str) -> Result<Option<Table>> {
        if open.db.is_replica() {
            return open.db.snapshot()?.table(name);
        }
        open.table_or_create(name, &TableOptions::with_layout(Layout::Lsm)).map(Some)
    }

    async fn write_one(
        open: &Arc<Open>,
        table: Table,
        key: Vec<u8>,
        change: Change,
        durability: Durability,
    ) -> Answer<Committed> {
        open.own.writer.write(table, key, change, durability).await
    }
}
