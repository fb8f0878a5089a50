//! Prints what an insert, a search and a verification cost: `cargo run --release -p pando-page --example page_speed`.

use base::seams::Random;
use base::{CheckpointNo, DatabaseId, PagePtr};
use page::{EditCounters, Kind, Page, PageMut, Value};
use std::hint::black_box;
use std::time::Instant;

/// Fills pages with shuffled 4-byte keys and 8-byte values until they are full, over and over.
fn measure(page_bytes: usize, rounds: u32) {
    let mut random = Random::seeded(1);
    let mut keys: Vec<[u8; 4]> = (0..page_bytes as u32 / 24 - 8).map(u32::to_be_bytes).collect();
    random.shuffle(&mut keys);
    let mut bytes = vec![0; page_bytes];
    let mut counters = EditCounters::default();

    let start = Instant::now();
    for _ in 0..rounds {
        let mut page = PageMut::init(&mut bytes, Kind::Leaf, 0, CheckpointNo(1));
        for key in &keys {
            let at = page.as_page().search_counted(key, &mut counters).unwrap_err();
            page.insert(at, key, Value::Inline(&[5; 8]), &mut counters).unwrap();
        }
    }
    let operations = f64::from(rounds) * keys.len() as f64;
    let insert_ns = start.elapsed().as_nanos() as f64 / operations;

    let page = Page::trusted(&bytes);
    let start = Instant::now();
    for _ in 0..rounds {
        for key in &keys {
            black_box(page.value(page.search(black_box(key)).unwrap()));
        }
    }
    let search_ns = start.elapsed().as_nanos() as f64 / operations;

    let sum = PageMut::edit(&mut bytes).seal(DatabaseId(1), 1);
    let ptr = PagePtr::new(1, (page_bytes / 4096) as u64, sum);
    let start = Instant::now();
    for _ in 0..rounds {
        black_box(Page::verify(black_box(&bytes), ptr, DatabaseId(1)).unwrap());
    }
    let verify_ns = start.elapsed().as_nanos() as f64 / f64::from(rounds);
    println!(
        "{page_bytes:6} B, {} keys: insert {insert_ns:.1} ns, search {search_ns:.1} ns, verify {verify_ns:.0} ns; {counters:?}",
        keys.len()
    );
}

fn main() {
    measure(4096, 5000);
    measure(16384, 1200);
}
