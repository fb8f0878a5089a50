//! What the tests share.

use pando_sqlite::{Connection, Value};

/// Opens a connection to a new database in memory.
pub fn fresh() -> Connection {
    let db = pando::Database::builder().in_memory().expect("a database in memory opens");
    Connection::open(&db).expect("a connection opens")
}

/// Runs a query, and returns each row as text with `|` between the values.
pub fn rows(connection: &Connection, sql: &str) -> Vec<String> {
    let rows = connection.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.iter().map(|row| row.iter().map(text).collect::<Vec<_>>().join("|")).collect()
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Integer(value) => value.to_string(),
        Value::Real(value) => format!("{value:?}"),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}
