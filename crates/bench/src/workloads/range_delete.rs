//! `range-delete`: deletes half of all records by one range, and measures when their space is free again.
//!
//! * n (1,000,000) records with ascending keys of 8 bytes and values of 150, loaded and checkpointed.
//! * `commit`: one transaction that deletes the lower half by its range. `checkpoint`: the one that absorbs it, with
//!   the pages it read. `second checkpoint`: the next, with a single put.
//! * After each: the data file's length (`data_file_bytes`), its blocks on the disk (`block_bytes`), and what it
//!   uses (`data_used_bytes`).

use crate::bed::Bed;
use crate::measure::{Meter, Usage};
use crate::records::check_ascending;
use crate::report::Row;
use crate::settings::{Durability, Settings};
use crate::{Outcome, ensure};
use pando::{Database, Table};

pub(super) const NAME: &str = "range-delete";
const DEFAULT_N: u64 = 1_000_000;
const BATCH_ROWS: u64 = 1000;
const VALUE_BYTES: usize = 150;

pub(super) fn run(settings: &Settings) -> Outcome<Vec<Row>> {
    let n = settings.n.unwrap_or(DEFAULT_N);
    let half = n / 2;
    let value_bytes = settings.value_bytes.unwrap_or(VALUE_BYTES);
    let durability = settings.durability.unwrap_or(Durability::Sync);
    let bed = Bed::new(settings, durability)?;
    let table = bed.db.create_table("records", &settings.table_options())?;
    load(&bed.db, &table, n, settings.batch_size.unwrap_or(BATCH_ROWS), value_bytes)?;
    bed.db.checkpoint()?;

    let row = |case: &str, usage: Usage, faults: u64| -> Outcome<Row> {
        let (stats, room) = (bed.db.stats()?, bed.room_of("data")?);
        let row = Row::new(NAME, case, durability.name(), half.max(1), usage);
        Ok(row
            .with("ms", usage.seconds * 1e3)
            .with("pages_read", stats.pool_faults - faults)
            .with("data_file_bytes", stats.data_file_bytes)
            .with("block_bytes", room.block_bytes)
            .with("data_used_bytes", stats.data_used_bytes))
    };
    let mut rows = Vec::new();
    let timed = |work: &mut dyn FnMut() -> Outcome<()>| -> Outcome<(Usage, u64)> {
        let faults = bed.db.stats()?.pool_faults;
        let mut meter = Meter::start(Some(&bed.db))?;
        work()?;
        Ok((meter.lap()?, faults))
    };
    let (usage, faults) = timed(&mut || {
        let mut tx = bed.db.begin()?;
        tx.delete_range(&table, ..&half.to_be_bytes()[..])?;
        Ok(tx.commit().map(drop)?)
    })?;
    rows.push(row("commit", usage, faults)?);
    let (usage, faults) = timed(&mut || Ok(bed.db.checkpoint()?))?;
    rows.push(row("checkpoint", usage, faults)?);
    bed.db.put(&table, &n.to_be_bytes(), &value(n, value_bytes))?;
    let (usage, faults) = timed(&mut || Ok(bed.db.checkpoint()?))?;
    rows.push(row("second checkpoint", usage, faults)?);

    let snapshot = bed.db.snapshot()?;
    check_ascending(n + 1 - half, &mut snapshot.cursor(&table, ..)?, |i, key, wanted| {
        key.extend((half + i).to_be_bytes());
        wanted.extend(value(half + i, value_bytes));
    })?;
    let report = bed.db.check()?;
    ensure(report.orphan_units == 0, || format!("{} units are lost", report.orphan_units))?;
    Ok(rows)
}

fn load(db: &Database, table: &Table, n: u64, batch: u64, value_bytes: usize) -> Outcome<()> {
    let mut next = 0;
    while next < n {
        let end = n.min(next + batch);
        let mut tx = db.begin()?;
        for i in next..end {
            tx.put(table, &i.to_be_bytes(), &value(i, value_bytes))?;
        }
        tx.commit()?;
        next = end;
    }
    Ok(())
}

fn value(i: u64, bytes: usize) -> Vec<u8> {
    let mut value = i.to_be_bytes().repeat(bytes.div_ceil(8));
    value.truncate(bytes);
    value
}
