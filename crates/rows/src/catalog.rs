//! The schemas of a database, in a table of the engine, `rows/catalog`.
//!
//! | key | value |
//! |---|---|
//! | `n` | the next table's id, a varint |
//! | `t`, then a name | the schema: `codec.rs` |
//! | `b`, a table's id, an index's id, 4 bytes each, big-endian | being built: the key of the last row that is in it |
//!
//! The engine's table `rows/ID.VERSION/NAME` holds the rows, and `rows/ID/INDEX/NAME` holds an index. The engine checks
//! at every use, by two comparisons, that a handle's table still exists under its name, and a commit conflicts if the
//! table was dropped or renamed meanwhile. So **every change of a schema renames the table of its rows**: a transaction
//! that uses an older schema fails, at the next call or at commit, at every isolation level, and no other call pays for
//! that.

use crate::codec;
use crate::reserved;
use crate::schema::{Index, Schema};
use base::codec::{Reader, Writer};
use pando::{Error, Isolation, ReadTables, RecordCursor, Result, Table, WriteTables};

pub(crate) const NAME: &str = "rows/catalog";
const NEXT_ID: &[u8] = b"n";
const SCHEMA: u8 = b't';
const BUILD: u8 = b'b';

/// Returns the engine's name for the rows of a schema.
pub(crate) fn data_name(schema: &Schema) -> String {
    format!("rows/{}.{}/{}", schema.id, schema.version, schema.name)
}

/// Returns the engine's name for an index.
pub(crate) fn index_name(schema: &Schema, index: &Index) -> String {
    format!("rows/{}/{}/{}", schema.id, index.id, index.name)
}

/// Returns the id and the name of the typed table whose rows are in the engine's table of this name. `None`: it is not
/// one for rows.
pub(crate) fn data_of(name: &str) -> Option<(u32, &str)> {
    let (ids, name) = name.strip_prefix(reserved::PREFIX)?.split_once('/')?;
    let (id, version) = ids.split_once('.')?;
    version.parse::<u32>().ok()?;
    Some((id.parse().ok()?, name))
}

fn schema_key(name: &str) -> Vec<u8> {
    [&[SCHEMA], name.as_bytes()].concat()
}

fn build_key(schema: &Schema, index: &Index) -> Vec<u8> {
    [&[BUILD][..], &schema.id.to_be_bytes(), &index.id.to_be_bytes()].concat()
}

/// Returns the name of the typed table whose schema is at `key` in the catalog. `None`: it is another record.
pub(crate) fn name_in(key: &[u8]) -> Option<&str> {
    str::from_utf8(key.strip_prefix(&[SCHEMA])?).ok()
}

/// Returns the schema in a record of the catalog. `None`: it is another record.
pub(crate) fn schema_in(key: &[u8], value: &[u8]) -> Result<Option<Schema>> {
    name_in(key).map(|name| codec::decode(name, value)).transpose()
}

/// Returns the catalog's table, and creates it with the first typed table.
fn made(tx: &mut impl WriteTables) -> Result<Table> {
    tx.ensure_table(NAME)
}

fn existing(reader: &impl ReadTables) -> Result<Table> {
    let missing =
        || Error::corruption(format!("table {NAME:?} is gone, and with it the schemas of all typed tables"));
    reader.table(NAME)?.ok_or_else(missing)
}

/// Returns an id that no typed table has had.
pub(crate) fn claim_id(tx: &mut impl WriteTables) -> Result<u32> {
    let table = made(tx)?;
    let next = tx.get_with(&table, NEXT_ID, |bytes| {
        let mut reader = Reader::new(bytes);
        reader.varint().filter(|_| reader.is_empty()).and_then(|id| u32::try_from(id).ok())
    })?;
    let damaged = || Error::corruption(format!("table {NAME:?}: the next table's id is damaged"));
    let id = next.unwrap_or(Some(1)).ok_or_else(damaged)?;
    let mut value = Vec::new();
    value.put_varint(u64::from(id) + 1);
    tx.put(&table, NEXT_ID, &value)?;
    Ok(id)
}

