//! `kv-load`: a key-value store under a load far larger than its memory, one commit for each record.
//!
//! * n (4,000,000) puts of 16 random bytes with a value of 240 (`--value-bytes`), 64 MiB of memory unless `--memory`
//!   says otherwise, on one thread. Nine of ten are new records, and one overwrites an earlier record. Buffered unless
//!   `--durability` says otherwise.
//! * `load`: the latency of each put, including merges: its quantiles, and the longest of each hundredth of the load
//!   over time; `own`: the latency minus the time for which the thread was ready to run; and the longest wait by cause.
//!   It also has the bytes written to log and data file divided by the bytes put; the largest size of the files divided
//!   by the live bytes, from when these exceed the memory (before, the log alone is as large); the debt in the tenth of
//!   the load that ends at a third, and in the last tenth; and the table's runs.
//! * Directly after it, merged or not: `get, uniform`, `get, recent` (four of five among the newest tenth), `miss`.
//! * `compact`: the time of `compact`, and the space afterwards.
//! * `delete`: every record by its key, then `compact`; the space of an empty table.

use crate::bed::Bed;
use crate::measure::{Meter, OwnTime, latencies};
use crate::records::Records;
use crate::report::Row;
use crate::settings::{Durability, Settings};
use crate::{Outcome, ensure};
use base::env::Random;
use hdrhistogram::Histogram;
use pando::{Database, Stats, Table, WaitCause};
use std::time::Instant;

pub(super) const NAME: &str = "kv-load";
const DEFAULT_N: u64 = 4_000_000;
const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 240;
const MEMORY_BYTES: usize = 64 << 20;
const READS: u64 = 500_000;
/// The number of points of the latency over time.
const SLOTS: u64 = 100;
/// The number of rows of a deleting transaction.
const BATCH_ROWS: u64 = 1000;

pub(super) fn run(settings: &Settings) -> Outcome<Vec<Row>> {
    let memory = settings.memory.unwrap_or(MEMORY_BYTES);
    let settings = &Settings { memory: Some(memory), ..settings.clone() };
    let n = settings.n.unwrap_or(DEFAULT_N);
    let reads = settings.iterations.unwrap_or(READS.min(n));
    let records = Records::new(settings.seed, KEY_BYTES, settings.value_bytes.unwrap_or(VALUE_BYTES).max(8))
        .of_text(settings.text);
    let durability = settings.durability.unwrap_or(Durability::Buffered);
    let bed = Bed::new(settings, durability)?;
    let table = bed.db.create_table("records", &settings.table_options())?;
    let mut work =
        Work { db: &bed.db, table: &table, records, live: 0, random: Random::seeded(settings.seed), memory };

    let mut rows = vec![work.load(n, durability.name())?];
    for (case, kind) in [("get, uniform", Kind::Uniform), ("get, recent", Kind::Recent), ("miss", Kind::Miss)]
    {
        rows.push(work.read(case, kind, reads, durability.name())?);
    }
    rows.push(work.compact("compact", work.live, durability.name())?);
    work.delete()?;
    rows.push(work.compact("delete", n, durability.name())?);
    Ok(rows)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Uniform,
    Recent,
    Miss,
}

struct Work<'a> {
    db: &'a Database,
    table: &'a Table,
    records: Records,
    /// The number of records that exist; they are numbered from 0.
    live: u64,
    random: Random,
    /// The database's memory, in bytes.
    memory: usize,
}

