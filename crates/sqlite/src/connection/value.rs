//! Values of rows and parameters.

/// A value of a row or of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `NULL`.
    Null,
    /// An integer.
    Integer(i64),
    /// A float.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// A borrowed value, in the memory of SQLite or of the caller.
///
/// ```
/// use pando_sqlite::{Value, ValueRef};
/// let text = Value::Text("plum".into());
/// assert_eq!(ValueRef::from(&text), ValueRef::Text(b"plum"));
/// assert_eq!(ValueRef::Integer(1).to_owned(), Value::Integer(1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'v> {
    /// `NULL`.
    Null,
    /// An integer.
    Integer(i64),
    /// A float.
    Real(f64),
    /// Text, which SQLite does not require to be valid UTF-8.
    Text(&'v [u8]),
    /// Bytes.
    Blob(&'v [u8]),
}

impl ValueRef<'_> {
    /// Returns a copy. In text that is not UTF-8, replacement characters replace the invalid bytes.
    #[must_use]
    pub fn to_owned(self) -> Value {
        match self {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(value) => Value::Integer(value),
            ValueRef::Real(value) => Value::Real(value),
            ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
            ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
        }
    }
}

impl<'v> From<&'v Value> for ValueRef<'v> {
    fn from(value: &'v Value) -> ValueRef<'v> {
        match value {
            Value::Null => ValueRef::Null,
            Value::Integer(value) => ValueRef::Integer(*value),
            Value::Real(value) => ValueRef::Real(*value),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        }
    }
}
