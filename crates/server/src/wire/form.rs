//! The forms in which records are sent.
//!
//! * Lines, the form of the contract: `key`, a line feed, `value`. Bytes are not encoded, and each record is a chunk.
//! * NDJSON: one object per line, `{"key":...,"value":...}`. Bytes that are not UTF-8 are written as hexadecimal digits
//!   under the name with the suffix `_hex`, as `pando export` writes them and `pando import` reads them. Records of a
//!   table with a TTL by key have a member `ttl_ms`.

use crate::wire::digits::{from_hex, hex, write_digits};
use pando::Expiry;
use serde_json::{Map, Value};
use std::io::Write;
use std::time::Duration;

/// The form of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The form of the contract.
    Lines,
    /// One object per line.
    Ndjson {
        /// Whether the values are left out.
        keys_only: bool,
        /// The number of bytes that are written of a longer value, together with its length; `None`: all bytes.
        value_bytes: Option<u64>,
    },
}

/// The largest length to which values can be cut, which is also the longest value that is read as a whole.
pub const LONGEST_CUT_BYTES: u64 = 1 << 20;

impl Form {
    /// Returns whether each record is a chunk of its own.
    pub fn is_apart(self) -> bool {
        self == Form::Lines
    }

    /// Returns whether values are needed.
    pub fn has_values(self) -> bool {
        !matches!(self, Form::Ndjson { keys_only: true, .. })
    }

    /// Returns how many bytes of a value of `len_bytes` are written, if not all.
    pub fn cut(self, len_bytes: u64) -> Option<u64> {
        match self {
            Form::Ndjson { keys_only: false, value_bytes: Some(most) } if len_bytes > most => Some(most),
            _ => None,
        }
    }

    /// Writes one record with only the beginning of its value, which has `len_bytes`.
    pub fn write_cut(
        self,
        key: &[u8],
        beginning: &[u8],
        len_bytes: u64,
        life: Option<Expiry>,
        out: &mut Vec<u8>,
    ) {
        let beginning = without_cut_character(beginning);
        out.push(b'{');
        write_bytes("key", key, out);
        out.push(b',');
        write_bytes("value", beginning, out);
        let _ = write!(out, ",\"value_bytes\":{len_bytes}");
        write_end(life, out);
    }

    /// Writes one record. `life` says when it expires, in a table with a TTL by key.
    pub fn write(self, key: &[u8], value: Option<&[u8]>, life: Option<Expiry>, out: &mut Vec<u8>) {
        let value = value.unwrap_or_default();
        match self {
            Form::Lines => {
                out.reserve(key.len() + value.len() + 1);
                out.extend_from_slice(key);
                out.push(b'\n');
                out.extend_from_slice(value);
            }
            Form::Ndjson { keys_only, .. } => {
                out.push(b'{');
                write_bytes("key", key, out);
                if !keys_only {
                    out.push(b',');
                    write_bytes("value", value, out);
                }
                write_end(life, out);
            }
        }
    }

    /// Writes one record up to the first byte of its value, and returns what must be written after the last byte.
    /// `is_text` says whether the value is text. It is used for values that are written in pieces.
    pub fn write_open(self, key: &[u8], is_text: bool, life: Option<Expiry>, out: &mut Vec<u8>) -> Vec<u8> {
        out.push(b'{');
        write_bytes("key", key, out);
        out.extend_from_slice(if is_text { b",\"value\":\"" } else { b",\"value_hex\":\"" });
        let mut end = b"\"".to_vec();
        write_end(life, &mut end);
        end
    }

    /// Writes that a requested key does not exist.
    pub fn write_absent(self, key: &[u8], out: &mut Vec<u8>) {
        out.push(b'{');
        write_bytes("key", key, out);
        out.extend_from_slice(b",\"absent\":true}\n");
    }

    /// Writes the cursor that continues after `last`.
    pub fn write_cursor(self, last: &[u8], out: &mut Vec<u8>) {
        if self != Form::Lines {
            let _ = writeln!(out, "{{\"cursor\":\"{}\"}}", hex(last));
        }
    }
}

/// Writes the end of a record: how long it still lives, in a table with a TTL by key.
fn write_end(life: Option<Expiry>, out: &mut Vec<u8>) {
    match life {
        None => {}
        Some(Expiry::Never) => out.extend_from_slice(b",\"ttl_ms\":null"),
        Some(Expiry::In(ttl)) => drop(write!(out, ",\"ttl_ms\":{}", ttl.as_millis())),
    }
    out.extend_from_slice(b"}\n");
}

