//! Databases that are about to be opened by SQLite.
//!
//! SQLite opens a file by its name. A connection to a [`Database`] that the program has already opened gives it a
//! name that contains a token instead, and the token stands for the database until the connection is open.

use pando::Database;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

static NEXT: AtomicU64 = AtomicU64::new(1);
static OFFERED: Mutex<BTreeMap<u64, Database>> = Mutex::new(BTreeMap::new());

fn offered() -> MutexGuard<'static, BTreeMap<u64, Database>> {
    // A map is whole between its calls, so a panic elsewhere leaves nothing half done.
    OFFERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A token for a database. It is worthless once this is dropped.
#[derive(Debug)]
pub(crate) struct Offer {
    token: u64,
}

impl Offer {
    pub(crate) fn new(db: &Database) -> Offer {
        let token = NEXT.fetch_add(1, Ordering::SeqCst);
        offered().insert(token, db.clone());
        Offer { token }
    }

    /// Returns the file name that SQLite opens the database by.
    pub(crate) fn uri(&self) -> String {
        format!("file:pando?pando={}", self.token)
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        offered().remove(&self.token);
    }
}

/// Returns the database that a token stands for.
pub(crate) fn find(token: &str) -> Option<Database> {
    offered().get(&token.parse().ok()?).cloned()
}
