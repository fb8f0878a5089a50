//! A full disk has a way out: deletes are taken, and what they free is written to again, without help from outside.

use io::sim::SimDisk;
use pando::{Database, ErrorKind, Layout, Result, Table, TableOptions};
use std::thread;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// A disk of so many bytes, a database on it, and a table.
fn small(disk: &SimDisk, bytes: u64, layout: Layout) -> (Database, Table) {
    disk.keep_history(false);
    disk.set_capacity(bytes);
    let db = open(disk);
    let table = db.create_table("t", &TableOptions::with_layout(layout)).unwrap();
    (db, table)
}

fn open(disk: &SimDisk) -> Database {
    Database::builder().memory_bytes(4 << 20).page_bytes(4096).create_in(disk.dir()).unwrap()
}

/// Puts records until none is taken any more. Returns how many were.
fn fill(db: &Database, table: &Table, key: impl Fn(u64) -> u64, value_bytes: usize) -> u64 {
    let (mut taken, mut at, mut refused) = (0, 0, 0);
    while refused < 8 {
        match db.put(table, &key(at).to_be_bytes(), &vec![at as u8; value_bytes]) {
            Ok(_) => (taken, refused) = (taken + 1, 0),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full, "{error}");
                refused += 1;
                // What was replaced is free only when the transaction that was refused has ended.
                thread::sleep(Duration::from_millis(100));
            }
        }
        at += 1;
        assert!(at < 2_000_000, "the disk never got full");
    }
    taken
}

/// Whether puts are taken again within a few seconds, of as many bytes as `bytes`.
fn takes_puts(db: &Database, table: &Table, bytes: u64, what: &str) {
    let begun = Instant::now();
    let mut written = 0;
    while written < bytes {
        match db.put(table, &(u64::MAX - written).to_be_bytes(), &[7; 1000]) {
            Ok(_) => written += 1000,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full, "{error}");
                assert!(
                    begun.elapsed() < Duration::from_secs(20),
                    "{what}: {written} of {bytes} bytes: {error}"
                );
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
    assert!(db.short_of_room().is_none() || begun.elapsed() < Duration::from_secs(20));
}

fn waits_for(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(10), "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Half of the keys in one range.
fn delete_half(db: &Database, table: &Table) -> Result<()> {
    db.write(|tx| tx.delete_range(table, ..&(u64::MAX / 2).to_be_bytes()[..]))
}

fn scattered(at: u64) -> u64 {
    at.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[test]
fn what_was_deleted_is_written_to_again() {
    for seed in 0..4 {
        let (layout, value_bytes) = (Layout::ALL[seed as usize % 2], if seed < 2 { 20_000 } else { 100 });
        let disk = SimDisk::new();
        let (db, table) = small(&disk, 8 * MIB, layout);
        let taken = fill(&db, &table, |at| scattered(at + (seed << 32)), value_bytes);
        assert!(taken * value_bytes as u64 > 2 * MIB, "seed {seed}: {taken} records of {value_bytes} bytes");
        waits_for("not short", || db.short_of_room().is_some());
        delete_half(&db, &table).unwrap();
        takes_puts(&db, &table, MIB / 4, &format!("seed {seed}"));
        waits_for("still short", || db.short_of_room().is_none());
        db.check().unwrap();
        db.close().unwrap();
    }
}

#[test]
fn a_full_disk_is_opened_and_emptied() {
    for is_killed in [false, true] {
        let disk = SimDisk::new();
        let (db, table) = small(&disk, 8 * MIB, Layout::BTree);
        fill(&db, &table, scattered, 1000);
        let disk = if is_killed {
            let killed = disk.after_kill();
            killed.keep_history(false);
            drop(db);
            killed
        } else {
            db.close().unwrap();
            disk
        };
        // What the process gave back, somebody else has taken.
        disk.set_capacity(disk.used_bytes());
        let db = open(&disk);
        let table = db.ensure_table("t").unwrap();
        delete_half(&db, &table).unwrap();
        takes_puts(&db, &table, MIB / 4, &format!("killed: {is_killed}"));
        db.check().unwrap();
        db.close().unwrap();
    }
}

#[test]
fn somebody_elses_file_fills_the_disk() {
    let disk = SimDisk::new();
    let (db, table) = small(&disk, 64 * MIB, Layout::BTree);
    let key = |at: u64| scattered(at).to_be_bytes();
    let put =
        |from: u64, to: u64| db.write(|tx| (from..to).try_for_each(|at| tx.put(&table, &key(at), &[1; 500])));
    for round in 0..8 {
        put(round * 500, (round + 1) * 500).unwrap();
    }
    // Updates all over the table, of which no checkpoint knows yet.
    put(0, 800).unwrap();
    disk.set_capacity(disk.used_bytes());
    for at in 0..1000 {
        db.delete(&table, &key(at)).unwrap();
    }
    db.checkpoint().unwrap();
    db.write(|tx| tx.drop_table(&table)).unwrap();
    let table = loop {
        match db.ensure_table("u") {
            Ok(table) => break table,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Full, "{error}"),
        }
    };
    takes_puts(&db, &table, MIB / 2, "beside another file");
    db.compact(|_| {}).unwrap();
    db.check().unwrap();
}

#[test]
fn large_values_leave_the_reserve() {
    let disk = SimDisk::new();
    let (db, table) = small(&disk, 24 * MIB, Layout::BTree);
    let taken = fill(&db, &table, |at| at, 2 << 20);
    assert!(taken >= 4, "{taken} values of 2 MiB");
    for at in 0..taken {
        assert!(db.delete(&table, &at.to_be_bytes()).is_ok(), "value {at}");
    }
    let put = || db.put(&table, b"again", &vec![1; 2 << 20]);
    waits_for("a large value again", || put().inspect_err(|error| println!("{error}")).is_ok());
    db.check().unwrap();
}
