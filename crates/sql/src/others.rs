//! Names of SQLite's own tables in a connection. Those of `temp` take precedence over Pando's. SQLite also prefers
//! those of attached databases, because it finds virtual tables last.
//!
//! 1. A statement about a name of `temp`, without a schema before it, is left to SQLite.
//! 2. If a schema before a name does not have that name, SQLite finds Pando's table; such a statement is refused.
//! 3. A name that both Pando and an attached database have would mean the attached one, although SQLite's rule is that
//!    `main` takes precedence. Such a name is refused unless its schema is given.

use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::lexer::{self, Kind, Token, quote};
use crate::machine;
use rusqlite::types::ValueRef;
use std::collections::HashSet;

/// What has a name that is looked up, as a list of SQL. Triggers have names of their own.
const ALL_KINDS: &str = "'table', 'view', 'index'";
const TABLE_KINDS: &str = "'table', 'view'";

/// The lowercase names of SQLite's own tables, views and indexes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Others {
    temp: HashSet<String>,
    /// Those of `temp` that are tables or views.
    temp_tables: HashSet<String>,
    /// The names by attached database.
    attached: Vec<(String, HashSet<String>)>,
}

impl Others {
    /// Reads the names.
    pub fn read(sqlite: &machine::Connection) -> Result<Self> {
        let names = |schema: &str, kinds: &str| -> Result<HashSet<String>> {
            let schema = quote(schema);
            let of_schema = format!("SELECT lower(name) FROM {schema}.sqlite_schema WHERE type IN ({kinds})");
            let mut statement = machine::prepare_kept(sqlite, &of_schema)?;
            let (mut rows, mut names) = (statement.raw_query(), HashSet::new());
            while let Some(row) = rows.next()? {
                if let ValueRef::Text(name) = row.get_ref(0)? {
                    names.insert(String::from_utf8_lossy(name).into_owned());
                }
            }
            Ok(names)
        };
        let mut attached = Vec::new();
        // 0 is `main`, 1 `temp`.
        for number in 2.. {
            let Some(schema) = machine::database_name(sqlite, number) else { break };
            let names = names(&schema, ALL_KINDS)?;
            attached.push((schema, names));
        }
        Ok(Others { temp: names("temp", ALL_KINDS)?, temp_tables: names("temp", TABLE_KINDS)?, attached })
    }

    /// Returns whether `temp` has a table or a view of the name.
    pub fn is_temporary(&self, name: &str) -> bool {
        !self.temp_tables.is_empty() && self.temp_tables.contains(&name.to_ascii_lowercase())
    }

    /// Returns whether `temp` has an index of the name.
    pub fn is_temporary_index(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        self.temp.contains(&name) && !self.temp_tables.contains(&name)
    }

    /// Returns whether a statement may use SQLite's own tables.
    pub fn are_meant(&self, sql: &str) -> bool {
        let has_temp = || sql.as_bytes().windows(4).any(|bytes| bytes.eq_ignore_ascii_case(b"temp"));
        !self.attached.is_empty() || has_temp()
    }

    /// Returns the names of a schema; `None`: there is no other schema of that name than `main`.
    fn names_of(&self, schema: &str) -> Option<&HashSet<String>> {
        if schema.eq_ignore_ascii_case("temp") {
            return Some(&self.temp);
        }
        let mut attached = self.attached.iter();
        attached.find(|(known, _)| known.eq_ignore_ascii_case(schema)).map(|(_, names)| names)
    }

    /// Checks that every name stands for one table. Returns whether the statement has anything to do: a `DROP ... IF
    /// EXISTS` of a missing table has not.
    pub fn check(&self, sql: &str, catalog: &Catalog) -> Result<bool> {
        let tokens: Vec<Token<'_>> = lexer::tokens(sql).collect();
        // A new object has a name that nothing else in its schema has.
        let is_made = tokens.first().is_some_and(|token| token.is("CREATE"));
        let of_made = tokens.iter().take(8).position(|token| {
            is_made && ["TABLE", "INDEX", "VIEW", "TRIGGER", "EXISTS"].iter().any(|word| token.is(word))
        });
        let of_made = of_made.map(|word| {
            let is_lenient = tokens.get(word + 1).is_some_and(|token| token.is("IF"));
            word + if is_lenient { 4 } else { 1 }
        });
        for (place, token) in tokens.iter().enumerate() {
            if of_made == Some(place) {
                continue;
            }
            let before = place.checked_sub(1).and_then(|place| tokens.get(place));
            let is_name = matches!(token.kind, Kind::Word | Kind::Quoted);
            if let [schema, dot, name, ..] = &tokens[place..]
                && let (true, Some(schema), Some(name)) = (dot.is_mark('.'), schema.name(), name.name())
                && !before.is_some_and(|before| before.is_mark('.'))
                && self.names_of(&schema).is_some_and(|names| !names.contains(&name.to_ascii_lowercase()))
                && catalog.find(&name).is_some()
            {
                let is_lenient = tokens[0].is("DROP") && tokens.get(2).is_some_and(|token| token.is("IF"));
                return if is_lenient {
                    Ok(false)
                } else {
                    Err(Error::new(format!("no such table: {schema}.{name}")))
                };
            }
            let is_told = before.is_some_and(|before| before.is_mark('.') || before.is("AS"))
                || tokens.get(place + 1).is_some_and(|behind| behind.is_mark('.'));
            let Some(name) = token.name().filter(|_| is_name && !is_told) else { continue };
            if catalog.find(&name).is_none() || self.is_temporary(&name) {
                continue;
            }
            let lower = name.to_ascii_lowercase();
            if let Some((schema, _)) = self.attached.iter().find(|(_, names)| names.contains(&lower)) {
                return Err(Error::new(format!(
                    "ambiguous: {name} exists in the database and in the attached {schema}; write \
                     main.{name} or {schema}.{name}"
                )));
            }
        }
        Ok(true)
    }
}
