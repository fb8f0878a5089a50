//! `point-get`: random reads by key.
//!
//! * n (1,000,000) records, keys of 24 random bytes, values of 150, checkpointed. Each thread holds one snapshot and
//!   reads records at random, 1,000,000 (`--iterations`) in all.
//! * `cold`: the database was just opened, and its pool is empty; the system's page cache is not touched. `warm`: the
//!   same reads again.
//! * `copy` is `get`, which returns a vector; `in place` is `get_with`; `absent` is `get_with` of keys that were never
//!   written.
//!
//! With `--memory` far below the size of the records, this is the larger-than-memory workload: every row has the peak.

use super::bulk;
use crate::measure::{Meter, together};
use crate::records::Records;
use crate::report::Row;
use crate::settings::Settings;
use crate::{Outcome, ensure};
use base::env::Random;
use pando::{Database, Table};

pub(super) const NAME: &str = "point-get";
const DEFAULT_N: u64 = 1_000_000;
const READS: u64 = 1_000_000;
const THREADS: [usize; 2] = [1, 2];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Copy,
    InPlace,
    Absent,
}

/// One pass of reads.
struct Pass<'a> {
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
    let records = bulk::records(settings);
    let (mut bed, table) = bulk::loaded(settings, records, n)?;
    let name = table.name().to_owned();
    let durability = bulk::load_durability(settings).name();
    let mut rows = Vec::new();
    for &threads in settings.threads.as_deref().unwrap_or(&THREADS) {
        for (kind, name_of_kind) in
            [(Kind::Copy, "copy"), (Kind::InPlace, "in place"), (Kind::Absent, "absent")]
        {
            bed.reopen()?;
            let table = bed.db.ensure_table(&name)?;
            let pass = Pass { db: &bed.db, table: &table, records, n, reads, seed: settings.seed };
            for heat in ["cold", "warm"] {
                let faults_before = bed.db.stats()?.pool_faults;
                let mut meter = Meter::start(Some(&bed.db))?;
                let (seconds, done) = together(threads, |thread| pass.read(kind, thread, threads))?;
                let mut usage = meter.lap()?;
                usage.seconds = seconds;
                let stats = bed.db.stats()?;
                let row =
                    Row::new(NAME, format!("{name_of_kind}, {heat}"), durability, done.iter().sum(), usage);
                rows.push(
                    row.threads(threads)
                        .with("record_bytes", n * records.record_bytes() as u64)
                        .with("pool_faults", stats.pool_faults - faults_before)
                        .with("pool_bytes", stats.pool_bytes),
                );
            }
        }
    }
    Ok(rows)
}

impl Pass<'_> {
    /// Does one thread's share of the reads, and returns how many that was.
    fn read(&self, kind: Kind, thread: usize, threads: usize) -> Outcome<u64> {
        let reads = self.reads.div_ceil(threads as u64);
        let snapshot = self.db.snapshot()?;
        let mut random = Random::seeded(self.seed ^ (thread as u64 + 1));
        let mut key = Vec::new();
        for _ in 0..reads {
            let i = random.below(self.n);
            self.records.key(if kind == Kind::Absent { self.n + i } else { i }, &mut key);
            let right = match kind {
                Kind::Copy => {
                    snapshot.get(self.table, &key)?.is_some_and(|value| self.records.is_value_of(i, &value))
                }
                Kind::InPlace => {
                    let right =
                        snapshot.get_with(self.table, &key, |value| self.records.is_value_of(i, value))?;
                    right == Some(true)
                }
                Kind::Absent => snapshot.get_with(self.table, &key, |_| ())?.is_none(),
            };
            ensure(right, || format!("the answer for record {i} is wrong"))?;
        }
        Ok(reads)
    }
}
