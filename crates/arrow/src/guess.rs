//! The types of columns that are not declared, such as those of SQL results, from their values.

use rows::{ColumnType, Value};

/// Returns the floating-point number that equals an integer; `None` if there is none.
fn exact(number: i64) -> Option<f64> {
    let float = number as f64;
    // 2^63 is no such integer, and would become the largest one.
    (float < i64::MAX as f64 && float as i64 == number).then_some(float)
}

/// The type of a column, derived from its values: all values that are not null must have it. If integers are among
/// floating-point numbers, they become floating-point numbers, provided that the conversion is exact.
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
    /// Whether an integer equals no floating-point number.
    is_inexact: bool,
}

impl GuessedType {
    /// Notes a value.
    ///
    /// # Errors
    /// A message if the value does not have the type of the values before it.
    pub fn note(&mut self, value: &Value<'_>) -> Result<(), String> {
        let kind = match value {
            Value::Null => return Ok(()),
            Value::Int(number) => {
                self.is_inexact |= exact(*number).is_none();
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

    /// Returns the type. If all values are null, the declared type decides. If all values are integers and the column
    /// is declared for floating-point numbers, the type is float, because later values may not be integers.
    ///
    /// # Errors
    /// A message if an integer among floating-point numbers cannot be converted exactly.
    pub fn finish(self, declared: Option<&str>) -> Result<ColumnType, String> {
        let declared = declared.map_or(ColumnType::Text, type_of_declared);
        match self.found {
            Some(ColumnType::Float) if self.is_inexact => {
                Err("floating-point numbers, and an integer that none of them equals".to_owned())
            }
            Some(ColumnType::Int) if declared == ColumnType::Float && !self.is_inexact => {
                Ok(ColumnType::Float)
            }
            Some(found) => Ok(found),
            None => Ok(declared),
        }
    }
}

/// Returns `value` as a value of a column of type `kind`, or `None` if it cannot be one.
///
/// ```
/// use rows::{ColumnType, Value};
/// assert_eq!(pando_arrow::fitted(Value::Int(3), ColumnType::Float), Some(Value::Float(3.0)));
/// assert_eq!(pando_arrow::fitted(Value::Float(3.0), ColumnType::Int), None);
/// ```
#[must_use]
pub fn fitted(value: Value<'_>, kind: ColumnType) -> Option<Value<'_>> {
    match (value, kind) {
        (Value::Int(number), ColumnType::Float) => exact(number).map(Value::Float),
        (value @ Value::Null, _)
        | (value @ Value::Int(_), ColumnType::Int)
        | (value @ Value::Float(_), ColumnType::Float)
        | (value @ Value::Text(_), ColumnType::Text)
        | (value @ Value::Bytes(_), ColumnType::Bytes) => Some(value),
        _ => None,
    }
}

/// Returns the type of the values that a declared type asks for: by SQLite's rule
/// (<https://sqlite.org/datatype3.html#determination_of_column_affinity>), but that among the types for which that has
/// `NUMERIC`, only those are numbers whose names say so. A `DATE` may be a text.
fn type_of_declared(declared: &str) -> ColumnType {
    let declared = declared.to_ascii_uppercase();
    let has = |words: &[&str]| words.iter().any(|word| declared.contains(word));
    if has(&["INT", "BOOL"]) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn guessed(declared: Option<&str>, values: &[Value<'_>]) -> Result<ColumnType, String> {
        let mut column = GuessedType::default();
        values.iter().try_for_each(|value| column.note(value))?;
        column.finish(declared)
    }

    #[test]
    fn integers_become_floating_point_numbers_where_that_is_exact() {
        let half = Value::Float(0.5);
        for number in [0, -1, 1 << 53, 1 << 60, i64::MIN] {
            assert_eq!(guessed(None, &[half.clone(), Value::Int(number)]), Ok(ColumnType::Float), "{number}");
            assert_eq!(fitted(Value::Int(number), ColumnType::Float), Some(Value::Float(number as f64)));
        }
        for number in [(1 << 53) + 1, i64::MAX, i64::MIN + 1] {
            assert!(guessed(None, &[half.clone(), Value::Int(number)]).is_err(), "{number}");
            assert_eq!(fitted(Value::Int(number), ColumnType::Float), None);
        }
        assert_eq!(guessed(Some("DECIMAL(10,2)"), &[Value::Int(3)]), Ok(ColumnType::Float));
        assert_eq!(guessed(Some("DECIMAL(10,2)"), &[Value::Int(i64::MAX)]), Ok(ColumnType::Int));
        assert_eq!(guessed(Some("INTEGER"), &[Value::Int(3)]), Ok(ColumnType::Int));
        assert_eq!(guessed(Some("BOOLEAN"), &[Value::Null]), Ok(ColumnType::Int));
        assert_eq!(guessed(Some("INTEGER"), &[Value::Text("x".into())]), Ok(ColumnType::Text));
    }
}
