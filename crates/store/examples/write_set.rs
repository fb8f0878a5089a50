//! What the write set alone costs: one transaction of a million random 4-byte keys, and transactions of one put.
//! Run with `cargo run --release -p pando-db-store --example write_set`.

use base::env::Random;
use base::{TableId, Value};
use pando_store::write_set::{Prior, WriteSet};
use std::hint::black_box;
use std::time::Instant;

const TABLE: TableId = TableId(16);

fn timed<T>(what: &str, count: u64, run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = run();
    let ns = start.elapsed().as_nanos() as f64;
    println!("{what:<44} {:>8.2} ms {:>8.1} ns each", ns / 1e6, ns / count as f64);
    result
}

fn large(name: &str, keys: &[Vec<u8>], value: &[u8]) {
    let n = keys.len() as u64;
    let mut writes = WriteSet::new();
    println!("{name}");
    timed("  insert (look up, then put)", n, || {
        for key in keys {
            if writes.get(TABLE, key).is_none() {
                writes.put(TABLE, key, value, Prior::Read);
            }
        }
    });
    timed("  look up again, in the order of insertion", n, || {
        keys.iter().filter(|key| writes.get(TABLE, key).is_some()).count()
    });
    timed("  sort", n, || writes.sort_all());
    timed("  iterate in order, touching keys and values", n, || {
        black_box(
            writes
                .records(TABLE)
                .map(|(key, own)| match own {
                    Value::Inline(value) => key[0] ^ value[0],
                    _ => 0,
                })
                .fold(0, |a, b| a ^ b),
        )
    });
    timed("  clear", n, || writes.clear());
}

fn main() {
    let mut random = Random::seeded(1);
    let n = 1_000_000u32;
    let mut numbers: Vec<u32> = (0..n).map(|n| n.wrapping_mul(0x9e37_79b1)).collect();
    random.shuffle(&mut numbers);
    let keys: Vec<Vec<u8>> = numbers.iter().map(|n| n.to_be_bytes().to_vec()).collect();
    large("1M random 4-byte keys, 8-byte values", &keys, &[7; 8]);
    let keys: Vec<Vec<u8>> = numbers.iter().map(|n| format!("user{n:020}").into_bytes()).collect();
    large("1M 24-byte keys with a common prefix, 150-byte values", &keys, &[7; 150]);

    let mut writes = WriteSet::new();
    timed("one put and clear", 1_000_000, || {
        for n in &numbers {
            writes.put(TABLE, &n.to_be_bytes(), &[7; 100], Prior::Unread);
            black_box(&writes).get(TABLE, &[0; 4]);
            writes.clear();
        }
    });
    timed("an empty set made and dropped", 1_000_000, || {
        for _ in 0..n {
            black_box(WriteSet::new());
        }
    });
}
