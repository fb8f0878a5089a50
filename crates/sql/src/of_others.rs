//! Statements that another program runs on its own connection, into which Pando's tables were brought
//! ([`crate::Sql::attach`]): nobody has read them before SQLite did.
//!
//! Two things SQLite does wrong where tables are virtual, and they are refused: as the rows of `RETURNING` it shows
//! what it was given, not what was written; and it hands in a null for a column that is left out.

use crate::failure::{Failure, Outcome};
use crate::table::PandoTable;
use crate::vtab::Row;
use rusqlite::types::ValueRef;

impl PandoTable {
    /// That an `INSERT` of somebody else's asks for neither.
    #[cold]
    pub(crate) fn check_of_others(&self, row: &Row<'_>) -> Outcome {
        let name = self.table.name();
        if self.host.is_returning() {
            return Err(Failure::error(format!(
                "not supported: RETURNING of an INSERT into {name}; leave it out and use last_insert_rowid()"
            )));
        }
        let columns = self.table.columns.iter().enumerate();
        let mut without =
            columns.filter(|(place, column)| column.default.is_some() && row.get(*place) == ValueRef::Null);
        match without.next() {
            None => Ok(()),
            Some((_, column)) => Err(Failure::error(format!(
                "column {name}.{} has a default, which this statement does not apply: give the column a \
                 value, \
                 or run the statement with pando_sql",
                column.name
            ))),
        }
    }
}
