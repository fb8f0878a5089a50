//! SQLite's column affinities: the conversion of a value before a column stores it or a comparison uses it.
//!
//! SQLite applies affinities itself to its own tables, and passes values to virtual tables as they were written. The
//! rules are those of <https://www.sqlite.org/datatype3.html>, sections 3.1 and 4.2.

use rows::{ColumnType, Value};
use rusqlite::types::ValueRef;
use sqlite_format::number::{self, Number, integral};
use std::borrow::Cow;

/// The type to which a column's values are converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Affinity {
    Integer,
    Real,
    Numeric,
    Text,
    /// No affinity: a value stays as it is.
    Blob,
}

impl Affinity {
    /// Returns the affinity for the name of a declared type.
    pub fn of_declared(declared: &str) -> Self {
        let declared = declared.to_ascii_uppercase();
        let has = |part: &str| declared.contains(part);
        if has("INT") {
            Affinity::Integer
        } else if has("CHAR") || has("CLOB") || has("TEXT") {
            Affinity::Text
        } else if has("BLOB") || declared.trim().is_empty() || declared.trim() == "ANY" {
            Affinity::Blob
        } else if has("REAL") || has("FLOA") || has("DOUB") {
            Affinity::Real
        } else {
            Affinity::Numeric
        }
    }

    /// Returns the affinity of a column that was not declared in SQL.
    pub fn of_type(kind: ColumnType) -> Self {
        match kind {
            ColumnType::Bool | ColumnType::Int | ColumnType::UInt | ColumnType::Timestamp => {
                Affinity::Integer
            }
            ColumnType::Float => Affinity::Real,
            ColumnType::Text | ColumnType::Json => Affinity::Text,
            _ => Affinity::Blob,
        }
    }

    pub fn is_numeric(self) -> bool {
        matches!(self, Affinity::Integer | Affinity::Real | Affinity::Numeric)
    }

    /// Returns the value as a column of this affinity stores it; `None`: it is text that is not UTF-8.
    pub fn apply<'a>(self, value: ValueRef<'a>) -> Option<Value<'a>> {
        Some(match value {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => match self {
                Affinity::Real => Value::Float(number as f64),
                Affinity::Text => Value::from(number.to_string()),
                _ => Value::Int(number),
            },
            ValueRef::Real(number) => match self {
                Affinity::Integer | Affinity::Numeric => {
                    integral(number).map_or(Value::Float(number), Value::Int)
                }
                Affinity::Text => Value::from(real_text(number)),
                // Negative zero is stored as zero.
                Affinity::Real => Value::Float(number + 0.0),
                _ => Value::Float(number),
            },
            ValueRef::Text(text) => {
                let text = str::from_utf8(text).ok()?;
                match self.is_numeric().then(|| number_of(text)).flatten() {
                    Some(Value::Int(number)) if self == Affinity::Real => Value::Float(number as f64),
                    Some(Value::Float(number)) if self != Affinity::Real => {
                        integral(number).map_or(Value::Float(number), Value::Int)
                    }
                    Some(number) => number,
                    None => Value::Text(Cow::Borrowed(text)),
                }
            }
            ValueRef::Blob(bytes) => Value::Bytes(Cow::Borrowed(bytes)),
        })
    }
}

/// What SQLite passes over around a number.
const SPACES: [char; 6] = [' ', '\t', '\n', '\r', '\x0b', '\x0c'];

/// Returns the number that a whole text represents, apart from surrounding spaces. Where SQLite may round in another
/// way, it is the nearest float.
pub(crate) fn number_of(text: &str) -> Option<Value<'static>> {
    match number::number_of(text.as_bytes()) {
        Number::Absent => None,
        Number::Integer(integer) => Some(Value::Int(integer)),
        Number::Real(real) => Some(Value::Float(real)),
        Number::Unsure => text.trim_matches(SPACES).parse().ok().map(Value::Float),
    }
}

