//! Tables that SQLite made (`pando-db-sqlite`), as typed tables.
//!
//! Such a table keeps SQLite's records, and an index of it keeps records under keys in their order: `sqlite-format` has
//! the bytes. Its definition is the text in `sqlite_schema`, from which the schema of a handle is derived:
//!
//! | in SQLite | in the schema |
//! |---|---|
//! | the rowid | the key: the column that stands for it, or else a first column `rowid` |
//! | the primary key of a `WITHOUT ROWID` table | the key |
//! | a column with affinity INTEGER, TEXT, REAL, or with the type BLOB | of type int, text, float, bytes |
//! | any other column | of type any |
//! | an index on columns, also that of a constraint | an index. Partial ones and those on expressions are not shown |
//! | the schema cookie | the version |
//!
//! 1. *Types.* SQLite lets a column hold a value of another type. Reading such a value is an error that names the row
//!    and the column, because no value of the column's type would be right.
//! 2. *Writing* is possible if SQLite would do no more than store the row and its entries: [`Writing`] says why not.
//!    What is written is what SQLite's own `INSERT` stores.
//! 3. *Stale handles.* Each call compares the schema cookie of its reader with that of the handle. In a serializable
//!    transaction the comparison is a read, so that the transaction conflicts with a change of a definition. A write
//!    uses the empty table with the cookie in its name, which each change of a definition renames; so it conflicts at
//!    every isolation level.
//! 4. *Long keys.* SQLite's keys of more than 896 bytes are cut, and those that begin in the same way have no order. A
//!    scan that meets one is refused, and so is a row that would need one.
//!
//! This file has the rows and entries of a table as they are read, `stored.rs` as they are written, `values.rs` their
//! values, `derive.rs` the schema, `problem.rs` the errors. `open.rs`, outside of this module, looks up tables.

mod derive;
mod problem;
mod stored;
mod values;

pub(crate) use derive::Derived;
pub(crate) use problem::Problem;
pub(crate) use stored::{Entry, Fields};

use crate::value::{ColumnType, Value};
use pando::{ReadTables, Table};
use sqlite_format::definition::Affinity;
use sqlite_format::key::{self, Shape};
use sqlite_format::names;
use sqlite_format::record::{self, Field};
use values::value_of;

/// How the rows of a table of SQLite are stored.
#[derive(Debug)]
pub(crate) struct Storage {
    /// The table of the meta values.
    meta: Table,
    /// The schema cookie when the handle was opened.
    cookie: u32,
    columns: Vec<Stored>,
    /// The primary key of a `WITHOUT ROWID` table.
    key: Option<PrimaryKey>,
    /// The places of the fields of a record. `None`: the field is null, because the rowid stands for the column.
    record: Vec<Option<usize>>,
    writing: Writing,
}

/// The empty table that has the schema cookie in its name, which a writer uses; or the reason why only SQL can write.
pub(crate) type Writing = Result<Table, String>;

/// The primary key of a `WITHOUT ROWID` table.
#[derive(Debug)]
struct PrimaryKey {
    shape: Shape,
    /// The places of its columns.
    places: Vec<usize>,
}

/// How a column is stored.
#[derive(Clone, Debug)]
struct Stored {
    kind: ColumnType,
    affinity: Affinity,
    source: Source,
}

/// Where the value of a column is.
#[derive(Clone, Debug)]
enum Source {
    Rowid,
    /// The field of this number. A shorter record lacks it; then the value is this default. `None`: the default is not
    /// a plain value.
    Field(usize, Option<Value<'static>>),
}

/// How the entries of an index of SQLite are stored.
#[derive(Debug)]
pub(crate) struct IndexStorage {
    shape: Shape,
    /// The numbers of the fields of an entry that are the primary key. `None`: its last field is the rowid.
    primary: Option<Vec<usize>>,
    /// The places of the fields of an entry.
    places: Vec<usize>,
    /// How many of the first fields are the columns of the index.
    own_fields: usize,
}

impl Storage {
    /// Returns whether rows are stored by a rowid, whose key has the bytes of an integer's.
    pub fn has_rowid(&self) -> bool {
        self.key.is_none()
    }

    /// Returns whether no definition has changed since the handle was opened.
    pub fn is_current(&self, reader: &impl ReadTables) -> pando::Result<bool> {
        let is_same = |value: &[u8]| value == self.cookie.to_be_bytes();
        Ok(reader.get_with(&self.meta, names::COOKIE, is_same)?.unwrap_or(false))
    }

