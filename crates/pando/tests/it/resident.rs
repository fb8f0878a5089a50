//! Reads that do not wait: what memory knows they say, for the rest they read nothing.

use pando::{Builder, Database, Resident, Result, Table};
use std::path::Path;

const RECORDS: u32 = 20_000;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn value(number: u32) -> Vec<u8> {
    vec![number as u8; 100]
}

fn options() -> Builder {
    Database::builder().page_bytes(4096).memory_bytes(8 << 20)
}

/// A database at `path` whose records, even keys alone, all lie in pages; closed.
fn filled(path: &Path) -> Result<()> {
    let db = options().create(path)?;
    let table = db.ensure_table("t")?;
    db.write(|tx| (0..RECORDS).try_for_each(|n| tx.put(&table, &key(2 * n), &value(n))))?;
    db.put(&table, b"long", &vec![7; 10_000])?;
    db.checkpoint()?;
    db.close()
}

fn ask(db: &Database, table: &Table, key: &[u8]) -> Result<Resident<Vec<u8>>> {
    db.snapshot()?.get_resident(table, key)
}

#[test]
fn what_is_not_in_memory_is_not_read() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path())?;
    let db = options().open(dir.path())?;
    let table = db.snapshot()?.table("t")?.expect("it was made");
    let before = db.stats()?.pool_faults;
    for n in (0..RECORDS).step_by(100) {
        assert_eq!(ask(&db, &table, &key(2 * n))?, Resident::WouldWait);
    }
    assert_eq!(db.stats()?.pool_faults, before, "nothing was read");

    for n in (0..RECORDS).step_by(100) {
        assert_eq!(db.get(&table, &key(2 * n))?, Some(value(n)));
        assert_eq!(ask(&db, &table, &key(2 * n))?, Resident::Found(value(n)));
        assert_eq!(ask(&db, &table, &key(2 * n + 1))?, Resident::Absent);
    }
    Ok(())
}

#[test]
fn a_long_value_would_have_to_be_read_and_what_was_just_written_would_not() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path())?;
    let db = options().open(dir.path())?;
    let table = db.snapshot()?.table("t")?.expect("it was made");
    assert_eq!(db.get(&table, b"long")?.map(|value| value.len()), Some(10_000));
    assert_eq!(ask(&db, &table, b"long")?, Resident::WouldWait);
    db.put(&table, b"long", b"short")?;
    assert_eq!(ask(&db, &table, b"long")?, Resident::Found(b"short".to_vec()));
    db.delete(&table, b"long")?;
    assert_eq!(ask(&db, &table, b"long")?, Resident::Absent);
    Ok(())
}

#[test]
fn a_change_of_the_catalog_is_looked_up_by_who_may_wait() -> Result<()> {
    let db = Database::builder().in_memory()?;
    let table = db.ensure_table("t")?;
    db.put(&table, b"k", b"v")?;
    assert_eq!(ask(&db, &table, b"k")?, Resident::Found(b"v".to_vec()));
    db.ensure_table("other")?;
    assert_eq!(ask(&db, &table, b"k")?, Resident::WouldWait);
    db.get(&table, b"k")?;
    assert_eq!(ask(&db, &table, b"k")?, Resident::Found(b"v".to_vec()));
    db.drop_table("t")?;
    assert_eq!(ask(&db, &table, b"k")?, Resident::WouldWait);
    assert_eq!(db.get(&table, b"k").unwrap_err().kind(), pando::ErrorKind::Missing);
    Ok(())
}
