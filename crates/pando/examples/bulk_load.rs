//! Loads many records at once. They are written to their place in the tree directly, without a copy in the log or in
//! memory, and become visible all together. Records that come in the order of their keys are written once.
//!
//! Run it with `cargo run --release -p pando-db --example bulk_load`.

use pando::{Database, Error, ErrorKind, Result};
use std::time::Instant;

const RECORDS: u32 = 100_000;

/// A line of a file as a record: a key and a value, or the reason why there is none.
fn parsed(line: &str) -> Result<(Vec<u8>, Vec<u8>)> {
    let invalid = || Error::new(ErrorKind::Invalid, format!("{line:?} is not `number,name`"));
    let (number, name) = line.split_once(',').ok_or_else(invalid)?;
    let number: u32 = number.parse().map_err(|_| invalid())?;
    Ok((number.to_be_bytes().to_vec(), name.into()))
}

/// The number of records in a table.
fn count(db: &Database, name: &str) -> Result<usize> {
    let mut count = 0;
    if let Some(table) = db.table(name)? {
        for record in db.snapshot()?.range(&table, ..)? {
            record?;
            count += 1;
        }
    }
    Ok(count)
}

/// Runs the example, and asserts what it shows.
pub fn main() -> Result<()> {
    let dir = tempfile::tempdir().map_err(|error| Error::new(ErrorKind::Io, error.to_string()))?;
    // The memory may be a small part of the data: what does not fit is sorted on the disk.
    let db = Database::builder().memory_bytes(8 << 20).create(dir.path())?;
    let trees = db.ensure_table("trees")?;

    // What a file would have: any iterator of records is loaded.
    let lines = (0..RECORDS).map(|number| format!("{number},tree {number}"));
    let begun = Instant::now();
    let loaded = db.bulk_load(&trees, lines.map(|line| parsed(&line)))?;
    println!("{loaded} records were loaded in {:?}", begun.elapsed());
    assert_eq!(count(&db, "trees")?, RECORDS as usize);

    // In another order: they are sorted first. The last of several records with one key wins.
    let scattered = (0..RECORDS).map(|n| Ok((n.wrapping_mul(2_654_435_761).to_be_bytes(), "scattered")));
    let begun = Instant::now();
    let more = db.ensure_table("more")?;
    println!("{} in no order in {:?}", db.bulk_load(&more, scattered)?, begun.elapsed());

    // A load is one transaction: with a bad record in the middle, nothing is loaded.
    let bad = ["200000,elm", "no comma", "200001,oak"];
    let error = db.bulk_load(&trees, bad.map(parsed)).expect_err("the second line is bad");
    println!("refused: {error}");
    assert_eq!(count(&db, "trees")?, RECORDS as usize);

    // Part of a transaction, it is undone with it.
    let mut tx = db.begin()?;
    let log = tx.create_table("loads", &pando::TableOptions::default())?;
    tx.bulk_load(&trees, bad[..1].iter().map(|line| parsed(line)))?;
    tx.put(&log, b"elm", b"by hand")?;
    tx.commit()?;
    println!("{} records, and a note of the last load", count(&db, "trees")?);
    assert_eq!(db.get(&trees, &200_000_u32.to_be_bytes())?.as_deref(), Some(&b"elm"[..]));
    db.close()
}
