//! Typed tables as SQL sees them: names, declared types, row ids, ways in. [`SqlTable`] is made of a schema and the
//! notes that DDL left in it; a table that was made in Rust has none, and is there all the same.
//!
//! | note of | holds, as JSON |
//! |---|---|
//! | a table | `row_id`: whether SQL hides its first column; `checks`: expressions; `foreign_keys`: clauses |
//! | a column | `type`: as declared; `default`: an expression; `collate`: a collation |

use crate::affinity::Affinity;
use crate::bounds::is_exact;
use crate::lexer::{self, quote};
use crate::plan::{MOST_WAYS, Way, WayPart};
use crate::vtab::collation_of;
use pando::{Database, Error, Result};
use rows::{Collation, ColumnType, DynamicTable, Part, Value};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The name of the column that holds the ids of rows of a table without a primary key.
pub(crate) const HIDDEN_ROW_ID: &str = "rowid";
/// The name of the column that is the key, to SQLite, of a table whose rows have no ids.
const KEY_COLUMN: &str = "pando_key";
/// Indexes of this name stand for `UNIQUE` in a table's definition.
pub(crate) const AUTO_INDEX: &str = "sqlite_autoindex_";

/// What DDL keeps of a table beyond its schema.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TableNote {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub row_id: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub foreign_keys: Vec<String>,
}

/// What DDL keeps of a column beyond its schema.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ColumnNote {
    #[serde(rename = "type")]
    pub declared: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collate: Option<String>,
}

/// A column of a table.
#[derive(Debug)]
pub(crate) struct SqlColumn {
    pub name: String,
    pub declared: String,
    pub kind: ColumnType,
    pub affinity: Affinity,
    pub collation: Collation,
    pub is_nullable: bool,
    /// An expression.
    pub default: Option<String>,
}

/// What rows are known by to SQLite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowId {
    /// The column at this place, `INTEGER PRIMARY KEY`.
    Column(usize),
    /// A column that is not shown, the first of the schema.
    Hidden,
    /// None: rows are known by their key, the engine's bytes of it, as in SQLite's `WITHOUT ROWID` tables. They are a
    /// column behind the others that nobody sees.
    Key,
}

/// A table.
#[derive(Debug)]
pub(crate) struct SqlTable {
    pub rows: DynamicTable,
    pub columns: Vec<SqlColumn>,
    pub row_id: RowId,
    /// The name of the column that is the key, of [`RowId::Key`].
    key_name: String,
    pub ways: Vec<Way>,
    pub note: TableNote,
    /// What the next row is called at least, once somebody has looked.
    pub next_row_id: Arc<AtomicI64>,
}

/// What the connections of a database share.
pub(crate) struct Engine {
    pub db: Database,
    /// As some connection has read it; it may be out of date, which its handles find out.
    latest: Mutex<Option<Arc<Catalog>>>,
    /// Of each table by its id: 0 if nobody has looked yet.
    row_ids: Mutex<HashMap<u32, Arc<AtomicI64>>>,
}

/// All tables.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub tables: Vec<Arc<SqlTable>>,
}

impl Engine {
    pub fn new(db: Database) -> Self {
        Engine { db, latest: Mutex::default(), row_ids: Mutex::default() }
    }

    /// The tables as they were read last.
    pub fn latest(&self) -> Option<Arc<Catalog>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn publish(&self, catalog: &Arc<Catalog>) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(catalog));
    }

    /// Reads the tables.
    pub fn load(&self, reader: &impl rows::Read) -> Result<Arc<Catalog>> {
        let tables =
            DynamicTable::all(reader)?.into_iter().map(|rows| SqlTable::new(rows, self).map(Arc::new));
        Ok(Arc::new(Catalog { tables: tables.collect::<Result<_>>()? }))
    }

    fn row_ids_of(&self, table: u32) -> Arc<AtomicI64> {
        let mut row_ids = self.row_ids.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(row_ids.entry(table).or_default())
    }
}

impl Catalog {
    /// The table of that name; letters of either case are one.
    pub fn find(&self, name: &str) -> Option<&Arc<SqlTable>> {
        self.tables.iter().find(|table| table.name().eq_ignore_ascii_case(name))
    }

