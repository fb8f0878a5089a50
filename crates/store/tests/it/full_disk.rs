//! A full disk, and a data file with holes: free units for which the file system has no blocks any more.

use crate::seed::Seed;
use base::ErrorKind;
use base::env::Random;
use io::sim::SimDisk;
use pando_store::{Options, RequestedLayout, Span, Store, Transaction, TransactionOptions};
use std::sync::Arc;

fn open(disk: &SimDisk) -> Arc<Store> {
    let options = Options { memory_bytes: 16 << 20, page_bytes: Some(4096), ..Options::default() };
    pando_store::open_or_create(disk.dir(), &options).unwrap()
}

fn write(store: &Arc<Store>, write: impl FnOnce(&mut Transaction) -> base::Result<()>) -> base::Result<()> {
    let mut tx = Transaction::begin(store, TransactionOptions::default())?;
    write(&mut tx)?;
    store.acknowledge(tx.apply()?).map(drop)
}

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// What is committed on a full disk was given its room: a checkpoint absorbs it, although most free units are holes
/// that the disk cannot fill.
#[test]
fn a_checkpoint_on_a_full_disk_absorbs_what_was_committed() {
    for seed in 0..6 {
        let mut random = Random::seeded(seed);
        let disk = SimDisk::new();
        disk.keep_history(false);
        let store = open(&disk);
        let mut tx = Transaction::begin(&store, TransactionOptions::default()).unwrap();
        let table = tx.create_table("t", RequestedLayout::ALL[seed as usize % 2]).unwrap();
        store.acknowledge(tx.apply().unwrap()).unwrap();
        let count = 2_000 + random.below(2_000);
        for from in (0..count).step_by(100) {
            write(&store, |tx| (from..from + 100).try_for_each(|n| tx.put(&table, &key(n), &[1; 900])))
                .unwrap();
        }
        let delete_and_absorb = |from: u64, to: u64| {
            write(&store, |tx| tx.delete_range(&table, &Span::from(&key(from)[..]..&key(to)[..]))).unwrap();
            for _ in 0..3 {
                store.checkpoint().unwrap();
            }
        };
        // The middle of the file goes back to the file system. What becomes free after that is too little for it.
        delete_and_absorb(count / 10, count / 10 * 7);
        delete_and_absorb(count / 10 * 8, count / 10 * 8 + 200 + random.below(100));
        let disk = disk.after_kill();
        drop(store);
        disk.keep_history(false);
        disk.set_capacity(disk.used_bytes());
        let store = open(&disk);
        let mut deleted = 0;
        for n in (0..count / 10).chain(count / 10 * 7..count).step_by(3) {
            match write(&store, |tx| tx.delete(&table, &key(n))) {
                Ok(()) => deleted += 1,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Full, "seed {seed}: {error}");
                    break;
                }
            }
        }
        assert!(deleted > 0, "seed {seed}: nothing can be deleted on a full disk");
        let is_made = (0..3).any(|_| store.checkpoint().is_ok());
        assert!(is_made, "seed {seed}: no checkpoint of three was made after {deleted} deletes");
        disk.set_capacity(None);
        store.check().unwrap();
    }
}

/// A spill for which the disk has too little room loses no write, whichever part of it fails: the first run, the last
/// one, or the merge of a table that has many runs.
#[test]
fn a_spill_that_fails_loses_no_write() {
    let mut failed = 0;
    for seed in 0..36 {
        let _seed = Seed(seed);
        let disk = SimDisk::new();
        disk.keep_history(false);
        let store = open(&disk);
        let mut tx = Transaction::begin(&store, TransactionOptions::default()).unwrap();
        let first = tx.create_table("first", RequestedLayout::BTree).unwrap();
        let last = tx.create_table("last", RequestedLayout::BTree).unwrap();
        store.acknowledge(tx.apply().unwrap()).unwrap();
        let mut tx = Transaction::begin(&store, TransactionOptions::default()).unwrap();
        let keys = |round: u64| (0..100).map(move |n| key(n * 16 + round));
        let put = |tx: &mut Transaction, round: u64| {
            keys(round).try_for_each(|key| tx.put(&first, &key, &[round as u8; 900])).unwrap();
            keys(round).try_for_each(|key| tx.put(&last, &key, &[round as u8; 100])).unwrap();
        };
        // The first table gets one run after another, and is due to be merged; the other table has none.
        for round in 0..7 {
            keys(round).try_for_each(|key| tx.put(&first, &key, &[round as u8; 900])).unwrap();
            tx.spill().unwrap();
        }
        disk.set_capacity(disk.used_bytes() + (seed / 2) * (64 << 10));
        for round in 7..9 {
            put(&mut tx, round);
            if seed % 2 == 0 {
                failed += u32::from(tx.spill().is_err());
            } else {
                // It spills what is in memory if that is much, and keeps the error to itself.
                let _savepoint = tx.savepoint();
            }
            for key in keys(round) {
                assert!(tx.get(&first, &key).unwrap().is_some_and(|value| value.len() == 900));
                assert!(tx.get(&last, &key).unwrap().is_some_and(|value| value.len() == 100));
            }
        }
        disk.set_capacity(None);
        store.acknowledge(tx.apply().unwrap()).unwrap();
        let snapshot = store.snapshot().unwrap();
        let has_all = |table, mut keys: Box<dyn Iterator<Item = [u8; 8]>>| {
            keys.all(|key| snapshot.get(table, &key).unwrap().is_some())
        };
        assert!(has_all(&first, Box::new((0..9).flat_map(keys))));
        assert!(has_all(&last, Box::new((7..9).flat_map(keys))));
    }
    assert!(failed > 5, "{failed} spills failed");
}