/// Makes the transaction conflict with others that create a typed table: if two of them look for a free name at the
/// same time, only one succeeds. A serializable transaction conflicts without this call, because of what it reads.
///
/// # Errors
/// Those of a write.
///
/// ```
/// # fn main() -> pando::Result<()> {
/// use pando::{Isolation, TransactionOptions};
/// use pando_rows::{Column, ColumnType, Definition, DynamicTable};
/// # let db = pando::Database::builder().in_memory()?;
/// let options = TransactionOptions { isolation: Isolation::Snapshot, ..Default::default() };
/// let mut tx = db.begin_with(&options)?;
/// pando_rows::exclude_new_tables(&mut tx)?;
/// assert!(DynamicTable::all_created(&tx)?.is_empty());
/// let fruit = Definition::new("fruit").column(Column::new("name", ColumnType::Text)).key(["name"]);
/// db.write(|tx| DynamicTable::create(tx, &fruit))?;
/// assert_eq!(tx.commit().unwrap_err().kind(), pando::ErrorKind::Conflict);
/// # Ok(())
/// # }
/// ```
pub fn exclude_new_tables(tx: &mut impl WriteTables) -> Result<()> {
    match tx.isolation() {
        Isolation::Serializable => Ok(()),
        // A table that is created claims an id, too.
        Isolation::Snapshot => claim_id(tx).map(drop),
    }
}

/// Returns the schema of the table of that name.
pub(crate) fn find(reader: &impl ReadTables, name: &str) -> Result<Option<Schema>> {
    let Some(table) = reader.table(NAME)? else { return Ok(None) };
    reader.get_with(&table, &schema_key(name), |bytes| codec::decode(name, bytes))?.transpose()
}

/// The kind of a record of the catalog.
pub(crate) enum Record {
    /// The next table's id; `None`: the value is damaged.
    NextId(Option<u64>),
    Schema,
    /// The progress of a build, with the ids of the table and the index.
    Build(u32, u32),
    Unknown,
}

/// Returns the kind of the record at `key`.
pub(crate) fn record(key: &[u8], value: &[u8]) -> Record {
    let id = |bytes: &[u8]| bytes.try_into().map(u32::from_be_bytes);
    match key {
        NEXT_ID => {
            let mut reader = Reader::new(value);
            Record::NextId(reader.varint().filter(|_| reader.is_empty()))
        }
        [SCHEMA, ..] => Record::Schema,
        [BUILD, ids @ ..] if ids.len() == 8 => match (id(&ids[..4]), id(&ids[4..])) {
            (Ok(table), Ok(index)) => Record::Build(table, index),
            _ => Record::Unknown,
        },
        _ => Record::Unknown,
    }
}

/// Returns the names of all typed tables in order, with an error for each that is not valid text.
pub(crate) fn names(reader: &impl ReadTables) -> Result<Vec<Result<String>>> {
    let Some(table) = reader.table(NAME)? else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    let mut cursor = reader.cursor(&table, pando::Span::prefix(&[SCHEMA]))?;
    while let Some((key, _)) = cursor.next()? {
        let name = String::from_utf8(key[1..].to_vec());
        let damaged = |_| Error::corruption(format!("table {NAME:?} has a name that is not UTF-8"));
        names.push(name.map_err(damaged));
    }
    Ok(names)
}

/// Returns whether there is a typed table.
pub(crate) fn has_any(reader: &impl ReadTables) -> Result<bool> {
    let Some(table) = reader.table(NAME)? else { return Ok(false) };
    let mut cursor = reader.cursor(&table, pando::Span::prefix(&[SCHEMA]))?;
    Ok(cursor.next()?.is_some())
}

/// Returns all schemas, ordered by name.
pub(crate) fn all(reader: &impl ReadTables) -> Result<Vec<Schema>> {
    let schema =
        |name: Result<String>| Ok(find(reader, &name?)?.expect("the same reader has just listed it"));
    names(reader)?.into_iter().map(schema).collect()
}

pub(crate) fn put(tx: &mut impl WriteTables, schema: &Schema) -> Result<()> {
    let table = made(tx)?;
    tx.put(&table, &schema_key(&schema.name), &codec::encode(schema))
}

pub(crate) fn delete(tx: &mut impl WriteTables, name: &str) -> Result<()> {
    let table = existing(tx)?;
    tx.delete(&table, &schema_key(name))
}

/// Returns how far an index has been built: the key of the last row that is in it.
pub(crate) fn built_through(tx: &impl ReadTables, schema: &Schema, index: &Index) -> Result<Option<Vec<u8>>> {
    tx.get(&existing(tx)?, &build_key(schema, index))
}

pub(crate) fn set_built_through(
    tx: &mut impl WriteTables,
    schema: &Schema,
    index: &Index,
    key: Option<&[u8]>,
) -> Result<()> {
    let table = existing(tx)?;
    match key {
        Some(key) => tx.put(&table, &build_key(schema, index), key),
        None => tx.delete(&table, &build_key(schema, index)),
    }
}
