//! Pando's tables and those of SQLite's library, side by side.

pub mod hermitage;
pub mod typed;

use crate::server;
use base::env::Random;
use pando::Database;
use pando::any::AnyDatabase;
use pando_sql::{Sql, Value};

/// Returns whether the tests run over PostgreSQL: if `PANDO_SQL_STORE` is set.
pub fn is_over_a_store() -> bool {
    std::env::var_os("PANDO_SQL_STORE").is_some()
}

/// Returns a new database: in memory, or in PostgreSQL.
pub fn database() -> AnyDatabase {
    match is_over_a_store() {
        true => server::database().expect("a server of PostgreSQL starts").into(),
        false => Database::builder().in_memory().unwrap().into(),
    }
}

/// Returns a new database twice: two handles on it, or, over PostgreSQL, two that share nothing, as two processes have.
pub fn database_twice() -> [AnyDatabase; 2] {
    if !is_over_a_store() {
        let db = database();
        return [db.clone(), db];
    }
    let (url, schema) =
        (server::url(server::shared().expect("a server of PostgreSQL starts")), server::schema());
    [(); 2].map(|()| server::options().schema(&schema).open(&url).expect("it opens").into())
}

/// What `Both` runs everything on.
pub struct Both {
    /// The statements that were run, for messages.
    history: std::cell::RefCell<Vec<String>>,
    pub ours: typed::Connection,
    pub sqlite: rusqlite::Connection,
}

/// Rows, or the code of the failure. Not the extended one: of two constraints that a row breaks, either may be named.
pub type Outcome = Result<Vec<Vec<Value>>, i32>;

impl Both {
    /// Pando's tables are those that SQL creates.
    pub fn new() -> Self {
        let ours = Sql::new(database()).connect().unwrap();
        Self::with(typed::Connection::plain(ours))
    }

    /// Pando's tables are typed.
    pub fn typed() -> Self {
        let ours = typed::Sql::new(database()).connect().unwrap();
        Self::with(ours)
    }

    fn with(ours: typed::Connection) -> Self {
        Both { history: Default::default(), ours, sqlite: rusqlite::Connection::open_in_memory().unwrap() }
    }

    pub fn on_sqlite(&self, sql: &str) -> Outcome {
        let code = |error: rusqlite::Error| error.sqlite_extended_error_code().unwrap_or(1) & 0xff;
        let mut statement = self.sqlite.prepare(sql).map_err(code)?;
        let count = statement.column_count();
        let mut rows = statement.query([]).map_err(code)?;
        let mut all = Vec::new();
        while let Some(row) = rows.next().map_err(code)? {
            all.push((0..count).map(|column| row.get(column).unwrap()).collect());
        }
        Ok(all)
    }

    /// Runs several statements on both, all of which succeed.
    pub fn run_all(&self, statements: &str) {
        let mut rest = statements;
        while let Some(first) = pando_sql::split_first(rest) {
            assert!(self.run(first.statement), "{}", first.statement);
            rest = first.rest;
        }
    }

    /// Runs a statement on both. Answers whether it succeeded.
    pub fn run(&self, sql: &str) -> bool {
        let ours = self.ours.query(sql, &[]);
        let detail = ours.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let (mut ours, mut theirs) = (ours.map_err(|error| error.code() & 0xff), self.on_sqlite(sql));
        if !sql.contains("ORDER BY") {
            for outcome in [&mut ours, &mut theirs].into_iter().flatten() {
                outcome.sort_by_key(|row| format!("{row:?}"));
            }
        }
        self.history.borrow_mut().push(format!("{sql}: {}", if ours.is_ok() { "ok" } else { &detail }));
        assert_eq!(ours, theirs, "{sql}\n{detail}\n{:#?}", self.history.borrow());
        ours.is_ok()
    }
}

pub fn pick<'a>(random: &mut Random, from: &[&'a str]) -> &'a str {
    from[random.below(from.len() as u64) as usize]
}
