//! A table as Python sees it: a mapping, of the database, of a snapshot or of a transaction.

use crate::arrow::Arrow;
use crate::codec::{KeyKind, ValueKind};
use crate::cursor::Cursor;
use crate::engine;
use crate::errors;
use crate::guard::run;
use crate::options;
use crate::scan::{self, Asked, Scan, What};
use crate::source::Source;
use crate::values::ValueReader;
use pando::{Expiry, Span, Table};
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use std::ops::Bound as End;

/// Records that are taken from Python before they are put.
const BATCH_RECORDS: usize = 1024;
const BATCH_BYTES: usize = 1 << 20;

/// A record as bytes.
type Record = (Vec<u8>, Vec<u8>);

/// The reads of a table.
#[pyclass(subclass, frozen, generic, module = "pando._pando")]
pub struct View {
    pub(crate) source: Source,
    pub(crate) table: Table,
    pub(crate) key: KeyKind,
    pub(crate) value: ValueKind,
}

impl View {
    pub(crate) fn made(
        source: &Bound<'_, PyAny>,
        table: &Bound<'_, PyAny>,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        create: bool,
    ) -> PyResult<Self> {
        let py = source.py();
        let source = Source::of(source)?;
        let (table, kinds) = match table.cast::<View>() {
            Ok(view) => {
                let view = view.get();
                if !std::ptr::eq(&**view.source.handle(), &**source.handle()) {
                    return Err(errors::named(py, "InvalidError", "the table belongs to another database"));
                }
                (view.table.clone(), (view.key, view.value))
            }
            Err(_) => {
                let name = table.cast::<PyString>().map_err(|_| {
                    PyTypeError::new_err("a table is given by its name, or as a Table of the same database")
                })?;
                let found = find(py, &source, &name.to_cow()?, create)?;
                (found, (KeyKind::Bytes, ValueKind::Bytes))
            }
        };
        let key = key.map_or(Ok(kinds.0), KeyKind::asked)?;
        let value = value.map_or(Ok(kinds.1), ValueKind::asked)?;
        Ok(View { source, table, key, value })
    }

    fn get_encoded(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
        self.source.get(key.py(), &self.table, &self.key.encode(key)?)
    }

    pub(crate) fn span(
        &self,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Span> {
        let mut span = match prefix {
            Some(prefix) => Span::prefix(&self.key.encode_prefix(prefix)?),
            None => Span::all(),
        };
        if let Some(start) = start {
            span = span.starting(End::Included(&self.key.encode(start)?));
        }
        if let Some(stop) = stop {
            span = span.until(&self.key.encode(stop)?);
        }
        Ok(span)
    }

    fn scan(
        &self,
        py: Python<'_>,
        span: Span,
        reverse: bool,
        limit: Option<u64>,
        what: What,
    ) -> PyResult<Scan> {
        let asked = Asked { span, reverse, limit: limit.unwrap_or(u64::MAX), what };
        let source = self.source.at_one_moment(py)?;
        Ok(Scan::new(source, self.table.clone(), (self.key, self.value), asked))
    }

    /// A pair of Python as bytes.
    fn record(&self, pair: &Bound<'_, PyAny>) -> PyResult<Record> {
        let wrong = "a record is a pair of a key and a value";
        let pair = match pair.cast::<PyList>() {
            Ok(list) => list.to_tuple(),
            Err(_) => pair.cast::<PyTuple>().map_err(|_| PyTypeError::new_err(wrong))?.clone(),
        };
        // The kinds of error are those of a dict.
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
            pair.extract().map_err(|_| PyValueError::new_err(wrong))?;
        let key = self.key.encode(&key)?.into_owned();
        Ok((key, self.value.encode(&value)?.into_owned()))
    }

    /// The next records of an iterator, up to a bound; empty at its end.
    pub(crate) fn batch(&self, records: &Bound<'_, pyo3::types::PyIterator>) -> PyResult<Vec<Record>> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let mut records = records.clone();
        while batch.len() < BATCH_RECORDS && bytes < BATCH_BYTES {
            let Some(pair) = records.next() else { break };
            let (key, value) = self.record(&pair?)?;
            bytes += key.len() + value.len();
            batch.push((key, value));
        }
        Ok(batch)
    }
}

fn find(py: Python<'_>, source: &Source, name: &str, create: bool) -> PyResult<Table> {
    let found = match source {
        Source::Database(handle) => {
            let db = handle.open(py)?;
            run(py, || {
                Ok(if create { Some(engine::ensure_table(db, name)?) } else { engine::find_table(db, name)? })
            })?
        }
        source => source.read(py, |reads| reads.table(name))?,
    };
    let missing = || format!("there is no table {name:?}; create it first, with create_table");
    found.ok_or_else(|| errors::named(py, "MissingError", missing()))
}

/// Parses what a mapping's `update` takes into an iterator over pairs: a mapping, an object with `keys` whose values
/// are found by `[]`, or pairs.
pub(crate) fn pairs<'py>(records: &Bound<'py, PyAny>) -> PyResult<Bound<'py, pyo3::types::PyIterator>> {
    if records.is_instance_of::<PyDict>() || (records.hasattr("keys")? && records.hasattr("items")?) {
        return records.call_method0("items")?.try_iter();
    }
    if records.hasattr("keys")? {
        let builtins = records.py().import("builtins")?;
        let keys = builtins.call_method1("list", (records.call_method0("keys")?,))?;
        let values = builtins.call_method1("map", (records.getattr("__getitem__")?, &keys))?;
        return builtins.call_method1("zip", (keys, values))?.try_iter();
    }
    records.try_iter()
}

