//! Definitions as SQLite understands them: it parses them in a separate database, and pragmas return the result.

use crate::affinity::Affinity;
use crate::catalog::{AUTO_INDEX, HIDDEN_ROW_ID, SqlTable};
use crate::change::coerce;
use crate::column::{ColumnNote, TableNote};
use crate::confine;
use crate::error::{Error, Result};
use crate::lexer::{self, Kind, Token, quote};
use crate::vtab::collation_of;
use rows::{Collation, Column, ColumnType, Definition, IndexDefinition, MAX_COLUMNS, Part, Value};
use rusqlite::types::ValueRef;

/// A database in memory in which SQLite reads DDL.
pub(crate) struct Scratch(pub(super) rusqlite::Connection);

/// A table as SQLite has parsed it.
pub(crate) struct ReadTable {
    name: String,
    pub columns: Vec<Column>,
    /// The primary key; empty if there is none.
    key: Vec<Part>,
    pub indexes: Vec<ReadIndex>,
    pub(super) note: TableNote,
    /// The columns of the primary key that were not declared `NOT NULL`.
    nullable_keys: Vec<String>,
    /// The features that typed tables do not have, and the reasons.
    pub left_out: Vec<String>,
}

/// An index as SQLite has parsed it.
pub(crate) struct ReadIndex {
    pub name: String,
    parts: Vec<Part>,
    unique: bool,
}

impl Scratch {
    pub(super) fn new() -> Result<Self> {
        Ok(Scratch(confine::alone()?))
    }

    /// Wraps a database that was filled elsewhere.
    pub fn from_connection(connection: rusqlite::Connection) -> Self {
        Scratch(connection)
    }

    pub fn connection(&self) -> &rusqlite::Connection {
        &self.0
    }

    pub(super) fn with(table: &SqlTable) -> Result<Self> {
        let scratch = Self::new()?;
        scratch.run(&table.create_statement())?;
        table.index_statements().iter().try_for_each(|sql| scratch.run(sql))?;
        Ok(scratch)
    }

    pub(super) fn run(&self, sql: &str) -> Result<()> {
        Ok(self.0.execute_batch(sql)?)
    }

