//! Typed tables as SQL sees them: names, row ids, and ways (primary key and indexes). A [`SqlTable`] is derived from a
//! schema and from the notes that DDL left in it.

use crate::affinity::Affinity;
use crate::bounds::{PartType, is_distinct, is_exact, is_ordered, is_soft};
use crate::column::{SqlColumn, TableNote, collation_name, is_plain, parse_note, sql_column};
use crate::given_ids::GivenIds;
use crate::lexer::quote;
use crate::plan::{MOST_WAYS, Way, WayPart};
use pando::any::AnyDatabase;
use pando::{Error, Result};
use rows::{Collation, ColumnType, DynamicTable, Part};
use sqlite_format::names;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The name of the column that holds the ids of rows of a table without a primary key.
pub(crate) const HIDDEN_ROW_ID: &str = "rowid";
/// The name of the column that is the key, for SQLite, of a table whose rows have no ids.
const KEY_COLUMN: &str = "pando_key";
/// SQLite's names for row ids, unless a column has the same name.
const ROW_ID_NAMES: [&str; 3] = ["rowid", "_rowid_", "oid"];
/// The prefix of indexes that stand for `UNIQUE` in a table's definition.
pub(crate) const AUTO_INDEX: &str = "sqlite_autoindex_";

/// Returns SQLite's name for row ids in a table with these columns; `None` if the columns use all such names.
pub(crate) fn row_id_name<'n>(columns: impl Iterator<Item = &'n str> + Clone) -> Option<&'static str> {
    let is_free = |id: &&str| !columns.clone().any(|column| column.eq_ignore_ascii_case(id));
    ROW_ID_NAMES.into_iter().find(|id| is_free(id))
}

/// The way in which SQLite identifies rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowId {
    /// The column at this place, `INTEGER PRIMARY KEY`.
    Column(usize),
    /// A hidden column, the first of the schema.
    Hidden,
    /// No id: rows are identified by their key, the engine's bytes of it, as in SQLite's `WITHOUT ROWID` tables. The
    /// key is a hidden column after the others.
    Key,
}

/// A table.
#[derive(Debug)]
pub(crate) struct SqlTable {
    pub rows: DynamicTable,
    pub columns: Vec<SqlColumn>,
    pub row_id: RowId,
    /// The name of the key's column, for [`RowId::Key`].
    key_name: String,
    pub ways: Vec<Way>,
    pub note: TableNote,
    /// The lower bound of the next row id; unknown until a connection has read it.
    pub next_row_id: Arc<AtomicI64>,
}

/// The state that the connections of a database share.
pub(crate) struct Engine {
    pub db: AnyDatabase,
    /// The catalog as some connection has read it. It may be stale, which its handles detect.
    latest: Mutex<Option<Arc<Catalog>>>,
    /// The next row id of each table by its id; 0 if it was not read yet.
    row_ids: Mutex<HashMap<u32, Arc<AtomicI64>>>,
    /// The ids that tables with `AUTOINCREMENT` have given.
    pub given_ids: GivenIds,
}

/// The tables that are virtual tables of SQLite, ordered by name. Those that SQLite made are its own where it runs on
/// Pando's trees, and are not among them.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub tables: Vec<Arc<SqlTable>>,
    /// SQLite's schema cookie when they were read: another one means that SQLite may have made a table of the same
    /// name.
    pub cookie: u32,
    /// The commit after which the transaction began that has read them: what it has changed itself can be undone.
    /// `None`: they are those of a commit.
    pub within: Option<u64>,
}

impl Engine {
    pub fn new(db: AnyDatabase) -> Self {
        Engine { db, latest: Mutex::default(), row_ids: Mutex::default(), given_ids: GivenIds::default() }
    }

    /// Returns the tables as they were read last.
    pub fn latest(&self) -> Option<Arc<Catalog>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn publish(&self, catalog: &Arc<Catalog>) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(catalog));
    }

    /// Reads the tables. Those that were made in Rust with a name that SQL cannot give are left out: names with a NUL,
    /// and SQLite's own names, among which are those of this crate's virtual tables.
    pub fn load(&self, reader: &impl pando::ReadTables) -> Result<Catalog> {
        let all = match cfg!(feature = "loadable") {
            true => DynamicTable::all(reader)?,
            false => DynamicTable::all_created(reader)?,
        };
        let all = all.into_iter().filter(|rows| !rows.name().contains('\0') && !is_of_sqlite(rows.name()));
        let mut tables =
            all.map(|rows| SqlTable::new(rows, self).map(Arc::new)).collect::<Result<Vec<_>>>()?;
        let cookie = cookie(reader)?;
        if cfg!(not(feature = "loadable")) && !tables.is_empty() {
            // SQLite looks up virtual tables last.
            let made_by_sqlite = rows::names_made_by_sqlite(reader)?;
            tables.retain(|table| !made_by_sqlite.contains(&table.name().to_ascii_lowercase()));
        }
        Ok(Catalog { tables, cookie, within: None })
    }

    fn row_ids_of(&self, table: u32) -> Arc<AtomicI64> {
        let mut row_ids = self.row_ids.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(row_ids.entry(table).or_default())
    }
}

