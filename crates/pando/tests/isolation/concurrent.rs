//! Concurrent histories, judged: lists that are appended to and read, and money that moves.
//!
//! Memtables hold a few dozen records, so that seals and checkpoints happen all the time, and every durability is
//! mixed. `PANDO_STRESS_SECONDS` sets how long each of the tests runs.

use crate::histories::checker::{self, Class, End, Op};
use crate::histories::{BOTH, Outcome, options, restless, stress_time};
use base::env::Random;
use pando::{
    Database, Durability, ErrorKind, Isolation, Layout, Table, TableOptions, Transaction, TransactionOptions,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const DURABILITIES: [Durability; 3] = [Durability::Sync, Durability::Buffered, Durability::Lazy];

/// Lists are given up for new ones when this many transactions were begun, so that they stay short.
const TRANSACTIONS_PER_GENERATION: u64 = 300;
const LISTS: u64 = 5;
/// One history's size: what is judged at once.
const MOST_TRANSACTIONS: u64 = 6000;
/// How much longer a round may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Recorder {
    db: Database,
    table: Table,
    isolation: Isolation,
    /// Orders beginnings and ends in real time, and numbers elements.
    clock: AtomicU64,
    begun: AtomicU64,
    until: Instant,
}

impl Recorder {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Until its time is over; on a slow machine, until there is something to judge.
    fn goes_on(&self) -> pando::Result<bool> {
        let now = Instant::now();
        if now < self.until || now > self.until + PATIENCE {
            return Ok(now < self.until);
        }
        let stats = self.db.stats()?;
        Ok(stats.commits < 100 || stats.seals == 0 || stats.checkpoints == 0)
    }

