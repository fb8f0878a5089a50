//! `read-start`: the cost of beginning a read transaction.
//!
//! * n (1,000,000) documents of 1 KiB under random 16-byte ids, checkpointed and read once.
//! * `begin/end`: a snapshot, dropped. `begin/get/end`: a snapshot, one document at random read in place, dropped.
//!   1,000,000 (`--iterations`) in all, on 1 and 2 threads (`--threads`).
//! * Each with 0, 1 and 10,000 other live snapshots, and with a writer that puts one document a transaction.
//! * Heap allocations are those of the measured threads, after each one's first begin; only in a binary that counts
//!   them.

use super::bulk;
use crate::alloc;
use crate::measure::{Meter, together};
use crate::records::Records;
use crate::report::Row;
use crate::settings::Settings;
use crate::{Outcome, ensure};
use base::env::Random;
use pando::{Database, Snapshot, Table};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

pub(super) const NAME: &str = "read-start";
const DEFAULT_N: u64 = 1_000_000;
const READS: u64 = 1_000_000;
const ID_BYTES: usize = 16;
const DOCUMENT_BYTES: usize = 1024;
const THREADS: [usize; 2] = [1, 2];

/// The other activity during the measurement.
#[derive(Clone, Copy)]
enum Company {
    Readers(usize),
    Writer,
}

const COMPANIES: [Company; 4] =
    [Company::Readers(0), Company::Readers(1), Company::Readers(10_000), Company::Writer];

/// The database and what is read from it.
struct Job<'a> {
    db: &'a Database,
    table: &'a Table,
    records: Records,
    n: u64,
    reads: u64,
    seed: u64,
}

pub(super) fn run(settings: &Settings) -> Outcome<Vec<Row>> {
    let n = settings.n.unwrap_or(DEFAULT_N);
    let reads = settings.iterations.unwrap_or(READS);
    let records = Records::new(settings.seed, ID_BYTES, settings.value_bytes.unwrap_or(DOCUMENT_BYTES));
    let (bed, table) = bulk::loaded(settings, records, n)?;
    let job = Job { db: &bed.db, table: &table, records, n, reads, seed: settings.seed };
    let durability = bulk::load_durability(settings).name();
    let mut rows = Vec::new();
    for &threads in settings.threads.as_deref().unwrap_or(&THREADS) {
        for company in COMPANIES {
            for get in [false, true] {
                rows.push(job.measure(threads, company, get, durability)?);
            }
        }
    }
    records.check(n, &mut bed.db.snapshot()?.cursor(&table, ..)?)?;
    Ok(rows)
}

impl Job<'_> {
    fn measure(&self, threads: usize, company: Company, get: bool, durability: &'static str) -> Outcome<Row> {
        let name = if get { "begin/get/end" } else { "begin/end" };
        let (case, readers) = match company {
            Company::Readers(0) => (name.to_owned(), 0),
            Company::Readers(1) => (format!("{name}, 1 reader"), 1),
            Company::Readers(readers) => (format!("{name}, {readers} readers"), readers),
            Company::Writer => (format!("{name}, a writer"), 0),
        };
        let live: Vec<Snapshot> = (0..readers).map(|_| self.db.snapshot()).collect::<Result<_, _>>()?;
        let is_quiet = matches!(company, Company::Readers(_));
        let (stop, commits) = (AtomicBool::new(is_quiet), AtomicU64::new(0));
        let mut meter = Meter::start(Some(self.db))?;
        let (timed, written) = thread::scope(|scope| {
            let writer = scope.spawn(|| self.write_until(&stop, &commits));
            // The writer is at work when the others begin.
            while !is_quiet && commits.load(Ordering::SeqCst) == 0 && !writer.is_finished() {
                thread::yield_now();
            }
            let timed = together(threads, |thread| self.begin_and_end(thread, threads, get));
            stop.store(true, Ordering::SeqCst);
            (timed, writer.join().expect("the writer panicked"))
        });
        written?;
        let (seconds, counts) = timed?;
        let mut usage = meter.lap()?;
        usage.seconds = seconds;
        drop(live);
        let begins: u64 = counts.iter().map(|(begins, _)| begins).sum();
        let allocations = counts.iter().map(|&(_, allocations)| allocations).sum::<Option<u64>>();
        let mut row = Row::new(NAME, case, durability, begins, usage).threads(threads);
        if let Some(allocations) = allocations {
            row = row.with("allocations_per_begin", allocations as f64 / begins as f64);
        }
        Ok(row.with("commits", commits.into_inner()))
    }

    /// Does one thread's share. Returns how many transactions it began and what it allocated for them.
    fn begin_and_end(&self, thread: usize, threads: usize, get: bool) -> Outcome<(u64, Option<u64>)> {
        let begins = self.reads.div_ceil(threads as u64);
        let mut random = Random::seeded(self.seed ^ (thread as u64 + 1));
        let mut key = Vec::with_capacity(ID_BYTES);
        drop(self.db.snapshot()?);
        let before = alloc::counts();
        for _ in 0..begins {
            let snapshot = black_box(self.db.snapshot()?);
            if get {
                let i = random.below(self.n);
                self.records.key(i, &mut key);
                let right =
                    snapshot.get_with(self.table, &key, |value| self.records.is_value_of(i, value))?;
                ensure(right == Some(true), || format!("the answer for document {i} is wrong"))?;
            }
        }
        let after = alloc::counts();
        Ok((begins, after.zip(before).map(|(after, before)| after.since(before).allocations)))
    }

    /// Puts documents again with their current values, one per transaction, and counts them.
    fn write_until(&self, stop: &AtomicBool, commits: &AtomicU64) -> Outcome<()> {
        let mut random = Random::seeded(!self.seed);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        while !stop.load(Ordering::SeqCst) {
            let i = random.below(self.n);
            self.records.key(i, &mut key);
            self.records.value(i, &mut value);
            self.db.put(self.table, &key, &value)?;
            commits.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }
}
