//! Bytes as JSON: text where they are text, hexadecimal digits where they are not.

use crate::failure::{Failure, Outcome};
use serde_json::{Map, Value, json};
use sql::ValueRef;

/// A JSON object.
pub type Object = Map<String, Value>;

/// Adds `bytes` to `object`: as `name` if they are UTF-8, else as `name_hex`.
pub fn add_bytes(object: &mut Object, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), text.into()),
        Err(_) => object.insert(format!("{name}_hex"), hex::encode(bytes).into()),
    };
}

/// Adds a value that is `len` bytes long, of which `part` are the first: if those are not all, `truncated` is set.
pub fn add_value(object: &mut Object, part: &[u8], len: u64) {
    object.insert("value_bytes".to_owned(), len.into());
    if part.len() as u64 == len {
        return add_bytes(object, "value", part);
    }
    object.insert("truncated".to_owned(), true.into());
    // A text is cut between characters.
    let is_text = std::str::from_utf8(part).map_or_else(|error| error.error_len().is_none(), |_| true);
    let text_bytes = part.utf8_chunks().next().map_or(0, |chunk| chunk.valid().len());
    add_bytes(object, "value", if is_text { &part[..text_bytes] } else { part });
}

/// Returns a value of SQL as JSON. Blobs, and texts that are not UTF-8, are objects with a member `hex`.
pub fn sql_value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        // JSON has no infinities.
        ValueRef::Real(number) if number.is_finite() => number.into(),
        ValueRef::Real(number) => json!({ "float": format!("{number:?}") }),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => json!({ "hex": hex::encode(bytes) }),
        },
        ValueRef::Blob(bytes) => json!({ "hex": hex::encode(bytes) }),
    }
}

/// Returns the JSON of a value of at most `limit` bytes, as [`sql_value`] does. Of a longer one it returns the first
/// `limit` bytes, in the form of [`add_value`].
pub fn cut_sql_value(value: ValueRef<'_>, limit: usize) -> Value {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) if bytes.len() > limit => {
            let mut cut = Object::new();
            add_value(&mut cut, &bytes[..limit], bytes.len() as u64);
            cut.into()
        }
        whole => sql_value(whole),
    }
}

/// Returns the parameter of a statement that a JSON value stands for, in the form that [`sql_value`] writes.
pub fn sql_parameter(value: &Value) -> Outcome<sql::Value> {
    let unknown = || {
        Failure::argument(format!(
            "{value} cannot be a parameter; use null, a number, a text, true, false, or \
             {{\"hex\": \"c0ffee\"}}"
        ))
    };
    Ok(match value {
        Value::Null => sql::Value::Null,
        Value::Bool(is) => sql::Value::Integer(i64::from(*is)),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => sql::Value::Integer(integer),
            // An integer above the range of SQL's would lose digits as a float.
            None if number.is_u64() => return Err(unknown()),
            None => sql::Value::Real(number.as_f64().ok_or_else(unknown)?),
        },
        Value::String(text) => sql::Value::Text(text.clone()),
        Value::Object(object) if object.len() == 1 => {
            let digits = object.get("hex").and_then(Value::as_str).ok_or_else(unknown)?;
            sql::Value::Blob(bytes_of_hex(digits)?)
        }
        _ => return Err(unknown()),
    })
}

/// Returns the bytes that hexadecimal digits stand for.
///
/// # Errors
/// If they are not pairs of hexadecimal digits.
pub fn bytes_of_hex(digits: &str) -> Outcome<Vec<u8>> {
    let bad = |_| Failure::argument(format!("{digits:?} is not an even number of hexadecimal digits"));
    hex::decode(digits).map_err(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_go_both_ways() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(bytes_of_hex(&hex::encode(&all)).unwrap(), all);
        assert_eq!(bytes_of_hex("C0fe").unwrap(), [0xc0, 0xfe]);
        for bad in ["c", "zz", "+1", "é"] {
            assert!(bytes_of_hex(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        let shown = |value: &[u8], limit: usize| {
            let mut object = Object::new();
            add_value(&mut object, &value[..limit.min(value.len())], value.len() as u64);
            Value::from(object)
        };
        assert_eq!(shown("aä".as_bytes(), 3), json!({ "value_bytes": 3, "value": "aä" }));
        assert_eq!(shown("aäx".as_bytes(), 2), json!({ "value_bytes": 4, "truncated": true, "value": "a" }));
        assert_eq!(
            shown(b"\xff\xfe\xfd", 2),
            json!({ "value_bytes": 3, "truncated": true, "value_hex": "fffe" })
        );
        assert_eq!(shown(b"", 0), json!({ "value_bytes": 0, "value": "" }));
    }

    #[test]
    fn a_long_value_of_sql_is_cut() {
        let shown = |value| cut_sql_value(value, 3);
        assert_eq!(shown(ValueRef::Integer(12_345)), json!(12_345));
        assert_eq!(shown(ValueRef::Text(b"abc")), json!("abc"));
        let cut = json!({ "value_bytes": 4, "truncated": true, "value": "ab" });
        assert_eq!(shown(ValueRef::Text("abä".as_bytes())), cut);
        let cut = json!({ "value_bytes": 4, "truncated": true, "value_hex": "ff0001" });
        assert_eq!(shown(ValueRef::Blob(b"\xff\x00\x01\x02")), cut);
        assert_eq!(shown(ValueRef::Blob(b"\xff")), json!({ "hex": "ff" }));
    }

    #[test]
    fn parameters_keep_their_types() {
        assert_eq!(
            sql_parameter(&json!(9_007_199_254_740_993_i64)).unwrap(),
            sql::Value::Integer(1 << 53 | 1)
        );
        assert_eq!(sql_parameter(&json!(1.0)).unwrap(), sql::Value::Real(1.0));
        assert_eq!(sql_parameter(&json!({ "hex": "00ff" })).unwrap(), sql::Value::Blob(vec![0, 255]));
        for bad in [json!(u64::MAX), json!([1]), json!({ "hex": 7 }), json!({ "hex": "0", "b": 1 })] {
            assert!(sql_parameter(&bad).is_err(), "{bad}");
        }
    }
}
