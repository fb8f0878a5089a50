//! `CHECK` constraints of typed tables.
//!
//! SQLite evaluates them: a row is inserted into a table in memory that has these constraints, and the affinities and
//! collations on which comparisons depend. Its last constraint, [`ALL_HOLD`], holds for no row. So nothing is stored:
//! neither a record nor a page for it is made, and a connection keeps no memory for the largest row it has checked.

use crate::change::lent_value;
use crate::error::Error;
use crate::failure::{Failure, Outcome};
use crate::lexer::quote;
use crate::machine::{self, CachedStatement, Connection};
use crate::table::PandoTable;
use crate::vtab::OnConflict;
use rows::Value;
use rusqlite::ffi;

/// The name of the constraint that a row breaks if it breaks no other. It is not an expression, which is the name of
/// those.
const ALL_HOLD: &str = "all others hold";
/// SQLite's message about it.
const ALL_HELD: &str = "CHECK constraint failed: all others hold";

impl PandoTable {
    /// Checks the `CHECK` constraints.
    pub(crate) fn check(&self, values: &[Value<'_>], on_conflict: OnConflict) -> Outcome {
        if self.table.note.checks.is_empty() {
            return Ok(());
        }
        let error = self.try_checks(values).err();
        match error.filter(|error| error.message() != ALL_HELD) {
            None => Ok(()),
            Some(error) if error.code() == ffi::SQLITE_CONSTRAINT_CHECK => {
                Err(self.refused(on_conflict, ffi::SQLITE_CONSTRAINT_CHECK, error.message().to_owned()))
            }
            Some(error) => Err(Failure::new(error.code(), error.message())),
        }
    }

    /// Inserts a row into the table in memory, and returns the error of the first constraint that it breaks.
    fn try_checks(&self, values: &[Value<'_>]) -> Result<(), Error> {
        let checker = self.tables.checker()?;
        let mut insert = self.prepare_checks(&checker)?;
        for (at, value) in values[self.table.hidden()..].iter().enumerate() {
            machine::bind(&mut insert, at + 1, lent_value(value))?;
        }
        machine::run(&mut insert)
    }

    fn prepare_checks<'c>(&self, checker: &'c Connection) -> Result<CachedStatement<'c>, Error> {
        let name = quote(self.table.name());
        let insert = format!("INSERT INTO {name} VALUES({})", vec!["?"; self.table.columns.len()].join(", "));
        if let Ok(insert) = machine::prepare_kept(checker, &insert) {
            return Ok(insert);
        }
        machine::run_only(checker, &self.check_table(&name))?;
        machine::prepare_kept(checker, &insert)
    }

    fn check_table(&self, name: &str) -> String {
        let columns = self.table.columns.iter().map(|column| {
            let collate = match column.collation {
                rows::Collation::NoCase => " COLLATE NOCASE",
                rows::Collation::RTrim => " COLLATE RTRIM",
                _ => "",
            };
            format!("{} {}{collate}", quote(&column.name), column.sqlite_type())
        });
        // SQLite evaluates them in this order.
        let checks = self.table.note.checks.iter().map(|check| format!("CHECK ({check})"));
        let none = format!("CONSTRAINT {} CHECK (0)", quote(ALL_HOLD));
        let lines: Vec<_> = columns.chain(checks).chain([none]).collect();
        format!("CREATE TABLE IF NOT EXISTS {name} ({})", lines.join(", "))
    }
}
