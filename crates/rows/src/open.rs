//! Looking up tables by name: typed tables, and tables that SQLite made.

use crate::catalog;
use crate::schema::Schema;
use crate::sqlite::{Derived, IndexStorage, Storage};
use crate::table::DynamicTable;
use pando::{Error, ErrorKind, ReadTables, RecordCursor, Result, Span, Table};
use sqlite_format::definition;
use sqlite_format::names;
use sqlite_format::record::{self, Field};
use std::sync::Arc;

impl DynamicTable {
    /// Opens the table named `name`, as `reader` sees it, or returns `None` if there is none. A table that SQLite's
    /// library made in the same database can be read; writing to it fails with
    /// [`Cause::MadeBySqlite`](crate::Cause::MadeBySqlite).
    ///
    /// # Errors
    /// `Corruption` if its record in the catalog is damaged; `Invalid` if SQLite made the table in a form that a typed
    /// table cannot show.
    pub fn open(reader: &impl ReadTables, name: &str) -> Result<Option<Self>> {
        if let Some(schema) = catalog::find(reader, name)? {
            return Self::with_schema(reader, schema).map(Some);
        }
        let Some(found) = OfSqlite::read(reader)? else { return Ok(None) };
        let entry = found.entries.iter().find(|entry| entry.is_table() && entry.name == name);
        entry.map(|entry| found.open(reader, entry)).transpose()
    }

    /// Opens the table named `name`, as `reader` sees it.
    ///
    /// # Errors
    /// Those of [`DynamicTable::open`]; `Missing` if there is none.
    pub fn expect(reader: &impl ReadTables, name: &str) -> Result<Self> {
        let missing = || Error::new(ErrorKind::Missing, format!("there is no typed table {name:?}"));
        Self::open(reader, name)?.ok_or_else(missing)
    }

    /// Opens all typed tables that `reader` sees, ordered by name. A table that SQLite made is left out if it cannot be
    /// read as a typed table; [`DynamicTable::open`] says why. So are SQLite's own, whose names begin with `sqlite_`.
    pub fn all(reader: &impl ReadTables) -> Result<Vec<Self>> {
        let own = catalog::all(reader)?.into_iter().map(|schema| Self::with_schema(reader, schema));
        let mut all = own.collect::<Result<Vec<_>>>()?;
        let Some(found) = OfSqlite::read(reader)? else { return Ok(all) };
        let count = all.len();
        for entry in found.entries.iter().filter(|entry| entry.is_table() && !entry.is_internal()) {
            // SQLite's library does not know the names of typed tables; `open` returns the typed one.
            if all[..count].binary_search_by(|own| own.name().cmp(&entry.name)).is_ok() {
                continue;
            }
            match found.open(reader, entry) {
                Ok(table) => all.push(table),
                Err(error) if error.kind() == ErrorKind::Invalid => {}
                Err(error) => return Err(error),
            }
        }
        all.sort_by(|one, other| one.name().cmp(other.name()));
        Ok(all)
    }

    fn with_schema(reader: &impl ReadTables, schema: Schema) -> Result<Self> {
        let find = |name: &str| {
            let gone = || {
                let table = schema.name();
                Error::corruption(format!(
                    "typed table {table:?} is in the catalog, but its table {name:?} is gone"
                ))
            };
            reader.table(name)?.ok_or_else(gone)
        };
        let data = find(&catalog::data_name(&schema))?;
        let indexes = schema.indexes().iter().map(|index| find(&catalog::index_name(&schema, index)));
        let indexes = indexes.collect::<Result<_>>()?;
        Ok(Self::assemble(schema, data, indexes))
    }

    /// Returns a handle on a table that SQLite made.
    fn assemble_sqlite(
        schema: Schema,
        data: Table,
        indexes: Vec<Table>,
        storage: Storage,
        storages: Vec<IndexStorage>,
    ) -> Self {
        let mut table = Self::assemble(schema, data, indexes);
        let inner = Arc::get_mut(&mut table.inner).expect("nobody else has the handle yet");
        for (open, storage) in inner.indexes.iter_mut().zip(storages) {
            open.positions.fill(None);
            open.sqlite = Some(storage);
        }
        // A rowid is encoded as the key of an integer is.
        if !storage.has_rowid() {
            inner.positions.fill(None);
        }
        inner.sqlite = Some(Box::new(storage));
        table
    }
}

/// Returns whether a table of this name cannot be created: there is a typed table, or SQLite made a table or a view,
/// whose names it compares regardless of case.
pub(crate) fn is_taken(reader: &impl ReadTables, name: &str) -> Result<bool> {
    if catalog::find(reader, name)?.is_some() {
        return Ok(true);
    }
    let Some(found) = OfSqlite::read(reader)? else { return Ok(false) };
    let mut named = found.entries.iter().filter(|entry| entry.kind == "table" || entry.kind == "view");
    Ok(named.any(|entry| entry.name.eq_ignore_ascii_case(name)))
}

