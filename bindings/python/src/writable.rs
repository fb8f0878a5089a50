//! The writes of a table, beside the reads of `view.rs`.

use crate::guard::run;
use crate::options::seconds;
use crate::view::{View, pairs};
use pando::Span;
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

/// How much is read from a file at a time: a piece of a long value.
const PIECE_BYTES: usize = 256 << 10;

/// The reads and writes of a table.
#[pyclass(extends = View, subclass, frozen, generic, module = "pando._pando")]
pub struct WritableView;

#[pymethods]
impl WritableView {
    #[new]
    #[pyo3(signature = (source, table, *, key=None, value=None, create=false))]
    fn new(
        source: &Bound<'_, PyAny>,
        table: &Bound<'_, PyAny>,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        create: bool,
    ) -> PyResult<PyClassInitializer<Self>> {
        let view = View::made(source, table, key, value, create)?;
        Ok(PyClassInitializer::from(view).add_subclass(WritableView))
    }

    fn __setitem__(this: PyRef<'_, Self>, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        Self::put(this, key, value, None)
    }

    fn __delitem__(this: PyRef<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let (view, table) = (this.as_super(), &this.as_super().table);
        let encoded = view.key.encode(key)?;
        let existed = view.source.write(key.py(), |tx| {
            let exists = tx.contains(table, &encoded)?;
            if exists {
                tx.delete(table, &encoded)?;
            }
            Ok(exists)
        })?;
        if existed { Ok(()) } else { Err(PyKeyError::new_err(key.clone().unbind())) }
    }

    /// Sets `key` to `value`. With `ttl` the entry expires after so many seconds.
    #[pyo3(signature = (key, value, *, ttl=None))]
    fn put(
        this: PyRef<'_, Self>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let view = this.as_super();
        let (encoded, bytes) = (view.key.encode(key)?, view.value.encode(value)?);
        let ttl = ttl.map(|ttl| seconds("ttl", ttl)).transpose()?;
        let table = &view.table;
        view.source.write(key.py(), |tx| match ttl {
            Some(ttl) => tx.put_with_ttl(table, &encoded, &bytes, ttl),
            None => tx.put(table, &encoded, &bytes),
        })
    }

    /// Sets `key` to everything that the binary file `file` yields, a piece at a time. Returns the number of bytes.
    /// The TTL counts from the beginning of writing. A table of a database reads the file before it begins the
    /// transaction that puts the value. A transaction that runs again must open the file again.
    #[pyo3(signature = (key, file, *, ttl=None))]
    fn put_file(
        this: PyRef<'_, Self>,
        key: &Bound<'_, PyAny>,
        file: &Bound<'_, PyAny>,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let (view, py) = (this.as_super(), key.py());
        let (encoded, table) = (view.key.encode(key)?, &view.table);
        let ttl = ttl.map(|ttl| seconds("ttl", ttl)).transpose()?;
        let mut writer = view.source.within(py, |begun| {
            begun.with(py, |tx| match ttl {
                Some(ttl) => tx.owned_value_writer_with_ttl(table, &encoded, ttl),
                None => tx.owned_value_writer(table, &encoded),
            })
        })?;
        loop {
            let read = file.call_method1("read", (PIECE_BYTES,))?;
            let wrong = |_| PyTypeError::new_err("the file must be a binary one, whose read returns bytes");
            let piece = read.cast::<PyBytes>().map_err(wrong)?.as_bytes();
            if piece.is_empty() {
                break;
            }
            run(py, || Ok(writer.append(piece)?))?;
        }
        view.source.within(py, |begun| begun.with(py, |tx| tx.finish_value(writer)))
    }

    /// Lets the entry of `key` expire after `ttl` seconds; `None`: never. `KeyError` if it does not exist.
    fn set_expiry(
        this: PyRef<'_, Self>,
        key: &Bound<'_, PyAny>,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let view = this.as_super();
        let (encoded, table) = (view.key.encode(key)?, &view.table);
        let ttl = ttl.map(|ttl| seconds("ttl", ttl)).transpose()?;
        let existed = view.source.write(key.py(), |tx| tx.set_expiry(table, &encoded, ttl))?;
        if existed { Ok(()) } else { Err(PyKeyError::new_err(key.clone().unbind())) }
    }

    /// Sets `key` to `value` if the key does not exist; `ExistsError` if it does.
    fn insert(this: PyRef<'_, Self>, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let view = this.as_super();
        let (encoded, bytes) = (view.key.encode(key)?, view.value.encode(value)?);
        let table = &view.table;
        view.source.write(key.py(), |tx| tx.insert(table, &encoded, &bytes))
    }

    /// Deletes `key`, whether or not it exists.
    fn delete(this: PyRef<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let view = this.as_super();
        let (encoded, table) = (view.key.encode(key)?, &view.table);
        view.source.write(key.py(), |tx| tx.delete(table, &encoded))
    }

