//! What the files take: while records come and go, after a compaction, after a long reader.

use pando::{Database, Result, Stats, Table};
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn put(db: &Database, table: &Table, numbers: impl Iterator<Item = u64>) -> Result<()> {
    let mut tx = db.begin()?;
    for (done, n) in numbers.enumerate() {
        tx.put(table, &key(n), &[n as u8; 120])?;
        if done % 1000 == 999 {
            tx.commit()?;
            tx = db.begin()?;
        }
    }
    tx.commit().map(drop)
}

fn delete(db: &Database, table: &Table, numbers: impl Iterator<Item = u64>) -> Result<()> {
    let numbers: Vec<u64> = numbers.collect();
    // Parts that fit into a small budget.
    for part in numbers.chunks(1000) {
        let mut tx = db.begin()?;
        part.iter().try_for_each(|n| tx.delete(table, &key(*n)))?;
        tx.commit()?;
    }
    Ok(())
}

/// Exactly these records, and no room that is lost.
fn check(db: &Database, table: &Table, numbers: impl Iterator<Item = u64>) -> Result<()> {
    let mut wanted: Vec<u64> = numbers.collect();
    wanted.sort_unstable_by_key(|n| key(*n));
    let snapshot = db.snapshot()?;
    let mut found = snapshot.range(table, ..)?;
    for n in wanted {
        let (found_key, value) = found.next().expect("a record is missing")?;
        assert_eq!((&found_key[..], &value[..]), (&key(n)[..], &[n as u8; 120][..]));
    }
    assert!(found.next().is_none());
    assert_eq!(db.check()?.orphan_units, 0);
    Ok(())
}

fn free_bytes(stats: &Stats) -> u64 {
    stats.data_file_bytes - stats.data_used_bytes - stats.data_retired_bytes
}

#[test]
fn churn_takes_little_more_than_what_lives() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let builder = Database::builder().memory_bytes(4 << 20).durability(pando::Durability::Buffered);
    let db = builder.clone().create(dir.path())?;
    let table = db.ensure_table("t")?;
    let live = 20_000;
    put(&db, &table, 0..live)?;
    for turn in 0..6 {
        for part in 0..100 {
            let first = turn * live + part * live / 100;
            let mut tx = db.begin()?;
            for n in first..first + live / 100 {
                tx.delete(&table, &key(n))?;
                tx.put(&table, &key(n + live), &[(n + live) as u8; 120])?;
            }
            tx.commit()?;
        }
    }
    db.checkpoint()?;
    check(&db, &table, 6 * live..7 * live)?;
    db.close()?;
    let entries = dir.path().read_dir().unwrap();
    // What they take on the disk: of the data file's length some are holes.
    let sizes = entries.map(|entry| entry.unwrap().metadata().unwrap().blocks() * 512);
    let (files, live_bytes) = (sizes.sum::<u64>(), live * 128);
    // Of the log a segment of 1 MiB stays: an eighth of the memory, but no less than that.
    assert!(files < live_bytes * 3 / 2 + MIB, "{files} bytes of files for {live_bytes} bytes of records");
    let db = builder.open(dir.path())?;
    check(&db, &db.ensure_table("t")?, 6 * live..7 * live)
}

#[test]
fn a_compaction_leaves_little_free() -> Result<()> {
    let db = Database::builder().memory_bytes(16 << 20).in_memory()?;
    let (table, other) = (db.ensure_table("t")?, db.ensure_table("other")?);
    // Two tables grow side by side, so that neither lies at one end.
    for part in 0..5 {
        put(&db, &table, part * 20_000..(part + 1) * 20_000)?;
        put(&db, &other, part * 20_000..(part + 1) * 20_000)?;
        db.put(&table, b"large", &vec![part as u8; 100_000])?;
        db.checkpoint()?;
    }
    db.delete(&table, b"large")?;
    delete(&db, &table, (0..100_000).filter(|n| n % 10 > 0))?;
    db.drop_table("other")?;
    let before = db.stats()?;
    let mut rounds = 0;
    let done = db.compact(|now| {
        assert!(now.passes > 0);
        rounds += 1;
    })?;
    let after = db.stats()?;
    assert_eq!(done.checkpoints, rounds);
    assert_eq!((done.data_file_bytes, done.log_file_bytes), (after.data_file_bytes, after.log_file_bytes));
    assert!(after.data_file_bytes < 3 * MIB, "{} became {}", before.data_file_bytes, after.data_file_bytes);
    // Gaps that no page fits into stay, and in a file this short they are a good part of it; where they lie depends on
    // what the background merged beside the loads.
    assert!(free_bytes(&after) <= after.data_file_bytes / 3, "{} free", free_bytes(&after));
    assert!(after.log_file_bytes <= 64 * 1024, "{} bytes of log", after.log_file_bytes);
    check(&db, &table, (0..100_000).step_by(10))?;
    // And it goes on from there.
    put(&db, &table, (0..100_000).step_by(10))?;
    db.checkpoint()?;
    check(&db, &table, (0..100_000).step_by(10))
}

#[test]
fn a_compaction_disturbs_neither_readers_nor_writers() -> Result<()> {
    let db = Database::builder().memory_bytes(4 << 20).in_memory()?;
    let table = db.ensure_table("t")?;
    put(&db, &table, 0..60_000)?;
    db.checkpoint()?;
    let before = db.snapshot()?;
    delete(&db, &table, (0..60_000).filter(|n| n % 3 > 0))?;
    let written = thread::scope(|scope| {
        let writer = scope.spawn(|| put(&db, &table, 100_000..130_000));
        let compacted = db.compact(|_| {}).and_then(|_| db.compact(|_| {}));
        writer.join().expect("the writer").and(compacted)
    })?;
    assert!(written.data_file_bytes > 0);
    assert_eq!(before.range(&table, ..)?.count(), 60_000);
    drop(before);
    check(&db, &table, (0..60_000).step_by(3).chain(100_000..130_000))
}

#[test]
fn what_a_long_reader_held_comes_back_without_a_checkpoint() -> Result<()> {
    let db = Database::builder().memory_bytes(16 << 20).in_memory()?;
    let table = db.ensure_table("t")?;
    put(&db, &table, 0..50_000)?;
    db.checkpoint()?;
    let reader = db.snapshot()?;
    let mut tx = db.begin()?;
    tx.delete_range(&table, ..)?;
    tx.commit()?;
    db.checkpoint()?;
    let held = db.stats()?;
    assert!(held.data_retired_bytes > 5 * MIB, "{held:?}");
    drop(reader);
    let begun = Instant::now();
    let on_disk = |stats: &Stats| stats.data_file_bytes - stats.data_hole_bytes;
    while db.stats()?.data_retired_bytes > 0 || on_disk(&db.stats()?) > 2 * MIB {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", db.stats()?);
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(db.stats()?.checkpoint, held.checkpoint);
    Ok(())
}
