//! A table changes its layout while it is in use: a B+tree becomes an LSM tree, which takes random writes at less cost.
//! What is there is rewritten in the background; readers and writers see the same table all the time.
//!
//! Run it with `cargo run -p pando-db --example change_layout`.

use pando::{Database, Durability, Layout, Operations, Result, Table};
use std::thread;

const RECORDS: u32 = 20_000;

/// Events that come in no order.
fn key(number: u32) -> [u8; 4] {
    number.wrapping_mul(2_654_435_761).to_be_bytes()
}

fn write(db: &Database, events: &Table, numbers: std::ops::Range<u32>) -> Result<()> {
    for first in numbers.clone().step_by(1_000) {
        let batch = first..numbers.end.min(first + 1_000);
        db.write(|tx| {
            batch.clone().try_for_each(|number| tx.put(events, &key(number), &number.to_be_bytes()))
        })?;
    }
    Ok(())
}

/// Runs the example, and asserts what it shows.
pub fn main() -> Result<()> {
    let db = Database::builder().durability(Durability::Buffered).in_memory()?;
    let events = db.ensure_table("events")?;
    write(&db, &events, 0..RECORDS)?;
    println!("{} is a {:?} with {RECORDS} records", events.name(), events.layout());

    // What the engine would choose for a load of writes with a few reads, and what the change would cost.
    let load = Operations { gets: 1_000, moves: 1_000, writes: 10_000_000 };
    let advice = &db.advise(Some(load))?[0];
    println!(
        "for such a load, the advice is {:?}: a write costs {:.0} ns instead of {:.0} ns, and the change \
         writes {} bytes",
        advice.advised, advice.lsm.write_ns, advice.btree.write_ns, advice.switch_bytes
    );

    let before = db.snapshot()?;
    db.set_layout("events", Layout::Lsm)?;
    let events = db.ensure_table("events")?;
    assert_eq!(events.layout(), Layout::Lsm);

    // The change goes on in the background, beside a writer and readers.
    thread::scope(|scope| {
        let writer = scope.spawn(|| write(&db, &events, RECORDS..2 * RECORDS));
        for number in (0..RECORDS).step_by(97) {
            assert_eq!(db.get(&events, &key(number))?.as_deref(), Some(&number.to_be_bytes()[..]));
        }
        writer.join().expect("the writer does not panic")
    })?;

    // A program that wants to know when all is rewritten waits for it.
    db.settle(|| {})?;
    let snapshot = db.snapshot()?;
    let count = |snapshot: &pando::Snapshot| -> Result<usize> {
        snapshot.range(&events, ..)?.try_fold(0, |count, record| record.map(|_| count + 1))
    };
    println!("{} is an {:?} table with {} records", events.name(), events.layout(), count(&snapshot)?);
    assert_eq!(count(&snapshot)?, 2 * RECORDS as usize);
    assert_eq!(count(&before)?, RECORDS as usize, "an old snapshot sees what it saw");
    assert_eq!(db.check()?.orphan_units, 0);
    Ok(())
}
