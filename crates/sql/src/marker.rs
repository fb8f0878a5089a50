//! The table without rows by which reading transactions participate: see `session.rs`.

use crate::failure::{Failure, Outcome};
use crate::tables::Tables;
use crate::vtab::{Arguments, Change, Choice, Connect, Cursor, Host, Query, Table};
use rusqlite::ffi;
use rusqlite::types::ValueRef;
use std::sync::Arc;

/// The table without rows.
pub(crate) struct MarkerTable(pub Arc<Tables>);

pub(crate) struct MarkerConnector(pub Arc<Tables>);

impl Connect<MarkerTable> for MarkerConnector {
    fn connect(&self, _host: Host) -> Outcome<MarkerTable> {
        Ok(MarkerTable(Arc::clone(&self.0)))
    }
}

/// A scan of no rows.
pub(crate) struct Nothing;

impl Table for MarkerTable {
    type Cursor = Nothing;

    fn declaration(&self) -> String {
        "CREATE TABLE x(unused)".to_owned()
    }

    fn best_index(&self, _query: &Query<'_>) -> Outcome<Choice> {
        Ok(Choice { cost: 1.0, ..Choice::default() })
    }

    fn open(&self) -> Nothing {
        Nothing
    }

    fn update(&self, _change: Change<'_>) -> Outcome<Option<i64>> {
        Err(Failure::new(ffi::SQLITE_READONLY, "this table has no rows"))
    }

    fn begin(&self) -> Outcome {
        self.0.session.begin()
    }

    fn sync(&self) -> Outcome {
        self.0.sync()
    }

    fn commit(&self) {
        self.0.session.committed();
    }

    fn rollback(&self) {
        self.0.session.end();
    }

    fn savepoint(&self, number: i32) -> Outcome {
        self.0.session.savepoint(number);
        Ok(())
    }

    fn release(&self, number: i32) -> Outcome {
        self.0.session.release(number)
    }

    fn rollback_to(&self, number: i32) -> Outcome {
        self.0.session.rollback_to(number)
    }
}

impl Cursor for Nothing {
    fn filter(&mut self, _plan: i32, _arguments: &Arguments<'_>) -> Outcome {
        Ok(())
    }

    fn next(&mut self) -> Outcome {
        Ok(())
    }

    fn is_done(&self) -> bool {
        true
    }

    fn column(&mut self, _column: usize) -> Outcome<ValueRef<'_>> {
        Ok(ValueRef::Null)
    }

    fn row_id(&mut self) -> Outcome<i64> {
        Ok(0)
    }
}
