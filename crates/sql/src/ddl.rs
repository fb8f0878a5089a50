//! `CREATE`, `ALTER` and `DROP` of tables and indexes.
//!
//! SQLite reads the statement, in a database in memory that holds nothing but the tables it is about ([`Scratch`]);
//! what it made of it is read back by pragmas, and becomes a change of the typed table. The change is part of the
//! connection's transaction, as in SQLite.

use crate::affinity::Affinity;
use crate::catalog::{AUTO_INDEX, Catalog, ColumnNote, HIDDEN_ROW_ID, SqlTable, TableNote};
use crate::change::coerce;
use crate::confine;
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::lexer::{self, Kind, Token, quote};
use crate::session::MARKER;
use crate::vtab::collation_of;
use pando::Transaction;
use rows::{
    Collation, Column, ColumnType, Definition, DynamicTable, IndexDefinition, MAX_COLUMNS, Part, Value,
};
use rusqlite::types::ValueRef;

/// A statement that changes schemas, of the main database.
#[derive(Debug)]
pub(crate) struct Ddl {
    sql: String,
    action: Action,
    /// `IF EXISTS`, `IF NOT EXISTS`.
    is_lenient: bool,
    name: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Action {
    CreateTable,
    /// `CREATE TABLE ... AS`, with the query.
    CreateTableAs(String),
    /// With the table's name.
    CreateIndex(String),
    AlterTable,
    DropTable,
    DropIndex,
}

impl Ddl {
    /// The statement, if it is one. Those about temporary tables are SQLite's.
    pub fn parse(sql: &str) -> Result<Option<Self>> {
        let mut tokens = lexer::tokens(sql).peekable();
        let mut take = |keyword: &str| tokens.next_if(|token| token.is(keyword)).is_some();
        let verb = match () {
            () if take("CREATE") => "CREATE",
            () if take("ALTER") => "ALTER",
            () if take("DROP") => "DROP",
            () => return Ok(None),
        };
        if take("TEMP") || take("TEMPORARY") {
            return Ok(None);
        }
        let _unique = take("UNIQUE");
        let is_table = take("TABLE");
        if !is_table && !take("INDEX") {
            let kind = ["VIEW", "TRIGGER", "VIRTUAL"].into_iter().find(|kind| take(kind));
            let Some(kind) = kind.filter(|_| verb == "CREATE") else { return Ok(None) };
            let kind = kind.to_lowercase();
            return Err(match kind.as_str() {
                "virtual" => {
                    Error::refused("not authorized: there are no virtual tables of SQLite's own here")
                }
                kind => Error::new(format!(
                    "{kind}s are not stored in the database; CREATE TEMP {} lasts as long as the connection",
                    kind.to_uppercase()
                )),
            });
        }
        let is_lenient = take("IF");
        if is_lenient {
            take("NOT");
            take("EXISTS");
        }
        let mut name = || tokens.next().and_then(|token| token.name());
        let Some(mut found) = name() else { return Ok(None) };
        if tokens.next_if(|token| token.is_mark('.')).is_some() {
            if !found.eq_ignore_ascii_case("main") {
                return Ok(None);
            }
            let Some(behind) = tokens.next().and_then(|token| token.name()) else { return Ok(None) };
            found = behind;
        }
        let action = match (verb, is_table) {
            ("CREATE", true) => match tokens.next_if(|token| token.is("AS")) {
                Some(token) => Action::CreateTableAs(sql[token.end()..].to_owned()),
                None => Action::CreateTable,
            },
            ("CREATE", false) => {
                let on = tokens.next().filter(|token| token.is("ON"));
                let Some(table) = on.and_then(|_| tokens.next()).and_then(|token| token.name()) else {
                    return Ok(None);
                };
                Action::CreateIndex(table)
            }
            ("ALTER", true) => Action::AlterTable,
            ("DROP", true) => Action::DropTable,
            ("DROP", false) => Action::DropIndex,
            _ => return Ok(None),
        };
        Ok(Some(Ddl { sql: sql.to_owned(), action, is_lenient, name: found }))
    }
}

/// Runs a statement: all of it or nothing. `CREATE INDEX` outside of a transaction is many of them, beside writers.
pub(crate) fn run(connection: &Connection, ddl: &Ddl) -> Result<()> {
    connection.session().check_writable()?;
    if let Action::CreateIndex(table) = &ddl.action
        && connection.is_autocommit()
    {
        connection.begin_uninterrupted()?;
        connection.reload()?;
        if build_beside_writers(connection, ddl, table)? {
            return connection.reload();
        }
    }
    connection.atomically(|| {
        connection.session().enter(connection.host)?;
        connection.session().changes_schemas();
        // Whatever was undone before, all is read anew here.
        connection.session().take_undone();
        connection.tables.reload(connection.host)?;
        let catalog = connection.tables.known();
        if let Action::CreateTableAs(query) = &ddl.action {
            return create_as(connection, ddl, &catalog, query);
        }
        if !apply(connection, ddl, &catalog)? {
            // A temporary table's, or nobody's.
            connection.sqlite.execute_batch(&ddl.sql)?;
        }
        Ok(())
    })?;
    connection.reload()
}

/// Changes typed tables. Answers whether the statement is about one.
fn apply(connection: &Connection, ddl: &Ddl, catalog: &Catalog) -> Result<bool> {
    let write = |work: &mut dyn FnMut(&mut Transaction) -> Result<()>| {
        connection.session().write(|tx| Ok(work(tx)))?
    };
    match &ddl.action {
        Action::CreateTable => {
            if !is_free(ddl, catalog)? {
                return Ok(true);
            }
            let scratch = Scratch::new()?;
            scratch.run(&ddl.sql)?;
            let read = scratch.read_table(&ddl.name)?;
            read.refuse_foreign_keys(0)?;
            let definition = read.into_definition()?;
            write(&mut |tx| Ok(DynamicTable::create(tx, &definition).map(drop)?))?;
        }
        Action::CreateTableAs(_) => unreachable!("it is run in steps"),
        Action::CreateIndex(table) => {
            let Some(table) = catalog.find(table) else { return Ok(false) };
            if catalog.find_index(&ddl.name).is_some() {
                return if ddl.is_lenient { Ok(true) } else { Err(index_exists(ddl)) };
            }
            let added = index_definition(ddl, table)?;
            write(&mut |tx| {
                let go_on = || connection.go_on().map_err(pando::Error::from);
                Ok(table.rows.clone().create_index_while(tx, added.clone(), go_on).map(drop)?)
            })?;
        }
        Action::AlterTable => {
            let Some(table) = catalog.find(&ddl.name) else { return Ok(false) };
            let changes = alter(ddl, table, catalog)?;
            write(&mut |tx| {
                changes.iter().try_fold(table.rows.clone(), |rows, change| change.apply(rows, tx)).map(drop)
            })?;
        }
        Action::DropTable => {
            let Some(table) = catalog.find(&ddl.name) else { return Ok(false) };
            write(&mut |tx| Ok(table.rows.clone().drop(tx)?))?;
        }
        Action::DropIndex => {
            let Some((table, index)) = catalog.find_index(&ddl.name) else { return Ok(false) };
            if index.starts_with(AUTO_INDEX) {
                return Err(Error::new("an index that is part of a UNIQUE constraint cannot be dropped"));
            }
            write(&mut |tx| Ok(table.rows.clone().drop_index(tx, index).map(drop)?))?;
        }
    }
    Ok(true)
}

fn index_exists(ddl: &Ddl) -> Error {
    Error::new(format!("index {} already exists", ddl.name))
}

/// The index that a `CREATE INDEX` is about.
fn index_definition(ddl: &Ddl, table: &SqlTable) -> Result<IndexDefinition> {
    let scratch = Scratch::with(table)?;
    scratch.run(&ddl.sql)?;
    let read = scratch.read_table(table.name())?;
    read.refuse_left_out()?;
    let added = read.indexes.iter().find(|index| index.name.eq_ignore_ascii_case(&ddl.name));
    Ok(read.index(added.expect("SQLite has just made it")))
}

/// Builds an index beside writers. One of that name that a process died over is finished. Answers whether the statement
/// is about a typed table. Stopped, it leaves nothing of what it began.
fn build_beside_writers(connection: &Connection, ddl: &Ddl, table: &str) -> Result<bool> {
    let catalog = connection.tables.known();
    let Some(table) = catalog.find(table) else { return Ok(false) };
    let db = &connection.tables.engine.db;
    let go_on = |_| connection.go_on().map_err(pando::Error::from);
    if let Some((owner, name)) = catalog.find_index(&ddl.name) {
        let is_unfinished = owner.rows.schema().index(name).is_some_and(rows::Index::is_building);
        if is_unfinished && owner.name() == table.name() {
            rows::finish_index(db, table.name(), name, go_on)?;
            return Ok(true);
        }
        return if ddl.is_lenient { Ok(true) } else { Err(index_exists(ddl)) };
    }
    rows::build_index(db, table.name(), index_definition(ddl, table)?, go_on)?;
    Ok(true)
}

/// Whether there is no table of the name yet.
fn is_free(ddl: &Ddl, catalog: &Catalog) -> Result<bool> {
    if ddl.name.eq_ignore_ascii_case(MARKER) {
        return Err(Error::new(format!("object name reserved for internal use: {}", ddl.name)));
    }
    match catalog.find(&ddl.name) {
        None => Ok(true),
        Some(_) if ddl.is_lenient => Ok(false),
        Some(table) => Err(Error::new(format!("table {} already exists", table.name()))),
    }
}

/// `CREATE TABLE ... AS`: SQLite says what the columns are; then the table is made, and filled.
fn create_as(connection: &Connection, ddl: &Ddl, catalog: &Catalog, query: &str) -> Result<()> {
    const SHAPE: &str = "pando_shape";
    if !is_free(ddl, catalog)? {
        return Ok(());
    }
    connection
        .sqlite
        .execute_batch(&format!("CREATE TEMP TABLE {SHAPE} AS SELECT * FROM ({query}) LIMIT 0"))?;
    let columns = {
        let mut info = connection.sqlite.prepare("SELECT name, type FROM pragma_table_info(?, 'temp')")?;
        let columns = info.query_map([SHAPE], |row| {
            Ok(format!("{} {}", quote(&row.get::<_, String>(0)?), row.get::<_, String>(1)?))
        })?;
        columns.collect::<rusqlite::Result<Vec<_>>>()?
    };
    connection.sqlite.execute_batch(&format!("DROP TABLE temp.{SHAPE}"))?;
    let name = quote(&ddl.name);
    let sql = format!("CREATE TABLE {name} ({})", columns.join(", "));
    let create = Ddl { sql, action: Action::CreateTable, is_lenient: false, name: ddl.name.clone() };
    apply(connection, &create, catalog)?;
    connection.tables.reload(connection.host)?;
    connection.prepare_sqlite(&format!("INSERT INTO {name} {query}"))?.raw_execute()?;
    Ok(())
}

/// One change of a typed table.
enum Alteration {
    Rename(String),
    RenameColumn(String, String),
    AddColumn(Column),
    DropColumn(String),
    Note(String),
}

impl Alteration {
    fn apply(&self, rows: DynamicTable, tx: &mut Transaction) -> Result<DynamicTable> {
        Ok(match self {
            Alteration::Rename(name) => rows.rename(tx, name)?,
            Alteration::RenameColumn(old, new) => rows.rename_column(tx, old, new)?,
            Alteration::AddColumn(column) => rows.add_column(tx, column.clone())?,
            Alteration::DropColumn(name) => rows.drop_column(tx, name)?,
            Alteration::Note(note) => rows.set_note(tx, note)?,
        })
    }
}

/// What an `ALTER TABLE` comes to: how the table is different once SQLite has run it.
fn alter(ddl: &Ddl, table: &SqlTable, catalog: &Catalog) -> Result<Vec<Alteration>> {
    let scratch = Scratch::with(table)?;
    scratch.run(&ddl.sql)?;
    let name: String =
        scratch.0.query_row("SELECT name FROM sqlite_schema WHERE type = 'table'", [], |row| row.get(0))?;
    let mut read = scratch.read_table(&name)?;
    read.refuse_foreign_keys(table.note.foreign_keys.len())?;
    read.refuse_too_wide()?;
    let mut changes = Vec::new();
    if name != table.name() {
        if catalog.find(&name).is_some_and(|other| other.name() != table.name()) {
            return Err(Error::new(format!(
                "there is already another table or index with this name: {name}"
            )));
        }
        changes.push(Alteration::Rename(name));
    }
    let before: Vec<_> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let after: Vec<_> = read.columns.iter().map(|column| column.name().to_owned()).collect();
    if after.len() > before.len() {
        changes.push(Alteration::AddColumn(read.columns.swap_remove(before.len())));
    } else if let Some(at) = (0..before.len()).find(|&at| after.get(at).is_none_or(|name| name != before[at]))
    {
        changes.push(match after.len() < before.len() {
            true => Alteration::DropColumn(before[at].to_owned()),
            false => Alteration::RenameColumn(before[at].to_owned(), after[at].clone()),
        });
    }
    let note = TableNote { row_id: table.note.row_id, ..read.note };
    let note = serde_json::to_string(&note).expect("a note is plain data");
    if note != table.rows.schema().note() {
        changes.push(Alteration::Note(note));
    }
    Ok(changes)
}

/// A database in memory in which SQLite reads DDL.
pub(crate) struct Scratch(rusqlite::Connection);

/// A table as SQLite has understood it.
pub(crate) struct ReadTable {
    name: String,
    pub columns: Vec<Column>,
    /// Empty if there is none.
    key: Vec<Part>,
    pub indexes: Vec<ReadIndex>,
    note: TableNote,
    /// What typed tables do not have, and why.
    pub left_out: Vec<String>,
}

/// An index as SQLite has understood it.
pub(crate) struct ReadIndex {
    name: String,
    parts: Vec<Part>,
    unique: bool,
}

impl Scratch {
    fn new() -> Result<Self> {
        Ok(Scratch(confine::alone()?))
    }

