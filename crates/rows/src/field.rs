//! Rust types as columns and as parts of keys.

use crate::typed::Row;
use crate::value::{ColumnType, Value};
use pando::Error;
use serde_json::Value as Document;
use std::borrow::Cow;
use std::time::{Duration, SystemTime};

/// A type that a field of a row can have.
///
/// | Rust | column |
/// |---|---|
/// | `bool`, `f64` | bool, float |
/// | `i16`, `i32`, `i64`; `u16`, `u32`, `u64` | int; uint |
/// | `String`, `Vec<u8>` | text, bytes |
/// | `[u8; 16]` | uuid |
/// | [`Timestamp`] | timestamp |
/// | `serde_json::Value` | json |
/// | [`Value`] | any, nullable |
/// | `Option` of these | the same, nullable |
pub trait Field: Sized + 'static {
    /// The type of the column.
    const TYPE: ColumnType;
    /// Whether the column is nullable.
    const NULLABLE: bool = false;
    /// The type in which a key borrows the value.
    type Lent<'k>
    where
        Self: 'k;

    /// Returns the field as a borrowed value.
    fn value(&self) -> Value<'_>;
    /// Returns the field as a key borrows it.
    fn lend(&self) -> Self::Lent<'_>;
    /// Converts a value into the field, or returns `None` if it has another type.
    fn from_value(value: Value<'_>) -> Option<Self>;
}

/// A point in time, in microseconds since 1970-01-01T00:00:00Z.
///
/// ```
/// use pando_rows::Timestamp;
/// use std::time::{Duration, SystemTime};
/// let moment = SystemTime::UNIX_EPOCH + Duration::from_millis(1500);
/// assert_eq!(Timestamp::from(moment).micros, 1_500_000);
/// assert_eq!(SystemTime::from(Timestamp { micros: 1_500_000 }), moment);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// The microseconds since 1970; negative before.
    pub micros: i64,
}

impl Timestamp {
    /// Returns the current time.
    pub fn now() -> Self {
        SystemTime::now().into()
    }
}

impl From<SystemTime> for Timestamp {
    /// Converts a time to the nearest timestamp. A time of more than 292,000 years before or after 1970 becomes the
    /// earliest or the latest timestamp.
    fn from(moment: SystemTime) -> Self {
        let micros = match moment.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_micros()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros),
        };
        Timestamp { micros }
    }
}

impl From<Timestamp> for SystemTime {
    fn from(moment: Timestamp) -> Self {
        let distance = Duration::from_micros(moment.micros.unsigned_abs());
        match moment.micros {
            0.. => SystemTime::UNIX_EPOCH + distance,
            _ => SystemTime::UNIX_EPOCH - distance,
        }
    }
}

macro_rules! number_fields {
    ($($rust:ty, $variant:ident, $kind:ident;)*) => {$(
        impl Field for $rust {
            const TYPE: ColumnType = ColumnType::$kind;
            type Lent<'k> = $rust;

            #[inline]
            fn value(&self) -> Value<'_> {
                Value::$variant((*self).into())
            }

            #[inline]
            fn lend(&self) -> $rust {
                *self
            }

            #[inline]
            fn from_value(value: Value<'_>) -> Option<Self> {
                match value {
                    Value::$variant(value) => value.try_into().ok(),
                    _ => None,
                }
            }
        }
        key_parts!($rust);
    )*};
}

macro_rules! key_parts {
    ($($rust:ty),*) => {$(
        impl KeyPart for $rust {
            #[inline]
            fn part(&self) -> Value<'_> {
                Field::value(self)
            }
        }

        impl Key for $rust {
            #[inline]
            fn with<T>(&self, take: impl FnOnce(&[Value<'_>]) -> T) -> T {
                take(&[Field::value(self)])
            }
        }
    )*};
}

/// A value that can be given as a part of a key.
pub trait KeyPart {
    /// Returns the part as a borrowed value.
    fn part(&self) -> Value<'_>;
}

/// A key, or its first parts: a single value, or a tuple. `()` has no parts, so it is the beginning of every key.
pub trait Key {
    /// Calls `take` on the values of the parts.
    fn with<T>(&self, take: impl FnOnce(&[Value<'_>]) -> T) -> T;
}

number_fields! {
    bool, Bool, Bool;
    i16, Int, Int;
    i32, Int, Int;
    i64, Int, Int;
    u16, UInt, UInt;
    u32, UInt, UInt;
    u64, UInt, UInt;
    f64, Float, Float;
    [u8; 16], Uuid, Uuid;
}
key_parts!(Timestamp, String, Vec<u8>);

impl Field for Timestamp {
    const TYPE: ColumnType = ColumnType::Timestamp;
    type Lent<'k> = Timestamp;

    fn value(&self) -> Value<'_> {
        Value::Timestamp(self.micros)
    }

    fn lend(&self) -> Timestamp {
        *self
    }

    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Timestamp(micros) => Some(Timestamp { micros }),
            _ => None,
        }
    }
}

impl Field for String {
    const TYPE: ColumnType = ColumnType::Text;
    type Lent<'k> = &'k str;

    #[inline]
    fn value(&self) -> Value<'_> {
        Value::Text(Cow::Borrowed(self))
    }

    fn lend(&self) -> &str {
        self
    }

    #[inline]
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.into_owned()),
            _ => None,
        }
    }
}

