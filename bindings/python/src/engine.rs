//! The calls of the library whose names or meanings may change, in one place.

use pando::{Database, Result, Snapshot, Table};

/// Returns the table named `name`, and creates it with default options if it does not exist.
pub fn ensure_table(db: &Database, name: &str) -> Result<Table> {
    db.ensure_table(name)
}

/// Returns the table named `name`, if it exists.
pub fn find_table(db: &Database, name: &str) -> Result<Option<Table>> {
    db.table(name)
}

/// Returns the number of the last commit that the snapshot sees.
pub fn commit_number(snapshot: &Snapshot) -> u64 {
    snapshot.commit_number()
}
