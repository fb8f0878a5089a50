//! The databases of a remote store. One is opened when a request needs it, and stays open.
//!
//! 1. A look-up in a map finds an open database, without a lock. The map is replaced when a database is opened.
//! 2. A database is opened by a thread that may wait, while others wait for the same one. A bounded number of different
//!    ones is opened at a time, so that a slow opening does not stop the others.
//! 3. An open database has connections to the store. Those that no request has used for a while are closed, and opened
//!    again when a request needs them. When too many databases are open, those that no request uses are closed.
//! 4. The writes of all open transactions share a limit of memory.

use crate::data::engine::Remote;
use crate::data::names::{MAX_NAME_BYTES, Names, is_name};
use crate::data::open::Open;
use crate::data::remote::engine::RemoteOwn;
use crate::stores::Stores;
use crate::wire::problem::{Answer, Problem};
use arc_swap::ArcSwap;
use pando::remote::{RemoteDatabase, WriteMemory};
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The largest number of databases that are opened at a time. Each takes a connection to the store.
const OPENINGS: usize = 16;

/// All databases of a store.
#[derive(Debug)]
pub struct RemoteDatabases {
    stores: Arc<dyn Stores>,
    most_open: usize,
    memory: Arc<WriteMemory>,
    open: ArcSwap<Names<Arc<Open<Remote>>>>,
    openings: Openings,
    /// Held while the map is replaced.
    installing: Mutex<()>,
    listing: Mutex<()>,
}

/// The names of the databases that are being opened.
#[derive(Debug, Default)]
struct Openings {
    names: Mutex<BTreeSet<String>>,
    ended: Condvar,
}

/// An opening, which ends when it is dropped.
struct Opening<'o> {
    openings: &'o Openings,
    name: &'o str,
}

impl Openings {
    fn names(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other thread opens this database, and there is a place for the opening.
    fn begin<'o>(&'o self, name: &'o str) -> Opening<'o> {
        let must_wait = |names: &mut BTreeSet<String>| names.len() >= OPENINGS || names.contains(name);
        let waited = self.ended.wait_while(self.names(), must_wait);
        waited.unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        Opening { openings: self, name }
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.openings.names().remove(self.name);
        self.openings.ended.notify_all();
    }
}

fn check_name(name: &str) -> Answer<()> {
    if is_name(name) {
        return Ok(());
    }
    let detail = format!("a database's name must have 1 to {MAX_NAME_BYTES} letters, digits, `-` and `_`");
    Err(Problem::bad_request(detail))
}

impl RemoteDatabases {
    /// Creates the databases of a store, none of them open. At most `most_open` are open, unless more are in use. What
    /// open transactions write is in `memory_bytes`.
    pub fn new(stores: Arc<dyn Stores>, most_open: usize, memory_bytes: usize) -> Self {
        RemoteDatabases {
            stores,
            most_open,
            memory: WriteMemory::new(memory_bytes),
            open: ArcSwap::default(),
            openings: Openings::default(),
            installing: Mutex::default(),
            listing: Mutex::default(),
        }
    }

    /// Returns a handle to the database if it is open.
    pub fn get_open(&self, name: &str) -> Option<Arc<Open<Remote>>> {
        self.open.load().get(name).map(Arc::clone)
    }

    /// Returns the database and opens it if necessary. Waits for the store.
    ///
    /// # Errors
    /// 404 if there is none of this name; 400 for a name that no database can have.
    pub fn open(&self, name: &str) -> Answer<Arc<Open<Remote>>> {
        check_name(name)?;
        let _opening = self.openings.begin(name);
        if let Some(open) = self.get_open(name) {
            return Ok(open);
        }
        let missing = || Problem::not_found(format!("there is no database {name:?}"));
        let db = self.stores.open(name)?.ok_or_else(missing)?;
        Ok(self.install(name, db))
    }

    /// Creates a database. Returns `false` if it already existed. Waits for the store.
    ///
    /// # Errors
    /// 400 for a name that no database of the store can have.
    pub fn create(&self, name: &str) -> Answer<(Arc<Open<Remote>>, bool)> {
        check_name(name)?;
        let _opening = self.openings.begin(name);
        if let Some(open) = self.get_open(name) {
            return Ok((open, false));
        }
        let (db, is_new) = self.stores.create(name)?;
        Ok((self.install(name, db), is_new))
    }

