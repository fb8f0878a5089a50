//! A value of an Arrow array, as a value of a column.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use rows::{ColumnType, Value};

const DAY_US: i64 = 86_400_000_000;

/// Returns the value at `row` of `array` for a column of this type.
///
/// Errors: what is wrong with it, to be shown after its place.
pub(crate) fn value(array: &ArrayRef, row: usize, kind: ColumnType) -> Result<Value<'static>, String> {
    fitted(&found(array, row)?, kind)
}

/// Returns what was found as a value for a column of this type.
fn fitted(found: &Found<'_>, kind: ColumnType) -> Result<Value<'static>, String> {
    let wrong = |found: &Found<'_>| Err(format!("{} is no {kind}", found.describe()));
    let too_large = |found: &Found<'_>| Err(format!("{} does not fit into {kind}", found.describe()));
    Ok(match (kind, found) {
        (_, Found::Null) => Value::Null,
        (ColumnType::Bool, Found::Bool(value)) => Value::Bool(*value),
        (ColumnType::Int, Found::Int(value)) => match i64::try_from(*value) {
            Ok(value) => Value::Int(value),
            Err(_) => return too_large(found),
        },
        (ColumnType::UInt, Found::Int(value)) => match u64::try_from(*value) {
            Ok(value) => Value::UInt(value),
            Err(_) => return too_large(found),
        },
        (ColumnType::Float, Found::Float(value)) => Value::Float(*value),
        // These are exact.
        (ColumnType::Float, Found::Int(value)) if i32::try_from(*value).is_ok() => {
            Value::Float(*value as f64)
        }
        (ColumnType::Timestamp, Found::Timestamp(value)) => Value::Timestamp(*value),
        (ColumnType::Text, Found::Text(text)) => Value::from((*text).to_owned()),
        (ColumnType::Uuid, Found::Bytes(bytes)) => match <[u8; 16]>::try_from(*bytes) {
            Ok(bytes) => Value::Uuid(bytes),
            Err(_) => return wrong(found),
        },
        (ColumnType::Uuid | ColumnType::Json, Found::Text(text)) => match kind.parse(text)? {
            // In CSV an empty field is a null; here a null is a null.
            Value::Null => return wrong(found),
            value => value,
        },
        (ColumnType::Bytes, Found::Bytes(bytes)) => Value::from(bytes.to_vec()),
        (ColumnType::Any, Found::Bool(value)) => Value::Bool(*value),
        (ColumnType::Any, Found::Int(value)) => match (i64::try_from(*value), u64::try_from(*value)) {
            (Ok(value), _) => Value::Int(value),
            (_, Ok(value)) => Value::UInt(value),
            _ => return too_large(found),
        },
        (ColumnType::Any, Found::Float(value)) => Value::Float(*value),
        (ColumnType::Any, Found::Timestamp(value)) => Value::Timestamp(*value),
        (ColumnType::Any, Found::Text(text)) => Value::from((*text).to_owned()),
        (ColumnType::Any, Found::Bytes(bytes)) => Value::from(bytes.to_vec()),
        _ => return wrong(found),
    })
}

/// Returns the value at `row` of a column that was written from one of type *any*, which has the JSON of each value,
/// for a column of this type.
///
/// Errors: as for [`value`].
pub(crate) fn any_value(array: &ArrayRef, row: usize, kind: ColumnType) -> Result<Value<'static>, String> {
    if kind == ColumnType::Json {
        // The JSON of a value is a document.
        return value(array, row, kind);
    }
    let value = any(array, row)?;
    match found_in(&value) {
        Some(found) if kind != ColumnType::Any => fitted(&found, kind),
        _ => Ok(value),
    }
}

/// Returns the value at `row` of a column that was written from one of type *any*.
fn any(array: &ArrayRef, row: usize) -> Result<Value<'static>, String> {
    match found(array, row)? {
        Found::Null => Ok(Value::Null),
        Found::Text(text) => {
            let json = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
            ColumnType::Any.parse_json(&json)
        }
        other => Err(format!("{} is not the JSON of a value", other.describe())),
    }
}

/// Returns a value as if it had been found in an array; `None` for a document, which no value of type *any* is.
fn found_in<'v>(value: &'v Value<'_>) -> Option<Found<'v>> {
    Some(match value {
        Value::Null => Found::Null,
        Value::Bool(value) => Found::Bool(*value),
        Value::Int(value) => Found::Int((*value).into()),
        Value::UInt(value) => Found::Int((*value).into()),
        Value::Float(value) => Found::Float(*value),
        Value::Timestamp(value) => Found::Timestamp(*value),
        Value::Text(text) => Found::Text(text),
        Value::Bytes(bytes) => Found::Bytes(bytes),
        Value::Uuid(bytes) => Found::Bytes(bytes),
        Value::Json(_) => return None,
    })
}

