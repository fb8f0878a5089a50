//! What merging adds to a scan: records below, nothing or one percent of them changed above. They fit the cache, so
//! that what is measured is the merge and not the memory.
//! Run with `cargo run --release -p pando-db-store --example merge`.

use base::{CommitTs, Result, TableId, Value};
use memtable::Memtable;
use std::hint::black_box;
use std::time::Instant;

use pando_store::merge::{Layer, MemtableLayer, Merged, Upper};

const TABLE: TableId = TableId(16);
const RECORDS: u64 = 5_000;
const PASSES: u64 = 200;

/// Stands in for a run: records in one buffer, the key copied out on each step as a run's cursor does.
struct Flat<'a> {
    records: &'a [[u8; 174]],
    at: usize,
    key: [u8; 24],
}

impl Flat<'_> {
    #[inline]
    fn go(&mut self, at: usize) -> Result<bool> {
        self.at = at;
        let on = self.records.get(at);
        if let Some(record) = on {
            self.key.copy_from_slice(&record[..24]);
        }
        Ok(on.is_some())
    }
    fn place_of(&self, key: &[u8]) -> usize {
        self.records.partition_point(|record| &record[..24] < key)
    }
}

impl Layer for Flat<'_> {
    fn seek_first(&mut self) -> Result<bool> {
        self.go(0)
    }
    fn seek_last(&mut self) -> Result<bool> {
        self.go(self.records.len() - 1)
    }
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.go(self.place_of(key))
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<bool> {
        self.go(self.place_of(key).wrapping_sub(1))
    }
    #[inline]
    fn next(&mut self) -> Result<bool> {
        self.go(self.at + 1)
    }
    #[inline]
    fn prev(&mut self) -> Result<bool> {
        self.go(self.at.wrapping_sub(1))
    }
    /// Searches the next hundred records, as in a leaf.
    fn steps_before(&self, key: &[u8], forward: bool, most: u32) -> u32 {
        let leaf = &self.records[self.at + 1..self.records.len().min(self.at + 100)];
        if forward { most.min(leaf.partition_point(|record| &record[..24] < key) as u32) } else { 0 }
    }
    #[inline]
    fn entry(&self) -> Option<(&[u8], Value<'_>)> {
        Some((&self.key, Value::Inline(&self.records.get(self.at)?[24..])))
    }
}

fn key(n: u64, shared_bytes: usize) -> [u8; 24] {
    let mut key = [b'k'; 24];
    key[shared_bytes..shared_bytes + 8].copy_from_slice(&n.to_be_bytes());
    key
}

fn first(cursor: &mut Merged<Upper<'_>, Flat<'_>>) -> base::Result<bool> {
    cursor.seek_first(None)
}

fn step(cursor: &mut Merged<Upper<'_>, Flat<'_>>) -> base::Result<bool> {
    cursor.next(None)
}

/// Scans a cursor from end to end, again and again.
macro_rules! timed {
    ($what:expr, $cursor:expr, $first:expr, $next:expr) => {{
        let mut cursor = $cursor;
        let start = Instant::now();
        let mut sum = 0u8;
        for _ in 0..PASSES {
            let mut on = $first(&mut cursor).unwrap();
            while on {
                sum = sum.wrapping_add(cursor.entry().map_or(0, |(key, _)| key[23]));
                on = $next(&mut cursor).unwrap();
            }
        }
        black_box(sum);
        let ns = start.elapsed().as_nanos() as f64 / (PASSES * RECORDS) as f64;
        println!("  {:<36} {ns:>6.1} ns a record", $what);
    }};
}

fn main() {
    for shared_bytes in [0, 16] {
        println!("24-byte keys that share their first {shared_bytes} bytes, 150-byte values");
        let mut records = vec![[0; 174]; RECORDS as usize];
        let (memtable, mut writer) = Memtable::new();
        for (n, record) in (0..).zip(&mut records) {
            record[..24].copy_from_slice(&key(n, shared_bytes));
            if n % 100 == 0 {
                writer.put(TABLE, &record[..24], &[1; 150], CommitTs(1));
            }
        }
        let flat = || Flat { records: &records, at: 0, key: [0; 24] };
        for _ in 0..3 {
            let layer = MemtableLayer::new(&memtable, TABLE, CommitTs(1), None);
            timed!("the lower layer alone", flat(), Flat::seek_first, Flat::next);
            timed!(
                "merged with nothing above",
                Merged::new(Vec::<Upper<'_>>::new(), 0, flat(), ()),
                first,
                step
            );
            timed!("merged with 1% above", Merged::new(vec![Upper::from(layer)], 0, flat(), ()), first, step);
        }
    }
}
