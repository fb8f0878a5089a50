//! The rows of a result of SQL as the library's values, and the types of their columns for Arrow.

use arrow_schema::DataType;
use rows::ColumnType;
use sql::Value;
use std::sync::Arc;

/// The rows of a result, which fetches and sources of Arrow share.
pub struct ResultRows(pub Vec<Vec<Value>>);

impl ResultRows {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns a row with the types of `columns`, which [`ResultRows::column_type`] has found for it.
    pub fn row<'a>(&'a self, at: usize, columns: &arrow_schema::Schema) -> Vec<rows::Value<'a>> {
        let of = |(value, field): (&'a Value, &Arc<arrow_schema::Field>)| match value {
            Value::Null => rows::Value::Null,
            Value::Integer(number) if *field.data_type() == DataType::Float64 => {
                rows::Value::Float(*number as f64)
            }
            Value::Integer(number) => rows::Value::Int(*number),
            Value::Real(number) => rows::Value::Float(*number),
            Value::Text(text) => rows::Value::Text(text.as_str().into()),
            Value::Blob(bytes) => rows::Value::Bytes(bytes.as_slice().into()),
        };
        self.0[at].iter().zip(columns.fields()).map(of).collect()
    }

    /// Returns the type of a column: that of all its values that are not NULL, or, if there are none, the one that
    /// `declared` asks for. Integers among floating-point numbers become such numbers, if that is exact.
    ///
    /// # Errors
    /// What is wrong with the first value of another type.
    pub fn column_type(&self, column: usize, declared: Option<&str>) -> Result<ColumnType, String> {
        let mut found: Option<ColumnType> = None;
        let mut is_exact = true;
        for (number, row) in self.0.iter().enumerate() {
            let kind = match &row[column] {
                Value::Null => continue,
                Value::Integer(value) => {
                    is_exact &= value.unsigned_abs() <= MOST_EXACT;
                    ColumnType::Int
                }
                Value::Real(_) => ColumnType::Float,
                Value::Text(_) => ColumnType::Text,
                Value::Blob(_) => ColumnType::Bytes,
            };
            found = match (found, kind) {
                (None, kind) => Some(kind),
                (Some(before), kind) if before == kind => found,
                (Some(ColumnType::Int | ColumnType::Float), ColumnType::Int | ColumnType::Float) => {
                    Some(ColumnType::Float)
                }
                (Some(before), kind) => {
                    let row = number + 1;
                    return Err(format!(
                        "row {row} has a value of type {kind}, and a row before it {before}"
                    ));
                }
            };
        }
        match found {
            Some(ColumnType::Float) if !is_exact => {
                Err("it has floating-point numbers, and an integer that none of them equals".to_owned())
            }
            Some(found) => Ok(found),
            None => Ok(declared.map_or(ColumnType::Text, type_of_declared)),
        }
    }
}

/// The largest integer up to which all are floating-point numbers, too.
const MOST_EXACT: u64 = 1 << f64::MANTISSA_DIGITS;

/// Returns the type of the values that SQLite prefers in a column of a declared type:
/// <https://sqlite.org/datatype3.html#determination_of_column_affinity>.
fn type_of_declared(declared: &str) -> ColumnType {
    let declared = declared.to_ascii_uppercase();
    let has = |words: &[&str]| words.iter().any(|word| declared.contains(word));
    if has(&["INT"]) {
        ColumnType::Int
    } else if has(&["CHAR", "CLOB", "TEXT"]) {
        ColumnType::Text
    } else if has(&["BLOB"]) {
        ColumnType::Bytes
    } else if has(&["REAL", "FLOA", "DOUB", "NUMERIC", "DECIMAL"]) {
        ColumnType::Float
    } else {
        ColumnType::Text
    }
}
