//! `single`: a transaction for each insert.

use super::{Job, verify_records};
use crate::engine::{Durability, Outcome, ensure};
use crate::measure::{Row, Stretch, latencies};
use crate::records::Records;
use std::time::Instant;

pub(super) fn run(job: &Job<'_>) -> Outcome<Vec<Row>> {
    let n = match job.config.durability {
        Durability::Sync => job.scaled(2000, 50),
        Durability::Buffered => job.scaled(200_000, 1000),
    };
    let records = Records { key_bytes: 16, value_bytes: 100 };
    let mut session = job.engine.session()?;
    let mut histogram = latencies();
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let stretch = Stretch::start();
    for i in 0..n {
        records.key(i, &mut key);
        records.value(i, 0, &mut value);
        let began = Instant::now();
        session.write(&mut |tx| {
            let fresh = tx.insert(&key, &value)?;
            ensure(fresh, || format!("record {i} is said to be there already"))
        })?;
        histogram.saturating_record(began.elapsed().as_nanos() as u64);
    }
    let seconds = stretch.seconds();
    let row = stretch.row("single", "a transaction an insert", 1, n, seconds).latencies(&histogram);
    verify_records(&mut *session, records, n)?;
    Ok(vec![row])
}
