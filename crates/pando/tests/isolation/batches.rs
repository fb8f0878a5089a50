//! Commits of many rows beside each other, while memtables are sealed all the time: each is seen whole or not at all,
//! and none is lost.

use crate::histories::{options, restless, stress_time};
use base::env::Random;
use pando::{Database, Durability, Isolation, Result, Table};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const WRITERS: u64 = 4;
const ROWS: u64 = 8;

/// Each writer's batches replace the same rows, spread over the table: row `r` of batch `b` has the value `b`.
fn key(writer: u64, row: u64) -> [u8; 8] {
    (row << 32 | writer).to_be_bytes()
}

/// Commits batches until `until`, and returns the last one's number.
fn write(db: &Database, table: &Table, seed: u64, writer: u64, until: Instant) -> Result<u64> {
    let (mut random, mut batch) = (Random::seeded(seed + writer), 0);
    while Instant::now() < until {
        batch += 1u64;
        let mut tx = db.begin_with(&options(Isolation::Serializable, Durability::Buffered))?;
        for row in 0..ROWS {
            tx.put(table, key(writer, row), batch.to_be_bytes())?;
            // Rows of its own split leaves between those of other writers.
            let own = [&key(writer, row)[..], &random.below(200).to_be_bytes()].concat();
            tx.put(table, own, batch.to_be_bytes())?;
        }
        tx.commit()?;
        assert_eq!(seen(db, table, writer, seed)?, batch, "seed {seed}: a commit of writer {writer} is lost");
    }
    Ok(batch)
}

/// Returns the batch that a snapshot shows of `writer`.
fn seen(db: &Database, table: &Table, writer: u64, seed: u64) -> Result<u64> {
    let snapshot = db.snapshot()?;
    let row = |row| Ok::<_, pando::Error>(snapshot.get(table, key(writer, row))?.unwrap_or(vec![0; 8]));
    let first = row(0)?;
    for other in 1..ROWS {
        assert_eq!(row(other)?, first, "seed {seed}: a snapshot shows a part of a commit of writer {writer}");
    }
    Ok(u64::from_be_bytes(first.try_into().expect("values have 8 bytes")))
}

#[test]
fn batches_are_seen_whole_and_none_is_lost() -> Result<()> {
    for seed in 0..3 {
        let db = restless().in_memory()?;
        let table = db.ensure_table("batches")?;
        let until = Instant::now() + stress_time(Duration::from_millis(1500)) / 3;
        let is_over = AtomicBool::new(false);
        let last = thread::scope(|scope| {
            let reader = scope.spawn(|| -> Result<()> {
                let mut newest = [0; WRITERS as usize];
                while !is_over.load(Ordering::SeqCst) {
                    for (writer, newest) in (0..).zip(&mut newest) {
                        let now = seen(&db, &table, writer, seed)?;
                        assert!(now >= *newest, "seed {seed}: batch {now} of writer {writer} after {newest}");
                        *newest = now;
                    }
                }
                Ok(())
            });
            let start = |writer| {
                scope.spawn({
                    let (db, table) = (&db, &table);
                    move || write(db, table, seed, writer, until)
                })
            };
            let writers: Vec<_> = (0..WRITERS).map(start).collect();
            let last: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
            is_over.store(true, Ordering::SeqCst);
            reader.join().expect("the reader saw whole commits")?;
            last.into_iter()
                .map(|last| last.unwrap_or_else(|_| panic!("seed {seed}: a writer panicked")))
                .collect::<Result<Vec<_>>>()
        })?;
        assert!(db.stats()?.seals > 10, "memtables were sealed meanwhile");
        for (writer, last) in (0..).zip(last) {
            assert_eq!(
                seen(&db, &table, writer, seed)?,
                last,
                "seed {seed}: the last batch of writer {writer}"
            );
        }
    }
    Ok(())
}
