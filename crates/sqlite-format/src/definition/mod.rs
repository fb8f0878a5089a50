//! Definitions: what `sqlite_schema` says of a table or an index in SQL, as far as its rows and entries depend on it.
//!
//! The text was accepted by SQLite, which stores it as `CREATE TABLE name(...)`, so this reads it and does not check
//! it. What it does not understand is [`NotUnderstood`], never a guess: a definition that is read in another way than
//! SQLite reads it would make wrong rows.
//!
//! How the rows of a table are stored follows from four things:
//! 1. *The rowid.* Without `WITHOUT ROWID`, the key of a row is its rowid, and the record has all columns in their
//!    order. A column that is the primary key by itself and has exactly the type `INTEGER` stands for the rowid, and is
//!    `NULL` in the record. `INTEGER PRIMARY KEY DESC` at a column does not, but `PRIMARY KEY(a DESC)` as a clause of
//!    its own does.
//! 2. *`WITHOUT ROWID`.* The key is the primary key, without the columns that it names twice. The record has first
//!    these columns, then the others.
//! 3. *Generated columns.* The record has those that are `STORED`, in their place, and no others.
//! 4. *Added columns.* A record that was written before has fewer fields. The others have their default.

mod clauses;
mod reader;

use crate::key::{Collation, Order};
use crate::token::Kind;
use clauses::Clauses;
use reader::Reader;
use std::fmt;

/// The text of a definition has a form that this module does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotUnderstood(String);

impl fmt::Display for NotUnderstood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotUnderstood {}

/// The result of reading a definition.
pub type Understood<T> = Result<T, NotUnderstood>;

fn not_understood<T>(what: impl Into<String>) -> Understood<T> {
    Err(NotUnderstood(what.into()))
}

/// The conversion that a column applies to what is stored in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// `INTEGER`.
    Integer,
    /// `REAL`. Integral values are stored as integers, to save room, and are floats nevertheless.
    Real,
    /// `NUMERIC`.
    Numeric,
    /// `TEXT`.
    Text,
    /// None: a value stays as it is.
    Blob,
}

impl Affinity {
    /// Returns the affinity for a declared type (<https://www.sqlite.org/datatype3.html>, section 3.1).
    ///
    /// ```
    /// use pando_sqlite_format::definition::Affinity;
    /// assert_eq!(Affinity::of_declared("VARCHAR(20)"), Affinity::Text);
    /// assert_eq!(Affinity::of_declared("DATE"), Affinity::Numeric);
    /// ```
    pub fn of_declared(declared: &str) -> Affinity {
        let declared = declared.to_ascii_uppercase();
        let has = |part: &str| declared.contains(part);
        if has("INT") {
            Affinity::Integer
        } else if has("CHAR") || has("CLOB") || has("TEXT") {
            Affinity::Text
        } else if has("BLOB") || declared.is_empty() {
            Affinity::Blob
        } else if has("REAL") || has("FLOA") || has("DOUB") {
            Affinity::Real
        } else {
            Affinity::Numeric
        }
    }
}

/// How the value of a generated column comes to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generated {
    /// It is computed when it is read.
    Virtual,
    /// It is in the record.
    Stored,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name.
    pub name: String,
    /// The declared type as it was written; empty if there is none.
    pub declared: String,
    /// Whether it has `NOT NULL`, or is of the primary key of a `STRICT` table.
    pub is_not_null: bool,
    /// The text of its default.
    pub default: Option<String>,
    /// Its collation, which may be one of a program's own.
    pub collation: String,
    /// Whether it is generated.
    pub generated: Option<Generated>,
}

/// A column of a key, and its order there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The place of the column in the table, from 0.
    pub column: usize,
    /// The order.
    pub order: Order,
}

/// What the rows of a table are stored by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// The rowid, and the place of the column that stands for it, if there is one.
    Rowid(Option<usize>),
    /// The primary key of a `WITHOUT ROWID` table, without repeated columns.
    Primary(Vec<Part>),
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The columns, in their order.
    pub columns: Vec<Column>,
    /// What its rows are stored by.
    pub key: Key,
    /// Whether it is `STRICT`.
    pub is_strict: bool,
    /// The indexes that SQLite made for `UNIQUE` and `PRIMARY KEY`, in the order of the numbers in their names.
    /// `None`: one with a collation of a program's own.
    pub automatic: Vec<Option<Index>>,
    /// What SQLite does at each write beyond storing the row, in words: `"a CHECK constraint"`. Types, `NOT NULL` and
    /// uniqueness do not count.
    pub enforced: Vec<&'static str>,
    /// The tables that its foreign keys name.
    pub parents: Vec<String>,
}

impl Table {
    /// Reads the text of a `CREATE TABLE`.
    ///
    /// ```
    /// use pando_sqlite_format::definition::{Key, Table};
    /// let table = Table::parse("CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT NOT NULL)")?;
    /// assert_eq!(table.key, Key::Rowid(Some(0)));
    /// assert_eq!(table.columns[1].declared, "TEXT");
    /// # Ok::<(), pando_sqlite_format::definition::NotUnderstood>(())
    /// ```
    ///
    /// # Errors
    /// [`NotUnderstood`], which says what.
    pub fn parse(sql: &str) -> Understood<Table> {
        let mut reader = Reader::new(sql);
        reader.expect("CREATE")?;
        reader.expect("TABLE")?;
        reader.name()?;
        reader.expect_mark('(')?;
        let mut read = Clauses::default();
        while !reader.next_is_mark(')') {
            if reader.starts_constraint() {
                read.table_constraint(&mut reader)?;
            } else {
                read.column(&mut reader)?;
            }
            reader.take_mark(',');
        }
        reader.expect_mark(')')?;
        let (mut is_strict, mut has_no_rowid) = (false, false);
        while reader.peek().is_some() {
            if reader.take("STRICT") {
                is_strict = true;
            } else if reader.take("WITHOUT") {
                reader.expect("ROWID")?;
                has_no_rowid = true;
            } else {
                return not_understood("the words after its columns");
            }
            reader.take_mark(',');
        }
        read.finish(is_strict, has_no_rowid)
    }

