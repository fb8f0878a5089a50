//! A snapshot is one moment, also when it begins in the middle of a seal or of a checkpoint's switch, and for as long
//! as it lives.
//!
//! A writer raises the same counter in two tables in each commit, and a third time in a record of its own, while
//! memtables are sealed every few records and checkpoints follow each other. A reader that sees a pair that differs, or
//! anything but the records up to the counter, has a torn snapshot.

use crate::histories::{Outcome, options, restless, stress_time};
use pando::{Database, Durability, Isolation, Layout, Snapshot, Table, TableOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

struct Pair {
    db: Database,
    first: Table,
    second: Table,
    /// The last counter whose commit was acknowledged.
    acknowledged: AtomicU64,
    stop: AtomicBool,
}

const COUNTER: &[u8] = b"counter";
/// Only the newest records of those that the writer numbers are kept.
const KEPT: u64 = 50;
/// How much longer it may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

impl Pair {
    fn new(db: Database) -> pando::Result<Self> {
        // A transaction across both layouts.
        let first = db.create_table("first", &TableOptions::with_layout(Layout::BTree))?;
        let second = db.create_table("second", &TableOptions::with_layout(Layout::Lsm))?;
        Ok(Pair { db, first, second, acknowledged: AtomicU64::new(0), stop: AtomicBool::new(false) })
    }

    fn last(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::SeqCst)
    }

    /// One commit after the other, each of another durability.
    fn write(&self) -> Outcome {
        let durabilities = [Durability::Buffered, Durability::Sync, Durability::Lazy];
        for n in 1u64.. {
            if !self.goes_on() {
                break;
            }
            let mut tx =
                self.db.begin_with(&options(Isolation::Serializable, durabilities[n as usize % 3]))?;
            tx.put(&self.first, COUNTER, &n.to_be_bytes())?;
            tx.put(&self.second, COUNTER, &n.to_be_bytes())?;
            tx.put(&self.second, &n.to_be_bytes(), &n.to_be_bytes())?;
            tx.delete_range(&self.second, 0u64.to_be_bytes()..=n.saturating_sub(KEPT).to_be_bytes())?;
            tx.commit()?;
            self.acknowledged.store(n, Ordering::SeqCst);
        }
        Ok(())
    }

    fn checkpoint(&self) -> Outcome {
        while self.goes_on() {
            self.db.checkpoint()?;
        }
        Ok(())
    }

    /// The counter that `snapshot` sees, everywhere the same.
    fn counter(&self, snapshot: &Snapshot) -> pando::Result<u64> {
        let first = snapshot.get(&self.first, COUNTER)?.map_or(0, |bytes| number(&bytes));
        let second = snapshot.get_with(&self.second, COUNTER, number)?.unwrap_or(0);
        assert_eq!(first, second, "a torn snapshot at commit {}", snapshot.commit_number());
        let numbered: Vec<_> = snapshot
            .range(&self.second, [0u8]..[1u8])?
            .map(|record| record.map(|(key, _)| number(&key)))
            .collect::<pando::Result<_>>()?;
        let expected: Vec<_> = (first.saturating_sub(KEPT) + 1..=first).collect();
        assert_eq!(numbered, expected, "a torn snapshot at commit {}", snapshot.commit_number());
        Ok(first)
    }

    /// Snapshots see whole commits, in order, and everything that was acknowledged before they began.
    fn read(&self) -> pando::Result<u64> {
        let (mut last, mut reads) = (0, 0);
        while self.goes_on() || reads == 0 {
            let acknowledged = self.last();
            let seen = self.counter(&self.db.snapshot()?)?;
            assert!(
                seen >= acknowledged.max(last),
                "saw {seen} after {last} and the acknowledged {acknowledged}"
            );
            last = seen;
            reads += 1;
        }
        Ok(reads)
    }

    /// Hands clones of one moment to other threads.
    fn clone_across_threads(&self) -> Outcome {
        while self.goes_on() {
            let snapshot = self.db.snapshot()?;
            let before = (snapshot.commit_number(), self.counter(&snapshot)?);
            let clones = [snapshot.try_clone()?, snapshot.try_clone()?];
            drop(snapshot);
            thread::scope(|scope| {
                let spawn = |clone: Snapshot| {
                    scope.spawn(move || -> Outcome {
                        let again = clone.try_clone()?;
                        let found = (clone.commit_number(), self.counter(&clone)?);
                        drop(clone);
                        assert_eq!((found, self.counter(&again)?), (before, before.1));
                        Ok(())
                    })
                };
                clones.map(spawn).into_iter().try_for_each(|reader| reader.join().unwrap())
            })?;
        }
        Ok(())
    }
}

