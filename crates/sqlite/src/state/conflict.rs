//! The place of a conflict as SQL names it: the table or index, and the rowid or the values of the key.

use super::State;
use crate::failure::{BUSY_SNAPSHOT, Failure};
use pando::Error;
use sqlite_format::{key, names};

/// The place of a conflict of a commit: the table or index, and the key that another transaction changed first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    table: String,
    index: Option<String>,
    key: Option<Vec<u8>>,
    rowid: Option<i64>,
    is_named: bool,
}

impl Conflict {
    /// Returns the name of the table. If SQL did not create the table, it is the name in the Pando database.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Returns the name of the index, if the conflict was in one.
    #[must_use]
    pub fn index(&self) -> Option<&str> {
        self.index.as_deref()
    }

    /// Returns whether SQL created the table, so that [`Conflict::table`] returns its name in SQL.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.is_named
    }

    /// Returns the rowid, if the conflict was about a row of a table that has rowids.
    #[must_use]
    pub fn rowid(&self) -> Option<i64> {
        self.rowid
    }

    /// Returns the key as it is stored. Returns `None` if the conflict is about the whole table, because it was created
    /// or dropped.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }
}

/// Where a commit met a conflict, while the tree's names are not known yet.
#[derive(Clone, Debug)]
pub(super) struct Place {
    root: u32,
    key: Option<Vec<u8>>,
}

impl State {
    /// Notes where a commit met a conflict.
    pub(super) fn note_conflict(&mut self, error: &Error) {
        (self.conflict, self.met) = (None, None);
        let Some(conflict) = pando::Conflict::in_error(error) else { return };
        let (Some(table), key) = (conflict.table(), conflict.key().map(<[u8]>::to_vec)) else { return };
        match names::root_of(table) {
            Some(root) => self.conflict = Some(Place { root, key }),
            None => {
                let table = table.to_owned();
                self.met = Some(Conflict { table, index: None, key, rowid: None, is_named: false });
            }
        }
    }

    /// Returns the root of the tree in which the last commit met a conflict, 0 if there was none.
    pub(crate) fn conflict_root(&self) -> u32 {
        self.conflict.as_ref().map_or(0, |place| place.root)
    }

    /// Says where the last conflict was, now that the tree's names are known. `index` is empty for a table's rows.
    pub(crate) fn name_conflict(&mut self, table: &str, index: &str) {
        let Some(Place { key, .. }) = self.conflict.take() else { return };
        let index = Some(index).filter(|index| !index.is_empty());
        let rowid = match (index, &key) {
            (None, Some(key)) => <[u8; 8]>::try_from(&key[..]).ok().map(key::to_rowid),
            _ => None,
        };
        let place = match index {
            None => format!("table {table}"),
            Some(index) => format!("index {index} of table {table}"),
        };
        let place = match (rowid, &key) {
            (Some(rowid), _) => format!("{place} at rowid {rowid}"),
            (None, Some(key)) => format!("{place} at key {}", key::shown(key)),
            (None, None) => place,
        };
        let message =
            format!("database is locked: conflict in {place}: another transaction changed it first");
        self.note(Failure::new(BUSY_SNAPSHOT, message));
        let index = index.map(str::to_owned);
        self.met = Some(Conflict { table: table.to_owned(), index, key, rowid, is_named: true });
    }
}
