//! The rows of a result of SQL as the library's values, and the types of their columns for Arrow.

use arrow::{GuessedType, fitted};
use rows::ColumnType;
use sql::Value;

/// The rows of a result, which fetches and sources of Arrow share.
pub struct ResultRows(pub Vec<Vec<Value>>);

impl ResultRows {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns a row with the types of `columns`, which [`ResultRows::column_type`] has found for it.
    pub fn row<'a>(&'a self, at: usize, columns: &[ColumnType]) -> Vec<rows::Value<'a>> {
        // A value that does not fit is refused by the batch.
        let of = |(value, kind): (&'a Value, &ColumnType)| {
            fitted(borrowed(value), *kind).unwrap_or_else(|| borrowed(value))
        };
        self.0[at].iter().zip(columns).map(of).collect()
    }

    /// Returns the type of a column: that of all its values that are not NULL, or, if there are none, the one that
    /// `declared` asks for. Integers among floating-point numbers become such numbers, if that is exact.
    ///
    /// # Errors
    /// What is wrong with the first value of another type.
    pub fn column_type(&self, column: usize, declared: Option<&str>) -> Result<ColumnType, String> {
        let mut guessed = GuessedType::default();
        for (number, row) in self.0.iter().enumerate() {
            let noted = guessed.note(&borrowed(&row[column]));
            noted.map_err(|what| format!("row {} has {what}", number + 1))?;
        }
        guessed.finish(declared).map_err(|what| format!("it has {what}"))
    }
}

fn borrowed(value: &Value) -> rows::Value<'_> {
    match value {
        Value::Null => rows::Value::Null,
        Value::Integer(number) => rows::Value::Int(*number),
        Value::Real(number) => rows::Value::Float(*number),
        Value::Text(text) => rows::Value::Text(text.as_str().into()),
        Value::Blob(bytes) => rows::Value::Bytes(bytes.as_slice().into()),
    }
}
