//! `ycsb`: the six core workloads of the Yahoo! Cloud Serving Benchmark (Cooper and others, SoCC 2010).
//!
//! | | mix | which record |
//! |---|---|---|
//! | A | 50% read, 50% update | zipfian |
//! | B | 95% read, 5% update | zipfian |
//! | C | 100% read | zipfian |
//! | D | 95% read, 5% insert | latest |
//! | E | 95% scan of 1-100, 5% insert | zipfian |
//! | F | 50% read, 50% read-modify-write | zipfian |
//!
//! An update replaces the whole value. Each operation is a transaction; E does a fifth of the others'.

use super::{Job, load};
use crate::engine::{Outcome, Session, ensure};
use crate::measure::{Row, Stretch, together};
use crate::records::{Random, Records, Zipfian};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const THREADS: usize = 2;
const RECORDS: Records = Records { key_bytes: 16, value_bytes: 1008 };

/// Operations out of 100; the rest are reads.
struct Mix {
    name: &'static str,
    update: u64,
    insert: u64,
    modify: u64,
    scan: u64,
    latest: bool,
}

const READ_ONLY: Mix = Mix { name: "C", update: 0, insert: 0, modify: 0, scan: 0, latest: false };
const MIXES: [Mix; 6] = [
    Mix { name: "A", update: 50, ..READ_ONLY },
    Mix { name: "B", update: 5, ..READ_ONLY },
    READ_ONLY,
    Mix { name: "D", insert: 5, latest: true, ..READ_ONLY },
    Mix { name: "E", insert: 5, scan: 95, ..READ_ONLY },
    Mix { name: "F", modify: 50, ..READ_ONLY },
];

pub(super) fn run(job: &Job<'_>) -> Outcome<Vec<Row>> {
    let n = job.scaled(500_000, 1000);
    load(&mut *job.engine.session()?, RECORDS, n)?;
    job.engine.settle()?;
    let zipfian = Zipfian::new(n);
    // What is committed is below `there`: a reader of the latest records never asks for one under way.
    let (next, there) = (AtomicU64::new(n), AtomicU64::new(n));
    let mut rows = Vec::new();
    for (number, mix) in MIXES.iter().enumerate() {
        let ops = if mix.scan > 0 { job.scaled(40_000, 100) } else { job.scaled(200_000, 500) };
        let client = |thread: usize, histogram: &mut hdrhistogram::Histogram<u64>| {
            let mut session = job.engine.session()?;
            let random = Random::seeded((number * 16 + thread) as u64 + 77);
            let mut client = Client {
                mix,
                zipfian: &zipfian,
                next: &next,
                there: &there,
                random,
                key: Vec::new(),
                value: Vec::new(),
            };
            for op in 0..ops {
                let began = Instant::now();
                client.operation(&mut *session, op)?;
                histogram.saturating_record(began.elapsed().as_nanos() as u64);
            }
            Ok(())
        };
        let stretch = Stretch::start();
        let (seconds, histogram) = together(THREADS, client)?;
        let row = stretch.row("ycsb", mix.name, THREADS, ops * THREADS as u64, seconds);
        rows.push(row.latencies(&histogram));
    }
    verify(job, next.into_inner())?;
    Ok(rows)
}

struct Client<'a> {
    mix: &'a Mix,
    zipfian: &'a Zipfian,
    next: &'a AtomicU64,
    there: &'a AtomicU64,
    random: Random,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Client<'_> {
    fn operation(&mut self, session: &mut dyn Session, op: u64) -> Outcome<()> {
        let dice = self.random.below(100);
        let Mix { update, insert, modify, scan, .. } = *self.mix;
        if dice < insert {
            return self.insert(session);
        }
        let i = match self.mix.latest {
            false => self.zipfian.scattered(&mut self.random),
            true => {
                let newest = self.there.load(Ordering::SeqCst) - 1;
                newest - self.zipfian.rank(&mut self.random).min(newest)
            }
        };
        RECORDS.key(i, &mut self.key);
        let key = &self.key;
        let dice = dice - insert;
        if dice < update {
            RECORDS.value(i, op, &mut self.value);
            session.write(&mut |tx| tx.put(key, &self.value))
        } else if dice < update + modify {
            session.write(&mut |tx| {
                let mut right = false;
                tx.get(key, &mut |value| right = RECORDS.is_value_of(i, value))?;
                ensure(right, || format!("record {i} is missing or wrong"))?;
                RECORDS.value(i, op, &mut self.value);
                tx.put(key, &self.value)
            })
        } else if dice < update + modify + scan {
            let limit = 1 + self.random.below(100) as usize;
            session.read(&mut |reader| {
                let seen = reader.scan(key, limit, &mut |_, value| {
                    std::hint::black_box(value.len());
                })?;
                ensure(seen > 0, || format!("the range from record {i} is empty"))
            })
        } else {
            let mut right = false;
            session.read(&mut |reader| {
                reader.get(key, &mut |value| right = RECORDS.is_value_of(i, value)).map(|_| ())
            })?;
            ensure(right, || format!("record {i} is missing or wrong"))
        }
    }

    fn insert(&mut self, session: &mut dyn Session) -> Outcome<()> {
        let i = self.next.fetch_add(1, Ordering::SeqCst);
        RECORDS.key(i, &mut self.key);
        RECORDS.value(i, 0, &mut self.value);
        session.write(&mut |tx| tx.put(&self.key, &self.value))?;
        // In the order of their numbers, so that everything below `there` is committed.
        while self.there.compare_exchange(i, i + 1, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            std::thread::yield_now();
        }
        Ok(())
    }
}

/// Every record is there, with some version of its value.
fn verify(job: &Job<'_>, n: u64) -> Outcome<()> {
    super::verify(&mut *job.engine.session()?, n, &mut |key, value| {
        let mut wanted = Vec::new();
        let number = value.first_chunk().map_or(u64::MAX, |bytes| u64::from_be_bytes(*bytes));
        RECORDS.key(number, &mut wanted);
        number < n && key == wanted && RECORDS.is_value_of(number, value)
    })
}
