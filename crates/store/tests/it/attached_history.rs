//! What a long transaction is validated against: runs that others attached since it began, also after checkpoints have
//! absorbed them.

use crate::seed::Seed;
use base::{ErrorKind, Result};
use io::MemDir;
use pando_store::{Options, RequestedLayout, Store, Table, Transaction, TransactionOptions};
use std::sync::Arc;
use txn::{Durability, Isolation};

fn options() -> Options {
    Options { memory_bytes: 16 << 20, page_bytes: Some(4096), ..Options::default() }
}

fn open(options: &Options) -> (Arc<Store>, Table) {
    let store = pando_store::open_or_create(Arc::new(MemDir::new()), options).unwrap();
    let mut tx = begin(&store, Isolation::Serializable);
    let table = tx.create_table("t", RequestedLayout::BTree).unwrap();
    commit(&store, tx);
    store.checkpoint().unwrap();
    (store, table)
}

fn begin(store: &Arc<Store>, isolation: Isolation) -> Transaction {
    Transaction::begin(store, TransactionOptions { isolation, durability: Durability::Buffered }).unwrap()
}

fn commit(store: &Store, tx: Transaction) {
    store.acknowledge(tx.apply().unwrap()).unwrap();
}

/// Begins a transaction that reads and writes `key`.
fn begin_long(store: &Arc<Store>, table: &Table, isolation: Isolation, key: &[u8]) -> Transaction {
    let mut long = begin(store, isolation);
    assert!(long.get(table, key).unwrap().is_none());
    long.put(table, key, b"and written").unwrap();
    long
}

/// Makes `rounds` checkpoints, each of a small commit.
fn go_on(store: &Arc<Store>, table: &Table, rounds: u32) {
    for round in 0..rounds {
        let mut tx = begin(store, Isolation::Serializable);
        tx.put(table, &round.to_be_bytes(), &[7; 500]).unwrap();
        commit(store, tx);
        store.checkpoint().unwrap();
    }
}

/// Commits `count` records in attached runs, and `also`.
fn attach(store: &Arc<Store>, table: &Table, count: u32, also: Option<&[u8]>) {
    let mut large = begin(store, Isolation::Serializable);
    for n in 1_000..1_000 + count {
        large.put(table, &n.to_be_bytes(), &[1; 100]).unwrap();
    }
    if let Some(key) = also {
        large.put(table, key, b"first").unwrap();
    }
    large.spill().unwrap();
    commit(store, large);
}

#[test]
fn a_long_transaction_meets_the_conflicts_of_absorbed_runs_and_no_others() {
    let levels = [Isolation::Serializable, Isolation::Snapshot];
    let cases = levels.into_iter().flat_map(|isolation| [(isolation, None), (isolation, Some(&b"read"[..]))]);
    for (seed, (isolation, also)) in (0..).zip(cases) {
        let _seed = Seed(seed);
        let (store, table) = open(&options());
        let long = begin_long(&store, &table, isolation, b"read");
        go_on(&store, &table, 4);
        attach(&store, &table, 100, also);
        go_on(&store, &table, 8);
        let found = long.apply().map(|_applied| ()).map_err(|error| (error.kind(), error.to_string()));
        match also {
            None => assert_eq!(found, Ok(()), "{isolation:?}"),
            Some(_) => assert_eq!(found.unwrap_err().0, ErrorKind::Conflict, "{isolation:?}"),
        }
        store.check().unwrap();
    }
}

#[test]
fn what_a_long_transaction_is_validated_against_revokes_no_feed() -> Result<()> {
    let (store, table) = open(&Options { max_changes_bytes: 1 << 20, ..options() });
    let long = begin_long(&store, &table, Isolation::Serializable, b"read");
    go_on(&store, &table, 4);
    attach(&store, &table, 30_000, None);
    store.checkpoint()?;
    let mut feed = store.feed(None)?;
    go_on(&store, &table, 8);
    assert!(feed.advance()?, "it has its place");
    commit(&store, long);
    Ok(())
}

#[test]
fn what_a_long_transaction_is_validated_against_counts_as_space_that_it_keeps() {
    for (most_bytes, has_room) in [(1 << 20, false), (64 << 20, true)] {
        let (store, table) = open(&Options { max_pinned_space_bytes: Some(most_bytes), ..options() });
        let long = begin_long(&store, &table, Isolation::Serializable, b"read");
        go_on(&store, &table, 4);
        attach(&store, &table, 30_000, None);
        // The younger one begins when they are absorbed, and its view does not have them.
        store.checkpoint().unwrap();
        let young = begin_long(&store, &table, Isolation::Serializable, b"of the younger one");
        go_on(&store, &table, 8);
        let kept_bytes = |is_oldest| {
            let readers = store.readers().unwrap();
            let of = if is_oldest { readers.first() } else { readers.last() };
            of.map_or(0, |reader| reader.space_bytes)
        };
        assert_eq!(store.readers().unwrap().len(), 1 + usize::from(has_room));
        assert!(kept_bytes(false) < 1 << 20, "the younger one began after the runs");
        assert!(!has_room || kept_bytes(true) > 3 << 20);
        match long.apply() {
            Ok(_) => assert!(has_room),
            Err(error) => assert!(!has_room && error.kind() == ErrorKind::SnapshotTooOld, "{error}"),
        }
        commit(&store, young);
    }
}
