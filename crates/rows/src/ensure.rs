//! A table as a program defines it: created, extended, or compared.

use crate::build::{build_index, finish_index};
use crate::definition::Definition;
use crate::schema::Schema;
use crate::table::DynamicTable;
use pando::any::AnyDatabase;
use pando::{Error, ErrorKind, Result};

impl DynamicTable {
    /// Returns the table of `definition`, and creates it if it does not exist. If the table lacks columns at the end of
    /// the definition, the call adds them. If it lacks indexes, the call builds them while others can write, and
    /// returns after that. In a read-only database the table must exist with all columns and indexes.
    ///
    /// ```
    /// use pando_rows::{Column, ColumnType, Definition, DynamicTable, IndexDefinition};
    /// # fn main() -> pando::Result<()> {
    /// let db = pando::Database::builder().in_memory()?;
    /// let first = Definition::new("people").column(Column::new("id", ColumnType::Int)).key(["id"]);
    /// DynamicTable::ensure(&db, &first)?;
    /// let second = first
    ///     .column(Column::new("town", ColumnType::Text).nullable())
    ///     .index(IndexDefinition::new("by_town", ["town"]));
    /// assert_eq!(DynamicTable::ensure(&db, &second)?.schema().columns().count(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Mismatch` with the difference if the table differs from the definition; those of [`crate::build_index`]. In a
    /// read-only database, `Missing` if the table does not exist.
    pub fn ensure(db: impl Into<AnyDatabase>, definition: &Definition) -> Result<Self> {
        let (db, name) = (db.into(), &definition.name);
        if db.is_read_only() {
            let table = DynamicTable::expect(&db.snapshot()?, name)?;
            fit(definition, table.schema())?;
            has_indexes(definition, table.schema())?;
            return Ok(table);
        }
        let mut table = db.write(|tx| {
            let Some(mut table) = DynamicTable::open(tx, name)? else {
                return DynamicTable::create(tx, definition);
            };
            let there = table.schema().columns().count();
            for column in definition.columns.iter().skip(there) {
                table = table.add_column(tx, column.clone())?;
            }
            fit(definition, table.schema())?;
            Ok(table)
        })?;
        for index in &definition.indexes {
            match table.schema().index(&index.name) {
                None => table = build_index(&db, name, index.clone(), |_| Ok(()))?,
                Some(known) if known.building => {
                    table = finish_index(&db, name, &index.name, |_| Ok(()))?;
                }
                Some(_) => {}
            }
        }
        fit(definition, table.schema())?;
        Ok(table)
    }
}

/// Checks that the table has every index that the program defines, ready to be read.
fn has_indexes(definition: &Definition, schema: &Schema) -> Result<()> {
    for index in &definition.indexes {
        if schema.index(&index.name).is_none_or(|known| known.building) {
            let message = format!(
                "table {:?} has no complete index {:?}, and this database is read-only; open it for writing \
                 to build the index",
                definition.name, index.name
            );
            return Err(Error::new(ErrorKind::Mismatch, message));
        }
    }
    Ok(())
}

/// Checks that the table is as the program defines it.
pub(crate) fn fit(definition: &Definition, schema: &Schema) -> Result<()> {
    let differs = |what: String| {
        let name = &definition.name;
        let message = format!("table {name:?} differs from the row type in this program: {what}");
        Err(Error::new(ErrorKind::Mismatch, message))
    };
    let (is, should) = (schema.columns().count(), definition.columns.len());
    if is != should {
        return differs(format!("it has {is} columns, not {should}"));
    }
    for (is, should) in schema.columns().zip(&definition.columns) {
        let same = (&is.name, is.kind, is.nullable) == (&should.name, should.kind, should.nullable);
        if !same {
            let shown = |column: &crate::Column| {
                let null = if column.nullable { ", may be null" } else { "" };
                format!("{:?} of type {}{null}", column.name, column.kind)
            };
            return differs(format!("it has a column {}, not {}", shown(is), shown(should)));
        }
    }
    if schema.key() != definition.key {
        return differs("its primary key is different".to_owned());
    }
    for should in &definition.indexes {
        let same = |is: &crate::Index| is.parts == should.parts && is.unique == should.unique;
        if schema.index(&should.name).is_some_and(|is| !same(is)) {
            return differs(format!(
                "its index {:?} is different; drop the index, so that it is built again",
                should.name
            ));
        }
    }
    Ok(())
}
