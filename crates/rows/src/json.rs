//! The value at a path of a JSON document, as an index stores it.

use crate::value::Value;
use std::borrow::Cow;

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
