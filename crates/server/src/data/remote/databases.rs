//! The databases of a remote store. One is opened when a request needs it, and stays open.
//!
//! 1. A look-up in a map finds an open database, without a lock. The map is replaced when a database is opened.
//! 2. Databases are opened one after the other, under a gate, by threads that may wait.
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
use std::sync::{Arc, Mutex, MutexGuard};

/// All databases of a store.
#[derive(Debug)]
pub struct RemoteDatabases {
    stores: Arc<dyn Stores>,
    most_open: usize,
    memory: Arc<WriteMemory>,
    open: ArcSwap<Names<Arc<Open<Remote>>>>,
    gate: Mutex<()>,
    listing: Mutex<()>,
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
            gate: Mutex::default(),
            listing: Mutex::default(),
        }
    }

    fn gate(&self) -> MutexGuard<'_, ()> {
        self.gate.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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
        let _gate = self.gate();
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
        let _gate = self.gate();
        if let Some(open) = self.get_open(name) {
            return Ok((open, false));
        }
        let (db, is_new) = self.stores.create(name)?;
        Ok((self.install(name, db), is_new))
    }

    /// Makes a database available. The caller holds the gate.
    fn install(&self, name: &str, db: RemoteDatabase) -> Arc<Open<Remote>> {
        let db = db.with_write_memory(Arc::clone(&self.memory));
        let open = Arc::new(Open::with_own(db.clone(), RemoteOwn::new(&db)));
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
