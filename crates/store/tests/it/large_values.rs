//! Values that are in the data file before their commit: what is replaced or deleted of them is used again.

use base::env::Random;
use io::MemDir;
use pando_store::{Options, RequestedLayout, Store, Transaction, TransactionOptions};
use std::sync::Arc;

fn write(store: &Arc<Store>, write: impl FnOnce(&mut Transaction)) {
    let mut tx = Transaction::begin(store, TransactionOptions::default()).unwrap();
    write(&mut tx);
    store.acknowledge(tx.apply().unwrap()).unwrap();
    // As the thread for checkpoints does it.
    while let Some(checkpoint) = store.begin_pending_checkpoint().unwrap() {
        checkpoint.finish().unwrap();
    }
}

/// In memory and in the log there are references alone, so that neither asks for a checkpoint.
#[test]
fn replaced_and_deleted_values_ask_for_a_checkpoint() {
    let options = Options { page_bytes: Some(4096), memory_bytes: 4 << 20, ..Options::default() };
    let store = pando_store::open_or_create(Arc::new(MemDir::new()), &options).unwrap();
    let mut table = None;
    write(&store, |tx| table = Some(tx.create_table("t", RequestedLayout::BTree).unwrap()));
    let table = table.unwrap();
    let (mut random, mut written) = (Random::seeded(1), 0);
    while written < 500 << 20 {
        let length = (1 << 20) + random.below(1 << 20) as usize;
        written += length;
        write(&store, |tx| tx.put(&table, b"key", &vec![written as u8; length]).unwrap());
        if random.chance(1, 3) {
            write(&store, |tx| tx.delete(&table, b"key").unwrap());
        }
    }
    let stats = store.stats().unwrap();
    assert!(stats.checkpoints > 20, "{}", stats.checkpoints);
    assert!(stats.data_file_bytes < 64 << 20, "{} MiB", stats.data_file_bytes >> 20);
}
