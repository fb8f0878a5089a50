//! A full disk, and a data file with holes: free units for which the file system has no blocks any more.

use base::seams::Random;
use io::sim::SimDisk;
use pando_store::{Options, Span, Store, Transaction, TransactionOptions, WantedLayout};
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
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// What was committed was given its room, so that a checkpoint absorbs it although most free units are holes that the
/// disk cannot fill.
#[test]
fn a_checkpoint_on_a_full_disk_takes_no_holes() {
    for seed in 0..6 {
        let mut random = Random::seeded(seed);
        let disk = SimDisk::new();
        disk.keep_history(false);
        let store = open(&disk);
        let table = WantedLayout::ALL[seed as usize % 2];
        let mut tx = Transaction::begin(&store, TransactionOptions::default()).unwrap();
        let table = tx.create_table("t", table).unwrap();
        store.acknowledge(tx.apply().unwrap()).unwrap();
        let count = 2_000 + random.below(2_000);
        for from in (0..count).step_by(100) {
            write(&store, |tx| (from..from + 100).try_for_each(|n| tx.put(&table, &key(n), &[1; 900])))
                .unwrap();
        }
        store.checkpoint().unwrap();
        // Most of the file becomes free, and its blocks go back to the file system.
        let end = (u64::MAX / 8 * (5 + random.below(2))).to_be_bytes();
        write(&store, |tx| tx.delete_range(&table, &Span::from(..&end[..]))).unwrap();
        for _ in 0..4 {
            store.checkpoint().unwrap();
        }
        let used = disk.used_bytes();
        // Others fill the disk; what is set aside for the next checkpoint is all that there is.
        for n in 0..300 + random.below(300) {
            write(&store, |tx| tx.put(&table, &key(n), &[2; 900])).unwrap();
        }
        disk.set_capacity(disk.used_bytes());
        let made = (0..3).any(|_| store.checkpoint().is_ok());
        assert!(made, "seed {seed}: no checkpoint of three was made, with {used} bytes used before");
        disk.set_capacity(None);
        store.check().unwrap();
    }
}