#[pymethods]
impl View {
    #[new]
    #[pyo3(signature = (source, table, *, key=None, value=None, create=false))]
    fn new(
        source: &Bound<'_, PyAny>,
        table: &Bound<'_, PyAny>,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        create: bool,
    ) -> PyResult<Self> {
        View::made(source, table, key, value, create)
    }

    #[getter]
    fn name(&self) -> &str {
        self.table.name()
    }

    #[getter]
    fn layout(&self) -> String {
        self.table.layout().to_string()
    }

    #[getter]
    fn ttl(&self) -> Option<f64> {
        self.table.ttl().map(|ttl| ttl.as_secs_f64())
    }

    /// Whether each entry has a TTL of its own.
    #[getter]
    fn has_ttl_by_key(&self) -> bool {
        self.table.has_ttl_by_key()
    }

    /// Returns how many seconds the entry of `key` still lives; infinity if it never expires.
    fn expiry(&self, key: &Bound<'_, PyAny>) -> PyResult<f64> {
        let encoded = self.key.encode(key)?;
        let table = &self.table;
        match self.source.read(key.py(), |reads| reads.expiry(table, &encoded))? {
            Some(Expiry::Never) => Ok(f64::INFINITY),
            Some(Expiry::In(ttl)) => Ok(ttl.as_secs_f64()),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    #[getter]
    fn compression(&self) -> String {
        self.table.compression().to_string()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let view = slf.get();
        let class = slf.get_type().name()?.to_string();
        let (key, value) = (view.key.name(), view.value.name());
        Ok(format!("<pando.{class} {:?} of {key} keys and {value} values>", view.table.name()))
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self.get_encoded(key)? {
            Some(value) => self.value.decode(key.py(), &value),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    #[pyo3(signature = (key, default=None, /))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.get_encoded(key)? {
            Some(value) => self.value.decode(key.py(), &value).map(Some),
            None => Ok(default),
        }
    }

    /// Opens the value of `key` for reading in parts; `KeyError` if the key does not exist.
    fn _open_value(&self, key: &Bound<'_, PyAny>) -> PyResult<ValueReader> {
        let opened = ValueReader::open(key.py(), &self.source, &self.table, &self.key.encode(key)?)?;
        opened.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let encoded = self.key.encode(key)?;
        self.source.read(key.py(), |reads| reads.contains(&self.table, &encoded))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let source = self.source.at_one_moment(py)?;
        let count = scan::count(py, &source, &self.table)?;
        usize::try_from(count).map_err(|_| PyValueError::new_err("too many records for len"))
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        self.source.read(py, |reads| reads.cursor(&self.table, Span::all())?.advance())
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Scan> {
        self.scan(py, Span::all(), false, None, What::Keys)
    }

    fn __reversed__(&self, py: Python<'_>) -> PyResult<Scan> {
        self.scan(py, Span::all(), true, None, What::Keys)
    }

    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false, limit=None))]
    fn range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
        limit: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Scan> {
        self.scan(py, self.span(start, stop, prefix)?, reverse, options::limit(limit)?, What::Items)
    }

    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false, limit=None))]
    fn range_keys(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
        limit: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Scan> {
        self.scan(py, self.span(start, stop, prefix)?, reverse, options::limit(limit)?, What::Keys)
    }

    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false, limit=None))]
    fn range_values(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
        limit: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Scan> {
        self.scan(py, self.span(start, stop, prefix)?, reverse, options::limit(limit)?, What::Values)
    }

    /// Returns a cursor over the records of a range.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None))]
    fn cursor(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Cursor> {
        let span = self.span(start, stop, prefix)?;
        Cursor::new(py, &self.source, self.table.clone(), (self.key, self.value), span)
    }

    /// Returns the records of a range as a source of Arrow, with the columns `key` and `value`.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None))]
    fn arrow(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Arrow> {
        let span = self.span(start, stop, prefix)?;
        let held = self.source.held(py)?;
        Ok(Arrow::of_records(held, self.table.clone(), (self.key, self.value), span))
    }

    /// Returns the values of many keys, in their order; `None` for keys that do not exist.
    fn multi_get<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let given = keys.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        let encoded = given.iter().map(|key| self.key.encode(key)).collect::<PyResult<Vec<_>>>()?;
        let values = self.source.read(py, |reads| {
            encoded.iter().map(|key| reads.get(&self.table, key)).collect::<pando::Result<Vec<_>>>()
        })?;
        let list = PyList::empty(py);
        for value in values {
            list.append(value.map(|value| self.value.decode(py, &value)).transpose()?)?;
        }
        Ok(list)
    }
}
