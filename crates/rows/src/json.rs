//! Documents: the value at a path, as an index stores it, and which texts are documents.

use crate::value::Value;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Checks that a text is a JSON document that [`serde_json::Value`] can hold: numbers have the range of floats, and at
/// most 127 arrays and objects are nested.
///
/// ```
/// assert!(pando_rows::check_json("[1, 2.5]").is_ok());
/// assert!(pando_rows::check_json("1e400").unwrap_err().to_string().contains("out of range"));
/// ```
///
/// # Errors
/// The problem in the text, and its place.
pub fn check_json(text: &str) -> serde_json::Result<()> {
    serde_json::from_str::<Readable>(text).map(|Readable| ())
}

/// A document that was read and not kept. [`serde::de::IgnoredAny`] accepts more texts.
struct Readable;

impl<'de> Deserialize<'de> for Readable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Readable)
    }
}

impl<'de> Visitor<'de> for Readable {
    type Value = Readable;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self, A::Error> {
        while let Some(Readable) = values.next_element()? {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        while let Some((Readable, Readable)) = members.next_entry()? {}
        Ok(self)
    }
}

/// Returns the value at a JSON pointer of a document: null if there is none, or if it is an array or object. Returns
/// `None` if `document` is not JSON.
pub(crate) fn at_path(document: &Value<'_>, pointer: &str) -> Option<Value<'static>> {
    let Value::Json(text) = document else { return Some(Value::Null) };
    let document: serde_json::Value = serde_json::from_str(text).ok()?;
    Some(match document.pointer(pointer) {
        Some(serde_json::Value::Bool(value)) => Value::Bool(*value),
        Some(serde_json::Value::String(text)) => Value::Text(Cow::Owned(text.clone())),
        Some(serde_json::Value::Number(number)) => {
            let signed = number.as_i64().map(Value::Int);
            let number = signed.or_else(|| number.as_u64().map(Value::UInt));
            number.or_else(|| document.pointer(pointer)?.as_f64().map(Value::Float)).unwrap_or(Value::Null)
        }
        _ => Value::Null,
    })
}
