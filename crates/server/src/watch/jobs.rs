//! Work that takes long: checks, compactions and backups, with their progress and the results of the last ones.
//!
//! Work is listed from its beginning. When it ends it becomes one of the last [`KEPT`] of its database, in memory only.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The number of ended jobs that are kept, of all databases together.
const KEPT: usize = 100;

/// The work of a server.
#[derive(Debug, Default)]
pub struct Jobs {
    lists: Mutex<Lists>,
}

#[derive(Debug, Default)]
struct Lists {
    next: u64,
    running: Vec<Arc<Job>>,
    ended: VecDeque<Ended>,
}

/// A job that is running.
#[derive(Debug)]
struct Job {
    number: u64,
    database: String,
    kind: &'static str,
    /// The unit of `done` and `expected`.
    unit: &'static str,
    begun: Instant,
    begun_at: SystemTime,
    done: AtomicU64,
    /// 0: it is not known.
    expected: AtomicU64,
}

/// A job that has ended.
#[derive(Debug)]
struct Ended {
    job: Arc<Job>,
    took_ms: u64,
    error: Option<String>,
}

/// A running job. When it is dropped without [`Running::end`], the job counts as interrupted.
#[derive(Debug)]
pub struct Running {
    jobs: Arc<Jobs>,
    job: Arc<Job>,
    is_ended: bool,
}

impl Jobs {
    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a job of a database. `unit` says in what its progress is counted.
    pub fn begin(self: &Arc<Self>, database: &str, kind: &'static str, unit: &'static str) -> Running {
        let mut lists = self.lists();
        lists.next += 1;
        let job = Arc::new(Job {
            number: lists.next,
            database: database.to_owned(),
            kind,
            unit,
            begun: Instant::now(),
            begun_at: SystemTime::now(),
            done: AtomicU64::new(0),
            expected: AtomicU64::new(0),
        });
        lists.running.push(Arc::clone(&job));
        Running { jobs: Arc::clone(self), job, is_ended: false }
    }

    /// Returns the jobs of a database as JSON: those that run, oldest first, and those that ended, newest first.
    pub fn of(&self, database: &str) -> Value {
        let lists = self.lists();
        let is_own = |job: &Arc<Job>| job.database == database;
        let running = lists.running.iter().filter(|job| is_own(job)).map(|job| {
            let mut described = job.describe();
            described["age_ms"] = (job.begun.elapsed().as_millis() as u64).into();
            described
        });
        let ended = lists.ended.iter().rev().filter(|ended| is_own(&ended.job)).map(|ended| {
            let mut described = ended.job.describe();
            described["took_ms"] = ended.took_ms.into();
            described["error"] = ended.error.clone().into();
            described
        });
        json!({ "running": running.collect::<Vec<_>>(), "ended": ended.collect::<Vec<_>>() })
    }
}

impl Job {
    fn describe(&self) -> Value {
        // Relaxed for both: they are shown, and order nothing.
        let expected = Some(self.expected.load(Ordering::Relaxed)).filter(|expected| *expected > 0);
        let begun_at = self.begun_at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        json!({
            "id": self.number,
            "kind": self.kind,
            "begun_ms": begun_at,
            "done": self.done.load(Ordering::Relaxed), // Relaxed: as above.
            "expected": expected,
            "unit": self.unit,
        })
    }
}

impl Running {
    /// Sets how much is done, and how much is expected in all; 0 if that is not known.
    pub fn set(&self, done: u64, expected: u64) {
        // Relaxed for both: they are shown, and order nothing.
        self.job.done.store(done, Ordering::Relaxed);
        self.job.expected.store(expected, Ordering::Relaxed); // Relaxed: as above.
    }

    /// Ends the job with its result.
    pub fn end<E: ToString>(mut self, result: Result<(), E>) {
        self.close(result.err().map(|error| error.to_string()));
    }

    fn close(&mut self, error: Option<String>) {
        self.is_ended = true;
        let mut lists = self.jobs.lists();
        lists.running.retain(|job| job.number != self.job.number);
        let took_ms = self.job.begun.elapsed().as_millis() as u64;
        if lists.ended.len() == KEPT {
            lists.ended.pop_front();
        }
        lists.ended.push_back(Ended { job: Arc::clone(&self.job), took_ms, error });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_ended {
            self.close(Some("it was interrupted".to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_show_their_progress_and_then_their_result() {
        let jobs = Arc::new(Jobs::default());
        let (check, other) = (jobs.begin("a", "check", "tables"), jobs.begin("b", "backup", "bytes"));
        check.set(3, 7);
        let shown = jobs.of("a");
        let running = &shown["running"][0];
        assert_eq!(
            (&running["kind"], &running["done"], &running["expected"]),
            (&"check".into(), &3.into(), &7.into())
        );
        assert_eq!((shown["running"].as_array().unwrap().len(), &shown["ended"]), (1, &json!([])));
        check.end(Ok::<(), String>(()));
        drop(other);
        assert_eq!(jobs.of("a")["running"], json!([]));
        assert_eq!(jobs.of("a")["ended"][0]["error"], Value::Null);
        assert_eq!(jobs.of("b")["ended"][0]["error"], "it was interrupted");
        for _ in 0..KEPT {
            jobs.begin("c", "compact", "checkpoints").end(Err("full"));
        }
        assert_eq!(
            (jobs.of("a")["ended"].clone(), jobs.of("c")["ended"][0]["error"].clone()),
            (json!([]), json!("full"))
        );
    }
}
