//! How the text of a statement becomes a prepared one.
//!
//! Statements about tables that SQLite made are passed to SQLite unchanged, and so are most others. It does not support
//! some of them for virtual tables, which typed tables are to it:
//! * `CREATE`, `ALTER` and `DROP` of tables and indexes: `ddl`;
//! * columns omitted from an `INSERT`, `ON CONFLICT`, `RETURNING`: `dml`;
//! * descriptions of tables: `asking.rs`.

use crate::asking::{Asking, Facts, asking, is_about_tables, is_filled, names_any};
use crate::confine;
use crate::connection::Connection;
use crate::ddl::Ddl;
use crate::dml::{self, Dml};
use crate::error::{Error, Result};
use crate::lexer;
use crate::machine::{self, CachedStatement};
use crate::others::Others;
use crate::session::MARKER;
use crate::statement::{Kind, MOST_PLANS, Statement};
use rusqlite::ffi;
use std::borrow::Cow;

/// A statement that does nothing.
const NOTHING: &str = "DROP TABLE IF EXISTS temp.pando_no_such_table";

impl Connection {
    /// Prepares the only statement in `sql`, to run it many times.
    pub fn prepare(&self, sql: &str) -> Result<Statement<'_>> {
        self.prepare_one(sql).map_err(|error| self.in_own_words(error))
    }

    /// Returns an error in the words of this connection.
    pub(crate) fn in_own_words(&self, error: Error) -> Error {
        let words = error.unnamed_conflict().map(|at| self.tables.in_words_of_sql(at.table(), at.key()));
        let error = match words.flatten() {
            Some((table, message)) => error.in_words(table, message),
            None => error,
        };
        if self.is_confined { confine::name_what_is_refused(error) } else { error }
    }

    pub(crate) fn prepare_one(&self, sql: &str) -> Result<Statement<'_>> {
        // What ends a transaction does not depend on tables, and one that has expired can be ended, but not read.
        if !ends_transaction(sql) {
            self.look_again()?;
        }
        let generation = self.tables.generation();
        if let Some((text, is_changing)) = self.read_texts.get(sql, generation) {
            let statement = Statement::new(self, Kind::Sqlite(self.prepare_sqlite(&text)?));
            // If the tables were read meanwhile, a name in the text stands for another one.
            if generation == self.tables.generation() {
                return Ok(if is_changing { statement.planned(sql, generation) } else { statement });
            }
        }
        let statement = self.read_and_prepare(sql)?;
        Ok(if is_about_tables(sql) { statement.into_asking(sql) } else { statement })
    }

    /// Learns what has changed since the last statement was prepared.
    fn look_again(&self) -> Result<()> {
        if self.session().take_undone() {
            self.reload()?;
        }
        if self.has_others.get() {
            self.others()?;
        }
        self.renew()
    }

    /// Reads the typed tables again if SQLite may have made a table of the same name as one of them.
    pub(crate) fn renew(&self) -> Result<()> {
        if self.tables.are_old()? {
            self.reload()?;
        }
        let generation = self.tables.generation();
        if self.kept_since.replace(generation) != generation {
            // A statement that was kept may be about the table that had the name before.
            self.sqlite.flush_prepared_statement_cache();
        }
        Ok(())
    }

    fn read_and_prepare(&self, sql: &str) -> Result<Statement<'_>> {
        // SQLite would take it for the end of the text, and run what is before it.
        if sql.contains('\0') {
            return Err(Error::new(
                "the text of a statement has a zero byte; values can have one, as parameters",
            ));
        }
        let (whole, none) = (sql, lexer::First { statement: "", rest: "", is_complete: false });
        let first = lexer::split_first(sql).unwrap_or(none);
        if lexer::split_first(first.rest).is_some() {
            return Err(Error::new("there is more than one statement; pass one at a time"));
        }
        if ends_transaction(first.statement) {
            return Ok(Statement::new(self, Kind::Sqlite(machine::prepare_kept(&self.sqlite, sql)?)));
        }
        let others = self.others()?;
        let asked;
        let sql = match self.asking(first.statement, &others)? {
            Asking::Nothing => first.statement,
            Asking::Check(name, most) => return Ok(Statement::new(self, Kind::Check(name, most))),
            Asking::Text(text) => {
                self.tables.register_views(self.host)?;
                asked = text;
                &asked
            }
        };
        if let Some(ddl) = Ddl::parse(sql)?.filter(|ddl| !(ddl.is_sqlites() && ddl.is_temporary(&others))) {
            if ddl.is_sqlites() && is_filled(sql) && others.are_meant(sql) {
                self.reload()?;
                others.check(sql, &self.tables.known())?;
            }
            return match ddl.is_sqlites() {
                true => Ok(Statement::new(self, Kind::Sqlite(self.prepare_sqlite(sql)?)).into_making(ddl)),
                false => Ok(Statement::new(self, Kind::Ddl(ddl))),
            };
        }
        if others.are_meant(sql) {
            self.reload()?;
            if !others.check(sql, &self.tables.known())? {
                return Ok(Statement::new(self, Kind::Sqlite(self.prepare_sqlite(NOTHING)?)));
            }
        }
        let dml = Dml::parse(sql);
        let is_temporary = dml.as_ref().is_some_and(|dml| !dml.is_of_main && others.is_temporary(&dml.table));
        if let Some(dml) = dml.filter(|_| !is_temporary) {
            return self.prepare_dml(whole, sql, dml);
        }
        let generation = self.tables.generation();
        let statement = Statement::new(self, Kind::Sqlite(self.prepare_sqlite(sql)?));
        let verb = lexer::tokens(sql).next();
        let is_one_of = |verbs: &[&str]| verb.is_some_and(|verb| verbs.iter().any(|word| verb.is(word)));
        if is_one_of(&["SAVEPOINT"]) {
            return Ok(statement.into_savepoint());
        }
        if is_temporary {
            // If that table is dropped, the statement is about another one.
            return Ok(statement.planned(whole, generation));
        }
        let may_name_others = self.has_others.get() || others.are_meant(sql);
        if is_one_of(&["ATTACH", "DETACH"]) || may_name_others && is_one_of(&["CREATE", "DROP", "ALTER"]) {
            return Ok(statement.into_naming());
        }
        // How a question about tables is asked depends on whether there are typed ones.
        if !is_one_of(&["PRAGMA", "VACUUM"]) && !names_any(whole) {
            self.read_texts.keep(whole, sql, generation, false);
        }
        Ok(statement)
    }

    /// Prepares a statement that changes rows, of the text `sql`, into which the text `whole` was rewritten.
    fn prepare_dml(&self, whole: &str, sql: &str, dml: Dml<'_>) -> Result<Statement<'_>> {
        let is_asked = names_any(whole);
        if self.tables.known().find(&dml.table).is_none() {
            let generation = self.tables.generation();
            // SQLite knows its own tables, and finds no typed one that is not known here.
            match machine::prepare_kept(&self.sqlite, sql) {
                Ok(statement) => {
                    if !is_asked {
                        self.read_texts.keep(whole, sql, generation, true);
                    }
                    return Ok(Statement::new(self, Kind::Sqlite(statement)).planned(whole, generation));
                }
                // It is not known whether there is such a table. After some of these errors SQLite has undone the
                // transaction, so that what is prepared again would commit by itself.
                Err(error) if error.reason().is_some() || error.code() & 0xff != ffi::SQLITE_ERROR => {
                    return Err(error);
                }
                Err(_) => {}
            }
        }
        self.know_table(&dml)?;
        let (mut dml, mut generation) = (dml, self.tables.generation());
        for _ in 0..MOST_PLANS {
            let text = match dml::plan(dml, &self.tables.known())? {
                dml::Planned::Plain => Cow::Borrowed(sql),
                dml::Planned::Text(text) => Cow::Owned(text),
                dml::Planned::Steps(steps) => {
                    steps.check(self)?;
                    return Ok(Statement::new(self, Kind::Steps(steps)).planned(whole, generation));
                }
            };
            let statement = Statement::new(self, Kind::Sqlite(self.prepare_sqlite(&text)?));
            if generation == self.tables.generation() {
                if !is_asked {
                    self.read_texts.keep(whole, &text, generation, true);
                }
                return Ok(statement.planned(whole, generation));
            }
            // The tables were read meanwhile: it may be about another table than it was planned for.
            let Some(again) = Dml::parse(sql) else { break };
            (dml, generation) = (again, self.tables.generation());
        }
        Err(Error::new("the tables changed again each time the statement was planned; try again"))
    }

    /// Returns how to handle a statement about the database itself.
    fn asking(&self, sql: &str, others: &Others) -> Result<Asking> {
        if self.is_confined && lexer::tokens(sql).next().is_some_and(|token| token.is("VACUUM")) {
            return Err(Error::refused("not authorized: VACUUM rewrites the whole database"));
        }
        match asking(sql, &Known { connection: self, others }) {
            Ok(Asking::Check(name, _)) if self.is_confined => {
                Err(Error::refused(format!("not authorized: PRAGMA {name} reads the whole database")))
            }
            Err(error) if self.is_confined => Err(Error::refused(error.message())),
            asked => asked,
        }
    }

    /// Reads the schemas if the statement's table exists but is not known.
    fn know_table(&self, dml: &Dml<'_>) -> Result<()> {
        if self.tables.known().find(&dml.table).is_some() {
            return Ok(());
        }
        if self.tables.take_latest(self.host)? && self.tables.known().find(&dml.table).is_some() {
            return Ok(());
        }
        self.reload()
    }

    /// Reads the schemas again.
    pub(crate) fn reload(&self) -> Result<()> {
        self.session().enter(self.host)?;
        self.tables.reload(self.host)?;
        if self.is_autocommit() {
            self.session().rest();
        }
        Ok(())
    }

    /// Prepares a statement unchanged. If SQLite does not know what it names, the schemas are read first.
    pub(crate) fn prepare_sqlite(&self, sql: &str) -> Result<CachedStatement<'_>> {
        let others = self.known_others();
        self.tables.preparing(sql, &others);
        let prepared = self.prepare_known(sql);
        self.tables.preparing("", &others);
        prepared
    }

    fn prepare_known(&self, sql: &str) -> Result<CachedStatement<'_>> {
        let first = machine::prepare_kept(&self.sqlite, sql);
        if first.is_ok() {
            return first;
        }
        if self.tables.take_latest(self.host)?
            && let Ok(statement) = machine::prepare_kept(&self.sqlite, sql)
        {
            return Ok(statement);
        }
        self.reload()?;
        let prepared = machine::prepare_kept(&self.sqlite, sql);
        prepared.map_err(|error| {
            let about_marker = error.message().contains(MARKER);
            if about_marker { Error::new("this table is reserved for the connection") } else { error }
        })
    }
}

/// Returns whether a statement ends a transaction, or a part of one.
fn ends_transaction(sql: &str) -> bool {
    const VERBS: [&str; 4] = ["COMMIT", "END", "ROLLBACK", "RELEASE"];
    lexer::tokens(sql).next().is_some_and(|token| VERBS.iter().any(|verb| token.is(verb)))
}

/// What is known about the tables of a connection.
struct Known<'a> {
    connection: &'a Connection,
    others: &'a Others,
}

impl Facts for Known<'_> {
    fn is_temporary(&self, name: &str) -> bool {
        self.others.is_temporary(name)
    }

    fn has_typed(&self) -> Result<bool> {
        let tables = &self.connection.tables;
        let has_typed = cfg!(feature = "loadable") || tables.are_any()?;
        if self.connection.is_autocommit() {
            self.connection.session().rest();
        }
        Ok(has_typed)
    }
}
