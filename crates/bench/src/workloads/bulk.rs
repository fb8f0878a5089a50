//! `bulk`: a load of records in random order.
//!
//! * n (1,000,000) records, keys of 24 random bytes, values of 150.
//! * `batches of 1000` (`--batch-size`), `one transaction`, and `bulk load`, which is one transaction through
//!   `bulk_load`, all in the same random order. `bulk load, ascending` has records of 8 + 150 bytes with ascending
//!   keys. Each has a second row that adds a checkpoint.
//! * Making a record is inside the timer, because keeping all records would cost the caches more. `make_ns` is its
//!   time.
//! * `editor`, with `--path editor`: one record at a time through the run's editor.

use super::cases::{cases, duplicate_step};
use crate::bed::{Bed, EditorBed, check_duplicates};
use crate::measure::Meter;
use crate::records::{Records, check_ascending};
use crate::report::Row;
use crate::settings::{Durability, Path, Settings};
use crate::{Outcome, ensure};
use pando::{Database, Table};
use std::hint::black_box;
use std::time::Instant;

pub(super) const NAME: &str = "bulk";
const DEFAULT_N: u64 = 1_000_000;
const BATCH_ROWS: u64 = 1000;

/// The bytes of a key, and the default bytes of a value.
const KEY_BYTES: usize = 24;
const VALUE_BYTES: usize = 150;

/// Returns the records of the settings, for this workload and those that read.
pub(super) fn records(settings: &Settings) -> Records {
    Records::new(settings.seed, KEY_BYTES, settings.value_bytes.unwrap_or(VALUE_BYTES))
}

pub(super) fn run(settings: &Settings) -> Outcome<Vec<Row>> {
    let n = settings.n.unwrap_or(DEFAULT_N);
    let records = records(settings);
    if settings.path == Some(Path::Editor) {
        return editor(settings, records, n);
    }
    let batch = settings.batch_size.unwrap_or(BATCH_ROWS);
    let in_batches = |rows| move |db: &Database, table: &Table| insert(db, table, records, n, rows);
    let mut rows = measure(settings, records, n, &format!("batches of {batch}"), in_batches(batch))?;
    rows.extend(measure(settings, records, n, "one transaction", in_batches(n))?);
    rows.extend(measure(settings, records, n, "bulk load", |db, table| load(db, table, records, n))?);
    rows.extend(ascending(settings, records, n)?);
    Ok(rows)
}

/// Loads records `0..n` with `bulk_load`.
pub(super) fn load(db: &Database, table: &Table, records: Records, n: u64) -> Outcome<()> {
    let made = (0..n).map(|i| {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        records.key(i, &mut key);
        records.value(i, &mut value);
        Ok((key, value))
    });
    let loaded = db.bulk_load(table, made)?;
    ensure(loaded == n, || format!("{loaded} records of {n} were loaded"))
}

/// Loads ascending keys, which go directly to their final places.
fn ascending(settings: &Settings, records: Records, n: u64) -> Outcome<Vec<Row>> {
    let durability = settings.durability.unwrap_or(Durability::Sync);
    let bed = Bed::new(settings, durability)?;
    let mut meter = Meter::start(Some(&bed.db))?;
    let table = bed.db.create_table("records", &settings.table_options())?;
    let made = (0..n).map(|i| {
        let mut value = Vec::new();
        records.value(i, &mut value);
        Ok((i.to_be_bytes(), value))
    });
    bed.db.bulk_load(&table, made)?;
    let committed = meter.lap()?;
    bed.db.checkpoint()?;
    let absorbed = meter.lap()?;
    check_ascending(n, &mut bed.db.snapshot()?.cursor(&table, ..)?, |i, key, value| {
        key.extend_from_slice(&i.to_be_bytes());
        records.value(i, value);
    })?;
    let laps = cases("bulk load, ascending").into_iter().zip([committed, absorbed]);
    Ok(laps.map(|(case, usage)| Row::new(NAME, case, durability.name(), n, usage)).collect())
}

/// Inserts records `0..n` into `table`, `batch` in each transaction.
pub(super) fn insert(db: &Database, table: &Table, records: Records, n: u64, batch: u64) -> Outcome<()> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let mut next = 0;
    while next < n {
        let end = n.min(next + batch);
        let mut tx = db.begin()?;
        for i in next..end {
            records.key(i, &mut key);
            records.value(i, &mut value);
            tx.insert(table, &key, &value)?;
        }
        tx.commit()?;
        next = end;
    }
    Ok(())
}

