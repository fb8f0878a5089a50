//! How a commit's block gets into the log: by a system call if its commit waits for a flush, else a short one by
//! stores into the mapping, where the file system has one. Counted by the kernel, as both leave the same bytes.
#![cfg(target_os = "linux")]

use io::OsDir;
use pando_store::{Options, Transaction, TransactionOptions};
use std::fs;
use std::sync::Arc;
use txn::{Durability, Isolation};

/// Calls of this thread that write.
fn writing_calls() -> u64 {
    let counts = fs::read_to_string("/proc/thread-self/io").unwrap();
    counts.lines().find_map(|line| line.strip_prefix("syscw: ")).unwrap().parse().unwrap()
}

#[test]
fn commits_that_wait_for_a_flush_are_written_by_a_call() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { page_bytes: Some(4096), memory_bytes: 4 << 20, ..Options::default() };
    let store = pando_store::open_or_create(Arc::new(OsDir::open(dir.path()).unwrap()), &options).unwrap();
    let calls = |durability| {
        let options = TransactionOptions { isolation: Isolation::Serializable, durability };
        let mut tx = Transaction::begin(&store, options).unwrap();
        tx.create_table(&format!("{durability:?}"), pando_store::RequestedLayout::BTree).unwrap();
        let before = writing_calls();
        let applied = tx.apply().unwrap();
        store.acknowledge(applied).unwrap();
        writing_calls() - before
    };
    // The first commit writes the closing block again, too.
    calls(Durability::Lazy);
    assert_eq!(calls(Durability::Sync), 1);
    assert!(calls(Durability::Buffered) <= 1, "none where the log is mapped");
}
