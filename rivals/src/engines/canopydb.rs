//! canopydb: one tree, the write-ahead log on, concurrent (optimistic) write transactions.
//!
//! `sync`: `commit_with(true)`. `buffered`: `commit_with(false)`; the log is synced in the background.

use super::Entry;
use crate::engine::{
    Config, Durability, Engine, Failure, Outcome, ReadWork, Reader, See, SeeRecord, Session, WriteWork,
    Writer,
};
use canopydb::{Database, DbOptions, EnvOptions, Tree};

pub const ENTRY: Entry = Entry {
    name: "canopydb",
    about: "canopydb 0.2.5, WAL, concurrent transactions",
    open: Some(open),
    open_tables: None,
};

const TREE: &[u8] = b"t";

struct Canopy {
    db: Database,
    sync: bool,
}

fn open(config: &Config) -> Outcome<Box<dyn Engine>> {
    let mut env = EnvOptions::new(&config.dir);
    env.page_cache_size = config.cache_bytes;
    let db = Database::with_options(env, DbOptions::new())?;
    let tx = db.begin_write()?;
    drop(tx.get_or_create_tree(TREE)?);
    tx.commit()?;
    Ok(Box::new(Canopy { db, sync: config.durability == Durability::Sync }))
}

impl Engine for Canopy {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Handle(self)))
    }

    fn settle(&self) -> Outcome<()> {
        Ok(self.db.checkpoint()?)
    }
}

struct Handle<'e>(&'e Canopy);

impl Session for Handle<'_> {
    fn write(&mut self, work: WriteWork<'_>) -> Outcome<()> {
        loop {
            let tx = self.0.db.begin_write_concurrent()?;
            let tree = tx.get_tree(TREE)?.ok_or_else(missing)?;
            let mut writer = In(tree);
            work(&mut writer)?;
            drop(writer);
            match tx.commit_with(self.0.sync) {
                Ok(_) => return Ok(()),
                Err(canopydb::Error::WriteConflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn read(&mut self, work: ReadWork<'_>) -> Outcome<()> {
        let tx = self.0.db.begin_read()?;
        let mut at = At { tx: &tx, tree: None };
        work(&mut at)
    }
}

fn missing() -> Failure {
    Failure::Wrong("the tree is gone".into())
}

struct In<'t>(Tree<'t>);

impl Writer for In<'_> {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        if self.0.get(key)?.is_some() {
            return Ok(false);
        }
        self.0.insert(key, value)?;
        Ok(true)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        Ok(self.0.insert(key, value)?)
    }

    fn delete(&mut self, key: &[u8]) -> Outcome<()> {
        self.0.delete(key)?;
        Ok(())
    }

    fn get(&mut self, key: &[u8], see: See<'_>) -> Outcome<bool> {
        Ok(self.0.get(key)?.map(|value| see(&value)).is_some())
    }
}

/// The tree is looked up by the first read: an empty transaction does not need it.
struct At<'t> {
    tx: &'t canopydb::ReadTransaction,
    tree: Option<Tree<'t>>,
}

impl<'t> At<'t> {
    fn tree(&mut self) -> Outcome<&Tree<'t>> {
        if self.tree.is_none() {
            self.tree = Some(self.tx.get_tree(TREE)?.ok_or_else(missing)?);
        }
        Ok(self.tree.as_ref().expect("it was just found"))
    }
}

impl Reader for At<'_> {
    fn get(&mut self, key: &[u8], see: See<'_>) -> Outcome<bool> {
        Ok(self.tree()?.get(key)?.map(|value| see(&value)).is_some())
    }

    fn scan(&mut self, from: &[u8], limit: usize, see: SeeRecord<'_>) -> Outcome<usize> {
        let mut seen = 0;
        for record in self.tree()?.range(from..)?.take(limit) {
            let (key, value) = record?;
            see(&key, &value);
            seen += 1;
        }
        Ok(seen)
    }
}
