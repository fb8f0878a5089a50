//! A time series: measurements by sensor and time, the newest first, which live for a week.
//!
//! * The primary key is (day, sensor, time from new to old). "The last ten of a sensor today" reads ten rows.
//! * The table has a TTL: a row is gone a week after it was written, for every reader at once, and the merges that come
//!   give its room back. Nobody deletes anything.
//! * Keys begin with the day, so that all of a day is one range: what is to go before its time, goes in one range
//!   delete, which reads nothing, whatever the number of rows.

use pando::{Clock, Database, Result, Transaction};
use pando_rows::{KeyRange, Row, Table, Timestamp, Value};
use std::sync::atomic::Ordering;
use std::time::Duration;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(table = "measurements")]
struct Measurement {
    #[row(key)]
    day: u32,
    #[row(key)]
    sensor: String,
    #[row(key, descending)]
    at: Timestamp,
    celsius: f64,
}

const DAY_MICROS: i64 = 86_400_000_000;
const DAY_MS: u64 = 86_400_000;
const WEEK: Duration = Duration::from_millis(7 * DAY_MS);

fn measure(sensor: &str, micros: i64, celsius: f64) -> Measurement {
    let day = (micros / DAY_MICROS) as u32;
    Measurement { day, sensor: sensor.into(), at: Timestamp { micros }, celsius }
}

/// Drops a day before its time.
fn drop_day(tx: &mut Transaction, table: &Table<Measurement>, day: u32) -> Result<()> {
    table.dynamic().delete_range(tx, &KeyRange::prefix(&[Value::from(day)]))
}

/// Runs the recipe, and asserts what it shows.
pub fn main() -> Result<()> {
    // Ten days pass in a moment: the hand of the clock is ours. A program leaves the clock as it is.
    let (clock, hand) = Clock::set_by_hand(DAY_MS);
    let db = Database::builder().clock(clock).in_memory()?;
    let table = Table::<Measurement>::ensure_with_ttl(&db, WEEK)?;
    for day in 0..10 {
        db.write(|tx| {
            for minute in 0..1440 {
                let micros = day * DAY_MICROS + minute * 60_000_000;
                table.insert(tx, &measure("roof", micros, minute as f64 / 100.0))?;
                table.insert(tx, &measure("cellar", micros, 12.5))?;
            }
            Ok(())
        })?;
        hand.fetch_add(DAY_MS, Ordering::SeqCst);
    }
    let snapshot = db.snapshot()?;
    let last: Vec<Measurement> = table.prefix(&snapshot, (9u32, "roof"))?.take(10).collect::<Result<_>>()?;
    assert_eq!(last.first(), Some(&measure("roof", 9 * DAY_MICROS + 1439 * 60_000_000, 14.39)));
    assert!(last.is_sorted_by(|newer, older| newer.at > older.at));
    assert_eq!(table.range(&snapshot, ..)?.count(), 6 * 2 * 1440, "what is a week old is gone");

    db.write(|tx| drop_day(tx, &table, 5))?;
    let now = db.snapshot()?;
    assert_eq!(table.range(&now, ..)?.count(), 5 * 2 * 1440);
    assert_eq!(table.range(&snapshot, ..)?.count(), 6 * 2 * 1440, "an older snapshot still sees it");
    println!("4 of 10 days have expired, one was dropped");
    Ok(())
}
