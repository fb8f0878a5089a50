//! Tables and results as Apache Arrow, through its C stream interface and the protocol of capsules of Python.
//!
//! 1. An [`Arrow`] is a source of batches, not the batches: each call of `__arrow_c_stream__` begins at the first row
//!    again, from the same snapshot or the same result. DuckDB, for one, calls it several times.
//! 2. A batch is made when it is asked for, and has at most 8,192 rows or 1 MiB. The thread that asks need not have the
//!    interpreter's lock, and no batch takes it: other programs ask from threads of their own.
//! 3. A batch is handed over without a copy, and lives for as long as the other program needs it.

use crate::codec::{KeyKind, ValueKind};
use crate::errors;
use crate::guard::run;
use crate::handle::Held;
use ::arrow::{BatchBuilder, RecordBatch, Shape};
use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, SchemaRef};
use pando::{Error, Result, Span, Table};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use rows::{ColumnType, DynamicTable, KeyRange, Position, Value};
use std::ops::Bound as End;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Rows of which batches are made.
#[derive(Clone)]
pub enum Rows {
    /// The records of a span of a table, as the columns `key` and `value`.
    Records { held: Arc<Held>, table: Table, kinds: (KeyKind, ValueKind), span: Span },
    /// The rows of a typed table.
    Typed { held: Arc<Held>, table: DynamicTable },
    /// The rows of a result.
    #[cfg(feature = "sql")]
    Sql(Arc<crate::sql_rows::ResultRows>),
}

/// A source of batches for programs that read Arrow, such as pyarrow, pandas, polars and DuckDB.
#[pyclass(frozen, module = "pando._pando")]
pub struct Arrow {
    rows: Rows,
    shape: Shape,
}

impl Arrow {
    /// Of records of a table.
    pub fn of_records(held: Arc<Held>, table: Table, kinds: (KeyKind, ValueKind), span: Span) -> Self {
        let key = match kinds.0 {
            KeyKind::Bytes => ColumnType::Bytes,
            KeyKind::Str => ColumnType::Text,
            KeyKind::Int => ColumnType::Int,
        };
        let value = match kinds.1 {
            ValueKind::Bytes => ColumnType::Bytes,
            ValueKind::Str => ColumnType::Text,
            ValueKind::Json => ColumnType::Json,
        };
        let shape = Shape::of_columns([("key", key, false), ("value", value, false)]);
        Arrow { rows: Rows::Records { held, table, kinds, span }, shape }
    }

    /// Of all rows of a typed table.
    pub fn of_typed(held: Arc<Held>, table: DynamicTable) -> Self {
        let shape = Shape::of_table(&table);
        Arrow { rows: Rows::Typed { held, table }, shape }
    }

    /// Of the rows of a result, whose columns have these names and types.
    #[cfg(feature = "sql")]
    pub fn of_sql(rows: Arc<crate::sql_rows::ResultRows>, columns: &[(String, ColumnType)]) -> Self {
        let columns = columns.iter().map(|(name, kind)| (name.as_str(), *kind, true));
        Arrow { rows: Rows::Sql(rows), shape: Shape::of_columns(columns) }
    }
}

