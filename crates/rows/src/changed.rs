//! The changes of a database as rows: what a reader of changes shows in place of the engine's tables and stored bytes.
//!
//! A change names tables of the engine, such as `sql:7` or `rows/3.2/people`, and has bytes as they are stored.
//! Definitions are records, too, so a reader of changes sees each of them change. [`ChangedRows`] begins with the
//! definitions as of a commit, and goes on with the changes.
//!
//! 1. *The beginning.* It reads the definitions of now, and which of them changed since the commit. Those of SQLite's
//!    tables are not known before the change that has them.
//! 2. *Order.* A change can have a row before the definition of its table, as it is ordered by table. A change of a
//!    definition renames a table of the engine (`catalog.rs`, `sqlite/mod.rs`), and such changes are read for
//!    definitions first.
//! 3. *Which definition.* Rows of a table that SQLite made are decoded by the definition as of their commit: `DROP
//!    COLUMN` writes all rows anew, without a sign in them. Rows of other typed tables have the version of their
//!    schema, and are decoded by the newest schema that is known.

use crate::catalog;
use crate::open::{Entry, decoded_entry, for_decoding};
use crate::reserved::is_reserved;
use crate::schema::Schema;
use crate::table::{DynamicRow, DynamicTable};
use pando::changes::TableChange;
use pando::{
    Change, ChangesOptions, Database, ErrorKind, Operation, ReadTables, RecordCursor, Result, Span, Table,
};
use sqlite_format::names;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Shows the operations of changes as rows.
///
/// Call [`ChangedRows::enter`] with each change, in order, and then [`ChangedRows::decode`] with each of its operations.
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
    /// The typed tables by their ids. Ids are never used again.
    typed: HashMap<u32, DynamicTable>,
    sqlite: OfSqlite,
}

/// What an operation does to rows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Changed<'c> {
    /// The operation is on a table that has no rows, but keys and values of the program.
    Plain,
    /// The operation keeps up what belongs to rows: an entry of an index, a table of the engine, a meta value.
    Internal,
    /// The table has this row: it was inserted or replaced.
    Put {
        /// The table, for its name and its columns.
        table: &'c DynamicTable,
        /// The row.
        row: DynamicRow,
        /// Whether [`Changed::Deleted`] of the row has its key as values.
        has_key: bool,
    },
    /// The row with this key is absent.
    Deleted {
        /// The table, for its name and its key.
        table: &'c DynamicTable,
        /// The values of the key. `None`: they do not follow from its bytes, as in a `WITHOUT ROWID` table, or where a
        /// part has a collation. The operation has the bytes, which are those of the put.
        key: Option<Vec<crate::Value<'static>>>,
    },
    /// The rows in a range of stored keys are absent.
    DeletedRange {
        /// The table, for its name.
        table: &'c DynamicTable,
        /// Whether these are all rows.
        is_all: bool,
    },
    /// A table, an index, a view or a trigger has this definition.
    Defined(Defined<'c>),
    /// A table, an index, a view or a trigger was dropped.
    Dropped {
        /// What it was, as in SQLite's schema table: `table`, `index`, `view` or `trigger`.
        kind: &'c str,
        /// Its name.
        name: &'c str,
        /// The table to which it belonged; of a table or a view, its own name.
        table: &'c str,
    },
    /// The operation is on a row, which cannot be shown.
    Unknown {
        /// The name of the table, if it is known.
        table: Option<&'c str>,
        /// Why not, as a part of a sentence.
        why: String,
    },
}

/// The definition of a table, an index, a view or a trigger.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Defined<'c> {
    /// What it is, as in SQLite's schema table: `table`, `index`, `view` or `trigger`.
    pub kind: &'c str,
    /// Its name.
    pub name: &'c str,
    /// The table to which it belongs; of a table or a view, its own name.
    pub table: &'c str,
    /// The text of the definition, if it was made by SQL.
    pub sql: Option<&'c str>,
    /// The schema of a typed table.
    pub schema: Option<&'c Schema>,
}

