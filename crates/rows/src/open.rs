//! Looking up tables by name: typed tables, and tables that SQLite made.

use crate::catalog;
use crate::schema::{MAX_INDEXES, Schema};
use crate::sqlite::{Derived, IndexStorage, Storage, Writing};
use crate::table::DynamicTable;
use pando::{Error, ErrorKind, ReadTables, RecordCursor, Result, Span, Table, WriteTables};
use sqlite_format::definition;
use sqlite_format::names;
use sqlite_format::record::{self, Field};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

impl DynamicTable {
    /// Opens the table named `name`, as `reader` sees it, or returns `None` if there is none. A table that SQLite's
    /// library made in the same database can be read, and written if [`DynamicTable::why_read_only`] returns `None`.
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
    /// Those of [`DynamicTable::open`]; `Missing` if there is no such table.
    pub fn expect(reader: &impl ReadTables, name: &str) -> Result<Self> {
        let missing = || Error::new(ErrorKind::Missing, format!("there is no typed table {name:?}"));
        Self::open(reader, name)?.ok_or_else(missing)
    }

    /// Opens all typed tables that `reader` sees, ordered by name. It leaves out tables that SQLite made and that
    /// cannot be read as typed tables ([`DynamicTable::open`] returns the reason), and SQLite's internal tables, whose
    /// names begin with `sqlite_`.
    pub fn all(reader: &impl ReadTables) -> Result<Vec<Self>> {
        let mut all = Self::all_created(reader)?;
        let Some(found) = OfSqlite::read(reader)? else { return Ok(all) };
        let count = all.len();
        for entry in found.entries.iter().filter(|entry| entry.is_table() && !entry.is_internal()) {
            // SQL does not know the names of typed tables; `open` returns the typed one.
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

    /// Opens all tables that [`DynamicTable::create`] made, as `reader` sees them, ordered by name. Unlike
    /// [`DynamicTable::all`], it leaves out the tables that SQLite made.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// let reader = db.snapshot()?;
    /// assert!(pando_rows::DynamicTable::all_created(&reader)?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Corruption` if a record in the catalog is damaged.
    pub fn all_created(reader: &impl ReadTables) -> Result<Vec<Self>> {
        catalog::all(reader)?.into_iter().map(|schema| Self::with_schema(reader, schema)).collect()
    }

    /// Returns whether `reader` sees a table that [`DynamicTable::create`] made. It reads one record of the catalog.
    ///
    /// # Errors
    /// `Corruption` if a record in the catalog is damaged; errors of reading the disk.
    pub fn any_created(reader: &impl ReadTables) -> Result<bool> {
        catalog::has_any(reader)
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
/// whose names it compares regardless of case. That it can be created depends on it at every isolation: if SQLite makes
/// something meanwhile, the commit is a conflict.
pub(crate) fn is_taken(tx: &impl WriteTables, name: &str) -> Result<bool> {
    if catalog::find(tx, name)?.is_some() {
        return Ok(true);
    }
    if let Some(definitions) = tx.table(&names::of_root(names::SCHEMA))? {
        tx.require_unchanged(&definitions, Span::all())?;
    }
    let Some(found) = OfSqlite::read(tx)? else { return Ok(false) };
    let mut named = found.entries.iter().filter(|entry| entry.kind == "table" || entry.kind == "view");
    Ok(named.any(|entry| entry.name.eq_ignore_ascii_case(name)))
}

/// Returns the names of the tables, views and indexes that SQLite made, as `reader` sees them, in lowercase (ASCII):
/// SQLite compares names regardless of case. Names that are not UTF-8 are left out.
///
/// # Errors
/// `Corruption` if a row of `sqlite_schema` is damaged.
pub fn names_made_by_sqlite(reader: &impl ReadTables) -> Result<HashSet<String>> {
    let (entries, _) = read_entries(reader)?.unwrap_or_default();
    let named = entries.into_iter().filter(|entry| entry.kind != "trigger");
    Ok(named.map(|entry| entry.name.to_ascii_lowercase()).collect())
}

/// Reads the rows of `sqlite_schema`, and whether all of them have names in UTF-8. `None`: there is none.
fn read_entries(reader: &impl ReadTables) -> Result<Option<(Vec<Entry>, bool)>> {
    let Some(schema) = reader.table(&names::of_root(names::SCHEMA))? else { return Ok(None) };
    let (mut entries, mut are_shown) = (Vec::<Entry>::new(), true);
    let mut cursor = reader.cursor(&schema, Span::all())?;
    while let Some((_, record)) = cursor.next()? {
        let decoded = entry(record).ok_or_else(|| damaged("a row of sqlite_schema cannot be decoded"))?;
        are_shown &= decoded.is_some();
        entries.extend(decoded);
    }
    Ok(Some((entries, are_shown)))
}

/// A row of `sqlite_schema`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub kind: String,
    pub name: String,
    pub table: String,
    pub root: u32,
    pub sql: Option<Vec<u8>>,
}

impl Entry {
    /// Returns whether it is a table whose rows are stored: no view, and no virtual table.
    pub fn is_table(&self) -> bool {
        self.kind == "table" && self.root != 0
    }

    /// Returns the definition of a table, and the columns and the key of a typed table that shows it.
    fn derive(&self) -> Result<(definition::Table, Derived)> {
        let sql = self.sql.as_deref().ok_or_else(|| damaged("a table has no definition"))?;
        let sql = str::from_utf8(sql).map_err(|_| self.refused("its definition is not UTF-8"))?;
        let table = definition::Table::parse(sql);
        let table = table.map_err(|error| self.refused(&format!("its definition has {error}")))?;
        let derived = Derived::new(&table).map_err(|why| self.refused(&why))?;
        Ok((table, derived))
    }

    fn refused(&self, why: &str) -> Error {
        let name = &self.name;
        Error::invalid(format!("table {name:?} can only be read with SQL, which made it: {why}"))
    }

    /// Returns whether it is an index or a trigger of a table. A trigger has the name as its definition wrote it.
    fn is_of(&self, table: &Entry) -> bool {
        self.table.eq_ignore_ascii_case(&table.name)
    }

    /// Returns the tables that foreign keys of this table name. `None`: it can have some, and is not understood.
    fn parents(&self) -> Option<Vec<String>> {
        let has = |sql: &Vec<u8>| sql.windows(10).any(|word| word.eq_ignore_ascii_case(b"REFERENCES"));
        if !self.is_table() || !self.sql.as_ref().is_some_and(has) {
            return Some(Vec::new());
        }
        let sql = self.sql.as_deref().and_then(|sql| str::from_utf8(sql).ok())?;
        Some(definition::Table::parse(sql).ok()?.parents)
    }

    /// Returns whether it is a table of SQLite's own, such as `sqlite_sequence`.
    pub fn is_internal(&self) -> bool {
        self.name.get(..7).is_some_and(|prefix| prefix.eq_ignore_ascii_case("sqlite_"))
    }
}

/// What SQLite has made.
struct OfSqlite {
    meta: Table,
    cookie: u32,
    entries: Vec<Entry>,
    /// The places of the tables that can have foreign keys, each with the tables that those name. `None`: it is not
    /// understood.
    referring: Vec<(usize, Option<Vec<String>>)>,
    /// What keeps this library from writing to any table, or else the table with the cookie in its name.
    writing: Writing,
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
        let (entries, are_shown) = read_entries(reader)?.ok_or_else(|| damaged("sqlite_schema is gone"))?;
        let writing = match are_shown {
            true => writing(reader, &meta, cookie)?,
            // It may be a trigger or an index of any table.
            false => Err("the database has a definition whose name is not UTF-8".to_owned()),
        };
        let parents = entries.iter().map(Entry::parents).enumerate();
        let referring =
            parents.filter(|(_, parents)| parents.as_ref().is_none_or(|all| !all.is_empty())).collect();
        Ok(Some(OfSqlite { meta, cookie, entries, referring, writing }))
    }

    fn open(&self, reader: &impl ReadTables, entry: &Entry) -> Result<DynamicTable> {
        let (table, mut derived) = entry.derive()?;
        let data = tree(reader, entry.root)?;
        let (mut trees, mut storages) = (Vec::new(), Vec::new());
        let mut automatic = self.automatic(&table, entry);
        let mut unkept = None;
        for index in self.indexes(entry) {
            // An index that is not understood is not needed to read the table.
            let parsed = match &index.sql {
                None => automatic.remove(&index.name[..]).cloned(),
                Some(sql) => str::from_utf8(sql).ok().and_then(|sql| table.parse_index(sql).ok().flatten()),
            };
            let storage = parsed
                .and_then(|parsed| derived.push_index(&table, &index.name, &parsed, index.sql.is_none()));
            match storage {
                Some(storage) => {
                    trees.push(tree(reader, index.root)?);
                    storages.push(storage);
                }
                None => unkept = Some(&index.name),
            }
        }
        let writing = match (self.forbids(&table, entry), unkept) {
            (Some(why), _) => Err(why),
            (None, Some(index)) => Err(format!(
                "its index {index:?} is partial, on an expression, with a collation of a program, has a \
                 column twice, has a name that is too long, or is one of more than {MAX_INDEXES}"
            )),
            (None, None) => self.writing.clone(),
        };
        let (schema, storage) =
            derived.finish(&table, &entry.name, entry.root, &self.meta, self.cookie, writing);
        schema.check().map_err(|why| entry.refused(&why))?;
        Ok(DynamicTable::assemble_sqlite(schema, data, trees, storage, storages))
    }

    fn indexes<'e>(&'e self, table: &'e Entry) -> impl Iterator<Item = &'e Entry> {
        self.entries.iter().filter(|index| index.kind == "index" && index.is_of(table))
    }

    /// Returns what the indexes of constraints consist of, by their names. It is empty if their number differs from
    /// what the definition says, or a name is none of SQLite's: then nothing is known, and the table cannot be written.
    fn automatic<'d>(
        &'d self,
        table: &'d definition::Table,
        entry: &'d Entry,
    ) -> HashMap<&'d str, &'d definition::Index> {
        let mut named: Vec<_> = self.indexes(entry).filter(|index| index.sql.is_none()).collect();
        // `sqlite_autoindex_t_2`.
        let number = |index: &&Entry| index.name.rsplit('_').next().and_then(|last| last.parse::<u32>().ok());
        named.sort_by_key(number);
        if named.len() != table.automatic.len() || named.iter().any(|index| number(index).is_none()) {
            return HashMap::new();
        }
        let pairs = named.into_iter().zip(&table.automatic);
        pairs.filter_map(|(entry, index)| Some((&entry.name[..], index.as_ref()?))).collect()
    }

    /// Returns what SQLite does at each write to a table beyond storing the row and its entries.
    fn forbids(&self, table: &definition::Table, entry: &Entry) -> Option<String> {
        if let Some(what) = table.enforced.first() {
            return Some(format!("it has {what}"));
        }
        if entry.is_internal() {
            return Some("it is a table of SQLite's own".to_owned());
        }
        for other in &self.entries {
            let name = &other.name;
            if other.kind == "trigger" && other.is_of(entry) {
                return Some(format!("it has the trigger {name:?}"));
            }
            let is_virtual = other.kind == "table" && other.root == 0;
            if is_virtual && is_part_of(&entry.name, name) {
                return Some(format!("it belongs to the virtual table {name:?}"));
            }
        }
        for (at, parents) in &self.referring {
            let name = &self.entries[*at].name;
            match parents {
                None => {
                    return Some(format!(
                        "the definition of table {name:?} is not understood, and may refer to it"
                    ));
                }
                Some(parents) if parents.iter().any(|parent| parent.eq_ignore_ascii_case(&entry.name)) => {
                    return Some(format!("table {name:?} refers to it by a foreign key"));
                }
                Some(_) => {}
            }
        }
        if table.automatic.len() != self.indexes(entry).filter(|index| index.sql.is_none()).count() {
            return Some("its definition does not say what its indexes are".to_owned());
        }
        None
    }
}

/// Returns whether `table` is one in which the virtual table of this name keeps its data.
fn is_part_of(table: &str, name: &str) -> bool {
    let front = table.get(..name.len()).is_some_and(|front| front.eq_ignore_ascii_case(name));
    front && table[name.len()..].starts_with('_')
}

/// Returns what writers of all tables use, or why there are none.
fn writing(reader: &impl ReadTables, meta: &Table, cookie: u32) -> Result<Writing> {
    let decode = |value: &[u8]| value.try_into().map_or(0, u32::from_be_bytes);
    let format = reader.get_with(meta, names::FILE_FORMAT, decode)?.unwrap_or(0);
    if format < 4 {
        return Ok(Err(format!(
            "the database has SQLite's file format {format}, in which DESC has no effect"
        )));
    }
    Ok(reader
        .table(&names::of_cookie(cookie))?
        .ok_or_else(|| "an older version made the database: write to it with SQL once".to_owned()))
}

fn tree(reader: &impl ReadTables, root: u32) -> Result<Table> {
    let name = names::of_root(root);
    reader.table(&name)?.ok_or_else(|| damaged(&format!("table {name:?} is gone")))
}

/// Returns a handle that decodes rows of a table that SQLite made, and does nothing else: the table that has the rows
/// may be gone. `meta` is the table of the meta values.
pub(crate) fn for_decoding(entry: &Entry, meta: &Table) -> Result<DynamicTable> {
    let (table, derived) = entry.derive()?;
    let writing = Err("the handle only decodes".to_owned());
    let (schema, storage) = derived.finish(&table, &entry.name, entry.root, meta, 0, writing);
    schema.check().map_err(|why| entry.refused(&why))?;
    Ok(DynamicTable::assemble_sqlite(schema, meta.clone(), Vec::new(), storage, Vec::new()))
}

/// Decodes a row of `sqlite_schema`. `None`: it is damaged, its name is not UTF-8, or it has none: SQLite stores such a
/// row before it makes a table of a query.
pub(crate) fn decoded_entry(record: &[u8]) -> Option<Entry> {
    entry(record).flatten()
}

/// Decodes a row of `sqlite_schema`. `None`: it is damaged; `Some(None)`: a name is not UTF-8, which SQLite allows, and
/// by which no table can be opened here.
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