    /// Reads a table back.
    pub fn read_table(&self, name: &str) -> Result<ReadTable> {
        let sql = "SELECT sql, name FROM sqlite_schema WHERE type = 'table' AND name = ? COLLATE NOCASE";
        let (text, name): (String, String) =
            self.0.query_row(sql, [name], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut left_out = not_followed(&text, &name);
        let mut key: Vec<(i64, String)> = Vec::new();
        let (mut columns, mut nullable_keys) = (Vec::new(), Vec::new());
        let mut info = self
            .0
            .prepare("SELECT name, type, \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo(?)")?;
        let mut rows = info.query([&name])?;
        while let Some(row) = rows.next()? {
            let (column, declared): (String, String) = (row.get(0)?, row.get(1)?);
            let (not_null, default, place): (bool, Option<String>, i64) =
                (row.get(2)?, row.get(3)?, row.get(4)?);
            if row.get::<_, i64>(5)? > 1 {
                return Err(Error::new(format!(
                    "column {column} of table {name} is generated, which is not supported"
                )));
            }
            if place > 0 {
                key.push((place, column.clone()));
                nullable_keys.extend((!not_null).then(|| column.clone()));
            }
            let collation = self.column_collation(&name, &column)?;
            columns.push(self.column(column, declared, !not_null && place == 0, default, collation)?);
        }
        key.sort();
        let mut parts: Vec<Part> = key.into_iter().map(|(_, column)| Part::new(column)).collect();
        let mut indexes = Vec::new();
        let mut list = self.0.prepare(
            "SELECT name, \"unique\", origin, partial FROM pragma_index_list(?) ORDER BY seq DESC",
        )?;
        let mut rows = list.query([&name])?;
        while let Some(row) = rows.next()? {
            let (index, unique, origin, partial): (String, bool, String, bool) =
                (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            let found = self.index_parts(&index)?;
            match (found, origin.as_str()) {
                (Some(found), "pk") => parts = found,
                (Some(found), _) if !partial => {
                    indexes.push(ReadIndex { name: index, parts: found, unique });
                }
                (None, _) => {
                    left_out.push(format!("index {index}: it uses an expression or a custom collation"))
                }
                (Some(_), _) => left_out.push(format!("index {index}: it is a partial index")),
            }
        }
        let how = "SELECT strict, wr FROM pragma_table_list(?) WHERE schema = 'main'";
        let (strict, without_row_id) =
            self.0.query_row(how, [&name], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let note = TableNote {
            row_id: parts.is_empty(),
            checks: checks(&text),
            foreign_keys: self.foreign_keys(&name)?,
            strict,
            without_row_id,
            autoincrement: lexer::tokens(&text).any(|token| token.is("AUTOINCREMENT")),
        };
        Ok(ReadTable { name, columns, key: parts, indexes, note, nullable_keys, left_out })
    }

    fn column(
        &self,
        name: String,
        declared: String,
        nullable: bool,
        default: Option<String>,
        collation: Collation,
    ) -> Result<Column> {
        let affinity = Affinity::of_declared(&declared);
        let kind = match affinity {
            Affinity::Integer => ColumnType::Int,
            Affinity::Real => ColumnType::Float,
            Affinity::Text => ColumnType::Text,
            Affinity::Blob if declared.to_ascii_uppercase().contains("BLOB") => ColumnType::Bytes,
            Affinity::Blob | Affinity::Numeric => ColumnType::Any,
        };
        let value = default.as_deref().map_or(Ok(None), |default| self.constant(default, affinity, kind))?;
        let collate = match collation {
            Collation::NoCase => Some("NOCASE".to_owned()),
            Collation::RTrim => Some("RTRIM".to_owned()),
            _ => None,
        };
        let note = ColumnNote { declared, default, collate };
        let column =
            Column::new(name, kind).note(serde_json::to_string(&note).expect("a note is plain data"));
        let column = if nullable { column.nullable() } else { column };
        Ok(match value {
            Some(value) if !value.is_null() => column.default(value),
            _ => column,
        })
    }

    /// Returns the value of a default, if it is constant.
    fn constant(
        &self,
        default: &str,
        affinity: Affinity,
        kind: ColumnType,
    ) -> Result<Option<Value<'static>>> {
        let is_plain = |token: Token<'_>| match token.kind {
            Kind::Literal | Kind::Number | Kind::Mark => true,
            _ => token.is("NULL") || token.is("TRUE") || token.is("FALSE"),
        };
        if !lexer::tokens(default).all(is_plain) {
            return Ok(None);
        }
        let value: rusqlite::types::Value =
            self.0.query_row(&format!("SELECT {default}"), [], |row| row.get(0))?;
        let value = affinity.apply(ValueRef::from(&value)).map(Value::into_owned);
        Ok(value.and_then(|value| coerce(kind, value).ok()).map(Value::into_owned))
    }

    fn column_collation(&self, table: &str, column: &str) -> Result<Collation> {
        let (_, collation, ..) = self.0.column_metadata(None, table, column)?;
        let name = collation.map_or("BINARY".into(), |name| name.to_string_lossy().into_owned());
        collation_of(&name).ok_or_else(|| Error::new(format!("no such collation sequence: {name}")))
    }

    /// Returns the parts of an index, if all are columns with known collations.
    fn index_parts(&self, index: &str) -> Result<Option<Vec<Part>>> {
        let mut info = self.0.prepare(
            "SELECT cid, name, \"desc\", coll FROM pragma_index_xinfo(?) WHERE key = 1 ORDER BY seqno",
        )?;
        let mut rows = info.query([index])?;
        let mut parts = Vec::new();
        while let Some(row) = rows.next()? {
            let (Some(column), Some(collation)) =
                (row.get::<_, Option<String>>(1)?, collation_of(&row.get::<_, String>(3)?))
            else {
                return Ok(None);
            };
            let part = Part::new(column).collation(collation);
            parts.push(if row.get(2)? { part.descending() } else { part });
        }
        Ok(Some(parts))
    }

    fn foreign_keys(&self, table: &str) -> Result<Vec<String>> {
        let mut list = self.0.prepare(
            "SELECT id, \"table\", \"from\", \"to\", on_update, on_delete
             FROM pragma_foreign_key_list(?) ORDER BY id, seq",
        )?;
        let mut rows = list.query([table])?;
        let mut keys: Vec<(i64, ForeignKey)> = Vec::new();
        while let Some(row) = rows.next()? {
            let id: i64 = row.get(0)?;
            if keys.last().is_none_or(|last| last.0 != id) {
                let (update, delete): (String, String) = (row.get(4)?, row.get(5)?);
                let actions = format!("ON UPDATE {update} ON DELETE {delete}");
                keys.push((id, ForeignKey { table: row.get(1)?, actions, ..ForeignKey::default() }));
            }
            let (_, key) = keys.last_mut().expect("it was just pushed");
            key.from.push(quote(&row.get::<_, String>(2)?));
            key.to.extend(row.get::<_, Option<String>>(3)?.map(|name| quote(&name)));
        }
        Ok(keys.iter().map(|(_, key)| key.clause()).collect())
    }
}

#[derive(Default)]
struct ForeignKey {
    table: String,
    from: Vec<String>,
    to: Vec<String>,
    actions: String,
}

impl ForeignKey {
    fn clause(&self) -> String {
        let to = if self.to.is_empty() { String::new() } else { format!("({})", self.to.join(", ")) };
        let (from, table) = (self.from.join(", "), quote(&self.table));
        format!("FOREIGN KEY ({from}) REFERENCES {table}{to} {}", self.actions)
    }
}

/// Returns the clauses of a table's definition that are not followed. They are refused, or for an SQLite file reported
/// as left out.
fn not_followed(sql: &str, table: &str) -> Vec<String> {
    let tokens: Vec<_> = lexer::tokens(sql).collect();
    let mut found = Vec::new();
    for three in tokens.windows(3).filter(|three| three[0].is("ON") && three[1].is("CONFLICT")) {
        if !three[2].is("ABORT") {
            let what = three[2].text.to_ascii_uppercase();
            found.push(format!(
                "ON CONFLICT {what} of a constraint of table {table}: use INSERT OR {what} in statements"
            ));
        }
    }
    found
}

/// Returns the expressions of `CHECK` constraints in a table's definition.
fn checks(sql: &str) -> Vec<String> {
    let tokens: Vec<_> = lexer::tokens(sql).collect();
    let mut found = Vec::new();
    for (at, pair) in
        tokens.windows(2).enumerate().filter(|(_, pair)| pair[0].is("CHECK") && pair[1].is_mark('('))
    {
        let mut depth = 0;
        for token in &tokens[at + 1..] {
            depth += i32::from(token.is_mark('(')) - i32::from(token.is_mark(')'));
            if depth == 0 {
                found.push(sql[pair[1].end()..token.start].trim().to_owned());
                break;
            }
        }
    }
    found
}

impl ReadTable {
    /// Checks that the table needs no feature that typed tables do not have.
    pub(super) fn refuse_left_out(&self) -> Result<()> {
        match self.left_out.first() {
            None => Ok(()),
            Some(what) => Err(Error::new(format!("not supported: {what}"))),
        }
    }

