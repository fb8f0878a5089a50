//! What an open reader keeps, by kind: what it sees, and nothing of what came and went since. The data file beside it
//! stays small, whatever is written.

use crate::support::small;
use pando::{Compression, Database, Durability, Layout, Result, Snapshot, Table, TableOptions};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;
/// What readers may keep.
const PINNED_BYTES: u64 = 8 * MIB;

fn database() -> Database {
    small()
        .memory_bytes(4 << 20)
        .durability(Durability::Buffered)
        .max_pinned_space_bytes(PINNED_BYTES)
        .in_memory()
        .unwrap()
}

/// Lets a cursor stand on a table that nobody writes, while `round` is done again and again.
fn beside_a_cursor(
    what: &str,
    options: &TableOptions,
    rounds: u32,
    round: impl Fn(&Database, &Table, u32) -> Result<()>,
) {
    let db = database();
    let quiet = db.ensure_table("quiet").unwrap();
    db.put(&quiet, b"a", b"1").unwrap();
    let busy = db.create_table("busy", options).unwrap();
    (0..2).for_each(|number| round(&db, &busy, number).unwrap());
    db.checkpoint().unwrap();
    let snapshot = db.snapshot().unwrap();
    let seen = contents(&snapshot, &busy);
    let mut cursor = snapshot.cursor(&quiet, ..).unwrap();
    cursor.next().unwrap();
    let mut most_retired = 0;
    for number in 2..rounds {
        round(&db, &busy, number).unwrap();
        db.checkpoint().unwrap();
        most_retired = most_retired.max(db.stats().unwrap().data_retired_bytes);
    }
    let stats = db.stats().unwrap();
    assert_eq!(stats.expired_readers, 0, "{what}: the reader keeps less than it may");
    assert!(most_retired < PINNED_BYTES, "{what}: {most_retired} bytes wait for the cursor");
    assert!(stats.data_file_bytes < 24 * MIB, "{what}: the file has {} bytes", stats.data_file_bytes);
    drop(cursor);
    assert!(contents(&snapshot, &busy) == seen, "{what}: the snapshot sees what it saw");
    db.check().unwrap();
}

fn contents(snapshot: &Snapshot, table: &Table) -> BTreeMap<Vec<u8>, usize> {
    let record = |record: Result<(Vec<u8>, Vec<u8>)>| {
        record.map(|(key, value)| (key, value.len() + usize::from(value[0])))
    };
    snapshot.range(table, ..).unwrap().map(|r| record(r).unwrap()).collect()
}

/// A MiB of records, each key again with each round.
fn overwrite(db: &Database, table: &Table, round: u32) -> Result<()> {
    let key = |n: u32| n.wrapping_mul(2_654_435_761).to_be_bytes();
    db.write(|tx| (0..2000_u32).try_for_each(|n| tx.put(table, &key(n), &[round as u8; 500])))
}

#[test]
fn records_that_are_replaced() {
    beside_a_cursor("a B+tree", &TableOptions::with_layout(Layout::BTree), 30, overwrite);
    beside_a_cursor("an LSM table", &TableOptions::with_layout(Layout::Lsm), 30, overwrite);
    let compressed = TableOptions::with_layout(Layout::Lsm).compression(Compression::Lz4);
    beside_a_cursor("a compressed LSM table", &compressed, 30, overwrite);
}

#[test]
fn ranges_that_are_deleted_unread() {
    for layout in [Layout::BTree, Layout::Lsm] {
        beside_a_cursor("range deletes", &TableOptions::with_layout(layout), 30, |db, table, round| {
            db.write(|tx| tx.delete_range(table, ..))?;
            overwrite(db, table, round)
        });
    }
}

#[test]
fn large_values() {
    for layout in [Layout::BTree, Layout::Lsm] {
        beside_a_cursor("large values", &TableOptions::with_layout(layout), 20, |db, table, round| {
            db.put(table, b"large", &vec![round as u8; 2 << 20]).map(drop)
        });
    }
}

#[test]
fn spilled_writes_and_dropped_tables() {
    beside_a_cursor("spilled writes", &TableOptions::with_layout(Layout::BTree), 12, |db, table, round| {
        let key = |n: u32| n.to_be_bytes();
        db.write(|tx| (0..6000_u32).try_for_each(|n| tx.put(table, &key(n), &[round as u8; 400])))
    });
    beside_a_cursor("dropped tables", &TableOptions::with_layout(Layout::BTree), 20, |db, table, round| {
        let other = db.create_table("other", &TableOptions::with_layout(Layout::Lsm))?;
        overwrite(db, &other, round)?;
        db.checkpoint()?;
        db.write(|tx| tx.drop_table(&other))?;
        db.put(table, b"k", &[round as u8]).map(drop)
    });
}
