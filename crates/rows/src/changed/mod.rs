//! The changes of a database as rows, which readers of changes see instead of the engine's tables and stored bytes.
//!
//! A change names tables of the engine, such as `sql:7` or `rows/3.2/people`, and has bytes as they are stored.
//! Definitions are records, too, so a reader of changes sees each of them change. [`ChangedRows`] begins with the
//! definitions as of a commit, and goes on with the changes.
//!
//! 1. *The beginning.* It reads the definitions of now, and which of them changed since the commit. Those of SQLite's
//!    tables are not known before the change that has them.
//! 2. *Order.* A change can have a row before the definition of its table, as it is ordered by table. A change of a
//!    definition renames a table of the engine (`catalog.rs`, `sqlite/mod.rs`), and such changes are read for
//!    definitions first. The last one counts, as it does for every key.
//! 3. *Which definition.* Rows of a table that SQLite made are decoded by the definition as of their commit: `DROP
//!    COLUMN` writes all rows anew, without a sign in them. A large transaction also has the rows from before its own
//!    `DROP COLUMN`, so rows of a table that it altered are not shown. Rows of other typed tables have the version of
//!    their schema, and are decoded by the newest schema that is known.
//!
//! Reading order: this file, `sqlite_schema.rs`, `typed_catalog.rs`.

mod sqlite_schema;
mod typed_catalog;

use crate::catalog;
use crate::reserved::is_reserved;
use crate::schema::Schema;
use crate::table::{DynamicRow, DynamicTable};
use pando::{Change, Database, Operation, Result};
use sqlite_format::names;
use sqlite_schema::SqliteSchema;
use typed_catalog::TypedCatalog;

/// A decoder that shows the operations of changes as rows.
///
/// Call [`ChangedRows::enter`] with each change, in order, and then [`ChangedRows::decode`] with each of its
/// operations.
///
/// ```
/// # fn main() -> pando::Result<()> {
/// use pando_rows::{Changed, ChangedRows, Column, ColumnType, Definition, DynamicTable, Value};
/// let db = pando::Database::builder().in_memory()?;
/// let definition = Definition::new("people")
///     .column(Column::new("id", ColumnType::Int))
///     .column(Column::new("name", ColumnType::Text))
///     .key(["id"]);
/// let people = db.write(|tx| DynamicTable::create(tx, &definition))?;
/// db.write(|tx| people.insert(tx, &[Value::from(7), Value::from("Ann")]))?;
/// db.write(|tx| people.delete(tx, &[Value::from(7)]))?;
///
/// let mut changes = db.changes(0)?;
/// let mut rows = ChangedRows::begin(&db, changes.position())?;
/// let mut seen = Vec::new();
/// while let Some(change) = changes.next()? {
///     rows.enter(&change)?;
///     let mut operations = change.operations()?;
///     while let Some(operation) = operations.next()? {
///         match rows.decode(&operation, 1 << 20)? {
///             Changed::Put { table, row, .. } => seen.push(format!("{} has {:?}", table.name(), row[1])),
///             Changed::Deleted { table, key, .. } => seen.push(format!("{} lost {key:?}", table.name())),
///             _ => {}
///         }
///     }
/// }
/// assert_eq!(seen, [r#"people has Text("Ann")"#, "people lost Some([Int(7)])"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ChangedRows {
    db: Database,
    typed: TypedCatalog,
    sqlite: SqliteSchema,
    /// The change that was entered last.
    entered: u64,
}

