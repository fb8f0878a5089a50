//! What the tests share.

use crate::server;
use base::env::Random;
use pando::Database;
use pando::any::AnyDatabase;
use pando_sqlite::{Connection, Value};

/// Returns whether the tests run over PostgreSQL: if `PANDO_SQL_STORE` is set.
pub fn is_over_a_store() -> bool {
    std::env::var_os("PANDO_SQL_STORE").is_some()
}

/// Returns a new database: in memory, or in PostgreSQL.
pub fn database() -> AnyDatabase {
    match is_over_a_store() {
        true => server::database().expect("a server of PostgreSQL starts").into(),
        false => Database::builder().in_memory().expect("a database in memory opens").into(),
    }
}

/// Opens a connection to a new database.
pub fn fresh() -> Connection {
    Connection::open(database()).expect("a connection opens")
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

/// A connection to Pando and one to SQLite's own trees, which run the same statements.
pub struct Both {
    pub ours: Connection,
    pub theirs: Connection,
}

impl Both {
    pub fn new() -> Both {
        Both { ours: fresh(), theirs: Connection::in_memory().expect("a connection opens") }
    }

    /// Runs statements on both, and checks that both succeed or fail with the same code.
    pub fn execute(&self, sql: &str) {
        let codes = [&self.ours, &self.theirs].map(|on| on.execute(sql).err());
        let [ours, theirs] = codes.each_ref().map(|error| error.as_ref().map(|error| error.code));
        assert_eq!(ours, theirs, "{sql}: {codes:?}");
    }

    /// Runs a query on both, and checks that the rows are equal, types included.
    #[track_caller]
    pub fn query(&self, sql: &str) -> usize {
        let [ours, theirs] = [&self.ours, &self.theirs].map(|on| on.query(sql));
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => {
                assert_eq!(ours, theirs, "{sql}");
                ours.len()
            }
            (Err(ours), Err(theirs)) => {
                assert_eq!(ours.code, theirs.code, "{sql}: {ours} and {theirs}");
                0
            }
            (ours, theirs) => panic!("{sql}: Pando {ours:?}, SQLite {theirs:?}"),
        }
    }
}

/// Returns one of several texts.
pub fn pick<'t>(random: &mut Random, of: &[&'t str]) -> &'t str {
    of[random.below(of.len() as u64) as usize]
}

/// Prints a seed if the test fails, also where the functions that it calls do not know the seed.
pub struct Seed(pub u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {}", self.0);
        }
    }
}
