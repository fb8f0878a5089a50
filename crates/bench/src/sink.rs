//! The destination of inserts: a table of bytes, or a typed table whose rows have an integer as the primary key, and
//! optionally a text. The integer is unsigned, except in tables that SQL created.

use crate::Outcome;
use crate::settings::{Api, Settings};
use pando::{Database, Transaction};
use rows::{Column, ColumnType, Definition, DynamicTable, Value};

/// A table, by the type of its records.
#[derive(Clone, Debug)]
pub enum Sink {
    /// A table of keys and values of bytes.
    Bytes(pando::Table),
    /// A table of rows.
    Rows(DynamicTable),
    /// A table of rows that are written through SQL. [`Sink::insert`] does not use SQL.
    #[cfg(feature = "sql")]
    Sql(DynamicTable, sql::Sql),
}

impl Sink {
    /// Creates a table in a transaction of its own: see [`Sink::create`].
    pub fn new(db: &Database, settings: &Settings, with_text: bool) -> Outcome<Self> {
        #[cfg(feature = "sql")]
        if settings.api == Api::Sql {
            return crate::through_sql::create(db, with_text);
        }
        let mut tx = db.begin()?;
        let sink = Sink::create(&mut tx, settings, with_text)?;
        tx.commit()?;
        Ok(sink)
    }

    /// Creates a table of bytes or of rows, with or without a text. Typed tables are always B+trees, regardless of
    /// `--layout`.
    pub fn create(tx: &mut Transaction, settings: &Settings, with_text: bool) -> Outcome<Self> {
        if settings.api == Api::Bytes {
            return Ok(Sink::Bytes(tx.create_table("rows", &settings.table_options())?));
        }
        let definition = Definition::new("rows").column(Column::new("id", ColumnType::UInt)).key(["id"]);
        let text = Column::new("data", ColumnType::Text);
        let definition = if with_text { definition.column(text) } else { definition };
        Ok(Sink::Rows(DynamicTable::create(tx, &definition)?))
    }

    /// Inserts a record of bytes, or the row of that id.
    #[inline]
    pub fn insert(&self, tx: &mut Transaction, id: u64, key: &[u8], text: Option<&str>) -> pando::Result<()> {
        match (self, text) {
            (Sink::Bytes(table), text) => tx.insert(table, key, text.unwrap_or_default().as_bytes()),
            (Sink::Rows(table), Some(text)) => table.insert(tx, &[Value::UInt(id), Value::from(text)]),
            (Sink::Rows(table), None) => table.insert(tx, &[Value::UInt(id)]),
            #[cfg(feature = "sql")]
            (Sink::Sql(table, _), Some(text)) => {
                table.insert(tx, &[Value::Int(id as i64), Value::from(text)])
            }
            #[cfg(feature = "sql")]
            (Sink::Sql(table, _), None) => table.insert(tx, &[Value::Int(id as i64)]),
        }
    }

    /// Returns the engine's table of the records.
    pub fn table(&self) -> &pando::Table {
        match self {
            Sink::Bytes(table) => table,
            Sink::Rows(table) => table.data(),
            #[cfg(feature = "sql")]
            Sink::Sql(table, _) => table.data(),
        }
    }

    /// Appends to `key` and `value` the bytes that the engine stores for a record: see the key and row codecs of
    /// `rows`, and [SQLite's record format](https://sqlite.org/fileformat.html#record_format).
    pub fn record(&self, id: u64, bytes: &[u8], text: Option<&str>, key: &mut Vec<u8>, value: &mut Vec<u8>) {
        match self {
            Sink::Bytes(_) => {
                key.extend_from_slice(bytes);
                value.extend_from_slice(text.unwrap_or_default().as_bytes());
                return;
            }
            Sink::Rows(_) => key.extend_from_slice(&id.to_be_bytes()),
            #[cfg(feature = "sql")]
            Sink::Sql(..) => {
                key.extend_from_slice(&pando::keys::i64_key(id as i64));
                return put_sql_record(text, value);
            }
        }
        value.push(1);
        if let Some(text) = text {
            // The text is shorter than 128 bytes, so its length takes one byte.
            value.push(text.len() as u8);
            value.extend_from_slice(text.as_bytes());
        }
    }

    /// Returns the name of a case.
    pub fn case(&self, case: &str) -> String {
        let api = match self {
            Sink::Bytes(_) => Api::Bytes,
            Sink::Rows(_) => Api::Rows,
            #[cfg(feature = "sql")]
            Sink::Sql(..) => Api::Sql,
        };
        format!("{case}{}", api.suffix())
    }
}

/// Appends SQLite's record of a row. Its id is the key, and null in the record.
#[cfg(feature = "sql")]
fn put_sql_record(text: Option<&str>, value: &mut Vec<u8>) {
    const NULL: u8 = 0;
    let Some(text) = text else { return value.extend([2, NULL]) };
    // The text is shorter than 128 bytes, so that its type takes at most two.
    match 13 + 2 * text.len() {
        kind @ ..128 => value.extend([3, NULL, kind as u8]),
        kind => value.extend([4, NULL, 0x80 | (kind >> 7) as u8, (kind & 0x7f) as u8]),
    }
    value.extend_from_slice(text.as_bytes());
}
