//! The databases whose last writer here may have commits that the bucket lacks.
//!
//! 1. A database is marked before it is shipped, and so before its first commit. The mark is removed when the bucket
//!    has everything and says so: when shipping is released, or the database is dropped.
//! 2. The marks are empty files in a folder of the served directory, so a server that was killed finds them again. It
//!    opens these databases first, which ships them.
//! 3. A database that was closed although its release failed is opened again soon, and is shown with its lag until it
//!    has been shipped.

use crate::data::names::is_name;
use crate::data::open::is_of_another;
use crate::shipping::{Ship, Shipped};
use pando::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// The folder of the marks. No database can have this name.
const FOLDER: &str = ".unreleased";

/// The marks.
#[derive(Debug)]
pub struct Unreleased {
    folder: PathBuf,
    /// The databases that are closed and are to be opened for the rest of their commits.
    waiting: Mutex<BTreeSet<String>>,
}

impl Unreleased {
    /// Returns the marks in the served directory `dir`.
    pub fn new(dir: &Path) -> Self {
        Unreleased { folder: dir.join(FOLDER), waiting: Mutex::default() }
    }

    /// Ships the database `name` with `ship`, which `begin` returns, and marks it before that.
    pub fn ship(
        self: &Arc<Self>,
        name: &str,
        begin: impl FnOnce() -> Result<Box<dyn Ship>>,
    ) -> Result<Box<dyn Ship>> {
        let mark = self.folder.join(name);
        if let Err(error) = self.mark(&mark) {
            // The disk may be full. Only a server that is killed needs the mark.
            let file = mark.display();
            tracing::warn!(%error, "cannot create {file}: after a crash, {name} is shipped once it is used");
        }
        let ship = begin()?;
        self.waiting().remove(name);
        Ok(Box::new(Marked { ship, name: name.to_owned(), mark, all: Arc::clone(self) }))
    }

    fn mark(&self, mark: &Path) -> io::Result<()> {
        if mark.exists() {
            return Ok(());
        }
        if !self.folder.is_dir() {
            fs::create_dir(&self.folder)?;
            sync(self.folder.parent().expect("it is in the served directory"))?;
        }
        fs::File::create(mark)?;
        sync(&self.folder)
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Moves the databases that are marked to the front of `names`, and removes the marks of those that are not there.
    ///
    /// # Errors
    /// `Io` if the marks cannot be read.
    pub fn first(&self, names: &mut [String]) -> Result<()> {
        let failed = |cause| Error::io(format!("read the folder {}", self.folder.display()), cause);
        let entries = match fs::read_dir(&self.folder) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(failed)?,
        };
        let mut marked = BTreeSet::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            match entry.file_name().into_string() {
                Ok(name) if names.contains(&name) => drop(marked.insert(name)),
                Ok(name) if is_name(&name) => remove(&entry.path()),
                _ => {}
            }
        }
        names.sort_by_key(|name| !marked.contains(name));
        *self.waiting() = marked;
        Ok(())
    }

    /// Returns a database that is to be opened again.
    pub fn next(&self) -> Option<String> {
        self.waiting().first().cloned()
    }

    /// Returns how many databases are to be opened again.
    pub fn count(&self) -> usize {
        self.waiting().len()
    }

    /// Notes that the database cannot be opened, so that it is not tried again before it is used.
    pub fn give_up(&self, name: &str) {
        self.waiting().remove(name);
    }
}

fn sync(dir: &Path) -> io::Result<()> {
    fs::File::open(dir)?.sync_all()
}

/// Removes a mark. One that comes back after a crash costs a look into the bucket.
fn remove(mark: &Path) {
    if let Err(error) = fs::remove_file(mark)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "the file {} cannot be removed", mark.display());
    }
}

/// Returns whether another attempt to ship may succeed.
fn is_passing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::Full | ErrorKind::WouldWait | ErrorKind::Conflict)
}

/// Ships a database that has a mark.
#[derive(Debug)]
struct Marked {
    ship: Box<dyn Ship>,
    name: String,
    mark: PathBuf,
    all: Arc<Unreleased>,
}

impl Ship for Marked {
    fn when_shipped(&self, commit: u64, shipped: Shipped) {
        self.ship.when_shipped(commit, shipped);
    }

    fn failure(&self) -> Option<Error> {
        self.ship.failure()
    }

    fn difficulty(&self) -> Option<String> {
        self.ship.difficulty()
    }

    fn refusal(&self) -> Option<Error> {
        self.ship.refusal()
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        self.ship.gauges()
    }

    fn release(&self) -> Result<()> {
        let released = self.ship.release();
        match &released {
            Ok(()) => remove(&self.mark),
            // The bucket never gets its commits.
            Err(error) if is_of_another(error) => remove(&self.mark),
            Err(error) if is_passing(error) => drop(self.all.waiting().insert(self.name.clone())),
            // Another attempt fails as well, until somebody mends the bucket.
            Err(_) => {}
        }
        released
    }

