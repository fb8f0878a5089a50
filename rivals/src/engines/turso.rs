//! Turso: SQLite's language rewritten in Rust; its default write-ahead log (`BEGIN CONCURRENT` is experimental), a
//! connection a thread, cached statements.
//!
//! `sync`: `synchronous = FULL`. `buffered`: it has no mode between `FULL` and `OFF`.

use super::Entry;
use crate::engine::{
    Config, Durability, Engine, Failure, Outcome, ReadWork, Reader, See, SeeRecord, Session, WriteWork,
    Writer,
};
use pollster::block_on;
use std::time::Duration;
use turso::{Builder, Connection, Database, Value};

pub const ENTRY: Entry = Entry {
    name: "turso",
    about: "Turso 0.8, WAL",
    open: Some(open),
    open_tables: Some(super::turso_tables::open),
};

const CREATE: &str = "CREATE TABLE IF NOT EXISTS t (k BLOB PRIMARY KEY, v BLOB NOT NULL)";

/// The database, and its cache in bytes.
pub struct Turso(Database, usize);

fn open(config: &Config) -> Outcome<Box<dyn Engine>> {
    let turso = Turso::open(config)?;
    block_on(turso.connect()?.execute(CREATE, ()))?;
    Ok(Box::new(turso))
}

impl Turso {
    /// Opens or creates it.
    pub fn open(config: &Config) -> Outcome<Self> {
        if config.durability == Durability::Buffered {
            return Err(Failure::Unsupported("Turso has no synchronous mode between FULL and OFF"));
        }
        let path = config.dir.join("turso");
        let path = path.to_str().ok_or_else(|| Failure::Wrong("the directory's name is not UTF-8".into()))?;
        Ok(Turso(block_on(Builder::new_local(path).build())?, config.cache_bytes))
    }

    /// A new connection.
    pub fn connect(&self) -> Outcome<Connection> {
        let connection = self.0.connect()?;
        connection.busy_timeout(Duration::from_secs(120))?;
        block_on(connection.pragma_update("cache_size", -((self.1 / 1024) as i64)))?;
        Ok(connection)
    }
}

impl Engine for Turso {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Handle(self.connect()?)))
    }

    fn settle(&self) -> Outcome<()> {
        Ok(())
    }
}

struct Handle(Connection);

impl Handle {
    fn run(&self, sql: &str) -> Outcome<()> {
        block_on(async { self.0.prepare_cached(sql).await?.execute(()).await })?;
        Ok(())
    }
}

impl Session for Handle {
    fn write(&mut self, work: WriteWork<'_>) -> Outcome<()> {
        self.run("BEGIN IMMEDIATE")?;
        match work(&mut In(&self.0)) {
            Ok(()) => self.run("COMMIT"),
            Err(failure) => {
                self.run("ROLLBACK")?;
                Err(failure)
            }
        }
    }

    fn read(&mut self, work: ReadWork<'_>) -> Outcome<()> {
        self.run("BEGIN")?;
        let answer = work(&mut In(&self.0));
        self.run("COMMIT")?;
        answer
    }
}

struct In<'c>(&'c Connection);

fn blob(bytes: &[u8]) -> Value {
    Value::Blob(bytes.to_vec())
}

fn get(db: &Connection, key: &[u8], see: See<'_>) -> Outcome<bool> {
    block_on(async {
        let mut statement = db.prepare_cached("SELECT v FROM t WHERE k = ?1").await?;
        let mut rows = statement.query([blob(key)]).await?;
        let Some(row) = rows.next().await? else { return Ok(false) };
        match row.get_value(0)? {
            Value::Blob(value) => see(&value),
            other => return Err(Failure::Wrong(format!("{other:?} is no blob"))),
        }
        Ok(true)
    })
}

fn execute(db: &Connection, sql: &str, values: Vec<Value>) -> Outcome<u64> {
    Ok(block_on(async { db.prepare_cached(sql).await?.execute(values).await })?)
}

impl Writer for In<'_> {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        let changed =
            execute(self.0, "INSERT OR IGNORE INTO t VALUES (?1, ?2)", vec![blob(key), blob(value)])?;
        Ok(changed == 1)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        execute(self.0, "INSERT OR REPLACE INTO t VALUES (?1, ?2)", vec![blob(key), blob(value)])?;
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Outcome<()> {
        execute(self.0, "DELETE FROM t WHERE k = ?1", vec![blob(key)])?;
        Ok(())
    }

    fn get(&mut self, key: &[u8], see: See<'_>) -> Outcome<bool> {
        get(self.0, key, see)
    }
}

impl Reader for In<'_> {
    fn get(&mut self, key: &[u8], see: See<'_>) -> Outcome<bool> {
        get(self.0, key, see)
    }

    fn scan(&mut self, from: &[u8], limit: usize, see: SeeRecord<'_>) -> Outcome<usize> {
        block_on(async {
            let sql = "SELECT k, v FROM t WHERE k >= ?1 ORDER BY k LIMIT ?2";
            let mut statement = self.0.prepare_cached(sql).await?;
            let limit = Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX));
            let mut rows = statement.query([blob(from), limit]).await?;
            let mut seen = 0;
            while let Some(row) = rows.next().await? {
                match (row.get_value(0)?, row.get_value(1)?) {
                    (Value::Blob(key), Value::Blob(value)) => see(&key, &value),
                    other => return Err(Failure::Wrong(format!("{other:?} are no blobs"))),
                }
                seen += 1;
            }
            Ok(seen)
        })
    }
}
