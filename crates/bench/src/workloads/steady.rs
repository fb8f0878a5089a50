//! `steady`: one writer that never pauses, while a snapshot stays open, for minutes.
//!
//! * A budget of 64 MiB (`--memory`); n (500,000) records of 8 + 100 bytes (`--value-bytes`), loaded and checkpointed.
//!   A snapshot is opened and kept to the end; `max_pinned_space_bytes` allows it everything that it may see.
//! * For 600 s (`--seconds`) one thread puts a random record, one per transaction, unsynced (`--durability`).
//! * Each second yields a sample, which in `--json` is a figure over time, for `pando bench report`: rows, percentiles
//!   of a put, resident memory and the categories of the budget, blocks of the data file and how many of them wait for
//!   the snapshot, the log, the debt, and the time for which puts were throttled.
//! * `own_*_ns` is a put's time minus the time for which its thread was ready to run while others had the processors,
//!   as the kernel counts it. On a quiet machine it equals `*_ns`. It is read only for puts of 50 us and more.
//! * `bystander_*` is the delay with which a thread wakes that does nothing but sleep for a millisecond at a time: the
//!   effect of the machine and its other guests on any thread. A put that takes longer than the longest of these delays
//!   is due to the engine.
//! * `CAUSE_waits` and similar figures name the engine's own waits of the slow puts. What none of them explains is due
//!   to the processor or the kernel.
//!
//! The end of the run is checked: the snapshot still sees what it saw, the table has the last put values, the budget
//! was never exceeded, and resident memory grew by at most the budget and 32 MiB. The debt must not be more than at a
//! third of the run: the mean of the sixth before each point, to a twentieth of the ceiling, because debt rises and
//! falls with each merge.

use super::bulk;
use crate::bed::Bed;
use crate::measure::{Meter, OwnTime, latencies, resident_bytes};
use crate::records::Records;
use crate::report::Row;
use crate::settings::{Durability, Settings};
use crate::{Outcome, ensure};
use hdrhistogram::Histogram;
use pando::{Database, MemoryCategory, Snapshot, Table, WaitCause};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(super) const NAME: &str = "steady";
const MEMORY_BYTES: usize = 64 << 20;
const DEFAULT_N: u64 = 500_000;
const SECONDS: f64 = 600.0;
const BATCH_ROWS: u64 = 1000;
const KEY_BYTES: usize = 8;
const VALUE_BYTES: usize = 100;
/// The memory that a process may take in addition to its budget.
const SLACK_BYTES: u64 = 32 << 20;
/// The time for which the bystander sleeps at once, which is the longest sleep of the engine's writers.
const BYSTANDER_SLEEP: Duration = Duration::from_millis(1);
/// The accuracy with which two means of the debt can be compared, in thousandths of its ceiling.
const DEBT_SLACK_PERMILLE: f64 = 50.0;
/// The number of seconds below which the debt is not judged.
const DEBT_SAMPLES: usize = 60;

