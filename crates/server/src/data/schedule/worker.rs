//! The thread that takes scheduled backups, and their results.
//!
//! 1. One thread takes all backups, one after the other: two never run at once. A backup of the same folder by
//!    another process is kept away by the folder's lock.
//! 2. A failure is logged and counted, shown until the next success, and tried again after a few minutes.
//! 3. A backup counts only for the database of which it is: one that was dropped and created again has none, although
//!    the folder of its name has some.
//! 4. At the end of the server the databases are closed, which ends a backup that is running. Nothing of it remains.
//!    [`Schedule::stop`] is called before that, so that no database is opened after it.

use crate::config::BackupPlan;
use crate::data::databases::Databases;
use crate::data::end::End;
use crate::data::held::Data;
use crate::data::schedule::plan::is_due;
use crate::data::schedule::take::{Taken, take};
use crate::watch::jobs::{Jobs, Running};
use crate::wire::problem::Problem;
use pando::{BackupEntry, BackupInfo, BackupProgress, Backups, Error, ErrorKind, Identity, Result};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The shortest and the longest pause between looks at what is due.
const LOOKS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

/// The scheduled backups of a server.
#[derive(Debug)]
pub struct Schedule {
    plan: BackupPlan,
    results: Mutex<BTreeMap<String, Results>>,
    /// The end of the thread, which holds the flag while it opens a database.
    end: End,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The results of the backups of one database.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// When the newest backup in the folder was begun, if it is of this database.
    pub newest: Option<SystemTime>,
    /// The number of backups in the folder.
    pub kept: u64,
    /// The bytes of all backups in the folder.
    pub kept_bytes: u64,
    /// The number of backups that were taken since the server started.
    pub taken: u64,
    /// The number of backups that failed since the server started.
    pub failures: u64,
    /// The error of the last attempt, if it failed.
    pub error: Option<String>,
    /// The time that the last backup took.
    pub took: Duration,
    /// The bytes of the last backup.
    pub bytes: u64,
    /// When the last attempt began.
    attempted: Option<SystemTime>,
    /// Of which database the newest backup is.
    newest_of: Option<Identity>,
    /// The directory of the database when `newest` was found to be of it.
    checked: Option<Mark>,
}

/// What distinguishes a directory from another one that had its name before: its number, and when it was made.
type Mark = (u64, Option<SystemTime>);

