//! `write-throughput`: concurrent writers.
//!
//! * Each thread commits 1,000 (`--iterations`) transactions of 100 (`--batch-size`) inserts. Ids are disjoint and
//!   ascend on each thread; a key is an id, 8 bytes big-endian, its value `data_<id>`. Commits sync.
//!   `--api rows`: the same as rows of a typed table. `--api sql`: through SQL; a handle is then a connection, and its
//!   statement is prepared again for each transaction.
//! * `per-transaction`: a handle for each transaction, 1,000 of them open at once on each thread. They are opened in a
//!   row, each with its transaction begun, and then used one after another. Opening is inside the timer.
//! * `long-lived`: one handle for each thread.
//! * `--work-us`: other work on the processor inside each transaction.
//! * `--long`: 10,000,000 rows across at least 10 checkpoints.
//!
//! The latency of a transaction counts from its begin (for handles that were opened before: from its first insert) to
//! its acknowledgement. The worst second is the one with the fewest rows among the whole seconds.

use crate::bed::Bed;
use crate::measure::{Meter, latencies, spin, together};
use crate::records::check_ascending;
use crate::report::Row;
use crate::settings::{Connections, Durability, Settings};
use crate::sink::Sink;
use crate::{Outcome, alloc};
use hdrhistogram::Histogram;
use pando::{Database, Transaction};
use std::fmt::Write;
use std::time::{Duration, Instant};

pub(super) const NAME: &str = "write-throughput";
const ITERATIONS: u64 = 1000;
const BATCH_ROWS: u64 = 100;
const LONG_ROWS: u64 = 10_000_000;
/// The number of seals of a long run: with one checkpoint each, and a few that absorb two, at least 10 checkpoints.
const LONG_SEALS: u64 = 16;
const OPEN_AT_ONCE: u64 = 1000;

/// The work of every thread.
#[derive(Clone, Copy)]
struct Plan {
    threads: usize,
    /// The number of transactions of a thread.
    transactions: u64,
    batch: u64,
    work: Duration,
    connections: Connections,
}

impl Plan {
    fn rows_of_thread(&self) -> u64 {
        self.transactions * self.batch
    }

    fn rows(&self) -> u64 {
        self.rows_of_thread() * self.threads as u64
    }
}

pub(super) fn run(settings: &Settings) -> Outcome<Vec<Row>> {
    let forms = match (settings.connections, settings.long) {
        (Some(form), _) => vec![form],
        (None, true) => vec![Connections::LongLived],
        (None, false) => vec![Connections::PerTransaction, Connections::LongLived],
    };
    let batch = settings.batch_size.unwrap_or(BATCH_ROWS);
    let mut rows = Vec::new();
    for connections in forms {
        for &threads in settings.threads.as_deref().unwrap_or(&[1]) {
            let transactions = match settings.long {
                true => settings.n.unwrap_or(LONG_ROWS).div_ceil(batch * threads as u64),
                false => settings.iterations.unwrap_or(ITERATIONS),
            };
            let work = Duration::from_micros(settings.work_us);
            rows.push(measure(settings, Plan { threads, transactions, batch, work, connections })?);
        }
    }
    Ok(rows)
}