    /// Returns the places of the columns in the order in which records have them.
    pub fn stored(&self) -> Vec<usize> {
        let is_kept = |place: &usize| self.columns[*place].generated != Some(Generated::Virtual);
        let all = (0..self.columns.len()).filter(is_kept);
        let Key::Primary(key) = &self.key else { return all.collect() };
        let in_key = |place: &usize| key.iter().any(|part| part.column == *place);
        key.iter().map(|part| part.column).chain(all.filter(|place| !in_key(place))).collect()
    }

    /// Returns the place of a column, regardless of case.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// Reads the text of a `CREATE INDEX` on this table: the columns of the index. Returns `None` for an index on an
    /// expression, a partial index, and one with a collation of a program's own.
    ///
    /// # Errors
    /// [`NotUnderstood`], which says what.
    pub fn parse_index(&self, sql: &str) -> Understood<Option<Index>> {
        let mut reader = Reader::new(sql);
        reader.expect("CREATE")?;
        let is_unique = reader.take("UNIQUE");
        reader.expect("INDEX")?;
        reader.name()?;
        reader.expect("ON")?;
        reader.name()?;
        reader.expect_mark('(')?;
        let mut parts = Vec::new();
        loop {
            let Some(part) = self.part(&mut reader)? else { return Ok(None) };
            parts.push(part);
            if !reader.take_mark(',') {
                break;
            }
        }
        reader.expect_mark(')')?;
        Ok(reader.peek().is_none().then_some(Index { parts, is_unique }))
    }

    /// Reads a column of a key. `None`: it is an expression, or its collation is unknown.
    fn part(&self, reader: &mut Reader<'_>) -> Understood<Option<Part>> {
        // A string is a name only where SQLite finds no other meaning.
        let Some(token) = reader.next().filter(|token| matches!(token.kind, Kind::Word | Kind::Quoted))
        else {
            return Ok(None);
        };
        let Some(column) = token.name().and_then(|name| self.place(&name)) else { return Ok(None) };
        let collation = match reader.take("COLLATE") {
            true => reader.name()?,
            false => self.columns[column].collation.clone(),
        };
        let descending = !reader.take("ASC") && reader.take("DESC");
        if !reader.next_is_mark(',') && !reader.next_is_mark(')') {
            return Ok(None);
        }
        let known = Collation::of_name(&collation);
        Ok(known.map(|collation| Part { column, order: Order { collation, descending } }))
    }
}

/// An index whose entries are columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Its columns.
    pub parts: Vec<Part>,
    /// Whether at most one row has the same values, none of which is null.
    pub is_unique: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // `crates/sqlite/tests/it/typed_definitions.rs` compares what is read with what SQLite says.

    #[test]
    fn what_is_not_understood_is_named() {
        for (sql, words) in [
            ("", "\"its end\" in the place of \"CREATE\""),
            ("CREATE VIRTUAL TABLE t USING fts5(a)", "\"VIRTUAL\" in the place of \"TABLE\""),
            ("CREATE TABLE t", "in the place of \"(\""),
            ("CREATE TABLE t(a", "its end is missing"),
            ("CREATE TABLE t(a CHECK (b", "a bracket that is not closed"),
            ("CREATE TABLE t(a 5)", "\"5\" in column \"a\""),
            ("CREATE TABLE t(a DEFAULT)", "the default \")\""),
            ("CREATE TABLE t(a) SOMETHING", "the words after its columns"),
            ("CREATE TABLE t(a, PRIMARY KEY(b))", "its key names \"b\""),
            ("CREATE TABLE t(a) WITHOUT ROWID", "without a primary key"),
            ("CREATE TABLE t(a COLLATE own PRIMARY KEY) WITHOUT ROWID", "the collation of \"a\""),
            (
                "CREATE TABLE t(a, PRIMARY KEY(a, a COLLATE nocase)) WITHOUT ROWID",
                "a column in two collations",
            ),
        ] {
            let error = Table::parse(sql).expect_err(sql);
            assert!(error.to_string().contains(words), "{sql}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(words in prop::collection::vec(0..24usize, 0..24), tail: String) {
            let all = [
                "CREATE", "TABLE", "t", "(", ")", ",", "a", "INTEGER", "PRIMARY", "KEY", "DEFAULT", "-",
                "5", "CHECK", "CONSTRAINT", "NOT", "NULL", "AS", "REFERENCES", "ON", "'x", "UNIQUE",
                "WITHOUT", ".",
            ];
            let text: Vec<_> = words.iter().map(|word| all[*word]).collect();
            for start in ["", "CREATE TABLE t("] {
                let text = format!("{start}{} {tail}", text.join(" "));
                if let Ok(table) = Table::parse(&text) {
                    prop_assert!(table.stored().len() <= table.columns.len());
                }
                let table = Table::parse("CREATE TABLE t(a, b)").expect("it is plain");
                let _ = table.parse_index(&text);
            }
        }
    }
}