/// Returns whether SQLite may convert a text to another number than [`number_of`] does.
pub(crate) fn is_unsure(value: ValueRef<'_>) -> bool {
    matches!(value, ValueRef::Text(text) if number::number_of(text) == Number::Unsure)
}

/// Returns a float as SQLite writes it into text: with 15 significant digits, or with 17 if those do not give the same
/// float.
fn real_text(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "Inf".to_owned() } else { "-Inf".to_owned() };
    }
    // Negative zero is zero.
    let number = if number == 0.0 { 0.0 } else { number };
    let mut text = format!("{number:.14e}");
    if text.parse() != Ok(number) {
        text = format!("{number:.16e}");
    }
    let (mantissa, exponent) = text.split_once('e').expect("written with an exponent");
    let exponent: i32 = exponent.parse().expect("written as a number");
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_end_matches('0');
    let digits = if digits.is_empty() { "0" } else { digits };
    if !(-4..=16).contains(&exponent) {
        let (first, rest) = digits.split_at(1);
        let rest = if rest.is_empty() { "0" } else { rest };
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{first}.{rest}e{exponent_sign}{:02}", exponent.abs());
    }
    if exponent < 0 {
        return format!("{sign}0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1));
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        return format!("{sign}{digits}{}.0", "0".repeat(whole - digits.len()));
    }
    format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result is the same as in SQLite's own tables, for every affinity with every kind of value.
    #[test]
    fn a_value_becomes_what_sqlite_makes_of_it() {
        let sqlite = rusqlite::Connection::open_in_memory().unwrap();
        sqlite
            .execute_batch("CREATE TABLE t(integer INTEGER, real REAL, numeric NUMERIC, text TEXT, blob)")
            .unwrap();
        let values = [
            "NULL",
            "0",
            "1",
            "-7",
            "9223372036854775807",
            "1.0",
            "1.5",
            "-0.0",
            "1e15",
            "1e16",
            "1e300",
            "0.1",
            "0.00001",
            "123456789.125",
            "9007199254740993.0",
            "9223372036854775807.0",
            "12345678901234567.0",
            "1e17",
            "1e18",
            "'1'",
            "' 12 '",
            "'1.0'",
            "'1.5'",
            "'1e3'",
            "'abc'",
            "''",
            "'1x'",
            "'.5'",
            "'5.'",
            "'inf'",
            "'nan'",
            "'+3'",
            "'-3'",
            "'0x10'",
            "'9223372036854775808'",
            "x'31'",
            "x''",
            "1e999",
            "2.5e-7",
            "100000.0",
            "3.3333333333333335",
        ];
        let affinities =
            [Affinity::Integer, Affinity::Real, Affinity::Numeric, Affinity::Text, Affinity::Blob];
        for value in values {
            sqlite
                .execute_batch(&format!(
                    "DELETE FROM t; INSERT INTO t VALUES({value},{value},{value},{value},{value})"
                ))
                .unwrap();
            let mut given = sqlite.prepare(&format!("SELECT {value}")).unwrap();
            let given: rusqlite::types::Value = given.query_row([], |row| row.get(0)).unwrap();
            let mut stored = sqlite.prepare("SELECT * FROM t").unwrap();
            let mut stored = stored.query([]).unwrap();
            let stored = stored.next().unwrap().unwrap();
            for (column, affinity) in affinities.into_iter().enumerate() {
                let ours = affinity.apply(ValueRef::from(&given)).unwrap();
                let ours = match &ours {
                    Value::Null => ValueRef::Null,
                    Value::Int(number) => ValueRef::Integer(*number),
                    Value::Float(number) => ValueRef::Real(*number),
                    Value::Text(text) => ValueRef::Text(text.as_bytes()),
                    Value::Bytes(bytes) => ValueRef::Blob(bytes),
                    other => panic!("{other}"),
                };
                assert_eq!(ours, stored.get_ref(column).unwrap(), "{value} as {affinity:?}");
            }
        }
    }
}
