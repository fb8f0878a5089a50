//! `delete-churn`: a table of constant size whose records come and go; what it costs, and what space it ends with.

use super::{Job, load, verify};
use crate::engine::Outcome;
use crate::measure::{Row, Stretch};
use crate::records::Records;

const ROUNDS: u64 = 20;
const BATCH: u64 = 100;

pub(super) fn run(job: &Job<'_>) -> Outcome<Vec<Row>> {
    let n = job.scaled(200_000, 1000) / BATCH * BATCH;
    let churned = n / 5 / BATCH * BATCH;
    let records = Records { key_bytes: 16, value_bytes: 100 };
    let mut session = job.engine.session()?;
    load(&mut *session, records, n)?;
    job.engine.settle()?;
    // Records `first..first + n` are there. The oldest go, so that holes lie everywhere: keys are hashed.
    let mut first = 0;
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let stretch = Stretch::start();
    for _ in 0..ROUNDS {
        for _ in 0..churned / BATCH {
            session.write(&mut |tx| {
                for i in first..first + BATCH {
                    records.key(i, &mut key);
                    tx.delete(&key)?;
                    records.key(i + n, &mut key);
                    records.value(i + n, 0, &mut value);
                    tx.put(&key, &value)?;
                }
                Ok(())
            })?;
            first += BATCH;
        }
    }
    let ops = ROUNDS * churned * 2;
    let mut row = stretch.row("delete-churn", "deletes and inserts", 1, ops, stretch.seconds());
    job.engine.settle()?;
    row.settled_seconds = Some(stretch.seconds());
    let row = row.space(&job.config.dir, n * (records.key_bytes + records.value_bytes) as u64);

    let mut wanted = Vec::new();
    verify(&mut *session, n, &mut |key, value| {
        let number = value.first_chunk().map_or(u64::MAX, |bytes| u64::from_be_bytes(*bytes));
        records.key(number, &mut wanted);
        (first..first + n).contains(&number) && key == wanted && records.is_value_of(number, value)
    })?;
    Ok(vec![row])
}
