//! Whether the server is a replica, and how far each database is behind its source.
//!
//! 1. A replica becomes a primary at most once, and never the other way: a database that made commits of its own can
//!    follow no more.
//! 2. The lag of a database counts from the last message of its source after which it had everything that the source
//!    was known to have. So it grows while the source cannot be reached, also before a request to it has failed, and
//!    whatever the clocks of the two machines show.
//! 3. While a database is copied anew, it lacks commits however far it was before, and its lag grows.

use crate::data::end::End;
use crate::following::{Source, Watch};
use crate::wire::problem::{Answer, Problem};
use axum::http::{StatusCode, Uri};
use pando::{Database, Error};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The kind of the problem of a write that a replica refuses.
pub const KIND: &str = "replica";

/// The state of a server that began as a replica.
#[derive(Debug)]
pub struct Replicas {
    /// The databases that it follows.
    pub source: Arc<dyn Source>,
    /// The id of the replica.
    id: Arc<str>,
    is_replica: AtomicBool,
    progress: Mutex<BTreeMap<String, Arc<Progress>>>,
}

/// How far a database follows. The feed reports here.
#[derive(Debug)]
pub struct Progress {
    id: Arc<str>,
    /// For how long the source may be silent.
    quiet: Duration,
    inner: Mutex<Inner>,
    end: End,
}

#[derive(Debug)]
struct Inner {
    newest_commit: u64,
    /// When the source sent the last message.
    reached_at: Instant,
    /// When the source sent the last message after which the database had everything that was known.
    level_at: Instant,
    is_up: bool,
    /// Whether the source was reached since the start, and since the last copy.
    has_reached: bool,
    is_copying: bool,
    copies: u64,
    error: Option<String>,
}

/// The lag of a database.
#[derive(Clone, Debug)]
pub struct Lag {
    /// Whether its source could be reached at the last attempt.
    pub is_up: bool,
    /// The last commit that was applied.
    pub applied_commit: u64,
    /// The newest commit that the source is known to have.
    pub newest_commit: u64,
    /// The number of commits between them.
    pub commits: u64,
    /// The time since it had everything, in seconds; 0 if it has everything.
    pub seconds: f64,
    /// Whether the whole database is being copied.
    pub is_copying: bool,
    /// The number of times that the database was copied since the start of the server.
    pub copies: u64,
    /// The last error; `None` while the source can be reached.
    pub error: Option<String>,
}

impl Replicas {
    /// Returns the state of a replica of this id that begins to follow `source`.
    pub fn new(id: String, source: Arc<dyn Source>) -> Self {
        Replicas { source, id: id.into(), is_replica: AtomicBool::new(true), progress: Mutex::default() }
    }

    /// Returns whether the server still follows.
    pub fn is_replica(&self) -> bool {
        self.is_replica.load(Ordering::SeqCst)
    }

    /// Makes the server a primary.
    pub fn promote(&self) {
        self.is_replica.store(false, Ordering::SeqCst);
    }

