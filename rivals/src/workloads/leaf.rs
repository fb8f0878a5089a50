//! `leaf-edit`: 10,000 keys, value = key, in one durable transaction; ascending first, shuffled behind them.

use super::{Job, verify};
use crate::engine::{Outcome, ensure};
use crate::measure::{Row, Stretch};
use crate::records::permutation;

pub(super) fn run(job: &Job<'_>) -> Outcome<Vec<Row>> {
    let n = job.scaled(10_000, 100);
    let mut session = job.engine.session()?;
    let ascending: Vec<u64> = (0..n).collect();
    let shuffled: Vec<u64> = permutation(n, 2).into_iter().map(|i| n + i).collect();
    let mut rows = Vec::new();
    for (case, keys) in [("ascending", ascending), ("shuffled", shuffled)] {
        let stretch = Stretch::start();
        session.write(&mut |tx| {
            for key in &keys {
                let bytes = key.to_be_bytes();
                let fresh = tx.insert(&bytes, &bytes)?;
                ensure(fresh, || format!("{key} is said to be there already"))?;
            }
            Ok(())
        })?;
        rows.push(stretch.row("leaf-edit", case, 1, n, stretch.seconds()));
    }
    let mut next = 0u64;
    verify(&mut *session, 2 * n, &mut |key, value| {
        let right = key == next.to_be_bytes() && value == key;
        next += 1;
        right
    })?;
    Ok(rows)
}
