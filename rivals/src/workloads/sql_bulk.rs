//! `sql-bulk`: statements that read or change many of the people, each a transaction of its own over one connection,
//! right after one another, as a program runs them that imports and reshapes data. Rates are rows a second.

use super::TableJob;
use super::people::People;
use crate::engine::{Outcome, ensure};
use crate::measure::{Row, Stretch};
use crate::tables::{Base, Link};

const NAME: &str = "sql-bulk";
const TOWNS: u64 = 1000;
/// How often a query is asked; a change can be made once.
const TIMES: u64 = 5;

/// A statement that is measured.
struct Measured {
    case: &'static str,
    sql: &'static str,
    /// The query whose sum shows that it did what it should; `None`: it is a query itself.
    check: Option<&'static str>,
    /// The sum, of so many people.
    sum: fn(i64) -> i64,
}

const fn query(case: &'static str, sql: &'static str, sum: fn(i64) -> i64) -> Measured {
    Measured { case, sql, check: None, sum }
}

const fn change(case: &'static str, sql: &'static str, check: &'static str, sum: fn(i64) -> i64) -> Measured {
    Measured { case, sql, check: Some(check), sum }
}

/// Of `n` people, a multiple of 1,000, ids count from 0, the town is `id % 1000` and the age `id % 97`.
const STATEMENTS: &[Measured] = &[
    change(
        "make an index",
        "CREATE INDEX person_age ON person(age, id)",
        "SELECT count(*) FROM person WHERE age = 96",
        |n| n / 97,
    ),
    query("count", "SELECT count(*) FROM person", |n| n),
    query("sum", "SELECT sum(town) FROM person", |n| n / 1000 * 499_500),
    query("group by an index", "SELECT count(*) FROM person GROUP BY town", |n| n),
    query("group by an expression", "SELECT count(*) FROM person GROUP BY age % 7", |n| n),
    query("order by an index", "SELECT sum(town) FROM (SELECT town FROM person ORDER BY name)", |n| {
        n / 1000 * 499_500
    }),
    query(
        "join by primary key, in order",
        "SELECT count(*) FROM person a CROSS JOIN person b ON b.id = a.id",
        |n| n,
    ),
    query("join by an index", "SELECT count(*) FROM person a CROSS JOIN person b ON b.name = a.name", |n| n),
    query("join of 1,000 towns", "SELECT sum(t.id) FROM person p CROSS JOIN town t ON t.id = p.town", |n| {
        n / 1000 * 499_500
    }),
    query(
        "rows without another",
        "SELECT count(*) FROM person p WHERE NOT EXISTS (SELECT 1 FROM person q WHERE q.town = p.id)",
        |n| n - 1000,
    ),
    change(
        "insert a copy with a unique index",
        "INSERT INTO copy(id, name) SELECT id, name FROM person",
        "SELECT count(*) FROM copy",
        |n| n,
    ),
    change(
        "upsert all",
        "INSERT INTO copy(id, name) SELECT id, name FROM person WHERE true
             ON CONFLICT(id) DO UPDATE SET name = excluded.name || '.'",
        "SELECT count(*) FROM copy WHERE name LIKE '%.'",
        |n| n,
    ),
    change(
        "update all, an index",
        "UPDATE person SET town = town + 1",
        "SELECT sum(town) FROM person",
        |n| n / 1000 * 500_500,
    ),
    change(
        "update a tenth, no index",
        "UPDATE copy SET kind = 7 WHERE id % 10 = 0",
        "SELECT sum(kind) FROM copy",
        |n| n / 10 * 7,
    ),
    change("delete a tenth", "DELETE FROM person WHERE id % 10 = 1", "SELECT count(*) FROM person", |n| {
        n / 10 * 9
    }),
    change(
        "delete by an index",
        "DELETE FROM person WHERE town BETWEEN 101 AND 200",
        "SELECT count(*) FROM person",
        |n| n / 10 * 9 - n / 1000 * 90,
    ),
];

pub(super) fn run(job: &TableJob<'_>, base: &dyn Base) -> Outcome<Vec<Row>> {
    let people = People { count: job.scaled(200_000, 2000) / 1000 * 1000, towns: TOWNS };
    let mut link = base.connect()?;
    People::create(&mut *link)?;
    link.statement("CREATE TABLE copy(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind INTEGER)")?;
    people.insert(&mut *link)?;
    base.settle()?;
    STATEMENTS.iter().map(|statement| measure(&mut *link, statement, people.count)).collect()
}

fn measure(link: &mut dyn Link, measured: &Measured, people: u64) -> Outcome<Row> {
    let wanted = (measured.sum)(people as i64);
    let times = if measured.check.is_some() { 1 } else { TIMES };
    let mut found = 0;
    let stretch = Stretch::start();
    for _ in 0..times {
        found = link.statement(measured.sql)?;
    }
    let seconds = stretch.seconds();
    if let Some(check) = measured.check {
        found = link.statement(check)?;
    }
    ensure(found == wanted, || format!("{}: {found} instead of {wanted}", measured.case))?;
    Ok(stretch.row(NAME, measured.case, 1, times * people, seconds))
}
