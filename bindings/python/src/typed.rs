//! Typed tables: rows as tuples of the values of their columns. `pando/_typed.py` makes objects of them.

use crate::arrow::Arrow;
use crate::cells;
use crate::database::Database;
use crate::errors;
use crate::guard::{in_use, run};
use crate::options;
use crate::source::Source;
use crate::typed_reads::{AskedRows, write_current};
use pando::Transaction;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList, PyTuple};
use rows::{Column, ColumnType, Definition, DynamicRow, DynamicTable, Index, IndexDefinition, Part, Value};
use std::ops::Bound as End;
use std::sync::{Arc, Mutex};
use std::vec;

/// The rows of the first chunk of a scan, and the most of any; and of a batch that is written.
const FIRST_ROWS: usize = 16;
const MOST_ROWS: usize = 1024;

/// A typed table of a database, of a snapshot or of a transaction.
#[pyclass(frozen, module = "pando._pando")]
pub struct TypedView {
    source: Source,
    table: DynamicTable,
    columns: Vec<(String, ColumnType)>,
}

/// A column: its name, its type, whether it can be null, and the value that rows have which lack it.
type AskedColumn<'py> = (String, String, bool, Option<Bound<'py, PyAny>>);

/// Returns the typed table `name` of a database, and creates or extends it according to the columns and indexes.
#[pyfunction]
#[pyo3(name = "_ensure_typed")]
pub fn ensure(
    py: Python<'_>,
    db: &Bound<'_, Database>,
    name: &str,
    columns: Vec<AskedColumn<'_>>,
    key: Vec<String>,
    indexes: Vec<(String, String, bool)>,
) -> PyResult<TypedView> {
    let mut definition = Definition::new(name);
    for (column, kind, nullable, default) in columns {
        let kind = ColumnType::from_name(&kind)
            .ok_or_else(|| PyTypeError::new_err(format!("column {column:?}: there is no type {kind:?}")))?;
        let mut made = Column::new(&column, kind);
        if nullable {
            made = made.nullable();
        }
        if let Some(default) = default.filter(|default| !default.is_none()) {
            made = made.default(cells::value_of(&default, kind, &column)?);
        }
        definition = definition.column(made);
    }
    definition = definition.key(key.iter().map(|part| Part::parse(part)));
    for (name, parts, is_unique) in indexes {
        let index = IndexDefinition::on(name, &parts);
        definition = definition.index(if is_unique { index.unique() } else { index });
    }
    let handle = db.get().handle();
    let open = handle.open(py)?;
    let table = run(py, || Ok(DynamicTable::ensure(open, &definition)?))?;
    Ok(TypedView::of(Source::Database(Arc::clone(handle)), table))
}

/// A range as Python gives it.
struct Given<'a, 'py> {
    start: Option<&'a Bound<'py, PyAny>>,
    stop: Option<&'a Bound<'py, PyAny>>,
    prefix: Option<&'a Bound<'py, PyAny>>,
    index: Option<String>,
    reverse: bool,
}

impl TypedView {
    fn of(source: Source, table: DynamicTable) -> Self {
        let columns = table.schema().columns();
        let columns = columns.map(|column| (column.name().to_owned(), column.column_type())).collect();
        TypedView { source, table, columns }
    }

    /// The values of a row.
    fn row(&self, row: &Bound<'_, PyAny>) -> PyResult<DynamicRow> {
        let row = row.cast::<PyTuple>().map_err(|_| PyTypeError::new_err("a row is a tuple of values"))?;
        if row.len() != self.columns.len() {
            let (given, wanted) = (row.len(), self.columns.len());
            return Err(PyTypeError::new_err(format!("the row has {given} values, not {wanted}")));
        }
        row.iter()
            .zip(&self.columns)
            .map(|(value, (name, kind))| cells::value_of(&value, *kind, name))
            .collect()
    }

    /// The values of the first parts of the primary key: a tuple, or one value.
    fn key_of(&self, given: &Bound<'_, PyAny>) -> PyResult<DynamicRow> {
        self.parts(self.table.schema().key(), given)
    }