/// Returns whether SQLite keeps a name for itself.
fn is_of_sqlite(name: &str) -> bool {
    name.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("sqlite_"))
}

/// Returns SQLite's schema cookie; 0 before it has made a table.
pub(crate) fn cookie(reader: &impl pando::ReadTables) -> Result<u32> {
    let Some(meta) = reader.table(names::META)? else { return Ok(0) };
    let decode = |value: &[u8]| value.try_into().map_or(0, u32::from_be_bytes);
    Ok(reader.get_with(&meta, names::COOKIE, decode)?.unwrap_or(0))
}

impl Catalog {
    /// Returns the virtual table of that name, regardless of case.
    pub fn find(&self, name: &str) -> Option<&Arc<SqlTable>> {
        self.tables.iter().find(|table| table.name().eq_ignore_ascii_case(name))
    }

    /// Returns the table that has an index of that name, and the index's name in its original case.
    pub fn find_index(&self, name: &str) -> Option<(&Arc<SqlTable>, &str)> {
        let in_table = |table: &'_ Arc<SqlTable>| {
            let mut indexes = table.rows.schema().indexes().iter();
            indexes.any(|index| index.name().eq_ignore_ascii_case(name))
        };
        let table = self.tables.iter().find(|table| in_table(table))?;
        let mut indexes = table.rows.schema().indexes().iter();
        Some((table, indexes.find(|index| index.name().eq_ignore_ascii_case(name))?.name()))
    }
}

