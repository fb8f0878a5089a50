//! Generates ids of rows that are not given one. `catalog.rs` counts for all connections, from what is found here.

use crate::catalog::RowId;
use crate::change::integer;
use crate::failure::{Failure, Outcome};
use crate::table::PandoTable;
use pando::ReadTables;
use pando::remote::InDoubt;
use rows::KeyRange;
use rusqlite::ffi;

impl PandoTable {
    /// Returns an id that no row has been given.
    pub(crate) fn next_row_id(&self) -> Outcome<i64> {
        let full =
            || Failure::new(ffi::SQLITE_FULL, format!("table {} is out of row ids", self.table.name()));
        loop {
            let claimed = self.table.claim_row_id(|| self.largest_row_id());
            let id = claimed.map_err(|error| self.to_failure(error))?.ok_or_else(full)?;
            if self.give(id)? {
                return Ok(id);
            }
        }
    }

    /// Notes that `id` is given, if it must never be given again. Returns false if somebody else may have given it:
    /// the next id is then another one.
    fn give(&self, id: i64) -> Outcome<bool> {
        if !self.table.note.autoincrement {
            return Ok(true);
        }
        let engine = &self.tables.engine;
        let commit = |tx| self.session().commit_beside(tx);
        let others = engine.given_ids.give(&engine.db, self.table.rows.schema().id(), id, commit);
        // Of a commit in doubt, the client would ask about the ids. Its own statement wrote nothing.
        let failed = |error: pando::Error| match InDoubt::in_error(&error) {
            Some(_) => self.to_failure(pando::Error::new(pando::ErrorKind::Io, "ids could not be recorded")),
            None => self.to_failure(error),
        };
        let Some(last) = others.map_err(failed)? else { return Ok(true) };
        self.table.note_row_id(last, || Ok(last)).map_err(|error| self.to_failure(error))?;
        Ok(false)
    }

    /// Notes that rows were written without SQL, so that new ids continue after their largest id.
    #[cold]
    pub(crate) fn pass_over_row_ids(&self) -> Outcome {
        let largest = self.largest_row_id().map_err(|error| self.to_failure(error))?;
        if largest < i64::MAX {
            self.note_row_id(largest)?;
        }
        Ok(())
    }

    /// Notes that a row has this id.
    pub(crate) fn note_row_id(&self, id: i64) -> Outcome {
        self.table.note_row_id(id, || self.largest_row_id()).map_err(|error| self.to_failure(error))?;
        // A row may have an id that was given before: the statement chose it.
        self.give(id).map(drop)
    }

    /// Returns a bound that no row's id exceeds, as of the last acknowledged commit. It does not read what the
    /// transaction sees, because that would conflict with inserts. It also does not read the largest existing id,
    /// unless the bound leaves no room: in a queue whose end was deleted, that id is after everything that is not
    /// merged away yet.
    fn largest_row_id(&self) -> pando::Result<i64> {
        let largest = self.largest_present_row_id()?;
        if !self.table.note.autoincrement {
            return Ok(largest);
        }
        let engine = &self.tables.engine;
        Ok(largest.max(engine.given_ids.largest(&engine.db, self.table.rows.schema().id())?))
    }

    fn largest_present_row_id(&self) -> pando::Result<i64> {
        if self.tables.engine.db.native().is_none() {
            return self.own_last_row_id();
        }
        let snapshot = self.tables.latest_snapshot()?;
        match self.table.rows.last_key_bound(&snapshot) {
            // The table was made or altered in this transaction, so nobody else writes to it.
            Err(error) if error.kind() == pando::ErrorKind::Missing => self.own_last_row_id(),
            bound => match bound?.map_or(0, |key| integer(&key[0])) {
                i64::MAX => self.last_row_id(&snapshot),
                bound => Ok(bound),
            },
        }
    }

    /// Returns the largest id of a row that the transaction sees.
    fn own_last_row_id(&self) -> pando::Result<i64> {
        let last = self.session().write(|tx| Ok(self.last_row_id(tx)));
        last.map_err(|failure| pando::Error::from(crate::Error::from(failure)))?
    }

    /// Returns the largest id of a row.
    fn last_row_id(&self, reader: &impl ReadTables) -> pando::Result<i64> {
        let place = if let RowId::Column(place) = self.table.row_id { place } else { 0 };
        let mut scan = self.table.rows.scan(reader, &KeyRange::all().backwards())?;
        Ok(scan.next_with(|row| integer(&row[place]))?.unwrap_or(0))
    }
}
