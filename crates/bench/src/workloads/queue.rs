//! `queue`: a table to which records are put at its end and from which they are taken at its head, so that its head
//! follows everything that was taken.
//!
//! * A queue of 100 records, keys of 8 bytes that ascend, values of 20. `pop`: n (50,000) transactions, each of which
//!   finds the first record, deletes it and puts one after the last. No checkpoint is requested meanwhile.
//! * `first`: n more records are put and merged, and all but the last deleted, each by a commit of its own; then, 1,000
//!   times, a snapshot and its first record. `last`: the same from the other end of a table of which the first remains.
//! * `dead_passed`: the deleted entries that cursors passed one by one, for each operation.

use crate::bed::Bed;
use crate::measure::Meter;
use crate::report::Row;
use crate::settings::{Durability, Settings};
use crate::{Outcome, ensure};
use pando::{Database, Table};

pub(super) const NAME: &str = "queue";
const DEFAULT_N: u64 = 50_000;
const LENGTH: u64 = 100;
const LOOKS: u64 = 1_000;
const BATCH_ROWS: u64 = 1_000;
const VALUE: [u8; 20] = [7; 20];

pub(super) fn run(settings: &Settings) -> Outcome<Vec<Row>> {
    let n = settings.n.unwrap_or(DEFAULT_N);
    let durability = settings.durability.unwrap_or(Durability::Buffered);
    let bed = Bed::new(settings, durability)?;
    let table = bed.db.create_table("queue", &settings.table_options())?;
    put(&bed.db, &table, 0, LENGTH)?;
    let mut rows = vec![measured(&bed.db, "pop", durability, n, &mut || pop(&bed.db, &table, n))?];
    for (case, kept) in [("first", n - 1), ("last", 0)] {
        let table = bed.db.create_table(case, &settings.table_options())?;
        put(&bed.db, &table, 0, n)?;
        bed.db.checkpoint()?;
        (0..n).filter(|i| *i != kept).try_for_each(|i| bed.db.delete(&table, &i.to_be_bytes()))?;
        let row = measured(&bed.db, case, durability, LOOKS, &mut || look(&bed.db, &table, kept))?;
        rows.push(row.with("deleted", n - 1));
    }
    Ok(rows)
}

fn measured(
    db: &Database,
    case: &str,
    durability: Durability,
    ops: u64,
    work: &mut dyn FnMut() -> Outcome<()>,
) -> Outcome<Row> {
    let before = db.stats()?.dead_passed;
    let mut meter = Meter::start(Some(db))?;
    work()?;
    let usage = meter.lap()?;
    let passed = (db.stats()?.dead_passed - before) as f64 / ops as f64;
    Ok(Row::new(NAME, case, durability.name(), ops, usage).with("dead_passed", passed))
}

fn put(db: &Database, table: &Table, from: u64, to: u64) -> Outcome<()> {
    for first in (from..to).step_by(BATCH_ROWS as usize) {
        let keys = first..to.min(first + BATCH_ROWS);
        db.write(|tx| keys.clone().try_for_each(|i| tx.put(table, &i.to_be_bytes(), &VALUE)))?;
    }
    Ok(())
}

/// Takes records `0..n`, one by one, and puts one after the last each time.
fn pop(db: &Database, table: &Table, n: u64) -> Outcome<()> {
    for i in 0..n {
        let taken = db.write(|tx| {
            let first = tx.cursor(table, ..)?.next()?.map(|(key, _)| key.to_vec()).unwrap_or_default();
            tx.delete(table, &first)?;
            tx.put(table, &(i + LENGTH).to_be_bytes(), &VALUE)?;
            Ok(first)
        })?;
        ensure(taken == i.to_be_bytes(), || format!("{taken:02x?} was taken as number {i}"))?;
    }
    Ok(())
}

/// Finds the one remaining record, from either end.
fn look(db: &Database, table: &Table, kept: u64) -> Outcome<()> {
    for _ in 0..LOOKS {
        let snapshot = db.snapshot()?;
        let mut cursor = snapshot.cursor(table, ..)?;
        let found = if kept == 0 { cursor.prev()? } else { cursor.next()? };
        let right = found.is_some_and(|(key, _)| key == kept.to_be_bytes());
        ensure(right, || format!("record {kept} is not where it should be"))?;
    }
    Ok(())
}
