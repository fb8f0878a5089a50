//! Statements that another program runs on its own connection, to which Pando's tables were added
//! ([`crate::Sql::attach`]). This crate does not see them before SQLite does.
//!
//! SQLite does two things wrong for virtual tables, and both are refused: as the rows of `RETURNING` it shows what it
//! was given, not what was written; and it passes a null for an omitted column.

use crate::failure::{Failure, Outcome};
use crate::table::PandoTable;
use crate::vtab::Row;
use rusqlite::types::ValueRef;

impl PandoTable {
    /// Checks that an `INSERT` of another program needs neither.
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
