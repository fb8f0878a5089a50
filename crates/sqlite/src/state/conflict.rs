//! Where a conflict was, in the words of SQL: the name of the table or index, and the rowid or the values of the key.

use super::State;
use crate::failure::{BUSY_SNAPSHOT, Failure};
use pando::{Conflict, Error};
use sqlite_format::{key, names};

/// Where a commit met a conflict.
#[derive(Clone, Debug)]
pub(super) struct Place {
    root: u32,
    key: Option<Vec<u8>>,
}

impl Place {
    /// Returns the place that an error names. `None`: it names none, or a table that SQL does not have.
    pub(super) fn of(error: &Error) -> Option<Place> {
        let conflict = Conflict::in_error(error)?;
        let root = names::root_of(conflict.table()?)?;
        Some(Place { root, key: conflict.key().map(<[u8]>::to_vec) })
    }
}

impl State {
    /// Returns the root of the tree in which the last commit met a conflict, 0 if there was none.
    pub(crate) fn conflict_root(&self) -> u32 {
        self.conflict.as_ref().map_or(0, |place| place.root)
    }

    /// Says where the last conflict was, now that the tree's names are known. `index` is empty for a table's rows.
    pub(crate) fn name_conflict(&mut self, table: &str, index: &str) {
        let Some(Place { key, .. }) = self.conflict.take() else { return };
        let place = match (index, &key) {
            ("", Some(key)) => match <[u8; 8]>::try_from(&key[..]) {
                Ok(rowid) => format!("table {table} at rowid {}", key::to_rowid(rowid)),
                Err(_) => format!("table {table} at key {}", key::shown(key)),
            },
            ("", None) => format!("table {table}"),
            (index, Some(key)) => format!("index {index} of table {table} at key {}", key::shown(key)),
            (index, None) => format!("index {index} of table {table}"),
        };
        let message =
            format!("database is locked: conflict in {place}: another transaction changed it first");
        self.note(Failure::new(BUSY_SNAPSHOT, message));
    }
}