/// A row of `sqlite_schema`.
struct Entry {
    kind: String,
    name: String,
    table: String,
    root: u32,
    sql: Option<Vec<u8>>,
}

impl Entry {
    /// Returns whether it is a table whose rows are stored: no view, and no virtual table.
    fn is_table(&self) -> bool {
        self.kind == "table" && self.root != 0
    }

    /// Returns whether it is a table of SQLite's own, such as `sqlite_sequence`.
    fn is_internal(&self) -> bool {
        self.name.get(..7).is_some_and(|prefix| prefix.eq_ignore_ascii_case("sqlite_"))
    }
}

/// What SQLite has made.
struct OfSqlite {
    meta: Table,
    cookie: u32,
    entries: Vec<Entry>,
}

fn damaged(what: &str) -> Error {
    Error::corruption(format!("the definitions of SQLite's tables are damaged: {what}"))
}

impl OfSqlite {
    /// Reads `sqlite_schema`. `None`: SQLite has made nothing here.
    fn read(reader: &impl ReadTables) -> Result<Option<OfSqlite>> {
        let Some(meta) = reader.table(names::META)? else { return Ok(None) };
        let cookie =
            reader.get_with(&meta, names::COOKIE, |value| value.try_into().map(u32::from_be_bytes))?;
        // Without a cookie, no definition was ever made.
        let Some(cookie) = cookie else { return Ok(None) };
        let cookie = cookie.map_err(|_| damaged("the schema cookie does not have 4 bytes"))?;
        let schema = reader.table(&names::of_root(names::SCHEMA))?;
        let schema = schema.ok_or_else(|| damaged("sqlite_schema is gone"))?;
        let mut entries = Vec::new();
        let mut cursor = reader.cursor(&schema, Span::all())?;
        while let Some((_, record)) = cursor.next()? {
            let decoded = entry(record).ok_or_else(|| damaged("a row of sqlite_schema cannot be decoded"))?;
            entries.extend(decoded);
        }
        drop(cursor);
        Ok(Some(OfSqlite { meta, cookie, entries }))
    }

    fn open(&self, reader: &impl ReadTables, entry: &Entry) -> Result<DynamicTable> {
        let refused = |why: &str| {
            let name = &entry.name;
            Error::invalid(format!(
                "table {name:?} can only be read with SQLite's library, which made it: {why}"
            ))
        };
        let sql = entry.sql.as_deref().ok_or_else(|| damaged("a table has no definition"))?;
        let sql = str::from_utf8(sql).map_err(|_| refused("its definition is not UTF-8"))?;
        let table = definition::Table::parse(sql);
        let table = table.map_err(|error| refused(&format!("its definition has {error}")))?;
        let data = tree(reader, entry.root)?;
        let mut derived = Derived::new(&table).map_err(|why| refused(&why))?;
        let (mut trees, mut storages) = (Vec::new(), Vec::new());
        let indexes = self.entries.iter().filter(|index| index.kind == "index" && index.table == entry.name);
        for index in indexes {
            // An index that is not understood is not needed to read the table.
            let sql = index.sql.as_deref().and_then(|sql| str::from_utf8(sql).ok());
            let parsed = sql.and_then(|sql| table.parse_index(sql).ok().flatten());
            let Some(parsed) = parsed else { continue };
            if let Some(storage) = derived.push_index(&table, &index.name, &parsed) {
                trees.push(tree(reader, index.root)?);
                storages.push(storage);
            }
        }
        let (schema, storage) = derived.finish(&table, &entry.name, entry.root, &self.meta, self.cookie);
        schema.check().map_err(|why| refused(&why))?;
        Ok(DynamicTable::assemble_sqlite(schema, data, trees, storage, storages))
    }
}

fn tree(reader: &impl ReadTables, root: u32) -> Result<Table> {
    let name = names::of_root(root);
    reader.table(&name)?.ok_or_else(|| damaged(&format!("table {name:?} is gone")))
}

/// Decodes a row of `sqlite_schema`. `None`: it is damaged; `Some(None)`: a name is not UTF-8, which SQLite allows, and
/// which nobody can ask for here.
fn entry(record: &[u8]) -> Option<Option<Entry>> {
    let mut fields = record::fields(record).ok()?;
    let text = |fields: &mut record::Fields<'_>| match fields.next()?.ok()? {
        Field::Text(text) => Some(Some(text.to_vec())),
        Field::Null => Some(None),
        _ => None,
    };
    let names = [text(&mut fields)??, text(&mut fields)??, text(&mut fields)??];
    let root = match fields.next()?.ok()? {
        Field::Integer(root) => u32::try_from(root).ok()?,
        Field::Null => 0,
        _ => return None,
    };
    let sql = text(&mut fields)?;
    let [kind, name, table] = names.map(|name| String::from_utf8(name).ok());
    Some(kind.zip(name).zip(table).map(|((kind, name), table)| Entry { kind, name, table, root, sql }))
}
