//! The options of databases, transactions and tables, from keyword arguments.

use crate::errors;
use pando::{Builder, Compression, Durability, Isolation, Layout, TableOptions, TransactionOptions};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyMemoryView};
use std::time::Duration;

/// Sets the options of a database.
pub fn of_database(mut builder: Builder, given: Option<&Bound<'_, PyDict>>) -> PyResult<Builder> {
    for (name, value) in given.into_iter().flatten() {
        if value.is_none() {
            continue;
        }
        let name: String = name.extract()?;
        let value = &value;
        builder = match name.as_str() {
            "memory_bytes" => builder.memory_bytes(number(&name, value)?),
            "durability" => builder.durability(durability(value)?),
            "lazy_interval" => builder.lazy_interval(seconds(&name, value)?),
            "max_segment_bytes" => builder.max_segment_bytes(number(&name, value)?),
            "checkpoint_bytes" => builder.checkpoint_bytes(number(&name, value)?),
            "checkpoint_records" => builder.checkpoint_records(number(&name, value)?),
            "max_log_bytes" => builder.max_log_bytes(number(&name, value)?),
            "max_log_records" => builder.max_log_records(number(&name, value)?),
            "isolation" => builder.isolation(isolation(value)?),
            "max_snapshot_age" => builder.max_snapshot_age(seconds(&name, value)?),
            "max_pinned_space_bytes" => builder.max_pinned_space_bytes(number(&name, value)?),
            "max_changes_bytes" => builder.max_changes_bytes(number(&name, value)?),
            "page_bytes" => builder.page_bytes(number(&name, value)?),
            "read_only" => builder.read_only(value.extract()?),
            _ => return Err(PyTypeError::new_err(format!("there is no option {name:?}"))),
        };
    }
    Ok(builder)
}

/// Changes the options of a transaction.
pub fn of_transaction(
    options: TransactionOptions,
    asked_durability: Option<&Bound<'_, PyAny>>,
    asked_isolation: Option<&Bound<'_, PyAny>>,
) -> PyResult<TransactionOptions> {
    Ok(TransactionOptions {
        durability: asked_durability.map_or(Ok(options.durability), durability)?,
        isolation: asked_isolation.map_or(Ok(options.isolation), isolation)?,
    })
}

/// The options of a table.
pub fn of_table(
    py: Python<'_>,
    layout: &str,
    ttl: Option<&Bound<'_, PyAny>>,
    compression: &str,
) -> PyResult<TableOptions> {
    let mut options = TableOptions::default();
    options.layout = word(py, "layout", layout, &Layout::ALL)?;
    options.compression = word(py, "compression", compression, &Compression::ALL)?;
    match ttl {
        Some(word) if word.eq("by-key")? => options.ttl_by_key = true,
        ttl => options.ttl = ttl.map(|ttl| seconds("ttl", ttl)).transpose()?,
    }
    Ok(options)
}

/// A whole number from 0 on.
pub fn count(name: &str, value: &Bound<'_, PyAny>) -> PyResult<u64> {
    let whole = value.call_method0("__index__").map_err(|_| wrong_type(name, "an int", value))?;
    whole.extract().map_err(|_| {
        let message = format!("{name} is {whole}: it must be from 0 to 2**64 - 1");
        errors::named(value.py(), "InvalidError", message)
    })
}

/// The greatest number of records; `None` means all.
pub fn limit(value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<u64>> {
    value.map(|value| count("limit", value)).transpose()
}

/// Bytes, which are copied.
pub fn bytes(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if value.is_instance_of::<PyMemoryView>() {
        return bytes(name, &value.call_method0("tobytes")?);
    }
    if let Ok(bytes) = value.cast::<PyByteArray>() {
        return Ok(bytes.to_vec());
    }
    let bytes = value.cast::<PyBytes>().map_err(|_| wrong_type(name, "bytes", value))?;
    Ok(bytes.as_bytes().to_vec())
}

/// That an argument has a wrong type.
#[cold]
pub fn wrong_type(name: &str, wanted: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let given = value.get_type().name().map_or_else(|_| "another type".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("{name} must be {wanted}, not {given}"))
}

/// A number that fits its option.
fn number<T: TryFrom<u64>>(name: &str, value: &Bound<'_, PyAny>) -> PyResult<T> {
    let given = value
        .cast::<pyo3::types::PyInt>()
        .map_err(|_| wrong_type(&format!("option {name}"), "an int", value))?;
    let fits = given.extract::<u64>().ok().and_then(|number| T::try_from(number).ok());
    fits.ok_or_else(|| {
        errors::named(
            value.py(),
            "InvalidError",
            format!("option {name} is {given}, which is out of its range"),
        )
    })
}

/// A time in seconds, or a `timedelta`.
pub fn seconds(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let wrong = || {
        let shown = value.repr().map_or_else(|_| "?".to_owned(), |text| text.to_string());
        let message = format!("{name} is {shown}: give a time in seconds, from 0 on, or a timedelta");
        errors::named(value.py(), "InvalidError", message)
    };
    let given = match value.hasattr("total_seconds")? {
        true => value.call_method0("total_seconds")?,
        false => value.clone(),
    };
    let given: f64 = given.extract().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(given).map_err(|_| wrong())
}

/// One of `all` by the name with which it is shown.
fn word<T: Copy + ToString>(py: Python<'_>, what: &str, given: &str, all: &[T]) -> PyResult<T> {
    let found = all.iter().copied().find(|one| one.to_string() == given);
    found.ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|one| format!("{:?}", one.to_string())).collect();
        let message = format!("{what} is {given:?}; it must be one of {}", names.join(", "));
        errors::named(py, "InvalidError", message)
    })
}

fn durability(value: &Bound<'_, PyAny>) -> PyResult<Durability> {
    match value.extract::<String>()?.as_str() {
        "sync" => Ok(Durability::Sync),
        "buffered" => Ok(Durability::Buffered),
        "lazy" => Ok(Durability::Lazy),
        other => {
            let message =
                format!("durability is {other:?}; it must be one of \"sync\", \"buffered\", \"lazy\"");
            Err(errors::named(value.py(), "InvalidError", message))
        }
    }
}

fn isolation(value: &Bound<'_, PyAny>) -> PyResult<Isolation> {
    match value.extract::<String>()?.as_str() {
        "serializable" => Ok(Isolation::Serializable),
        "snapshot" => Ok(Isolation::Snapshot),
        other => {
            let message = format!("isolation is {other:?}; it must be one of \"serializable\", \"snapshot\"");
            Err(errors::named(value.py(), "InvalidError", message))
        }
    }
}
