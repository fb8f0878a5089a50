//! Writers that never pause: merging keeps up, the log's cap holds, and what they pay for it can be read off.

use base::env::Random;
use pando::{Database, DelayCause, Durability, Result};
use std::time::{Duration, Instant};

const CAP_RECORDS: u64 = 4_000;
const CAP_BYTES: u64 = 1 << 20;
const BATCH: u64 = 20;

/// Whether a load goes on: for so many milliseconds, and on a slow machine until it has had an effect.
fn goes_on(begun: Instant, ms: u64, is_enough: impl FnOnce() -> Result<bool>) -> Result<bool> {
    let elapsed = begun.elapsed();
    Ok(elapsed < Duration::from_millis(ms) || (elapsed < Duration::from_secs(60) && !is_enough()?))
}

#[test]
fn the_unabsorbed_log_stays_below_its_cap() -> Result<()> {
    for (seed, (value_bytes, threads)) in [(20, 1), (2_000, 1), (20, 3), (600, 3)].into_iter().enumerate() {
        let db = Database::builder()
            .page_bytes(4096)
            .memory_bytes(32 << 20)
            .max_log_bytes(CAP_BYTES)
            .max_log_records(CAP_RECORDS)
            .max_segment_bytes(64 << 10)
            .durability(Durability::Buffered)
            .in_memory()?;
        let table = db.ensure_table("t")?;
        let most = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..threads)
                .map(|thread| {
                    let (db, table) = (&db, &table);
                    scope.spawn(move || -> Result<(u64, u64)> {
                        let mut random = Random::seeded(seed as u64 * 10 + thread);
                        let (mut most, begun) = ((0, 0), Instant::now());
                        while goes_on(begun, 700, || Ok(db.stats()?.checkpoints > 0))? {
                            db.write(|tx| {
                                (0..BATCH).try_for_each(|_| {
                                    tx.put(table, &random.next_u64().to_be_bytes(), &vec![1; value_bytes])
                                })
                            })?;
                            let pacing = db.stats()?.pacing;
                            most.0 = most.0.max(pacing.unabsorbed_log_bytes);
                            most.1 = most.1.max(pacing.unabsorbed_records);
                        }
                        Ok(most)
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Result<Vec<_>>>()
        })?;
        let (bytes, records) =
            most.into_iter().fold((0, 0), |sum, most| (sum.0.max(most.0), sum.1.max(most.1)));
        let pacing = db.stats()?.pacing;
        println!("seed {seed}: at most {bytes} bytes, {records} records of log; {pacing:?}");
        // What may be committed in the millisecond between two looks, and a batch of each thread.
        assert!(records <= CAP_RECORDS * 3 / 2 + BATCH * threads, "seed {seed}: {records} records");
        assert!(bytes <= CAP_BYTES * 3 / 2 + threads * (64 << 10), "seed {seed}: {bytes} bytes");
        assert!(db.stats()?.checkpoints > 0, "seed {seed}");
    }
    Ok(())
}

#[test]
fn writers_are_slowed_and_it_shows_why() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder()
        .page_bytes(4096)
        .memory_bytes(4 << 20)
        .durability(Durability::Buffered)
        .create(dir.path())?;
    let table = db.ensure_table("t")?;
    let (mut random, begun) = (Random::seeded(7), Instant::now());
    let is_slowed = || -> Result<bool> {
        let stats = db.stats()?;
        Ok(stats.checkpoints > 1 && stats.pacing.delays.iter().any(|delays| delays.count > 0))
    };
    while goes_on(begun, 2000, is_slowed)? {
        for _ in 0..100 {
            db.write(|tx| tx.put(&table, &random.next_u64().to_be_bytes(), &[1; 100]))?;
        }
    }
    let stats = db.stats()?;
    let delays = stats.pacing.delays;
    println!("{:?}, {} commits, {} checkpoints", stats.pacing, stats.commits, stats.checkpoints);
    assert!(stats.checkpoints > 1 && stats.pacing.absorbed_bytes_per_s > 0, "{:?}", stats.pacing);
    assert!(delays.iter().map(|delays| delays.count).sum::<u64>() > 0, "{delays:?}");
    assert_eq!(delays[DelayCause::Log as usize].count, 0, "the log has a gigabyte: {delays:?}");
    Ok(())
}
