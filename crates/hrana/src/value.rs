//! Values of SQL in JSON. Integers are strings of digits, so that no client loses digits; blobs are base64.
//!
//! An infinite float has no form in JSON. It is sent as a number that is too large for 64 bits, which readers of JSON
//! take for infinity or refuse. Text that is not UTF-8 is sent as a blob.

use crate::failure::Outcome;
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use sql::ValueRef;
use std::io::Write as _;

/// Base64 as libSQL's server writes it, without padding; some clients refuse padding. It is read with or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A value that a client sends.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Value {
    /// `NULL`.
    Null,
    /// An integer.
    Integer {
        /// Its digits.
        #[serde(deserialize_with = "integer")]
        value: i64,
    },
    /// A float.
    Float {
        /// The number.
        value: f64,
    },
    /// A text.
    Text {
        /// The characters.
        value: String,
    },
    /// A blob.
    Blob {
        /// Its bytes.
        #[serde(rename = "base64", deserialize_with = "blob")]
        value: Vec<u8>,
    },
}

fn integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let digits = String::deserialize(deserializer)?;
    digits.parse().map_err(|_| D::Error::custom(format!("{digits:?} is not an integer of 64 bits")))
}

fn blob<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    BASE64.decode(text).map_err(|error| D::Error::custom(format!("a blob is not base64: {error}")))
}

impl From<Value> for sql::Value {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => sql::Value::Null,
            Value::Integer { value } => sql::Value::Integer(value),
            Value::Float { value } => sql::Value::Real(value),
            Value::Text { value } => sql::Value::Text(value),
            Value::Blob { value } => sql::Value::Blob(value),
        }
    }
}

/// The bytes of a text or a blob that are written in one step: a multiple of 3, so that steps of base64 join.
const STEP_BYTES: usize = 12 << 10;

/// Writes a value. `hand_on` is called after each step of a long one, and may take away what was written.
pub(crate) fn write(
    value: ValueRef<'_>,
    out: &mut Vec<u8>,
    hand_on: &mut impl FnMut(&mut Vec<u8>) -> Outcome<()>,
) -> Outcome<()> {
    match value {
        ValueRef::Null => out.extend_from_slice(br#"{"type":"null"}"#),
        ValueRef::Integer(number) => {
            let _ = write!(out, r#"{{"type":"integer","value":"{number}"}}"#);
        }
        ValueRef::Real(number) => {
            out.extend_from_slice(br#"{"type":"float","value":"#);
            let _ = match number {
                f64::INFINITY => write!(out, "1e999"),
                f64::NEG_INFINITY => write!(out, "-1e999"),
                number => write!(out, "{number:?}"),
            };
            out.push(b'}');
        }
        ValueRef::Text(text) if std::str::from_utf8(text).is_ok() => {
            out.extend_from_slice(br#"{"type":"text","value":""#);
            for step in text.chunks(STEP_BYTES) {
                write_escaped(step, out);
                hand_on(out)?;
            }
            out.extend_from_slice(br#""}"#);
        }
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            out.extend_from_slice(br#"{"type":"blob","base64":""#);
            for step in bytes.chunks(STEP_BYTES) {
                out.extend_from_slice(BASE64.encode(step).as_bytes());
                hand_on(out)?;
            }
            out.extend_from_slice(br#""}"#);
        }
    }
    Ok(())
}

/// Writes a text in quotes.
pub(crate) fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    write_escaped(text.as_bytes(), out);
    out.push(b'"');
}

/// Writes a part of a text as it stands between quotes. Bytes of longer characters are written unchanged.
fn write_escaped(mut text: &[u8], out: &mut Vec<u8>) {
    let is_escaped = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    while let Some(place) = text.iter().position(is_escaped) {
        out.extend_from_slice(&text[..place]);
        let _ = match text[place] {
            byte @ (b'"' | b'\\') => out.write_all(&[b'\\', byte]),
            control => write!(out, "\\u{control:04x}"),
        };
        text = &text[place + 1..];
    }
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_were_written() {
        let long = "\"ä\u{1}".repeat(STEP_BYTES).into_bytes();
        let values = [
            ValueRef::Null,
            ValueRef::Integer(i64::MIN),
            ValueRef::Integer(9_007_199_254_740_993),
            ValueRef::Real(-0.0),
            ValueRef::Real(5e-324),
            ValueRef::Text("\u{0}\"\\\n\u{2028}ä\u{1F333}".as_bytes()),
            ValueRef::Blob(b""),
            ValueRef::Blob(&[0, 255, 254]),
            ValueRef::Blob(&[7; 5]),
            ValueRef::Blob(&[9; 2 * STEP_BYTES + 1]),
            ValueRef::Text(&long),
        ];
        for value in values {
            let mut text = Vec::new();
            write(value, &mut text, &mut |_| Ok(())).unwrap();
            let read: Value = serde_json::from_slice(&text).unwrap();
            assert_eq!(ValueRef::from(&sql::Value::from(read)), value);
        }
        let mut text = Vec::new();
        write(ValueRef::Real(f64::NEG_INFINITY), &mut text, &mut |_| Ok(())).unwrap();
        write(ValueRef::Text(b"\xff"), &mut text, &mut |_| Ok(())).unwrap();
        assert_eq!(text, br#"{"type":"float","value":-1e999}{"type":"blob","base64":"/w"}"#);
    }

    #[test]
    fn malformed_values_are_refused() {
        let is_read = |text: &str| serde_json::from_str::<Value>(text).is_ok();
        assert!(
            is_read(r#"{"type": "blob", "base64": "AAE="}"#)
                && is_read(r#"{"type": "blob", "base64": "AAE"}"#)
        );
        assert!(is_read(r#"{"type": "float", "value": 1}"#));
        for wrong in [
            r#"{"type": "integer", "value": "9223372036854775808"}"#,
            r#"{"type": "integer", "value": 7}"#,
            r#"{"type": "integer", "value": ""}"#,
            r#"{"type": "blob", "base64": "A"}"#,
            r#"{"type": "blob", "base64": "A_-="}"#,
            r#"{"type": "text"}"#,
            r#"{"type": "float", "value": "1"}"#,
            r#"{"type": "none"}"#,
            r#"{}"#,
            "7",
        ] {
            assert!(!is_read(wrong), "{wrong}");
        }
    }
}
