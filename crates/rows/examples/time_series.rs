//! A time series: measurements by sensor and time, the newest first, and old ones dropped for next to nothing.
//!
//! * The primary key is (day, sensor, time from new to old). "The last ten of a sensor today" reads ten rows.
//! * Keys begin with the day, so that all of an old day is one range: dropping it is one range delete, which reads
//!   nothing, whatever the number of rows. That is the table's time to live.

use pando::{Database, Result, Transaction};
use rows::{KeyRange, Row, Table, Timestamp, Value};
use std::ops::Bound;

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

fn measure(sensor: &str, micros: i64, celsius: f64) -> Measurement {
    let day = (micros / DAY_MICROS) as u32;
    Measurement { day, sensor: sensor.into(), at: Timestamp { micros }, celsius }
}

/// Drops all days before `first`.
fn expire(tx: &mut Transaction, table: &Table<Measurement>, first: u32) -> Result<()> {
    let day = [Value::from(first)];
    let before = KeyRange::between(Bound::Unbounded, Bound::Excluded(&day));
    table.dynamic().delete_range(tx, &before)
}

/// Runs the recipe, and asserts what it shows.
pub fn main() -> Result<()> {
    let db = Database::builder().in_memory()?;
    let table = Table::<Measurement>::open(&db)?;
    for day in 0..10 {
        db.write(|tx| {
            for minute in 0..1440 {
                let micros = day * DAY_MICROS + minute * 60_000_000;
                table.insert(tx, &measure("roof", micros, minute as f64 / 100.0))?;
                table.insert(tx, &measure("cellar", micros, 12.5))?;
            }
            Ok(())
        })?;
    }
    let snapshot = db.snapshot()?;
    let last: Vec<Measurement> = table.prefix(&snapshot, (9u32, "roof"))?.take(10).collect::<Result<_>>()?;
    assert_eq!(last.first(), Some(&measure("roof", 9 * DAY_MICROS + 1439 * 60_000_000, 14.39)));
    assert!(last.is_sorted_by(|newer, older| newer.at > older.at));

    db.write(|tx| expire(tx, &table, 7))?;
    let now = db.snapshot()?;
    assert_eq!(table.range(&now, ..)?.count(), 3 * 2 * 1440);
    assert_eq!(table.range(&snapshot, ..)?.count(), 10 * 2 * 1440, "an older snapshot still sees them");
    println!("7 of 10 days expired");
    Ok(())
}
