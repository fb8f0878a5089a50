//! Keys and values of Python as byte strings, and back.

use crate::errors;
use pando::keys;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyInt, PyMemoryView, PyString, PyType};
use std::borrow::Cow;

/// What the keys of a view are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Byte strings, as they are.
    Bytes,
    /// Text as UTF-8, which has the order of its code points.
    Str,
    /// Numbers of 64 bits, in their order.
    Int,
}

/// What the values of a view are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// Byte strings, as they are.
    Bytes,
    /// Text as UTF-8.
    Str,
    /// JSON by the module `json`.
    Json,
}

/// The kind that `asked` names: one of the types `bytes`, `str` and `int`, or its name.
fn name_of(asked: &Bound<'_, PyAny>) -> PyResult<String> {
    match asked.cast::<PyType>() {
        Ok(kind) => Ok(kind.name()?.to_string()),
        Err(_) => asked.extract::<String>(),
    }
}

impl KeyKind {
    /// Reads the argument `key=`.
    pub fn asked(asked: &Bound<'_, PyAny>) -> PyResult<Self> {
        match name_of(asked).as_deref() {
            Ok("bytes") => Ok(KeyKind::Bytes),
            Ok("str") => Ok(KeyKind::Str),
            Ok("int") => Ok(KeyKind::Int),
            _ => Err(PyTypeError::new_err("key must be bytes, str or int")),
        }
    }

    /// The bytes of a key.
    pub fn encode<'a>(self, key: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
        match self {
            KeyKind::Bytes => bytes_of(key, "the key"),
            KeyKind::Str => text_of(key, "the key"),
            KeyKind::Int => {
                let number = key.cast::<PyInt>().map_err(|_| wrong_type(key, "the key", "int"))?;
                let number: i64 = number.extract().map_err(|_| {
                    PyOverflowError::new_err("the key is out of range: an int key has 64 bits, with its sign")
                })?;
                Ok(Cow::Owned(keys::i64_key(number).to_vec()))
            }
        }
    }

    /// The key of these bytes.
    pub fn decode<'py>(self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        match self {
            KeyKind::Bytes => Ok(PyBytes::new(py, bytes).into_any()),
            KeyKind::Str => text(py, bytes, "a key"),
            KeyKind::Int => match KeyKind::int(bytes) {
                Some(number) => Ok(number.into_pyobject(py)?.into_any()),
                None => Err(mistaken(py, bytes, "a key", "an int")),
            },
        }
    }

    /// The number that these bytes are the key of.
    pub fn int(bytes: &[u8]) -> Option<i64> {
        <[u8; 8]>::try_from(bytes).ok().map(|bytes| (u64::from_be_bytes(bytes) ^ 1 << 63) as i64)
    }

    /// The bytes of a prefix of keys.
    pub fn encode_prefix<'a>(self, prefix: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
        match self {
            KeyKind::Int => Err(PyTypeError::new_err("int keys have no prefixes; use start and stop")),
            other => other.encode(prefix),
        }
    }

    /// The name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            KeyKind::Bytes => "bytes",
            KeyKind::Str => "str",
            KeyKind::Int => "int",
        }
    }
}

impl ValueKind {
    /// Reads the argument `value=`.
    pub fn asked(asked: &Bound<'_, PyAny>) -> PyResult<Self> {
        match name_of(asked).as_deref() {
            Ok("bytes") => Ok(ValueKind::Bytes),
            Ok("str") => Ok(ValueKind::Str),
            Ok("json") => Ok(ValueKind::Json),
            _ => Err(PyTypeError::new_err("value must be bytes, str or \"json\"")),
        }
    }