fn mark_of(directory: &Path) -> Option<Mark> {
    let found = std::fs::metadata(directory).ok()?;
    Some((found.ino(), found.created().ok()))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Schedule {
    /// Creates the folder of backups, and a schedule whose thread does not run yet.
    ///
    /// # Errors
    /// `Invalid` if the folder lies inside the served directory `dir`; `Io` if it cannot be created.
    pub fn new(plan: BackupPlan, dir: &Path) -> Result<Arc<Self>> {
        let shown = plan.to.display();
        let failed = |error| Error::io(format!("make {shown}, the folder of backups"), error);
        let is_new = !plan.to.exists();
        std::fs::create_dir_all(&plan.to).map_err(failed)?;
        let (to, dir) = (plan.to.canonicalize().map_err(failed)?, dir.canonicalize().map_err(failed)?);
        if to.starts_with(&dir) {
            if is_new {
                let _ = std::fs::remove_dir(&to);
            }
            return Err(Error::invalid(format!(
                "{shown} lies inside the served directory: name a folder outside of it for the backups, \
                 best on another disk"
            )));
        }
        Ok(Arc::new(Schedule {
            plan,
            results: Mutex::default(),
            end: End::default(),
            thread: Mutex::default(),
        }))
    }

    /// Starts the thread, which backs up these databases. Each backup is one of the `jobs` while it runs.
    ///
    /// # Errors
    /// `Io` if the thread cannot be started.
    pub fn start(self: &Arc<Self>, data: Arc<Data>, jobs: Arc<Jobs>) -> Result<()> {
        let own = Arc::clone(self);
        let run = move || own.run(&data.databases, &jobs);
        let thread = thread::Builder::new().name("pando-backups".to_owned()).spawn(run);
        let thread = thread.map_err(|error| Error::io("start the thread of backups", error))?;
        *locked(&self.thread) = Some(thread);
        Ok(())
    }

    /// Returns the interval of backups.
    pub fn every(&self) -> Duration {
        self.plan.every
    }

    /// Returns the folder of a database's backups.
    pub fn folder(&self, database: &str) -> PathBuf {
        self.plan.to.join(database)
    }

    /// Returns the backups of a database that are kept, oldest first. Reads the folder.
    pub fn kept(&self, database: &str) -> Vec<BackupEntry> {
        Backups::open(self.folder(database)).and_then(|folder| folder.list()).unwrap_or_default()
    }

    /// Returns the results by database.
    pub fn results(&self) -> BTreeMap<String, Results> {
        locked(&self.results).clone()
    }

    /// Returns the results of one database; `None` if it is not known yet.
    pub fn result(&self, database: &str) -> Option<Results> {
        locked(&self.results).get(database).cloned()
    }

    /// Keeps the thread from beginning a backup and from opening a database.
    pub fn stop(&self) {
        self.end.set(true);
    }

    /// Waits for the end of the thread, after [`Schedule::stop`] and after the databases were closed.
    pub fn join(&self) {
        if let Some(thread) = locked(&self.thread).take() {
            let _ = thread.join();
        }
    }

    fn run(&self, databases: &Databases, jobs: &Arc<Jobs>) {
        let pause = (self.plan.every / 10).clamp(LOOKS.0, LOOKS.1);
        while !self.end.is_over() {
            self.look(databases, jobs);
            self.end.pause(pause);
        }
    }

    /// Takes the backups that are due.
    fn look(&self, databases: &Databases, jobs: &Arc<Jobs>) {
        let names = match databases.names() {
            Ok(names) => names,
            Err(problem) => {
                tracing::error!("no backups were taken: {}", problem.detail);
                return;
            }
        };
        locked(&self.results).retain(|name, _| names.binary_search(name).is_ok());
        for name in names {
            if self.end.is_over() {
                return;
            }
            let now = SystemTime::now();
            let results = self.of(databases, &name);
            if !is_due(self.plan.every, results.newest, results.attempted, now) {
                continue;
            }
            let begun = Instant::now();
            let job = jobs.begin(&name, "scheduled backup", "bytes");
            let outcome = self.back_up(databases, &name, now, &job);
            job.end(outcome.as_ref().map(drop));
            if outcome.is_err() && self.end.is_over() {
                return;
            }
            self.note(&name, outcome, now, begun.elapsed());
        }
    }

    /// Returns what is known of a database. The folder is read the first time, and when the database has another
    /// directory than before. The database is opened then if the newest backup in the folder may be of an earlier one,
    /// that is, unless its directory is older than that backup.
    fn of(&self, databases: &Databases, name: &str) -> Results {
        let directory = databases.path(name);
        let mark = mark_of(&directory);
        let known = match self.result(name) {
            Some(known) if known.checked == mark => return known,
            known => known,
        };
        let is_replaced = known.is_some();
        let mut found = known.unwrap_or_default();
        found.read_folder(&self.folder(name));
        let is_older = mark.zip(found.newest).is_some_and(|((_, made), newest)| {
            // The time of a backup has whole seconds.
            made.is_some_and(|made| made + Duration::from_secs(1) < newest)
        });
        if found.newest.is_some() && (is_replaced || !is_older) {
            found.count_newest_of(self.identity(databases, name));
        }
        found.checked = mark;
        locked(&self.results).insert(name.to_owned(), found.clone());
        found
    }

    /// Returns the identity of a database; `None` if it cannot be opened.
    fn identity(&self, databases: &Databases, name: &str) -> Option<Identity> {
        let is_over = self.end.flag();
        if *is_over {
            return None;
        }
        databases.open(name).ok().map(|open| open.db.identity())
    }

    fn back_up(&self, databases: &Databases, name: &str, now: SystemTime, job: &Running) -> Result<Taken> {
        let is_over = self.end.flag();
        if *is_over {
            return Err(Error::new(ErrorKind::Closed, "the server ends"));
        }
        let open = databases.open(name).map_err(Problem::into_error)?;
        drop(is_over);
        let folder = Backups::create(self.plan.to.join(name))?;
        let mut note = |progress: BackupProgress| job.set(progress.bytes, progress.expected_bytes);
        take(&open.db, &folder, &self.plan, now, &mut note)
    }

    fn note(&self, name: &str, outcome: Result<Taken>, now: SystemTime, took: Duration) {
        // Only this thread changes results. It reads the folder without the lock, for which requests wait.
        let mut results = self.result(name).unwrap_or_default();
        results.attempted = Some(now);
        let failure = match outcome {
            Ok(Taken { report, removed }) => {
                (results.newest, results.took, results.bytes) = (Some(now), took, report.bytes);
                results.taken += 1;
                let backup = report.name.as_deref().unwrap_or_default();
                let old = removed.as_ref().map_or(0, Vec::len);
                tracing::info!(database = %name, backup, bytes = report.bytes, old, "a backup was taken");
                removed.err().map(|error| error.within("old backups were not removed"))
            }
            Err(error) => Some(error),
        };
        if let Some(error) = &failure {
            results.failures += 1;
            tracing::error!(database = %name, %error, "a scheduled backup failed");
        }
        results.error = failure.map(|error| error.to_string());
        let of_this_one = results.newest;
        results.read_folder(&self.folder(name));
        if of_this_one.is_none() {
            // The backups in the folder still are of another database.
            results.newest = None;
        }
        locked(&self.results).insert(name.to_owned(), results);
    }
}

impl Results {
    /// Returns when the newest backup was begun, in seconds since 1970; 0 if there is none.
    pub fn newest_s(&self) -> u64 {
        let since = self.newest.and_then(|newest| newest.duration_since(UNIX_EPOCH).ok());
        since.map_or(0, |since| since.as_secs())
    }

    /// Reads what the folder holds. One that is missing or cannot be read holds nothing.
    fn read_folder(&mut self, folder: &Path) {
        let entries = Backups::open(folder).and_then(|folder| folder.list()).unwrap_or_default();
        self.kept = entries.len() as u64;
        self.kept_bytes = entries.iter().map(|entry| entry.bytes).sum();
        // A damaged newest backup does not count, so that another one is due.
        let newest = entries.last().and_then(|entry| entry.info.as_ref().ok());
        self.newest = newest.map(BackupInfo::created);
        self.newest_of = newest.map(BackupInfo::identity);
    }

    /// Lets the newest backup count only if it is of the database with this identity.
    fn count_newest_of(&mut self, identity: Option<Identity>) {
        if self.newest_of != identity {
            (self.newest, self.attempted) = (None, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::transactions::Transactions;
    use pando::{Budget, Durability, Retention};

    fn data(dir: &Path) -> Arc<Data> {
        let budget = Budget::new(32 << 20);
        let databases = Databases::new(dir, budget, Durability::Buffered, 1, None).unwrap();
        for name in ["a", "b"] {
            databases.create(name, None).unwrap();
        }
        let transactions = Arc::new(Transactions::new(1, Duration::from_secs(1)));
        Arc::new(Data { databases, transactions, durability: Durability::Buffered })
    }

    fn plan(to: &Path) -> BackupPlan {
        BackupPlan {
            to: to.to_owned(),
            every: Duration::from_secs(3600),
            keep: Retention::Newest(2),
            rate_bytes: None,
        }
    }

    /// Waits until `is_so`.
    fn wait(
        schedule: &Schedule,
        is_so: impl Fn(&BTreeMap<String, Results>) -> bool,
    ) -> BTreeMap<String, Results> {
        let begun = Instant::now();
        while !is_so(&schedule.results()) {
            assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", schedule.results());
            thread::sleep(Duration::from_millis(5));
        }
        schedule.results()
    }

    #[test]
    fn every_database_is_backed_up_once_across_restarts() {
        let (dir, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for round in 0..2 {
            let data = data(dir.path());
            let schedule = Schedule::new(plan(to.path()), dir.path()).unwrap();
            schedule.start(Arc::clone(&data), Arc::default()).unwrap();
            let results = wait(&schedule, |all| all.values().filter(|one| one.newest.is_some()).count() == 2);
            thread::sleep(LOOKS.0 * 2);
            schedule.stop();
            data.databases.close_all().unwrap();
            schedule.join();
            assert_eq!(results["a"].kept, 1);
            // In the second round the folder says that none is due.
            assert_eq!(results.values().map(|one| one.taken).sum::<u64>(), if round == 0 { 2 } else { 0 });
        }
        for name in ["a", "b"] {
            let target = tempfile::tempdir().unwrap();
            pando::restore(&Backups::open(to.path().join(name)).unwrap(), None, target.path()).unwrap();
        }
    }

    #[test]
    fn a_database_that_was_created_again_has_no_backup() {
        let (dir, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let data = data(dir.path());
        let databases = &data.databases;
        let (schedule, jobs) = (Schedule::new(plan(to.path()), dir.path()).unwrap(), Arc::default());
        let taken = |schedule: &Schedule| {
            schedule.look(databases, &jobs);
            schedule.results().values().map(|one| one.taken).collect::<Vec<_>>()
        };
        let create_again = |name: &str| {
            databases.drop_database(name).unwrap();
            databases.create(name, None).unwrap();
        };
        assert_eq!(taken(&schedule), [1, 1]);
        assert_eq!(taken(&schedule), [1, 1]);
        create_again("a");
        assert_eq!(taken(&schedule), [2, 1]);
        assert_eq!(taken(&schedule), [2, 1]);
        let of = schedule.kept("a").pop().unwrap().info.unwrap().identity();
        assert_eq!(of, databases.open("a").unwrap().db.identity());
        // The same after a restart of the server.
        let schedule = Schedule::new(plan(to.path()), dir.path()).unwrap();
        create_again("b");
        assert_eq!(taken(&schedule), [0, 1]);
        assert_eq!(taken(&schedule), [0, 1]);
        databases.close_all().unwrap();
    }

    #[test]
    fn a_failure_is_counted_and_shown() {
        let (dir, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        // A file is where the folder of `a` has to be.
        std::fs::write(to.path().join("a"), b"").unwrap();
        let data = data(dir.path());
        let schedule = Schedule::new(plan(to.path()), dir.path()).unwrap();
        schedule.start(Arc::clone(&data), Arc::default()).unwrap();
        let results = wait(&schedule, |all| all.get("b").is_some_and(|b| b.taken == 1));
        assert_eq!((results["a"].failures, results["a"].taken, results["a"].kept), (1, 0, 0));
        assert!(results["a"].error.is_some() && results["b"].error.is_none(), "{results:?}");
        schedule.stop();
        data.databases.close_all().unwrap();
        schedule.join();
    }

    #[test]
    fn backups_do_not_lie_beside_the_data() {
        let dir = tempfile::tempdir().unwrap();
        let data = data(dir.path());
        for to in [dir.path().to_owned(), dir.path().join("a"), dir.path().join("backups")] {
            let refused = Schedule::new(plan(&to), dir.path()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
        }
        assert!(!dir.path().join("backups").exists());
        data.databases.close_all().unwrap();
    }
}