    /// Makes a database available. The caller has begun its opening.
    fn install(&self, name: &str, db: RemoteDatabase) -> Arc<Open<Remote>> {
        let db = db.with_write_memory(Arc::clone(&self.memory));
        let open = Arc::new(Open::with_own(db.clone(), RemoteOwn::new(&db)));
        let _installing = self.installing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = Names::clone(&self.open.load());
        if all.len() >= self.most_open {
            // Besides the two maps, only requests have handles. A request that finds the old map a moment later uses
            // connections that are opened again; nothing is closed under it.
            all.retain(|_, other| Arc::strong_count(other) > 2);
        }
        all.insert(name.into(), Arc::clone(&open));
        self.open.store(Arc::new(all));
        open
    }

    /// Returns the names of all databases of the store, in order. Waits for the store.
    ///
    /// # Errors
    /// Those of the store.
    pub fn names(&self) -> Answer<Vec<String>> {
        // A listing opens a connection of its own.
        let _listing = self.listing.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut names = self.stores.names()?;
        names.sort_unstable();
        Ok(names)
    }

    /// Returns every open database.
    pub fn all_open(&self) -> Vec<(String, Arc<Open<Remote>>)> {
        self.open.load().iter().map(|(name, open)| (name.to_string(), Arc::clone(open))).collect()
    }

    /// Returns the largest number of connections that each database opens to the store.
    pub fn connections(&self) -> usize {
        self.stores.connections()
    }

    /// Closes the connections that no request has used for a while.
    pub fn close_idle(&self) {
        let unused_for = self.stores.idle();
        self.all_open().into_iter().for_each(|(_, open)| open.db.close_idle(unused_for));
    }

    /// Returns the memory of what open transactions have written, in bytes, and its limit.
    pub fn write_memory(&self) -> &WriteMemory {
        &self.memory
    }

    /// Closes all databases at the end of the server.
    pub fn close_all(&self) {
        self.all_open().into_iter().for_each(|(_, open)| open.db.close());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pando::Result;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    /// A store without databases. Looking for the one named `slow` takes until `go` says so.
    #[derive(Debug)]
    struct Slow {
        begun: Mutex<mpsc::Sender<()>>,
        go: Mutex<mpsc::Receiver<()>>,
    }

    impl Stores for Slow {
        fn open(&self, name: &str) -> Result<Option<RemoteDatabase>> {
            if name == "slow" {
                self.begun.lock().unwrap().send(()).unwrap();
                self.go.lock().unwrap().recv().unwrap();
            }
            Ok(None)
        }

        fn create(&self, _: &str) -> Result<(RemoteDatabase, bool)> {
            Err(pando::Error::invalid("this store creates nothing"))
        }

        fn names(&self) -> Result<Vec<String>> {
            Ok(Vec::new())
        }

        fn connections(&self) -> usize {
            1
        }

        fn idle(&self) -> Duration {
            Duration::from_secs(1)
        }
    }

    #[test]
    fn a_slow_opening_does_not_stop_others() {
        let (begun, has_begun) = mpsc::channel();
        let (go, goes) = mpsc::channel();
        let store = Slow { begun: Mutex::new(begun), go: Mutex::new(goes) };
        let databases = Arc::new(RemoteDatabases::new(Arc::new(store), 8, 1 << 20));
        let open = |name: &'static str| {
            let databases = Arc::clone(&databases);
            let (done, is_done) = mpsc::channel();
            thread::spawn(move || done.send(databases.open(name).map(drop).unwrap_err().status.as_u16()));
            is_done
        };
        let within = Duration::from_secs(20);
        let slow = open("slow");
        has_begun.recv_timeout(within).unwrap();
        assert_eq!(open("other").recv_timeout(within), Ok(404), "another one does not wait");
        // The same one is not opened twice at a time.
        let second = open("slow");
        assert!(has_begun.recv_timeout(Duration::from_millis(100)).is_err());
        go.send(()).unwrap();
        assert_eq!(slow.recv_timeout(within), Ok(404));
        has_begun.recv_timeout(within).unwrap();
        go.send(()).unwrap();
        assert_eq!(second.recv_timeout(within), Ok(404));
        assert!(databases.openings.names().is_empty());
    }
}