impl Field for Vec<u8> {
    const TYPE: ColumnType = ColumnType::Bytes;
    type Lent<'k> = &'k [u8];

    fn value(&self) -> Value<'_> {
        Value::Bytes(Cow::Borrowed(self))
    }

    fn lend(&self) -> &[u8] {
        self
    }

    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Bytes(bytes) => Some(bytes.into_owned()),
            _ => None,
        }
    }
}

impl Field for Document {
    const TYPE: ColumnType = ColumnType::Json;
    type Lent<'k> = &'k Document;

    fn value(&self) -> Value<'_> {
        Value::json(self)
    }

    fn lend(&self) -> &Document {
        self
    }

    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Json(text) => serde_json::from_str(&text).ok(),
            _ => None,
        }
    }
}

impl Field for Value<'static> {
    const TYPE: ColumnType = ColumnType::Any;
    const NULLABLE: bool = true;
    type Lent<'k> = Value<'k>;

    fn value(&self) -> Value<'_> {
        self.borrowed()
    }

    fn lend(&self) -> Value<'_> {
        self.borrowed()
    }

    fn from_value(value: Value<'_>) -> Option<Self> {
        Some(value.into_owned())
    }
}

impl<F: Field> Field for Option<F> {
    const TYPE: ColumnType = F::TYPE;
    const NULLABLE: bool = true;
    type Lent<'k> = Option<F::Lent<'k>>;

    #[inline]
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, F::value)
    }

    fn lend(&self) -> Option<F::Lent<'_>> {
        self.as_ref().map(F::lend)
    }

    #[inline]
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => F::from_value(value).map(Some),
        }
    }
}

macro_rules! lent_key_parts {
    ($($lent:ty),*) => {$(
        impl KeyPart for $lent {
            #[inline]
            fn part(&self) -> Value<'_> {
                Value::from(*self)
            }
        }

        impl Key for $lent {
            #[inline]
            fn with<T>(&self, take: impl FnOnce(&[Value<'_>]) -> T) -> T {
                take(&[Value::from(*self)])
            }
        }
    )*};
}

lent_key_parts!(&str, &[u8]);

impl KeyPart for Value<'_> {
    fn part(&self) -> Value<'_> {
        self.borrowed()
    }
}

impl Key for Value<'_> {
    fn with<T>(&self, take: impl FnOnce(&[Value<'_>]) -> T) -> T {
        take(&[self.borrowed()])
    }
}

impl<P: KeyPart> KeyPart for Option<P> {
    fn part(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, P::part)
    }
}

impl<P: KeyPart> Key for Option<P> {
    fn with<T>(&self, take: impl FnOnce(&[Value<'_>]) -> T) -> T {
        take(&[self.part()])
    }
}

impl Key for () {
    fn with<T>(&self, take: impl FnOnce(&[Value<'_>]) -> T) -> T {
        take(&[])
    }
}

macro_rules! tuple_keys {
    ($($($name:ident)+;)*) => {$(
        impl<$($name: KeyPart),+> Key for ($($name,)+) {
            #[inline]
            fn with<T>(&self, take: impl FnOnce(&[Value<'_>]) -> T) -> T {
                #[allow(non_snake_case)] // The names of the types stand for the parts.
                let ($($name,)+) = self;
                take(&[$($name.part()),+])
            }
        }
    )*};
}

tuple_keys! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
}

/// Converts the value of a column into a field of `R`. Used by derived code.
///
/// # Errors
/// `Mismatch` if the column holds a value of another type.
#[doc(hidden)]
pub fn field_from<R: Row, F: Field>(name: &str, value: Value<'_>) -> pando::Result<F> {
    let shown = if value.column_type() == Some(F::TYPE) { None } else { Some(value.to_string()) };
    F::from_value(value).ok_or_else(|| {
        let is = shown.map_or_else(String::new, |shown| format!(" {shown},"));
        let message =
            format!("table {:?}: column {name:?} holds{is} a value that its field cannot hold", R::TABLE);
        Error::new(pando::ErrorKind::Mismatch, message)
    })
}

/// Returns the error for a row of `R` with too many or too few values. Used by derived code.
#[doc(hidden)]
pub fn wrong_count<R: Row>(found: usize, expected: usize) -> Error {
    let message =
        format!("table {:?} has {found} columns, but the row type in this program has {expected}", R::TABLE);
    Error::new(pando::ErrorKind::Mismatch, message)
}
