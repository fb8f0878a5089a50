//! `ceilings`: data larger than memory, phase by phase, and the memory of each phase.
//!
//! A budget of 32 MiB (`--memory`); records of 24 + 150 bytes (`--value-bytes`).
//! * `load`: 20 times the budget (`--n` records), keys at random, through `bulk_load`: sorted outside of memory.
//! * `puts`: 100,000 of them (or n) are put again, in transactions of 1,000 (`--batch-size`). Almost each changes a
//!   page of its own, which is read and written again. With little memory, pages of 4 KiB are the better choice.
//! * `one transaction`: 10,000,000 rows (`--rows`) of 8 + 8 bytes in one transaction, in neither ascending nor
//!   descending order.
//! * `recovery`: opening after an orderly close without a checkpoint, with the log as full as it became.
//! * `compact`: merges each LSM table into one run, and makes the file as short as possible.
//! * `check`: every checksum and every structural rule.
//! * `backup`: a full backup to a stream that is discarded.
//!
//! `growth_bytes` is the peak of resident memory during a phase minus the resident memory before the database was
//! opened. `scripts/ceilings` runs this in a cgroup of the budget and 32 MiB, in which a process that exceeds it is
//! killed.

use super::bulk;
use crate::bed::Bed;
use crate::measure::{Meter, Usage, resident_bytes};
use crate::records::{Records, check_ascending};
use crate::report::Row;
use crate::settings::{Durability, Settings};
use crate::{Outcome, ensure};
use pando::{BackupOptions, Database, Table};
use std::io;

pub(super) const NAME: &str = "ceilings";
const MEMORY_BYTES: usize = 32 << 20;
const TIMES_MEMORY: usize = 20;
const ROWS: u64 = 10_000_000;
const BATCH_ROWS: u64 = 1000;
const PUTS: u64 = 100_000;

pub(super) fn run(settings: &Settings) -> Outcome<Vec<Row>> {
    let memory = settings.memory.unwrap_or(MEMORY_BYTES);
    let settings = &Settings { memory: Some(memory), ..settings.clone() };
    let durability = settings.durability.unwrap_or(Durability::Buffered);
    let records = bulk::records(settings);
    let n = settings.n.unwrap_or((memory * TIMES_MEMORY / records.record_bytes()) as u64);
    let rows = settings.rows.unwrap_or(ROWS.min(n.saturating_mul(20)));
    let before = resident_bytes().unwrap_or(0);
    let mut done = Vec::new();
    let mut phase = |name: &str, ops: u64, usage: Usage, db: &Database| -> Outcome<()> {
        let growth = usage.peak_memory_bytes.unwrap_or(0).saturating_sub(before);
        let stats = db.stats()?;
        let row = Row::new(NAME, name, durability.name(), ops, usage);
        done.push(
            row.with("growth_bytes", growth)
                .with("budget_bytes", memory as u64)
                .with("data_file_bytes", stats.data_file_bytes)
                .with("log_file_bytes", stats.log_file_bytes),
        );
        Ok(())
    };

    let mut bed = Bed::new(settings, durability)?;
    let table = bed.db.create_table("records", &settings.table_options())?;
    let mut meter = Meter::start(Some(&bed.db))?;
    bulk::load(&bed.db, &table, records, n)?;
    bed.db.checkpoint()?;
    phase("load", n, meter.lap()?, &bed.db)?;

    let puts = n.min(PUTS);
    let mut meter = Meter::start(Some(&bed.db))?;
    put_again(&bed.db, &table, records, puts, settings.batch_size.unwrap_or(BATCH_ROWS))?;
    phase("puts", puts, meter.lap()?, &bed.db)?;

    let other = bed.db.create_table("rows", &settings.table_options())?;
    let mut meter = Meter::start(Some(&bed.db))?;
    one_transaction(&bed.db, &other, rows)?;
    phase("one transaction", rows, meter.lap()?, &bed.db)?;
    drop((table, other));

    let mut meter = Meter::start(None)?;
    bed.reopen()?;
    phase("recovery", puts, meter.lap()?, &bed.db)?;

    let mut meter = Meter::start(Some(&bed.db))?;
    bed.db.compact(|_| {})?;
    phase("compact", n + rows, meter.lap()?, &bed.db)?;

    let mut meter = Meter::start(Some(&bed.db))?;
    let report = bed.db.check()?;
    phase("check", n + rows, meter.lap()?, &bed.db)?;
    // The catalog has a row for each table.
    let wanted = n + rows + 2;
    ensure(report.records == wanted, || format!("{} records instead of {wanted}", report.records))?;

    let mut meter = Meter::start(Some(&bed.db))?;
    let backup = bed.db.backup(BackupOptions::default(), &mut io::sink())?;
    phase("backup", backup.pages, meter.lap()?, &bed.db)?;

    let (table, other) = (bed.db.ensure_table("records")?, bed.db.ensure_table("rows")?);
    let snapshot = bed.db.snapshot()?;
    records.check(n, &mut snapshot.cursor(&table, ..)?)?;
    check_ascending(rows, &mut snapshot.cursor(&other, ..)?, |i, key, value| {
        key.extend_from_slice(&i.to_be_bytes());
        value.extend_from_slice(&i.to_le_bytes());
    })?;
    Ok(done)
}

/// Puts records `0..puts` with their current values, `batch` in each transaction.
fn put_again(db: &Database, table: &Table, records: Records, puts: u64, batch: u64) -> Outcome<()> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for first in (0..puts).step_by(batch as usize) {
        let mut tx = db.begin()?;
        for i in first..puts.min(first + batch) {
            records.key(i, &mut key);
            records.value(i, &mut value);
            tx.put(table, &key, &value)?;
        }
        tx.commit()?;
    }
    Ok(())
}

/// Puts keys `0..rows`, each once, in steps that are coprime to their number.
fn one_transaction(db: &Database, table: &Table, rows: u64) -> Outcome<()> {
    /// Prime, so that it is coprime to every number that it does not divide.
    const STEP: u64 = 7_368_787;
    let step = if rows.is_multiple_of(STEP) { 1 } else { STEP };
    let mut tx = db.begin()?;
    let mut key = 0u64;
    for _ in 0..rows {
        tx.put(table, &key.to_be_bytes(), &key.to_le_bytes())?;
        key = (key + step) % rows;
    }
    tx.commit()?;
    Ok(())
}
