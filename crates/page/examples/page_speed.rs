//! Prints what an insert, a search and a verification cost:
//! `cargo run --release -p pando-db-page --example page_speed`.
//! Each figure is the best of many rounds, so that other work on the machine disturbs it little.

use base::env::Random;
use base::{CheckpointNo, DatabaseId, PagePtr};
use pando_page::{EditCounters, Kind, Page, PageMut, Value};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 2000;

/// The shortest of all rounds, divided by `operations`.
fn best_ns(operations: usize, mut round: impl FnMut()) -> f64 {
    let timed = |_| {
        let start = Instant::now();
        round();
        start.elapsed().as_nanos() as f64
    };
    (0..ROUNDS).map(timed).fold(f64::INFINITY, f64::min) / operations as f64
}

/// Fills a page with shuffled 4-byte keys and 8-byte values, searches for each, and verifies it.
fn measure(page_bytes: usize) {
    let mut random = Random::seeded(1);
    let mut keys: Vec<[u8; 4]> = (0..page_bytes as u32 / 24 - 8).map(u32::to_be_bytes).collect();
    random.shuffle(&mut keys);
    let mut bytes = vec![0; page_bytes];
    let mut counters = EditCounters::default();

    let insert_ns = best_ns(keys.len(), || {
        let mut page = PageMut::init(&mut bytes, Kind::Leaf, 0, CheckpointNo(1));
        for key in &keys {
            let at = page.as_page().search_counted(key, &mut counters).unwrap_err();
            page.insert(at, key, Value::Inline(&[5; 8]), &mut counters).unwrap();
        }
    });
    let page = Page::trusted(&bytes);
    let search_ns = best_ns(keys.len(), || {
        for key in &keys {
            black_box(page.value(page.search(black_box(key)).unwrap()));
        }
    });
    let sum = PageMut::edit(&mut bytes).seal(DatabaseId(1), 1);
    let ptr = PagePtr::new(1, (page_bytes / 4096) as u64, sum);
    let verify_ns = best_ns(1, || {
        black_box(Page::verify(black_box(&bytes), ptr, DatabaseId(1)).unwrap());
    });
    let EditCounters { key_decodes, compactions, allocator_failures, .. } = counters;
    println!(
        "{page_bytes:6} B, {} keys: insert {insert_ns:.1} ns, search {search_ns:.1} ns, \
         verify {verify_ns:.0} ns; \
         {key_decodes} decodes, {compactions} compactions, {allocator_failures} allocator failures",
        keys.len()
    );
}

fn main() {
    measure(4096);
    measure(16384);
}
