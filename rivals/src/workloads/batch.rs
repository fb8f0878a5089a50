//! `batch100`: concurrent writers, transactions of 100 ascending inserts.
//!
//! Writers of more threads go on in the same database behind what is there: ids never repeat.

use super::{Job, verify};
use crate::engine::{Outcome, ensure};
use crate::measure::{Row, Stretch, together};
use std::io::Write;
use std::time::Instant;

const BATCH: u64 = 100;

pub(super) fn run(job: &Job<'_>) -> Outcome<Vec<Row>> {
    let transactions = job.scaled(1000, 10);
    let mut rows = Vec::new();
    let mut next_id = 0u64;
    for threads in [1, 2, 4, 8] {
        let first_id = next_id;
        let work = |thread: usize, histogram: &mut hdrhistogram::Histogram<u64>| {
            let mut session = job.engine.session()?;
            let mut value = Vec::new();
            let mut id = first_id + thread as u64 * transactions * BATCH;
            for _ in 0..transactions {
                let began = Instant::now();
                session.write(&mut |tx| {
                    for id in id..id + BATCH {
                        make(id, &mut value);
                        let fresh = tx.insert(&id.to_be_bytes(), &value)?;
                        ensure(fresh, || format!("{id} is said to be there already"))?;
                    }
                    Ok(())
                })?;
                id += BATCH;
                histogram.saturating_record(began.elapsed().as_nanos() as u64);
            }
            Ok(())
        };
        let stretch = Stretch::start();
        let (seconds, histogram) = together(threads, work)?;
        let ops = transactions * BATCH * threads as u64;
        next_id += ops;
        let case = if threads == 1 { "1 writer".into() } else { format!("{threads} writers") };
        rows.push(stretch.row("batch100", &case, threads, ops, seconds).latencies(&histogram));
    }
    let (mut next, mut wanted) = (0u64, Vec::new());
    verify(&mut *job.engine.session()?, next_id, &mut |key, value| {
        make(next, &mut wanted);
        let right = key == next.to_be_bytes() && value == wanted;
        next += 1;
        right
    })?;
    Ok(rows)
}

fn make(id: u64, value: &mut Vec<u8>) {
    value.clear();
    // Writing to a vector cannot fail.
    let _ = write!(value, "data_{id}");
}