    /// A database that someone else has filled.
    pub fn of(connection: rusqlite::Connection) -> Self {
        Scratch(connection)
    }

    pub fn connection(&self) -> &rusqlite::Connection {
        &self.0
    }

    fn with(table: &SqlTable) -> Result<Self> {
        let scratch = Self::new()?;
        scratch.run(&table.create_statement())?;
        table.index_statements().iter().try_for_each(|sql| scratch.run(sql))?;
        Ok(scratch)
    }

    fn run(&self, sql: &str) -> Result<()> {
        Ok(self.0.execute_batch(sql)?)
    }

    /// Reads a table back.
    pub fn read_table(&self, name: &str) -> Result<ReadTable> {
        let sql = "SELECT sql, name FROM sqlite_schema WHERE type = 'table' AND name = ? COLLATE NOCASE";
        let (text, name): (String, String) =
            self.0.query_row(sql, [name], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut left_out = Vec::new();
        let mut key: Vec<(i64, String)> = Vec::new();
        let mut columns = Vec::new();
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
                (None, _) => left_out
                    .push(format!("index {index}: it is over an expression, or a collation of its own")),
                (Some(_), _) => left_out.push(format!("index {index}: it is partial")),
            }
        }
        let note = TableNote {
            row_id: parts.is_empty(),
            checks: checks(&text),
            foreign_keys: self.foreign_keys(&name)?,
        };
        Ok(ReadTable { name, columns, key: parts, indexes, note, left_out })
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

