//! Connections whose `CREATE TABLE` makes typed tables, as Rust code with `pando-db-rows` does, where that of a
//! connection makes tables of SQLite's. So tests of typed tables are written in SQL.

use pando_sql::{Error, Result, Value};
use std::ops::{Deref, DerefMut};

/// A database with SQL.
#[derive(Clone)]
pub struct Sql(pando_sql::Sql);

/// A connection.
pub struct Connection {
    connection: pando_sql::Connection,
    /// `None`: tables are SQLite's, as without this module.
    makes_in: Option<pando_sql::Sql>,
}

impl Sql {
    pub fn new(db: impl Into<pando::any::AnyDatabase>) -> Self {
        Sql(pando_sql::Sql::new(db))
    }

    pub fn connect(&self) -> Result<Connection> {
        Ok(Connection { connection: self.0.connect()?, makes_in: Some(self.0.clone()) })
    }
}

impl Deref for Sql {
    type Target = pando_sql::Sql;

    fn deref(&self) -> &pando_sql::Sql {
        &self.0
    }
}

impl Connection {
    /// A connection that makes tables of SQLite's.
    pub fn plain(connection: pando_sql::Connection) -> Self {
        Connection { connection, makes_in: None }
    }

    pub fn execute(&self, sql: &str, parameters: &[Value]) -> Result<u64> {
        if self.made(sql)? { Ok(0) } else { self.connection.execute(sql, parameters) }
    }

    pub fn execute_batch(&self, mut sql: &str) -> Result<()> {
        while let Some(first) = pando_sql::split_first(sql) {
            self.execute(first.statement, &[])?;
            sql = first.rest;
        }
        Ok(())
    }

    pub fn query(&self, sql: &str, parameters: &[Value]) -> Result<Vec<Vec<Value>>> {
        if self.made(sql)? { Ok(Vec::new()) } else { self.connection.query(sql, parameters) }
    }

    /// Makes the typed table of a `CREATE TABLE`. Returns whether it is one. Within a transaction, and from a query,
    /// SQLite makes the table.
    pub fn made(&self, sql: &str) -> Result<bool> {
        let Some(makes_in) = &self.makes_in else { return Ok(false) };
        let is_one = sql.trim_start().starts_with("CREATE TABLE ") && !sql.contains(" AS SELECT");
        let is_one = is_one && !sql.contains(['\0']) && !sql.contains("TABLE temp.");
        if !is_one || !self.connection.is_autocommit() {
            return Ok(false);
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let sqlite = rusqlite::Connection::open(file.path()).map_err(Error::from)?;
        sqlite.execute_batch(&format!("PRAGMA foreign_keys = OFF; {sql}")).map_err(Error::from)?;
        drop(sqlite);
        match pando_sql::import_sqlite_typed(makes_in, file.path(), |_| {}) {
            // The connection says it in SQLite's words.
            Err(error) if error.message().contains("already") => Ok(false),
            made => made.map(|_| true),
        }
    }
}

impl Deref for Connection {
    type Target = pando_sql::Connection;

    fn deref(&self) -> &pando_sql::Connection {
        &self.connection
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut pando_sql::Connection {
        &mut self.connection
    }
}
