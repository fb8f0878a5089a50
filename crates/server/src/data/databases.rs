//! The databases of a directory. A database is opened when a request needs it. The least recently used one is closed
//! when too many are open, or when another database needs the memory.
//!
//! 1. A name in a request becomes a path only if [`is_name`] accepts it: letters, digits, `-` and `_`.
//! 2. [`places`](crate::data::places) finds open databases and closes them.
//! 3. The directory of a dropped database is renamed before it is removed. A crash between the two steps leaves a name
//!    that no database can have, and the next start removes it.
//! 4. The bucket to which a database is shipped has its drop before the directory is renamed. After a crash between the
//!    two, the database is still there and goes on: its drop was not acknowledged.
//! 5. A directory that holds other files is not removed. A directory without files of a database is not listed, and
//!    becomes a database only if it is empty. A directory of the operator's own keeps its files.

use crate::data::inside::{Inside, remove};
use crate::data::names::{MAX_NAME_BYTES, is_name};
use crate::data::open::Open;
use crate::data::places::{Closing, Place, Places};
use crate::data::replicas::Replicas;
use crate::data::unreleased::Unreleased;
use crate::shipping::Shipping;
use crate::wire::problem::{Answer, Problem};
use axum::http::StatusCode;
use pando::{Budget, Database, Durability, Error, ErrorKind, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

mod copies;
mod drops;
mod shipped;

use copies::COPYING;

/// The name of the database that `/v0` uses. It is always open.
pub const DEFAULT_DATABASE: &str = "default";
/// The prefix of the directory of a dropped database.
const DROPPED: &str = ".dropped-";
/// The number of seconds without use after which a database is closed while memory is short.
const IDLE_TICKS: u64 = 2;
/// How long a drop waits for requests that use the database.
const DROP_PATIENCE: Duration = Duration::from_secs(5);

/// All databases of a directory.
#[derive(Debug)]
pub struct Databases {
    dir: PathBuf,
    budget: Arc<Budget>,
    durability: Durability,
    most_open: usize,
    /// The memory of writes that wait.
    memory: Arc<Semaphore>,
    places: Places,
    shipping: Option<Arc<dyn Shipping>>,
    unreleased: Arc<Unreleased>,
    /// The state of a server that began as a replica.
    replicas: Option<Arc<Replicas>>,
}

fn check_name(name: &str) -> Answer<()> {
    if is_name(name) {
        return Ok(());
    }
    let detail = format!("a database's name must have 1 to {MAX_NAME_BYTES} letters, digits, `-` and `_`");
    Err(Problem::bad_request(detail))
}

fn missing(name: &str) -> Problem {
    Problem::not_found(format!("there is no database {name:?}"))
}

impl Databases {
    /// Creates the databases of `dir`, none of them open. Directories of dropped databases that remained are removed.
    pub fn new(
        dir: &Path,
        budget: Arc<Budget>,
        durability: Durability,
        most_open: usize,
        shipping: Option<Arc<dyn Shipping>>,
    ) -> Result<Self> {
        let failed = |error| Error::io(format!("read the directory {}", dir.display()), error);
        for entry in fs::read_dir(dir).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let begins = |prefix: &&str| {
                let name = path.file_name();
                name.is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
            };
            if [DROPPED, COPYING].iter().any(begins) {
                remove(&path)?;
            }
        }
        let unreleased = Arc::new(Unreleased::new(dir));
        let (dir, memory, places) = (dir.to_owned(), Open::memory(), Places::default());
        let replicas = None;
        Ok(Databases { dir, budget, durability, most_open, memory, places, shipping, unreleased, replicas })
    }

    /// Makes the server a replica. It is called before a database is opened.
    pub fn follow(&mut self, replicas: Arc<Replicas>) {
        self.replicas = Some(replicas);
    }

    /// Returns the state of a server that began as a replica; `None` for any other.
    #[inline]
    pub fn replicas(&self) -> Option<&Arc<Replicas>> {
        self.replicas.as_ref()
    }

    /// Returns whether the server is a replica now.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.replicas.as_ref().is_some_and(|replicas| replicas.is_replica())
    }

    /// Returns the directory that holds the databases.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the directory of the database `name`, whether it exists or not.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Advances the clock of [`Databases::close_idle`].
    pub fn tick(&self) {
        self.places.tick();
    }

    /// Runs `with` on the database if it is open.
    #[inline]
    pub fn with_open<T>(&self, name: &str, with: impl FnOnce(&Open) -> T) -> Option<T> {
        self.places.with_open(name, with)
    }

    /// Returns a handle to the database if it is open.
    pub fn get_open(&self, name: &str) -> Option<Arc<Open>> {
        self.places.get_open(name)
    }

    /// Returns the database and opens it if necessary. Waits for the disk.
    pub fn open(&self, name: &str) -> Answer<Arc<Open>> {
        check_name(name)?;
        if let Some(open) = self.get_open(name) {
            return Ok(open);
        }
        let path = self.dir.join(name);
        // This check comes before a place is made, because a new place copies the map, and clients may invent any
        // number of names.
        if !path.is_dir() {
            return Err(missing(name));
        }
        self.at_gate(name, |place| {
            if let Some(open) = place.open() {
                return Ok(open);
            }
            if !path.is_dir() {
                return Err(missing(name));
            }
            self.open_at(place)
        })
    }

    fn open_at(&self, place: &Place) -> Answer<Arc<Open>> {
        let path = self.dir.join(&*place.name);
        let db = self.with_room(|| self.builder().open(&path))?;
        self.install(place, db)
    }

    /// Creates a database. Returns `false` if it already existed; it is not changed then.
    pub fn create(&self, name: &str, page_bytes: Option<usize>) -> Answer<(Arc<Open>, bool)> {
        check_name(name)?;
        self.at_gate(name, |place| self.create_at(place, page_bytes))
    }

    fn create_at(&self, place: &Place, page_bytes: Option<usize>) -> Answer<(Arc<Open>, bool)> {
        let name = &*place.name;
        let path = self.dir.join(name);
        let inside = Inside::read(&path)?;
        if inside.others && !inside.ours {
            return Err(other_files(name));
        }
        let is_new = !inside.ours;
        if let Some(open) = place.open() {
            let stored = open.db.stats()?.page_bytes;
            if page_bytes.is_some_and(|asked| asked as u64 != stored) {
                let detail = format!("database {name:?} has pages of {stored} bytes");
                return Err(Problem::new(StatusCode::CONFLICT, "mismatch", detail));
            }
            return Ok((open, false));
        }
        if is_new {
            self.check_not_replaced()?;
        }
        let create = || {
            let mut builder = self.builder();
            if let Some(bytes) = page_bytes {
                builder = builder.page_bytes(bytes);
            }
            builder.create(&path).inspect_err(|_| {
                // Only an empty directory is removed: existing files stay.
                let _ = fs::remove_dir(&path);
            })
        };
        let db = self.with_room(create)?;
        Ok((self.install(place, db)?, is_new))
    }

    /// Checks that a database exists, without opening it.
    pub fn check_exists(&self, name: &str) -> Answer<()> {
        check_name(name)?;
        if self.dir.join(name).is_dir() { Ok(()) } else { Err(missing(name)) }
    }

    /// Returns the names of all databases, in order.
    pub fn names(&self) -> Answer<Vec<String>> {
        let failed = |error| Error::io("read the directory of databases", error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            names.extend(entry.file_name().into_string().ok().filter(|name| is_dir && is_name(name)));
        }
        // A database that was dropped meanwhile is not listed either.
        names.retain(|name| Inside::read(&self.dir.join(name)).is_ok_and(|inside| inside.ours));
        names.sort_unstable();
        Ok(names)
    }

    /// Returns every open database.
    pub fn all_open(&self) -> Vec<(String, Arc<Open>)> {
        self.places.all_open()
    }

    /// Closes the least recently used databases while too many are open or their memory is short. Databases in use stay
    /// open.
    pub fn close_idle(&self) {
        self.places.close_down_to(self.most_open);
        while self.is_memory_short() && self.places.close_some(1, IDLE_TICKS, Closing::Settled) > 0 {}
    }

    /// Returns how many bytes of the shared memory budget are in use.
    pub fn used_bytes(&self) -> u64 {
        self.budget.used_bytes() as u64
    }

    /// Returns whether so much memory is held that cannot be given up at once, that idle databases might leave a write
    /// of another one without memory.
    fn is_memory_short(&self) -> bool {
        self.budget.firm_bytes() > self.budget.limit_bytes() / 4 * 3
    }

    /// Closes all databases, even after an error, and returns the first error.
    pub fn close_all(&self) -> Result<()> {
        self.places.close_all()
    }

    /// Opens one more database. It first closes databases down to the limit. While the shared memory is used up, it
    /// closes idle ones; last of all those that cannot be shipped at present.
    fn with_room(&self, open: impl Fn() -> Result<Database>) -> Result<Database> {
        self.places.close_down_to(self.most_open.saturating_sub(1));
        while self.is_memory_short() && self.places.close_some(1, 0, Closing::Settled) > 0 {}
        let closes =
            || [Closing::Settled, Closing::Any].iter().any(|&which| self.places.close_some(1, 0, which) > 0);
        loop {
            match open() {
                Err(error) if error.kind() == ErrorKind::Full && closes() => {}
                done => return done,
            }
        }
    }

    fn builder(&self) -> pando::Builder {
        Database::builder().budget(&self.budget).durability(self.durability)
    }

    fn at_gate<T>(&self, name: &str, work: impl FnMut(&Place) -> Answer<T>) -> Answer<T> {
        self.places.at_gate(name, || self.dir.join(name).is_dir(), work)
    }

    fn install(&self, place: &Place, db: Database) -> Answer<Arc<Open>> {
        let is_replica = self.is_replica();
        db.set_replica(is_replica);
        let shipping = self.shipping.as_ref().filter(|_| !is_replica);
        let begin = |shipping: &Arc<dyn Shipping>| self.begin_to_ship(&**shipping, &place.name, &db);
        let ship = shipping.map(begin).transpose()?;
        Ok(self.places.install(place, Open::new(db, Arc::clone(&self.memory), ship)))
    }
}

