//! Pando: one table, of either layout; its defaults but for the memory ceiling and the durability. Records that
//! outgrow the caches lie in pages of 4 KiB, as `docs/choosing.md` has it.

use super::Entry;
use crate::engine::{
    Config, Durability, Engine, Outcome, ReadWork, Reader, See, SeeRecord, Session, WriteWork, Writer,
};
use pando::{Database, ErrorKind, Layout, Snapshot, Table, TableOptions, Transaction};

pub const ENTRY: Entry = Entry {
    name: "pando",
    about: "Pando (this tree), B+tree table, defaults; `larger`: pages of 4 KiB",
    open: Some(|config| open(config, Layout::BTree)),
    open_tables: None,
};
pub const LSM_ENTRY: Entry = Entry {
    name: "pando-lsm",
    about: "Pando (this tree), LSM table, defaults; `larger`: pages of 4 KiB",
    open: Some(|config| open(config, Layout::Lsm)),
    open_tables: None,
};

/// A read that is not in the pool reads a page, however short the record.
const SMALL_PAGE_BYTES: usize = 4096;

struct Pando {
    db: Database,
    table: Table,
}

/// The database.
pub fn database(config: &Config) -> Outcome<Database> {
    let durability = match config.durability {
        Durability::Sync => pando::Durability::Sync,
        Durability::Buffered => pando::Durability::Buffered,
    };
    let builder = Database::builder().memory_bytes(config.cache_bytes).durability(durability);
    let builder = if config.outgrows_caches { builder.page_bytes(SMALL_PAGE_BYTES) } else { builder };
    Ok(builder.create(&config.dir)?)
}

fn open(config: &Config, layout: Layout) -> Outcome<Box<dyn Engine>> {
    let db = database(config)?;
    let table = db.ensure_table_with("t", &TableOptions::with_layout(layout))?;
    Ok(Box::new(Pando { db, table }))
}

impl Engine for Pando {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Handle(self)))
    }

    fn settle(&self) -> Outcome<()> {
        Ok(self.db.checkpoint()?)
    }
}

struct Handle<'e>(&'e Pando);

impl Session for Handle<'_> {
    fn write(&mut self, work: WriteWork<'_>) -> Outcome<()> {
        loop {
            let mut tx = In { tx: self.0.db.begin()?, table: &self.0.table };
            work(&mut tx)?;
            match tx.tx.commit() {
                Ok(_) => return Ok(()),
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn read(&mut self, work: ReadWork<'_>) -> Outcome<()> {
        work(&mut At { snapshot: self.0.db.snapshot()?, table: &self.0.table })
    }
}

struct In<'e> {
    tx: Transaction,
    table: &'e Table,
}

impl Writer for In<'_> {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        match self.tx.insert(self.table, key, value) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Exists => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        Ok(self.tx.put(self.table, key, value)?)
    }

    fn delete(&mut self, key: &[u8]) -> Outcome<()> {
        Ok(self.tx.delete(self.table, key)?)
    }

    fn get(&mut self, key: &[u8], see: See<'_>) -> Outcome<bool> {
        Ok(self.tx.get_with(self.table, key, |value| see(value))?.is_some())
    }
}

struct At<'e> {
    snapshot: Snapshot,
    table: &'e Table,
}

impl Reader for At<'_> {
    fn get(&mut self, key: &[u8], see: See<'_>) -> Outcome<bool> {
        Ok(self.snapshot.get_with(self.table, key, |value| see(value))?.is_some())
    }

    fn scan(&mut self, from: &[u8], limit: usize, see: SeeRecord<'_>) -> Outcome<usize> {
        let mut cursor = self.snapshot.cursor(self.table, from..)?;
        for seen in 0..limit {
            match cursor.next()? {
                Some((key, value)) => see(key, value),
                None => return Ok(seen),
            }
        }
        Ok(limit)
    }
}