/// The effect of an operation on rows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Changed<'c> {
    /// An operation on a table of keys and values, which has no rows.
    Plain,
    /// An operation on something that belongs to rows: an entry of an index, a table of the engine, or a meta value.
    Internal,
    /// The table has this row: it was inserted or replaced.
    Put {
        /// The table.
        table: &'c DynamicTable,
        /// The row.
        row: DynamicRow,
        /// Whether [`Changed::Deleted`] of the row has its key as values.
        has_key: bool,
    },
    /// The row with this key is absent.
    Deleted {
        /// The table.
        table: &'c DynamicTable,
        /// The values of the key, or `None` if they cannot be decoded from its bytes, as in a `WITHOUT ROWID` table, or
        /// where a part has a collation. The operation then has the bytes, which are the same as in the put.
        key: Option<Vec<crate::Value<'static>>>,
    },
    /// The rows in a range of stored keys are absent.
    DeletedRange {
        /// The table.
        table: &'c DynamicTable,
        /// Whether the range has all rows of the table.
        is_all: bool,
    },
    /// A table, an index, a view or a trigger has this definition.
    Defined(Defined<'c>),
    /// A table, an index, a view or a trigger was dropped.
    Dropped(Named<'c>),
    /// The table has a row with this key that cannot be shown.
    Hidden {
        /// The table.
        table: &'c DynamicTable,
        /// The values of the key, as in [`Changed::Deleted`].
        key: Option<Vec<crate::Value<'static>>>,
        /// The reason why the row cannot be shown, as a part of a sentence.
        why: String,
    },
    /// An operation on rows or on a definition that cannot be decoded.
    Unknown {
        /// The name of the table as of the commit, if it is known.
        table: Option<String>,
        /// The reason why it cannot be decoded, as a part of a sentence.
        why: String,
    },
}

/// A table, an index, a view or a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Named<'c> {
    /// The kind, as in SQLite's schema table: `table`, `index`, `view` or `trigger`.
    pub kind: &'c str,
    /// The name of the table, index, view or trigger.
    pub name: &'c str,
    /// The table to which it belongs; for a table or a view, its own name.
    pub table: &'c str,
}

/// The definition of a table, an index, a view or a trigger.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Defined<'c> {
    /// The table, index, view or trigger that is defined.
    pub named: Named<'c>,
    /// The text of the definition, if SQL made it.
    pub sql: Option<&'c str>,
    /// The schema of a typed table.
    pub schema: Option<&'c Schema>,
    /// The name before this change, if the change gave it another name.
    pub renamed_from: Option<&'c str>,
    /// What the same change dropped, if this definition is stored in its place.
    pub in_place_of: Option<Named<'c>>,
}

impl Changed<'_> {
    /// Returns the name of the table that the operation concerns, if it is known. For a plain table, the operation
    /// itself has the name.
    pub fn table(&self) -> Option<&str> {
        match self {
            Changed::Plain | Changed::Internal => None,
            Changed::Put { table, .. }
            | Changed::Deleted { table, .. }
            | Changed::DeletedRange { table, .. }
            | Changed::Hidden { table, .. } => Some(table.name()),
            Changed::Defined(Defined { named, .. }) | Changed::Dropped(named) => Some(named.table),
            Changed::Unknown { table, .. } => table.as_deref(),
        }
    }
}

impl ChangedRows {
    /// Creates a decoder with the definitions as of the commit `after`: the [position](pando::Changes::position) of a
    /// reader of changes. It reads all definitions, and goes through the changes since that commit.
    ///
    /// # Errors
    /// `TooOld` if changes after `after` are no longer kept; `Corruption`; errors of reading.
    pub fn begin(db: &Database, after: u64) -> Result<Self> {
        let now = db.snapshot()?;
        let typed = TypedCatalog::read(&now)?;
        let mut sqlite = SqliteSchema::read(&now)?;
        let mut changes = db.changes(after)?;
        while let Some(change) = changes.next()? {
            if change.commit_number() > now.commit_number() {
                break;
            }
            definitions_in(&change, |operation| {
                sqlite.forget(operation);
                Ok(())
            })?;
        }
        Ok(ChangedRows { db: db.clone(), typed, sqlite, entered: 0 })
    }