pub(super) fn run(settings: &Settings) -> Outcome<Vec<Row>> {
    let memory = settings.memory.unwrap_or(MEMORY_BYTES);
    let settings = &Settings { memory: Some(memory), ..settings.clone() };
    let n = settings.n.unwrap_or(DEFAULT_N);
    let time = Duration::from_secs_f64(settings.seconds.unwrap_or(SECONDS));
    let durability = settings.durability.unwrap_or(Durability::Buffered);
    let records = Records::new(settings.seed, KEY_BYTES, settings.value_bytes.unwrap_or(VALUE_BYTES));
    // The record under each key. It is allocated before memory is measured.
    let mut latest: Vec<u32> = vec![0; n as usize];
    let before = resident_bytes().unwrap_or(0);
    let bed = Bed::with(settings, durability, |builder| builder.max_pinned_space_bytes(u64::MAX))?;
    let table = bed.db.create_table("records", &settings.table_options())?;
    bulk::insert(&bed.db, &table, records, n, settings.batch_size.unwrap_or(BATCH_ROWS))?;
    bed.db.checkpoint()?;
    let snapshot = bed.db.snapshot()?;

    let mut meter = Meter::start(Some(&bed.db))?;
    let mut writer = Writer::new(&bed.db, &table, records, settings.seed);
    let stop = AtomicBool::new(false);
    let (written, samples, late) = thread::scope(|scope| {
        let sampler = scope.spawn(|| sample(&bed, &stop));
        let bystander = scope.spawn(|| stand_by(&stop));
        let written = writer.write(time, &mut latest);
        stop.store(true, Ordering::SeqCst);
        let samples = sampler.join().expect("the sampler does not panic");
        (written, samples, bystander.join().expect("nor does who sleeps"))
    });
    written?;
    let (samples, usage) = (samples?, meter.lap()?);

    check_snapshot(&snapshot, &table, records, n)?;
    drop(snapshot);
    check_latest(&bed.db, &table, records, &latest)?;
    let stats = bed.db.stats()?;
    let (peak, growth) =
        (stats.memory.peak_bytes, usage.peak_memory_bytes.unwrap_or(0).saturating_sub(before));
    ensure(stats.expired_readers == 0, || "the snapshot expired".into())?;
    ensure(peak <= memory as u64, || format!("{peak} bytes of a budget of {memory} were taken"))?;
    ensure(growth <= memory as u64 + SLACK_BYTES, || format!("memory grew by {growth} bytes"))?;
    let [third, end] = debts(&samples);
    let is_long = samples.len() >= DEBT_SAMPLES;
    ensure(!is_long || end <= third + DEBT_SLACK_PERMILLE, || {
        format!("debt rose from {third:.0} to {end:.0} permille")
    })?;

    let live_bytes = n * records.record_bytes() as u64;
    let causes = [WaitCause::Debt, WaitCause::MemoryFull, WaitCause::LogRoom, WaitCause::CommitQueue];
    let waits = causes.map(|cause| (cause.name(), stats.latencies.get(cause)));
    let mut row = Row::new(NAME, "put", durability.name(), writer.puts, usage);
    row = percentiles(row, &writer.wall, ["p50_ns", "p99_ns", "p999_ns", "max_ns"]);
    row = percentiles(row, &writer.own, ["own_p50_ns", "own_p99_ns", "own_p999_ns", "own_max_ns"]);
    let names = ["bystander_p50_ns", "bystander_p99_ns", "bystander_p999_ns", "bystander_max_ns"];
    row = percentiles(row, &late, names);
    row = row
        .with("bystander_over_10_ms", late.count_between(10_000_000, u64::MAX))
        .with("puts_over_10_ms", writer.wall.count_between(10_000_000, u64::MAX))
        .with("own_puts_over_10_ms", writer.own.count_between(10_000_000, u64::MAX))
        .with("ready_but_waiting_ns", writer.waited_ns)
        .with("growth_bytes", growth)
        .with("budget_peak_bytes", peak)
        .with("live_bytes", live_bytes)
        .with("blocks_max_bytes", samples.iter().map(|sample| sample.blocks_bytes).max().unwrap_or(0))
        .with("debt_third_permille", third)
        .with("debt_end_permille", end)
        .with("checkpoints", stats.checkpoints)
        .with("delayed_ns", stats.pacing.delays.iter().map(|delays| delays.total_ns).sum::<u64>());
    for (cause, latency) in waits {
        row = row
            .with(format!("{cause}_waits"), latency.count)
            .with(format!("{cause}_p99_ns"), latency.p99_ns)
            .with(format!("{cause}_max_ns"), latency.max_ns);
    }
    Ok(vec![over_time(row, &writer.seconds, &samples)])
}

