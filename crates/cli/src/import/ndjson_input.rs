//! Reads NDJSON lines as records.
//!
//! Without options a line is `{"key": "...", "value": ...}`, with `key_hex` and `value_hex` for bytes that are not
//! UTF-8, as `export` writes it. A value that is not a string is kept as its JSON text. `ttl_ms` is how many
//! milliseconds the entry lives, or null. With `--key FIELD` a line is any object: that field is the key, and the value
//! is the whole line or the field that `--value` names.

use super::items::{Item, Record};
use crate::failure::{Failure, Outcome};
use crate::text;
use rows::{Refused, Text, json_problem};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

type Fields = BTreeMap<String, Box<RawValue>>;

/// The records of one NDJSON input.
pub struct Records {
    input: BufReader<Text<Box<dyn Read>>>,
    key: Option<String>,
    value: Option<String>,
    line: Vec<u8>,
    line_number: u64,
}

impl Records {
    /// Creates a reader of the records of `input`.
    pub fn new(input: Box<dyn Read>, key: Option<&str>, value: Option<&str>) -> Outcome<Self> {
        if value.is_some() && key.is_none() {
            return Err(Failure::Usage("for NDJSON, --value needs --key".to_owned()));
        }
        let (key, value) = (key.map(str::to_owned), value.map(str::to_owned));
        let input = BufReader::new(Text::new(input));
        Ok(Records { input, key, value, line: Vec::new(), line_number: 0 })
    }

    fn item(&self) -> Result<Item, String> {
        let line = self.line.trim_ascii();
        let mut fields: Fields = serde_json::from_slice(line).map_err(|error| json_problem(&error))?;
        let Some(key) = &self.key else {
            let (key, value) = (either(&mut fields, "key")?, either(&mut fields, "value")?);
            let ttl = fields.remove("ttl_ms").map(|ms| serde_json::from_str::<Option<u64>>(ms.get()));
            let ttl =
                ttl.transpose().map_err(|_| "`ttl_ms` is not a whole number of milliseconds, or null")?;
            return match fields.keys().next() {
                None => {
                    Ok(Item::Record(Record { key, value, ttl: ttl.flatten().map(Duration::from_millis) }))
                }
                Some(name) => Err(format!(
                    "field {name:?} is not part of a record; name the field of the key with --key"
                )),
            };
        };
        let mut field =
            |name: &String| fields.remove(name).ok_or_else(|| format!("there is no field {name:?}"));
        let key = content(&field(key)?)?;
        let value = match &self.value {
            Some(name) => content(&field(name)?)?,
            None => line.to_vec(),
        };
        Ok(Item::Record(Record::new(key, value)))
    }
}

/// Returns the bytes of field `name`, or of the same name with the suffix `_hex`.
fn either(fields: &mut Fields, name: &str) -> Result<Vec<u8>, String> {
    let hex_name = format!("{name}_hex");
    match (fields.remove(name), fields.remove(&hex_name)) {
        (Some(plain), None) => content(&plain),
        (None, Some(hex)) => {
            text::from_hex(&serde_json::from_str::<String>(hex.get()).map_err(|e| e.to_string())?)
        }
        (None, None) => Err(format!("there is no field {name:?} or {hex_name:?}")),
        (Some(_), Some(_)) => Err(format!("there are both {name:?} and {hex_name:?}; give one of them")),
    }
}

/// Returns the text of a string, or the JSON of another value.
fn content(value: &RawValue) -> Result<Vec<u8>, String> {
    let json = value.get();
    if !json.starts_with('"') {
        return Ok(json.as_bytes().to_vec());
    }
    serde_json::from_str::<String>(json).map(String::into_bytes).map_err(|error| error.to_string())
}

impl Iterator for Records {
    type Item = Outcome<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.line.clear();
            self.line_number += 1;
            match self.input.read_until(b'\n', &mut self.line) {
                Ok(0) => return None,
                Ok(_) if self.line.trim_ascii().is_empty() => {}
                Ok(_) => {
                    let place =
                        |message| Failure::Failed(format!("NDJSON line {}: {message}", self.line_number));
                    return Some(self.item().map_err(place));
                }
                Err(cause) if Refused::in_error(&cause).is_some() => {
                    let what = Refused::in_error(&cause).unwrap_or_default();
                    return Some(Err(Failure::Failed(what.to_owned())));
                }
                Err(cause) => return Some(Err(Failure::system("read the NDJSON input", cause))),
            }
        }
    }
}