    /// The value of a default, if it is always the same one.
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

    /// The parts of an index, if all are columns, in collations that are known.
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

/// The expressions of `CHECK`s in a table's definition.
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
    /// That there is nothing typed tables do not have.
    fn refuse_left_out(&self) -> Result<()> {
        match self.left_out.first() {
            None => Ok(()),
            Some(what) => Err(Error::new(format!("not supported: {what}"))),
        }
    }

    /// That there are no more foreign keys than those that came from a file of SQLite's: they are not enforced, and
    /// nobody shall think so.
    fn refuse_foreign_keys(&self, known: usize) -> Result<()> {
        match self.note.foreign_keys.get(known) {
            None => Ok(()),
            Some(clause) => Err(Error::new(format!(
                "not supported: foreign keys are not enforced, so none is accepted; leave out {clause}"
            ))),
        }
    }

    /// That SQLite can know the table: where rows have no ids, the key is one more column to it, see
    /// [`crate::catalog::RowId::Key`].
    fn refuse_too_wide(&self) -> Result<()> {
        let is_integer = |part: &Part| {
            let column = self.columns.iter().find(|column| column.name().eq_ignore_ascii_case(part.column()));
            column.is_some_and(|column| column.column_type() == ColumnType::Int)
        };
        let has_ids = match &self.key[..] {
            [] => true,
            [part] => !part.is_descending() && is_integer(part),
            _ => false,
        };
        let (name, count) = (&self.name, self.columns.len());
        if has_ids || count < MAX_COLUMNS {
            return Ok(());
        }
        let most = MAX_COLUMNS - 1;
        Err(Error::new(format!(
            "too many columns on {name}: {count}, where {most} are the most if the key is not one integer"
        )))
    }

