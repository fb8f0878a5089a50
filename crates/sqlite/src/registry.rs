//! Databases that are about to be opened by SQLite.
//!
//! SQLite opens a file by its name. A connection to an [`AnyDatabase`] that the program has already opened gives it a
//! name that contains a token instead, and the token stands for the database until the connection is open.

use pando::any::AnyDatabase;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

static NEXT: AtomicU64 = AtomicU64::new(1);
static OFFERED: Mutex<BTreeMap<u64, AnyDatabase>> = Mutex::new(BTreeMap::new());

fn offered() -> MutexGuard<'static, BTreeMap<u64, AnyDatabase>> {
    // A map is whole between its calls, so a panic elsewhere leaves nothing half done.
    OFFERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A name by which SQLite opens a database that this program has already opened, for `ATTACH`. After this is dropped,
/// the name is no longer valid, but databases that were opened by it stay open.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use pando_sqlite::{Connection, Offer};
/// let [one, two] = [pando::Database::builder().in_memory()?, pando::Database::builder().in_memory()?];
/// Connection::open(&two)?.execute("CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)")?;
/// let connection = Connection::open(&one)?;
/// let offer = Offer::new(&two);
/// connection.execute(&format!("ATTACH '{}' AS two", offer.uri()))?;
/// connection.execute("CREATE TABLE copy AS SELECT * FROM two.t")?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the name means nothing once the offer is dropped"]
pub struct Offer {
    token: u64,
}

impl Offer {
    /// Creates a name for a database.
    pub fn new(db: impl Into<AnyDatabase>) -> Offer {
        let token = NEXT.fetch_add(1, Ordering::SeqCst);
        offered().insert(token, db.into());
        Offer { token }
    }

    /// Returns the name, which is a URI.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("file:pando?pando={}", self.token)
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        offered().remove(&self.token);
    }
}

/// Returns the database that a token stands for.
pub(crate) fn find(token: &str) -> Option<AnyDatabase> {
    offered().get(&token.parse().ok()?).cloned()
}