fn percentiles(row: Row, histogram: &Histogram<u64>, names: [&'static str; 4]) -> Row {
    let [p50, p99, p999, max] = names;
    let at = |quantile| histogram.value_at_quantile(quantile);
    row.with(p50, at(0.5)).with(p99, at(0.99)).with(p999, at(0.999)).with(max, histogram.max())
}

/// The puts of one second.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    rows: u64,
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    max_ns: u64,
    own_max_ns: u64,
}

/// The thread that puts.
struct Writer<'a> {
    db: &'a Database,
    table: &'a Table,
    records: Records,
    random: base::env::Random,
    puts: u64,
    wall: Histogram<u64>,
    own: Histogram<u64>,
    waited_ns: u64,
    seconds: Vec<Second>,
}

impl<'a> Writer<'a> {
    fn new(db: &'a Database, table: &'a Table, records: Records, seed: u64) -> Self {
        let random = base::env::Random::seeded(seed ^ 0x5354_4541_4459);
        let (wall, own) = (latencies(), latencies());
        Writer { db, table, records, random, puts: 0, wall, own, waited_ns: 0, seconds: Vec::new() }
    }

    /// Puts for `time`. Afterwards record `latest[i]` is under key `i`; record *i* belongs to key *i* modulo their
    /// number.
    fn write(&mut self, time: Duration, latest: &mut [u32]) -> Outcome<()> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let (mut here, mut own_here) = (latencies(), latencies());
        let mut own_time = OwnTime::start();
        let (start, mut next_second) = (Instant::now(), Duration::from_secs(1));
        loop {
            let at = self.random.below(latest.len() as u64);
            latest[at as usize] = latest[at as usize].wrapping_add(1);
            self.records.key(at, &mut key);
            self.records.value(version(at, latest), &mut value);
            let began = Instant::now();
            let mut tx = self.db.begin()?;
            tx.put(self.table, &key, &value)?;
            tx.commit()?;
            let ended = Instant::now();
            let took_ns = (ended - began).as_nanos() as u64;
            here.saturating_record(took_ns);
            own_here.saturating_record(own_time.subtract_waits(took_ns));
            self.waited_ns = own_time.ready_ns;
            self.puts += 1;
            if ended - start >= next_second {
                self.end_second(&mut here, &mut own_here);
                next_second += Duration::from_secs(1);
                if ended - start >= time {
                    return Ok(());
                }
            }
        }
    }

    fn end_second(&mut self, here: &mut Histogram<u64>, own_here: &mut Histogram<u64>) {
        let at = |quantile| here.value_at_quantile(quantile);
        self.seconds.push(Second {
            rows: here.len(),
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: here.max(),
            own_max_ns: own_here.max(),
        });
        self.wall.add(&*here).expect("both have the same bounds");
        self.own.add(&*own_here).expect("both have the same bounds");
        here.reset();
        own_here.reset();
    }
}

/// Returns the number of the record whose value key `at` has.
fn version(at: u64, latest: &[u32]) -> u64 {
    at + latest.len() as u64 * u64::from(latest[at as usize])
}

/// The measurements of a second from outside.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    resident_bytes: u64,
    held_bytes: [u64; MemoryCategory::COUNT],
    blocks_bytes: u64,
    used_bytes: u64,
    waiting_bytes: u64,
    log_bytes: u64,
    debt_permille: u64,
    delayed_ns: u64,
}

fn sample(bed: &Bed, stop: &AtomicBool) -> Outcome<Vec<Sample>> {
    let (mut samples, mut next) = (Vec::new(), Instant::now() + Duration::from_secs(1));
    while !stop.load(Ordering::SeqCst) {
        thread::sleep(next.saturating_duration_since(Instant::now()).min(Duration::from_millis(50)));
        if Instant::now() < next {
            continue;
        }
        next += Duration::from_secs(1);
        let stats = bed.db.stats()?;
        samples.push(Sample {
            resident_bytes: resident_bytes().unwrap_or(0),
            held_bytes: MemoryCategory::ALL.map(|category| stats.memory.held.bytes(category) as u64),
            blocks_bytes: bed.room_of("data")?.block_bytes,
            used_bytes: stats.data_used_bytes,
            waiting_bytes: stats.data_retired_bytes,
            log_bytes: stats.log_file_bytes,
            debt_permille: stats.pacing.debt_permille.into_iter().max().unwrap_or(0),
            delayed_ns: stats.pacing.delays.iter().map(|delays| delays.total_ns).sum(),
        });
    }
    Ok(samples)
}

