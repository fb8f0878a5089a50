//! The definitions of typed tables, as of a change, and what they say about operations.

use super::{Changed, Defined, Named, decode, unknown};
use crate::catalog;
use crate::schema::Schema;
use crate::table::DynamicTable;
use pando::{Database, Operation, ReadTables, Result, Table};
use std::collections::HashMap;

/// The definitions of typed tables.
#[derive(Debug, Default)]
pub(super) struct TypedCatalog {
    /// The tables by their ids, dropped ones as well. Ids are never used again.
    tables: HashMap<u32, DynamicTable>,
    /// The ids by the names in the catalog.
    ids: HashMap<String, u32>,
    /// The schemas of the present change, and the ids of the names that it has removed.
    changed: HashMap<String, u32>,
    removed: HashMap<String, u32>,
}

impl TypedCatalog {
    /// Reads all definitions.
    pub fn read(reader: &impl ReadTables) -> Result<Self> {
        let mut read = TypedCatalog::default();
        for table in DynamicTable::all_created(reader)? {
            read.ids.insert(table.name().to_owned(), table.schema().id);
            read.tables.insert(table.schema().id, table);
        }
        Ok(read)
    }

    /// Begins a change.
    pub fn enter(&mut self) {
        self.changed.clear();
        self.removed.clear();
    }

    /// Takes over a record of the catalog.
    pub fn note(&mut self, db: &Database, operation: &Operation<'_>) -> Result<()> {
        match operation {
            Operation::Put { key, value, .. } => {
                let Some(schema) = catalog::schema_in(key, &value.to_vec()?)? else { return Ok(()) };
                let Some(catalog) = db.snapshot()?.table(catalog::NAME)? else { return Ok(()) };
                self.ids.insert(schema.name().to_owned(), schema.id);
                self.changed.insert(schema.name().to_owned(), schema.id);
                self.tables.insert(schema.id, decoder_of(schema, &catalog));
            }
            Operation::Delete { key, .. } => {
                let name = catalog::name_in(key);
                if let Some((name, id)) = name.and_then(|name| self.ids.remove_entry(name)) {
                    self.removed.insert(name, id);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Shows a record of the catalog.
    pub fn definition(&self, operation: &Operation<'_>) -> Changed<'_> {
        let (Operation::Put { key, .. } | Operation::Delete { key, .. }) = operation else {
            return Changed::Internal;
        };
        let name = catalog::name_in(key);
        let of = |ids: &HashMap<String, u32>| self.tables.get(ids.get(name?)?);
        match operation {
            Operation::Put { .. } => match of(&self.changed) {
                Some(table) => Changed::Defined(Defined {
                    named: named(table),
                    sql: None,
                    schema: Some(table.schema()),
                    renamed_from: self.former_name(table),
                    in_place_of: None,
                }),
                None => Changed::Internal,
            },
            _ => match of(&self.removed) {
                // If it was renamed, its definition says so.
                Some(table) if Some(table.name()) == name => Changed::Dropped(named(table)),
                _ => Changed::Internal,
            },
        }
    }

    /// Returns the name that a table had before the present change, if it has another one now.
    fn former_name(&self, table: &DynamicTable) -> Option<&str> {
        let mut removed = self.removed.iter();
        let (name, _) = removed.find(|&(name, &id)| id == table.schema().id && name != table.name())?;
        Some(name)
    }

    /// Shows an operation on the rows of the table `id`, which has this name after the commit.
    pub fn decode(
        &mut self,
        id: u32,
        name: &str,
        operation: &Operation<'_>,
        most_bytes: u64,
    ) -> Result<Changed<'_>> {
        let Some(table) = self.tables.get_mut(&id) else {
            return Ok(unknown(Some(name), "the table was dropped later, and its definition is gone"));
        };
        if table.name() != name {
            // It was renamed after the commit, and the definition of now is the only one that is known.
            let mut schema = table.schema().clone();
            name.clone_into(&mut schema.name);
            *table = decoder_of(schema, table.data());
        }
        decode(table, operation, most_bytes)
    }
}

fn named(table: &DynamicTable) -> Named<'_> {
    Named { kind: "table", name: table.name(), table: table.name() }
}

/// Returns a handle that decodes rows, and does nothing else: `stands_in` is any table.
fn decoder_of(schema: Schema, stands_in: &Table) -> DynamicTable {
    DynamicTable::assemble(schema, stands_in.clone(), Vec::new())
}