    fn parts(&self, parts: &[Part], given: &Bound<'_, PyAny>) -> PyResult<DynamicRow> {
        let values: Vec<Bound<'_, PyAny>> = match given.cast::<PyTuple>() {
            Ok(tuple) => tuple.iter().collect(),
            Err(_) => vec![given.clone()],
        };
        if values.len() > parts.len() {
            let (given, most) = (values.len(), parts.len());
            return Err(PyTypeError::new_err(format!(
                "there are {given} values, but the key has {most} parts"
            )));
        }
        let value = |(value, part): (Bound<'_, PyAny>, &Part)| {
            let column = self.columns.iter().find(|(name, _)| name == part.column());
            // What lies at a path of a document has any type.
            let kind = column.filter(|_| part.pointer().is_none()).map_or(ColumnType::Any, |(_, kind)| *kind);
            cells::value_of(&value, kind, part.column())
        };
        values.into_iter().zip(parts).map(value).collect()
    }

    /// The table, with the index of this name; it may have been made after the table was opened.
    fn with_index(&self, py: Python<'_>, index: Option<&str>) -> PyResult<DynamicTable> {
        let has = |table: &DynamicTable| index.is_none_or(|index| table.schema().index(index).is_some());
        if has(&self.table) {
            return Ok(self.table.clone());
        }
        let name = self.table.name();
        let table = self.source.read(py, |reads| reads.typed_table(name))?;
        if has(&table) {
            return Ok(table);
        }
        let message = format!("table {name:?} has no index {:?}", index.unwrap_or_default());
        Err(errors::named(py, "MissingError", message))
    }

    /// The table to read, and what to read of it.
    fn asked(&self, py: Python<'_>, given: Given<'_, '_>) -> PyResult<(DynamicTable, AskedRows)> {
        let Given { start, stop, prefix, index, reverse } = given;
        let table = self.with_index(py, index.as_deref())?;
        let schema = table.schema();
        let known = index.as_deref().and_then(|index| schema.index(index)).map(Index::parts);
        let parts = |given| self.parts(known.unwrap_or(schema.key()), given);
        let (low, high) = match prefix {
            Some(_) if start.is_some() || stop.is_some() => {
                return Err(PyTypeError::new_err("give either prefix or start and stop"));
            }
            Some(prefix) => {
                let prefix = parts(prefix)?;
                (End::Included(prefix.clone()), End::Included(prefix))
            }
            None => (
                start.map_or(Ok(End::Unbounded), |start| parts(start).map(End::Included))?,
                stop.map_or(Ok(End::Unbounded), |stop| parts(stop).map(End::Excluded))?,
            ),
        };
        let asked = AskedRows { index, low, high, reverse, beyond: None };
        Ok((table, asked))
    }

    fn write<T: Send>(
        &self,
        py: Python<'_>,
        work: impl Fn(&DynamicTable, &mut Transaction) -> pando::Result<T> + Send + Sync,
    ) -> PyResult<T> {
        let table = &self.table;
        self.source.write(py, |tx| write_current(tx, table, &work))
    }

    /// The next rows of an iterator, up to a bound; empty at its end.
    fn batch(&self, rows: &Bound<'_, PyIterator>) -> PyResult<Vec<DynamicRow>> {
        rows.clone().take(MOST_ROWS).map(|row| self.row(&row?)).collect()
    }
}

#[pymethods]
impl TypedView {
    #[new]
    fn new(source: &Bound<'_, PyAny>, table: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = source.py();
        let source = Source::of(source)?;
        if let Ok(other) = table.cast::<TypedView>() {
            let other = other.get();
            if !std::ptr::eq(&**other.source.handle(), &**source.handle()) {
                return Err(errors::named(py, "InvalidError", "the table belongs to another database"));
            }
            return Ok(TypedView::of(source, other.table.clone()));
        }
        let name: String = table.extract()?;
        let table = source.read(py, |reads| reads.typed_table(&name))?;
        Ok(TypedView::of(source, table))
    }

    #[getter]
    fn name(&self) -> &str {
        self.table.name()
    }

    /// The names, types, and whether they can be null, of the columns.
    #[getter]
    fn columns(&self) -> Vec<(&str, &'static str, bool)> {
        let columns = self.table.schema().columns();
        columns.map(|column| (column.name(), column.column_type().name(), column.is_nullable())).collect()
    }

    /// The columns of the primary key.
    #[getter]
    fn key(&self) -> Vec<&str> {
        self.table.schema().key().iter().map(Part::column).collect()
    }

    /// Inserts a row; `ExistsError` if its primary key exists.
    fn insert(&self, row: &Bound<'_, PyAny>) -> PyResult<()> {
        let values = self.row(row)?;
        self.write(row.py(), |table, tx| table.insert(tx, &values))
    }

