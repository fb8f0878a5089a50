//! A typed table as a virtual table: [`PandoTable`]. `cursor.rs` has its scans, and `change.rs` the changes of rows.

use crate::catalog::{RowId, SqlTable};
use crate::cursor::{PandoCursor, RowsNeeded};
use crate::failure::{Failure, Outcome};
use crate::plan::{self, Asked};
use crate::session::Session;
use crate::spare::Spare;
use crate::tables::Tables;
use crate::transient;
use crate::vtab::{Change, Choice, Connect, Constraint, Host, Query, Table};
use pando::ReadSnapshot;
use rows::{Cause, DynamicTable};
use rusqlite::ffi;
use std::cell::Cell;
use std::sync::Arc;

/// A table of a connection. Clones refer to the same table.
#[derive(Clone)]
pub(crate) struct PandoTable {
    pub table: Arc<SqlTable>,
    pub tables: Arc<Tables>,
    pub host: Host,
    /// The number of columns of the schema that SQL hides.
    pub hidden: usize,
    /// The index of the key's column for SQLite; not a column if rows have ids.
    pub key_column: usize,
    pub wanted: RowsNeeded,
    pub spare: Spare,
    /// The generation in which the connection last knew the table in this form: [`Tables::generation`].
    generation: Cell<u64>,
}

/// Connects a table's name.
pub(crate) struct Connector {
    pub table: Arc<SqlTable>,
    pub tables: Arc<Tables>,
}

impl Connect<PandoTable> for Connector {
    fn connect(&self, host: Host) -> Outcome<PandoTable> {
        let (table, tables) = (Arc::clone(&self.table), Arc::clone(&self.tables));
        let generation = Cell::new(tables.generation());
        let (hidden, wanted) = (table.hidden(), RowsNeeded::new(table.ways.len()));
        let key_column = table.key_column().unwrap_or(usize::MAX);
        let spare = Spare::default();
        Ok(PandoTable { table, tables, host, hidden, key_column, wanted, spare, generation })
    }
}

impl PandoTable {
    pub fn session(&self) -> &Session {
        &self.tables.session
    }

    /// Checks that the table is still as the connection knows it; if not, asks SQLite to prepare the statement again.
    pub fn is_current(&self) -> Outcome {
        if self.session().take_undone() {
            self.tables.reload(self.host)?;
        }
        let now = self.tables.generation();
        if self.generation.get() == now {
            return Ok(());
        }
        if !self.is_known() {
            return Err(self.out_of_date());
        }
        self.generation.set(now);
        Ok(())
    }

    /// Returns whether the connection has read the same definition again.
    #[cold]
    fn is_known(&self) -> bool {
        let known = self.tables.known();
        let Some(known) = known.find(self.table.name()) else { return false };
        let (ours, rows) = (&self.table.rows, &known.rows);
        let id_of = |rows: &DynamicTable, index: &str| rows.index_data(index).map(pando::Table::id);
        let mut indexes = ours.schema().indexes().iter();
        ours.schema() == rows.schema()
            && ours.data().id() == rows.data().id()
            && indexes.all(|index| id_of(ours, index.name()) == id_of(rows, index.name()))
    }

    #[cold]
    fn out_of_date(&self) -> Failure {
        let name = self.table.name();
        let message = format!("table {name} was changed after the statement was prepared; prepare it again");
        Failure::new(ffi::SQLITE_SCHEMA, message)
    }

    /// Converts an error of the engine. If it says that the table's schema has changed, the connection reads the
    /// schemas again, and SQLite is asked to prepare the statement anew.
    pub fn to_failure(&self, error: pando::Error) -> Failure {
        if matches!(Cause::in_error(&error), Some(Cause::SchemaChanged { .. })) {
            return match self.tables.reload(self.host) {
                Ok(()) => Failure::new(ffi::SQLITE_SCHEMA, error.to_string()),
                Err(failure) => failure,
            };
        }
        Failure::from(error)
    }
}

impl Table for PandoTable {
    type Cursor = PandoCursor;

    fn declaration(&self) -> String {
        self.table.declaration()
    }

    fn best_index(&self, query: &Query<'_>) -> Outcome<Choice> {
        let data = self.table.rows.data();
        let rows = match &self.tables.latest_snapshot() {
            Ok(snapshot) => snapshot.estimated_len(data).ok().flatten().unwrap_or(DEFAULT_ROWS),
            Err(_) => DEFAULT_ROWS,
        };
        let row_id = match self.table.row_id {
            RowId::Column(column) => Some(column),
            _ => None,
        };
        let constraints = query.constraints().into_iter();
        let constraints: Vec<_> = constraints
            .map(|(index, constraint)| {
                let column = constraint.column.or(row_id);
                (index, Constraint { column, ..constraint })
            })
            .collect();
        let order: Vec<_> =
            query.order().into_iter().map(|(column, down)| (column.or(row_id), down)).collect();
        let uses = |column: usize| query.uses(column);
        let rows = rows.max(1) as f64;
        let indexable = |column: usize| {
            let column = self.table.columns.get(column)?;
            transient::is_indexable(column.kind, column.affinity).then_some(&column.name[..])
        };
        let is_plain = self.tables.prepares_plain();
        let asked = Asked {
            constraints: &constraints,
            order: &order,
            uses: &uses,
            rows,
            is_plain,
            indexable: &indexable,
        };
        Ok(plan::choose(&self.table.ways, &asked))
    }

    fn open(&self) -> PandoCursor {
        PandoCursor::new(self.clone())
    }

    fn update(&self, change: Change<'_>) -> Outcome<Option<i64>> {
        self.is_current()?;
        if matches!(change, Change::Insert { .. }) {
            self.tables.check_plan()?;
        }
        self.change(change)
    }

    fn begin(&self) -> Outcome {
        self.session().begin()
    }

    fn sync(&self) -> Outcome {
        self.tables.sync()
    }

    fn commit(&self) {
        self.session().committed();
    }

    fn rollback(&self) {
        self.session().end();
    }

    fn savepoint(&self, number: i32) -> Outcome {
        self.session().savepoint(number);
        Ok(())
    }

    fn release(&self, number: i32) -> Outcome {
        self.session().release(number)
    }

    fn rollback_to(&self, number: i32) -> Outcome {
        self.session().rollback_to(number)
    }
}

/// The assumed number of rows of a table whose size is not known.
const DEFAULT_ROWS: u64 = 1000;
