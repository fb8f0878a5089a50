//! A queue with priorities, several workers, and jobs that come back if their worker dies.
//!
//! * A job is a row; the index `ready` has those to be done in the order in which they should be.
//! * Taking one moves it out of the way until a deadline, in the same transaction in which it was found: two workers
//!   that find the same job conflict, and one of them takes the next.
//! * Doing it deletes the row, in the transaction that has the work's other effects. A worker that died has not: when
//!   the deadline is over the job is found again.

use pando::{Database, Result, Transaction};
use pando_rows::{Row, Table, Timestamp};
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(table = "jobs", index(ready = "visible_at, priority desc"))]
struct Job {
    #[row(key)]
    id: u64,
    priority: i32,
    visible_at: Timestamp,
    tries: u32,
    payload: String,
}

/// How long a worker has for a job.
const LEASE_MICROS: i64 = 30_000_000;

/// Takes the next job that is ready at `now`.
fn take(tx: &mut Transaction, jobs: &Table<Job>, now: Timestamp) -> Result<Option<Job>> {
    let found = jobs.by_index(tx, "ready", ())?.next().transpose()?;
    let Some(job) = found.filter(|job| job.visible_at <= now) else { return Ok(None) };
    let visible_at = Timestamp { micros: now.micros + LEASE_MICROS };
    let taken = Job { visible_at, tries: job.tries + 1, ..job };
    jobs.update(tx, &taken)?;
    Ok(Some(taken))
}

/// Runs the recipe, and asserts what it shows.
pub fn main() -> Result<()> {
    let db = Database::builder().in_memory()?;
    let jobs = Table::<Job>::ensure(&db)?;
    let start = Timestamp { micros: 0 };
    db.write(|tx| {
        (0..100u64).try_for_each(|id| {
            let payload = format!("job {id}");
            let priority = (id % 3) as i32;
            jobs.insert(tx, &Job { id, priority, visible_at: start, tries: 0, payload })
        })
    })?;
    let first = db.write(|tx| take(tx, &jobs, start))?.expect("there are jobs");
    assert_eq!(first.priority, 2, "the most urgent comes first");

    // Four workers share the rest. Every job is done once.
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(job) = db.write(|tx| take(tx, &jobs, start)).expect("no failure but conflicts")
                {
                    let deleted = db.write(|tx| jobs.delete(tx, job.id)).expect("no failure but conflicts");
                    assert!(deleted && job.tries == 1, "{job:?} was done twice");
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(done.load(Ordering::SeqCst), 99);

    // The first one's worker never came back.
    let later = Timestamp { micros: LEASE_MICROS };
    let again = db.write(|tx| take(tx, &jobs, later))?.expect("its deadline is over");
    assert_eq!((again.id, again.tries), (first.id, 2));
    println!("100 jobs, each done once; job {} came back", again.id);
    Ok(())
}
