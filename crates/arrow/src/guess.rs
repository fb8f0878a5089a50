//! The types of columns whose values have types of their own, as the results of SQL.

use rows::{ColumnType, Value};

/// The largest integer up to which all are floating-point numbers, too.
const MOST_EXACT: u64 = 1 << f64::MANTISSA_DIGITS;

/// The type of a column, as its values show it: that of all values that are not null. Integers among floating-point
/// numbers become such numbers, if that is exact.
///
/// ```
/// use pando_arrow::GuessedType;
/// use rows::{ColumnType, Value};
/// let mut column = GuessedType::default();
/// for value in [Value::Null, Value::Int(3), Value::Float(0.5)] {
///     column.note(&value).unwrap();
/// }
/// assert_eq!(column.finish(None).unwrap(), ColumnType::Float);
/// assert_eq!(column.note(&Value::Text("x".into())).unwrap_err(), "a value of type text, and one before it float");
/// assert_eq!(GuessedType::default().finish(Some("VARCHAR(20)")).unwrap(), ColumnType::Text);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct GuessedType {
    found: Option<ColumnType>,
    has_large_integer: bool,
}

impl GuessedType {
    /// Notes a value.
    ///
    /// # Errors
    /// What is wrong, if it does not have the type of the values before it.
    pub fn note(&mut self, value: &Value<'_>) -> Result<(), String> {
        let kind = match value {
            Value::Null => return Ok(()),
            Value::Int(number) => {
                self.has_large_integer |= number.unsigned_abs() > MOST_EXACT;
                ColumnType::Int
            }
            Value::Float(_) => ColumnType::Float,
            Value::Text(_) => ColumnType::Text,
            Value::Bytes(_) => ColumnType::Bytes,
            other => return Err(format!("a value that SQL does not have: {other:?}")),
        };
        let is_number = |kind| matches!(kind, ColumnType::Int | ColumnType::Float);
        self.found = match self.found {
            Some(before) if before != kind && is_number(before) && is_number(kind) => Some(ColumnType::Float),
            Some(before) if before != kind => {
                return Err(format!("a value of type {kind}, and one before it {before}"));
            }
            _ => Some(kind),
        };
        Ok(())
    }

    /// Returns the type. If all values are null, it is the one that SQLite prefers in a column of the declared type.
    ///
    /// # Errors
    /// What is wrong, if an integer among floating-point numbers is none of them.
    pub fn finish(self, declared: Option<&str>) -> Result<ColumnType, String> {
        match self.found {
            Some(ColumnType::Float) if self.has_large_integer => {
                Err("floating-point numbers, and an integer that none of them equals".to_owned())
            }
            Some(found) => Ok(found),
            None => Ok(declared.map_or(ColumnType::Text, type_of_declared)),
        }
    }
}

/// Returns a value as one of a column of type `kind`; `None` if it is none.
///
/// ```
/// use rows::{ColumnType, Value};
/// assert_eq!(pando_arrow::fitted(Value::Int(3), ColumnType::Float), Some(Value::Float(3.0)));
/// assert_eq!(pando_arrow::fitted(Value::Float(3.0), ColumnType::Int), None);
/// ```
#[must_use]
pub fn fitted(value: Value<'_>, kind: ColumnType) -> Option<Value<'_>> {
    match (value, kind) {
        (Value::Int(number), ColumnType::Float) if number.unsigned_abs() <= MOST_EXACT => {
            Some(Value::Float(number as f64))
        }
        (value @ Value::Null, _)
        | (value @ Value::Int(_), ColumnType::Int)
        | (value @ Value::Float(_), ColumnType::Float)
        | (value @ Value::Text(_), ColumnType::Text)
        | (value @ Value::Bytes(_), ColumnType::Bytes) => Some(value),
        _ => None,
    }
}

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
