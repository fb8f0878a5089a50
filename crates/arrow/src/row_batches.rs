//! The rows of batches: of a typed table, as the input of an import, and plain records.

use crate::read::Batches;
use crate::shape;
use crate::values::{any_bytes, any_value, bytes, value};
use arrow_array::RecordBatch;
use arrow_schema::Schema;
use pando::{Error, Result};
use rows::{Column, ColumnType, Definition, DynamicRow, DynamicTable, ImportError, RowSource, Value};
use std::collections::BTreeSet;

/// The rows of a typed table, for [`rows::Import`]. The columns of the file and of the table are matched by name. A
/// column that the file lacks gets its default, or null.
#[derive(Debug)]
pub struct RowBatches<'a> {
    batches: Batches<'a>,
    batch: Option<RecordBatch>,
    /// The next row of the batch.
    at: usize,
    /// The number of rows so far.
    number: u64,
    /// The table's columns, in their order.
    columns: Vec<Source>,
}

/// Where the values of a column of the table come from.
#[derive(Debug)]
struct Source {
    name: String,
    kind: ColumnType,
    from: From,
}

#[derive(Debug)]
enum From {
    /// This column of the file.
    File(usize),
    /// This column, which was written from one of type *any*: it has the JSON of each value, whatever the type of the
    /// table's column is.
    Any(usize),
    /// Nowhere: the default.
    Default(Value<'static>),
}

impl<'a> RowBatches<'a> {
    /// Creates a reader of rows from `batches`.
    pub fn new(batches: Batches<'a>) -> Self {
        RowBatches { batches, batch: None, at: 0, number: 0, columns: Vec::new() }
    }

    /// Returns the definition of the table `name` as the metadata of the file describes it, without indexes, defaults
    /// and notes. Returns `None` if another program wrote the file, which then has no primary key in its metadata.
    ///
    /// # Errors
    /// `Invalid` if the description is malformed.
    pub fn definition(&self, name: &str) -> Result<Option<Definition>> {
        shape::definition(name, self.batches.schema())
    }

    fn source(&self, table: &DynamicTable, column: &Column) -> std::result::Result<Source, ImportError> {
        let (name, kind) = (column.name().to_owned(), column.column_type());
        let schema = self.batches.schema();
        let from = match schema.index_of(&name) {
            Ok(at) if shape::is_any(schema.field(at)) => From::Any(at),
            Ok(at) => From::File(at),
            Err(_) => match column.value_if_absent() {
                Some(value) => From::Default(value),
                None => {
                    let message = format!(
                        "the file has no column {name:?}, which in the table {:?} has no default",
                        table.name()
                    );
                    return Err(ImportError::Wrong(message));
                }
            },
        };
        Ok(Source { name, kind, from })
    }
}

impl RowSource for RowBatches<'_> {
    fn begin(&mut self, table: &DynamicTable) -> std::result::Result<(), ImportError> {
        if let Some(name) = repeated(self.batches.schema()) {
            return Err(ImportError::Wrong(format!("column {name:?} appears twice in the file")));
        }
        for field in self.batches.schema().fields() {
            if table.schema().place(field.name()).is_none() {
                let message = format!("the table {:?} has no column {:?}", table.name(), field.name());
                return Err(ImportError::Wrong(message));
            }
        }
        let columns = table.schema().columns().map(|column| self.source(table, column));
        self.columns = columns.collect::<std::result::Result<_, _>>()?;
        Ok(())
    }

    fn next_row(&mut self, _: &DynamicTable) -> std::result::Result<Option<DynamicRow>, ImportError> {
        let Some((batch, row)) = next_row(&mut self.batches, &mut self.batch, &mut self.at)? else {
            return Ok(None);
        };
        self.number += 1;
        let number = self.number;
        let values = self.columns.iter().map(|Source { name, kind, from }| {
            let found = match from {
                From::File(at) => value(batch.column(*at), row, *kind),
                From::Any(at) => any_value(batch.column(*at), row, *kind),
                From::Default(value) => Ok(value.clone()),
            };
            found.map_err(|what| ImportError::Wrong(format!("row {number}, column {name:?}: {what}")))
        });
        values.collect::<std::result::Result<_, _>>().map(Some)
    }

    fn line(&self) -> u64 {
        self.number
    }

    fn place(&self) -> String {
        format!("row {}", self.number)
    }
}

/// Returns the next batch and row; `None` at the end.
fn next_row<'b>(
    batches: &mut Batches<'_>,
    batch: &'b mut Option<RecordBatch>,
    at: &mut usize,
) -> Result<Option<(&'b RecordBatch, usize)>> {
    while batch.as_ref().is_none_or(|batch| *at >= batch.num_rows()) {
        *at = 0;
        *batch = batches.next().transpose()?;
        if batch.is_none() {
            return Ok(None);
        }
    }
    *at += 1;
    Ok(batch.as_ref().map(|batch| (batch, *at - 1)))
}

/// The records of a table of keys and values, from two columns of bytes or text.
#[derive(Debug)]
pub struct RecordBatches<'a> {
    batches: Batches<'a>,
    batch: Option<RecordBatch>,
    at: usize,
    number: u64,
    key: Place,
    value: Place,
}

/// A column of the file.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: usize,
    /// Whether it was written from a column of type *any*.
    is_any: bool,
}

impl<'a> RecordBatches<'a> {
    /// Creates a reader of records from the columns `key` and `value` of `batches`.
    ///
    /// # Errors
    /// `Invalid` if there is no such column, or if there are two.
    pub fn new(batches: Batches<'a>, key: &str, value: &str) -> Result<Self> {
        let (key, value) = (place(batches.schema(), key)?, place(batches.schema(), value)?);
        Ok(RecordBatches { batches, batch: None, at: 0, number: 0, key, value })
    }

    fn read(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let Some((batch, row)) = next_row(&mut self.batches, &mut self.batch, &mut self.at)? else {
            return Ok(None);
        };
        self.number += 1;
        let number = self.number;
        let get = |Place { at, is_any }: Place| {
            let name = || batch.schema_ref().field(at).name().clone();
            let wrong = |what| Error::invalid(format!("row {number}, column {:?}: {what}", name()));
            let bytes = if is_any { any_bytes } else { bytes };
            bytes(batch.column(at), row).map_err(wrong)
        };
        Ok(Some((get(self.key)?, get(self.value)?)))
    }
}

impl Iterator for RecordBatches<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// Returns a name that several columns of the file have.
fn repeated(schema: &Schema) -> Option<&str> {
    let mut seen = BTreeSet::new();
    schema.fields().iter().map(|field| field.name().as_str()).find(|name| !seen.insert(*name))
}

fn place(schema: &Schema, name: &str) -> Result<Place> {
    if schema.fields().iter().filter(|field| field.name() == name).count() > 1 {
        return Err(Error::invalid(format!("column {name:?} appears twice in the file")));
    }
    let at = schema.index_of(name).map_err(|_| {
        let columns: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let columns = columns.join(", ");
        Error::invalid(format!(
            "the file has no column {name:?}; its columns are {columns}: name one of them"
        ))
    })?;
    Ok(Place { at, is_any: shape::is_any(schema.field(at)) })
}
