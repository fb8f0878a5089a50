//! `ycsb`: the six core workloads of the Yahoo! Cloud Serving Benchmark (Cooper and others, SoCC 2010).
//!
//! * n (500,000) records, keys of 24 random bytes, values of 1,000, loaded and checkpointed; each mix begins with a
//!   fresh load. 200,000 operations (`--iterations`) in total, on 2 threads (`--threads`).
//! * Keys are drawn by the zipfian distribution with 0.99, scattered; in D the newest records are the frequent ones.
//!
//! | mix | operations |
//! |---|---|
//! | A | half reads, half updates |
//! | B | 95% reads, 5% updates |
//! | C | reads |
//! | D | 95% reads of the latest, 5% inserts |
//! | E | 95% scans of 1 to 100 records, 5% inserts |
//! | F | half reads, half reads with an update after them |
//!
//! * An operation is a transaction of its own. Every value that is read is checked completely.
//! * Before its measured operations a thread does a tenth as many, unmeasured, so that the pool is warm.
//! * Latencies are those of operations. With `--rate` each is due at its time, even if the one before was late, and its
//!   latency counts from then. A stall therefore counts for all operations that it delayed.

use super::bulk;
use crate::measure::{Meter, latencies, together};
use crate::records::Records;
use crate::report::Row;
use crate::settings::Settings;
use crate::zipf::Zipf;
use crate::{Outcome, ensure};
use base::env::Random;
use hdrhistogram::Histogram;
use pando::{Database, Table};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(super) const NAME: &str = "ycsb";
const DEFAULT_N: u64 = 500_000;
const OPERATIONS: u64 = 200_000;
const THREADS: [usize; 1] = [2];
const KEY_BYTES: usize = 24;
const VALUE_BYTES: usize = 1000;
const LONGEST_SCAN: u64 = 100;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Update,
    Insert,
    Scan,
    ReadUpdate,
}

struct Mix {
    name: &'static str,
    /// The share of the first kind of operation in percent; the rest is of the other kind.
    often: u64,
    kinds: (Kind, Kind),
    latest: bool,
}

const MIXES: [Mix; 6] = [
    Mix { name: "A", often: 50, kinds: (Kind::Read, Kind::Update), latest: false },
    Mix { name: "B", often: 95, kinds: (Kind::Read, Kind::Update), latest: false },
    Mix { name: "C", often: 100, kinds: (Kind::Read, Kind::Read), latest: false },
    Mix { name: "D", often: 95, kinds: (Kind::Read, Kind::Insert), latest: true },
    Mix { name: "E", often: 95, kinds: (Kind::Scan, Kind::Insert), latest: false },
    Mix { name: "F", often: 50, kinds: (Kind::Read, Kind::ReadUpdate), latest: false },
];

/// A running mix.
struct Job<'a> {
    db: &'a Database,
    table: &'a Table,
    records: Records,
    mix: &'a Mix,
    zipf: Zipf,
    n: u64,
    /// The number of the next record to insert.
    next: AtomicU64,
    seed: u64,
    rate: Option<u64>,
}

/// The measurements of a thread.
struct Seen {
    latencies: Histogram<u64>,
    by_second: Vec<u64>,
}

pub(super) fn run(settings: &Settings) -> Outcome<Vec<Row>> {
    let n = settings.n.unwrap_or(DEFAULT_N).max(2);
    let operations = settings.iterations.unwrap_or(OPERATIONS);
    let records = Records::new(settings.seed, KEY_BYTES, settings.value_bytes.unwrap_or(VALUE_BYTES));
    let zipf = Zipf::new(n);
    let mut rows = Vec::new();
    for mix in &MIXES {
        for &threads in settings.threads.as_deref().unwrap_or(&THREADS) {
            let (bed, table) = bulk::loaded(settings, records, n)?;
            let (db, table, seed, rate) = (&bed.db, &table, settings.seed, settings.rate);
            let job = Job { db, table, records, mix, zipf, n, next: AtomicU64::new(n), seed, rate };
            let durability = bulk::load_durability(settings).name();
            rows.push(job.measure(threads, operations, durability)?);
        }
    }
    Ok(rows)
}