    /// Reads the definitions that a change contains. Call it before you decode the operations of the change. A second
    /// call for the same change has no effect.
    ///
    /// # Errors
    /// Those of reading the change. After an error, create another decoder with [`ChangedRows::begin`].
    pub fn enter(&mut self, change: &Change<'_>) -> Result<()> {
        self.sqlite.show_again();
        if change.commit_number() == self.entered {
            return Ok(());
        }
        self.entered = change.commit_number();
        self.sqlite.enter();
        self.typed.enter();
        let ChangedRows { db, typed, sqlite, .. } = self;
        let is_defining = definitions_in(change, |operation| match operation.table_name() {
            catalog::NAME => typed.note(db, operation),
            _ => sqlite.note(operation),
        })?;
        if is_defining {
            self.sqlite.take_over(change.is_in_parts());
        }
        Ok(())
    }

    /// Returns the effect of an operation of the change that was entered last. A row of more than `most_bytes` is not
    /// read.
    ///
    /// # Errors
    /// Those of reading a long row.
    pub fn decode(&mut self, operation: &Operation<'_>, most_bytes: u64) -> Result<Changed<'_>> {
        let table = operation.table_name();
        if !is_reserved(table) {
            return Ok(Changed::Plain);
        }
        if let Operation::Table(change) = operation {
            return Ok(self.sqlite.tree_change(change));
        }
        if let Some((id, name)) = catalog::data_of(table) {
            return self.typed.decode(id, name, operation, most_bytes);
        }
        if table == catalog::NAME {
            return Ok(self.typed.definition(operation));
        }
        match names::root_of(table) {
            Some(names::SCHEMA) if table == names::of_root(names::SCHEMA) => {
                Ok(self.sqlite.definition(operation))
            }
            None | Some(names::SCHEMA) => Ok(Changed::Internal),
            Some(root) => self.sqlite.decode(&self.db, root, operation, most_bytes),
        }
    }
}

/// Calls `each` on the changes of whole tables, and on the operations on definitions. Returns false if the change
/// cannot have any of the latter.
fn definitions_in(change: &Change<'_>, mut each: impl FnMut(&Operation<'_>) -> Result<()>) -> Result<bool> {
    let schema = names::of_root(names::SCHEMA);
    let mut operations = change.operations()?;
    let mut is_defining = false;
    while let Some(operation) = operations.next()? {
        match &operation {
            Operation::Table(table) => {
                is_defining |= is_reserved(table.name());
                each(&operation)?;
            }
            _ if !is_defining => break,
            operation if [&schema, catalog::NAME].contains(&operation.table_name()) => each(operation)?,
            _ => {}
        }
    }
    Ok(is_defining)
}

/// Shows an operation on the rows of a table.
fn decode<'t>(table: &'t DynamicTable, operation: &Operation<'_>, most_bytes: u64) -> Result<Changed<'t>> {
    match operation {
        Operation::Put { key, value, .. } => {
            let not_shown = |why: String| {
                let key = table.decode_key(key).ok().flatten();
                Changed::Hidden { table, key, why }
            };
            let len_bytes = value.len_bytes();
            if len_bytes > most_bytes {
                return Ok(not_shown(format!("the row has {len_bytes} bytes")));
            }
            let copied;
            let stored = match value.inline() {
                Some(stored) => stored,
                None => {
                    copied = value.to_vec()?;
                    &copied
                }
            };
            Ok(match table.decode(key, stored) {
                Ok(row) => {
                    let row = row.into_iter().map(crate::Value::into_owned).collect();
                    Changed::Put { table, row, has_key: table.has_recoverable_key() }
                }
                Err(error) => not_shown(error.to_string()),
            })
        }
        Operation::Delete { key, .. } => Ok(match table.decode_key(key) {
            Ok(key) => Changed::Deleted { table, key },
            Err(error) => unknown(Some(table.name()), &error.to_string()),
        }),
        Operation::DeleteRange { start, end, .. } => {
            Ok(Changed::DeletedRange { table, is_all: start.is_empty() && end.is_none() })
        }
        Operation::Table(_) => Ok(Changed::Internal),
    }
}

fn unknown<'c>(table: Option<&str>, why: &str) -> Changed<'c> {
    Changed::Unknown { table: table.map(str::to_owned), why: why.to_owned() }
}