/// Returns the beginning of a value without a character that was cut at its end.
pub fn without_cut_character(beginning: &[u8]) -> &[u8] {
    match std::str::from_utf8(beginning) {
        Err(error) if error.error_len().is_none() => &beginning[..error.valid_up_to()],
        _ => beginning,
    }
}

/// Writes a member of an object.
fn write_bytes(name: &str, bytes: &[u8], out: &mut Vec<u8>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let _ = write!(out, "\"{name}\":");
            serde_json::to_writer(out, text).expect("a vector takes everything");
        }
        Err(_) => {
            let _ = write!(out, "\"{name}_hex\":\"");
            write_digits(bytes, out);
            out.push(b'"');
        }
    }
}

/// Writes the content of a JSON string without its quotes. `text` can be any piece of it.
pub fn write_escaped(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            0..0x20 => {
                let _ = write!(out, "\\u{byte:04x}");
            }
            _ => out.push(byte),
        }
    }
}

/// Returns the bytes of the member `name` of an object, or of `name_hex`; `None` if it has neither.
///
/// # Errors
/// A message that says what is wrong with the member.
pub fn bytes_of(object: &Map<String, Value>, name: &str) -> Result<Option<Vec<u8>>, String> {
    match (object.get(name), object.get(&format!("{name}_hex"))) {
        (None, None) => Ok(None),
        (Some(Value::String(text)), None) => Ok(Some(text.as_bytes().to_vec())),
        (None, Some(Value::String(digits))) => {
            let wrong =
                || format!("`{name}_hex` is not hexadecimal: two digits of 0-9 and a-f for each byte");
            from_hex(digits).map(Some).ok_or_else(wrong)
        }
        (Some(_), Some(_)) => Err(format!("`{name}` cannot be combined with `{name}_hex`")),
        _ => Err(format!("`{name}` is not a string")),
    }
}

/// Returns the member `ttl_ms` of a record; `None` if the record has none, or never expires.
///
/// # Errors
/// A message that says what is wrong with the member.
pub fn ttl_of(object: &Map<String, Value>) -> Result<Option<Duration>, String> {
    match object.get("ttl_ms") {
        None | Some(Value::Null) => Ok(None),
        Some(number) => match number.as_u64() {
            Some(ms) => Ok(Some(Duration::from_millis(ms))),
            None => Err("`ttl_ms` is not a whole number of milliseconds, or null".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let records: [(&[u8], &[u8]); 4] =
            [(b"k", b"v"), (b"\xff", b"\n\"\\"), (b"", b"\0\xfe"), ("ä\u{7f}".as_bytes(), b"")];
        for (key, value) in records {
            let mut line = Vec::new();
            let life = Some(Expiry::In(Duration::from_millis(7)));
            Form::Ndjson { keys_only: false, value_bytes: None }.write(key, Some(value), life, &mut line);
            assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1, "one line");
            let object: Map<String, Value> = serde_json::from_slice(&line).unwrap();
            assert_eq!(bytes_of(&object, "key").unwrap().unwrap(), key);
            assert_eq!(bytes_of(&object, "value").unwrap().unwrap(), value);
            assert_eq!(ttl_of(&object).unwrap(), Some(Duration::from_millis(7)));
        }
    }

    #[test]
    fn a_value_is_cut_between_characters() {
        let form = Form::Ndjson { keys_only: false, value_bytes: Some(3) };
        assert_eq!((form.cut(3), form.cut(4), Form::Lines.cut(4)), (None, Some(3), None));
        let mut out = Vec::new();
        form.write_cut(b"k", "aä€".as_bytes().get(..4).unwrap(), 6, None, &mut out);
        form.write_cut(b"k", b"\xff\xfe", 9, Some(Expiry::Never), &mut out);
        let lines = "{\"key\":\"k\",\"value\":\"aä\",\"value_bytes\":6}\n\
                     {\"key\":\"k\",\"value_hex\":\"fffe\",\"value_bytes\":9,\"ttl_ms\":null}\n";
        assert_eq!(String::from_utf8(out).unwrap(), lines);
    }

    #[test]
    fn what_is_no_bytes_is_refused_in_words() {
        for text in [r#"{"k":1}"#, r#"{"k":"a","k_hex":"61"}"#, r#"{"k_hex":"6"}"#, r#"{"k_hex":"zz"}"#] {
            assert!(bytes_of(&serde_json::from_str(text).unwrap(), "k").is_err(), "{text}");
        }
        for text in [r#"{"ttl_ms":-1}"#, r#"{"ttl_ms":1.5}"#, r#"{"ttl_ms":"1"}"#] {
            assert!(ttl_of(&serde_json::from_str(text).unwrap()).is_err(), "{text}");
        }
    }
}
