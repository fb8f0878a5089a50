//! A full disk, and a data file with holes: free units for which the file system has no blocks any more.

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
