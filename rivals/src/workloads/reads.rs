//! `reads`: what a loaded, settled table answers.

use super::{Job, load, verify_records};
use crate::engine::{Outcome, ensure};
use crate::measure::{Row, Stretch, together};
use crate::records::{Random, Records};

pub(super) fn run(job: &Job<'_>, records: Records, name: &str) -> Outcome<Vec<Row>> {
    let n = job.scaled(1_000_000, 2000);
    let live_bytes = n * (records.key_bytes + records.value_bytes) as u64;
    let mut session = job.engine.session()?;
    let mut rows = Vec::new();

    let stretch = Stretch::start();
    load(&mut *session, records, n)?;
    let seconds = stretch.seconds();
    job.engine.settle()?;
    let mut row = stretch.row(name, "load, random keys, 1,000 a transaction", 1, n, seconds);
    row.settled_seconds = Some(stretch.seconds());
    rows.push(row.space(&job.config.dir, live_bytes));
    verify_records(&mut *session, records, n)?;

    let begins = job.scaled(1_000_000, 1000);
    let stretch = Stretch::start();
    for _ in 0..begins {
        session.read(&mut |_| Ok(()))?;
    }
    rows.push(stretch.row(name, "begin + end", 1, begins, stretch.seconds()));

    let gets = job.scaled(500_000, 1000);
    for threads in [1, 2] {
        let stretch = Stretch::start();
        let (seconds, _) =
            together(threads, |thread, _| point_reads(job, gets, thread as u64 + 1, records, 0..n, true))?;
        rows.push(stretch.row(
            name,
            &format!("begin + get + end, {threads} thr."),
            threads,
            gets * threads as u64,
            seconds,
        ));
    }
    let stretch = Stretch::start();
    let (seconds, _) = together(1, |_, _| point_reads(job, gets, 9, records, n..2 * n, false))?;
    rows.push(stretch.row(name, "begin + miss + end", 1, gets, seconds));

    let stretch = Stretch::start();
    let mut sum = 0;
    session.read(&mut |reader| {
        let seen = reader.scan(&[], usize::MAX, &mut |key, value| sum += key.len() + value.len())?;
        ensure(seen as u64 == n, || format!("{seen} records instead of {n}"))
    })?;
    ensure(sum as u64 == live_bytes, || format!("{sum} bytes instead of {live_bytes}"))?;
    rows.push(stretch.row(name, "full scan", 1, n, stretch.seconds()));

    let ranges = job.scaled(20_000, 100);
    let mut random = Random::seeded(11);
    let mut key = Vec::new();
    let stretch = Stretch::start();
    for _ in 0..ranges {
        records.key(random.below(n), &mut key);
        session.read(&mut |reader| {
            let seen = reader.scan(&key, 100, &mut |_, value| sum += value.len())?;
            ensure(seen > 0, || "a range from a key that is there is empty".into())
        })?;
    }
    rows.push(stretch.row(name, "range of 100", 1, ranges, stretch.seconds()));
    Ok(rows)
}

/// Random gets among `numbers`, each in a transaction of its own.
pub(super) fn point_reads(
    job: &Job<'_>,
    gets: u64,
    seed: u64,
    records: Records,
    numbers: std::ops::Range<u64>,
    hit: bool,
) -> Outcome<()> {
    let mut session = job.engine.session()?;
    let mut random = Random::seeded(seed);
    let mut key = Vec::new();
    for _ in 0..gets {
        let i = numbers.start + random.below(numbers.end - numbers.start);
        records.key(i, &mut key);
        let mut right = true;
        session.read(&mut |reader| {
            let found = reader.get(&key, &mut |value| right = records.is_value_of(i, value))?;
            ensure(found == hit, || format!("record {i} is {}there", if found { "" } else { "not " }))
        })?;
        ensure(right, || format!("record {i} has a wrong value"))?;
    }
    Ok(())
}