    /// Returns the problem of a write to `uri`: a redirection if the primary is known.
    pub fn refuse(&self, uri: &Uri) -> Problem {
        let Some(primary) = self.source.primary() else {
            let detail = "this server is a replica, and does not know the address of its primary: write \
                          there, or make this server the primary with `pando promote`";
            return Problem::new(StatusCode::SERVICE_UNAVAILABLE, KIND, detail);
        };
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let detail = format!("this server is a replica: send writes to the primary, {primary}");
        let mut problem = Problem::new(StatusCode::TEMPORARY_REDIRECT, KIND, detail);
        problem.location = Some(format!("{primary}{path}"));
        problem
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Progress>>> {
        self.progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns the progress of the database `name`.
    pub fn progress(&self, name: &str) -> Arc<Progress> {
        let new = || Arc::new(Progress::new(Arc::clone(&self.id), self.source.quiet()));
        Arc::clone(self.all().entry(name.to_owned()).or_insert_with(new))
    }

    /// Returns the lag of the database `name`, of which `db` is open.
    pub fn lag(&self, name: &str, db: &Database) -> Option<Lag> {
        let progress = self.all().get(name).map(Arc::clone)?;
        Some(progress.lag(db.snapshot().ok()?.commit_number()))
    }

    /// Returns why a database `name` that is empty, and has the commits up to `applied_commit`, may lack everything:
    /// its source was not reached since the start, its copy is not complete, or the first commits are not applied yet.
    /// `None` if it is empty because its source was when it was last asked.
    pub fn not_copied(&self, name: &str, applied_commit: u64) -> Option<String> {
        let not_tried = || "it was not reached yet".to_owned();
        let Some(progress) = self.all().get(name).map(Arc::clone) else { return Some(not_tried()) };
        let inner = progress.inner();
        if inner.is_copying {
            return Some("its first copy is not complete".to_owned());
        }
        if inner.has_reached {
            return (inner.newest_commit > applied_commit)
                .then(|| "its first commits are not applied yet".to_owned());
        }
        Some(inner.error.clone().unwrap_or_else(not_tried))
    }

    /// Ends all feeds.
    pub fn end(&self) {
        self.all().values().for_each(|progress| progress.end.set(true));
    }

    /// Forgets all feeds, which have ended.
    pub fn clear(&self) {
        self.all().clear();
    }
}

impl Progress {
    fn new(id: Arc<str>, quiet: Duration) -> Self {
        let inner = Inner {
            newest_commit: 0,
            reached_at: Instant::now(),
            level_at: Instant::now(),
            is_up: false,
            has_reached: false,
            is_copying: false,
            copies: 0,
            error: None,
        };
        Progress { id, quiet, inner: Mutex::new(inner), end: End::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn lag(&self, applied_commit: u64) -> Lag {
        let mut inner = self.inner();
        let newest_commit = inner.newest_commit.max(applied_commit);
        let commits = newest_commit - applied_commit;
        let is_level = inner.is_up && !inner.is_copying && commits == 0;
        if is_level {
            inner.level_at = inner.level_at.max(inner.reached_at);
        }
        let since = inner.level_at.elapsed();
        let seconds = if is_level && since <= self.quiet { 0.0 } else { since.as_secs_f64() };
        let Inner { is_up, is_copying, copies, .. } = *inner;
        let error = inner.error.clone();
        Lag { is_up, applied_commit, newest_commit, commits, seconds, is_copying, copies, error }
    }

    /// Notes that the whole database is being copied from now on.
    pub fn copies(&self) {
        self.inner().is_copying = true;
    }

    /// Notes that the database was copied, and that the copy is in its place.
    pub fn copied(&self) {
        let mut inner = self.inner();
        let now = Instant::now();
        (inner.is_copying, inner.copies) = (false, inner.copies + 1);
        (inner.level_at, inner.reached_at) = (now, now);
        // An empty copy may be older than the first commit. The feed finds out.
        inner.has_reached = false;
    }

    /// Notes an error. Returns whether it is another one than the last.
    pub fn failed(&self, error: &Error) -> bool {
        let text = error.to_string();
        let mut inner = self.inner();
        (inner.is_up, inner.is_copying) = (false, false);
        inner.error.replace(text.clone()) != Some(text)
    }
}

impl Watch for Progress {
    fn replica(&self) -> &str {
        &self.id
    }

    fn is_over(&self) -> bool {
        self.end.is_over()
    }

    fn pause(&self, time: Duration) {
        self.end.pause(time);
    }

    fn reached(&self, newest_commit: u64) {
        let mut inner = self.inner();
        inner.newest_commit = inner.newest_commit.max(newest_commit);
        inner.reached_at = Instant::now();
        (inner.is_up, inner.has_reached, inner.error) = (true, true, None);
    }
}

impl Lag {
    /// Returns names, descriptions and values of the gauges, without the prefix `pando_replica_`.
    pub fn gauges(&self) -> [(&'static str, &'static str, f64); 7] {
        [
            ("up", "1 if the source could be reached at the last attempt.", f64::from(u8::from(self.is_up))),
            ("applied_commit", "The last commit that was applied.", self.applied_commit as f64),
            (
                "newest_commit",
                "The newest commit that the source is known to have.",
                self.newest_commit as f64,
            ),
            ("lag_commits", "Commits of the source that were not applied.", self.commits as f64),
            ("lag_seconds", "Seconds since the replica had everything.", self.seconds),
            (
                "copying",
                "1 while the whole database is copied, because its next commit was no longer available.",
                f64::from(u8::from(self.is_copying)),
            ),
            ("copies", "Times that the whole database was copied since the start.", self.copies as f64),
        ]
    }
}

/// Replaces the problem of a write that the engine refused in a replica.
pub fn redirected<T>(answer: Answer<T>, replicas: Option<&Replicas>, uri: &Uri) -> Answer<T> {
    match (answer, replicas) {
        (Err(problem), Some(replicas)) if problem.kind == KIND => Err(replicas.refuse(uri)),
        (answer, _) => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::databases::Databases;
    use crate::following::{Feed, TakeOver};
    use crate::shipping::{Ship, Shipped, Shipping};
    use pando::{Budget, Durability, ErrorKind, Result};
    use std::path::Path;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    /// A source that is never asked.
    #[derive(Debug)]
    struct Unasked;

    impl Source for Unasked {
        fn address(&self) -> &str {
            "http://127.0.0.1:1"
        }

        fn primary(&self) -> Option<&str> {
            None
        }

        fn databases(&self) -> Result<Vec<String>> {
            unreachable!()
        }

        fn to_take_over(&self, _: &dyn Fn(&str) -> bool) -> Result<Vec<String>> {
            unreachable!()
        }

        fn copy(&self, _: &str, _: &Path, _: &dyn Watch) -> Result<Box<dyn Feed>> {
            unreachable!()
        }

        fn resume(&self, _: &str, _: &Path, _: &Database) -> Result<Box<dyn Feed>> {
            unreachable!()
        }

        fn take_over(&self, _: &str, _: &Path, _: &Database) -> Result<TakeOver> {
            unreachable!()
        }
    }

    /// The first database cannot be shipped at the first attempt.
    #[derive(Debug, Default)]
    struct Flaky {
        attempts: AtomicUsize,
    }

    impl Shipping for Flaky {
        fn begin(&self, _: &str, db: &Database) -> Result<Box<dyn Ship>> {
            assert!(db.is_replica(), "it accepts writes already, which nobody ships");
            match self.attempts.fetch_add(1, Ordering::SeqCst) {
                0 => Err(Error::new(ErrorKind::Io, "away")),
                _ => Ok(Box::new(Ships)),
            }
        }

        fn is_sync(&self) -> bool {
            true
        }
    }

    #[derive(Debug)]
    struct Ships;

    impl Ship for Ships {
        fn when_shipped(&self, _: u64, shipped: Shipped) {
            shipped(Ok(()));
        }

        fn failure(&self) -> Option<Error> {
            None
        }

        fn difficulty(&self) -> Option<String> {
            None
        }

        fn refusal(&self) -> Option<Error> {
            None
        }

        fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
            Vec::new()
        }

        fn release(&self) -> Result<()> {
            Ok(())
        }

        fn drop_database(&self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_lag_counts_from_the_last_message() {
        let (quiet, pause) = (Duration::from_millis(150), Duration::from_millis(200));
        let progress = Progress::new("r1".into(), quiet);
        let seconds = |applied| progress.lag(applied).seconds;
        progress.reached(7);
        assert_eq!(seconds(7), 0.0);
        assert!(seconds(6) < 0.1, "it had everything a moment ago");
        // The source is silent, and no request has failed yet.
        thread::sleep(pause);
        assert!(seconds(7) >= 0.2, "{}", seconds(7));
        assert!(progress.lag(7).is_up);
        progress.failed(&Error::new(ErrorKind::Io, "timed out"));
        assert!(seconds(7) >= 0.2, "{}", seconds(7));
        progress.reached(7);
        assert_eq!(seconds(7), 0.0);
        // A copy that takes long is not late when it is complete.
        progress.copies();
        thread::sleep(pause);
        assert!(seconds(7) >= 0.2);
        progress.copied();
        assert_eq!(seconds(7), 0.0);
    }

    #[test]
    fn a_replica_that_is_promoted_is_shipped_before_it_accepts_writes() {
        let dir = tempfile::tempdir().unwrap();
        let (shipping, replicas) =
            (Arc::new(Flaky::default()), Arc::new(Replicas::new(String::new(), Arc::new(Unasked))));
        let mut databases = Databases::new(
            dir.path(),
            Budget::new(64 << 20),
            Durability::Buffered,
            4,
            Some(Arc::clone(&shipping) as _),
        )
        .unwrap();
        databases.follow(Arc::clone(&replicas));
        let (open, _) = databases.create("a", None).unwrap();
        assert!(open.db.is_replica() && open.ship().is_none());
        replicas.promote();
        databases.begin_writing().unwrap_err();
        assert!(open.db.is_replica() && open.ship().is_none(), "it is neither shipped nor written to");
        databases.begin_writing().unwrap();
        assert!(!open.db.is_replica() && open.ship().is_some());
        databases.begin_writing().unwrap();
        assert_eq!(shipping.attempts.load(Ordering::SeqCst), 2, "it is shipped once");
        drop(open);
        databases.close_all().unwrap();
    }
}