/// Returns the bytes at `row` of a column that was written from one of type *any*, for a plain record: those of a text
/// or of bytes, otherwise the JSON of the value.
pub(crate) fn any_bytes(array: &ArrayRef, row: usize) -> Result<Vec<u8>, String> {
    match any(array, row)? {
        Value::Text(text) => Ok(text.into_owned().into_bytes()),
        Value::Bytes(bytes) => Ok(bytes.into_owned()),
        _ => bytes(array, row),
    }
}

/// Returns the bytes at `row` of an array of bytes or texts.
pub(crate) fn bytes(array: &ArrayRef, row: usize) -> Result<Vec<u8>, String> {
    match found(array, row)? {
        Found::Bytes(bytes) => Ok(bytes.to_vec()),
        Found::Text(text) => Ok(text.as_bytes().to_vec()),
        Found::Null => Err("a key or a value is null".to_owned()),
        other => Err(format!("{} is neither bytes nor a text", other.describe())),
    }
}

/// What an array holds at a row.
enum Found<'a> {
    Null,
    Bool(bool),
    /// An integer of any width.
    Int(i128),
    Float(f64),
    /// Microseconds since 1970.
    Timestamp(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl Found<'_> {
    fn describe(&self) -> String {
        match self {
            Found::Null => "a null".to_owned(),
            Found::Bool(value) => value.to_string(),
            Found::Int(value) => value.to_string(),
            Found::Float(value) => format!("{value:?}"),
            Found::Timestamp(value) => format!("a time ({value} µs since 1970)"),
            Found::Text(text) => format!("{:?}", text.chars().take(40).collect::<String>()),
            Found::Bytes(bytes) => format!("a value of {} bytes", bytes.len()),
        }
    }
}

fn found(array: &dyn Array, row: usize) -> Result<Found<'_>, String> {
    use DataType as Type;
    if array.is_null(row) {
        return Ok(Found::Null);
    }
    let time = |value: i64, times: i64| {
        let us = value.checked_mul(times).map(Found::Timestamp);
        us.ok_or_else(|| format!("the time {value} is out of range"))
    };
    Ok(match array.data_type() {
        Type::Null => Found::Null,
        Type::Boolean => Found::Bool(array.as_boolean().value(row)),
        Type::Int8 => Found::Int(array.as_primitive::<Int8Type>().value(row).into()),
        Type::Int16 => Found::Int(array.as_primitive::<Int16Type>().value(row).into()),
        Type::Int32 => Found::Int(array.as_primitive::<Int32Type>().value(row).into()),
        Type::Int64 => Found::Int(array.as_primitive::<Int64Type>().value(row).into()),
        Type::UInt8 => Found::Int(array.as_primitive::<UInt8Type>().value(row).into()),
        Type::UInt16 => Found::Int(array.as_primitive::<UInt16Type>().value(row).into()),
        Type::UInt32 => Found::Int(array.as_primitive::<UInt32Type>().value(row).into()),
        Type::UInt64 => Found::Int(array.as_primitive::<UInt64Type>().value(row).into()),
        Type::Float32 => Found::Float(array.as_primitive::<Float32Type>().value(row).into()),
        Type::Float64 => Found::Float(array.as_primitive::<Float64Type>().value(row)),
        Type::Utf8 => Found::Text(array.as_string::<i32>().value(row)),
        Type::LargeUtf8 => Found::Text(array.as_string::<i64>().value(row)),
        Type::Utf8View => Found::Text(array.as_string_view().value(row)),
        Type::Binary => Found::Bytes(array.as_binary::<i32>().value(row)),
        Type::LargeBinary => Found::Bytes(array.as_binary::<i64>().value(row)),
        Type::BinaryView => Found::Bytes(array.as_binary_view().value(row)),
        Type::FixedSizeBinary(_) => Found::Bytes(array.as_fixed_size_binary().value(row)),
        Type::Date32 => time(array.as_primitive::<Date32Type>().value(row).into(), DAY_US)?,
        Type::Date64 => time(array.as_primitive::<Date64Type>().value(row), 1000)?,
        Type::Timestamp(TimeUnit::Second, _) => {
            time(array.as_primitive::<TimestampSecondType>().value(row), 1_000_000)?
        }
        Type::Timestamp(TimeUnit::Millisecond, _) => {
            time(array.as_primitive::<TimestampMillisecondType>().value(row), 1000)?
        }
        Type::Timestamp(TimeUnit::Microsecond, _) => {
            Found::Timestamp(array.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        Type::Timestamp(TimeUnit::Nanosecond, _) => {
            match array.as_primitive::<TimestampNanosecondType>().value(row) {
                ns if ns % 1000 == 0 => Found::Timestamp(ns / 1000),
                ns => return Err(format!("the time {ns} ns since 1970 is not a whole microsecond")),
            }
        }
        Type::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            let Found::Int(key) = found(dictionary.keys(), row)? else { return Ok(Found::Null) };
            let at = usize::try_from(key).ok().filter(|at| *at < dictionary.values().len());
            return found(dictionary.values(), at.ok_or("a dictionary has no value for a row")?);
        }
        other => {
            return Err(format!(
                "no column can hold the Arrow type {other}; cast it before you write the file"
            ));
        }
    })
}
