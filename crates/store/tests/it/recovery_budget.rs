//! A log that was written with much memory is recovered with little, to the same records, also in several attempts.

use base::budget::MemoryCategory;
use base::env::Random;
use base::{CommitTs, Result};
use io::{Dir, MemDir};
use pando_store::{Options, RequestedLayout, Span, Store, Transaction, TransactionOptions};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(memory_bytes: usize) -> Options {
    Options {
        page_bytes: Some(4096),
        memory_bytes,
        large_bytes: 20_000,
        piece_bytes: 8192,
        ..Options::default()
    }
}

/// Commits of every sort, and never a checkpoint: puts, deletes of ranges, large values, attached runs if `spills`.
fn write(store: &Arc<Store>, seed: u64, spills: bool) -> Result<Model> {
    let mut random = Random::seeded(seed);
    let mut model = Model::new();
    let mut tx = Transaction::begin(store, TransactionOptions::default())?;
    let table = tx.create_table("t", RequestedLayout::BTree)?;
    store.acknowledge(tx.apply()?)?;
    let key = |random: &mut Random| format!("{:05}", random.below(20_000)).into_bytes();
    for commit in 0..400 {
        let mut tx = Transaction::begin(store, TransactionOptions::default())?;
        for _ in 0..random.below(40) {
            let (key, len) = (key(&mut random), random.below(600) as usize);
            let value = vec![commit as u8; if random.chance(1, 300) { 70_000 } else { len }];
            tx.put(&table, &key, &value)?;
            model.insert(key, value);
        }
        if random.chance(1, 20) {
            let mut range = [key(&mut random), key(&mut random)];
            range.sort();
            tx.delete_range(&table, &Span::between(Included(&range[0]), Excluded(&range[1])))?;
            model.retain(|key, _| *key < range[0] || *key >= range[1]);
        }
        if spills && random.chance(1, 40) {
            tx.spill()?;
        }
        store.acknowledge(tx.apply()?)?;
    }
    Ok(model)
}

fn check(store: &Arc<Store>, model: &Model, last: CommitTs) {
    let snapshot = store.snapshot().unwrap();
    assert_eq!(snapshot.ts(), last);
    let table = snapshot.table("t").unwrap().unwrap();
    let mut cursor = snapshot.cursor(&table, Span::all()).unwrap();
    for (key, value) in model {
        let (found, bytes) = cursor.next().unwrap().expect("a record");
        assert!(found == key && bytes == value, "{}", String::from_utf8_lossy(key));
    }
    assert!(cursor.next().unwrap().is_none());
    drop(cursor);
    assert_eq!(store.check().unwrap().orphan_units, 0);
}

#[test]
fn a_log_of_many_times_the_memory_is_recovered_within_it() {
    for seed in 0..4 {
        let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
        let store = pando_store::open_or_create(Arc::clone(&dir), &options(64 << 20)).unwrap();
        let model = write(&store, seed, true).unwrap();
        let last = store.snapshot().unwrap().ts();
        store.close().unwrap();
        drop(store);

        let little = options(1 << 20);
        let store = pando_store::open(Arc::clone(&dir), &little).unwrap();
        let (memory, checkpoints) = (store.memory(), store.stats().unwrap().checkpoints);
        assert!(checkpoints >= 3, "{checkpoints} checkpoints");
        assert!(memory.peak_bytes <= memory.limit_bytes, "{memory:?}");
        // The segment that was made with more memory is not mapped, but the next ones are.
        assert_eq!(memory.held.bytes(MemoryCategory::Log), 64 << 10, "{memory:?}");
        check(&store, &model, last);
        store.close().unwrap();
        drop(store);

        // Once more, with enough: the rest of the log, which takes no checkpoint.
        let store = pando_store::open(Arc::clone(&dir), &options(64 << 20)).unwrap();
        assert_eq!(store.stats().unwrap().checkpoints, 0);
        check(&store, &model, last);
        store.close().unwrap();
    }
}

#[test]
fn what_fits_is_recovered_without_a_checkpoint() {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = pando_store::open_or_create(Arc::clone(&dir), &options(64 << 20)).unwrap();
    let model = write(&store, 9, false).unwrap();
    let last = store.snapshot().unwrap().ts();
    store.close().unwrap();
    drop(store);
    let store = pando_store::open(dir, &options(64 << 20)).unwrap();
    assert_eq!(store.stats().unwrap().checkpoints, 0);
    check(&store, &model, last);
}

/// The least budget that pages of 16 KiB allow, and commits of every length up to many times of it.
#[test]
fn the_least_budget_recovers_any_log() {
    for (seed, layout) in (0..).zip(RequestedLayout::ALL) {
        let options = |memory_bytes| Options { page_bytes: Some(16384), memory_bytes, ..Options::default() };
        let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
        let store = pando_store::open_or_create(Arc::clone(&dir), &options(512 << 20)).unwrap();
        let mut random = Random::seeded(seed);
        let mut tx = Transaction::begin(&store, TransactionOptions::default()).unwrap();
        let table = tx.create_table("t", layout).unwrap();
        store.acknowledge(tx.apply().unwrap()).unwrap();
        let (mut model, mut written) = (Model::new(), 0);
        while written < 54 << 20 {
            let mut tx = Transaction::begin(&store, TransactionOptions::default()).unwrap();
            for _ in 0..1 << random.below(16) {
                let key = random.below(1 << 20).to_be_bytes().to_vec();
                let value = vec![written as u8; 1 << random.below(12)];
                written += value.len() + 40;
                tx.put(&table, &key, &value).unwrap();
                model.insert(key, value);
            }
            store.acknowledge(tx.apply().unwrap()).unwrap();
        }
        let last = store.snapshot().unwrap().ts();
        assert_eq!(store.stats().unwrap().checkpoints, 0);
        store.close().unwrap();
        drop(store);
        let least = pando_store::memory::least_budget_bytes(16384);
        let store = pando_store::open(Arc::clone(&dir), &options(least)).unwrap();
        let memory = store.memory();
        println!("{layout:?}: {} MiB of log, {memory:?}", written >> 20);
        check(&store, &model, last);
    }
}