/// All tables and records of a snapshot, as one number.
fn content(snapshot: &Snapshot) -> pando::Result<u64> {
    let mut hasher = DefaultHasher::new();
    for table in snapshot.tables()? {
        table.name().hash(&mut hasher);
        for record in snapshot.range(&table, ..)? {
            record?.hash(&mut hasher);
        }
    }
    Ok(hasher.finish())
}

fn churn(db: Database, time: Duration) -> Outcome {
    let pair = Pair::new(db)?;
    for n in 0..500u32 {
        let durability = options(Isolation::Serializable, Durability::Buffered);
        let mut tx = pair.db.begin_with(&durability)?;
        tx.put(&pair.first, &[b"rest", &n.to_be_bytes()[..]].concat(), &[n as u8; 60])?;
        tx.commit()?;
    }
    let old = pair.db.snapshot()?;
    let before = content(&old)?;
    let end = Instant::now() + time;
    thread::scope(|scope| -> Outcome {
        let pair = &pair;
        let mut others = vec![
            scope.spawn(|| pair.write()),
            scope.spawn(|| pair.checkpoint()),
            scope.spawn(|| pair.clone_across_threads()),
        ];
        others.extend((0..2).map(|_| scope.spawn(|| pair.read().map(|reads| assert!(reads > 0)))));
        // A slow machine has more time.
        let is_little = || pair.db.stats().is_ok_and(|stats| stats.checkpoints < 5) || pair.last() < 120;
        let goes_on = || Instant::now() < end || (Instant::now() < end + PATIENCE && is_little());
        while goes_on() && !others.iter().any(|thread| thread.is_finished()) {
            thread::sleep(time / 10);
            assert_eq!(content(&old)?, before, "an old snapshot changed");
        }
        pair.stop.store(true, Ordering::SeqCst);
        others.into_iter().try_for_each(|thread| thread.join().unwrap())
    })?;
    assert_eq!(content(&old)?, before, "an old snapshot changed");
    assert!(pair.db.stats()?.checkpoints > 3 && pair.last() > 100);
    pair.db.check()?;
    drop(old);
    Ok(())
}

#[test]
fn snapshots_are_whole_in_memory() -> Outcome {
    churn(restless().checkpoint_records(10).in_memory()?, stress_time(Duration::from_millis(1200)))
}

#[test]
fn snapshots_are_whole_on_disk() -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let db = restless().checkpoint_records(10).lazy_interval(Duration::from_millis(2)).create(dir.path())?;
    churn(db, stress_time(Duration::from_millis(1500)))
}

/// Recovery seals by the options of the day, however long the log is: not more than a cursor can merge.
#[test]
fn a_log_of_many_seals_can_be_read_at_once() -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder().durability(Durability::Buffered).create(dir.path())?;
    let table = db.ensure_table("t")?;
    (0..300u32).try_for_each(|n| db.put(&table, &n.to_be_bytes(), b""))?;
    db.close()?;
    let db = Database::builder().checkpoint_records(1).open(dir.path())?;
    let (table, snapshot) = (db.ensure_table("t")?, db.snapshot()?);
    assert_eq!(snapshot.range(&table, ..)?.count(), 300);
    db.check()?;
    Ok(())
}
