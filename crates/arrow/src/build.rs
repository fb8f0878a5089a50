//! Rows to batches: one builder of arrow-rs for each column.

use crate::shape::Shape;
use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, FixedSizeBinaryBuilder, Float64Builder, Int64Builder, StringBuilder,
    TimestampMicrosecondBuilder, UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use rows::{ColumnType, Value};
use std::fmt;
use std::io;
use std::sync::Arc;

/// The most rows of a batch.
const MOST_ROWS: usize = 8192;
/// The bytes of values after which a batch ends.
const MOST_BYTES: usize = 1 << 20;
/// The longest value: Arrow counts the bytes of a column of texts or bytes in 31 bits.
const MOST_VALUE_BYTES: usize = (i32::MAX as usize) - MOST_BYTES;

/// A builder of batches from rows.
///
/// ```
/// use pando_arrow::{BatchBuilder, Shape};
/// use rows::{ColumnType, Value};
/// # fn main() -> std::io::Result<()> {
/// let mut batch = BatchBuilder::new(Shape::of_columns([("id", ColumnType::Int, false)]));
/// let is_full = batch.push(&[Value::from(7)])?;
/// assert!(!is_full);
/// assert_eq!(batch.finish()?.expect("a row").num_rows(), 1);
/// assert!(batch.finish()?.is_none());
/// # Ok(())
/// # }
/// ```
pub struct BatchBuilder {
    shape: Shape,
    columns: Vec<ColumnBuilder>,
    rows: usize,
    bytes: usize,
}

enum ColumnBuilder {
    Bool(BooleanBuilder),
    Int(Int64Builder),
    UInt(UInt64Builder),
    Float(Float64Builder),
    Timestamp(TimestampMicrosecondBuilder),
    Text(StringBuilder),
    /// Values of any type, as JSON.
    Any(StringBuilder),
    Uuid(FixedSizeBinaryBuilder),
    Bytes(BinaryBuilder),
}

impl BatchBuilder {
    /// Creates a builder of batches with these columns.
    pub fn new(shape: Shape) -> Self {
        let columns = shape.types().iter().map(|&kind| ColumnBuilder::new(kind)).collect();
        BatchBuilder { shape, columns, rows: 0, bytes: 0 }
    }

    /// Returns the columns.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Adds a row, which must have a value for each column. Returns whether the batch is full, that is, whether it has
    /// 8,192 rows or 1 MiB of values. O(bytes of the row).
    ///
    /// # Errors
    /// `InvalidData` if the row does not fit the columns. Discard the builder after an error.
    pub fn push(&mut self, row: &[Value<'_>]) -> io::Result<bool> {
        if row.len() != self.columns.len() {
            let (found, wanted) = (row.len(), self.columns.len());
            return Err(invalid(format!("a row has {found} values, and there are {wanted} columns")));
        }
        for (at, (column, value)) in self.columns.iter_mut().zip(row).enumerate() {
            let name = || self.shape.schema().field(at).name().clone();
            self.bytes +=
                column.push(value).map_err(|what| invalid(format!("column {:?}: {what}", name())))?;
        }
        self.rows += 1;
        Ok(self.rows >= MOST_ROWS || self.bytes >= MOST_BYTES)
    }

    /// Returns the rows since the last batch, or `None` if there are none.
    ///
    /// # Errors
    /// `InvalidData` if a column that is not nullable has a null.
    pub fn finish(&mut self) -> io::Result<Option<RecordBatch>> {
        if self.rows == 0 {
            return Ok(None);
        }
        (self.rows, self.bytes) = (0, 0);
        let columns = self.columns.iter_mut().map(ColumnBuilder::finish).collect();
        let batch = RecordBatch::try_new(Arc::clone(self.shape.schema()), columns);
        batch.map(Some).map_err(|error| invalid(error.to_string()))
    }
}

impl ColumnBuilder {
    fn new(kind: ColumnType) -> Self {
        match kind {
            ColumnType::Bool => ColumnBuilder::Bool(BooleanBuilder::new()),
            ColumnType::Int => ColumnBuilder::Int(Int64Builder::new()),
            ColumnType::UInt => ColumnBuilder::UInt(UInt64Builder::new()),
            ColumnType::Float => ColumnBuilder::Float(Float64Builder::new()),
            ColumnType::Timestamp => {
                ColumnBuilder::Timestamp(TimestampMicrosecondBuilder::new().with_timezone("UTC"))
            }
            ColumnType::Uuid => ColumnBuilder::Uuid(FixedSizeBinaryBuilder::new(16)),
            ColumnType::Bytes => ColumnBuilder::Bytes(BinaryBuilder::new()),
            ColumnType::Any => ColumnBuilder::Any(StringBuilder::new()),
            _ => ColumnBuilder::Text(StringBuilder::new()),
        }
    }

