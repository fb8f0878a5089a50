//! Memory that is short: what has all of it does not look like a full disk, and savepoints do not make it worse.

use base::{ErrorKind, Result, Span};
use io::{Dir, MemDir};
use pando_store::{Options, RequestedLayout, Store, Transaction, TransactionOptions};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn open(memory_bytes: usize) -> Result<Arc<Store>> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let options = Options { page_bytes: Some(4096), memory_bytes, ..Options::default() };
    pando_store::open_or_create(dir, &options)
}

fn begin(store: &Arc<Store>) -> Result<Transaction> {
    Transaction::begin(store, TransactionOptions::default())
}

fn commit(store: &Arc<Store>, tx: Transaction) -> Result<()> {
    store.acknowledge(tx.apply()?).map(drop)
}

/// Of savepoints that are never released, not each makes a run of its own, and each can be gone back to.
#[test]
fn savepoints_that_are_kept_spill_many_writes_at_once() -> Result<()> {
    const PUTS: u32 = 6_000;
    let store = open(4 << 20)?;
    let mut tx = begin(&store)?;
    let table = tx.create_table("t", RequestedLayout::BTree)?;
    let mut middle = None;
    for put in 0..PUTS {
        let savepoint = tx.savepoint();
        if put == PUTS / 2 {
            middle = Some(savepoint);
        }
        tx.put(&table, &put.to_be_bytes(), &[1; 50])?;
    }
    // A page for each put would be 24 MB.
    let file_bytes = store.stats()?.data_file_bytes;
    assert!(file_bytes < 4 << 20, "{file_bytes} bytes");
    tx.rollback_to(&middle.expect("there were that many"))?;
    commit(&store, tx)?;
    let snapshot = store.snapshot()?;
    let mut cursor = snapshot.cursor(&table, Span::all())?;
    for put in 0..PUTS / 2 {
        assert_eq!(cursor.next()?, Some((&put.to_be_bytes()[..], &[1; 50][..])));
    }
    assert_eq!(cursor.next()?, None);
    Ok(())
}

/// Cursors hold all pages of the cache. A checkpoint that finds none does not take the disk for a full one, on which
/// nothing is spilled.
#[test]
fn a_cache_without_a_free_page_is_no_full_disk() -> Result<()> {
    let store = open(1 << 20)?;
    let mut tx = begin(&store)?;
    let table = tx.create_table("t", RequestedLayout::BTree)?;
    (0..8_000_u32).try_for_each(|key| tx.put(&table, &key.to_be_bytes(), &[2; 500]))?;
    commit(&store, tx)?;
    while store.checkpoint()? {}
    let snapshot = store.snapshot()?;
    let mut cursors = Vec::new();
    let full = loop {
        let key = (cursors.len() as u32 * 7).to_be_bytes();
        let mut cursor = snapshot.cursor(&table, Span::from(&key[..]..))?;
        match cursor.next().map(|record| assert!(record.is_some())) {
            Ok(()) => cursors.push(cursor),
            Err(full) => break full,
        }
    };
    assert!(full.kind() == ErrorKind::Full && full.message().contains("no free page"), "{full}");
    let mut tx = begin(&store)?;
    (0..8_000_u32).step_by(90).try_for_each(|key| tx.put(&table, &key.to_be_bytes(), &[3; 500]))?;
    commit(&store, tx)?;
    store.seal_early();
    let failed = store.checkpoint().expect_err("it has to read pages");
    assert!(failed.kind() == ErrorKind::Full && store.lacked_pages(&failed), "{failed}");
    assert_eq!(store.fallback_level(), 0, "the disk is not full");
    drop(cursors);
    assert!(store.checkpoint()?);
    let mut tx = begin(&store)?;
    (0..8_000_u32).try_for_each(|key| tx.put(&table, &key.to_be_bytes(), &[4; 500]))?;
    tx.spill()?;
    commit(&store, tx)
}

/// Savepoints that hold most of the memory are refused by name, and soon: not each of them waits for pages in vain.
#[test]
fn savepoints_beyond_the_memory_are_refused_without_waits() -> Result<()> {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = pando_store::open_or_create(dir, &Options { memory_bytes: 4 << 20, ..Options::default() })?;
    let mut tx = begin(&store)?;
    let table = tx.create_table("t", RequestedLayout::BTree)?;
    let begun = Instant::now();
    let mut put = 0_u32;
    let full = loop {
        let _kept = tx.savepoint();
        match tx.put(&table, &put.wrapping_mul(2_654_435_769).to_be_bytes(), &[1; 100]) {
            Ok(()) => put += 1,
            Err(full) => break full,
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{put} puts took {:?}", begun.elapsed());
    };
    assert!(full.kind() == ErrorKind::Full && full.message().contains("savepoints"), "{full}");
    assert!(put > 4_000, "{put}");
    commit(&store, tx)?;
    assert_eq!(store.snapshot()?.approximate_len(&table)?, u64::from(put));
    Ok(())
}