/// Measures the delay with which a thread wakes that only sleeps.
fn stand_by(stop: &AtomicBool) -> Histogram<u64> {
    let mut late = latencies();
    while !stop.load(Ordering::SeqCst) {
        let began = Instant::now();
        io::precise_sleep(BYSTANDER_SLEEP);
        late.saturating_record(began.elapsed().saturating_sub(BYSTANDER_SLEEP).as_nanos() as u64);
    }
    late
}

/// Returns the mean debt of the sixth of the run before its third, and of its last sixth, in thousandths.
fn debts(samples: &[Sample]) -> [f64; 2] {
    let sixth = (samples.len() / 6).max(1);
    [samples.len().div_ceil(3), samples.len()].map(|end| {
        let part = &samples[end.saturating_sub(sixth)..end];
        part.iter().map(|sample| sample.debt_permille as f64).sum::<f64>() / part.len().max(1) as f64
    })
}

fn over_time(mut row: Row, seconds: &[Second], samples: &[Sample]) -> Row {
    let of_second = |get: fn(&Second) -> u64| seconds.iter().map(get).collect::<Vec<_>>();
    row = row
        .over_time("rows_by_second", of_second(|second| second.rows))
        .over_time("p50_by_second_ns", of_second(|second| second.p50_ns))
        .over_time("p99_by_second_ns", of_second(|second| second.p99_ns))
        .over_time("p999_by_second_ns", of_second(|second| second.p999_ns))
        .over_time("max_by_second_ns", of_second(|second| second.max_ns))
        .over_time("own_max_by_second_ns", of_second(|second| second.own_max_ns));
    let of_sample = |get: &dyn Fn(&Sample) -> u64| samples.iter().map(get).collect::<Vec<_>>();
    let held = |category: MemoryCategory| of_sample(&|sample| sample.held_bytes[category as usize]);
    row.over_time("resident_by_second_bytes", of_sample(&|sample| sample.resident_bytes))
        .over_time("pool_by_second_bytes", held(MemoryCategory::Pool))
        .over_time("memtables_by_second_bytes", held(MemoryCategory::Memtables))
        .over_time("checkpoint_by_second_bytes", held(MemoryCategory::Checkpoint))
        .over_time("blocks_by_second_bytes", of_sample(&|sample| sample.blocks_bytes))
        .over_time("used_by_second_bytes", of_sample(&|sample| sample.used_bytes))
        .over_time("waiting_by_second_bytes", of_sample(&|sample| sample.waiting_bytes))
        .over_time("log_by_second_bytes", of_sample(&|sample| sample.log_bytes))
        .over_time("debt_by_second_permille", of_sample(&|sample| sample.debt_permille))
        .over_time("delayed_so_far_ns", of_sample(&|sample| sample.delayed_ns))
}

/// Checks that every record is the first of its key.
fn check_snapshot(snapshot: &Snapshot, table: &Table, records: Records, n: u64) -> Outcome<()> {
    records.check(n, &mut snapshot.cursor(table, ..)?)
}

/// Checks that every record is the last that was put under its key.
fn check_latest(db: &Database, table: &Table, records: Records, latest: &[u32]) -> Outcome<()> {
    let snapshot = db.snapshot()?;
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for at in 0..latest.len() as u64 {
        records.key(at, &mut key);
        records.value(version(at, latest), &mut value);
        let found = snapshot.get(table, &key)?;
        ensure(found.as_deref() == Some(&*value), || format!("record {at} is not what was put last"))?;
    }
    Ok(())
}