    /// Inserts many rows in one transaction. Returns how many there were.
    fn insert_many(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<u64> {
        let rows = rows.try_iter()?;
        let table = &self.table;
        self.source.within(py, |begun| {
            let mut count = 0;
            loop {
                let batch = self.batch(&rows)?;
                if batch.is_empty() {
                    return Ok(count);
                }
                count += batch.len() as u64;
                begun.with(py, |tx| {
                    write_current(tx, table, |table, tx| {
                        batch.iter().try_for_each(|row| table.insert(tx, row))
                    })
                })?;
            }
        })
    }

    /// Puts a row, whether or not its primary key exists.
    fn upsert(&self, row: &Bound<'_, PyAny>) -> PyResult<()> {
        let values = self.row(row)?;
        self.write(row.py(), |table, tx| table.upsert(tx, &values))
    }

    /// Replaces the row with the same primary key. Returns whether there was one.
    fn update(&self, row: &Bound<'_, PyAny>) -> PyResult<bool> {
        let values = self.row(row)?;
        self.write(row.py(), |table, tx| table.update(tx, &values))
    }

    /// Deletes the row at a primary key. Returns whether there was one.
    fn delete(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let values = self.key_of(key)?;
        self.write(key.py(), |table, tx| table.delete(tx, &values))
    }

    /// Deletes the row at a primary key, and returns it.
    fn remove<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let values = self.key_of(key)?;
        let removed = self.write(key.py(), |table, tx| table.remove(tx, &values))?;
        removed.map(|row| cells::tuple(key.py(), &row)).transpose()
    }

    /// Deletes all rows.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.write(py, |table, tx| table.clear(tx))
    }

    /// Returns the row at a primary key.
    fn get<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let (py, values) = (key.py(), self.key_of(key)?);
        let row = self.source.read(py, |reads| reads.row(&self.table, &values))?;
        row.map(|row| cells::tuple(py, &row)).transpose()
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let values = self.key_of(key)?;
        self.source.read(key.py(), |reads| reads.has_row(&self.table, &values))
    }

    /// Returns an iterator over the rows of a range.
    #[allow(clippy::too_many_arguments, reason = "each is a keyword of Python's")]
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, index=None, reverse=false, limit=None))]
    fn scan(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        index: Option<String>,
        reverse: bool,
        limit: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<TypedScan> {
        let (table, asked) = self.asked(py, Given { start, stop, prefix, index, reverse })?;
        let left = options::limit(limit)?.unwrap_or(u64::MAX);
        let state =
            State { asked, left, next_rows: FIRST_ROWS, has_more: left > 0, at_hand: Vec::new().into_iter() };
        let source = self.source.at_one_moment(py)?;
        Ok(TypedScan { source, table, state: Mutex::new(state) })
    }

    /// Counts the rows of a range.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, index=None))]
    fn count(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        index: Option<String>,
    ) -> PyResult<u64> {
        let (table, asked) = self.asked(py, Given { start, stop, prefix, index, reverse: false })?;
        self.source.read(py, |reads| reads.count_rows(&table, &asked))
    }

    /// Returns all rows as a source of Arrow.
    fn arrow(&self, py: Python<'_>) -> PyResult<Arrow> {
        let held = self.source.held(py)?;
        // The handle may be older than the snapshot, whose columns count.
        let table = held.read(py, |snapshot| DynamicTable::expect(snapshot, self.table.name()))?;
        Ok(Arrow::of_typed(held, table))
    }
}

/// An iterator over rows, as tuples.
#[pyclass(frozen, module = "pando._pando")]
pub struct TypedScan {
    source: Source,
    table: DynamicTable,
    state: Mutex<State>,
}

struct State {
    asked: AskedRows,
    /// How many rows may still be read.
    left: u64,
    next_rows: usize,
    has_more: bool,
    at_hand: vec::IntoIter<Vec<Value<'static>>>,
}

impl TypedScan {
    /// Reads the next chunk, if no row is at hand.
    fn ready(&self, py: Python<'_>, state: &mut State) -> PyResult<()> {
        if state.at_hand.len() > 0 || !state.has_more {
            return Ok(());
        }
        let most = state.next_rows.min(usize::try_from(state.left).unwrap_or(usize::MAX));
        let (table, asked) = (&self.table, &state.asked);
        let (rows, position) = self.source.read(py, |reads| reads.rows(table, asked, most))?;
        state.left -= rows.len() as u64;
        state.has_more = position.is_some() && state.left > 0;
        state.next_rows = (most * 2).min(MOST_ROWS);
        state.asked.beyond = position;
        state.at_hand = rows.into_iter();
        Ok(())
    }
}

#[pymethods]
impl TypedScan {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.source.check(py)?;
        let mut state = self.state.try_lock().map_err(|_| in_use(py, "the iterator"))?;
        self.ready(py, &mut state)?;
        state.at_hand.next().map(|row| cells::tuple(py, &row)).transpose()
    }

    /// Returns what the next chunk holds, as a list; an empty one at the end.
    fn chunk<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.source.check(py)?;
        let mut state = self.state.try_lock().map_err(|_| in_use(py, "the iterator"))?;
        self.ready(py, &mut state)?;
        let rows = state.at_hand.by_ref().map(|row| cells::tuple(py, &row)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, rows)
    }
}
