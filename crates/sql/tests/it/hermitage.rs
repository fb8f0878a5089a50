//! The anomalies of Hermitage on tables that SQLite made: through this crate, and through the one below it.

use crate::support::hermitage::{Client, Failure, run_all};
use pando_sql::Sql;

impl Client for pando_sql::Connection {
    fn run(&mut self, sql: &str) -> Result<Vec<String>, Failure> {
        match self.query(sql, &[]) {
            Ok(rows) => Ok(rows.iter().map(|row| text(&row[0])).collect()),
            Err(error) if error.is_conflict() => Err(Failure::Conflict),
            Err(error) => Err(Failure::Other(error.to_string())),
        }
    }
}

fn text(value: &pando_sql::Value) -> String {
    match value {
        pando_sql::Value::Integer(value) => value.to_string(),
        pando_sql::Value::Text(value) => value.clone(),
        value => panic!("no script returns {value:?}"),
    }
}

impl Client for pando_sqlite::Connection {
    fn run(&mut self, sql: &str) -> Result<Vec<String>, Failure> {
        match self.query(sql) {
            Ok(rows) => Ok(rows.iter().map(|row| text_of_sqlite(&row[0])).collect()),
            Err(error) if error.is_conflict() => Err(Failure::Conflict),
            Err(error) => Err(Failure::Other(error.to_string())),
        }
    }
}

fn text_of_sqlite(value: &pando_sqlite::Value) -> String {
    match value {
        pando_sqlite::Value::Integer(value) => value.to_string(),
        pando_sqlite::Value::Text(value) => value.clone(),
        value => panic!("no script returns {value:?}"),
    }
}

#[test]
fn connections_of_sql_meet_no_anomaly() {
    let sql = Sql::new(pando::Database::builder().in_memory().unwrap());
    let mut clients = std::array::from_fn(|_| sql.connect().unwrap());
    run_all(&mut clients);
}

#[test]
fn connections_of_sqlites_machine_meet_no_anomaly() {
    let db = pando::Database::builder().in_memory().unwrap();
    let mut clients = std::array::from_fn(|_| {
        let client = pando_sqlite::Connection::open(&db).unwrap();
        client.execute("PRAGMA foreign_keys = ON").unwrap();
        client
    });
    run_all(&mut clients);
}