/// The definitions that SQLite made.
#[derive(Debug, Default)]
struct OfSqlite {
    /// The rows of `sqlite_schema` by their stored keys. `None`: its name is not UTF-8.
    entries: BTreeMap<Vec<u8>, Option<Entry>>,
    /// What the present change has dropped, and which definitions it has changed: SQLite writes those of other tables
    /// anew, too.
    dropped: BTreeMap<Vec<u8>, Entry>,
    changed: BTreeSet<Vec<u8>>,
    /// What is stored under a root, once it was asked for.
    roots: HashMap<u32, Tree>,
}

/// What SQLite stores in a table of the engine.
#[derive(Debug)]
enum Tree {
    Rows(Box<DynamicTable>),
    /// An index, or a table of SQLite's own.
    Internal,
    /// A table whose rows cannot be shown.
    Refused {
        name: String,
        why: String,
    },
}

impl Changed<'_> {
    /// Returns the name of the table that it concerns, if it is known. A plain table is named by the operation.
    pub fn table(&self) -> Option<&str> {
        match self {
            Changed::Plain | Changed::Internal => None,
            Changed::Put { table, .. }
            | Changed::Deleted { table, .. }
            | Changed::DeletedRange { table, .. } => Some(table.name()),
            Changed::Defined(Defined { table, .. }) | Changed::Dropped { table, .. } => Some(table),
            Changed::Unknown { table, .. } => *table,
        }
    }
}

impl ChangedRows {
    /// Begins with the definitions as of the commit `after`: the [position](pando::Changes::position) of a reader of
    /// changes. It reads all definitions, and the changes since then that are kept in the log.
    ///
    /// # Errors
    /// `TooOld` if changes after `after` are no longer kept; `Corruption`; errors of reading.
    pub fn begin(db: &Database, after: u64) -> Result<Self> {
        let now = db.snapshot()?;
        let created = DynamicTable::all_created(&now)?;
        let typed = created.into_iter().map(|table| (table.schema().id, table)).collect();
        let mut sqlite = OfSqlite::read(&now)?;
        let schema = names::of_root(names::SCHEMA);
        let mut changes = db.changes_with(ChangesOptions::default().after(after).table(&schema))?;
        while let Some(change) = changes.next()? {
            if change.commit_number() > now.commit_number() {
                break;
            }
            let mut operations = change.operations()?;
            while let Some(operation) = operations.next()? {
                sqlite.forget(&operation);
            }
        }
        Ok(ChangedRows { db: db.clone(), typed, sqlite })
    }

    /// Takes over the definitions that a change contains. Call it before the operations of the change are decoded.
    ///
    /// # Errors
    /// Those of reading the change; `Corruption`.
    pub fn enter(&mut self, change: &Change<'_>) -> Result<()> {
        self.sqlite.dropped.clear();
        self.sqlite.changed.clear();
        let mut operations = change.operations()?;
        let mut is_defining = false;
        while let Some(operation) = operations.next()? {
            match operation {
                Operation::Table(table) => is_defining |= is_of_definition(table),
                _ if !is_defining => break,
                operation => self.note(&operation)?,
            }
        }
        Ok(())
    }