    /// Appends part `number` of the primary key of a `WITHOUT ROWID` table.
    pub fn push(&self, out: &mut Vec<u8>, number: usize, value: &Value<'_>) -> Result<(), Problem> {
        match &self.key {
            Some(key) => self.push_in(&key.shape, key.places[number], out, number, value),
            None => Err(Problem::Key),
        }
    }

    /// Appends part `number` of an entry of an index.
    pub fn push_in_index(
        &self,
        index: &IndexStorage,
        out: &mut Vec<u8>,
        number: usize,
        value: &Value<'_>,
    ) -> Result<(), Problem> {
        self.push_in(&index.shape, index.places[number], out, number, value)
    }

    fn push_in(
        &self,
        shape: &Shape,
        place: usize,
        out: &mut Vec<u8>,
        number: usize,
        value: &Value<'_>,
    ) -> Result<(), Problem> {
        let field = values::stored(value, self.columns[place].affinity);
        shape.push(out, number, &field.map_err(|what| Problem::Unstorable(place, what))?);
        check_length(out)
    }

    /// Returns what a writer uses, or why only SQL can write.
    pub fn writing(&self) -> Result<&Table, &str> {
        self.writing.as_ref().map_err(String::as_str)
    }

    /// Decodes a row.
    pub fn decode<'a>(&'a self, key: &[u8], row: &'a [u8]) -> Result<Vec<Value<'a>>, Problem> {
        self.check_key(key)?;
        let fields = record::fields(row)?.collect::<Result<Vec<_>, _>>()?;
        let field = |stored: &Stored| match stored.source {
            Source::Rowid => None,
            Source::Field(at, _) => fields.get(at).copied(),
        };
        let columns = self.columns.iter().enumerate();
        columns.map(|(place, stored)| self.value(key, place, field(stored))).collect()
    }

    /// Returns the value of the column at `place`, decoded alone.
    pub fn value_at<'a>(&'a self, key: &[u8], row: &'a [u8], place: usize) -> Result<Value<'a>, Problem> {
        self.check_key(key)?;
        let field = match self.columns[place].source {
            Source::Rowid => None,
            Source::Field(at, _) => {
                let mut fields = record::fields(row)?;
                // `nth` would pass over an error, and the row would look as if it lacked the column.
                fields.by_ref().take(at).try_for_each(|field| field.map(drop))?;
                fields.next().transpose()?
            }
        };
        self.value(key, place, field)
    }

    fn value<'a>(&'a self, key: &[u8], place: usize, field: Option<Field<'a>>) -> Result<Value<'a>, Problem> {
        let Stored { kind, source, .. } = &self.columns[place];
        let unfit = |misfit| Problem::Unfit(place, misfit);
        match (source, field) {
            (Source::Rowid, _) => key::rowid_of(key, &[]).map(Value::Int).ok_or(Problem::Key),
            (Source::Field(..), Some(field)) => value_of(*kind, field).map_err(unfit),
            (Source::Field(_, Some(default)), None) => values::fitting(*kind, default).map_err(unfit),
            (Source::Field(_, None), None) => Err(unfit(values::Misfit::NoDefault)),
        }
    }

    /// Rows under keys that are cut are not in the order of the key.
    fn check_key(&self, key: &[u8]) -> Result<(), Problem> {
        if self.key.is_some() { check_length(key) } else { Ok(()) }
    }

    /// Returns the primary key to which an entry of an index leads. `record` is the entry's value.
    pub fn primary(&self, index: &IndexStorage, entry: &[u8], record: &[u8]) -> Result<Vec<u8>, Problem> {
        check_length(entry)?;
        let fields = record::fields(record)?.collect::<Result<Vec<_>, _>>()?;
        let (Some(primary), Some(PrimaryKey { shape, .. })) = (&index.primary, &self.key) else {
            return match fields.last() {
                Some(Field::Integer(rowid)) => Ok(key::of_rowid(*rowid).to_vec()),
                _ => Err(Problem::Row),
            };
        };
        let mut key = Vec::with_capacity(entry.len());
        for (number, &field) in primary.iter().enumerate() {
            shape.push(&mut key, number, fields.get(field).ok_or(Problem::Row)?);
        }
        check_length(&key)?;
        Ok(key)
    }
}

/// Refuses keys that are longer than what has an order.
fn check_length(key: &[u8]) -> Result<(), Problem> {
    if key::is_cut(key.len()) { Err(Problem::TooLong) } else { Ok(()) }
}