    fn drop_database(&self) -> Result<()> {
        let dropped = self.ship.drop_database();
        if dropped.is_ok() {
            remove(&self.mark);
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::databases::Databases;
    use crate::shipping::Shipping;
    use pando::{Budget, Database, Durability};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A bucket that can be away.
    #[derive(Debug, Default)]
    struct Bucket {
        /// Whether requests fail.
        is_away: AtomicBool,
        /// Whether somebody has noticed it.
        is_noticed: AtomicBool,
        begun: Mutex<Vec<String>>,
    }

    #[derive(Debug)]
    struct Ships(Arc<Bucket>);

    impl Shipping for Ships {
        fn begin(&self, name: &str, _: &Database) -> Result<Box<dyn Ship>> {
            self.0.begun.lock().unwrap().push(name.to_owned());
            Ok(Box::new(Ships(Arc::clone(&self.0))))
        }

        fn is_sync(&self) -> bool {
            false
        }
    }

    impl Ship for Ships {
        fn when_shipped(&self, _: u64, shipped: Shipped) {
            shipped(Ok(()));
        }

        fn failure(&self) -> Option<Error> {
            None
        }

        fn difficulty(&self) -> Option<String> {
            self.0.is_noticed.load(Ordering::SeqCst).then(|| "away".to_owned())
        }

        fn refusal(&self) -> Option<Error> {
            None
        }

        fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
            Vec::new()
        }

        fn release(&self) -> Result<()> {
            match self.0.is_away.load(Ordering::SeqCst) {
                true => Err(Error::new(ErrorKind::Io, "away")),
                false => Ok(()),
            }
        }

        fn drop_database(&self) -> Result<()> {
            self.release()
        }
    }

    fn open(dir: &Path, most_open: usize, bucket: &Arc<Bucket>) -> Databases {
        let shipping = Arc::new(Ships(Arc::clone(bucket)));
        let budget = Budget::new(64 << 20);
        Databases::new(dir, budget, Durability::Buffered, most_open, Some(shipping)).unwrap()
    }

    fn create(databases: &Databases, name: &str) {
        databases.tick();
        databases.create(name, None).unwrap();
    }

    fn open_names(databases: &Databases) -> Vec<String> {
        let mut names: Vec<String> = databases.all_open().into_iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names
    }

    fn marks(dir: &Path) -> usize {
        fs::read_dir(dir.join(FOLDER)).unwrap().count()
    }

    #[test]
    fn what_cannot_be_shipped_stays_open() {
        let (dir, bucket) = (tempfile::tempdir().unwrap(), Arc::new(Bucket::default()));
        let databases = open(dir.path(), 2, &bucket);
        create(&databases, "a");
        create(&databases, "b");
        bucket.is_away.store(true, Ordering::SeqCst);
        bucket.is_noticed.store(true, Ordering::SeqCst);
        create(&databases, "c");
        databases.close_idle();
        assert_eq!(open_names(&databases), ["a", "b", "c"], "more than are to be open");
        bucket.is_away.store(false, Ordering::SeqCst);
        bucket.is_noticed.store(false, Ordering::SeqCst);
        databases.close_idle();
        assert_eq!(open_names(&databases), ["b", "c"]);
        assert_eq!(marks(dir.path()), 2);
        databases.drop_database("b").unwrap();
        databases.close_all().unwrap();
        assert_eq!(marks(dir.path()), 0);
    }

    #[test]
    fn what_was_not_released_is_opened_again() {
        let (dir, bucket) = (tempfile::tempdir().unwrap(), Arc::new(Bucket::default()));
        let databases = open(dir.path(), 2, &bucket);
        create(&databases, "a");
        create(&databases, "b");
        // No request of its own has failed yet.
        bucket.is_away.store(true, Ordering::SeqCst);
        create(&databases, "c");
        assert_eq!((open_names(&databases).len(), databases.unreleased_count()), (2, 1));
        bucket.is_noticed.store(true, Ordering::SeqCst);
        databases.ship_unreleased();
        assert_eq!((open_names(&databases).len(), databases.unreleased_count()), (3, 0));
        bucket.is_away.store(false, Ordering::SeqCst);
        bucket.is_noticed.store(false, Ordering::SeqCst);
        databases.close_idle();
        create(&databases, "d");
        // The end of the server, while the bucket is away.
        bucket.is_away.store(true, Ordering::SeqCst);
        let last = open_names(&databases);
        databases.close_all().unwrap();
        drop(databases);
        bucket.begun.lock().unwrap().clear();

        // The others were released, and come first by name.
        let databases = open(dir.path(), 1, &bucket);
        databases.begin_shipping().unwrap();
        assert_eq!((open_names(&databases), databases.unreleased_count()), (vec![last[0].clone()], 1));
        bucket.is_away.store(false, Ordering::SeqCst);
        databases.tick();
        databases.ship_unreleased();
        assert_eq!((open_names(&databases), databases.unreleased_count()), (vec![last[1].clone()], 0));
        assert_eq!(*bucket.begun.lock().unwrap(), last);
        databases.close_all().unwrap();
        assert_eq!(marks(dir.path()), 0);
        // A mark of a database that was removed.
        fs::write(dir.path().join(FOLDER).join("gone"), "").unwrap();
        let databases = open(dir.path(), 1, &bucket);
        databases.begin_shipping().unwrap();
        assert_eq!((open_names(&databases), databases.unreleased_count()), (vec!["a".to_owned()], 0));
        assert_eq!(marks(dir.path()), 1);
        databases.close_all().unwrap();
    }
}
