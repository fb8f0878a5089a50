//! Statements that this crate does not see before SQLite does: those of triggers, and those that another program runs
//! on its own connection, to which Pando's tables were added ([`crate::Sql::attach`]).
//!
//! SQLite does two things wrong for virtual tables, and both are refused: as the rows of `RETURNING`, which a trigger
//! cannot have, it shows what it was given, not what was written; and it passes a null for an omitted column.

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
        match self.without_default(row) {
            None => Ok(()),
            Some(column) => Err(Failure::error(format!(
                "column {name}.{column} has a default, which this statement does not apply: give the column \
                 a value, or run the statement with pando_sql"
            ))),
        }
    }

    /// Checks that an `INSERT` of a trigger omits no column with a default.
    #[inline]
    pub(crate) fn check_of_trigger(&self, row: &Row<'_>) -> Outcome {
        match self.without_default(row) {
            Some(column) if self.host.is_in_trigger() => Err(Failure::error(format!(
                "column {}.{column} has a default, which the INSERT of a trigger does not apply: give the \
                 column a value in the trigger",
                self.table.name()
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the first column with a default that is null in a row.
    #[inline]
    fn without_default(&self, row: &Row<'_>) -> Option<&str> {
        let mut columns = self.table.columns.iter().enumerate();
        let found =
            columns.find(|(place, column)| column.default.is_some() && row.get(*place) == ValueRef::Null);
        found.map(|(_, column)| column.name.as_str())
    }
}
