//! `bulk`: one large transaction of random keys, committed durably.

use super::{Job, verify};
use crate::engine::{Outcome, ensure};
use crate::measure::{Row, Stretch};
use crate::records::permutation;

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
    Ok(vec![row.space(&job.config.dir, n * 16)])
}
