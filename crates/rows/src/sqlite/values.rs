//! Values: fields of SQLite's records as values of a column's type, and defaults.

use crate::value::{ColumnType, Value};
use sqlite_format::definition::Affinity;
use sqlite_format::number::{Number, integral, number_of};
use sqlite_format::record::Field;
use sqlite_format::token::{Kind, tokens};
use std::borrow::Cow;

/// Why a field is no value of its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// It is of this type of SQLite's.
    Type(&'static str),
    NotUtf8,
    /// The row lacks the column, and its default is not a plain value.
    NoDefault,
}

/// Returns the type of a column, by its affinity and its declared type.
pub(super) fn kind_of(affinity: Affinity, declared: &str) -> ColumnType {
    match affinity {
        Affinity::Integer => ColumnType::Int,
        Affinity::Real => ColumnType::Float,
        Affinity::Text => ColumnType::Text,
        // In a `STRICT` table, a column declared `ANY` has this affinity, too.
        Affinity::Blob if declared.to_ascii_uppercase().contains("BLOB") => ColumnType::Bytes,
        Affinity::Blob | Affinity::Numeric => ColumnType::Any,
    }
}

/// Returns a field as a value of type `kind`, which is one that [`kind_of`] returns.
pub(super) fn value_of(kind: ColumnType, field: Field<'_>) -> Result<Value<'_>, Misfit> {
    let is_any = kind == ColumnType::Any;
    Ok(match field {
        Field::Null => Value::Null,
        Field::Integer(number) if is_any || kind == ColumnType::Int => Value::Int(number),
        // A column of affinity REAL stores integral values as integers.
        Field::Integer(number) if kind == ColumnType::Float => Value::Float(number as f64),
        Field::Real(number) if is_any || kind == ColumnType::Float => Value::Float(number),
        Field::Text(text) if is_any || kind == ColumnType::Text => {
            Value::Text(Cow::Borrowed(std::str::from_utf8(text).map_err(|_| Misfit::NotUtf8)?))
        }
        Field::Blob(bytes) if is_any || kind == ColumnType::Bytes => Value::Bytes(Cow::Borrowed(bytes)),
        Field::Integer(_) => return Err(Misfit::Type("an INTEGER")),
        Field::Real(_) => return Err(Misfit::Type("a REAL")),
        Field::Text(_) => return Err(Misfit::Type("a TEXT")),
        Field::Blob(_) => return Err(Misfit::Type("a BLOB")),
    })
}

/// Returns a default as a value of type `kind`, which SQLite does not require it to be.
pub(super) fn fitting<'d>(kind: ColumnType, default: &'d Value<'static>) -> Result<Value<'d>, Misfit> {
    // Defaults are values of SQLite's, which all have a field.
    field_of(default).ok_or(Misfit::NoDefault).and_then(|field| value_of(kind, field))
}

/// Returns a value as SQLite stores it in a column of this affinity. An error says what SQLite has no such value for.
pub(super) fn stored<'v>(value: &'v Value<'_>, affinity: Affinity) -> Result<Field<'v>, &'static str> {
    let is_number = matches!(affinity, Affinity::Integer | Affinity::Numeric);
    let field = match value {
        // A column that is declared as `BOOLEAN` has this affinity, and `TRUE` in SQL is 1. A column without a type
        // keeps values as they are, so it has no truth.
        Value::Bool(value) if is_number => Field::Integer((*value).into()),
        value => field_of(value).ok_or("a value that SQLite has no type for")?,
    };
    Ok(match (affinity, field) {
        (_, Field::Real(number)) if number.is_nan() => return Err("NaN, which SQLite does not have"),
        (Affinity::Real, Field::Real(number)) => match integral(number) {
            // Longer integers save no room.
            Some(integer) if (-1 << 47..1 << 47).contains(&integer) => Field::Integer(integer),
            _ => field,
        },
        (_, Field::Real(number)) if is_number => integral(number).map_or(field, Field::Integer),
        (_, Field::Text(text)) if is_number => match number_of(text) {
            Number::Absent => field,
            Number::Integer(number) => Field::Integer(number),
            Number::Real(number) => Field::Real(number),
            Number::Unsure => return Err("a text that only SQLite can convert to a number"),
        },
        _ => field,
    })
}

/// Returns a value as SQLite has it, before a column converts it; `None`: SQLite has no such value.
pub(super) fn field_of<'v>(value: &'v Value<'_>) -> Option<Field<'v>> {
    Some(match value {
        Value::Null => Field::Null,
        Value::Int(number) => Field::Integer(*number),
        Value::UInt(number) => Field::Integer(i64::try_from(*number).ok()?),
        Value::Float(number) => Field::Real(*number),
        Value::Text(text) => Field::Text(text.as_bytes()),
        Value::Bytes(bytes) => Field::Blob(bytes),
        Value::Bool(_) | Value::Timestamp(_) | Value::Uuid(_) | Value::Json(_) => return None,
    })
}