#[pymethods]
impl Arrow {
    /// Returns a capsule with a stream of batches. It ignores a schema that is asked for, as the protocol allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let reader = Reader {
            rows: self.rows.clone(),
            batch: BatchBuilder::new(self.shape.clone()),
            next: Next::Begin,
        };
        // So that a closed database is an exception here, and not in the other program.
        let reader = run(py, move || Ok(reader.check()?))?;
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
    }

    /// Returns a capsule with the schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&**self.shape.schema());
        let schema = schema.map_err(|error| errors::named(py, "InternalError", error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<&str> {
        self.shape.schema().fields().iter().map(|field| field.name().as_str()).collect()
    }

    fn __repr__(&self) -> String {
        format!("<pando.Arrow of columns {}>", self.column_names().join(", "))
    }
}

/// Where the next batch begins.
enum Next {
    Begin,
    /// After this key of a table, or of a typed table.
    After(Vec<u8>),
    #[cfg(feature = "sql")]
    Row(usize),
    /// Nowhere: there are no further rows, or a batch has failed.
    Over,
}

/// Makes one batch after the other.
struct Reader {
    rows: Rows,
    batch: BatchBuilder,
    next: Next,
}

impl Reader {
    /// Returns the reader, if its rows can be read.
    fn check(self) -> Result<Self> {
        match &self.rows {
            Rows::Records { held, .. } | Rows::Typed { held, .. } => held.read_detached(|_| Ok(()))?,
            #[cfg(feature = "sql")]
            Rows::Sql(_) => {}
        }
        Ok(self)
    }

    /// Fills the batch. Returns where the next one begins.
    fn fill(&mut self) -> Result<Next> {
        let Reader { rows, batch, next } = self;
        match rows {
            Rows::Records { held, table, kinds, span } => {
                let rest = match next {
                    Next::After(key) => span.starting(End::Excluded(key)),
                    _ => span.clone(),
                };
                held.read_detached(|snapshot| {
                    let mut cursor = snapshot.cursor(table, rest)?;
                    while let Some((key, value)) = cursor.next()? {
                        let row = [key_of(kinds.0, key)?, value_of(kinds.1, value)?];
                        if batch.push(&row).map_err(misfit)? {
                            return Ok(Next::After(key.to_vec()));
                        }
                    }
                    Ok(Next::Over)
                })
            }
            Rows::Typed { held, table } => {
                let range = match next {
                    Next::After(key) => KeyRange::all().beyond(Position::from_bytes(key.clone())),
                    _ => KeyRange::all(),
                };
                held.read_detached(|snapshot| {
                    let mut scan = table.scan(snapshot, &range)?;
                    while let Some(pushed) = scan.next_with(|row| batch.push(&row))? {
                        if pushed.map_err(misfit)? {
                            let at = scan.position().map(|position| position.as_bytes().to_vec());
                            return Ok(at.map_or(Next::Over, Next::After));
                        }
                    }
                    Ok(Next::Over)
                })
            }
            #[cfg(feature = "sql")]
            Rows::Sql(rows) => {
                let begin = if let Next::Row(row) = next { *row } else { 0 };
                for at in begin..rows.len() {
                    if batch.push(&rows.row(at, batch.shape().types())).map_err(misfit)? {
                        return Ok(Next::Row(at + 1));
                    }
                }
                Ok(Next::Over)
            }
        }
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if matches!(self.next, Next::Over) {
            return Ok(None);
        }
        let filled = self.fill();
        self.next = Next::Over;
        self.next = filled?;
        self.batch.finish().map_err(misfit)
    }
}

impl Iterator for Reader {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // A panic must not reach the other program, which may be written in C.
        let next = catch_unwind(AssertUnwindSafe(|| self.next_batch()));
        let next = next.unwrap_or_else(|_| Err(Error::invalid("a defect in Pando, please report it")));
        next.map_err(|error| ArrowError::ExternalError(error.to_string().into())).transpose()
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.batch.shape().schema())
    }
}

fn key_of(kind: KeyKind, key: &[u8]) -> Result<Value<'_>> {
    match kind {
        KeyKind::Bytes => Ok(Value::Bytes(key.into())),
        KeyKind::Str => text(key, "a key").map(|text| Value::Text(text.into())),
        KeyKind::Int => KeyKind::int(key).map(Value::Int).ok_or_else(|| not_of(key, "a key", "an int")),
    }
}

fn value_of(kind: ValueKind, value: &[u8]) -> Result<Value<'_>> {
    match kind {
        ValueKind::Bytes => Ok(Value::Bytes(value.into())),
        ValueKind::Str => text(value, "a value").map(|text| Value::Text(text.into())),
        ValueKind::Json => text(value, "a value").map(|text| Value::Json(text.into())),
    }
}

fn text<'a>(bytes: &'a [u8], what: &str) -> Result<&'a str> {
    std::str::from_utf8(bytes).map_err(|_| not_of(bytes, what, "text"))
}

/// That the table holds what the columns cannot show.
#[cold]
fn not_of(bytes: &[u8], what: &str, wanted: &str) -> Error {
    Error::invalid(crate::codec::not_of(bytes, what, wanted))
}

#[cold]
fn misfit(error: std::io::Error) -> Error {
    Error::invalid(error.to_string())
}
