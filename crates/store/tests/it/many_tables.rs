//! A thousand tables, most of them idle, in both layouts: what is done to a few costs what it costs among ten. That is
//! counted, not timed: calls and bytes that reach the disk. And transactions that use thousands of tables.

use io::Dir;
use io::sim::{CallKind, SimDisk};
use pando_store::{Options, RequestedLayout, Store, Transaction, TransactionOptions};
use std::sync::Arc;
use std::time::{Duration, Instant};
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
    open_with(disk, 4 << 20)
}

fn open_with(disk: &SimDisk, memory_bytes: usize) -> Arc<Store> {
    let dir: Arc<dyn Dir> = disk.dir();
    let options = Options { page_bytes: Some(4096), memory_bytes, ..Options::default() };
    pando_store::open_or_create(dir, &options).unwrap()
}

const OPTIONS: TransactionOptions =
    TransactionOptions { isolation: Isolation::Serializable, durability: Durability::Buffered };

fn write(store: &Arc<Store>, work: impl FnOnce(&mut Transaction)) {
    let mut tx = Transaction::begin(store, OPTIONS).unwrap();
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

/// The time of a read and a write in a transaction that made `tables` and goes over them by turns.
fn time_among(tables: usize) -> Duration {
    const OPERATIONS: usize = 32_000;
    let options = Options { memory_bytes: 256 << 20, ..Options::default() };
    let store = pando_store::open_or_create(Arc::new(io::MemDir::new()), &options).unwrap();
    let mut time = Duration::ZERO;
    write(&store, |tx| {
        let handles: Vec<_> = (0..tables as u32)
            .map(|at| tx.create_table(&name(at), RequestedLayout::ALL[0]).unwrap())
            .collect();
        let began = Instant::now();
        for at in 0..OPERATIONS {
            let (table, key) = (&handles[at % tables], at.to_be_bytes());
            assert!(tx.get(table, &key).unwrap().is_none());
            tx.put(table, &key, b"value").unwrap();
        }
        time = began.elapsed();
    });
    time / OPERATIONS as u32
}

#[test]
fn a_transaction_finds_each_of_thousands_of_tables_soon() {
    let (few, many) = (time_among(16), time_among(8000));
    // It was 200 times as long while the tables were searched one by one, or counted at each write.
    assert!(many < few * 12 + Duration::from_micros(2), "among 16: {few:?}, among 8,000: {many:?}");
}

#[test]
fn a_transaction_keeps_many_tables_apart() {
    const TABLES: u32 = 60;
    let store = open(&SimDisk::new());
    let value = |table: u32, key: u8| vec![table as u8, key];
    let table = |tx: &Transaction, at: u32| tx.table(&name(at)).unwrap().unwrap();
    write(&store, |tx| {
        for at in 0..TABLES {
            let table = tx.create_table(&name(at), RequestedLayout::ALL[at as usize % 2]).unwrap();
            tx.put(&table, b"a", &value(at, b'a')).unwrap();
        }
        let savepoint = tx.savepoint();
        let undone = tx.create_table("undone", RequestedLayout::ALL[0]).unwrap();
        tx.put(&undone, b"a", b"").unwrap();
        tx.rollback_to(&savepoint).unwrap();
        assert!(tx.get(&undone, b"a").is_err() && tx.table("undone").unwrap().is_none());
        for at in (0..TABLES).rev() {
            assert_eq!(tx.get(&table(tx, at), b"a").unwrap(), Some(value(at, b'a')), "{at}");
        }
    });
    write(&store, |tx| {
        // Handles from before and after a change of the name are of one table.
        let old: Vec<_> = (0..TABLES).map(|at| table(tx, at)).collect();
        for at in 0..TABLES {
            tx.put(&old[at as usize], b"b", &value(at, b'b')).unwrap();
        }
        let new = tx.rename_table(&old[7], "renamed").unwrap();
        assert_eq!(tx.get(&new, b"b").unwrap(), Some(value(7, b'b')));
        assert!(tx.table(&name(7)).unwrap().is_none());
        for at in 0..TABLES {
            let found = if at == 7 { new.clone() } else { table(tx, at) };
            assert_eq!(tx.get(&found, b"a").unwrap(), Some(value(at, b'a')), "{at}");
            assert_eq!(tx.get(&found, b"b").unwrap(), Some(value(at, b'b')), "{at}");
        }
        tx.rename_table(&new, &name(7)).unwrap();
    });
    for changed in [0, 31, TABLES - 1] {
        // All are read and written; another transaction changes one of them.
        let mut tx = Transaction::begin(&store, OPTIONS).unwrap();
        for at in 0..TABLES {
            let table = table(&tx, at);
            tx.get(&table, b"read").unwrap();
            tx.put(&table, b"c", b"").unwrap();
        }
        write(&store, |other| {
            let table = table(other, changed);
            other.put(&table, b"read", b"").unwrap();
        });
        let error = tx.apply().map(drop).unwrap_err();
        assert_eq!(error.kind(), base::ErrorKind::Conflict);
        assert!(error.to_string().contains(&name(changed)), "{changed}: {error}");
    }
}

/// All of many tables but the first and the last one are dropped in one transaction, and leave the list in one
/// checkpoint.
#[test]
fn many_tables_are_dropped_in_one_checkpoint() {
    const TABLES: u32 = 3_000;
    // A spilled transaction keeps some 300 bytes in memory for each table that it writes to.
    let store = open_with(&SimDisk::new(), 8 << 20);
    write(&store, |tx| {
        for at in 0..TABLES {
            let table = tx.create_table(&name(at), RequestedLayout::ALL[at as usize % 2]).unwrap();
            tx.put(&table, b"key", b"value").unwrap();
        }
    });
    store.checkpoint().unwrap();
    write(&store, |tx| {
        for at in 1..TABLES - 1 {
            let table = tx.table(&name(at)).unwrap().unwrap();
            tx.drop_table(&table).unwrap();
            assert!(tx.put(&table, b"key", b"value").is_err(), "{at} was dropped");
        }
    });
    store.checkpoint().unwrap();
    assert_eq!(store.check().unwrap().tables, 3, "the catalog, the first and the last one");
}
