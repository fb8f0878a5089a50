//! Reads of typed tables from a snapshot or from a transaction, and writes in one, with handles that may be stale.
//!
//! Another program, or a statement of SQL, can change the schema of a table that is open here. The call that finds the
//! handle stale opens the table again, as long as it still has the same columns and key.

use pando::{Error, ErrorKind, ReadTables, Result, Transaction};
use rows::{Cause, DynamicRow, DynamicTable, KeyRange, Position, Value};
use std::ops::Bound;

/// A chunk of rows ends after so many bytes of texts and bytes.
const CHUNK_BYTES: usize = 512 << 10;

/// Which rows to read, and in which order.
#[derive(Clone, Debug)]
pub struct AskedRows {
    /// The index in whose order they are; `None`: in that of the primary key.
    pub index: Option<String>,
    /// The bounds: values of the first parts.
    pub low: Bound<Vec<Value<'static>>>,
    /// The end.
    pub high: Bound<Vec<Value<'static>>>,
    /// Whether the last row comes first.
    pub reverse: bool,
    /// The rows up to this position were read.
    pub beyond: Option<Position>,
}

impl AskedRows {
    fn range(&self) -> KeyRange<'_> {
        let range =
            KeyRange::between(self.low.as_ref().map(Vec::as_slice), self.high.as_ref().map(Vec::as_slice));
        let range = if self.reverse { range.backwards() } else { range };
        match &self.beyond {
            Some(position) => range.beyond(position.clone()),
            None => range,
        }
    }
}

/// Reads of typed tables, as an object.
pub trait RowReads {
    /// The typed table of this name.
    fn typed_table(&self, name: &str) -> Result<DynamicTable>;
    /// The row at a primary key.
    fn row(&self, table: &DynamicTable, key: &[Value<'_>]) -> Result<Option<DynamicRow>>;
    /// Whether there is a row at a primary key.
    fn has_row(&self, table: &DynamicTable, key: &[Value<'_>]) -> Result<bool>;
    /// The next rows, at most `most`, and the position after them; `None`: there are no further ones.
    fn rows(
        &self,
        table: &DynamicTable,
        asked: &AskedRows,
        most: usize,
    ) -> Result<(Vec<DynamicRow>, Option<Position>)>;
    /// The number of rows, counted one by one.
    fn count_rows(&self, table: &DynamicTable, asked: &AskedRows) -> Result<u64>;
}

impl<R: ReadTables> RowReads for R {
    fn typed_table(&self, name: &str) -> Result<DynamicTable> {
        DynamicTable::expect(self, name)
    }

    fn row(&self, table: &DynamicTable, key: &[Value<'_>]) -> Result<Option<DynamicRow>> {
        with_current(self, table, |table| table.get(self, key))
    }

    fn has_row(&self, table: &DynamicTable, key: &[Value<'_>]) -> Result<bool> {
        with_current(self, table, |table| table.contains(self, key))
    }

    fn rows(
        &self,
        table: &DynamicTable,
        asked: &AskedRows,
        most: usize,
    ) -> Result<(Vec<DynamicRow>, Option<Position>)> {
        with_current(self, table, |table| {
            let mut scan = match &asked.index {
                Some(index) => table.scan_index(self, index, &asked.range())?,
                None => table.scan(self, &asked.range())?,
            };
            let (mut rows, mut bytes) = (Vec::new(), 0);
            while let Some(row) = scan.next_row()? {
                bytes += row.iter().map(size_of).sum::<usize>();
                rows.push(row);
                if rows.len() >= most || bytes >= CHUNK_BYTES {
                    return Ok((rows, scan.position()));
                }
            }
            Ok((rows, None))
        })
    }

    fn count_rows(&self, table: &DynamicTable, asked: &AskedRows) -> Result<u64> {
        with_current(self, table, |table| table.count(self, asked.index.as_deref(), &asked.range()))
    }
}

fn size_of(value: &Value<'_>) -> usize {
    match value {
        Value::Text(text) | Value::Json(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 8,
    }
}

/// Runs `work` on the table, or, if the handle is stale, on the table as `reader` sees it.
fn with_current<R: ReadTables, T>(
    reader: &R,
    table: &DynamicTable,
    work: impl Fn(&DynamicTable) -> Result<T>,
) -> Result<T> {
    match work(table) {
        Err(error) if is_changed(&error) => work(&current(reader, table)?),
        done => done,
    }
}

/// Does the same with a transaction that `work` writes to.
pub fn write_current<T>(
    tx: &mut Transaction,
    table: &DynamicTable,
    work: impl Fn(&DynamicTable, &mut Transaction) -> Result<T>,
) -> Result<T> {
    match work(table, tx) {
        Err(error) if is_changed(&error) => work(&current(tx, table)?, tx),
        done => done,
    }
}

#[cold]
fn current<R: ReadTables>(reader: &R, stale: &DynamicTable) -> Result<DynamicTable> {
    let table = DynamicTable::expect(reader, stale.name())?;
    let columns = |table: &DynamicTable| {
        let columns = table.schema().columns();
        columns.map(|column| (column.name().to_owned(), column.column_type())).collect::<Vec<_>>()
    };
    if columns(&table) == columns(stale) && table.schema().key() == stale.schema().key() {
        return Ok(table);
    }
    let message = format!("table {:?} now has other columns or another key; open it again", stale.name());
    Err(Error::new(ErrorKind::Mismatch, message))
}

fn is_changed(error: &Error) -> bool {
    matches!(Cause::in_error(error), Some(Cause::SchemaChanged { .. }))
}
