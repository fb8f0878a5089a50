//! Makes the databases of a replica those of a primary.
//!
//! 1. The source says which databases there are, and not the directory: its writer may have created one, or dropped one
//!    and created another under its name, a moment ago, and may have acknowledged writes of it.
//! 2. A source that can fence its writer is listed again after each round, because the writer could create databases
//!    until it was fenced. The replica becomes a primary after a listing in which nothing is new.
//! 3. If one database fails, the server goes on as a replica. Those that took over can do so again.

use crate::data::databases::Databases;
use crate::data::followers::{copy, copy_new, exchange};
use crate::data::names::is_name;
use crate::data::replicas::Replicas;
use crate::data::v0::EntityTable;
use crate::following::TakeOver;
use crate::wire::problem::Problem;
use pando::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};

/// How often a database is copied anew before the promotion is refused.
const MOST_COPIES: u32 = 5;
/// How often requests that use an old copy are waited for.
const MOST_WAITS: u32 = 6;

/// Lets each database take over from the source. Copies those that the directory lacks, and removes those that the
/// source has dropped. `entity` is detached while the default database is replaced. Returns the names with the last
/// commits.
///
/// # Errors
/// Those of the source; `Conflict` if requests use an old copy for too long.
pub fn take_over_all(
    databases: &Databases,
    replicas: &Replicas,
    entity: Option<&EntityTable>,
) -> Result<Vec<(String, u64)>> {
    let mut taken: BTreeMap<String, u64> = BTreeMap::new();
    let mut dropped: BTreeSet<String> = BTreeSet::new();
    loop {
        let mut names: BTreeSet<String> =
            databases.names().map_err(Problem::into_error)?.into_iter().collect();
        // A copy that could not be removed is not tried again, unless its name is used again.
        names.retain(|name| !dropped.contains(name));
        let listed = replicas.source.to_take_over(&|name| taken.contains_key(name))?;
        names.extend(listed.into_iter().filter(|name| is_name(name)));
        names.retain(|name| !taken.contains_key(name));
        if names.is_empty() {
            return Ok(taken.into_iter().collect());
        }
        for name in names {
            let done = take_over(databases, replicas, entity, &name);
            match done.map_err(|error| error.within(format!("database {name}")))? {
                Some(commit) => drop(taken.insert(name, commit)),
                None => drop(dropped.insert(name)),
            }
        }
    }
}