    /// Shows an operation of the change that was entered last. A row with more than `most_bytes` is not read.
    ///
    /// # Errors
    /// Those of reading a long row; `Corruption`.
    pub fn decode(&mut self, operation: &Operation<'_>, most_bytes: u64) -> Result<Changed<'_>> {
        let table = match operation {
            Operation::Table(change) if is_reserved(change.name()) => return Ok(Changed::Internal),
            Operation::Table(_) => return Ok(Changed::Plain),
            Operation::Put { table, .. }
            | Operation::Delete { table, .. }
            | Operation::DeleteRange { table, .. } => table.name(),
        };
        if !is_reserved(table) {
            return Ok(Changed::Plain);
        }
        if table == catalog::NAME {
            self.note(operation)?;
            return Ok(self.typed_definition(operation));
        }
        match names::root_of(table) {
            Some(names::SCHEMA) if table == names::of_root(names::SCHEMA) => {
                self.note(operation)?;
                Ok(self.sqlite.definition(operation))
            }
            Some(names::SCHEMA) => Ok(Changed::Internal),
            Some(root) => self.sqlite.decode(&self.db, root, operation, most_bytes),
            None => match catalog::id_of_data(table) {
                None => Ok(Changed::Internal),
                Some(id) => match self.typed.get(&id) {
                    Some(typed) => decode(typed, operation, most_bytes),
                    None => {
                        Ok(unknown(None, "the typed table was dropped later, and its definition is gone"))
                    }
                },
            },
        }
    }

    /// Takes over a definition.
    fn note(&mut self, operation: &Operation<'_>) -> Result<()> {
        match operation {
            Operation::Put { table, key, value } if table.name() == catalog::NAME => {
                let Some(schema) = catalog::schema_in(key, &value.to_vec()?)? else { return Ok(()) };
                let Some(catalog) = self.db.snapshot()?.table(catalog::NAME)? else { return Ok(()) };
                let id = schema.id;
                self.typed.insert(id, decoder_of(schema, &catalog));
                Ok(())
            }
            _ => self.sqlite.note(operation),
        }
    }

    /// Shows a record of the catalog of typed tables.
    fn typed_definition(&self, operation: &Operation<'_>) -> Changed<'_> {
        let (Operation::Put { key, .. } | Operation::Delete { key, .. }) = operation else {
            return Changed::Internal;
        };
        let Some(name) = catalog::name_in(key) else { return Changed::Internal };
        let table = self.typed.values().filter(|table| table.name() == name);
        // A dropped table and its successor can have the same name.
        let Some(table) = table.max_by_key(|table| table.schema().id) else { return Changed::Internal };
        match operation {
            Operation::Put { .. } => Changed::Defined(Defined {
                kind: "table",
                name: table.name(),
                table: table.name(),
                sql: None,
                schema: Some(table.schema()),
            }),
            _ => Changed::Dropped { kind: "table", name: table.name(), table: table.name() },
        }
    }
}

impl OfSqlite {
    /// Reads all definitions.
    fn read(reader: &impl ReadTables) -> Result<Self> {
        let mut read = OfSqlite::default();
        let Some(schema) = reader.table(&names::of_root(names::SCHEMA))? else { return Ok(read) };
        let mut cursor = reader.cursor(&schema, Span::all())?;
        while let Some((key, record)) = cursor.next()? {
            read.entries.insert(key.to_vec(), decoded_entry(record)?);
        }
        Ok(read)
    }

    /// Forgets the definitions that an operation changes.
    fn forget(&mut self, operation: &Operation<'_>) {
        match operation {
            Operation::Put { key, .. } | Operation::Delete { key, .. } => drop(self.entries.remove(*key)),
            Operation::DeleteRange { start, end, .. } => {
                self.entries.retain(|key, _| !is_in(key, start, *end));
            }
            Operation::Table(_) => {}
        }
    }

    /// Takes over a definition.
    fn note(&mut self, operation: &Operation<'_>) -> Result<()> {
        let (Operation::Put { table, .. }
        | Operation::Delete { table, .. }
        | Operation::DeleteRange { table, .. }) = operation
        else {
            return Ok(());
        };
        if table.name() != names::of_root(names::SCHEMA) {
            return Ok(());
        }
        self.roots.clear();
        match operation {
            Operation::Put { key, value, .. } => {
                let entry = decoded_entry(&value.to_vec()?)?;
                if self.entries.get(*key) != Some(&entry) {
                    self.entries.insert(key.to_vec(), entry);
                    self.changed.insert(key.to_vec());
                }
            }
            Operation::Delete { key, .. } => {
                if let Some(Some(entry)) = self.entries.remove(*key) {
                    self.dropped.insert(key.to_vec(), entry);
                }
            }
            _ => self.forget(operation),
        }
        Ok(())
    }

    /// Shows a row of `sqlite_schema`.
    fn definition(&self, operation: &Operation<'_>) -> Changed<'_> {
        match operation {
            Operation::Put { key, .. } if !self.changed.contains(*key) => Changed::Internal,
            Operation::Put { key, .. } => match self.entries.get(*key) {
                Some(Some(entry)) => Changed::Defined(Defined {
                    kind: &entry.kind,
                    name: &entry.name,
                    table: &entry.table,
                    sql: entry.sql.as_deref().and_then(|sql| str::from_utf8(sql).ok()),
                    schema: None,
                }),
                _ => Changed::Internal,
            },
            Operation::Delete { key, .. } => match self.dropped.get(*key) {
                Some(entry) => Changed::Dropped { kind: &entry.kind, name: &entry.name, table: &entry.table },
                None => Changed::Internal,
            },
            _ => Changed::Internal,
        }
    }

    /// Shows an operation on what is stored under a root.
    fn decode(
        &mut self,
        db: &Database,
        root: u32,
        operation: &Operation<'_>,
        most_bytes: u64,
    ) -> Result<Changed<'_>> {
        if !self.roots.contains_key(&root) {
            let Some(tree) = self.tree(db, root)? else {
                return Ok(unknown(None, "its definition changed later, and the earlier one is gone"));
            };
            self.roots.insert(root, tree);
        }
        match &self.roots[&root] {
            Tree::Rows(table) => decode(table, operation, most_bytes),
            Tree::Internal => Ok(Changed::Internal),
            Tree::Refused { name, why } => Ok(unknown(Some(name), why)),
        }
    }

    /// Returns what is stored under a root. `None`: it has no definition that is known.
    fn tree(&self, db: &Database, root: u32) -> Result<Option<Tree>> {
        let Some(entry) = self.entries.values().flatten().find(|entry| entry.root == root) else {
            return Ok(None);
        };
        if !entry.is_table() || entry.is_internal() {
            return Ok(Some(Tree::Internal));
        }
        let Some(meta) = db.snapshot()?.table(names::META)? else { return Ok(None) };
        Ok(Some(match for_decoding(entry, &meta) {
            Ok(table) => Tree::Rows(Box::new(table)),
            Err(error) => Tree::Refused { name: entry.name.clone(), why: error.to_string() },
        }))
    }
}

/// Returns a handle that decodes rows, and does nothing else: `stands_in` is any table.
fn decoder_of(schema: Schema, stands_in: &Table) -> DynamicTable {
    DynamicTable::assemble(schema, stands_in.clone(), Vec::new())
}

/// Shows an operation on the rows of a table.
fn decode<'t>(table: &'t DynamicTable, operation: &Operation<'_>, most_bytes: u64) -> Result<Changed<'t>> {
    match operation {
        Operation::Put { key, value, .. } => {
            let len_bytes = value.len_bytes();
            if len_bytes > most_bytes {
                return Ok(unknown(Some(table.name()), format!("it has {len_bytes} bytes")));
            }
            let copied;
            let stored = match value.inline() {
                Some(stored) => stored,
                None => {
                    copied = value.to_vec()?;
                    &copied
                }
            };
            match table.decode(key, stored) {
                Ok(row) => {
                    let row = row.into_iter().map(crate::Value::into_owned).collect();
                    Ok(Changed::Put { table, row, has_key: table.has_recoverable_key() })
                }
                Err(error) if error.kind() == ErrorKind::Invalid => {
                    Ok(unknown(Some(table.name()), error.to_string()))
                }
                Err(error) => Err(error),
            }
        }
        Operation::Delete { key, .. } => Ok(Changed::Deleted { table, key: table.decode_key(key)? }),
        Operation::DeleteRange { start, end, .. } => {
            Ok(Changed::DeletedRange { table, is_all: start.is_empty() && end.is_none() })
        }
        Operation::Table(_) => Ok(Changed::Internal),
    }
}

fn unknown<'c>(table: Option<&'c str>, why: impl Into<String>) -> Changed<'c> {
    Changed::Unknown { table, why: why.into() }
}

/// Returns whether a change of a table comes with a change of a definition.
fn is_of_definition(change: &TableChange) -> bool {
    is_reserved(change.name())
}

fn is_in(key: &[u8], start: &[u8], end: Option<&[u8]>) -> bool {
    key >= start && end.is_none_or(|end| key < end)
}