    /// Adds a value. Returns its bytes.
    fn push(&mut self, value: &Value<'_>) -> Result<usize, String> {
        if matches!(value, Value::Null) {
            self.push_null();
            return Ok(1);
        }
        match (self, value) {
            (ColumnBuilder::Bool(column), Value::Bool(value)) => column.append_value(*value),
            (ColumnBuilder::Int(column), Value::Int(value)) => column.append_value(*value),
            (ColumnBuilder::UInt(column), Value::UInt(value)) => column.append_value(*value),
            (ColumnBuilder::Float(column), Value::Float(value)) => column.append_value(*value),
            (ColumnBuilder::Timestamp(column), Value::Timestamp(value)) => column.append_value(*value),
            (ColumnBuilder::Uuid(column), Value::Uuid(value)) => {
                column.append_value(value).map_err(|error| error.to_string())?;
                return Ok(16);
            }
            (ColumnBuilder::Text(column), Value::Text(value) | Value::Json(value)) => {
                let bytes = check_length(value.len())?;
                column.append_value(value);
                return Ok(bytes);
            }
            (ColumnBuilder::Any(column), value) => {
                let json = value.to_json(ColumnType::Any).to_string();
                let bytes = check_length(json.len())?;
                column.append_value(json);
                return Ok(bytes);
            }
            (ColumnBuilder::Bytes(column), Value::Bytes(value)) => {
                let bytes = check_length(value.len())?;
                column.append_value(value);
                return Ok(bytes);
            }
            (_, value) => return Err(format!("{value} has another type")),
        }
        Ok(8)
    }

    fn push_null(&mut self) {
        match self {
            ColumnBuilder::Bool(column) => column.append_null(),
            ColumnBuilder::Int(column) => column.append_null(),
            ColumnBuilder::UInt(column) => column.append_null(),
            ColumnBuilder::Float(column) => column.append_null(),
            ColumnBuilder::Timestamp(column) => column.append_null(),
            ColumnBuilder::Text(column) | ColumnBuilder::Any(column) => column.append_null(),
            ColumnBuilder::Uuid(column) => column.append_null(),
            ColumnBuilder::Bytes(column) => column.append_null(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            ColumnBuilder::Bool(column) => Arc::new(column.finish()),
            ColumnBuilder::Int(column) => Arc::new(column.finish()),
            ColumnBuilder::UInt(column) => Arc::new(column.finish()),
            ColumnBuilder::Float(column) => Arc::new(column.finish()),
            ColumnBuilder::Timestamp(column) => Arc::new(column.finish()),
            ColumnBuilder::Text(column) | ColumnBuilder::Any(column) => Arc::new(column.finish()),
            ColumnBuilder::Uuid(column) => Arc::new(column.finish()),
            ColumnBuilder::Bytes(column) => Arc::new(column.finish()),
        }
    }
}

/// Returns the length of a value that can be in a batch.
fn check_length(bytes: usize) -> Result<usize, String> {
    if bytes > MOST_VALUE_BYTES {
        return Err(format!("a value has {bytes} bytes, and Arrow holds at most {MOST_VALUE_BYTES}"));
    }
    Ok(bytes)
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

impl fmt::Debug for BatchBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchBuilder")
            .field("shape", &self.shape)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}