impl SqlTable {
    pub fn new(rows: DynamicTable, engine: &Engine) -> Result<Self> {
        let schema = rows.schema();
        let damaged = |what: &str| {
            let name = schema.name();
            Error::corruption(format!("table {name:?}: its stored definition of {what} cannot be decoded"))
        };
        let note = parse_note(schema.note()).map_err(|error| damaged("the table").caused_by(error))?;
        let note: TableNote = note.unwrap_or_default();
        let shown = schema.columns().skip(usize::from(note.row_id));
        let columns = shown.map(|column| {
            let bad = |error| damaged(&format!("column {:?}", column.name())).caused_by(error);
            Ok(sql_column(column, parse_note(column.note_text()).map_err(bad)?))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let row_id = match (note.row_id, schema.key()) {
            (true, _) => RowId::Hidden,
            (_, [part]) => {
                let place = schema.place(part.column()).expect("a key is of columns");
                let is_integer = columns[place].kind == ColumnType::Int && !part.is_descending();
                if is_integer && !note.without_row_id { RowId::Column(place) } else { RowId::Key }
            }
            _ => RowId::Key,
        };
        let is_taken = |name: &str| columns.iter().any(|column| column.name.eq_ignore_ascii_case(name));
        let mut key_name = KEY_COLUMN.to_owned();
        while is_taken(&key_name) {
            key_name.push('_');
        }
        let next_row_id = engine.row_ids_of(schema.id());
        let mut table = SqlTable { columns, row_id, key_name, ways: Vec::new(), note, next_row_id, rows };
        table.ways = table.find_ways();
        Ok(table)
    }

    pub fn name(&self) -> &str {
        self.rows.name()
    }

    /// Returns how many columns of the schema SQL hides: the first, or none.
    pub fn hidden(&self) -> usize {
        usize::from(self.row_id == RowId::Hidden)
    }

    /// Returns the index of the key's column for SQLite; `None`: rows have ids.
    pub fn key_column(&self) -> Option<usize> {
        (self.row_id == RowId::Key).then_some(self.columns.len())
    }

    /// Returns the index of a way; `None`: the primary key.
    pub fn index_of(&self, way: u8) -> Option<&str> {
        self.ways.get(usize::from(way)).filter(|way| !way.is_primary).map(|way| way.name.as_str())
    }

    /// Returns the type of a part of a way.
    pub fn part_type(&self, way: u8, part: usize) -> PartType {
        let (kind, affinity) = match self.ways[usize::from(way)].parts[part].column {
            Some(column) => (self.columns[column].kind, self.columns[column].affinity),
            None => (ColumnType::Int, Affinity::Integer),
        };
        PartType { kind, affinity, is_of_sqlite: self.is_of_sqlite() }
    }

    /// Returns whether SQLite made the table, so that its values are SQLite's.
    fn is_of_sqlite(&self) -> bool {
        self.rows.may_convert()
    }

    fn find_ways(&self) -> Vec<Way> {
        let schema = self.rows.schema();
        let key = self.parts(schema.key());
        let gives_back = |part: &&WayPart| match part.column {
            Some(column) => {
                let is_binary = part.collation.is_none_or(|collation| collation == Collation::Binary);
                is_binary && self.columns[column].kind != ColumnType::Any
            }
            None => true,
        };
        let has_key = key.iter().all(|part| gives_back(&part));
        let covers = |parts: &[WayPart]| {
            let covered = parts.iter().filter(gives_back).chain(&key).map(|part| part.column);
            has_key.then(|| covered.chain(self.key_column().map(Some)).collect())
        };
        let primary = Way {
            name: String::new(),
            own_parts: key.len(),
            unique_parts: key.len(),
            is_total: true,
            is_primary: true,
            covered: covers(&[]),
            parts: key.clone(),
        };
        let usable = schema.indexes().iter().filter(|index| !index.is_building());
        let indexes = usable.filter_map(|index| {
            let mut parts = self.parts(index.parts());
            // Parts from the first path on are not columns.
            if parts.len() < index.parts().len() {
                return (!parts.is_empty()).then(|| Way {
                    name: index.name().to_owned(),
                    own_parts: parts.len(),
                    unique_parts: usize::MAX,
                    is_total: false,
                    is_primary: false,
                    covered: None,
                    parts,
                });
            }
            let covered = covers(&parts);
            let own = parts.len();
            // A unique index allows several rows with a null in it. The primary key follows in their entries.
            let may_be_null =
                |part: &WayPart| part.column.is_some_and(|column| self.columns[column].is_nullable);
            if !index.is_unique() || parts.iter().any(may_be_null) {
                parts.extend(key.iter().cloned());
            }
            let unique_parts = if index.is_unique() { own } else { usize::MAX };
            Some(Way {
                name: index.name().to_owned(),
                own_parts: own,
                unique_parts,
                is_total: true,
                is_primary: false,
                covered,
                parts,
            })
        });
        std::iter::once(primary).chain(indexes).take(MOST_WAYS).collect()
    }

    fn parts(&self, parts: &[Part]) -> Vec<WayPart> {
        let plain = parts.iter().take_while(|part| part.pointer().is_none());
        let of_column = |part: &Part| {
            let place = self.rows.schema().place(part.column()).expect("parts are columns");
            let column = place.checked_sub(self.hidden());
            let texts = column.map(|column| &self.columns[column]);
            let texts = texts.filter(|column| matches!(column.kind, ColumnType::Text | ColumnType::Any));
            let kind = column.map_or(ColumnType::Int, |column| self.columns[column].kind);
            WayPart {
                column,
                name: part.column().to_owned(),
                descending: part.is_descending(),
                collation: texts.map(|_| part.collation_of()),
                own_collation: texts.map(|column| column.collation),
                is_exact: column
                    .is_none_or(|column| is_exact(self.columns[column].kind, self.columns[column].affinity)),
                is_distinct: is_distinct(kind, self.is_of_sqlite()),
                is_ordered: is_ordered(kind, self.is_of_sqlite()),
                is_soft: column
                    .is_some_and(|column| is_soft(self.columns[column].kind, self.columns[column].affinity)),
            }
        };
        plain.map(of_column).collect()
    }

    /// Returns the `CREATE TABLE` that is declared to SQLite: names, types, collations and `NOT NULL`, without other
    /// constraints.
    pub fn declaration(&self) -> String {
        let column = |column: &SqlColumn| {
            let collate = match column.collation {
                Collation::Binary => String::new(),
                other => format!(" COLLATE {}", collation_name(other)),
            };
            // Without it, the least value of a key is searched after nulls that do not exist.
            // A float that is no number is shown as NULL.
            let shows_null = column.is_nullable || !is_ordered(column.kind, self.is_of_sqlite());
            let not_null = if shows_null { "" } else { " NOT NULL" };
            format!("{} {}{not_null}{collate}", quote(&column.name), column.sqlite_type())
        };
        let mut columns: Vec<_> = self.columns.iter().map(column).collect();
        if self.key_column().is_none() {
            return format!("CREATE TABLE x({})", columns.join(", "));
        }
        columns.push(format!("{} BLOB HIDDEN PRIMARY KEY", quote(&self.key_name)));
        format!("CREATE TABLE x({}) WITHOUT ROWID", columns.join(", "))
    }

    /// Returns the complete `CREATE TABLE`, as a person would write it.
    pub fn create_statement(&self) -> String {
        self.create_statement_with(|column| &column.declared)
    }

    /// Returns the complete `CREATE TABLE` of a table of SQLite's own with the same rows.
    pub fn create_sqlite_statement(&self) -> String {
        match self.note.strict {
            true => self.create_statement(),
            false => self.create_statement_with(SqlColumn::sqlite_type),
        }
    }

    fn create_statement_with(&self, type_of: impl Fn(&SqlColumn) -> &str) -> String {
        let schema = self.rows.schema();
        let mut lines = Vec::new();
        for (place, column) in self.columns.iter().enumerate() {
            let mut line = quote(&column.name);
            let declared = type_of(column);
            if !declared.is_empty() {
                line.push_str(&format!(" {declared}"));
            }
            if self.row_id == RowId::Column(place) {
                line.push_str(if self.note.autoincrement {
                    " PRIMARY KEY AUTOINCREMENT"
                } else {
                    " PRIMARY KEY"
                });
            } else if !column.is_nullable {
                line.push_str(" NOT NULL");
            }
            if let Some(default) = &column.default {
                let default = if is_plain(default) { default.clone() } else { format!("({default})") };
                line.push_str(&format!(" DEFAULT {default}"));
            }
            if column.collation != Collation::Binary {
                line.push_str(&format!(" COLLATE {}", collation_name(column.collation)));
            }
            lines.push(line);
        }
        if self.row_id == RowId::Key {
            lines.push(format!("PRIMARY KEY ({})", self.part_list(schema.key())));
        }
        let unique = schema.indexes().iter().filter(|index| index.name().starts_with(AUTO_INDEX));
        lines.extend(unique.map(|index| format!("UNIQUE ({})", self.part_list(index.parts()))));
        lines.extend(self.note.checks.iter().map(|check| format!("CHECK ({check})")));
        lines.extend(self.note.foreign_keys.iter().cloned());
        let options = match (self.note.strict, self.note.without_row_id) {
            (true, true) => " STRICT, WITHOUT ROWID",
            (true, false) => " STRICT",
            (false, true) => " WITHOUT ROWID",
            (false, false) => "",
        };
        format!("CREATE TABLE {} (\n  {}\n){options}", quote(self.name()), lines.join(",\n  "))
    }

    /// Returns the `CREATE INDEX` of each index that is not part of the table's definition.
    pub fn index_statements(&self) -> Vec<String> {
        let own = self.rows.schema().indexes().iter();
        let own = own.filter(|index| !index.name().starts_with(AUTO_INDEX));
        let plain = own.filter(|index| index.parts().iter().all(|part| part.pointer().is_none()));
        let statement = |index: &rows::Index| {
            let unique = if index.is_unique() { "UNIQUE " } else { "" };
            let (name, table) = (quote(index.name()), quote(self.name()));
            format!("CREATE {unique}INDEX {name} ON {table} ({})", self.part_list(index.parts()))
        };
        plain.map(statement).collect()
    }

    /// Returns the name of row ids in statements; `None`: columns use all such names.
    pub fn row_id_name(&self) -> Option<&'static str> {
        row_id_name(self.columns.iter().map(|column| column.name.as_str()))
    }

    /// Returns what follows a key's column in a statement, so that it is compared as in the key.
    pub fn key_collation(&self, part: &Part) -> String {
        let column = self.columns.iter().find(|column| column.name == part.column());
        match column.filter(|column| column.collation != part.collation_of()) {
            Some(_) => format!(" COLLATE {}", collation_name(part.collation_of())),
            None => String::new(),
        }
    }

    fn part_list(&self, parts: &[Part]) -> String {
        let part = |part: &Part| {
            let mut text = quote(part.column()) + &self.key_collation(part);
            if part.is_descending() {
                text.push_str(" DESC");
            }
            text
        };
        parts.iter().map(part).collect::<Vec<_>>().join(", ")
    }

    /// Claims an id that no row of this table has been given; `largest` finds the largest existing id.
    pub fn claim_row_id(&self, largest: impl FnOnce() -> Result<i64>) -> Result<Option<i64>> {
        self.know_row_ids(largest)?;
        let next =
            self.next_row_id.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |next| next.checked_add(1));
        Ok(next.ok())
    }

    /// Notes that a row has this id.
    pub fn note_row_id(&self, id: i64, largest: impl FnOnce() -> Result<i64>) -> Result<()> {
        self.know_row_ids(largest)?;
        if self.next_row_id.load(Ordering::SeqCst) <= id {
            self.next_row_id.fetch_max(id.saturating_add(1), Ordering::SeqCst);
        }
        Ok(())
    }

    fn know_row_ids(&self, largest: impl FnOnce() -> Result<i64>) -> Result<()> {
        if self.next_row_id.load(Ordering::SeqCst) == 0 {
            let next = largest()?.max(0).saturating_add(1);
            self.next_row_id.fetch_max(next, Ordering::SeqCst);
        }
        Ok(())
    }
}