    /// Checks that there are no other foreign keys than those from an SQLite file. Others would not be enforced, so
    /// they are rejected.
    pub(super) fn refuse_foreign_keys(&self, known: usize) -> Result<()> {
        match self.note.foreign_keys.get(known) {
            None => Ok(()),
            Some(clause) => Err(Error::new(format!(
                "not supported: foreign keys are not enforced, so they are rejected; leave out {clause}"
            ))),
        }
    }

    /// Checks that SQLite can handle the table's width. If rows have no ids, the key is one more column for it, see
    /// [`crate::catalog::RowId::Key`].
    pub(super) fn refuse_too_wide(&self) -> Result<()> {
        let is_integer = |part: &Part| {
            let column = self.columns.iter().find(|column| column.name().eq_ignore_ascii_case(part.column()));
            column.is_some_and(|column| column.column_type() == ColumnType::Int)
        };
        let has_ids = match &self.key[..] {
            [] => true,
            _ if self.note.without_row_id => false,
            [part] => !part.is_descending() && is_integer(part),
            _ => false,
        };
        let (name, count) = (&self.name, self.columns.len());
        if has_ids || count < MAX_COLUMNS {
            return Ok(());
        }
        let most = MAX_COLUMNS - 1;
        Err(Error::new(format!(
            "too many columns on {name}: {count}, but a table whose key is not a single integer can have \
             at most {most}"
        )))
    }

    /// Returns the largest id that a table with `AUTOINCREMENT` of an SQLite file has given.
    pub fn largest_given_id(&self, source: &rusqlite::Connection) -> Result<Option<i64>> {
        if !self.note.autoincrement {
            return Ok(None);
        }
        let sql = "SELECT max(seq) FROM sqlite_sequence WHERE name = ? AND typeof(seq) = 'integer'";
        Ok(source.query_row(sql, [&self.name], |row| row.get(0))?)
    }