    fn list(&self, tx: &Transaction, key: u32) -> pando::Result<Vec<u64>> {
        let value = tx.get(&self.table, &key.to_be_bytes())?.unwrap_or_default();
        Ok(value.chunks(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect())
    }

    /// Does a few appends and reads, and notes them.
    fn work(&self, tx: &mut Transaction, random: &mut Random, first_list: u64, ops: &mut Vec<Op>) -> Outcome {
        for _ in 0..1 + random.below(4) {
            let key = (first_list + random.below(LISTS)) as u32;
            let mut list = self.list(tx, key)?;
            ops.push(Op::Read(key, list.clone()));
            if random.chance(1, 2) {
                let element = self.tick();
                ops.push(Op::Append(key, element));
                list.push(element);
                let value: Vec<u8> = list.iter().flat_map(|element| element.to_le_bytes()).collect();
                tx.put(&self.table, &key.to_be_bytes(), &value)?;
            }
        }
        Ok(())
    }

    /// Reads every list of the generation by a scan.
    fn scan(&self, tx: &Transaction, first_list: u64, ops: &mut Vec<Op>) -> Outcome {
        let keys = (first_list as u32, (first_list + LISTS) as u32);
        let mut lists: Vec<Vec<u64>> = vec![Vec::new(); LISTS as usize];
        let mut cursor = tx.cursor(&self.table, keys.0.to_be_bytes()..keys.1.to_be_bytes())?;
        while let Some((key, value)) = cursor.next()? {
            let key = u32::from_be_bytes(key.try_into().unwrap());
            let list = value.chunks(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
            lists[(key - keys.0) as usize] = list.collect();
        }
        ops.extend((keys.0..keys.1).zip(lists).map(|(key, list)| Op::Read(key, list)));
        Ok(())
    }

    /// The transactions of one thread, aborted and refused ones included.
    fn run(&self, seed: u64) -> pando::Result<Vec<checker::Transaction>> {
        let mut random = Random::seeded(seed);
        let mut history = Vec::new();
        while self.goes_on()? {
            let number = self.begun.fetch_add(1, Ordering::SeqCst);
            if number >= MOST_TRANSACTIONS {
                break;
            }
            let first_list = number / TRANSACTIONS_PER_GENERATION * LISTS;
            let durability = DURABILITIES[random.below(3) as usize];
            let began = self.tick();
            let mut tx = self.db.begin_with(&options(self.isolation, durability))?;
            let mut ops = Vec::new();
            if random.chance(1, 8) {
                self.scan(&tx, first_list, &mut ops)?;
            }
            self.work(&mut tx, &mut random, first_list, &mut ops)?;
            let end = if random.chance(1, 20) {
                tx.abort();
                End::Aborted
            } else {
                match tx.commit() {
                    Ok(_) => End::Committed,
                    Err(error) if error.kind() == ErrorKind::Conflict => End::Aborted,
                    Err(error) => return Err(error),
                }
            };
            history.push(checker::Transaction { ops, end, began, ended: self.tick() });
        }
        Ok(history)
    }
}

/// Runs `threads` against `db` for a while and judges what they saw.
fn judge(db: Database, isolation: Isolation, threads: u64, time: Duration, seed: u64) -> Outcome {
    // The rounds' seeds are a thousand apart, and each isolation level comes in every second one.
    let layout = Layout::ALL[(seed / 2000) as usize % 2];
    let table = db.create_table("lists", &TableOptions::with_layout(layout))?;
    let (clock, begun) = (AtomicU64::new(0), AtomicU64::new(0));
    let recorder = Recorder { db, table, isolation, clock, begun, until: Instant::now() + time };
    let mut history = Vec::new();
    thread::scope(|scope| {
        let runs: Vec<_> = (0..threads)
            .map(|n| {
                scope.spawn({
                    let recorder = &recorder;
                    move || recorder.run(seed + n)
                })
            })
            .collect();
        runs.into_iter().try_for_each(|run| run.join().unwrap().map(|own| history.extend(own)))
    })?;
    let committed = history.iter().filter(|tx| tx.end == End::Committed).count();
    let place = format!(
        "{isolation:?}, {layout}, {threads} threads, seed {seed}, {committed} of {} committed",
        history.len()
    );
    for anomaly in checker::check(&history) {
        let allowed = isolation == Isolation::Snapshot && anomaly.class == Class::G2;
        assert!(allowed, "{place}: {anomaly}");
    }
    let stats = recorder.db.stats()?;
    assert!(
        committed > 20 && stats.seals > 0 && stats.checkpoints > 0,
        "{place}: nothing happened: {stats:?}"
    );
    recorder.db.check()?;
    Ok(())
}

/// Histories follow each other, with 2 to 8 threads, until the time is over.
fn judge_many(open: impl Fn() -> pando::Result<(Database, Option<tempfile::TempDir>)>) -> Outcome {
    let time = stress_time(Duration::from_millis(1600));
    let start = Instant::now();
    let mut round = 0;
    while round < 4 || start.elapsed() < time {
        let (isolation, threads) = (BOTH[round % 2], [2, 8, 4, 3][round / 2 % 4]);
        let (db, dir) = open()?;
        let slice = (time / 4).min(Duration::from_secs(2));
        judge(db, isolation, threads, slice, 1000 * round as u64)?;
        drop(dir);
        round += 1;
    }
    Ok(())
}

#[test]
fn list_histories_in_memory_are_isolated() -> Outcome {
    judge_many(|| Ok((restless().in_memory()?, None)))
}

#[test]
fn list_histories_on_disk_are_isolated() -> Outcome {
    judge_many(|| {
        let dir = tempfile::tempdir().unwrap();
        let db = restless().lazy_interval(Duration::from_millis(5)).create(dir.path())?;
        Ok((db, Some(dir)))
    })
}

const ACCOUNTS: u64 = 20;
const EACH: i64 = 1000;

fn balance(bytes: &[u8]) -> i64 {
    i64::from_le_bytes(bytes.try_into().unwrap())
}

fn total(records: impl Iterator<Item = pando::Result<(Vec<u8>, Vec<u8>)>>) -> pando::Result<i64> {
    records.map(|record| Ok(balance(&record?.1))).sum()
}

/// Moves money from one account to another, and closes an account that is empty.
fn transfer(tx: &mut Transaction, table: &Table, random: &mut Random) -> Outcome {
    let (from, to) = ([random.below(ACCOUNTS) as u8], [random.below(ACCOUNTS) as u8]);
    let amount = 1 + random.below(400) as i64;
    let before = tx.get(table, &from)?.map_or(0, |bytes| balance(&bytes));
    if before < amount || from == to {
        return Ok(());
    }
    match before - amount {
        0 => tx.delete(table, &from)?,
        left => tx.put(table, &from, &left.to_le_bytes())?,
    }
    let there = tx.get(table, &to)?.map_or(0, |bytes| balance(&bytes));
    tx.put(table, &to, &(there + amount).to_le_bytes())
}

/// The total is constant in every snapshot and in every transaction, whether it commits or not.
#[test]
fn money_is_neither_made_nor_lost() -> Outcome {
    for (isolation, layout) in BOTH.into_iter().zip([Layout::Lsm, Layout::BTree]) {
        let dir = tempfile::tempdir().unwrap();
        let db = restless().lazy_interval(Duration::from_millis(5)).create(dir.path())?;
        let table = db.create_table("accounts", &TableOptions::with_layout(layout))?;
        db.write(|tx| (0..ACCOUNTS).try_for_each(|n| tx.put(&table, &[n as u8], &EACH.to_le_bytes())))?;
        let until = Instant::now() + stress_time(Duration::from_millis(800));
        let writer = |seed: u64| -> pando::Result<u64> {
            let (mut random, mut committed) = (Random::seeded(seed), 0);
            while Instant::now() < until || (committed == 0 && Instant::now() < until + PATIENCE) {
                let durability = DURABILITIES[random.below(3) as usize];
                let mut tx = db.begin_with(&TransactionOptions { isolation, durability })?;
                transfer(&mut tx, &table, &mut random)?;
                if random.chance(1, 8) {
                    assert_eq!(total(tx.range(&table, ..)?.rev())?, EACH * ACCOUNTS as i64);
                }
                committed += u64::from(tx.commit().is_ok());
            }
            Ok(committed)
        };
        let reader = || -> Outcome {
            while Instant::now() < until {
                let snapshot = db.snapshot()?;
                assert_eq!(total(snapshot.range(&table, ..)?)?, EACH * ACCOUNTS as i64);
                let keys: Vec<_> = (0..ACCOUNTS).map(|n| [n as u8]).collect();
                let found = snapshot.multi_get(&table, &keys)?.into_iter().flatten();
                assert_eq!(found.map(|bytes| balance(&bytes)).sum::<i64>(), EACH * ACCOUNTS as i64);
            }
            Ok(())
        };
        thread::scope(|scope| {
            let writers: Vec<_> = (0..4).map(|seed| scope.spawn(move || writer(seed))).collect();
            let readers: Vec<_> = (0..2).map(|_| scope.spawn(reader)).collect();
            for writer in writers {
                assert!(writer.join().unwrap()? > 0);
            }
            readers.into_iter().try_for_each(|reader| reader.join().unwrap())
        })?;
        db.check()?;
    }
    Ok(())
}
