//! The databases of a directory: opened when a request needs them; the one that was used longest ago is closed when too
//! many are open, or when another needs the memory.
//!
//! 1. A name that a request brings becomes a path only if it is one of [`is_name`]: letters, digits, `-` and `_`.
//! 2. One look into a map finds an open database, without a lock and without memory. The map itself is never changed:
//!    a new one takes its place.
//! 3. Opening, closing and dropping a database happen under its gate, on threads that may wait.
//! 4. A database is closed when its last user has let go of it, never under one: the handle is taken out of its place
//!    first, so that nobody new finds it.
//! 5. A dropped database's directory is renamed before it is removed: a crash between leaves a name that no database
//!    can have, and that the next start removes.
//! 6. A directory that holds anything else is not removed, and one that holds nothing of a database is none: neither
//!    listed nor, unless it is empty, made one. A directory of the operator's own keeps what is in it.

use crate::data::inside::{Inside, remove};
use crate::data::names::Names;
use crate::data::open::Open;
use crate::wire::problem::{Answer, Problem};
use arc_swap::{ArcSwap, ArcSwapOption};
use axum::http::StatusCode;
use pando::{Budget, Database, Durability, Error, ErrorKind, Holder, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// The name of the database that `/v0` uses. It is always open.
pub const DEFAULT_DATABASE: &str = "default";
/// The longest name.
const MAX_NAME_BYTES: usize = 64;
/// Before this in the name of a directory stands what was dropped.
const DROPPED: &str = ".dropped-";
/// A database that was not used for so many seconds is closed while memory is short.
const IDLE_TICKS: u64 = 2;
/// How long a drop waits for those who use the database.
const DROP_PATIENCE: Duration = Duration::from_secs(5);

/// All databases of a directory.
#[derive(Debug)]
pub struct Databases {
    dir: PathBuf,
    budget: Arc<Budget>,
    durability: Durability,
    most_open: usize,
    /// For writes that wait.
    memory: Arc<Semaphore>,
    places: ArcSwap<Names<Arc<Place>>>,
    /// Counts uses, as a clock for what was used last.
    uses: AtomicU64,
}

/// Where an open database is found.
#[derive(Debug)]
struct Place {
    name: Box<str>,
    open: ArcSwapOption<Open>,
    gate: Mutex<()>,
    /// When it was used last, by the server's clock of seconds.
    used_at: AtomicU64,
}

/// Whether a database can be called so. Nothing else comes near the file system.
pub fn is_name(name: &str) -> bool {
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(letters)
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

fn locked(gate: &Mutex<()>) -> MutexGuard<'_, ()> {
    gate.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Databases {
    /// Those in `dir`, none of them open yet; what was dropped and not removed is removed.
    pub fn new(dir: &Path, budget: Arc<Budget>, durability: Durability, most_open: usize) -> Result<Self> {
        let failed = |error| Error::io(format!("read the directory {}", dir.display()), error);
        for entry in fs::read_dir(dir).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(DROPPED.as_bytes())) {
                remove(&path)?;
            }
        }
        let (places, uses) = (ArcSwap::default(), AtomicU64::new(0));
        let (dir, memory) = (dir.to_owned(), Open::memory());
        Ok(Databases { dir, budget, durability, most_open, memory, places, uses })
    }

    /// Moves the clock of [`Databases::close_idle`].
    pub fn tick(&self) {
        self.uses.fetch_add(1, Ordering::SeqCst);
    }

    /// Runs `with` on a database that is open.
    #[inline]
    pub fn with_open<T>(&self, name: &str, with: impl FnOnce(&Open) -> T) -> Option<T> {
        let places = self.places.load();
        let place = places.get(name)?;
        let open = place.open.load();
        let open = open.as_ref()?;
        self.note_use(place);
        Some(with(open))
    }

    /// A database that is open, to be used for longer.
    pub fn get_open(&self, name: &str) -> Option<Arc<Open>> {
        let places = self.places.load();
        let place = places.get(name)?;
        self.note_use(place);
        place.open.load_full()
    }

    /// Stored only when the clock has moved: readers of one database write to no line that they share.
    #[inline]
    fn note_use(&self, place: &Place) {
        // Relaxed on all: an estimate of who was used last, which orders nothing.
        let now = self.uses.load(Ordering::Relaxed);
        // Relaxed, as above.
        if place.used_at.load(Ordering::Relaxed) != now {
            place.used_at.store(now, Ordering::Relaxed);
        }
    }

    /// The database, opened if it is not yet. Waits for the disk.
    pub fn open(&self, name: &str) -> Answer<Arc<Open>> {
        check_name(name)?;
        if let Some(open) = self.get_open(name) {
            return Ok(open);
        }
        let path = self.dir.join(name);
        // Before a place is made: it takes a copy of the map, and clients may think up any number of names.
        if !path.is_dir() {
            return Err(missing(name));
        }
        self.at_gate(name, |place| {
            if let Some(open) = place.open.load_full() {
                return Ok(open);
            }
            if !path.is_dir() {
                return Err(missing(name));
            }
            let db = self.with_room(|| self.builder().open(&path))?;
            Ok(self.install(place, db))
        })
    }

    /// Makes a database; `false` if it was there, as it is.
    pub fn create(&self, name: &str, page_bytes: Option<usize>) -> Answer<(Arc<Open>, bool)> {
        check_name(name)?;
        self.at_gate(name, |place| self.create_at(place, page_bytes))
    }

    fn create_at(&self, place: &Place, page_bytes: Option<usize>) -> Answer<(Arc<Open>, bool)> {
        let name = &*place.name;
        let path = self.dir.join(name);
        let inside = Inside::of(&path)?;
        if inside.others && !inside.ours {
            return Err(other_files(name));
        }
        let is_new = !inside.ours;
        if let Some(open) = place.open.load_full() {
            let stored = open.db.stats()?.page_bytes;
            if page_bytes.is_some_and(|asked| asked as u64 != stored) {
                let detail = format!("database {name:?} has pages of {stored} bytes");
                return Err(Problem::new(StatusCode::CONFLICT, "mismatch", detail));
            }
            return Ok((open, false));
        }
        let create = || {
            let mut builder = self.builder();
            if let Some(bytes) = page_bytes {
                builder = builder.page_bytes(bytes);
            }
            builder.create(&path).inspect_err(|_| {
                // Only an empty directory goes: what is in one that was there stays.
                let _ = fs::remove_dir(&path);
            })
        };
        let db = self.with_room(create)?;
        Ok((self.install(place, db), is_new))
    }

    /// Removes a database with all it holds, once nobody uses it.
    pub fn drop_database(&self, name: &str) -> Answer<()> {
        check_name(name)?;
        if name == DEFAULT_DATABASE {
            let detail = "the default database cannot be dropped: `/v0` uses it";
            return Err(Problem::new(StatusCode::CONFLICT, "in-use", detail));
        }
        let path = self.dir.join(name);
        let inside = Inside::of(&path)?;
        if !inside.ours {
            return Err(missing(name));
        }
        if inside.others {
            return Err(other_files(name));
        }
        self.at_gate(name, |place| self.drop_at(place))
    }

    fn drop_at(&self, place: &Place) -> Answer<()> {
        let name = &*place.name;
        if !close(place, DROP_PATIENCE)? {
            let detail = format!(
                "database {name:?} is in use by a transaction or a stream; end it, or try again later"
            );
            return Err(Problem::new(StatusCode::CONFLICT, "in-use", detail));
        }
        let failed = |error| Error::io(format!("drop the database {name}"), error);
        let aside = self.dir.join(format!("{DROPPED}{name}-{}", self.uses.fetch_add(1, Ordering::SeqCst)));
        fs::rename(self.dir.join(name), &aside).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => missing(name),
            _ => failed(error).into(),
        })?;
        fs::File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(failed)?;
        remove(&aside)?;
        Ok(())
    }

    /// The names of all databases, in order.
    pub fn names(&self) -> Answer<Vec<String>> {
        let failed = |error| Error::io("read the directory of databases", error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            names.extend(entry.file_name().into_string().ok().filter(|name| is_dir && is_name(name)));
        }
        // One that is gone meanwhile is no more listed than one that never was a database.
        names.retain(|name| Inside::of(&self.dir.join(name)).is_ok_and(|inside| inside.ours));
        names.sort_unstable();
        Ok(names)
    }

    /// Every database that is open.
    pub fn all_open(&self) -> Vec<(String, Arc<Open>)> {
        let places = self.places.load();
        let open =
            places.values().filter_map(|place| Some((place.name.to_string(), place.open.load_full()?)));
        open.collect()
    }

    /// Closes what was used longest ago, while more are open than may be, or their memory is short. What is in use
    /// stays.
    pub fn close_idle(&self) {
        self.close_down_to(self.most_open);
        while self.is_memory_short() && self.close_some(1, IDLE_TICKS) > 0 {}
    }

    /// Whether so much memory is held for other things than pages, which are given back when they are wanted, that a
    /// write of one database may find none because of others that are idle.
    fn is_memory_short(&self) -> bool {
        let firm_bytes = self.budget.used_bytes().saturating_sub(self.budget.held_as(Holder::Pool));
        firm_bytes > self.budget.limit_bytes() / 4 * 3
    }

    /// Closes everything, to the last one that can be: the first error is answered.
    pub fn close_all(&self) -> Result<()> {
        let mut outcome = Ok(());
        for place in self.places.load().values() {
            let _gate = locked(&place.gate);
            if let Some(open) = place.open.swap(None) {
                outcome = outcome.and(open.db.close());
            }
        }
        outcome
    }

    /// Opens one more database: room is made for it first, and where the memory of all is used up, as long as there is
    /// an idle one to be closed.
    fn with_room(&self, open: impl Fn() -> Result<Database>) -> Result<Database> {
        self.close_down_to(self.most_open.saturating_sub(1));
        while self.is_memory_short() && self.close_some(1, 0) > 0 {}
        loop {
            match open() {
                Err(error) if error.kind() == ErrorKind::Full && self.close_some(1, 0) > 0 => {}
                done => return done,
            }
        }
    }

    fn close_down_to(&self, count: usize) {
        let open = self.places.load().values().filter(|place| place.open.load().is_some()).count();
        self.close_some(open.saturating_sub(count), 0);
    }

    /// Closes `count` databases at most, those that were used longest ago first: none that a request is using, or that
    /// was used within so many ticks. Returns how many were closed.
    fn close_some(&self, count: usize, idle_ticks: u64) -> usize {
        let places = self.places.load_full();
        let now = self.uses.load(Ordering::Relaxed); // Relaxed: as in `note_use`.
        // Relaxed: as in `note_use`.
        let is_idle = |place: &Place| place.used_at.load(Ordering::Relaxed) + idle_ticks <= now;
        let mut open: Vec<&Arc<Place>> =
            places.values().filter(|place| place.open.load().is_some() && is_idle(place)).collect();
        // Relaxed: as in `note_use`.
        open.sort_by_key(|place| place.used_at.load(Ordering::Relaxed));
        let mut surplus = count;
        for place in open {
            if surplus == 0 {
                break;
            }
            // Somebody who opens, closes or drops it holds the gate, and may be waiting for this very call's gate.
            let Ok(_gate) = place.gate.try_lock() else { continue };
            match close(place, Duration::ZERO) {
                Ok(true) => surplus -= 1,
                Ok(false) => {}
                Err(error) => tracing::error!(%error, database = %place.name, "closing a database failed"),
            }
        }
        count - surplus
    }

    fn builder(&self) -> pando::Builder {
        Database::builder().budget(&self.budget).durability(self.durability)
    }

    /// Runs `work` under the gate of the place of that name, which is made if it is new and goes again if in the end
    /// there is no directory of that name.
    fn at_gate<T>(&self, name: &str, mut work: impl FnMut(&Place) -> Answer<T>) -> Answer<T> {
        loop {
            let place = self.place(name);
            let _gate = locked(&place.gate);
            // The request that held the gate before may have taken the place away: nobody would find what is opened
            // there.
            if !self.places.load().get(name).is_some_and(|current| Arc::ptr_eq(current, &place)) {
                continue;
            }
            let outcome = work(&place);
            if place.open.load().is_none() && !self.dir.join(name).is_dir() {
                self.places.rcu(|places| {
                    let mut places = Names::clone(places);
                    places.remove(name);
                    places
                });
            }
            return outcome;
        }
    }

    /// The place of a database of that name, made if it is new.
    fn place(&self, name: &str) -> Arc<Place> {
        if let Some(place) = self.places.load().get(name) {
            return Arc::clone(place);
        }
        let new = Arc::new(Place {
            name: name.into(),
            open: ArcSwapOption::empty(),
            gate: Mutex::new(()),
            used_at: AtomicU64::new(0),
        });
        let mut found = Arc::clone(&new);
        self.places.rcu(|places| {
            let mut places = Names::clone(places);
            found = Arc::clone(places.entry(name.into()).or_insert_with(|| Arc::clone(&new)));
            places
        });
        found
    }

    fn install(&self, place: &Place, db: Database) -> Arc<Open> {
        let open = Arc::new(Open::new(db, Arc::clone(&self.memory)));
        place.open.store(Some(Arc::clone(&open)));
        self.note_use(place);
        open
    }
}