/// Returns the value that rows have in a column that was added later: its default, converted by its affinity. `None`:
/// the text is not a plain value, or its conversion is SQLite's to do.
pub(super) fn default_of(text: &str, affinity: Affinity) -> Option<Value<'static>> {
    let text = inner(text.trim());
    let all: Vec<_> = tokens(text).collect();
    let value = match &all[..] {
        [token] if token.is("NULL") => Value::Null,
        [token] if token.is("TRUE") => Value::Int(1),
        [token] if token.is("FALSE") => Value::Int(0),
        [token] if token.kind == Kind::Literal && token.text.starts_with('\'') => Value::from(token.name()?),
        [token] if token.kind == Kind::Literal => Value::from(blob(token.text)?),
        _ => number(text)?,
    };
    Some(match (affinity, value) {
        (Affinity::Integer | Affinity::Numeric, Value::Float(number)) if number.fract() == 0.0 => {
            // Beyond 2^53 the conversion is not exact, and below it there is nothing to decide.
            if number.abs() < 9e15 { Value::Int(number as i64) } else { return None }
        }
        (Affinity::Real, Value::Int(number)) => Value::Float(number as f64),
        (Affinity::Text, Value::Int(number)) if number.to_string() == text => Value::from(text.to_owned()),
        // SQLite keeps digits as they are written if they are many, and `TRUE` as an integer.
        (Affinity::Text, Value::Int(_) | Value::Float(_)) => return None,
        (Affinity::Integer | Affinity::Real | Affinity::Numeric, Value::Text(text))
            if text.trim_start().starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) =>
        {
            return None;
        }
        (_, value) => value,
    })
}

/// Returns what stands in brackets around the whole text.
fn inner(text: &str) -> &str {
    match text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
        // Two groups beside each other are not one.
        Some(within) if !within.contains(['(', ')']) => within.trim(),
        _ => text,
    }
}

fn number(text: &str) -> Option<Value<'static>> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text).trim_start();
    if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return None;
    }
    let whole = text.replace(' ', "");
    if let Ok(integer) = whole.parse() {
        return Some(Value::Int(integer));
    }
    // SQLite may round more digits in another way than Rust does.
    let is_short = digits.bytes().filter(u8::is_ascii_digit).count() <= 15;
    if is_short && digits.chars().all(|c| c.is_ascii_digit() || "eE.+-".contains(c)) {
        // SQLite's zero has no sign.
        return whole.parse().ok().map(|number: f64| Value::Float(number + 0.0));
    }
    None
}

/// Returns the bytes of a blob's literal.
fn blob(text: &str) -> Option<Vec<u8>> {
    let digits = text.get(2..text.len().checked_sub(1)?)?;
    if !digits.is_ascii() || digits.len() % 2 != 0 {
        return None;
    }
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_is_a_number_where_values_become_numbers() {
        for affinity in [Affinity::Numeric, Affinity::Integer] {
            assert_eq!(stored(&Value::Bool(true), affinity), Ok(Field::Integer(1)));
            assert_eq!(stored(&Value::Bool(false), affinity), Ok(Field::Integer(0)));
            assert!(stored(&Value::Timestamp(0), affinity).is_err());
        }
        assert!(stored(&Value::Bool(true), Affinity::Blob).is_err());
    }

    #[test]
    fn defaults_are_those_of_sqlite_or_none() {
        let text = |text: &str| Some(Value::from(text.to_owned()));
        for (written, affinity, wanted) in [
            ("NULL", Affinity::Text, Some(Value::Null)),
            ("5", Affinity::Integer, Some(Value::Int(5))),
            ("-5", Affinity::Numeric, Some(Value::Int(-5))),
            ("+ 5", Affinity::Blob, Some(Value::Int(5))),
            ("1.5e-3", Affinity::Real, Some(Value::Float(0.0015))),
            (".5", Affinity::Numeric, Some(Value::Float(0.5))),
            ("2.0", Affinity::Integer, Some(Value::Int(2))),
            ("2.0", Affinity::Real, Some(Value::Float(2.0))),
            ("2", Affinity::Real, Some(Value::Float(2.0))),
            ("2", Affinity::Text, text("2")),
            ("2.5", Affinity::Text, None),
            ("004912345678901", Affinity::Text, None),
            ("true", Affinity::Text, None),
            ("2.0", Affinity::Blob, Some(Value::Float(2.0))),
            ("1e3", Affinity::Blob, Some(Value::Float(1000.0))),
            ("2.5", Affinity::Blob, Some(Value::Float(2.5))),
            ("-0.0", Affinity::Real, Some(Value::Float(0.0))),
            ("'it''s'", Affinity::Text, text("it's")),
            ("'5'", Affinity::Blob, text("5")),
            ("'5'", Affinity::Integer, None),
            ("' -.5'", Affinity::Numeric, None),
            ("'none'", Affinity::Integer, text("none")),
            ("(7)", Affinity::Integer, Some(Value::Int(7))),
            ("(1)+(2)", Affinity::Integer, None),
            ("true", Affinity::Integer, Some(Value::Int(1))),
            ("x'00fF'", Affinity::Blob, Some(Value::from(vec![0, 255]))),
            ("x'0'", Affinity::Blob, None),
            ("0x10", Affinity::Integer, None),
            ("1e99", Affinity::Integer, None),
            ("3500000000000000.2500001", Affinity::Real, None),
            ("12345678901234567890", Affinity::Real, None),
            ("CURRENT_TIME", Affinity::Text, None),
            ("\"name\"", Affinity::Text, None),
            ("", Affinity::Text, None),
        ] {
            let found = default_of(written, affinity);
            assert_eq!(found, wanted, "{written} {affinity:?}");
            let types = |value: &Option<Value<'_>>| value.as_ref().map(Value::column_type);
            assert_eq!(types(&found), types(&wanted), "{written} {affinity:?}");
        }
    }
}
