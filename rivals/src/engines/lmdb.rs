//! LMDB through heed, with and without `WRITEMAP`.
//!
//! `sync`: the default, data then meta page synced. `buffered`: `NOSYNC`; a killed process loses nothing, a power
//! loss may corrupt the file, which is weaker than what the other engines call buffered. Reads come from the map:
//! there is no cache to limit.

use super::Entry;
use crate::engine::{
    Config, Durability, Engine, Outcome, ReadWork, Reader, See, SeeRecord, Session, WriteWork, Writer,
};
use heed::types::Bytes;
use heed::{
    CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, MdbError, PutFlags, RoTxn, RwTxn, WithTls,
};
use std::ops::Bound;

pub const ENTRY: Entry = Entry {
    name: "lmdb",
    about: "LMDB (heed 0.23), map of 64 GiB",
    open: Some(|c| open(c, EnvFlags::empty())),
    open_tables: None,
};
pub const WRITE_MAP_ENTRY: Entry = Entry {
    name: "lmdb-writemap",
    about: "LMDB (heed 0.23), WRITEMAP",
    open: Some(|c| open(c, EnvFlags::WRITE_MAP)),
    open_tables: None,
};

const MAP_BYTES: usize = 64 << 30;

/// A table borrows its environment, which therefore lives as long as the process.
type Records = Database<'static, Bytes, Bytes>;

struct Lmdb {
    env: &'static Env<WithTls>,
    table: Records,
}

fn open(config: &Config, flags: EnvFlags) -> Outcome<Box<dyn Engine>> {
    let flags = match config.durability {
        Durability::Sync => flags,
        Durability::Buffered => flags | EnvFlags::NO_SYNC,
    };
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES).max_readers(1024);
    // SAFETY: NO_SYNC and WRITE_MAP are asked for knowingly, and nothing else in this process writes to the map.
    unsafe { options.flags(flags) };
    // SAFETY: the directory is this run's own; no other process has the file open, and nobody truncates it.
    let env: &'static Env<WithTls> = Box::leak(Box::new(unsafe { options.open(&config.dir)? }));
    let table = env
        .create_databases_and_commit(env.write_txn()?, |opener, tx| {
            opener.create_database(tx, None).map(CommitOrAbort::<_, ()>::Commit)
        })?
        .commit()
        .expect("the closure never aborts");
    Ok(Box::new(Lmdb { env, table }))
}

impl Engine for Lmdb {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Handle(self)))
    }

    fn settle(&self) -> Outcome<()> {
        Ok(self.env.force_sync()?)
    }
}

struct Handle<'e>(&'e Lmdb);

impl Session for Handle<'_> {
    fn write(&mut self, work: WriteWork<'_>) -> Outcome<()> {
        let mut tx = In { tx: self.0.env.write_txn()?, table: self.0.table };
        work(&mut tx)?;
        Ok(tx.tx.commit()?)
    }

    fn read(&mut self, work: ReadWork<'_>) -> Outcome<()> {
        work(&mut At { tx: self.0.env.read_txn()?, table: self.0.table })
    }
}

struct In<'e> {
    tx: RwTxn<'e>,
    table: Records,
}

impl Writer for In<'_> {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        match self.table.put_with_flags(&mut self.tx, PutFlags::NO_OVERWRITE, key, value) {
            Ok(()) => Ok(true),
            Err(heed::Error::Mdb(MdbError::KeyExist)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        Ok(self.table.put(&mut self.tx, key, value)?)
    }

    fn delete(&mut self, key: &[u8]) -> Outcome<()> {
        self.table.delete(&mut self.tx, key)?;
        Ok(())
    }

    fn get(&mut self, key: &[u8], see: See<'_>) -> Outcome<bool> {
        Ok(self.table.get(&self.tx, key)?.map(see).is_some())
    }
}

struct At<'e> {
    tx: RoTxn<'e, WithTls>,
    table: Records,
}

impl Reader for At<'_> {
    fn get(&mut self, key: &[u8], see: See<'_>) -> Outcome<bool> {
        Ok(self.table.get(&self.tx, key)?.map(see).is_some())
    }

    fn scan(&mut self, from: &[u8], limit: usize, see: SeeRecord<'_>) -> Outcome<usize> {
        // LMDB has no empty key, and refuses to seek one.
        let start = if from.is_empty() { Bound::Unbounded } else { Bound::Included(from) };
        let span = (start, Bound::Unbounded);
        let mut seen = 0;
        for record in self.table.range(&self.tx, &span)?.take(limit) {
            let (key, value) = record?;
            see(key, value);
            seen += 1;
        }
        Ok(seen)
    }
}
