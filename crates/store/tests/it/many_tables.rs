//! A thousand tables, most of them idle, in both layouts: what is done to a few costs what it costs among ten.
//!
//! Counted, not timed: calls and bytes that reach the disk.

use io::Dir;
use io::sim::{CallKind, SimDisk};
use pando_store::{Options, RequestedLayout, Store, Transaction, TransactionOptions};
use std::sync::Arc;
use txn::{Durability, Isolation};

const ROUNDS: u64 = 30;

/// What opening and a few rounds of commits and checkpoints took.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// Calls that write, of each round, on average.
    writes: u64,
    /// Calls that flush, of each round.
    syncs: u64,
    /// Calls that read, when the database is opened.
    opening_reads: u64,
    /// Bytes of the log's files at the end.
    log_bytes: u64,
}

fn open(disk: &SimDisk) -> Arc<Store> {
    let dir: Arc<dyn Dir> = disk.dir();
    let options = Options { page_bytes: Some(4096), memory_bytes: 4 << 20, ..Options::default() };
    pando_store::open_or_create(dir, &options).unwrap()
}

fn write(store: &Arc<Store>, work: impl FnOnce(&mut Transaction)) {
    let options = TransactionOptions { isolation: Isolation::Serializable, durability: Durability::Buffered };
    let mut tx = Transaction::begin(store, options).unwrap();
    work(&mut tx);
    let applied = tx.apply().unwrap();
    store.acknowledge(applied).unwrap();
}

fn name(table: u32) -> String {
    format!("table-{table:04}")
}

/// `tables` of both layouts by turns, a record in each; then rounds that write to one of each layout.
fn cost(tables: u32) -> Cost {
    let disk = SimDisk::new();
    disk.keep_history(false);
    let store = open(&disk);
    write(&store, |tx| {
        for at in 0..tables {
            let layout = RequestedLayout::ALL[at as usize % 2];
            let table = tx.create_table(&name(at), layout).unwrap();
            tx.put(&table, b"key", b"value").unwrap();
        }
    });
    store.checkpoint().unwrap();
    store.close().unwrap();

    let before = disk.calls(CallKind::Read);
    let store = open(&disk);
    let opening_reads = disk.calls(CallKind::Read) - before;
    let calls = || (disk.calls(CallKind::Write), disk.calls(CallKind::Sync));
    let before = calls();
    for round in 0..ROUNDS {
        write(&store, |tx| {
            for at in [3, 4] {
                let table = tx.table(&name(at)).unwrap().unwrap();
                tx.put(&table, &round.to_be_bytes(), b"value").unwrap();
            }
        });
        store.checkpoint().unwrap();
    }
    let after = calls();
    let snapshot = store.snapshot().unwrap();
    for at in 0..tables {
        let table = snapshot.table(&name(at)).unwrap().unwrap();
        assert_eq!(snapshot.get(&table, b"key").unwrap().as_deref(), Some(&b"value"[..]), "{}", name(at));
    }
    drop(snapshot);
    let log_bytes = store.stats().unwrap().log_file_bytes;
    store.check().unwrap();
    store.close().unwrap();
    Cost {
        writes: (after.0 - before.0) / ROUNDS,
        syncs: (after.1 - before.1) / ROUNDS,
        opening_reads,
        log_bytes,
    }
}

#[test]
fn idle_tables_cost_next_to_nothing() {
    let (few, many) = (cost(10), cost(1000));
    assert!(many.writes <= few.writes + 2, "writes of a round: {few:?}, among many {many:?}");
    assert_eq!(many.syncs, few.syncs, "flushes of a round: {few:?}, among many {many:?}");
    assert!(many.opening_reads <= few.opening_reads + 60, "opening: {few:?}, with many {many:?}");
    assert!(many.log_bytes <= few.log_bytes.max(256 << 10), "idle tables keep no log: {few:?}, {many:?}");
}
