//! Values: the contents of a column of a row.
//!
//! One enum serves owned and borrowed values: texts, bytes and documents are [`Cow`]s. So a row is encoded from
//! borrowed parts, and decoded without copies until the caller keeps it ([`Value::into_owned`]).

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

/// A value of a column, or of a part of a key.
///
/// ```
/// use pando_rows::{ColumnType, Value};
/// let name = Value::from("Ann");
/// assert_eq!(name.column_type(), Some(ColumnType::Text));
/// assert!(Value::from(-1) < Value::from(0.5));
/// assert_eq!(Value::from(Some(7)), Value::Int(7));
/// ```
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// Null: no value.
    Null,
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A floating-point number. Keys treat all NaNs as equal and larger than all numbers, and -0.0 as 0.0.
    Float(f64),
    /// A point in time: microseconds since 1970-01-01T00:00:00Z, negative before.
    Timestamp(i64),
    /// UTF-8 text, ordered by its bytes unless its column has another collation.
    Text(Cow<'a, str>),
    /// A UUID, ordered by its bytes.
    Uuid([u8; 16]),
    /// Bytes.
    Bytes(Cow<'a, [u8]>),
    /// A JSON document, as its text.
    Json(Cow<'a, str>),
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ColumnType {
    /// Any value except a document, each with its own type, as in SQLite. Numbers of all types compare as numbers;
    /// otherwise the order is null, booleans, numbers, timestamps, texts, UUIDs, bytes.
    Any,
    /// [`Value::Bool`].
    Bool,
    /// [`Value::Int`].
    Int,
    /// [`Value::UInt`].
    UInt,
    /// [`Value::Float`].
    Float,
    /// [`Value::Timestamp`].
    Timestamp,
    /// [`Value::Text`].
    Text,
    /// [`Value::Uuid`].
    Uuid,
    /// [`Value::Bytes`].
    Bytes,
    /// [`Value::Json`]. Not possible in keys; an index can use a path within the document.
    Json,
}

impl ColumnType {
    /// All types, in the order of their numbers in the catalog.
    pub const ALL: [ColumnType; 10] = [
        ColumnType::Any,
        ColumnType::Bool,
        ColumnType::Int,
        ColumnType::UInt,
        ColumnType::Float,
        ColumnType::Timestamp,
        ColumnType::Text,
        ColumnType::Uuid,
        ColumnType::Bytes,
        ColumnType::Json,
    ];

    /// Returns the name: `any`, `bool`, `int`, `uint`, `float`, `timestamp`, `text`, `uuid`, `bytes` or `json`.
    pub fn name(self) -> &'static str {
        match self {
            ColumnType::Any => "any",
            ColumnType::Bool => "bool",
            ColumnType::Int => "int",
            ColumnType::UInt => "uint",
            ColumnType::Float => "float",
            ColumnType::Timestamp => "timestamp",
            ColumnType::Text => "text",
            ColumnType::Uuid => "uuid",
            ColumnType::Bytes => "bytes",
            ColumnType::Json => "json",
        }
    }

    /// Returns the type of this name, or `None` if there is none.
    pub fn from_name(name: &str) -> Option<Self> {
        ColumnType::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns whether a column of this type may hold `value`, which is not null.
    #[inline]
    pub(crate) fn holds(self, value: &Value<'_>) -> bool {
        match (self, value) {
            (ColumnType::Any, Value::Json(_)) => false,
            (ColumnType::Any, _) => true,
            _ => value.column_type() == Some(self),
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl<'a> Value<'a> {
    /// Returns the type of the value, or `None` for null.
    #[inline]
    pub fn column_type(&self) -> Option<ColumnType> {
        Some(match self {
            Value::Null => return None,
            Value::Bool(_) => ColumnType::Bool,
            Value::Int(_) => ColumnType::Int,
            Value::UInt(_) => ColumnType::UInt,
            Value::Float(_) => ColumnType::Float,
            Value::Timestamp(_) => ColumnType::Timestamp,
            Value::Text(_) => ColumnType::Text,
            Value::Uuid(_) => ColumnType::Uuid,
            Value::Bytes(_) => ColumnType::Bytes,
            Value::Json(_) => ColumnType::Json,
        })
    }

    /// Returns whether the value is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Returns the value with its own copy of borrowed data.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(value),
            Value::Int(value) => Value::Int(value),
            Value::UInt(value) => Value::UInt(value),
            Value::Float(value) => Value::Float(value),
            Value::Timestamp(value) => Value::Timestamp(value),
            Value::Uuid(value) => Value::Uuid(value),
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::Bytes(bytes) => Value::Bytes(Cow::Owned(bytes.into_owned())),
            Value::Json(json) => Value::Json(Cow::Owned(json.into_owned())),
        }
    }

    /// Returns a value that borrows the data of this one.
    #[inline]
    pub fn borrowed(&self) -> Value<'_> {
        match self {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(*value),
            Value::Int(value) => Value::Int(*value),
            Value::UInt(value) => Value::UInt(*value),
            Value::Float(value) => Value::Float(*value),
            Value::Timestamp(value) => Value::Timestamp(*value),
            Value::Uuid(value) => Value::Uuid(*value),
            Value::Text(text) => Value::Text(Cow::Borrowed(text)),
            Value::Bytes(bytes) => Value::Bytes(Cow::Borrowed(bytes)),
            Value::Json(json) => Value::Json(Cow::Borrowed(json)),
        }
    }

    /// Returns a document as a value with its text.
    pub fn json(document: &serde_json::Value) -> Value<'static> {
        Value::Json(Cow::Owned(document.to_string()))
    }

    /// Returns the place of the value's class in the order of types, and the value as a number if it is one.
    fn class(&self) -> (u8, Option<Number>) {
        match *self {
            Value::Null => (0, None),
            Value::Bool(_) => (1, None),
            Value::Int(value) => (2, Some(Number::from_integer(i128::from(value)))),
            Value::UInt(value) => (2, Some(Number::from_integer(i128::from(value)))),
            Value::Float(value) => (2, Some(Number::from_float(value))),
            Value::Timestamp(_) => (3, None),
            Value::Text(_) => (4, None),
            Value::Uuid(_) => (5, None),
            Value::Bytes(_) => (6, None),
            Value::Json(_) => (7, None),
        }
    }
}

/// An integer or a float, exactly: the nearest float, as a number that compares as the float does, and the difference
/// to it. Rounding is monotone, so comparing the two in turn compares the numbers; 1 and 1.0 are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Number {
    pub float_bits: u64,
    pub rest: i16,
}

impl Number {
    pub fn from_float(value: f64) -> Self {
        Number { float_bits: ordered_bits(value), rest: 0 }
    }

    /// Converts a value that fits 64 bits, signed or not. The nearest float is at most 1024 away.
    pub fn from_integer(value: i128) -> Self {
        let float = value as f64;
        Number { float_bits: ordered_bits(float), rest: (value - float as i128) as i16 }
    }
}

/// Returns the bits of a float, changed so that they compare as unsigned integers in the order of the floats. -0.0 is
/// 0.0, and every NaN is the same number after infinity.
pub(crate) fn ordered_bits(value: f64) -> u64 {
    if value.is_nan() {
        return u64::MAX;
    }
    let bits = if value == 0.0 { 0 } else { value.to_bits() };
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// Returns the float from which [`ordered_bits`] made these bits.
pub(crate) fn from_ordered_bits(bits: u64) -> f64 {
    if bits == u64::MAX {
        return f64::NAN;
    }
    f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits })
}

