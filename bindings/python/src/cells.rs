//! Values of columns of typed tables, as objects of Python, and back.

use crate::codec::{self, bytes_of};
use crate::errors;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString, PyTuple};
use rows::{ColumnType, Value};

const SECOND_US: i64 = 1_000_000;
const DAY_S: i64 = 86_400;

/// Returns an object as a value for a column of this type. The column is named in errors.
pub fn value_of(given: &Bound<'_, PyAny>, kind: ColumnType, column: &str) -> PyResult<Value<'static>> {
    if given.is_none() {
        return Ok(Value::Null);
    }
    let wrong = || {
        let given = given.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!(
            "column {column:?} is of type {kind}, which has no value of type {given}"
        ))
    };
    let out = |_: PyErr| {
        PyOverflowError::new_err(format!("column {column:?}: the number does not fit into type {kind}"))
    };
    let is_int = given.is_instance_of::<PyInt>() && !given.is_instance_of::<PyBool>();
    Ok(match kind {
        ColumnType::Bool => Value::Bool(given.cast::<PyBool>().map_err(|_| wrong())?.is_true()),
        ColumnType::Int if is_int => Value::Int(given.extract().map_err(out)?),
        ColumnType::UInt if is_int => Value::UInt(given.extract().map_err(out)?),
        // `float` of Python takes an `int`, so a field of type `float` may have one.
        ColumnType::Float if is_int || given.is_instance_of::<PyFloat>() => {
            let number: f64 = given.extract().map_err(out)?;
            if is_int && !given.eq(number)? {
                let message = format!("column {column:?}: type {kind} cannot hold {given} exactly");
                return Err(PyOverflowError::new_err(message));
            }
            Value::Float(number)
        }
        ColumnType::Text => {
            let text = given.cast::<PyString>().map_err(|_| wrong())?;
            Value::Text(text.to_cow()?.into_owned().into())
        }
        ColumnType::Bytes => Value::Bytes(bytes_of(given, "the value of a column")?.into_owned().into()),
        ColumnType::Timestamp if given.is_instance(classes(given.py())?.datetime.bind(given.py()))? => {
            Value::Timestamp(microseconds(given, column)?)
        }
        ColumnType::Uuid if given.is_instance(classes(given.py())?.uuid.bind(given.py()))? => {
            Value::Uuid(given.getattr("bytes")?.extract::<[u8; 16]>()?)
        }
        ColumnType::Json => {
            let text = codec::json(given.py())?.0.bind(given.py()).call1((given,))?;
            Value::Json(text.cast::<PyString>().map_err(|_| wrong())?.to_cow()?.into_owned().into())
        }
        ColumnType::Any => value_of(given, type_of(given)?.ok_or_else(wrong)?, column)?,
        _ => return Err(wrong()),
    })
}

/// Returns the type whose values an object is; `None`: none has it.
fn type_of(given: &Bound<'_, PyAny>) -> PyResult<Option<ColumnType>> {
    let classes = classes(given.py())?;
    Ok(Some(if given.is_instance_of::<PyBool>() {
        ColumnType::Bool
    } else if given.is_instance_of::<PyInt>() {
        ColumnType::Int
    } else if given.is_instance_of::<PyFloat>() {
        ColumnType::Float
    } else if given.is_instance_of::<PyString>() {
        ColumnType::Text
    } else if given.is_instance(classes.datetime.bind(given.py()))? {
        ColumnType::Timestamp
    } else if given.is_instance(classes.uuid.bind(given.py()))? {
        ColumnType::Uuid
    } else if given.is_instance_of::<PyBytes>() {
        ColumnType::Bytes
    } else {
        return Ok(None);
    }))
}

/// Returns a value as an object.
pub fn object<'py>(py: Python<'py>, value: &Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(truth) => PyBool::new(py, *truth).to_owned().into_any(),
        Value::Int(number) => number.into_pyobject(py)?.into_any(),
        Value::UInt(number) => number.into_pyobject(py)?.into_any(),
        Value::Float(number) => number.into_pyobject(py)?.into_any(),
        Value::Text(text) => PyString::new(py, text).into_any(),
        Value::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
        Value::Json(text) => codec::json(py)?.1.bind(py).call1((&**text,))?,
        Value::Uuid(bytes) => {
            let given = PyDict::new(py);
            given.set_item("bytes", PyBytes::new(py, bytes))?;
            classes(py)?.uuid.bind(py).call((), Some(&given))?
        }
        Value::Timestamp(us) => {
            let classes = classes(py)?;
            let (seconds, us) = (us.div_euclid(SECOND_US), us.rem_euclid(SECOND_US));
            let parts = (seconds.div_euclid(DAY_S), seconds.rem_euclid(DAY_S), us);
            let delta = classes.timedelta.bind(py).call1(parts)?;
            classes.epoch.bind(py).add(delta)?
        }
    })
}

/// Returns a row as a tuple.
pub fn tuple<'py>(py: Python<'py>, row: &[Value<'_>]) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, row.iter().map(|value| object(py, value)).collect::<PyResult<Vec<_>>>()?)
}

/// Returns a `datetime` with a time zone as microseconds since 1970.
fn microseconds(given: &Bound<'_, PyAny>, column: &str) -> PyResult<i64> {
    let py = given.py();
    if given.call_method0("utcoffset")?.is_none() {
        let message =
            format!("column {column:?}: the datetime has no time zone; use one with tzinfo, such as UTC");
        return Err(errors::named(py, "InvalidError", message));
    }
    let delta = given.sub(classes(py)?.epoch.bind(py))?;
    let part = |name: &str| delta.getattr(name)?.extract::<i64>();
    Ok((part("days")? * DAY_S + part("seconds")?) * SECOND_US + part("microseconds")?)
}

/// Classes of the standard library.
struct Classes {
    datetime: Py<PyAny>,
    timedelta: Py<PyAny>,
    uuid: Py<PyAny>,
    /// The beginning of 1970, in UTC.
    epoch: Py<PyAny>,
}

fn classes(py: Python<'_>) -> PyResult<&Classes> {
    static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();
    CLASSES.get_or_try_init(py, || {
        let module = py.import("datetime")?;
        let datetime = module.getattr("datetime")?;
        let utc = module.getattr("timezone")?.getattr("utc")?;
        let epoch = datetime.call1((1970, 1, 1, 0, 0, 0, 0, utc))?.unbind();
        let timedelta = module.getattr("timedelta")?.unbind();
        let uuid = py.import("uuid")?.getattr("UUID")?.unbind();
        Ok(Classes { datetime: datetime.unbind(), timedelta, uuid, epoch })
    })
}
