//! The parameters of a request: by position, in an array, or by name, in an object.
//!
//! | JSON | SQL |
//! |---|---|
//! | `null`, string | NULL, TEXT |
//! | `true`, `false` | 1, 0 |
//! | a number | INTEGER if it is written as one, else REAL |
//! | `{"bytes": "00ff"}` | BLOB |
//! | `{"float": "inf"}`, `"-inf"` | REAL |
//!
//! Values that `results` writes are read back as the same values.

use crate::wire::problem::{Answer, Problem};
use serde_json::{Map, Value as Json};
use sql::{Statement, Value};

/// The parameters of a request.
#[derive(Debug)]
pub enum Parameters {
    /// Values for `?`, in order.
    ByPlace(Vec<Value>),
    /// Values for `:name`, `@name` and `$name`, each with whether a statement used it.
    ByName(Vec<(String, Value, bool)>),
}

impl Parameters {
    /// Reads the parameters of a request.
    pub fn read(json: Json) -> Answer<Self> {
        let wrong = |place: String, what| Problem::bad_request(format!("parameter {place}: {what}"));
        match json {
            Json::Null => Ok(Parameters::ByPlace(Vec::new())),
            Json::Array(values) => {
                let read = |(at, value)| value_of(value).map_err(|what| wrong(format!("{}", at + 1), what));
                Ok(Parameters::ByPlace(values.into_iter().enumerate().map(read).collect::<Answer<_>>()?))
            }
            Json::Object(values) => {
                let read = |(name, value)| match value_of(value) {
                    Ok(value) => Ok((name, value, false)),
                    Err(what) => Err(wrong(format!("{name:?}"), what)),
                };
                Ok(Parameters::ByName(values.into_iter().map(read).collect::<Answer<_>>()?))
            }
            _ => Err(Problem::bad_request(
                "`params` must be an array of values, or an object with values by name",
            )),
        }
    }

    /// Returns whether the parameters can be used with several statements.
    pub fn suit_several(&self) -> bool {
        matches!(self, Parameters::ByPlace(values) if values.is_empty())
            || matches!(self, Parameters::ByName(_))
    }

    /// Returns the parameters of one statement.
    pub fn bind(&mut self, statement: &Statement<'_>) -> Answer<Vec<Value>> {
        let named = match self {
            // The statement checks their number.
            Parameters::ByPlace(values) => return Ok(values.clone()),
            Parameters::ByName(named) => named,
        };
        let mut values: Vec<Option<Value>> = vec![None; statement.parameter_count()];
        for (name, value, is_used) in named {
            for sign in ["", ":", "@", "$"] {
                let found = statement.parameter(&format!("{sign}{name}")).unwrap_or_default();
                if let Some(slot) = found.and_then(|place| values.get_mut(place)) {
                    *slot = Some(value.clone());
                    *is_used = true;
                }
            }
        }
        let missing =
            |at| Problem::bad_request(format!("parameter {} of the statement has no value", at + 1));
        values.into_iter().enumerate().map(|(at, value)| value.ok_or_else(|| missing(at))).collect()
    }

    /// Checks that every value was used.
    pub fn check_used(&self) -> Answer<()> {
        let Parameters::ByName(named) = self else { return Ok(()) };
        match named.iter().find(|(_, _, is_used)| !is_used) {
            Some((name, ..)) => Err(Problem::bad_request(format!("no statement has a parameter {name:?}"))),
            None => Ok(()),
        }
    }
}

fn value_of(json: Json) -> Result<Value, String> {
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Integer(i64::from(value)),
        Json::String(text) => Value::Text(text),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Value::Integer(integer),
            (None, Some(real)) if !number.is_u64() => Value::Real(real),
            _ => return Err(format!("{number} is not a signed 64-bit integer")),
        },
        Json::Object(fields) => return marked(&fields),
        Json::Array(_) => return Err("an array is not a value; pass it as a string of JSON".to_owned()),
    })
}

/// Reads a value that JSON has no form for.
fn marked(fields: &Map<String, Json>) -> Result<Value, String> {
    let only = fields.iter().next().filter(|_| fields.len() == 1);
    match only.and_then(|(name, value)| Some((&name[..], value.as_str()?))) {
        Some(("bytes", digits)) => {
            let bytes = crate::wire::digits::from_hex(digits);
            bytes.map(Value::Blob).ok_or_else(|| "`bytes` must be pairs of hexadecimal digits".to_owned())
        }
        Some(("float", "inf")) => Ok(Value::Real(f64::INFINITY)),
        Some(("float", "-inf")) => Ok(Value::Real(f64::NEG_INFINITY)),
        _ => Err("an object must be `{\"bytes\": \"00ff\"}` or `{\"float\": \"inf\"}`".to_owned()),
    }
}