    /// The bytes of a value.
    pub fn encode<'a>(self, value: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
        match self {
            ValueKind::Bytes => bytes_of(value, "the value"),
            ValueKind::Str => text_of(value, "the value"),
            ValueKind::Json => {
                let text = json(value.py())?.0.bind(value.py()).call1((value,))?;
                let text = text.cast::<PyString>().map_err(|_| wrong_type(&text, "the value", "JSON"))?;
                Ok(Cow::Owned(text.to_cow()?.into_owned().into_bytes()))
            }
        }
    }

    /// The value of these bytes.
    pub fn decode<'py>(self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        match self {
            ValueKind::Bytes => Ok(PyBytes::new(py, bytes).into_any()),
            ValueKind::Str => text(py, bytes, "a value"),
            ValueKind::Json => {
                let loaded = json(py)?.1.bind(py).call1((PyBytes::new(py, bytes),));
                loaded.map_err(|cause| {
                    let error = mistaken(py, bytes, "a value", "JSON");
                    error.set_cause(py, Some(cause));
                    error
                })
            }
        }
    }

    /// The name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            ValueKind::Bytes => "bytes",
            ValueKind::Str => "str",
            ValueKind::Json => "json",
        }
    }
}

/// An encoder of JSON, and `json.loads`. The encoder refuses NaN and infinities, which JSON does not have, with
/// `ValueError`: other readers of the database could not read them.
pub(crate) fn json(py: Python<'_>) -> PyResult<&(Py<PyAny>, Py<PyAny>)> {
    static JSON: PyOnceLock<(Py<PyAny>, Py<PyAny>)> = PyOnceLock::new();
    JSON.get_or_try_init(py, || {
        let json = py.import("json")?;
        let options = PyDict::new(py);
        options.set_item("allow_nan", false)?;
        // Made once: `json.dumps` with an option makes an encoder for each call.
        let encoder = json.getattr("JSONEncoder")?.call((), Some(&options))?;
        Ok((encoder.getattr("encode")?.unbind(), json.getattr("loads")?.unbind()))
    })
}

pub(crate) fn bytes_of<'a>(given: &'a Bound<'_, PyAny>, what: &str) -> PyResult<Cow<'a, [u8]>> {
    if let Ok(bytes) = given.cast::<PyBytes>() {
        return Ok(Cow::Borrowed(bytes.as_bytes()));
    }
    if let Ok(bytes) = given.cast::<PyByteArray>() {
        return Ok(Cow::Owned(bytes.to_vec()));
    }
    if given.is_instance_of::<PyMemoryView>() {
        let copy = given.call_method0("tobytes")?;
        return Ok(Cow::Owned(copy.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes().to_vec()));
    }
    Err(wrong_type(given, what, "bytes, bytearray or memoryview"))
}

fn text_of<'a>(given: &'a Bound<'_, PyAny>, what: &str) -> PyResult<Cow<'a, [u8]>> {
    let text = given.cast::<PyString>().map_err(|_| wrong_type(given, what, "str"))?;
    Ok(match text.to_cow()? {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    })
}

fn text<'py>(py: Python<'py>, bytes: &[u8], what: &str) -> PyResult<Bound<'py, PyAny>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(PyString::new(py, text).into_any()),
        Err(_) => Err(mistaken(py, bytes, what, "text")),
    }
}

#[cold]
fn wrong_type(given: &Bound<'_, PyAny>, what: &str, wanted: &str) -> PyErr {
    let given = given.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("{what} must be {wanted}, not {given}"))
}

/// That the table holds what the view cannot show.
#[cold]
fn mistaken(py: Python<'_>, bytes: &[u8], what: &str, wanted: &str) -> PyErr {
    errors::named(py, "InvalidError", not_of(bytes, what, wanted))
}

/// Says that a key or a value of the table is not what was asked for.
#[cold]
pub fn not_of(bytes: &[u8], what: &str, wanted: &str) -> String {
    let shown = bytes[..bytes.len().min(32)].escape_ascii();
    format!(
        "{what} of the table is not {wanted}: b\"{shown}\"; open the table with the kinds that it was \
         written with"
    )
}
