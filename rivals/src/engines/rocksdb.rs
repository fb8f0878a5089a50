//! RocksDB: one column family, the options of its "basic tuning" page (16 KiB blocks, whole-key Bloom filters of
//! 10 bits, dynamic level sizes, incremental file syncs).
//!
//! Its memtables, of 64 MiB each, come besides its cache. As `rocksdb-budget` they are charged to it by a write buffer
//! manager, and have half of it at most: then the cache is what the whole engine takes, as with Pando.
//!
//! A write transaction is an atomic write batch. It has no isolation and does not see its own writes, which is less
//! than the other engines do. `sync`: the log is synced at each commit. `buffered`: written, not synced.

use super::Entry;
use crate::engine::{
    Config, Durability, Engine, Outcome, ReadWork, Reader, See, SeeRecord, Session, WriteWork, Writer,
};
use rocksdb::{BlockBasedOptions, Cache, DB, Options, WriteBatch, WriteBufferManager, WriteOptions};

pub const ENTRY: Entry = Entry {
    name: "rocksdb",
    about: "RocksDB 11.8 (rust-rocksdb 0.25), Bloom 10 bits, write batches",
    open: Some(open),
    open_tables: None,
};

pub const BUDGET_ENTRY: Entry = Entry {
    name: "rocksdb-budget",
    about: "RocksDB as above, memtables charged to its cache",
    open: Some(open_within_budget),
    open_tables: None,
};

struct Rocks {
    db: DB,
    sync: bool,
}

fn open(config: &Config) -> Outcome<Box<dyn Engine>> {
    open_with(config, &Cache::new_lru_cache(config.cache_bytes), &mut Options::default())
}

fn open_within_budget(config: &Config) -> Outcome<Box<dyn Engine>> {
    let cache = Cache::new_lru_cache(config.cache_bytes);
    let memtables = config.cache_bytes / 2;
    let manager = WriteBufferManager::new_write_buffer_manager_with_cache(memtables, false, cache.clone());
    let mut options = Options::default();
    options.set_write_buffer_manager(&manager);
    open_with(config, &cache, &mut options)
}

fn open_with(config: &Config, cache: &Cache, options: &mut Options) -> Outcome<Box<dyn Engine>> {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_size(16 << 10);
    blocks.set_bloom_filter(10.0, false);
    blocks.set_block_cache(cache);
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    options.create_if_missing(true);
    options.set_block_based_table_factory(&blocks);
    options.set_level_compaction_dynamic_level_bytes(true);
    options.set_max_background_jobs(2);
    options.set_bytes_per_sync(1 << 20);
    let db = DB::open(options, &config.dir)?;
    Ok(Box::new(Rocks { db, sync: config.durability == Durability::Sync }))
}

impl Engine for Rocks {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Handle(self)))
    }

    fn settle(&self) -> Outcome<()> {
        Ok(self.db.flush()?)
    }
}

struct Handle<'e>(&'e Rocks);

impl Session for Handle<'_> {
    fn write(&mut self, work: WriteWork<'_>) -> Outcome<()> {
        let mut tx = In { db: &self.0.db, batch: WriteBatch::default() };
        work(&mut tx)?;
        let mut options = WriteOptions::default();
        options.set_sync(self.0.sync);
        Ok(self.0.db.write_opt(tx.batch, &options)?)
    }

    fn read(&mut self, work: ReadWork<'_>) -> Outcome<()> {
        work(&mut At(self.0.db.snapshot()))
    }
}

struct In<'e> {
    db: &'e DB,
    batch: WriteBatch,
}

impl Writer for In<'_> {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        if self.db.get_pinned(key)?.is_some() {
            return Ok(false);
        }
        self.batch.put(key, value);
        Ok(true)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.batch.put(key, value);
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Outcome<()> {
        self.batch.delete(key);
        Ok(())
    }

    fn get(&mut self, key: &[u8], see: See<'_>) -> Outcome<bool> {
        Ok(self.db.get_pinned(key)?.map(|value| see(&value)).is_some())
    }
}

struct At<'e>(rocksdb::Snapshot<'e>);

impl Reader for At<'_> {
    fn get(&mut self, key: &[u8], see: See<'_>) -> Outcome<bool> {
        Ok(self.0.get_pinned(key)?.map(|value| see(&value)).is_some())
    }

    fn scan(&mut self, from: &[u8], limit: usize, see: SeeRecord<'_>) -> Outcome<usize> {
        let mut records = self.0.raw_iterator();
        records.seek(from);
        let mut seen = 0;
        while seen < limit {
            let Some((key, value)) = records.item() else { break };
            see(key, value);
            seen += 1;
            records.next();
        }
        records.status()?;
        Ok(seen)
    }
}
