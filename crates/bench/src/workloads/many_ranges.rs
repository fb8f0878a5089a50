//! `many-ranges`: many small range deletes, as in a program that removes the records of a user or a session.
//!
//! * 10n records with ascending keys of 8 bytes and values of 50, in the memtable; then n (8,000) range deletes, each
//!   in a commit of its own, of 8 of every 10 keys.
//! * `delete`: these commits. `scan`: of the remaining records. `get`: 1,000 of all keys. `first`: the first steps of
//!   1,000 cursors. `checkpoint`: the one that merges everything.

use crate::bed::Bed;
use crate::measure::{Meter, Usage};
use crate::report::Row;
use crate::settings::{Durability, Settings};
use crate::{Outcome, ensure};
use pando::{Database, Table};

pub(super) const NAME: &str = "many-ranges";
const DEFAULT_N: u64 = 8_000;
const LOOKS: u64 = 1_000;
const BATCH: u64 = 100;

pub(super) fn run(settings: &Settings) -> Outcome<Vec<Row>> {
    let n = settings.n.unwrap_or(DEFAULT_N).max(1);
    let durability = settings.durability.unwrap_or(Durability::Buffered);
    let bed = Bed::new(settings, durability)?;
    let table = bed.db.create_table("records", &settings.table_options())?;
    for first in (0..10 * n).step_by(BATCH as usize) {
        let keys = first..(first + BATCH).min(10 * n);
        bed.db.write(|tx| keys.clone().try_for_each(|i| tx.put(&table, &key(i), &[1; 50])))?;
    }
    let timed = |work: &mut dyn FnMut() -> Outcome<()>| -> Outcome<Usage> {
        let mut meter = Meter::start(Some(&bed.db))?;
        work()?;
        meter.lap()
    };
    let row = |case: &str, ops: u64, usage: Usage| Row::new(NAME, case, durability.name(), ops, usage);
    let delete = |i| bed.db.write(|tx| tx.delete_range(&table, key(10 * i + 1)..key(10 * i + 9)));
    Ok(vec![
        row("delete", n, timed(&mut || Ok((0..n).try_for_each(delete)?))?),
        row("scan", 2 * n, timed(&mut || scan(&bed.db, &table, n))?),
        row("get", LOOKS, timed(&mut || get(&bed.db, &table, n))?),
        row("first", LOOKS, timed(&mut || first(&bed.db, &table, n))?),
        row("checkpoint", n, timed(&mut || Ok(bed.db.checkpoint()?))?),
        row("scan after", 2 * n, timed(&mut || scan(&bed.db, &table, n))?),
    ])
}

fn key(i: u64) -> [u8; 8] {
    i.to_be_bytes()
}

/// Returns whether record `i` remains.
fn is_left(i: u64) -> bool {
    matches!(i % 10, 0 | 9)
}

fn scan(db: &Database, table: &Table, n: u64) -> Outcome<()> {
    let snapshot = db.snapshot()?;
    let mut cursor = snapshot.cursor(table, ..)?;
    for i in (0..10 * n).filter(|i| is_left(*i)) {
        let right = cursor.next()?.is_some_and(|(found, _)| found == key(i));
        ensure(right, || format!("record {i} is not where it should be"))?;
    }
    ensure(cursor.next()?.is_none(), || "there are records that were deleted".to_owned())
}

fn get(db: &Database, table: &Table, n: u64) -> Outcome<()> {
    let snapshot = db.snapshot()?;
    for i in (0..LOOKS).map(|look| look * 7919 % (10 * n)) {
        let found = snapshot.get(table, &key(i))?.is_some();
        ensure(found == is_left(i), || format!("record {i} is there: {found}"))?;
    }
    Ok(())
}

fn first(db: &Database, table: &Table, n: u64) -> Outcome<()> {
    let snapshot = db.snapshot()?;
    for look in 0..LOOKS {
        let i = look % n * 10 + 1;
        let right = snapshot.cursor(table, key(i)..)?.next()?.is_some_and(|(found, _)| found == key(i + 8));
        ensure(right, || format!("what follows {i} is not record {}", i + 8))?;
    }
    Ok(())
}