    /// The table that has an index of that name, and the index's name as it was given.
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
            Error::corruption(format!("table {name:?}: its note for {what} is not what SQL writes"))
        };
        let note: TableNote = match schema.note() {
            "" => TableNote::default(),
            note => serde_json::from_str(note).map_err(|error| damaged("the table").caused_by(error))?,
        };
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
                if is_integer { RowId::Column(place) } else { RowId::Key }
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

    /// How many columns of the schema SQL does not show: the first, or none.
    pub fn hidden(&self) -> usize {
        usize::from(self.row_id == RowId::Hidden)
    }

    /// What SQLite knows the column by that is the key; `None`: rows have ids.
    pub fn key_column(&self) -> Option<usize> {
        (self.row_id == RowId::Key).then_some(self.columns.len())
    }

    /// The index of a way; `None`: the primary key.
    pub fn index_of(&self, way: u8) -> Option<&str> {
        self.ways.get(usize::from(way)).filter(|way| !way.is_primary).map(|way| way.name.as_str())
    }

    /// The kind of a part of a way, and the affinity of its column.
    pub fn part_type(&self, way: u8, part: usize) -> (ColumnType, Affinity) {
        match self.ways[usize::from(way)].parts[part].column {
            Some(column) => (self.columns[column].kind, self.columns[column].affinity),
            None => (ColumnType::Int, Affinity::Integer),
        }
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
            // Parts from a path on are no columns.
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
            // Rows with a null in it may be the same in a unique one; their entries have the primary key behind.
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
            WayPart {
                column,
                name: part.column().to_owned(),
                descending: part.is_descending(),
                collation: texts.map(|_| part.collation_of()),
                own_collation: texts.map(|column| column.collation),
                is_exact: column
                    .is_none_or(|column| is_exact(self.columns[column].kind, self.columns[column].affinity)),
            }
        };
        plain.map(of_column).collect()
    }

    /// `CREATE TABLE`, as SQLite is told of the table: names, types and collations, and no constraints.
    pub fn declaration(&self) -> String {
        let column = |column: &SqlColumn| {
            let collate = match column.collation {
                Collation::Binary => String::new(),
                other => format!(" COLLATE {}", collation_name(other)),
            };
            format!("{} {}{collate}", quote(&column.name), column.declared)
        };
        let mut columns: Vec<_> = self.columns.iter().map(column).collect();
        if self.key_column().is_none() {
            return format!("CREATE TABLE x({})", columns.join(", "));
        }
        columns.push(format!("{} BLOB HIDDEN PRIMARY KEY", quote(&self.key_name)));
        format!("CREATE TABLE x({}) WITHOUT ROWID", columns.join(", "))
    }

    /// `CREATE TABLE`, all of it, as a person would write it.
    pub fn create_statement(&self) -> String {
        let schema = self.rows.schema();
        let mut lines = Vec::new();
        for (place, column) in self.columns.iter().enumerate() {
            let mut line = quote(&column.name);
            if !column.declared.is_empty() {
                line.push_str(&format!(" {}", column.declared));
            }
            if self.row_id == RowId::Column(place) {
                line.push_str(" PRIMARY KEY");
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
        format!("CREATE TABLE {} (\n  {}\n)", quote(self.name()), lines.join(",\n  "))
    }

    /// `CREATE INDEX`, for each index that is not part of the table's definition.
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

    fn part_list(&self, parts: &[Part]) -> String {
        let part = |part: &Part| {
            let own = self.columns.iter().find(|column| column.name == part.column());
            let mut text = quote(part.column());
            if own.is_some_and(|column| column.collation != part.collation_of()) {
                text.push_str(&format!(" COLLATE {}", collation_name(part.collation_of())));
            }
            if part.is_descending() {
                text.push_str(" DESC");
            }
            text
        };
        parts.iter().map(part).collect::<Vec<_>>().join(", ")
    }

    /// Ids from here on have not been given to a row of this table; `largest` finds the largest that there is.
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

/// Whether a default stands in a definition without parentheses: a literal, a number with its sign, a word.
fn is_plain(default: &str) -> bool {
    let tokens: Vec<_> = lexer::tokens(default).collect();
    let is_sign = |token: &lexer::Token<'_>| token.is_mark('-') || token.is_mark('+');
    match &tokens[..] {
        [_] => true,
        [sign, number] => is_sign(sign) && number.kind == lexer::Kind::Number,
        _ => false,
    }
}

fn parse_note(note: &str) -> serde_json::Result<Option<ColumnNote>> {
    if note.is_empty() { Ok(None) } else { serde_json::from_str(note).map(Some) }
}

fn sql_column(column: &rows::Column, note: Option<ColumnNote>) -> SqlColumn {
    let kind = column.column_type();
    let (name, is_nullable) = (column.name().to_owned(), column.is_nullable());
    let Some(note) = note else {
        let default = column.default_value().and_then(literal);
        let (declared, affinity) = (declared_type(kind).to_owned(), Affinity::of_type(kind));
        let collation = Collation::Binary;
        return SqlColumn { name, declared, kind, affinity, collation, is_nullable, default };
    };
    let affinity = Affinity::of_declared(&note.declared);
    let collation = note.collate.as_deref().and_then(collation_of).unwrap_or_default();
    let ColumnNote { declared, default, .. } = note;
    SqlColumn { name, declared, kind, affinity, collation, is_nullable, default }
}

/// What a column that was not made in SQL is declared as.
fn declared_type(kind: ColumnType) -> &'static str {
    match kind {
        ColumnType::Bool => "INTEGER /* bool */",
        ColumnType::Int | ColumnType::UInt => "INTEGER",
        ColumnType::Timestamp => "INTEGER /* microseconds since 1970 */",
        ColumnType::Float => "REAL",
        ColumnType::Text => "TEXT",
        ColumnType::Json => "TEXT /* JSON */",
        ColumnType::Bytes => "BLOB",
        ColumnType::Uuid => "BLOB /* UUID */",
        _ => "ANY",
    }
}

/// A value as SQL writes it.
pub(crate) fn literal(value: &Value<'_>) -> Option<String> {
    Some(match value {
        Value::Null => "NULL".to_owned(),
        Value::Bool(value) => i64::from(*value).to_string(),
        Value::Int(value) | Value::Timestamp(value) => value.to_string(),
        Value::UInt(value) => value.to_string(),
        Value::Float(value) if value.is_infinite() => format!("{}9e999", if *value < 0.0 { "-" } else { "" }),
        Value::Float(value) => format!("{value:e}"),
        Value::Text(text) | Value::Json(text) => format!("'{}'", text.replace('\'', "''")),
        Value::Uuid(bytes) => hex(bytes),
        Value::Bytes(bytes) => hex(bytes),
    })
}

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("x'{digits}'")
}

fn collation_name(collation: Collation) -> &'static str {
    match collation {
        Collation::NoCase => "NOCASE",
        Collation::RTrim => "RTRIM",
        _ => "BINARY",
    }
}
