//! Names of SQLite's own tables in a connection: of `temp`, which go before Pando's, and of attached databases, which
//! to SQLite go before them, too, as it finds virtual tables last.
//!
//! 1. A statement about a name of `temp`, without a schema before it, is SQLite's.
//! 2. Where a schema stands before a name that it does not have, SQLite finds Pando's table: that is refused.
//! 3. A name that is both Pando's and an attached database's would be the attached one's, where SQLite's rule is that
//!    `main` goes first: it is refused unless it stands with its schema.

use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::lexer::{self, Kind, Token, quote};
use std::collections::HashSet;

/// What SQLite's own tables, views and indexes are called, in small letters.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Others {
    temp: HashSet<String>,
    /// By attached database.
    attached: Vec<(String, HashSet<String>)>,
}

impl Others {
    /// Reads them.
    pub fn read(sqlite: &rusqlite::Connection) -> Result<Self> {
        let names = |schema: &str| -> Result<HashSet<String>> {
            let of_schema = format!("SELECT lower(name) FROM {}.sqlite_schema", quote(schema));
            let mut names = sqlite.prepare_cached(&of_schema)?;
            let names = names.query_map([], |row| row.get(0))?;
            Ok(names.collect::<rusqlite::Result<_>>()?)
        };
        let mut attached = Vec::new();
        // 0 is `main`, 1 `temp`.
        for number in 2.. {
            let Ok(schema) = sqlite.db_name(number) else { break };
            let names = names(&schema)?;
            attached.push((schema, names));
        }
        Ok(Others { temp: names("temp")?, attached })
    }

    /// Whether `temp` has it.
    pub fn is_temporary(&self, name: &str) -> bool {
        !self.temp.is_empty() && self.temp.contains(&name.to_lowercase())
    }

    /// Whether a statement may have to do with SQLite's own tables.
    pub fn are_meant(&self, sql: &str) -> bool {
        let has_temp = || sql.as_bytes().windows(4).any(|bytes| bytes.eq_ignore_ascii_case(b"temp"));
        !self.attached.is_empty() || has_temp()
    }

    /// What a schema has; `None`: there is none of that name but `main`.
    fn names_of(&self, schema: &str) -> Option<&HashSet<String>> {
        if schema.eq_ignore_ascii_case("temp") {
            return Some(&self.temp);
        }
        let mut attached = self.attached.iter();
        attached.find(|(known, _)| known.eq_ignore_ascii_case(schema)).map(|(_, names)| names)
    }

    /// That every name stands for one table. Answers whether the statement has anything to do: one that is to drop a
    /// table that may be missing, and is, has not.
    pub fn check(&self, sql: &str, catalog: &Catalog) -> Result<bool> {
        let tokens: Vec<Token<'_>> = lexer::tokens(sql).collect();
        // What is made has a name that nothing else in its schema has.
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
                && self.names_of(&schema).is_some_and(|names| !names.contains(&name.to_lowercase()))
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
            let lower = name.to_lowercase();
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
