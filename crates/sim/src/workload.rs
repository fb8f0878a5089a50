//! The behavior of clients: an endless, seeded sequence of transaction scripts over a few tables. Sizes are so small
//! that a hundred scripts cross every kind of limit.

use crate::model::Bytes;
use base::DatabaseId;
use base::env::{Clock, Random};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use store::{Compression, Options, RequestedLayout, TransactionOptions};
use txn::{Durability, Isolation};

/// The tables that scripts use. They are created when they are first written to.
pub const TABLES: [&str; 4] = ["accounts", "blobs", "edges", "queue"];

/// The page size of most explored databases: the smallest one, so that trees are high and images small.
pub const PAGE_BYTES: usize = 4096;
/// One database in this number has larger pages, so that half of its LSM tables are compressed.
const COMPRESSED_EVERY: u64 = 3;

/// One step of a transaction.
#[derive(Clone, Debug)]
pub enum Op {
    /// Sets a key.
    Put(&'static str, Bytes, Bytes),
    /// Sets a key to a value that is written in pieces of this size. If the flag is set, it is abandoned before the
    /// last piece.
    Stream(&'static str, Bytes, Bytes, usize, bool),
    /// Sets a key if it is absent.
    Insert(&'static str, Bytes, Bytes),
    /// Removes a key without reading it.
    Delete(&'static str, Bytes),
    /// Removes a key and reads its value.
    Remove(&'static str, Bytes),
    /// Removes a range without reading it.
    DeleteRange(&'static str, Bytes, Bytes),
    /// Reads a key.
    Get(&'static str, Bytes),
    /// Reads a range, backward or forward.
    Scan(&'static str, Bytes, Bytes, bool),
    /// Drops a table.
    Drop(&'static str),
    /// Renames the first name's table to the second name.
    Rename(&'static str, &'static str),
    /// Sets another layout of a table.
    SetLayout(&'static str, RequestedLayout),
    /// Sets whether merges compress the leaves of a table that they write.
    SetCompression(&'static str, Compression),
    /// Sets the TTL of a table's entries in milliseconds, or removes it.
    SetTtl(&'static str, Option<u64>),
    /// Loads many records at once.
    Load(&'static str, Vec<(Bytes, Bytes)>),
    /// Writes what is in memory to the transaction's own runs.
    Spill,
    /// Marks a savepoint.
    Save,
    /// Rolls back to the newest savepoint.
    RollBack,
}

/// One transaction.
#[derive(Clone, Debug)]
pub struct Script {
    /// The options of the transaction.
    pub options: TransactionOptions,
    /// The operations, in order.
    pub ops: Vec<Op>,
    /// Whether it commits at the end; otherwise it is dropped.
    pub commits: bool,
}

/// A seeded sequence of scripts.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The options with which the database is opened.
    pub options: Options,
    /// The hand of the database's clock.
    pub hand: Arc<AtomicU64>,
    /// The number of clients that take scripts.
    pub clients: usize,
    random: Random,
    keys: u64,
    values: u64,
    drops: bool,
    /// Whether pages are large enough to be compressed.
    compresses: bool,
}

impl Workload {
    /// Creates the workload of `seed`.
    pub fn new(seed: u64) -> Workload {
        let mut random = Random::seeded(seed ^ 0x776f_726b_6c6f_6164);
        let (clock, hand) = Clock::set_by_hand(1_000_000);
        let compresses = seed.is_multiple_of(COMPRESSED_EVERY);
        let page_bytes =
            if compresses { PAGE_BYTES << (1 + seed / COMPRESSED_EVERY % 2) } else { PAGE_BYTES };
        let options = Options {
            clock,
            page_bytes: Some(page_bytes),
            memory_bytes: store::memory::least_budget_bytes(page_bytes),
            budget: None,
            max_segment_bytes: if random.chance(2, 3) { 16 << 10 } else { 32 << 10 },
            flush_worth_bytes: [0, 2000, 1 << 20][seed as usize % 3],
            seal_records: 12 + random.below(16),
            seal_bytes: Some(24 << 10),
            large_bytes: [900, 2500, 1 << 20][random.below(3) as usize],
            piece_bytes: PAGE_BYTES << random.below(2),
            slice_bytes: [300, 2000, 6000, 32 << 20][random.below(4) as usize],
            fan: [2, 3, 8][random.below(3) as usize],
            filters_bytes: Some(page_bytes * (seed % 16) as usize),
            write_set_bytes: random.chance(3, 4).then(|| 1500 + random.below(4000) as usize),
            database: Some(DatabaseId(random.next_u64())),
            admits_readers: seed % 2 == 1,
            max_snapshot_age: random.chance(1, 3).then(|| Duration::from_millis(20 + random.below(100))),
            ..Options::default()
        };
        let clients = 2 + random.below(4) as usize;
        let (keys, drops) = (12 + random.below(60), random.chance(3, 4));
        Workload { options, hand, clients, keys, values: 0, drops, compresses, random }
    }

    /// Returns the next transaction.
    pub fn script(&mut self) -> Script {
        let random = &mut self.random;
        let durability = match random.below(8) {
            0..4 => Durability::Sync,
            4..7 => Durability::Buffered,
            _ => Durability::Lazy,
        };
        let isolation = if random.chance(3, 4) { Isolation::Serializable } else { Isolation::Snapshot };
        let count = 1 + if random.chance(1, 6) { random.below(14) } else { random.below(4) };
        let commits = random.chance(9, 10);
        let ops = (0..count).map(|_| self.op()).collect();
        Script { options: TransactionOptions { isolation, durability }, ops, commits }
    }

    fn op(&mut self) -> Op {
        let table = TABLES[self.random.below(TABLES.len() as u64) as usize];
        let key = self.key();
        match self.random.below(41) {
            0..17 => Op::Put(table, key, self.value()),
            17..20 => {
                let (value, piece_bytes) = (self.value(), 1 + self.random.below(3000) as usize);
                Op::Stream(table, key, value, piece_bytes, self.random.chance(1, 5))
            }
            20..24 => Op::Insert(table, key, self.value()),
            24..27 => Op::Delete(table, key),
            27 => Op::Remove(table, key),
            28..31 => {
                let (start, end) = self.range(key);
                Op::DeleteRange(table, start, end)
            }
            31..34 => Op::Get(table, key),
            34..36 => {
                let (start, end) = self.range(key);
                Op::Scan(table, start, end, self.random.chance(1, 2))
            }
            36 if self.drops => Op::Drop(table),
            37 if self.random.chance(1, 2) => Op::RollBack,
            37 if self.random.chance(1, 2) => {
                Op::SetLayout(table, RequestedLayout::ALL[self.random.below(2) as usize])
            }
            38 if self.compresses && self.random.chance(1, 3) => {
                Op::SetCompression(table, Compression::ALL[self.random.below(2) as usize])
            }
            38 if self.random.chance(1, 3) => Op::Spill,
            38 if self.random.chance(1, 2) => Op::Load(table, self.load()),
            38 if self.drops => Op::Rename(table, TABLES[self.random.below(TABLES.len() as u64) as usize]),
            39 if self.random.chance(2, 3) => {
                let ttls = [None, Some(1), Some(20), Some(200), Some(200), Some(5000)];
                Op::SetTtl(table, ttls[self.random.below(ttls.len() as u64) as usize])
            }
            _ => Op::Save,
        }
    }

    /// Returns records to load, mostly in the order of their keys.
    fn load(&mut self) -> Vec<(Bytes, Bytes)> {
        let count = self.random.below(30);
        let mut records: Vec<_> = (0..count).map(|_| (self.key(), self.value())).collect();
        if self.random.chance(2, 3) {
            records.sort();
        }
        records
    }

    /// Returns a key. A few keys are long, so that inner pages split as well.
    fn key(&mut self) -> Bytes {
        let number = self.random.below(self.keys);
        let mut key = format!("key-{number:03}").into_bytes();
        if number.is_multiple_of(7) {
            key.resize(60 + (number as usize * 37) % 500, b'a' + (number % 26) as u8);
        }
        key.into()
    }

    fn range(&mut self, start: Bytes) -> (Bytes, Bytes) {
        let number = self.random.below(self.keys + 2);
        let end = Bytes::from(format!("key-{number:03}").into_bytes());
        if start <= end { (start, [&*end, &[0]].concat().into()) } else { (end, start) }
    }

    /// Returns a value. Most are small; some are longer than a page stores. No two are the same.
    fn value(&mut self) -> Bytes {
        self.values += 1;
        let len = match self.random.below(40) {
            0..24 => self.random.below(48),
            24..36 => 48 + self.random.below(400),
            36..39 => 900 + self.random.below(2200),
            _ => 3000 + self.random.below(7000),
        };
        let fill = (self.values as u8).wrapping_mul(37);
        let mut value = self.values.to_le_bytes().to_vec();
        value.resize(8 + len as usize, fill);
        value.into()
    }
}
