//! fjall: the optimistic, serializable transactional database, one keyspace.
//!
//! `sync`: `PersistMode::SyncData` at each commit. `buffered`: `PersistMode::Buffer`, its default: the operating
//! system has the journal.

use super::Entry;
use crate::engine::{
    Config, Durability, Engine, Outcome, ReadWork, Reader, See, SeeRecord, Session, WriteWork, Writer,
};
use fjall::{
    KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, OptimisticWriteTx, PersistMode,
    Readable, Snapshot,
};

pub const ENTRY: Entry = Entry {
    name: "fjall",
    about: "fjall 3.1, optimistic transactions, lz4 default",
    open: Some(open),
    open_tables: None,
};

struct Fjall {
    db: OptimisticTxDatabase,
    table: OptimisticTxKeyspace,
    persist: PersistMode,
}

fn open(config: &Config) -> Outcome<Box<dyn Engine>> {
    let db = OptimisticTxDatabase::builder(&config.dir).cache_size(config.cache_bytes as u64).open()?;
    let table = db.keyspace("t", KeyspaceCreateOptions::default)?;
    let persist = match config.durability {
        Durability::Sync => PersistMode::SyncData,
        Durability::Buffered => PersistMode::Buffer,
    };
    Ok(Box::new(Fjall { db, table, persist }))
}

impl Engine for Fjall {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Handle(self)))
    }

    fn settle(&self) -> Outcome<()> {
        self.table.inner().rotate_memtable_and_wait()?;
        Ok(self.db.persist(PersistMode::SyncAll)?)
    }
}

struct Handle<'e>(&'e Fjall);

impl Session for Handle<'_> {
    fn write(&mut self, work: WriteWork<'_>) -> Outcome<()> {
        loop {
            let tx = self.0.db.write_tx()?.durability(Some(self.0.persist));
            let mut tx = In { tx, table: &self.0.table };
            work(&mut tx)?;
            if tx.tx.commit()?.is_ok() {
                return Ok(());
            }
        }
    }

    fn read(&mut self, work: ReadWork<'_>) -> Outcome<()> {
        work(&mut At { snapshot: self.0.db.read_tx(), table: &self.0.table })
    }
}

struct In<'e> {
    tx: OptimisticWriteTx,
    table: &'e OptimisticTxKeyspace,
}

impl Writer for In<'_> {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        if self.tx.contains_key(self.table, key)? {
            return Ok(false);
        }
        self.tx.insert(self.table, key, value);
        Ok(true)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.tx.insert(self.table, key, value);
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Outcome<()> {
        self.tx.remove(self.table, key);
        Ok(())
    }

    fn get(&mut self, key: &[u8], see: See<'_>) -> Outcome<bool> {
        Ok(self.tx.get(self.table, key)?.map(|value| see(&value)).is_some())
    }
}

struct At<'e> {
    snapshot: Snapshot,
    table: &'e OptimisticTxKeyspace,
}

impl Reader for At<'_> {
    fn get(&mut self, key: &[u8], see: See<'_>) -> Outcome<bool> {
        Ok(self.snapshot.get(self.table, key)?.map(|value| see(&value)).is_some())
    }

    fn scan(&mut self, from: &[u8], limit: usize, see: SeeRecord<'_>) -> Outcome<usize> {
        let mut seen = 0;
        for record in self.snapshot.range(self.table, from..).take(limit) {
            let (key, value) = record.into_inner()?;
            see(&key, &value);
            seen += 1;
        }
        Ok(seen)
    }
}