impl Job<'_> {
    fn measure(&self, threads: usize, operations: u64, durability: &'static str) -> Outcome<Row> {
        let each = operations.div_ceil(threads as u64);
        together(threads, |thread| self.work(thread, threads, each.div_ceil(10), true))?;
        let mut meter = Meter::start(Some(self.db))?;
        let (seconds, seen) = together(threads, |thread| self.work(thread, threads, each, false))?;
        let mut usage = meter.lap()?;
        usage.seconds = seconds;
        let inserted = self.next.load(Ordering::SeqCst);
        self.records.check(inserted, &mut self.db.snapshot()?.cursor(self.table, ..)?)?;
        let (mut all, mut by_second) = (latencies(), Vec::new());
        for one in seen {
            all.add(&one.latencies).expect("histograms of the same bounds");
            by_second.resize(by_second.len().max(one.by_second.len()), 0);
            by_second.iter_mut().zip(one.by_second).for_each(|(sum, count)| *sum += count);
        }
        let stats = self.db.stats()?;
        Ok(Row::new(NAME, self.mix.name, durability, each * threads as u64, usage)
            .threads(threads)
            .with("p50_ns", all.value_at_quantile(0.5))
            .with("p99_ns", all.value_at_quantile(0.99))
            .with("p999_ns", all.value_at_quantile(0.999))
            .with("max_ns", all.max())
            .with("conflicts", stats.conflicts)
            .with("pool_faults", stats.pool_faults)
            .over_time("operations_by_second", by_second))
    }

    fn work(&self, thread: usize, threads: usize, operations: u64, warming: bool) -> Outcome<Seen> {
        let mut random = Random::seeded(self.seed ^ (thread as u64 + 1) << 8 ^ u64::from(warming));
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut seen = Seen { latencies: latencies(), by_second: Vec::new() };
        let began = Instant::now();
        for number in 0..operations {
            let kind = if random.below(100) < self.mix.often { self.mix.kinds.0 } else { self.mix.kinds.1 };
            let i = if kind == Kind::Insert {
                self.next.fetch_add(1, Ordering::SeqCst)
            } else {
                self.choose(&mut random)
            };
            let length = 1 + random.below(LONGEST_SCAN);
            self.records.key(i, &mut key);
            if !matches!(kind, Kind::Read | Kind::Scan) {
                self.records.value(i, &mut value);
            }
            let due = self.rate.filter(|_| !warming).map(|rate| {
                Duration::from_nanos((number * threads as u64 + thread as u64) * 1_000_000_000 / rate)
            });
            if let Some(due) = due {
                thread::sleep(due.saturating_sub(began.elapsed()));
            }
            let from = due.unwrap_or_else(|| began.elapsed());
            self.operate(kind, i, length, &key, &value)?;
            let until = began.elapsed();
            seen.latencies.saturating_record((until - from).as_nanos() as u64);
            let second = until.as_secs() as usize;
            seen.by_second.resize(seen.by_second.len().max(second + 1), 0);
            seen.by_second[second] += 1;
        }
        Ok(seen)
    }

    fn choose(&self, random: &mut Random) -> u64 {
        if self.mix.latest {
            let newest = self.next.load(Ordering::SeqCst) - 1;
            return newest - self.zipf.rank(random).min(newest);
        }
        self.zipf.scattered(random)
    }

    fn operate(&self, kind: Kind, i: u64, length: u64, key: &[u8], value: &[u8]) -> Outcome<()> {
        match kind {
            Kind::Read => self.read(i, key),
            Kind::Update => Ok(self.db.put(self.table, key, value)?),
            Kind::Insert => Ok(self.db.write(|tx| tx.insert(self.table, key, value))?),
            Kind::Scan => {
                let snapshot = self.db.snapshot()?;
                let mut cursor = snapshot.cursor(self.table, key..)?;
                let first = cursor
                    .next()?
                    .is_some_and(|(found, value)| found == key && self.records.is_value_of(i, value));
                ensure(first, || format!("a scan from record {i} does not begin with it"))?;
                for _ in 1..length {
                    if cursor.next()?.is_none() {
                        break;
                    }
                }
                Ok(())
            }
            Kind::ReadUpdate => {
                let right = self.db.write(|tx| {
                    let before = tx.get(self.table, key)?;
                    tx.put(self.table, key, value)?;
                    Ok(before.is_some_and(|before| before == value))
                })?;
                ensure(right, || format!("the value of record {i} is wrong"))
            }
        }
    }

    fn read(&self, i: u64, key: &[u8]) -> Outcome<()> {
        let snapshot = self.db.snapshot()?;
        let right = snapshot.get_with(self.table, key, |value| self.records.is_value_of(i, value))?;
        // A record that is just being inserted may not exist yet; at the end all must exist.
        let is_coming = right.is_none() && i >= self.n;
        ensure(right == Some(true) || is_coming, || format!("the value of record {i} is wrong"))
    }
}