    /// Deletes `key` and returns the value that it had, or `None`.
    fn remove<'py>(this: PyRef<'py, Self>, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let view = this.as_super();
        let (encoded, table) = (view.key.encode(key)?, &view.table);
        let removed = view.source.write(key.py(), |tx| tx.remove(table, &encoded))?;
        removed.map(|value| view.value.decode(key.py(), &value)).transpose()
    }

    /// Removes `key` and returns its value in a tuple, or `None` if the key does not exist. A value may itself decode
    /// to `None`, as JSON's `null` does, so the tuple makes the difference.
    fn _pop<'py>(this: PyRef<'py, Self>, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let py = key.py();
        let view = this.as_super();
        let (encoded, table) = (view.key.encode(key)?, &view.table);
        let Some(value) = view.source.write(py, |tx| tx.remove(table, &encoded))? else { return Ok(None) };
        PyTuple::new(py, [view.value.decode(py, &value)?]).map(Some)
    }

    /// Sets `key` to `value` if it does not exist. Returns the value that it then has.
    fn _get_or_put<'py>(
        this: PyRef<'py, Self>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let view = this.as_super();
        let (encoded, bytes) = (view.key.encode(key)?, view.value.encode(value)?);
        let table = &view.table;
        let found = view.source.write(key.py(), |tx| {
            let found = tx.get(table, &encoded)?;
            if found.is_none() {
                tx.put(table, &encoded, &bytes)?;
            }
            Ok(found)
        })?;
        found.map_or(Ok(value.clone()), |found| view.value.decode(key.py(), &found))
    }

    /// Deletes the record with the smallest or largest key and returns it, or `None` if there is none.
    fn _pop_end<'py>(
        this: PyRef<'py, Self>,
        py: Python<'py>,
        last: bool,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let view = this.as_super();
        let table = &view.table;
        let popped = view.source.write(py, |tx| {
            let record = {
                let mut cursor = tx.cursor(table, Span::all())?;
                let lent = if last { cursor.prev()? } else { cursor.next()? };
                lent.map(|(key, value)| (key.to_vec(), value.to_vec()))
            };
            if let Some((key, _)) = &record {
                tx.delete(table, key)?;
            }
            Ok(record)
        })?;
        let Some((key, value)) = popped else { return Ok(None) };
        PyTuple::new(py, [view.key.decode(py, &key)?, view.value.decode(py, &value)?]).map(Some)
    }

    /// Sets `key` to `new` if its value is `expected`; `None` means that the key does not exist. Returns whether it
    /// did. The stored bytes are compared: JSON with another order of keys differs, and 1 differs from 1.0.
    fn compare_and_swap(
        this: PyRef<'_, Self>,
        key: &Bound<'_, PyAny>,
        expected: Option<&Bound<'_, PyAny>>,
        new: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let view = this.as_super();
        let encoded = view.key.encode(key)?;
        let expected = expected.map(|value| view.value.encode(value)).transpose()?;
        let new = new.map(|value| view.value.encode(value)).transpose()?;
        let table = &view.table;
        view.source
            .write(key.py(), |tx| tx.compare_and_swap(table, &encoded, expected.as_deref(), new.as_deref()))
    }

    /// Deletes every key of a range without reading it.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None))]
    fn delete_range(
        this: PyRef<'_, Self>,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let view = this.as_super();
        let (span, table) = (view.span(start, stop, prefix)?, &view.table);
        view.source.write(py, |tx| tx.delete_range(table, span.clone()))
    }

    /// Deletes all records.
    fn clear(this: PyRef<'_, Self>, py: Python<'_>) -> PyResult<()> {
        Self::delete_range(this, py, None, None, None)
    }

    /// Puts many records, from a mapping or an iterable of pairs, in one transaction. Returns how many there were.
    fn put_many(this: PyRef<'_, Self>, py: Python<'_>, records: &Bound<'_, PyAny>) -> PyResult<u64> {
        let (view, records) = (this.as_super(), pairs(records)?);
        let table = &view.table;
        view.source.within(py, |begun| {
            let mut count = 0;
            loop {
                let batch = view.batch(&records)?;
                if batch.is_empty() {
                    return Ok(count);
                }
                count += batch.len() as u64;
                let put = |tx: &mut pando::Transaction| {
                    batch.iter().try_for_each(|(key, value)| tx.put(table, key, value))
                };
                begun.with(py, put)?;
            }
        })
    }

    /// Deletes many keys in one transaction.
    fn delete_many(this: PyRef<'_, Self>, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        let view = this.as_super();
        let encode = |key: PyResult<Bound<'_, PyAny>>| Ok(view.key.encode(&key?)?.into_owned());
        let keys = keys.try_iter()?.map(encode).collect::<PyResult<Vec<_>>>()?;
        let table = &view.table;
        view.source.write(py, |tx| keys.iter().try_for_each(|key| tx.delete(table, key)))
    }

    /// Loads records of any total size, in one transaction, with bounded memory. Returns how many there were.
    /// `progress` is called with the numbers of records and of their bytes, after each batch of at most 1,024 records.
    #[pyo3(signature = (records, *, progress=None))]
    fn bulk_load(
        this: PyRef<'_, Self>,
        py: Python<'_>,
        records: &Bound<'_, PyAny>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let progress = progress.map(|progress| progress.clone().unbind());
        let (mut taken, mut bytes) = (0, 0);
        let (view, records): (&View, _) = (this.as_super(), pairs(records)?.unbind());
        let table = &view.table;
        view.source.within(py, |begun| {
            let mut failed = None;
            let loaded = begun.with(py, |tx| {
                let mut batch = Vec::new().into_iter();
                let next = || {
                    if let Some(record) = batch.next() {
                        return Some(Ok(record));
                    }
                    let more = Python::attach(|py| {
                        py.check_signals()?;
                        if let Some(progress) = progress.as_ref().filter(|_| taken > 0) {
                            progress.call1(py, (taken, bytes))?;
                        }
                        view.batch(records.bind(py))
                    });
                    match more {
                        Ok(more) => {
                            taken += more.len();
                            bytes += more.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
                            batch = more.into_iter();
                            batch.next().map(Ok)
                        }
                        Err(error) => {
                            failed = Some(error);
                            Some(Err(pando::Error::invalid("the iterator of the records has failed")))
                        }
                    }
                };
                tx.bulk_load(table, std::iter::from_fn(next))
            });
            match failed {
                Some(error) => Err(error),
                None => loaded,
            }
        })
    }
}
