//! Statements of SQL: 1,000 rows in pages, looked up, and changed in transactions of 100; and rows inserted with given
//! ids in transactions of 100.

use super::{BATCH, Bench};
use pando_bench::Outcome;
use pando_bench::through_sql::{INSERT, connect, create, prepare, run};
use sql::{Connection, Sql, Statement, ValueRef};
use std::hint::black_box;

/// The number of rows in pages.
const ROWS: i64 = 1_000;
const TEXT: &str = "a text of some forty bytes, all the same";

/// A connection, and the id of the next row.
pub struct Rows {
    connection: Connection,
    next: i64,
}

/// Creates the table, and inserts the rows that are in pages.
pub fn load_rows(bench: &mut Bench) -> Outcome<()> {
    drop(create(bench.db(), true)?);
    let mut rows = Rows { connection: connect(&Sql::new(bench.db().clone()))?, next: 0 };
    insert_rows(&mut rows, ROWS)?;
    bench.db().checkpoint()?;
    bench.rows = Some(rows);
    Ok(())
}

fn rows(bench: &mut Bench) -> &mut Rows {
    bench.rows.as_mut().expect("a warm-up creates the table")
}

fn execute(statement: &mut Statement<'_>, values: &[ValueRef<'_>]) -> Outcome<()> {
    let changed = statement.execute_lent(values).map_err(pando::Error::from)?;
    assert_eq!(changed, 1);
    Ok(())
}

/// Inserts rows after the last one.
fn insert_rows(rows: &mut Rows, count: i64) -> Outcome<()> {
    run(&rows.connection, "BEGIN IMMEDIATE")?;
    let mut statement = prepare(&rows.connection, INSERT)?;
    for id in rows.next..rows.next + count {
        execute(&mut statement, &[ValueRef::Integer(id), ValueRef::Text(TEXT.as_bytes())])?;
    }
    rows.next += count;
    run(&rows.connection, "COMMIT")
}

/// Changes some rows in one transaction, in the memory that one before has used.
fn update_rows(rows: &Rows, ids: impl Iterator<Item = i64>) -> Outcome<()> {
    run(&rows.connection, "BEGIN IMMEDIATE")?;
    let mut statement = prepare(&rows.connection, "UPDATE rows SET data = ?2 WHERE id = ?1")?;
    for id in ids {
        execute(&mut statement, &[ValueRef::Integer(id), ValueRef::Text(b"another text")])?;
    }
    run(&rows.connection, "COMMIT")
}

/// Updates as many rows as a measured transaction, once.
pub fn update_some(bench: &mut Bench) -> Outcome<()> {
    update_rows(rows(bench), ids(BATCH))
}

/// Inserts as many rows as a measured transaction, once.
pub fn insert_some(bench: &mut Bench) -> Outcome<()> {
    insert_rows(rows(bench), BATCH as i64)
}

#[inline(never)]
pub fn sql_insert(bench: &mut Bench, times: u64) -> Outcome<()> {
    let rows = rows(bench);
    (0..times / BATCH).try_for_each(|_| insert_rows(rows, BATCH as i64))
}

#[inline(never)]
pub fn sql_lookup(bench: &mut Bench, times: u64) -> Outcome<()> {
    let rows = rows(bench);
    let mut statement = prepare(&rows.connection, "SELECT data FROM rows WHERE id = ?1")?;
    for id in ids(times) {
        let parameters = [id.into()];
        let mut found = statement.query(&parameters).map_err(pando::Error::from)?;
        assert!(black_box(found.next().map_err(pando::Error::from)?).is_some());
    }
    Ok(())
}

#[inline(never)]
pub fn sql_update(bench: &mut Bench, times: u64) -> Outcome<()> {
    let rows = rows(bench);
    (0..times / BATCH).try_for_each(|batch| {
        let first = (batch * BATCH) as usize;
        update_rows(rows, ids(times).skip(first).take(BATCH as usize))
    })
}

/// Returns ids of rows in pages, none of them after its neighbour.
fn ids(times: u64) -> impl Iterator<Item = i64> {
    (0..times as i64).map(|at| at * 389 % ROWS)
}