fn measure(settings: &Settings, plan: Plan) -> Outcome<Row> {
    let durability = settings.durability.unwrap_or(Durability::Sync);
    let bed = Bed::with(settings, durability, |builder| match settings.long {
        true => builder.checkpoint_records((plan.rows() / LONG_SEALS).max(1)),
        false => builder,
    })?;
    let sink = Sink::new(&bed.db, settings, true)?;
    let mut meter = Meter::start(Some(&bed.db))?;
    let began = Instant::now();
    let client = |thread| Client::new(plan, thread, &bed.db, &sink, began).run();
    let (seconds, tallies) = together(plan.threads, client)?;
    let mut usage = meter.lap()?;
    usage.seconds = seconds;
    let stats = bed.db.stats()?;
    let make = |id: u64, key: &mut Vec<u8>, value: &mut Vec<u8>| {
        sink.record(id, &id.to_be_bytes(), Some(&format!("data_{id}")), key, value);
    };
    check_ascending(plan.rows(), &mut bed.db.snapshot()?.cursor(sink.table(), ..)?, make)?;

    let total = Tally::sum(tallies)?;
    let commits = plan.transactions * plan.threads as u64;
    let form = match plan.connections {
        Connections::PerTransaction => "per-transaction",
        Connections::LongLived => "long-lived",
    };
    let case = if settings.work_us == 0 {
        form.to_owned()
    } else {
        format!("{form}, {} us of work", settings.work_us)
    };
    let mut row =
        Row::new(NAME, sink.case(&case), durability.name(), plan.rows(), usage).threads(plan.threads);
    row = row.with("rows_per_second", (plan.rows() as f64 / seconds) as u64).with("commits", commits);
    if let Some(flushes) = usage.flushes.filter(|&flushes| flushes > 0) {
        row = row.with("commits_per_flush", commits as f64 / flushes as f64);
    }
    if let Some(worst) = total.worst_second(seconds) {
        row = row.with("worst_second_rows", worst);
    }
    row = total.latencies_into(row).with("checkpoints", stats.checkpoints).with("conflicts", stats.conflicts);
    // The last second is incomplete, and would look like a stall.
    let whole_seconds = total.rows_by_second.iter().take(seconds as usize).copied().collect();
    row = row.over_time("rows_by_second", whole_seconds);
    if plan.connections == Connections::PerTransaction {
        row = row.with("open_ns", total.opening.as_nanos() as f64 / commits as f64);
    }
    Ok(match total.handle_bytes {
        Some(bytes) => row.with("bytes_per_handle", bytes as f64 / commits as f64),
        None => row,
    })
}

/// One thread's work.
struct Client<'a> {
    plan: Plan,
    db: &'a Database,
    sink: &'a Sink,
    began: Instant,
    next_id: u64,
    tally: Tally,
}

impl<'a> Client<'a> {
    fn new(plan: Plan, thread: usize, db: &'a Database, sink: &'a Sink, began: Instant) -> Self {
        let next_id = thread as u64 * plan.rows_of_thread();
        Client { plan, db, sink, began, next_id, tally: Tally::new() }
    }

    fn run(self) -> Outcome<Tally> {
        match self.sink {
            #[cfg(feature = "sql")]
            Sink::Sql(_, sql) => self.run_sql(sql),
            Sink::Bytes(_) | Sink::Rows(_) => self.run_handles(),
        }
    }

    fn run_handles(mut self) -> Outcome<Tally> {
        match self.plan.connections {
            Connections::LongLived => {
                let db = self.db.clone();
                for _ in 0..self.plan.transactions {
                    let began = Instant::now();
                    let tx = db.begin()?;
                    self.transact(tx, began)?;
                }
            }
            Connections::PerTransaction => {
                let mut left = self.plan.transactions;
                while left > 0 {
                    let wave = left.min(OPEN_AT_ONCE);
                    for (db, tx) in self.open(wave)? {
                        self.transact(tx, Instant::now())?;
                        drop(db);
                    }
                    left -= wave;
                }
            }
        }
        Ok(self.tally)
    }

    #[cfg(feature = "sql")]
    fn run_sql(mut self, sql: &sql::Sql) -> Outcome<Tally> {
        use crate::through_sql::{connect, run};
        // SQLite allocates connections with C's allocator, so their memory is not counted here.
        self.tally.handle_bytes = None;
        let mut left = self.plan.transactions;
        if self.plan.connections == Connections::LongLived {
            let connection = connect(sql)?;
            for _ in 0..left {
                let began = Instant::now();
                run(&connection, "BEGIN")?;
                self.transact_sql(&connection, began)?;
            }
            return Ok(self.tally);
        }
        while left > 0 {
            let wave = left.min(OPEN_AT_ONCE);
            let opening = Instant::now();
            let mut connections = Vec::with_capacity(wave as usize);
            for _ in 0..wave {
                let connection = connect(sql)?;
                run(&connection, "BEGIN")?;
                connections.push(connection);
            }
            self.tally.opening += opening.elapsed();
            for connection in connections {
                self.transact_sql(&connection, Instant::now())?;
            }
            left -= wave;
        }
        Ok(self.tally)
    }

    #[cfg(feature = "sql")]
    fn transact_sql(&mut self, connection: &sql::Connection, began: Instant) -> Outcome<()> {
        use crate::through_sql::{INSERT, insert, prepare, run};
        let mut statement = prepare(connection, INSERT)?;
        for id in self.next_id..self.next_id + self.plan.batch {
            insert(&mut statement, id, &format!("data_{id}"))?;
        }
        drop(statement);
        self.next_id += self.plan.batch;
        spin(self.plan.work);
        run(connection, "COMMIT")?;
        self.tally.committed(self.plan.batch, began.elapsed(), self.began.elapsed());
        Ok(())
    }