/// Lets one database take over. Returns its last commit; `None` if the source has dropped it.
fn take_over(
    databases: &Databases,
    replicas: &Replicas,
    entity: Option<&EntityTable>,
    name: &str,
) -> Result<Option<u64>> {
    let (path, progress) = (databases.path(name), replicas.progress(name));
    if !path.is_dir() {
        tracing::warn!(database = %name, "the source has a database that is not here yet; it is copied");
        copy_new(databases, replicas, name, &progress)?;
    }
    for _ in 0..MOST_COPIES {
        let open = databases.open(name).map_err(Problem::into_error)?;
        match replicas.source.take_over(name, &path, &open.db)? {
            TakeOver::Done => return Ok(Some(open.db.snapshot()?.commit_number())),
            TakeOver::WasDropped => {
                drop(open);
                tracing::warn!(database = %name, "the copy is removed: the primary has dropped the database");
                // The others take over all the same.
                if let Err(problem) = databases.remove_copy(name) {
                    tracing::error!(database = %name, "the copy stays: {}", problem.detail);
                }
                return Ok(None);
            }
            TakeOver::IsOutdated => {
                drop(open);
                tracing::warn!(database = %name, "the copy cannot continue; the database is copied anew");
                copy(databases, replicas, name, &progress)?;
                let mut waits = 0..MOST_WAITS;
                if !exchange(databases, entity, name, &mut || waits.next().is_some())? {
                    let message = "requests use the old copy for too long; end them, and try again";
                    return Err(Error::new(ErrorKind::Conflict, message));
                }
                progress.copied();
            }
        }
    }
    let message = format!("the source changed during each of {MOST_COPIES} copies; try again");
    Err(Error::new(ErrorKind::Conflict, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::following::{Feed, Source, Watch};
    use pando::{Budget, Database, Durability};
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    /// Its writer creates `late` while `early` is taken over, and `other` has another database than the copy.
    #[derive(Debug, Default)]
    struct Busy {
        listings: AtomicUsize,
        copied: Mutex<Vec<String>>,
        is_damaged: bool,
    }

    struct Nothing;

    impl Feed for Nothing {
        fn run(&mut self, _: &Database, _: &dyn Watch) -> Result<()> {
            unreachable!()
        }
    }

    impl Source for Busy {
        fn address(&self) -> &str {
            "bucket"
        }

        fn primary(&self) -> Option<&str> {
            None
        }

        fn databases(&self) -> Result<Vec<String>> {
            unreachable!("what was known before may be wrong")
        }

        fn to_take_over(&self, _: &dyn Fn(&str) -> bool) -> Result<Vec<String>> {
            let names = ["early", "other", "not a name", "late"];
            let count = if self.listings.fetch_add(1, Ordering::SeqCst) == 0 { 3 } else { 4 };
            Ok(names[..count].iter().map(|&name| name.to_owned()).collect())
        }

        fn copy(&self, name: &str, dir: &Path, _: &dyn Watch) -> Result<Box<dyn Feed>> {
            if self.is_damaged && name == "late" {
                return Err(Error::new(ErrorKind::Corruption, "damaged"));
            }
            self.copied.lock().unwrap().push(name.to_owned());
            let db = Database::create(dir)?;
            db.ensure_table("copied")?;
            db.close()?;
            Ok(Box::new(Nothing))
        }

        fn resume(&self, _: &str, _: &Path, _: &Database) -> Result<Box<dyn Feed>> {
            unreachable!()
        }

        fn take_over(&self, name: &str, _: &Path, db: &Database) -> Result<TakeOver> {
            let is_copy = db.snapshot()?.commit_number() > 0;
            Ok(match name {
                "gone" => TakeOver::WasDropped,
                _ if is_copy => TakeOver::Done,
                _ => TakeOver::IsOutdated,
            })
        }
    }

    fn replica_of(source: Busy, dir: &Path) -> (Databases, Arc<Replicas>, Arc<Busy>) {
        let source = Arc::new(source);
        let replicas = Arc::new(Replicas::new(String::new(), Arc::clone(&source) as _));
        let budget = Budget::new(64 << 20);
        let mut databases = Databases::new(dir, budget, Durability::Buffered, 1, None).unwrap();
        databases.follow(Arc::clone(&replicas));
        for name in ["gone", "other"] {
            databases.create(name, None).unwrap();
        }
        (databases, replicas, source)
    }

    #[test]
    fn everything_that_the_source_has_in_the_end_takes_over() {
        let dir = tempfile::tempdir().unwrap();
        let (databases, replicas, source) = replica_of(Busy::default(), dir.path());
        let taken = take_over_all(&databases, &replicas, None).unwrap();
        let names: Vec<&str> = taken.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["early", "late", "other"]);
        assert!(taken.iter().all(|&(_, commit)| commit > 0), "{taken:?}");
        assert_eq!(databases.names().unwrap(), names, "what was dropped is gone");
        assert_eq!(*source.copied.lock().unwrap(), ["early", "other", "late"]);
        databases.close_all().unwrap();
    }

    #[test]
    fn a_database_that_cannot_be_copied_refuses_the_promotion() {
        let dir = tempfile::tempdir().unwrap();
        let source = Busy { is_damaged: true, ..Busy::default() };
        let (databases, replicas, _) = replica_of(source, dir.path());
        let error = take_over_all(&databases, &replicas, None).unwrap_err();
        assert!(error.kind() == ErrorKind::Corruption && error.to_string().contains("late"), "{error}");
        databases.close_all().unwrap();
    }
}
