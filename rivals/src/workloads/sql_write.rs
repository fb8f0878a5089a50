//! `sql-write`: tables that are written to by SQL, or by what comes to the same.
//!
//! * `btree-insert`: unique random ids, alone in their rows, in one transaction, and each in one of its own.
//! * `write-throughput`: transactions of 100 rows with disjoint ascending ids, over one connection a thread, and over a
//!   new one for each transaction, all of which are opened before the first is used. Opening is inside the timer.
//! * Opening: connections that are open at once, each used for one look-up.

use super::TableJob;
use crate::engine::{Durability, Outcome, ensure};
use crate::measure::{Row, Stretch, together};
use crate::records::permutation;
use crate::tables::{Base, Cell, Link, Table};
use std::time::Instant;

const NAME: &str = "sql-write";
const BATCH: i64 = 100;

pub(super) fn run(job: &TableJob<'_>, base: &dyn Base) -> Outcome<Vec<Row>> {
    let mut rows = inserts(job, base)?;
    rows.extend(throughput(job, base)?);
    rows.push(opening(job, base)?);
    Ok(rows)
}

fn sum(ids: std::ops::Range<i64>) -> i64 {
    (ids.end - ids.start) * (ids.start + ids.end - 1) / 2
}

fn is_all(link: &mut dyn Link, table: Table, n: i64) -> Outcome<()> {
    let found = link.count(table)?;
    ensure(found == (n as u64, sum(0..n)), || format!("{found:?} rows and ids instead of {n}"))
}

fn inserts(job: &TableJob<'_>, base: &dyn Base) -> Outcome<Vec<Row>> {
    let in_one = job.scaled(1_000_000, 1000);
    let each = match job.config.durability {
        Durability::Sync => job.scaled(2_000, 50),
        Durability::Buffered => job.scaled(100_000, 500),
    };
    let mut ids = permutation(in_one + each, 7).into_iter().map(|id| id as i64);
    let mut link = base.connect()?;
    let stretch = Stretch::start();
    link.create(Table::Ids)?;
    let mut rows = Vec::new();
    for (case, is_one, n) in [("btree-insert, one", true, in_one), ("btree-insert, each", false, each)] {
        let stretch = if is_one { &stretch } else { &Stretch::start() };
        let mut left = n;
        link.insert(Table::Ids, is_one, &mut |row| {
            let next = if left > 0 { ids.next() } else { None };
            left = left.saturating_sub(1);
            row.clear();
            row.extend(next.map(Cell::Int));
            next.is_some()
        })?;
        rows.push(stretch.row(NAME, case, 1, n, stretch.seconds()));
    }
    is_all(&mut *link, Table::Ids, (in_one + each) as i64)?;
    let mut again = Some(Cell::Int(0));
    let twice = link.insert(Table::Ids, false, &mut |row| {
        row.clear();
        row.extend(again.take());
        !row.is_empty()
    });
    ensure(twice.is_err(), || "an id was inserted twice".into())?;
    Ok(rows)
}

fn throughput(job: &TableJob<'_>, base: &dyn Base) -> Outcome<Vec<Row>> {
    let transactions = job.scaled(1000, 10) as i64;
    let mut rows = Vec::new();
    let mut next_id = 0;
    base.connect()?.create(Table::Entries)?;
    for connection_each in [false, true] {
        for threads in [1, 2, 4, 8] {
            let first_id = next_id;
            let work = |thread: usize, histogram: &mut hdrhistogram::Histogram<u64>| {
                let open = if connection_each { transactions } else { 1 };
                let mut links = (0..open).map(|_| base.connect()).collect::<Outcome<Vec<_>>>()?;
                let mut id = first_id + thread as i64 * transactions * BATCH;
                for transaction in 0..transactions {
                    let began = Instant::now();
                    let link = &mut links[(transaction % open) as usize];
                    insert_batch(&mut **link, id)?;
                    id += BATCH;
                    histogram.saturating_record(began.elapsed().as_nanos() as u64);
                }
                Ok(())
            };
            let stretch = Stretch::start();
            let (seconds, histogram) = together(threads, work)?;
            let ops = transactions * BATCH * threads as i64;
            next_id += ops;
            let writers = if threads == 1 { "1 writer".into() } else { format!("{threads} writers") };
            let form = if connection_each { ", a connection each" } else { "" };
            let row = stretch.row(NAME, &format!("{writers}{form}"), threads, ops as u64, seconds);
            rows.push(row.latencies(&histogram));
        }
    }
    is_all(&mut *base.connect()?, Table::Entries, next_id)?;
    Ok(rows)
}

fn insert_batch(link: &mut dyn Link, first: i64) -> Outcome<()> {
    let mut ids = first..first + BATCH;
    link.insert(Table::Entries, true, &mut |row| {
        row.clear();
        let Some(id) = ids.next() else { return false };
        row.extend([Cell::Int(id), Cell::Text(format!("data_{id}"))]);
        true
    })
}

fn opening(job: &TableJob<'_>, base: &dyn Base) -> Outcome<Row> {
    let n = job.scaled(1000, 20);
    let stretch = Stretch::start();
    let links = (0..n).map(|_| base.connect()).collect::<Outcome<Vec<_>>>()?;
    let row = stretch.row(NAME, "connections opened", 1, n, stretch.seconds());
    drop(links);
    Ok(row)
}