    /// The foreign keys, as clauses of a definition.
    pub fn foreign_keys(&self) -> &[String] {
        &self.note.foreign_keys
    }

    /// A part of a key. SQLite tells a collation of numbers, too.
    fn part(&self, part: &Part) -> Part {
        let column = self.columns.iter().find(|column| column.name().eq_ignore_ascii_case(part.column()));
        match column.map(Column::column_type) {
            Some(ColumnType::Text | ColumnType::Any) => part.clone(),
            _ => part.clone().collation(Collation::Binary),
        }
    }

    fn index(&self, index: &ReadIndex) -> IndexDefinition {
        let definition = IndexDefinition::new(&index.name, index.parts.iter().map(|part| self.part(part)));
        if index.unique { definition.unique() } else { definition }
    }

    /// Lets columns that hold others than they declare hold anything; `has_others` looks, given a column's name and
    /// what `typeof` calls its own type.
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

    /// Whether some row has a null in its primary key, which SQLite allows.
    pub fn key_has_null(&self, has_null: impl Fn(&str) -> Result<bool>) -> Result<bool> {
        self.key.iter().try_fold(false, |found, part| Ok(found || has_null(part.column())?))
    }

    /// Makes the primary key a unique index: rows are kept by a hidden id, as SQLite does.
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

    pub fn has_hidden_row_id(&self) -> bool {
        self.note.row_id
    }

    /// The typed table to be made.
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
