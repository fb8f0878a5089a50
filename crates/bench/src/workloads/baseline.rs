//! `baseline`: the speed of the machine, to which the other rows are compared.
//!
//! * `append` and `overwrite`: 4 KiB written and synced, 500 (`--iterations`) times, at the end of a growing file and
//!   over a file that has its size, in the directory that the databases are made in.
//! * `BTreeMap`: n (1,000,000) random inserts and gets of 8-byte integers.

use crate::bed::Place;
use crate::measure::{Meter, latencies};
use crate::report::Row;
use crate::settings::Settings;
use crate::{Outcome, ensure};
use base::env::Random;
use io::{Dir, File, OsDir};
use std::collections::BTreeMap;
use std::time::Instant;

pub(super) const NAME: &str = "baseline";
const DEFAULT_N: u64 = 1_000_000;
const SYNCS: u64 = 500;
const BLOCK_BYTES: usize = 4096;

pub(super) fn run(settings: &Settings) -> Outcome<Vec<Row>> {
    let syncs = settings.iterations.unwrap_or(SYNCS);
    let place = Place::new(settings)?;
    let file = OsDir::open(place.path())?.create("blocks")?;
    let mut rows = vec![
        write_and_sync(&*file, "append 4 KiB + sync", syncs)?,
        write_and_sync(&*file, "overwrite 4 KiB + sync", syncs)?,
    ];
    rows.extend(map(settings.n.unwrap_or(DEFAULT_N), settings.seed)?);
    Ok(rows)
}

fn write_and_sync(file: &dyn File, case: &str, syncs: u64) -> Outcome<Row> {
    let mut latencies_ns = latencies();
    let block = [0xa5; BLOCK_BYTES];
    let mut meter = Meter::start(None)?;
    for i in 0..syncs {
        let began = Instant::now();
        file.write_at(&block, i * BLOCK_BYTES as u64)?;
        file.sync()?;
        latencies_ns.saturating_record(began.elapsed().as_nanos() as u64);
    }
    let row = Row::new(NAME, case, "sync", syncs, meter.lap()?);
    Ok(row
        .with("p50_ns", latencies_ns.value_at_quantile(0.5))
        .with("p99_ns", latencies_ns.value_at_quantile(0.99))
        .with("max_ns", latencies_ns.max()))
}

fn map(n: u64, seed: u64) -> Outcome<[Row; 2]> {
    let mut random = Random::seeded(seed);
    let keys: Vec<u64> = (0..n).map(|_| random.next_u64()).collect();
    let mut meter = Meter::start(None)?;
    let mut map = BTreeMap::new();
    for (i, &key) in (0u64..).zip(&keys) {
        map.insert(key, i);
    }
    let inserted = meter.lap()?;
    let mut order: Vec<usize> = (0..keys.len()).collect();
    random.shuffle(&mut order);
    let mut meter = Meter::start(None)?;
    let right = order.iter().filter(|&&i| map.get(&keys[i]) == Some(&(i as u64))).count();
    let got = meter.lap()?;
    ensure(right == keys.len(), || format!("the map has {right} of {n}"))?;
    Ok([
        Row::new(NAME, "BTreeMap insert", "none", n, inserted),
        Row::new(NAME, "BTreeMap get", "none", n, got),
    ])
}
