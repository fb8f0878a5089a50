//! Filters of LSM tables in memory: when they get there, what they take, and when they leave.

use base::budget::MemoryCategory;
use io::{Dir, MemDir};
use pando_store::{Options, RequestedLayout, Store, Table, Transaction, TransactionOptions};
use std::sync::Arc;
use txn::{Durability, Isolation};

const ROUNDS: u32 = 5;
const KEYS: u32 = 2_000;

fn open(dir: &Arc<dyn Dir>, memory_bytes: usize) -> Arc<Store> {
    let options = Options { page_bytes: Some(4096), memory_bytes, ..Options::default() };
    pando_store::open_or_create(Arc::clone(dir), &options).unwrap()
}

fn commit<T>(store: &Arc<Store>, write: impl FnOnce(&mut Transaction) -> T) -> T {
    let options = TransactionOptions { isolation: Isolation::Serializable, durability: Durability::Buffered };
    let mut tx = Transaction::begin(store, options).unwrap();
    let done = write(&mut tx);
    store.acknowledge(tx.apply().unwrap()).unwrap();
    done
}

fn key(round: u32, number: u32) -> Vec<u8> {
    format!("user:{:07}", number * ROUNDS + round).into_bytes()
}

/// Creates a table with several runs, of [`ROUNDS`] checkpoints.
fn fill(store: &Arc<Store>) -> Table {
    let table = commit(store, |tx| tx.create_table("t", RequestedLayout::Lsm).unwrap());
    for round in 0..ROUNDS {
        commit(store, |tx| {
            (0..KEYS).for_each(|number| tx.put(&table, &key(round, number), b"value").unwrap());
        });
        store.checkpoint().unwrap();
        keep_filters(store);
    }
    table
}

fn keep_filters(store: &Store) {
    while store.keep_filters().unwrap() {}
}

fn held(store: &Store) -> usize {
    store.account().held().bytes(MemoryCategory::Filters)
}

/// Returns how many runs are asked for a key that is not there, and how many pages are read for it.
fn asked(store: &Arc<Store>, table: &Table) -> (usize, usize) {
    let explained = store.explain_get(table, b"user:0000001-").unwrap();
    let runs: Vec<_> = explained.steps.iter().filter(|step| step.what.starts_with("run ")).collect();
    (runs.len(), runs.iter().map(|step| step.pages.len()).sum())
}

fn check_gets(store: &Arc<Store>, table: &Table) {
    let snapshot = store.snapshot().unwrap();
    for round in 0..ROUNDS {
        for number in (0..KEYS).step_by(7) {
            let key = key(round, number);
            assert_eq!(snapshot.get(table, &key).unwrap().as_deref(), Some(&b"value"[..]));
            assert_eq!(snapshot.get(table, &[&key[..], b"-"].concat()).unwrap(), None);
        }
    }
}

#[test]
fn a_miss_reads_no_page_once_the_filters_are_in_memory() {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = open(&dir, 16 << 20);
    let table = fill(&store);
    let (runs, pages) = asked(&store, &table);
    assert!(runs > 1 && pages == 0, "{runs} runs, {pages} pages");
    check_gets(&store, &table);
    let before = held(&store);
    // 14 bits for each key, 10 in the lowest run, and little more: not whole pages.
    let keys = (ROUNDS * KEYS) as usize;
    assert!((keys * 10 / 8..keys * 18 / 8).contains(&before), "{before} bytes");
    store.check().unwrap();
    drop(table);
    store.close().unwrap();
    assert_eq!(held(&store), 0, "a program can keep the store of a closed database");
    drop(store);

    // After an opening they are read from the disk.
    let store = open(&dir, 16 << 20);
    let table = store.snapshot().unwrap().table("t").unwrap().unwrap();
    let (runs, pages) = asked(&store, &table);
    assert!(runs > 0 && pages > 0 && held(&store) == 0);
    keep_filters(&store);
    assert_eq!(asked(&store, &table), (runs, 0));
    assert!(held(&store) > 0);
    check_gets(&store, &table);

    // They leave with the table's runs.
    commit(&store, |tx| tx.drop_table(&table).unwrap());
    store.checkpoint().unwrap();
    assert_eq!(held(&store), 0);
}

#[test]
fn what_does_not_fit_its_share_stays_on_the_disk() {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    // No share, and one that some of the filters fit.
    for (memory_bytes, share) in [(3 << 20, 0), (16 << 20, 10_000)] {
        let options = Options {
            page_bytes: Some(4096),
            memory_bytes,
            filters_bytes: (share > 0).then_some(share),
            ..Options::default()
        };
        let dir = Arc::clone(&dir);
        let store = pando_store::open_or_create(dir, &options).unwrap();
        if store.snapshot().unwrap().table("t").unwrap().is_none() {
            fill(&store);
        }
        keep_filters(&store);
        let table = store.snapshot().unwrap().table("t").unwrap().unwrap();
        assert!(held(&store) <= share, "{} of {share}", held(&store));
        assert!(asked(&store, &table).1 > 0);
        check_gets(&store, &table);
        store.close().unwrap();
    }
}
