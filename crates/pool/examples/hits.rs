//! Nanoseconds of a hit: pages that the processor's caches hold, and a gigabyte of them at random.
//!
//! `cargo run --release -p pando-db-pool --example hits [MiB]`

use base::budget::Account;
use base::env::Random;
use base::slots::{Reader, Slots};
use base::{CheckpointNo, DatabaseId, PagePtr};
use io::{Dir, MemDir};
use page::{EditCounters, Kind, PageMut, Value};
use pando_pool::Pool;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const PAGE_BYTES: usize = 16 << 10;
const READS: u64 = 4_000_000;

fn main() -> base::Result<()> {
    let mib: usize = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(1024);
    let (file, id, slots) = (MemDir::new().create("data")?, DatabaseId(1), Arc::new(Slots::new()));
    let limit = (mib << 20) * 9 / 8;
    let pool = Pool::new(file.clone(), id, PAGE_BYTES, Account::alone(limit), limit, slots.clone());
    file.set_len((mib as u64) << 21)?;
    let mut bytes = vec![0; PAGE_BYTES];
    let mut ptrs = Vec::new();
    let start = Instant::now();
    for n in 1..=((mib << 20) / PAGE_BYTES) as u64 {
        let mut leaf = PageMut::init(&mut bytes, Kind::Leaf, 0, CheckpointNo(1));
        let inserted = leaf.insert(0, b"key", Value::Inline(b"v"), &mut EditCounters::default());
        inserted.expect("an empty page has room");
        let ptr = PagePtr::new(n * 4, 4, leaf.seal(id, n * 4));
        pool.admit(ptr, &bytes);
        ptrs.push(ptr);
    }
    println!("built and admitted in {:?}", start.elapsed());
    let reader = slots.claim().expect("a first slot");
    for (name, count) in [("64 pages, hot", 64), ("1 page", 1), ("all pages, random", ptrs.len())] {
        let ns = measure(&pool, &reader, &ptrs[..count])?;
        println!("{name:20} {ns:6.1} ns a read, {} faults", pool.stats().faults);
    }
    Ok(())
}

/// Nanoseconds of entering an epoch, reading a page's count, and leaving.
fn measure(pool: &Pool, reader: &Reader, ptrs: &[PagePtr]) -> base::Result<f64> {
    let mut random = Random::seeded(1);
    let mut best = f64::MAX;
    for _ in 0..3 {
        let start = Instant::now();
        for _ in 0..READS / 3 {
            let ptr = ptrs[random.below(ptrs.len() as u64) as usize];
            let mut guard = reader.enter();
            black_box(pool.read(&mut guard, ptr)?.page().count());
        }
        best = best.min(start.elapsed().as_nanos() as f64 / (READS / 3) as f64);
    }
    Ok(best)
}
