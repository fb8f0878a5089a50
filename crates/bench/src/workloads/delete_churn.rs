//! `delete-churn`: inserts and deletes at a constant number of records, and the space that they take.
//!
//! * n (500,000) records, keys of 24 random bytes, values of 150, loaded and checkpointed. Then, in transactions of
//!   1000 (`--batch-size`), as many inserts of new records as deletes of the oldest, 3n (`--iterations`) of each.
//!   Keys are random, so both affect every page.
//! * `churn` is timed; its last checkpoint and the close are not.
//! * Space is the size of all files of the directory, divided by the bytes of the live keys and values.
//!   `space_over_live_max` uses the files' lengths during the run, after each transaction. `space_over_live_end` uses
//!   the disk's blocks after a checkpoint and an orderly close, as a backup tool or `du` would.

use super::bulk;
use crate::bed::Bed;
use crate::measure::Meter;
use crate::records::{Records, Scan};
use crate::report::Row;
use crate::settings::{Durability, Settings};
use crate::{Outcome, ensure};
use pando::{Database, Table};

pub(super) const NAME: &str = "delete-churn";
const DEFAULT_N: u64 = 500_000;
const BATCH_ROWS: u64 = 1000;
const TIMES: u64 = 3;

pub(super) fn run(settings: &Settings) -> Outcome<Vec<Row>> {
    let n = settings.n.unwrap_or(DEFAULT_N);
    let turns = settings.iterations.unwrap_or(n * TIMES);
    let batch = settings.batch_size.unwrap_or(BATCH_ROWS);
    let records = bulk::records(settings);
    let durability = settings.durability.unwrap_or(Durability::Buffered);
    let mut bed = Bed::new(settings, durability)?;
    let table = bed.db.create_table("records", &settings.table_options())?;
    bulk::insert(&bed.db, &table, records, n, batch)?;
    bed.db.checkpoint()?;

    let before = bed.db.stats()?.checkpoints;
    let mut meter = Meter::start(Some(&bed.db))?;
    let most_bytes = churn(&bed.db, &table, records, n, turns, batch)?;
    let usage = meter.lap()?;
    let checkpoints = bed.db.stats()?.checkpoints - before;

    bed.db.checkpoint()?;
    check(records, turns, n, &mut bed.db.snapshot()?.cursor(&table, ..)?)?;
    drop(table);
    let room = bed.closed_room()?;
    bed.reopen()?;
    let table = bed.db.table("records")?.expect("the load created it");
    check(records, turns, n, &mut bed.db.snapshot()?.cursor(&table, ..)?)?;

    let live_bytes = n * records.record_bytes() as u64;
    let over_live = |bytes: u64| bytes as f64 / live_bytes as f64;
    let row = Row::new(NAME, "churn", durability.name(), 2 * turns, usage);
    Ok(vec![
        row.with("live_bytes", live_bytes)
            .with("space_over_live_max", over_live(most_bytes))
            .with("space_over_live_end", over_live(room.block_bytes))
            .with("file_bytes", room.file_bytes)
            .with("checkpoints", checkpoints),
    ])
}

/// Inserts records `n..n + turns` and deletes `0..turns`. Returns the largest size of the files.
fn churn(db: &Database, table: &Table, records: Records, n: u64, turns: u64, batch: u64) -> Outcome<u64> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let (mut next, mut most_bytes) = (0, 0);
    while next < turns {
        let end = turns.min(next + batch);
        let mut tx = db.begin()?;
        for i in next..end {
            records.key(n + i, &mut key);
            records.value(n + i, &mut value);
            tx.insert(table, &key, &value)?;
            records.key(i, &mut key);
            tx.delete(table, &key)?;
        }
        tx.commit()?;
        let stats = db.stats()?;
        most_bytes = most_bytes.max(stats.data_file_bytes + stats.log_file_bytes);
        next = end;
    }
    Ok(most_bytes)
}

/// Checks that the scan has exactly the records `first..first + n`.
fn check(records: Records, first: u64, n: u64, scan: &mut dyn Scan) -> Outcome<()> {
    let (mut key, mut value, mut found) = (Vec::new(), Vec::new(), 0);
    while let Some((found_key, found_value)) = scan.step()? {
        let number = found_value.first_chunk().map_or(u64::MAX, |bytes| u64::from_be_bytes(*bytes));
        records.key(number, &mut key);
        records.value(number, &mut value);
        let right = (first..first + n).contains(&number) && found_key == key && found_value == value;
        ensure(right, || format!("no record {first}..{} has key {found_key:02x?}", first + n))?;
        found += 1;
    }
    ensure(found == n, || format!("{found} records instead of {n}"))
}