/// Closes what is open at `place`, whose gate the caller holds, if those who use it let go of it in time. Until then
/// requests find it: they would wait at the gate.
fn close(place: &Place, patience: Duration) -> Result<bool> {
    let begun = Instant::now();
    let is_used =
        |open: &Arc<Open>, own: usize| Arc::strong_count(open) > own || Arc::strong_count(&open.writer) > 1;
    loop {
        let Some(open) = place.open.load_full() else { return Ok(true) };
        // The place's and this one.
        let seems_used = is_used(&open, 2);
        drop(open);
        // The swap turns what is only borrowed from the place into counted handles: the count is all users.
        if !seems_used && let Some(open) = place.open.swap(None) {
            if !is_used(&open, 1) {
                open.db.close()?;
                return Ok(true);
            }
            place.open.store(Some(open));
        }
        if begun.elapsed() >= patience {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(5));
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

    fn databases(dir: &Path, most_open: usize) -> Databases {
        Databases::new(dir, Budget::new(64 << 20), Durability::Buffered, most_open).unwrap()
    }

    #[test]
    fn names_that_could_be_paths_are_none() {
        for name in ["a", "A-1_b", "x".repeat(64).as_str()] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", "a\0", "a.b", "ä", "x".repeat(65).as_str(), "a b", "~"] {
            assert!(!is_name(name), "{name}");
        }
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
        assert_eq!(databases.places.load().len(), 3, "what was dropped, or never was, is not remembered");
        databases.close_all().unwrap();
    }

    #[test]
    fn idle_databases_are_closed_when_others_need_the_memory() {
        let dir = tempfile::tempdir().unwrap();
        let budget = Budget::new(32 << 20);
        let databases = Databases::new(dir.path(), Arc::clone(&budget), Durability::Buffered, 64).unwrap();
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
        // A database in use is not closed for its memory.
        let used: Vec<_> = (0..40).map_while(|n| databases.open(&format!("d{n}")).ok()).collect();
        assert!((2..40).contains(&used.len()), "{} at a time", used.len());
        assert!(databases.open("d39").is_err_and(|problem| problem.status.as_u16() == 507));
        drop(used);
        assert!(databases.open("d39").is_ok());
        databases.close_all().unwrap();
    }

    #[test]
    fn whoever_asks_while_a_drop_waits_is_served() {
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
        // With something else beside it a database is one, and nobody removes it.
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
