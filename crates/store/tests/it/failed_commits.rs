//! Commits that fail after they were staged: they leave no memory in the open memtable. And failures that wrote
//! nothing: they stop nothing.

use base::ErrorKind;
use base::budget::MemoryCategory;
use io::MemDir;
use io::sim::{CallKind, Fault, FaultError, SimDisk};
use pando_store::checkpoint::Step;
use pando_store::{Options, RequestedLayout, Store, Table, Transaction, TransactionOptions};
use std::sync::Arc;

fn options(memory_bytes: usize) -> Options {
    Options { memory_bytes, page_bytes: Some(4096), ..Options::default() }
}

fn begin(store: &Arc<Store>) -> Transaction {
    Transaction::begin(store, TransactionOptions::default()).unwrap()
}

fn commit(store: &Arc<Store>, tx: Transaction) -> base::Result<()> {
    store.acknowledge(tx.apply()?).map(drop)
}

fn create(store: &Arc<Store>) -> Table {
    let mut tx = begin(store);
    let table = tx.create_table("t", RequestedLayout::BTree).unwrap();
    commit(store, tx).unwrap();
    table
}

fn put_all(tx: &mut Transaction, table: &Table, count: u64, value_bytes: usize) {
    (0..count).for_each(|n| tx.put(table, &n.to_be_bytes(), &vec![1; value_bytes]).unwrap());
}

fn memtable_bytes(store: &Store) -> usize {
    store.stats().unwrap().memory.held.bytes(MemoryCategory::Memtables)
}

/// Long transactions that all fail, beside short ones that succeed, seal nothing.
#[test]
fn conflicts_do_not_fill_the_memtable() {
    let store = pando_store::open_or_create(Arc::new(MemDir::new()), &options(16 << 20)).unwrap();
    let table = create(&store);
    let seals = store.stats().unwrap().seals;
    for (count, value_bytes) in [(6, 57_000), (6, 8_000), (3000, 100), (200, 100)] {
        for n in 0..150_u64 {
            let mut long = begin(&store);
            long.get(&table, b"read").unwrap();
            put_all(&mut long, &table, count, value_bytes);
            let mut short = begin(&store);
            short.put(&table, b"read", &n.to_be_bytes()).unwrap();
            commit(&store, short).unwrap();
            assert_eq!(commit(&store, long).unwrap_err().kind(), ErrorKind::Conflict);
        }
    }
    assert_eq!(store.stats().unwrap().seals, seals);
    assert!(memtable_bytes(&store) < 2 << 20, "{} bytes", memtable_bytes(&store));
}

/// An application that tries again on a full disk does not run out of memory: the open memtable has no records, so no
/// checkpoint would free what the tries left there.
#[test]
fn tries_on_a_full_disk_do_not_fill_an_empty_memtable() {
    let disk = SimDisk::new();
    disk.keep_history(false);
    let store = pando_store::open_or_create(disk.dir(), &options(256 << 20)).unwrap();
    let table = create(&store);
    let put_long = || {
        let mut tx = begin(&store);
        put_all(&mut tx, &table, 8, 60_000);
        commit(&store, tx)
    };
    // The log has room for such a record afterwards, so that only the data file has none.
    (0..5).for_each(|_| put_long().unwrap());
    (0..3).for_each(|_| assert!(store.checkpoint().is_ok()));
    disk.set_capacity(disk.used_bytes());
    let before = memtable_bytes(&store);
    for _ in 0..100 {
        assert_eq!(put_long().unwrap_err().kind(), ErrorKind::Full);
        assert!(!store.checkpoint().unwrap(), "there is nothing to absorb");
    }
    let after = memtable_bytes(&store);
    assert!(after < before + (1 << 20), "{before} -> {after} bytes");
    disk.set_capacity(None);
    put_long().unwrap();
}

/// The first block after a reopening is the checkpoint's note, and the closing block before it cannot be read.
#[test]
fn a_note_that_was_not_written_ends_only_its_checkpoint() {
    let disk = SimDisk::new();
    let store = pando_store::open_or_create(disk.dir(), &options(16 << 20)).unwrap();
    let table = create(&store);
    store.close().unwrap();
    drop(store);
    let store = pando_store::open(disk.dir(), &options(16 << 20)).unwrap();
    let mut checkpoint = store.begin_checkpoint().unwrap().unwrap();
    while checkpoint.next_step() != Step::Note {
        checkpoint.step().unwrap();
    }
    disk.inject(Fault { call: CallKind::Read, nth: 1, sticky: false, error: FaultError::Io });
    assert_eq!(checkpoint.step().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(disk.faults_hit(), 1);
    disk.clear_faults();
    drop(checkpoint);
    let mut tx = begin(&store);
    put_all(&mut tx, &table, 10, 100);
    commit(&store, tx).unwrap();
    assert!(store.checkpoint().unwrap());
    assert_eq!(store.check().unwrap().orphan_units, 0);
    store.close().unwrap();
}