    /// Returns the foreign keys, as clauses of a definition.
    pub fn foreign_keys(&self) -> &[String] {
        &self.note.foreign_keys
    }

    /// Returns a part of a key. SQLite reports a collation even for numbers.
    fn part(&self, part: &Part) -> Part {
        let column = self.columns.iter().find(|column| column.name().eq_ignore_ascii_case(part.column()));
        match column.map(Column::column_type) {
            Some(ColumnType::Text | ColumnType::Any) => part.clone(),
            _ => part.clone().collation(Collation::Binary),
        }
    }

    pub(super) fn index(&self, index: &ReadIndex) -> IndexDefinition {
        let definition = IndexDefinition::new(&index.name, index.parts.iter().map(|part| self.part(part)));
        if index.unique { definition.unique() } else { definition }
    }

    /// Changes columns whose values have other types than declared to accept any type. `has_others` checks this, given
    /// a column's name and what `typeof` calls its own type.
    pub fn loosen(&mut self, has_others: impl Fn(&str, &str) -> Result<bool>) -> Result<()> {
        for column in &mut self.columns {
            let own = match column.column_type() {
                ColumnType::Int => "integer",
                ColumnType::Float => "real",
                ColumnType::Text => "text",
                ColumnType::Bytes => "blob",
                _ => continue,
            };
            if has_others(column.name(), own)? {
                let loose = Column::new(column.name(), ColumnType::Any).note(column.note_text());
                *column = if column.is_nullable() { loose.nullable() } else { loose };
            }
        }
        Ok(())
    }

    /// Returns whether some row has a null in its primary key, which SQLite allows.
    pub fn key_has_null(&self, has_null: impl Fn(&str) -> Result<bool>) -> Result<bool> {
        self.key.iter().try_fold(false, |found, part| Ok(found || has_null(part.column())?))
    }

    /// Makes the primary key a unique index: rows are identified by a hidden id, as in SQLite.
    pub fn hide_key(&mut self) {
        let parts = std::mem::take(&mut self.key);
        for column in &mut self.columns {
            if parts.iter().any(|part| part.column() == column.name()) {
                *column = column.clone().nullable();
            }
        }
        let name = format!("{AUTO_INDEX}{}_key", self.name);
        self.indexes.push(ReadIndex { name, parts, unique: true });
        self.note.row_id = true;
    }

    /// Returns whether the primary key is one column of the type `SERIAL` that may be null. To SQLite it is no row id,
    /// and rows are inserted without it: the migrations of drizzle-orm are.
    pub(super) fn has_serial_key(&self) -> bool {
        let [part] = &self.key[..] else { return false };
        self.nullable_keys.iter().any(|key| key == part.column()) && {
            let column = self.columns.iter().find(|column| column.name() == part.column());
            let note = column.and_then(|column| serde_json::from_str::<ColumnNote>(column.note_text()).ok());
            note.is_some_and(|note| note.declared.eq_ignore_ascii_case("SERIAL"))
        }
    }

    pub fn has_hidden_row_id(&self) -> bool {
        self.note.row_id
    }

    /// Returns the definition of the typed table.
    pub fn into_definition(self) -> Result<Definition> {
        self.refuse_left_out()?;
        self.refuse_too_wide()?;
        let mut definition = Definition::new(&self.name);
        if self.note.row_id {
            let names = [HIDDEN_ROW_ID, "_rowid_", "oid", "pando_row_id"];
            let is_free =
                |name: &&str| !self.columns.iter().any(|column| column.name().eq_ignore_ascii_case(name));
            let hidden = names.into_iter().find(is_free).unwrap_or(HIDDEN_ROW_ID);
            definition = definition.column(Column::new(hidden, ColumnType::Int)).key([hidden]);
        } else {
            definition = definition.key(self.key.iter().map(|part| self.part(part)));
        }
        let note = serde_json::to_string(&self.note).expect("a note is plain data");
        let indexes: Vec<_> = self.indexes.iter().map(|index| self.index(index)).collect();
        definition = self.columns.into_iter().fold(definition, Definition::column).note(note);
        Ok(indexes.into_iter().fold(definition, Definition::index))
    }
}