fn other_files(name: &str) -> Problem {
    let detail =
        format!("the directory {name:?} holds files that do not belong to a database; they were not deleted");
    Problem::new(StatusCode::CONFLICT, "other-files", detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn databases(dir: &Path, most_open: usize) -> Databases {
        Databases::new(dir, Budget::new(64 << 20), Durability::Buffered, most_open, None).unwrap()
    }

    #[test]
    fn what_is_idle_is_closed_and_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let databases = databases(dir.path(), 2);
        for name in ["a", "b", "c", "d"] {
            databases.tick();
            let (open, is_new) = databases.create(name, None).unwrap();
            assert!(is_new);
            let table = open.table_or_create("t", &pando::TableOptions::default()).unwrap();
            open.db.put(&table, b"k", name.as_bytes()).unwrap();
        }
        let mut open: Vec<String> = databases.all_open().into_iter().map(|(name, _)| name).collect();
        open.sort_unstable();
        assert_eq!(open, ["c", "d"]);
        let a = databases.open("a").unwrap();
        assert_eq!(a.db.get(&a.table("t").unwrap(), b"k").unwrap(), Some(b"a".to_vec()));
        assert!(databases.drop_database("a").is_err_and(|problem| problem.status == StatusCode::CONFLICT));
        drop(a);
        databases.drop_database("a").unwrap();
        assert!(databases.open("a").is_err_and(|problem| problem.status == StatusCode::NOT_FOUND));
        assert_eq!(databases.names().unwrap(), ["b", "c", "d"]);
        assert_eq!(databases.places.count(), 3, "what was dropped, or never was, is not remembered");
        databases.close_all().unwrap();
    }

    #[test]
    fn idle_databases_are_closed_when_others_need_the_memory() {
        let dir = tempfile::tempdir().unwrap();
        let budget = Budget::new(16 << 20);
        let databases =
            Databases::new(dir.path(), Arc::clone(&budget), Durability::Buffered, 64, None).unwrap();
        for n in 0..40 {
            let (open, is_new) = databases.create(&format!("d{n}"), None).unwrap();
            assert!(is_new);
            let table = open.table_or_create("t", &pando::TableOptions::default()).unwrap();
            open.db.put(&table, b"k", &[n]).unwrap();
        }
        let open = databases.all_open().len();
        assert!((2..40).contains(&open), "{open} are open");
        for n in (0..40).rev() {
            let open = databases.open(&format!("d{n}")).unwrap();
            assert_eq!(open.db.get(&open.table("t").unwrap(), b"k").unwrap(), Some(vec![n]));
        }
        // A database in use is not closed, even if memory is short.
        let used: Vec<_> = (0..40).map_while(|n| databases.open(&format!("d{n}")).ok()).collect();
        assert!((2..40).contains(&used.len()), "{} at a time", used.len());
        assert!(databases.open("d39").is_err_and(|problem| problem.status.as_u16() == 507));
        drop(used);
        assert!(databases.open("d39").is_ok());
        databases.close_all().unwrap();
    }

    #[test]
    fn requests_are_served_while_a_drop_waits() {
        let dir = tempfile::tempdir().unwrap();
        let databases = databases(dir.path(), 4);
        let (used, _) = databases.create("a", None).unwrap();
        std::thread::scope(|scope| {
            let dropping = scope.spawn(|| databases.drop_database("a"));
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(300) {
                assert!(databases.open("a").is_ok());
            }
            assert!(begun.elapsed() < DROP_PATIENCE / 2, "they waited for {:?}", begun.elapsed());
            drop(used);
            dropping.join().unwrap().unwrap();
        });
        assert!(databases.open("a").is_err_and(|problem| problem.status == StatusCode::NOT_FOUND));
    }

    #[test]
    fn what_is_no_database_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let databases = databases(dir.path(), 2);
        fs::create_dir_all(dir.path().join("pictures/inner")).unwrap();
        fs::create_dir(dir.path().join("empty")).unwrap();
        fs::write(dir.path().join("file"), b"x").unwrap();
        for name in ["pictures", "empty", "file", "none"] {
            assert!(databases.names().unwrap().is_empty(), "{name}");
            let status = |answer: Answer<()>| answer.unwrap_err().status.as_u16();
            assert_eq!(status(databases.open(name).map(drop)), 404, "{name}");
            assert_eq!(status(databases.drop_database(name)), 404, "{name}");
        }
        assert_eq!(databases.create("pictures", None).unwrap_err().status.as_u16(), 409);
        assert!(databases.create("empty", None).unwrap().1, "it is new");
        // With files of a database in it, the directory is a database, but the other file keeps it from being removed.
        fs::write(dir.path().join("empty/notes"), b"x").unwrap();
        assert_eq!(databases.names().unwrap(), ["empty"]);
        assert_eq!(databases.drop_database("empty").unwrap_err().status.as_u16(), 409);
        fs::remove_file(dir.path().join("empty/notes")).unwrap();
        databases.drop_database("empty").unwrap();
        assert!(dir.path().join("pictures/inner").is_dir() && dir.path().join("file").is_file());
    }

    #[test]
    fn what_a_crash_left_of_a_drop_goes() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join(".dropped-x-1/inner")).unwrap();
        let databases = databases(dir.path(), 2);
        assert_eq!((databases.names().unwrap().len(), fs::read_dir(dir.path()).unwrap().count()), (0, 0));
    }
}