/// The ascending order of keys, which [`ColumnType::Any`] describes.
impl Ord for Value<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let (own, others) = (self.class(), other.class());
        own.cmp(&others).then_with(|| match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
            (Value::Text(a), Value::Text(b)) | (Value::Json(a), Value::Json(b)) => a.cmp(b),
            (Value::Uuid(a), Value::Uuid(b)) => a.cmp(b),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            _ => Ordering::Equal,
        })
    }
}

impl PartialOrd for Value<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Value<'_> {}

/// Formats a value for messages: texts quoted, bytes in hexadecimal, long ones cut.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST_CHARS: usize = 60;
        let cut = |f: &mut fmt::Formatter<'_>, text: &str| {
            let shown: String = text.chars().take(MOST_CHARS).collect();
            let more = if shown.len() < text.len() { "..." } else { "" };
            write!(f, "{shown:?}{more}")
        };
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Int(value) => write!(f, "{value}"),
            Value::UInt(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value:?}"),
            Value::Timestamp(value) => write!(f, "{value} us"),
            Value::Text(text) | Value::Json(text) => cut(f, text),
            Value::Uuid(bytes) => write!(f, "uuid {:032x}", u128::from_be_bytes(*bytes)),
            Value::Bytes(bytes) => {
                let more = if bytes.len() > MOST_CHARS { "..." } else { "" };
                let shown = &bytes[..bytes.len().min(MOST_CHARS)];
                shown.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str(more)
            }
        }
    }
}

macro_rules! value_from {
    ($($from:ty => $variant:ident($as:ty)),* $(,)?) => {$(
        impl From<$from> for Value<'_> {
            fn from(value: $from) -> Self {
                Value::$variant(<$as>::from(value))
            }
        }
    )*};
}

value_from!(
    bool => Bool(bool),
    i8 => Int(i64), i16 => Int(i64), i32 => Int(i64), i64 => Int(i64),
    u8 => UInt(u64), u16 => UInt(u64), u32 => UInt(u64), u64 => UInt(u64),
    f32 => Float(f64), f64 => Float(f64),
    String => Text(Cow<'_, str>), Vec<u8> => Bytes(Cow<'_, [u8]>),
);

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Value::Bytes(Cow::Borrowed(bytes))
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_compare_exactly_across_types() {
        let big = 1i64 << 53;
        let ascending = [
            Value::Float(f64::NEG_INFINITY),
            Value::Int(i64::MIN),
            Value::Int(i64::MIN + 1),
            Value::Float(-1.5),
            Value::Int(-1),
            Value::Int(0),
            Value::Float(0.5),
            Value::UInt(1),
            Value::Int(big),
            Value::Int(big + 1),
            Value::Float(big as f64 + 2.0),
            Value::Int(i64::MAX),
            Value::UInt(i64::MAX as u64 + 1),
            Value::UInt(u64::MAX),
            Value::Float(u64::MAX as f64),
            Value::Float(f64::INFINITY),
            Value::Float(f64::NAN),
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(a.cmp(b), i.cmp(&j), "{a} and {b}");
            }
        }
        assert_eq!(Value::Int(1), Value::Float(1.0));
        assert_eq!(Value::Float(-0.0), Value::UInt(0));
    }
}
