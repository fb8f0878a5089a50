//! `larger` and `larger-cgroup`: twenty times the records that the caches hold. The cost of a put while merges run
//! beside it, the bytes written and kept, and the cost of gets and misses afterwards.

use super::reads::point_reads;
use super::{Job, verify_records};
use crate::engine::Outcome;
use crate::measure::{Row, Stretch, latencies, together};
use crate::records::Records;
use std::time::Instant;

/// Caches at scale 1; the records are 1.25 GiB.
pub(super) const CACHE_BYTES: usize = 64 << 20;
/// What a process has beside its cache in the form with a cgroup: code, heap, memtables that an engine does not count
/// as cache, and page cache.
pub(super) const BESIDE_BYTES: usize = 192 << 20;

pub(super) fn run(job: &Job<'_>, name: &str) -> Outcome<Vec<Row>> {
    let n = job.scaled(4_000_000, 2000);
    let records = Records { key_bytes: 16, value_bytes: 320 };
    let mut session = job.engine.session()?;
    let mut histogram = latencies();
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let stretch = Stretch::start();
    for i in 0..n {
        records.key(i, &mut key);
        records.value(i, 0, &mut value);
        let began = Instant::now();
        session.write(&mut |tx| tx.put(&key, &value))?;
        histogram.saturating_record(began.elapsed().as_nanos() as u64);
    }
    let seconds = stretch.seconds();
    job.engine.settle()?;
    let mut row = stretch.row(name, "load, a transaction a put", 1, n, seconds).latencies(&histogram);
    row.settled_seconds = Some(stretch.seconds());
    let live_bytes = n * (records.key_bytes + records.value_bytes) as u64;
    let mut rows = vec![row.space(&job.config.dir, live_bytes)];

    let gets = job.scaled(200_000, 1000);
    for (case, numbers, hit) in [("begin + get + end", 0..n, true), ("begin + miss + end", n..2 * n, false)] {
        let stretch = Stretch::start();
        let (seconds, _) = together(1, |_, _| point_reads(job, gets, 3, records, numbers.clone(), hit))?;
        rows.push(stretch.row(name, case, 1, gets, seconds));
    }
    verify_records(&mut *session, records, n)?;
    Ok(rows)
}
