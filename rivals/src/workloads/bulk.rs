//! `bulk`: one large transaction of random keys, committed durably; then what a get and a record of a scan cost. Small
//! records, so that it shows, at ten and a hundred times the size, how each cost grows.

use super::{Job, verify};
use crate::engine::{Outcome, Session, ensure};
use crate::measure::{Row, Stretch};
use crate::records::{Random, permutation};

pub(super) fn run(job: &Job<'_>) -> Outcome<Vec<Row>> {
    let n = job.scaled(1_000_000, 1000);
    let keys = permutation(n, 1);
    let mut session = job.engine.session()?;
    let stretch = Stretch::start();
    session.write(&mut |tx| {
        for key in &keys {
            let fresh = tx.insert(&key.to_be_bytes(), &key.to_le_bytes())?;
            ensure(fresh, || format!("{key} is said to be there already"))?;
        }
        Ok(())
    })?;
    let seconds = stretch.seconds();
    job.engine.settle()?;
    let mut row = stretch.row("bulk", "one transaction", 1, n, seconds);
    row.settled_seconds = Some(stretch.seconds());

    session.write(&mut |tx| {
        let fresh = tx.insert(&keys[0].to_be_bytes(), b"twice")?;
        ensure(!fresh, || "a duplicate was taken".into())
    })?;
    let mut next = 0u64;
    verify(&mut *session, n, &mut |key, value| {
        let right = key == next.to_be_bytes() && value == next.to_le_bytes();
        next += 1;
        right
    })?;
    Ok(vec![row.space(&job.config.dir, n * 16), gets(job, &mut *session, n)?, scan(&mut *session, n)?])
}

/// Random gets, each in a transaction of its own: as many at every size.
fn gets(job: &Job<'_>, session: &mut dyn Session, n: u64) -> Outcome<Row> {
    let gets = if job.scale < 1.0 { n } else { 1_000_000 };
    let mut random = Random::seeded(2);
    let stretch = Stretch::start();
    for _ in 0..gets {
        let key = random.below(n);
        let mut right = false;
        session.read(&mut |reader| {
            reader.get(&key.to_be_bytes(), &mut |value| right = value == key.to_le_bytes())?;
            Ok(())
        })?;
        ensure(right, || format!("{key} is not there, or has a wrong value"))?;
    }
    Ok(stretch.row("bulk", "begin + get + end", 1, gets, stretch.seconds()))
}

fn scan(session: &mut dyn Session, n: u64) -> Outcome<Row> {
    let mut sum = 0;
    let stretch = Stretch::start();
    session.read(&mut |reader| {
        let seen = reader.scan(&[], usize::MAX, &mut |key, value| sum += key.len() + value.len())?;
        ensure(seen as u64 == n, || format!("{seen} records instead of {n}"))
    })?;
    ensure(sum as u64 == n * 16, || format!("{sum} bytes instead of {}", n * 16))?;
    Ok(stretch.row("bulk", "full scan", 1, n, stretch.seconds()))
}
