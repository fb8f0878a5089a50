//! `scan`: all records in order.
//!
//! * n (1,000,000) records, keys of 24 random bytes, values of 150, checkpointed; read once before the timer.
//! * Forward and backward with a cursor, which reads each key and value.
//! * Again with 1% of the records newly written, so that they come from the memtable.

use super::bulk;
use crate::measure::Meter;
use crate::records::Records;
use crate::report::Row;
use crate::settings::Settings;
use crate::{Outcome, ensure};
use pando::{Database, Table};

pub(super) const NAME: &str = "scan";
const DEFAULT_N: u64 = 1_000_000;
/// One record in this number is written again.
const REWRITTEN_STEP: usize = 100;

pub(super) fn run(settings: &Settings) -> Outcome<Vec<Row>> {
    let n = settings.n.unwrap_or(DEFAULT_N);
    let records = bulk::records(settings);
    let (bed, table) = bulk::loaded(settings, records, n)?;
    let durability = bulk::load_durability(settings).name();
    let mut rows = Vec::new();
    for memtable in ["", ", 1% in the memtable"] {
        if !memtable.is_empty() {
            rewrite(&bed.db, &table, records, n)?;
        }
        for forward in [true, false] {
            let direction = if forward { "forward" } else { "backward" };
            let case = format!("{direction}{memtable}");
            let mut meter = Meter::start(Some(&bed.db))?;
            let bytes = scan(&bed.db, &table, n, forward)?;
            let row = Row::new(NAME, case, durability, n, meter.lap()?);
            let expected = n * records.record_bytes() as u64;
            ensure(bytes == expected, || format!("a scan saw {bytes} bytes of {expected}"))?;
            rows.push(row.with("memtable_bytes", bed.db.stats()?.memtable_bytes));
        }
    }
    records.check(n, &mut bed.db.snapshot()?.cursor(&table, ..)?)?;
    Ok(rows)
}

/// Writes one record in a hundred again, with its current value.
fn rewrite(db: &Database, table: &Table, records: Records, n: u64) -> Outcome<()> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let mut tx = db.begin()?;
    for i in (0..n).step_by(REWRITTEN_STEP) {
        records.key(i, &mut key);
        records.value(i, &mut value);
        tx.put(table, &key, &value)?;
    }
    tx.commit()?;
    Ok(())
}

/// Visits every record, which must be `n` and in order. Returns the bytes of keys and values.
fn scan(db: &Database, table: &Table, n: u64, forward: bool) -> Outcome<u64> {
    let snapshot = db.snapshot()?;
    let mut cursor = snapshot.cursor(table, ..)?;
    let (mut count, mut bytes, mut ordered) = (0, 0, true);
    // The first 8 bytes of a key, which no two records share.
    let mut last = None;
    while let Some((key, value)) = if forward { cursor.next()? } else { cursor.prev()? } {
        let head = key.first_chunk().map(|head| u64::from_be_bytes(*head));
        ordered &= last.is_none() || (if forward { last < head } else { last > head });
        last = head;
        count += 1;
        bytes += (key.len() + value.len()) as u64;
        std::hint::black_box(value.first());
    }
    ensure(count == n, || format!("a scan saw {count} records of {n}"))?;
    ensure(ordered, || "a scan was out of order".into())?;
    Ok(bytes)
}
