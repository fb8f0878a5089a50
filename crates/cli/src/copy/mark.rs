//! The mark of an unfinished copy: a table in the target, from the first write to the last.
//!
//! It has the id of the source, and the number of the run that writes. Each batch checks that number in its
//! transaction: a run that another one has replaced must not write from its own, older snapshot.

use super::ends::Target;
use crate::failure::{Failure, Outcome};
use base::env::Random;
use pando::{Error, ErrorKind, ReadTables, Result, Table, WriteTables};

/// The name of the table.
pub const UNFINISHED: &str = "pando-copy-unfinished";
const SOURCE: &str = "source";
const RUN: &str = "run";

/// The mark that this run has set.
#[derive(Debug)]
pub struct Mark {
    table: Table,
    run: [u8; 8],
    /// Whether another run had begun before.
    pub is_resumed: bool,
}

impl Mark {
    /// Notes in the target that a copy of this source has begun.
    ///
    /// # Errors
    /// A usage failure if the target has an unfinished copy of another source, or has one and `may_resume` is not set.
    pub fn set<T: Target>(target: &T, source: u64, may_resume: bool) -> Outcome<Self> {
        let (source, run) = (format!("{source:016x}"), Random::from_entropy().next_u64().to_be_bytes());
        let mut set = None;
        target.write(|tx| {
            let is_resumed = tx.table(UNFINISHED)?.is_some();
            let table = tx.ensure_table(UNFINISHED)?;
            let found = tx.get(&table, SOURCE)?;
            let is_same = found.as_ref().is_none_or(|found| found == source.as_bytes());
            if is_same && (may_resume || !is_resumed) {
                tx.put(&table, SOURCE, &source)?;
                tx.put(&table, RUN, run)?;
            }
            set = Some((Mark { table, run, is_resumed }, is_same));
            Ok(())
        })?;
        match set.expect("the transaction was run") {
            (_, false) => Err(Failure::Usage(
                "the target has an unfinished copy of another database; name another target".to_owned(),
            )),
            (mark, true) if mark.is_resumed && !may_resume => {
                Err(Failure::Usage("another copy into this target has just begun".to_owned()))
            }
            (mark, true) => Ok(mark),
        }
    }

    /// Returns an error if another run has replaced this one.
    pub fn check(&self, reader: &impl ReadTables) -> Result<()> {
        let is_own = reader.get_with(&self.table, RUN, |run| run == self.run);
        match is_own {
            Ok(Some(true)) => Ok(()),
            Err(error) if error.kind() != ErrorKind::Missing => Err(error),
            _ => Err(Error::new(
                ErrorKind::Locked,
                "another copy into this target has replaced this one; let it finish",
            )),
        }
    }

    /// Removes the mark: the copy is complete.
    pub fn remove<T: Target>(&self, target: &T) -> Outcome {
        Ok(target.write(|tx| {
            self.check(tx)?;
            tx.drop_table(&self.table)
        })?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pando::Database;

    #[test]
    fn the_newest_run_writes_alone() {
        let db = Database::builder().in_memory().unwrap();
        let first = Mark::set(&db, 1, false).unwrap();
        assert!(!first.is_resumed && first.check(&db.begin().unwrap()).is_ok());
        assert!(Mark::set(&db, 1, false).is_err(), "it is not resumed unasked");
        assert!(Mark::set(&db, 2, true).is_err(), "it is of another source");
        assert!(first.check(&db.begin().unwrap()).is_ok(), "refused runs change nothing");

        // A batch of the first run that has begun, and one that begins later.
        let mut batch = db.begin().unwrap();
        first.check(&batch).unwrap();
        let second = Mark::set(&db, 1, true).unwrap();
        batch.ensure_table("t").unwrap();
        assert_eq!(batch.commit().unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(first.check(&db.begin().unwrap()).unwrap_err().kind(), ErrorKind::Locked);
        assert!(first.remove(&db).is_err() && second.is_resumed);
        second.remove(&db).unwrap();
        assert_eq!(
            second.check(&db.begin().unwrap()).unwrap_err().kind(),
            ErrorKind::Locked,
            "it is removed"
        );
        assert!(db.tables().unwrap().is_empty());
    }
}
