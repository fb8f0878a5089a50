//! The parameters of a request: by position, in an array, or by name, in an object.
//!
//! | JSON | SQL |
//! |---|---|
//! | `null`, string | NULL, TEXT |
//! | `true`, `false` | 1, 0 |
//! | a number without a fraction and an exponent | INTEGER; refused if it does not fit 64 bits |
//! | another number | REAL |
//! | `{"bytes": "00ff"}` | BLOB |
//! | `{"float": "inf"}`, `"-inf"` | REAL |
//!
//! Values that `results` writes are read back as the same values.

use crate::wire::problem::{Answer, Problem};
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};
use sql::{Statement, Value};
use std::collections::BTreeMap;

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
    pub fn read(params: Option<&RawValue>) -> Answer<Self> {
        let wrong = |place: String, what| Problem::bad_request(format!("parameter {place}: {what}"));
        let text = params.map_or("null", RawValue::get);
        if text == "null" {
            return Ok(Parameters::ByPlace(Vec::new()));
        }
        if let Ok(values) = serde_json::from_str::<Vec<&RawValue>>(text) {
            let read = |(at, value)| value_of(value).map_err(|what| wrong(format!("{}", at + 1), what));
            return Ok(Parameters::ByPlace(values.into_iter().enumerate().map(read).collect::<Answer<_>>()?));
        }
        let Ok(values) = serde_json::from_str::<BTreeMap<String, &RawValue>>(text) else {
            return Err(Problem::bad_request(
                "`params` must be an array of values, or an object with values by name",
            ));
        };
        let read = |(name, value)| match value_of(value) {
            Ok(value) => Ok((name, value, false)),
            Err(what) => Err(wrong(format!("{name:?}"), what)),
        };
        Ok(Parameters::ByName(values.into_iter().map(read).collect::<Answer<_>>()?))
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

fn value_of(json: &RawValue) -> Result<Value, String> {
    let text = json.get();
    // A `Json` of an integer beyond 64 bits is a float.
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        let integer = text.parse().map(Value::Integer);
        return integer.map_err(|_| {
            format!(
                "{text} is not a signed 64-bit integer; write it with a fraction or an exponent for a REAL"
            )
        });
    }
    let json = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Integer(i64::from(value)),
        Json::String(text) => Value::Text(text),
        Json::Number(number) => {
            Value::Real(number.as_f64().ok_or_else(|| format!("{number} is not a number of 64 bits"))?)
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(params: &str) -> Result<Parameters, Problem> {
        Parameters::read(Some(serde_json::from_str(params).unwrap()))
    }

    #[test]
    fn an_integer_is_never_read_as_a_real() {
        let params =
            "[9223372036854775807, -9223372036854775808, 1e3, 18446744073709551616.0, -0, true, null]";
        let Ok(Parameters::ByPlace(values)) = read(params) else { panic!("they are values") };
        let wanted = [
            Value::Integer(i64::MAX),
            Value::Integer(i64::MIN),
            Value::Real(1000.0),
            Value::Real(18_446_744_073_709_551_616.0),
            Value::Integer(0),
            Value::Integer(1),
            Value::Null,
        ];
        assert_eq!(values, wanted);
        let beyond = [
            "9223372036854775808",
            "18446744073709551615",
            "18446744073709551616",
            "-9223372036854775809",
            "100000000000000000000000000",
        ];
        for number in beyond {
            for params in [format!("[1, {number}]"), format!(r#"{{"2": {number}}}"#)] {
                let problem = read(&params).unwrap_err();
                assert_eq!(problem.status.as_u16(), 400, "{params}");
                assert!(problem.detail.contains(number), "{}", problem.detail);
            }
        }
        assert!(matches!(read(" null ").unwrap(), Parameters::ByPlace(values) if values.is_empty()));
        assert!(
            matches!(read(r#"{"a": 1, "b": 2.5}"#).unwrap(), Parameters::ByName(values) if values.len() == 2)
        );
        for wrong in ["1", r#""x""#, "true", "[1e400]"] {
            read(wrong).unwrap_err();
        }
    }
}