/// Creates a database with a checkpointed table of records `0..n`, for workloads that read.
pub(super) fn loaded(settings: &Settings, records: Records, n: u64) -> Outcome<(Bed, Table)> {
    let bed = Bed::new(settings, load_durability(settings))?;
    let table = bed.db.create_table("records", &settings.table_options())?;
    insert(&bed.db, &table, records, n, settings.batch_size.unwrap_or(BATCH_ROWS))?;
    bed.db.checkpoint()?;
    records.check(n, &mut bed.db.snapshot()?.cursor(&table, ..)?)?;
    Ok((bed, table))
}

/// Returns the durability of the load with which workloads that read begin.
pub(super) fn load_durability(settings: &Settings) -> Durability {
    settings.durability.unwrap_or(Durability::Buffered)
}

/// Returns the nanoseconds that making a record takes.
fn make_ns(records: Records, n: u64) -> f64 {
    const MOST: u64 = 100_000;
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let began = Instant::now();
    for i in 0..n.min(MOST) {
        records.key(i, &mut key);
        records.value(i, &mut value);
        black_box((&key, &value));
    }
    began.elapsed().as_nanos() as f64 / n.min(MOST) as f64
}

/// Returns some keys that exist.
fn sample(records: Records, n: u64) -> Vec<Vec<u8>> {
    let numbers = (0..n).step_by(duplicate_step(n as usize));
    numbers
        .map(|i| {
            let mut key = Vec::new();
            records.key(i, &mut key);
            key
        })
        .collect()
}

/// Measures `fill`, which puts records `0..n`, in a database of its own.
fn measure(
    settings: &Settings,
    records: Records,
    n: u64,
    name: &str,
    fill: impl FnOnce(&Database, &Table) -> Outcome<()>,
) -> Outcome<Vec<Row>> {
    let durability = settings.durability.unwrap_or(Durability::Sync);
    let bed = Bed::new(settings, durability)?;
    let mut meter = Meter::start(Some(&bed.db))?;
    let table = bed.db.create_table("records", &settings.table_options())?;
    fill(&bed.db, &table)?;
    let committed = meter.lap()?;
    bed.db.checkpoint()?;
    let absorbed = meter.lap()?;
    let stats = bed.db.stats()?;
    records.check(n, &mut bed.db.snapshot()?.cursor(&table, ..)?)?;
    check_duplicates(&bed.db, &table, sample(records, n).iter().map(|key| &key[..]))?;
    let make_ns = make_ns(records, n);
    let [without, with] = cases(name);
    let row = |case, usage| {
        let row = Row::new(NAME, case, durability.name(), n, usage);
        row.with("record_bytes", n * records.record_bytes() as u64).with("make_ns", make_ns)
    };
    Ok(vec![
        row(without, committed),
        row(with, absorbed)
            .with("data_file_bytes", stats.data_file_bytes)
            .with("checkpoints", stats.checkpoints)
            .edits(&stats.edits),
    ])
}

fn editor(settings: &Settings, records: Records, n: u64) -> Outcome<Vec<Row>> {
    let mut bed = EditorBed::new(settings)?;
    let loaded = bed.load(|editor| {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for i in 0..n {
            records.key(i, &mut key);
            records.value(i, &mut value);
            let inserted = editor.insert(&key, &value)?;
            ensure(inserted, || format!("record {i} was there before it was inserted"))?;
        }
        Ok(())
    })?;
    bed.check(loaded.run, |scan| records.check(n, scan))?;
    bed.check_duplicates(loaded.run, sample(records, n).iter().map(|key| &key[..]))?;
    let make_ns = make_ns(records, n);
    let laps = cases("editor").into_iter().zip([loaded.inserted, loaded.synced]);
    Ok(laps
        .map(|(case, usage)| {
            let row = Row::new(NAME, case, "none", n, usage);
            row.with("record_bytes", n * records.record_bytes() as u64)
                .with("make_ns", make_ns)
                .edits(&loaded.counters)
        })
        .collect())
}
