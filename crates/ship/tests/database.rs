//! Databases shipped to a folder and restored from it.

use pando::{Database, ErrorKind};
use pando_ship::{Bucket, Goal, Options, Shipper, restore};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

fn contents(db: &Database) -> Contents {
    let snapshot = db.snapshot().unwrap();
    let tables = snapshot.tables().unwrap();
    let records = |table: &pando::Table| snapshot.range(table, ..).unwrap().map(Result::unwrap).collect();
    tables.iter().map(|table| (table.name().to_owned(), records(table))).collect()
}

fn sync() -> Options {
    Options { sync: true, ..Options::default() }
}

fn bucket(folder: &TempDir) -> Bucket {
    Bucket::connect(folder.path().to_str().unwrap()).unwrap()
}

fn restored(folder: &TempDir, goal: Goal, dir: &Path) -> Contents {
    restore(&bucket(folder), goal, dir, &mut |_| {}).unwrap();
    let db = Database::open(dir).unwrap();
    let found = contents(&db);
    db.close().unwrap();
    found
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// A little of everything that a commit can do. Returns its number.
fn change(db: &Database, n: u64) -> u64 {
    let name = format!("table-{}", n % 5);
    match n % 11 {
        3 => db.drop_table(&name).map(drop).unwrap_or_default(),
        5 => {
            let table = db.ensure_table(&name).unwrap();
            let records = (0..2_000u32).map(|k| Ok((k.to_be_bytes(), n.to_le_bytes())));
            db.bulk_load(&table, records).unwrap();
        }
        7 => {
            let table = db.ensure_table(&name).unwrap();
            db.put(&table, b"long", vec![n as u8; 6 << 20]).unwrap();
        }
        8 => db.checkpoint().unwrap(),
        _ => {
            let table = db.ensure_table(&name).unwrap();
            let write = |tx: &mut pando::Transaction| {
                tx.delete_range(&table, b"key-5".to_vec()..b"key-6".to_vec())?;
                (0..20).try_for_each(|k| tx.put(&table, format!("key-{}", n * k % 97), n.to_le_bytes()))
            };
            db.write(write).unwrap();
        }
    }
    db.snapshot().unwrap().commit_number()
}

#[test]
fn restores_equal_what_the_database_was() {
    let (dir, folder, copies) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let home = dir.path().join("db");
    let db = Database::create(&home).unwrap();
    let shipper = Shipper::start(&db, &home, bucket(&folder), sync()).unwrap();
    shipper.wait(0).unwrap();
    let mut states = Vec::new();
    for n in 1..=60 {
        let commit = change(&db, n);
        shipper.wait(commit).unwrap();
        std::thread::sleep(Duration::from_millis(2));
        states.push((commit, now_ms(), contents(&db)));
        std::thread::sleep(Duration::from_millis(2));
    }
    shipper.stop().unwrap();
    db.close().unwrap();
    let first = bucket(&folder).listing().unwrap().bases[0];
    let mut compared = 0;
    for (n, (commit, time_ms, expected)) in
        states.iter().enumerate().filter(|(_, s)| s.0 >= first.commit).step_by(3)
    {
        let by_commit = restored(&folder, Goal::Commit(*commit), &copies.path().join(format!("c{n}")));
        assert!(by_commit == *expected, "commit {commit}");
        let by_time = restored(&folder, Goal::Time(*time_ms), &copies.path().join(format!("t{n}")));
        assert!(by_time == *expected, "time {time_ms}");
        compared += 1;
    }
    assert!(compared >= 18, "{compared}");
    let last = &states.last().unwrap().2;
    assert!(restored(&folder, Goal::Newest, &copies.path().join("newest")) == *last);
    let error =
        restore(&bucket(&folder), Goal::Newest, copies.path().join("newest"), &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
}

#[test]
fn databases_take_over_from_one_another() {
    let (dir, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut home = dir.path().join("db-0");
    let mut db = Database::create(&home).unwrap();
    let mut shipper = Shipper::start(&db, &home, bucket(&folder), sync()).unwrap();
    let mut n = 0;
    for round in 1..=4 {
        for _ in 0..12 {
            n += 1;
            shipper.wait(change(&db, n)).unwrap();
        }
        let next = dir.path().join(format!("db-{round}"));
        restore(&bucket(&folder), Goal::Newest, &next, &mut |_| {}).unwrap();
        let successor = Database::open(&next).unwrap();
        assert!(contents(&successor) == contents(&db), "round {round}");
        let options = Options { keep_bases: 1, keep_for: Duration::ZERO, ..sync() };
        let taken = Shipper::start(&successor, &next, bucket(&folder), options).unwrap();
        n += 1;
        taken.wait(change(&successor, n)).unwrap();
        // The old one finds out, and what it commits now was never acknowledged.
        let commit = change(&db, 1);
        assert_eq!(shipper.wait(commit).unwrap_err().kind(), ErrorKind::Fenced);
        drop(shipper);
        db.close().unwrap();
        // It is refused when it comes back.
        let old = Database::open(&home).unwrap();
        let back = Shipper::start(&old, &home, bucket(&folder), sync()).unwrap();
        assert_eq!(back.stop().unwrap_err().kind(), ErrorKind::Mismatch);
        old.close().unwrap();
        (db, home, shipper) = (successor, next, taken);
    }
    // A base of a database that was itself restored, and changes after it.
    shipper.stop().unwrap();
    db.checkpoint().unwrap();
    let shipper = Shipper::start(&db, &home, bucket(&folder), sync()).unwrap();
    n += 1;
    shipper.wait(change(&db, n)).unwrap();
    shipper.stop().unwrap();
    assert!(restored(&folder, Goal::Newest, &dir.path().join("last")) == contents(&db));
    db.close().unwrap();
}

#[test]
fn a_restore_that_fails_leaves_nothing() {
    let (dir, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let home = dir.path().join("db");
    let db = Database::create(&home).unwrap();
    let shipper = Shipper::start(&db, &home, bucket(&folder), sync()).unwrap();
    (1..=7).for_each(|n| shipper.wait(change(&db, n)).unwrap());
    shipper.stop().unwrap();
    let log = folder.path().join("log");
    let mut segments: Vec<_> = std::fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    let damaged = segments.last().unwrap();
    let mut bytes = std::fs::read(damaged).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(damaged, bytes).unwrap();
    let target = dir.path().join("copy");
    let error = restore(&bucket(&folder), Goal::Newest, &target, &mut |_| {}).unwrap_err();
    let name = damaged.file_name().unwrap().to_str().unwrap();
    assert!(error.kind() == ErrorKind::Corruption && error.to_string().contains(name), "{error}");
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["db"]);
}
