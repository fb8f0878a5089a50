//! Columns as SQL sees them, and the notes that DDL keeps of tables and columns beyond the schema. A table that was
//! made in Rust has no notes, or has other notes, and can be used nevertheless.
//!
//! | note of | holds, as JSON |
//! |---|---|
//! | a table | `row_id`: whether SQL hides its first column; `checks`: expressions; `foreign_keys`: clauses |
//! | | `strict`, `without_row_id`, `autoincrement`: how it was made |
//! | a column | `type`: as declared; `default`: an expression; `collate`: a collation |

use crate::affinity::Affinity;
use crate::lexer;
use crate::vtab::collation_of;
use rows::{Collation, ColumnType, Value};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The note of a table beyond its schema.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TableNote {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub row_id: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub foreign_keys: Vec<String>,
    /// Whether the table was made `STRICT`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
    /// Whether the table was made `WITHOUT ROWID`: an integer key is not a row id, and no key is generated for a row
    /// without one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub without_row_id: bool,
    /// Whether the ids of rows are never given again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub autoincrement: bool,
}

/// The note of a column beyond its schema.
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
    /// The expression of the default.
    pub default: Option<String>,
}

impl SqlColumn {
    /// Returns the type from which SQLite derives the column's affinity. SQLite treats `ANY` as numeric, except in its
    /// `STRICT` tables.
    pub fn sqlite_type(&self) -> &str {
        let is_none = self.affinity == Affinity::Blob && !self.declared.to_ascii_uppercase().contains("BLOB");
        if is_none { "" } else { &self.declared }
    }
}

/// Returns whether a default needs no parentheses in a definition: a literal, a number with its sign, or a word.
pub(crate) fn is_plain(default: &str) -> bool {
    let tokens: Vec<_> = lexer::tokens(default).collect();
    let is_sign = |token: &lexer::Token<'_>| token.is_mark('-') || token.is_mark('+');
    match &tokens[..] {
        [_] => true,
        [sign, number] => is_sign(sign) && number.kind == lexer::Kind::Number,
        _ => false,
    }
}

/// Parses a note of DDL; `None` if there is none. A note in another form is ignored.
pub(crate) fn parse_note<N: DeserializeOwned>(note: &str) -> serde_json::Result<Option<N>> {
    const BEGINNINGS: [&str; 7] = [
        "{\"type\"",
        "{\"row_id\"",
        "{\"checks\"",
        "{\"foreign_keys\"",
        "{\"strict\"",
        "{\"without_row_id\"",
        "{\"autoincrement\"",
    ];
    let is_ours = BEGINNINGS.iter().any(|words| note.starts_with(words));
    if is_ours { serde_json::from_str(note).map(Some) } else { Ok(None) }
}

pub(crate) fn sql_column(column: &rows::Column, note: Option<ColumnNote>) -> SqlColumn {
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

/// Returns the declared type of a column that was not made in SQL.
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

/// Returns a value as an SQL literal.
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

pub(crate) fn collation_name(collation: Collation) -> &'static str {
    match collation {
        Collation::NoCase => "NOCASE",
        Collation::RTrim => "RTRIM",
        _ => "BINARY",
    }
}
