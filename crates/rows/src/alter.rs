//! Creating, changing and dropping typed tables. Each call runs in the caller's transaction and makes a new version of
//! the schema; none reads or writes a row unless its documentation says so.

use crate::catalog;
use crate::cause::Cause;
use crate::definition::{Column, Definition, IndexDefinition};
use crate::open::is_taken;
use crate::schema::Schema;
use crate::table::{DynamicTable, atomically};
use pando::{Error, ErrorKind, ReadTables, Result, Table, TableOptions, WriteTables};

/// The message for an index on a table with a TTL; [`Definition::ttl`] explains it.
const NO_INDEXES: &str = "a table with a TTL has no indexes";

impl DynamicTable {
    /// Creates a typed table and its indexes.
    ///
    /// # Errors
    /// `Exists` if there is already a table of this name; `Invalid` with the reason if the definition is not
    /// consistent.
    pub fn create(tx: &mut impl WriteTables, definition: &Definition) -> Result<Self> {
        if is_taken(tx, definition.name())? {
            return Err(exists(definition.name()));
        }
        // The definition is checked before an id is claimed, so that an invalid one writes nothing.
        Schema::from_definition(definition, 0)?;
        atomically(tx, |tx| {
            let schema = Schema::from_definition(definition, catalog::claim_id(tx)?)?;
            if definition.options.ttl.is_some() && !definition.indexes.is_empty() {
                return Err(schema.refused(NO_INDEXES));
            }
            let data = tx.create_table(&catalog::data_name(&schema), &definition.options)?;
            let options = of_indexes(&data);
            let indexes = schema.indexes().iter();
            let indexes =
                indexes.map(|index| tx.create_table(&catalog::index_name(&schema, index), &options));
            let indexes = indexes.collect::<Result<_>>()?;
            catalog::put(tx, &schema)?;
            Ok(Self::assemble(schema, data, indexes))
        })
    }

    /// Drops the table and everything in it without reading its rows.
    ///
    /// # Errors
    /// `Missing` with [`Cause::SchemaChanged`] if the handle is stale.
    pub fn drop(self, tx: &mut impl WriteTables) -> Result<()> {
        atomically(tx, |tx| {
            self.current(tx)?;
            let schema = &self.inner.schema;
            for open in &self.inner.indexes {
                tx.drop_table(&open.table)?;
                catalog::set_built_through(tx, schema, &open.index, None)?;
            }
            tx.drop_table(&self.inner.data)?;
            catalog::delete(tx, self.name())
        })
    }

    /// Renames the table, and returns a handle with the new name.
    ///
    /// # Errors
    /// `Exists` if there is already a table of this name.
    pub fn rename(self, tx: &mut impl WriteTables, name: &str) -> Result<Self> {
        if is_taken(tx, name)? {
            return Err(exists(name));
        }
        let old = self.name().to_owned();
        let change = |_: &mut _, schema: &mut Schema| {
            name.clone_into(&mut schema.name);
            Ok(())
        };
        atomically(tx, |tx| {
            let renamed = self.altered(tx, change)?;
            catalog::delete(tx, &old)?;
            Ok(renamed)
        })
    }

    /// Adds a column after the others. It takes no time: existing rows have the column's default, or null.
    ///
    /// # Errors
    /// `Invalid` if the column has no default and is not nullable, or if its name is taken.
    pub fn add_column(self, tx: &mut impl WriteTables, column: Column) -> Result<Self> {
        self.altered(tx, |_, schema| {
            schema.columns.push(Column { added: schema.version, dropped: None, ..column });
            Ok(())
        })
    }

    /// Drops a column. It takes no time: a row loses the value when it is written again.
    ///
    /// # Errors
    /// `Missing` if there is no column of this name; `Invalid` if it is part of the primary key or of an index.
    pub fn drop_column(self, tx: &mut impl WriteTables, name: &str) -> Result<Self> {
        self.altered(tx, |_, schema| {
            let version = schema.version;
            live_column(schema, name)?.dropped = Some(version);
            Ok(())
        })
    }

    /// Renames a column.
    ///
    /// # Errors
    /// `Missing` if there is no column of this name; `Invalid` if the new name is taken.
    pub fn rename_column(self, tx: &mut impl WriteTables, name: &str, new: &str) -> Result<Self> {
        self.altered(tx, |_, schema| {
            new.clone_into(&mut live_column(schema, name)?.name);
            let parts = schema.indexes.iter_mut().flat_map(|index| &mut index.parts);
            for part in parts.chain(&mut schema.key).filter(|part| part.column == name) {
                new.clone_into(&mut part.column);
            }
            Ok(())
        })
    }

    /// Sets the note of the table.
    pub fn set_note(self, tx: &mut impl WriteTables, note: &str) -> Result<Self> {
        self.altered(tx, |_, schema| {
            note.clone_into(&mut schema.note);
            Ok(())
        })
    }