    /// Opens this many handles and begins a transaction on each.
    fn open(&mut self, wave: u64) -> Outcome<Vec<(Database, Transaction)>> {
        let mut handles = Vec::with_capacity(wave as usize);
        let before = alloc::counts();
        let opening = Instant::now();
        for _ in 0..wave {
            let db = self.db.clone();
            let tx = db.begin()?;
            handles.push((db, tx));
        }
        self.tally.opening += opening.elapsed();
        let held = (size_of::<(Database, Transaction)>() as u64) * wave;
        let allocated = alloc::counts().zip(before).map(|(after, before)| after.since(before).bytes);
        self.tally.handle_bytes = self.tally.handle_bytes.zip(allocated).map(|(sum, new)| sum + new + held);
        Ok(handles)
    }

    fn transact(&mut self, mut tx: Transaction, began: Instant) -> Outcome<()> {
        let mut value = String::with_capacity(32);
        for id in self.next_id..self.next_id + self.plan.batch {
            value.clear();
            // Writing to a string cannot fail.
            let _ = write!(value, "data_{id}");
            self.sink.insert(&mut tx, id, &id.to_be_bytes(), Some(&value))?;
        }
        self.next_id += self.plan.batch;
        spin(self.plan.work);
        tx.commit()?;
        self.tally.committed(self.plan.batch, began.elapsed(), self.began.elapsed());
        Ok(())
    }
}

/// The measurements of one thread, or of all.
struct Tally {
    latencies_ns: Histogram<u64>,
    rows_by_second: Vec<u64>,
    /// The memory of the handles that were opened, summed; `None` if allocations are not counted.
    handle_bytes: Option<u64>,
    /// The time of opening handles, summed.
    opening: Duration,
}

impl Tally {
    fn new() -> Self {
        let (handle_bytes, opening) = (Some(0), Duration::ZERO);
        Tally { latencies_ns: latencies(), rows_by_second: Vec::new(), handle_bytes, opening }
    }

    fn committed(&mut self, rows: u64, took: Duration, since_start: Duration) {
        self.latencies_ns.saturating_record(took.as_nanos() as u64);
        let second = since_start.as_secs() as usize;
        if self.rows_by_second.len() <= second {
            self.rows_by_second.resize(second + 1, 0);
        }
        self.rows_by_second[second] += rows;
    }

    fn sum(tallies: Vec<Tally>) -> Outcome<Tally> {
        let mut total = Tally::new();
        for tally in tallies {
            total.latencies_ns.add(&tally.latencies_ns).expect("all have the same bounds");
            let seconds = total.rows_by_second.len().max(tally.rows_by_second.len());
            total.rows_by_second.resize(seconds, 0);
            for (second, rows) in tally.rows_by_second.into_iter().enumerate() {
                total.rows_by_second[second] += rows;
            }
            total.handle_bytes = total.handle_bytes.zip(tally.handle_bytes).map(|(a, b)| a + b);
            total.opening += tally.opening;
        }
        total.handle_bytes = total.handle_bytes.filter(|&bytes| bytes > 0);
        Ok(total)
    }

    /// Returns the fewest rows in a whole second; `None` if the run was shorter than one.
    fn worst_second(&self, seconds: f64) -> Option<u64> {
        self.rows_by_second.iter().take(seconds as usize).min().copied()
    }

    fn latencies_into(&self, row: Row) -> Row {
        let at = |quantile| self.latencies_ns.value_at_quantile(quantile);
        row.with("p50_ns", at(0.5))
            .with("p99_ns", at(0.99))
            .with("p999_ns", at(0.999))
            .with("max_ns", self.latencies_ns.max())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_second_is_a_whole_one() {
        let mut tally = Tally::new();
        for (rows, at_ms) in [(10, 100), (10, 900), (5, 1500), (3, 2100)] {
            tally.committed(rows, Duration::from_millis(1), Duration::from_millis(at_ms));
        }
        assert_eq!(tally.worst_second(2.2), Some(5));
        assert_eq!(tally.worst_second(0.9), None);
        let mut other = Tally::new();
        other.committed(7, Duration::from_millis(1), Duration::from_millis(2500));
        let total = Tally::sum(vec![tally, other]).unwrap();
        assert_eq!(total.rows_by_second, [20, 5, 10]);
        assert_eq!(total.latencies_ns.len(), 5);
    }
}
