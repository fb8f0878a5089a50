//! redb.
//!
//! `sync`: `Durability::Immediate`, its default (one sync a commit). `buffered`: it has none; `Durability::None` leaves
//! commits in the process's own memory, where a kill loses them.

use super::Entry;
use crate::engine::{
    Config, Durability, Engine, Failure, Outcome, ReadWork, Reader, See, SeeRecord, Session, WriteWork,
    Writer,
};
use redb::{Database, ReadOnlyTable, ReadableDatabase, ReadableTable, Table, TableDefinition};

pub const ENTRY: Entry =
    Entry { name: "redb", about: "redb 4.5, cache as stated", open: Some(open), open_tables: None };

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("t");

struct Redb {
    db: Database,
}

fn open(config: &Config) -> Outcome<Box<dyn Engine>> {
    if config.durability == Durability::Buffered {
        return Err(Failure::Unsupported(
            "redb's unsynced commits lie in the process's memory: a kill loses them",
        ));
    }
    let db = Database::builder().set_cache_size(config.cache_bytes).create(config.dir.join("redb"))?;
    let tx = db.begin_write()?;
    tx.open_table(TABLE)?;
    tx.commit()?;
    Ok(Box::new(Redb { db }))
}

impl Engine for Redb {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Handle(self)))
    }

    fn settle(&self) -> Outcome<()> {
        Ok(())
    }
}

struct Handle<'e>(&'e Redb);

impl Session for Handle<'_> {
    fn write(&mut self, work: WriteWork<'_>) -> Outcome<()> {
        let tx = self.0.db.begin_write()?;
        work(&mut In(tx.open_table(TABLE)?))?;
        Ok(tx.commit()?)
    }

    fn read(&mut self, work: ReadWork<'_>) -> Outcome<()> {
        let tx = self.0.db.begin_read()?;
        let mut at = At { tx, table: None };
        work(&mut at)
    }
}

struct In<'t>(Table<'t, &'static [u8], &'static [u8]>);

impl Writer for In<'_> {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        match self.0.entry(key)? {
            redb::Entry::Occupied(_) => Ok(false),
            redb::Entry::Vacant(vacant) => {
                vacant.insert(value)?;
                Ok(true)
            }
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.0.insert(key, value)?;
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Outcome<()> {
        self.0.remove(key)?;
        Ok(())
    }

    fn get(&mut self, key: &[u8], see: See<'_>) -> Outcome<bool> {
        Ok(self.0.get(key)?.map(|value| see(value.value())).is_some())
    }
}

/// The table is opened by the first read: an empty transaction does not need it.
struct At {
    tx: redb::ReadTransaction,
    table: Option<ReadOnlyTable<&'static [u8], &'static [u8]>>,
}

impl At {
    fn table(&mut self) -> Outcome<&ReadOnlyTable<&'static [u8], &'static [u8]>> {
        if self.table.is_none() {
            self.table = Some(self.tx.open_table(TABLE)?);
        }
        Ok(self.table.as_ref().expect("it was just opened"))
    }
}

impl Reader for At {
    fn get(&mut self, key: &[u8], see: See<'_>) -> Outcome<bool> {
        Ok(self.table()?.get(key)?.map(|value| see(value.value())).is_some())
    }

    fn scan(&mut self, from: &[u8], limit: usize, see: SeeRecord<'_>) -> Outcome<usize> {
        let mut seen = 0;
        for record in self.table()?.range(from..)?.take(limit) {
            let (key, value) = record?;
            see(key.value(), value.value());
            seen += 1;
        }
        Ok(seen)
    }
}
