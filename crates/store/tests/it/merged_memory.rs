//! The memory of merged memtables: the next ones use it, it is given up where it is needed, and nothing of it is left
//! after the end.

use base::Result;
use base::budget::{Budget, MemoryCategory};
use io::MemDir;
use pando_store::{Options, RequestedLayout, Store, Table, Transaction, TransactionOptions};
use std::sync::Arc;

const RECORDS: u32 = 8_000;
const MIB: usize = 1 << 20;

/// A store whose memtables have up to 128 MiB, with mapped chunks on machines of many processors, too, and what it is
/// charged to.
fn open() -> Result<(Arc<Store>, Table, Arc<Budget>)> {
    let budget = Budget::new(1024 * MIB);
    let options = Options { budget: Some(Arc::clone(&budget)), ..Options::default() };
    let store = pando_store::open_or_create(Arc::new(MemDir::new()), &options)?;
    let mut tx = Transaction::begin(&store, TransactionOptions::default())?;
    let table = tx.create_table("t", RequestedLayout::BTree)?;
    store.acknowledge(tx.apply()?)?;
    Ok((store, table, budget))
}

/// Puts 8 MB into the memtable.
fn put_all(store: &Arc<Store>, table: &Table, round: u8) -> Result<()> {
    for first in (0..RECORDS).step_by(100) {
        let mut tx = Transaction::begin(store, TransactionOptions::default())?;
        for key in first..first + 100 {
            tx.put(table, &key.to_be_bytes(), &[round; 1000])?;
        }
        store.acknowledge(tx.apply()?)?;
    }
    Ok(())
}

/// The bytes of memtables, and of what merged ones left.
fn held(store: &Store) -> (usize, usize) {
    let held = store.memory().held;
    (held.bytes(MemoryCategory::Memtables), held.bytes(MemoryCategory::IdleChunks))
}

#[test]
fn the_next_memtable_uses_it_and_no_writer_owes_for_it() -> Result<()> {
    let (store, table, _budget) = open()?;
    put_all(&store, &table, 1)?;
    store.checkpoint()?;
    let (memtables, idle) = held(&store);
    assert!(memtables < 2 * MIB && idle > 6 * MIB, "{memtables} {idle}");
    assert!(store.pressure().shared_bytes < 2 * MIB, "what is idle is no debt");
    let first = memtables + idle;
    for round in 2..10 {
        put_all(&store, &table, round)?;
        let (memtables, idle) = held(&store);
        assert!(memtables > 8 * MIB && idle < MIB, "{memtables} {idle}");
        assert!(memtables + idle < first + MIB, "{memtables} {idle} after {first}");
        store.checkpoint()?;
    }
    assert_eq!(store.snapshot()?.get(&table, &7_u32.to_be_bytes())?, Some(vec![9; 1000]));
    Ok(())
}

#[test]
fn whatever_needs_memory_gets_it_before_a_page_is_evicted() -> Result<()> {
    let (store, table, budget) = open()?;
    put_all(&store, &table, 1)?;
    store.checkpoint()?;
    let (idle, pages) = (held(&store).1, store.memory().held.bytes(MemoryCategory::Pool));
    let free = budget.limit_bytes() - budget.used_bytes();
    let charge = store.account().charge_making_room(MemoryCategory::WriteSets, free + idle / 2);
    assert!(charge.is_some());
    assert!(held(&store).1 <= idle / 2, "{} of {idle}", held(&store).1);
    assert_eq!(store.memory().held.bytes(MemoryCategory::Pool), pages);
    assert!(budget.used_bytes() <= budget.limit_bytes());
    Ok(())
}

#[test]
fn a_closed_store_has_none_and_gets_none_of_a_snapshot_that_ends_later() -> Result<()> {
    let (store, table, budget) = open()?;
    put_all(&store, &table, 1)?;
    store.checkpoint()?;
    put_all(&store, &table, 2)?;
    let snapshot = store.snapshot()?;
    store.close()?;
    assert_eq!(held(&store).1, 0);
    assert_eq!(snapshot.get(&table, &7_u32.to_be_bytes())?, Some(vec![2; 1000]));
    drop(snapshot);
    assert_eq!(held(&store), (0, 0));
    drop(store);
    assert_eq!(budget.used_bytes(), 0, "{:?}", budget.held());
    Ok(())
}