impl Work<'_> {
    fn load(&mut self, n: u64, durability: &'static str) -> Outcome<Row> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let (mut all, mut own, mut longest) = (latencies(), latencies(), vec![0; SLOTS as usize]);
        let (mut own_time, mut over_live, mut runs) = (OwnTime::start(), Vec::new(), Vec::new());
        let (mut most_over_live, mut debts, mut most_runs) = (0.0_f64, Vec::new(), 0);
        let mut meter = Meter::start(Some(self.db))?;
        for turn in 0..n {
            let is_new = self.live == 0 || !self.random.chance(1, 10);
            let record = if is_new { self.live } else { self.random.below(self.live) };
            self.records.key(record, &mut key);
            self.records.value(record, &mut value);
            self.live += u64::from(is_new);
            let began = Instant::now();
            self.db.put(self.table, &key, &value)?;
            let took_ns = began.elapsed().as_nanos() as u64;
            all.saturating_record(took_ns);
            own.saturating_record(own_time.subtract_waits(took_ns));
            let slot = (turn * SLOTS / n) as usize;
            longest[slot] = took_ns.max(longest[slot]);
            if (turn + 1) % n.div_ceil(SLOTS) == 0 {
                let stats = self.db.stats()?;
                if self.live * self.records.record_bytes() as u64 > self.memory as u64 {
                    most_over_live = most_over_live.max(self.over_live(&stats));
                }
                over_live.push((self.over_live(&stats) * 1000.0) as u64);
                runs.push(stats.stacked_runs);
                most_runs = most_runs.max(stats.stacked_runs);
                debts.push(debt(&stats));
            }
        }
        let usage = meter.lap()?;
        let stats = self.db.stats()?;
        let put_bytes = n * self.records.record_bytes() as u64;
        let written = usage.write_call_bytes.unwrap_or(0) + stats.log_appended_bytes;
        let row = quantiles(Row::new(NAME, "load", durability, n, usage), &all, "put");
        let mut row = quantiles(row, &own, "own_put")
            .with("puts_over_10_ms", all.count_between(10_000_000, u64::MAX))
            .with("own_puts_over_10_ms", own.count_between(10_000_000, u64::MAX));
        for cause in [WaitCause::Debt, WaitCause::MemoryFull, WaitCause::LogRoom, WaitCause::CommitQueue] {
            row = row.with(format!("{}_max_ns", cause.name()), stats.latencies.get(cause).max_ns);
        }
        Ok(row
            .with("put_bytes", put_bytes)
            .with("write_amplification", written as f64 / put_bytes as f64)
            .with("space_over_live_max", most_over_live)
            .with("debt_third_permille", mean_of_tenth(&debts, debts.len() / 3))
            .with("debt_end_permille", mean_of_tenth(&debts, debts.len()))
            .with("runs", stats.stacked_runs)
            .with("runs_max", most_runs)
            .with("checkpoints", stats.checkpoints)
            .over_time("put_longest_ns", longest)
            .over_time("space_over_live_permille", over_live)
            .over_time("runs_over_time", runs)
            .over_time("debt_permille", debts))
    }

    fn read(&mut self, case: &str, kind: Kind, reads: u64, durability: &'static str) -> Outcome<Row> {
        let snapshot = self.db.snapshot()?;
        let (mut key, mut all) = (Vec::new(), latencies());
        let runs = self.db.stats()?.stacked_runs;
        let faults_before = self.db.stats()?.pool_faults;
        let mut meter = Meter::start(Some(self.db))?;
        for _ in 0..reads {
            let record = match kind {
                Kind::Recent if self.random.chance(4, 5) => {
                    let newest = (self.live / 10).max(1);
                    self.live - 1 - self.random.below(newest)
                }
                Kind::Uniform | Kind::Recent => self.random.below(self.live),
                Kind::Miss => self.live + self.random.below(self.live),
            };
            self.records.key(record, &mut key);
            let began = Instant::now();
            let found =
                snapshot.get_with(self.table, &key, |value| self.records.is_value_of(record, value))?;
            all.saturating_record(began.elapsed().as_nanos() as u64);
            let expected = (kind != Kind::Miss).then_some(true);
            ensure(found == expected, || format!("the answer for record {record} is wrong"))?;
        }
        let usage = meter.lap()?;
        let faults = self.db.stats()?.pool_faults - faults_before;
        let row = quantiles(Row::new(NAME, case, durability, reads, usage), &all, "get");
        Ok(row.with("runs", runs).with("pool_faults", faults))
    }

    fn compact(&self, case: &str, ops: u64, durability: &'static str) -> Outcome<Row> {
        let mut meter = Meter::start(Some(self.db))?;
        self.db.compact(|_| {})?;
        let usage = meter.lap()?;
        let stats = self.db.stats()?;
        Ok(Row::new(NAME, case, durability, ops, usage)
            .with("file_bytes", stats.data_file_bytes + stats.log_file_bytes)
            .with("space_over_live_end", self.over_live(&stats))
            .with("runs", stats.stacked_runs))
    }

    fn delete(&mut self) -> Outcome<()> {
        let mut key = Vec::new();
        let mut next = 0;
        while next < self.live {
            let end = self.live.min(next + BATCH_ROWS);
            self.db.write(|tx| {
                (next..end).try_for_each(|record| {
                    self.records.key(record, &mut key);
                    tx.delete(self.table, &key)
                })
            })?;
            next = end;
        }
        self.live = 0;
        Ok(())
    }

    /// Returns the size of the files divided by the live bytes.
    fn over_live(&self, stats: &Stats) -> f64 {
        let live_bytes = self.live * self.records.record_bytes() as u64;
        (stats.data_file_bytes + stats.log_file_bytes - stats.data_hole_bytes) as f64
            / live_bytes.max(1) as f64
    }
}

/// Returns the largest debt.
fn debt(stats: &Stats) -> u64 {
    stats.pacing.debt_permille.iter().copied().max().unwrap_or(0)
}

/// Returns the mean of the tenth of `debts` that ends at `end`. Within a checkpoint, debt rises and falls.
fn mean_of_tenth(debts: &[u64], end: usize) -> f64 {
    let tenth = &debts[end - end.min(debts.len() / 10)..end];
    tenth.iter().sum::<u64>() as f64 / tenth.len().max(1) as f64
}

fn quantiles(row: Row, all: &Histogram<u64>, what: &str) -> Row {
    row.with(format!("{what}_p50_ns"), all.value_at_quantile(0.5))
        .with(format!("{what}_p99_ns"), all.value_at_quantile(0.99))
        .with(format!("{what}_p999_ns"), all.value_at_quantile(0.999))
        .with(format!("{what}_max_ns"), all.max())
}