    /// Creates an index and fills it within this transaction. It reads every row, so the transaction conflicts with
    /// every concurrent write of a row. For a table in use, see [`crate::build_index`].
    ///
    /// # Errors
    /// `Exists` with [`Cause::Duplicate`] if the index is unique and two rows have the same values in it; `Invalid`
    /// if its name is taken or one of its parts is not a column.
    pub fn create_index(self, tx: &mut impl WriteTables, index: IndexDefinition) -> Result<Self> {
        self.create_index_while(tx, index, || Ok(()))
    }

    /// Creates an index as [`DynamicTable::create_index`] does, and calls `go_on` about every thousand rows. An error
    /// of `go_on` stops the call.
    ///
    /// # Errors
    /// As for [`DynamicTable::create_index`], and those of `go_on`. After an error, no part of the index remains.
    pub fn create_index_while(
        self,
        tx: &mut impl WriteTables,
        index: IndexDefinition,
        go_on: impl FnMut() -> Result<()>,
    ) -> Result<Self> {
        atomically(tx, |tx| {
            let table = self.declare_index(tx, index, false)?;
            let place = table.inner.indexes.len() - 1;
            table.fill(tx, place, go_on)?;
            Ok(table)
        })
    }

    /// Adds an index that has no entries yet.
    pub(crate) fn declare_index(
        self,
        tx: &mut impl WriteTables,
        index: IndexDefinition,
        building: bool,
    ) -> Result<Self> {
        let (has_ttl, options) = (self.inner.data.ttl().is_some(), of_indexes(&self.inner.data));
        self.altered(tx, |tx, schema| {
            if has_ttl {
                return Err(schema.refused(NO_INDEXES));
            }
            schema.push_index(index, building);
            let added = schema.indexes.last().expect("it was just pushed");
            // The schema is checked before the engine's table is created, so that a name that is too long is rejected
            // in the schema's words.
            schema.check().map_err(|message| schema.refused(&message))?;
            tx.create_table(&catalog::index_name(schema, added), &options)?;
            Ok(())
        })
    }

    /// Drops an index.
    ///
    /// # Errors
    /// `Missing` if there is no index of this name.
    pub fn drop_index(self, tx: &mut impl WriteTables, name: &str) -> Result<Self> {
        let (table, data) = (self.name().to_owned(), self.index_data(name).cloned());
        self.altered(tx, |tx, schema| {
            let missing = || Error::new(ErrorKind::Missing, format!("table {table:?} has no index {name:?}"));
            let place = schema.indexes.iter().position(|index| index.name == name);
            let dropped = schema.indexes.remove(place.ok_or_else(missing)?);
            catalog::set_built_through(tx, schema, &dropped, None)?;
            tx.drop_table(&data.expect("an index of the schema has a table"))
        })
    }

    /// Checks that the handle has the newest version of the schema, as the transaction sees it.
    pub(crate) fn current(&self, tx: &impl ReadTables) -> Result<()> {
        self.check_own()?;
        // The version alone is not enough: it may belong to another schema if a transaction made it that was rolled
        // back.
        self.check_handle(tx)?;
        match catalog::find(tx, self.name())? {
            Some(found) if (found.id, found.version) == (self.schema().id, self.schema().version) => Ok(()),
            _ => {
                let table = self.name().to_owned();
                let message = format!(
                    "typed table {table:?} was altered or dropped after this handle was opened; open the \
                     table again"
                );
                Err(Cause::SchemaChanged { table }.error(message))
            }
        }
    }

    /// Returns the next version of the schema, which `change` makes from the present one.
    pub(crate) fn altered<W: WriteTables>(
        self,
        tx: &mut W,
        change: impl FnOnce(&mut W, &mut Schema) -> Result<()>,
    ) -> Result<Self> {
        atomically(tx, |tx| {
            self.current(tx)?;
            let mut schema = self.inner.schema.clone();
            let next = schema.version.checked_add(1);
            schema.version = next.ok_or_else(|| {
                schema.refused("its schema has no further version; copy the rows into a new table")
            })?;
            change(tx, &mut schema)?;
            schema.check().map_err(|message| schema.refused(&message))?;
            // The rename invalidates every other handle: see `catalog.rs`.
            let data = tx.rename_table(&self.inner.data, &catalog::data_name(&schema))?;
            catalog::put(tx, &schema)?;
            let mut indexes = Vec::with_capacity(schema.indexes().len());
            for index in schema.indexes() {
                let name = catalog::index_name(&schema, index);
                indexes.push(tx.table(&name)?.ok_or_else(|| schema.refused("an index has no table"))?);
            }
            Ok(Self::assemble(schema, data, indexes))
        })
    }
}

/// Returns the options of an index's table: its layout and compression are those of the rows.
fn of_indexes(data: &Table) -> TableOptions {
    TableOptions::with_layout(data.layout()).compression(data.compression())
}

fn live_column<'s>(schema: &'s mut Schema, name: &str) -> Result<&'s mut Column> {
    let table = schema.name.clone();
    let found = schema.columns.iter_mut().find(|column| column.dropped.is_none() && column.name == name);
    found.ok_or_else(|| Error::new(ErrorKind::Missing, format!("table {table:?} has no column {name:?}")))
}

#[cold]
fn exists(name: &str) -> Error {
    Error::new(ErrorKind::Exists, format!("a table {name:?} already exists"))
}
