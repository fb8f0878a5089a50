//! SQLite through rusqlite, bundled: WAL, a table without row ids whose primary key is a blob, cached statements, a
//! connection a thread.
//!
//! `sync`: `synchronous = FULL`. `buffered`: `synchronous = NORMAL`, which syncs at checkpoints alone and keeps a
//! consistent file over a power loss.

use super::Entry;
use crate::engine::{
    Config, Durability, Engine, Outcome, ReadWork, Reader, See, SeeRecord, Session, WriteWork, Writer,
};
use rusqlite::{Connection, OptionalExtension};
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "sqlite",
    about: "SQLite (rusqlite 0.41, bundled), WAL, WITHOUT ROWID",
    open: Some(open),
    open_tables: Some(super::sqlite_tables::open),
};

const CREATE: &str = "CREATE TABLE IF NOT EXISTS t (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID";

struct Sqlite(Config);

fn open(config: &Config) -> Outcome<Box<dyn Engine>> {
    connect(config)?.execute_batch(CREATE)?;
    Ok(Box::new(Sqlite(config.clone())))
}

/// A new connection.
pub fn connect(config: &Config) -> Outcome<Connection> {
    let db = Connection::open(config.dir.join("sqlite"))?;
    db.busy_timeout(Duration::from_secs(120))?;
    db.set_prepared_statement_cache_capacity(32);
    let synchronous = match config.durability {
        Durability::Sync => "FULL",
        Durability::Buffered => "NORMAL",
    };
    db.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA cache_size = -{};",
        config.cache_bytes / 1024
    ))?;
    Ok(db)
}

impl Engine for Sqlite {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Handle(connect(&self.0)?)))
    }

    fn settle(&self) -> Outcome<()> {
        let db = connect(&self.0)?;
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))?;
        Ok(())
    }
}

struct Handle(Connection);

impl Session for Handle {
    fn write(&mut self, work: WriteWork<'_>) -> Outcome<()> {
        self.0.prepare_cached("BEGIN IMMEDIATE")?.execute(())?;
        match work(&mut In(&self.0)) {
            Ok(()) => {
                self.0.prepare_cached("COMMIT")?.execute(())?;
                Ok(())
            }
            Err(failure) => {
                self.0.execute_batch("ROLLBACK")?;
                Err(failure)
            }
        }
    }

    fn read(&mut self, work: ReadWork<'_>) -> Outcome<()> {
        self.0.prepare_cached("BEGIN")?.execute(())?;
        let answer = work(&mut In(&self.0));
        self.0.prepare_cached("COMMIT")?.execute(())?;
        answer
    }
}

struct In<'c>(&'c Connection);

fn get(db: &Connection, key: &[u8], see: See<'_>) -> Outcome<bool> {
    let mut statement = db.prepare_cached("SELECT v FROM t WHERE k = ?1")?;
    let seen = statement.query_row([key], |row| {
        see(row.get_ref(0)?.as_blob()?);
        Ok(())
    });
    Ok(seen.optional()?.is_some())
}

impl Writer for In<'_> {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        let mut statement = self.0.prepare_cached("INSERT OR IGNORE INTO t VALUES (?1, ?2)")?;
        Ok(statement.execute([key, value])? == 1)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.0.prepare_cached("INSERT OR REPLACE INTO t VALUES (?1, ?2)")?.execute([key, value])?;
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Outcome<()> {
        self.0.prepare_cached("DELETE FROM t WHERE k = ?1")?.execute([key])?;
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
        let mut statement = self.0.prepare_cached("SELECT k, v FROM t WHERE k >= ?1 ORDER BY k LIMIT ?2")?;
        let mut rows = statement.query((from, i64::try_from(limit).unwrap_or(i64::MAX)))?;
        let mut seen = 0;
        while let Some(row) = rows.next()? {
            see(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
            seen += 1;
        }
        Ok(seen)
    }
}
