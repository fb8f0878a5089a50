//! The clocks under every interleaving. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p pando-db-txn --test it`.
#![cfg(loom)]

use base::CommitTs;
use base::sync::Arc;
use base::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use pando_txn::Clocks;

/// A thread that sees a timestamp sees the write it stands for, and `visible` never passes `applied`.
#[test]
fn a_visible_commit_has_been_applied() {
    loom::model(|| {
        let clocks = Arc::new(Clocks::new(CommitTs(0)));
        let memtable = Arc::new(AtomicU64::new(0));
        let committer = {
            let (clocks, memtable) = (clocks.clone(), memtable.clone());
            thread::spawn(move || {
                for ts in 1..=2 {
                    memtable.store(ts, Ordering::Relaxed);
                    clocks.advance_applied(CommitTs(ts));
                    clocks.publish(CommitTs(ts));
                }
            })
        };
        let shown = clocks.visible();
        assert!(memtable.load(Ordering::Relaxed) >= shown.0);
        assert!(clocks.applied() >= shown);
        committer.join().unwrap();
    });
}

/// Two committers that finish their flushes in any order leave the newer timestamp.
#[test]
fn publication_is_monotone() {
    loom::model(|| {
        let clocks = Arc::new(Clocks::new(CommitTs(0)));
        clocks.advance_applied(CommitTs(2));
        let publishers: Vec<_> = [1, 2]
            .into_iter()
            .map(|ts| {
                let clocks = clocks.clone();
                thread::spawn(move || clocks.publish(CommitTs(ts)))
            })
            .collect();
        let (first, second) = (clocks.visible(), clocks.visible());
        assert!(first <= second);
        publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
        assert_eq!(clocks.visible(), CommitTs(2));
    });
}
