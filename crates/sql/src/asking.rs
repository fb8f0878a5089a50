//! Statements about the database itself: its tables, its integrity, its file.
//!
//! SQLite would run them on its own database, which is empty: a copy of it has no data, and a check of it finds
//! nothing. So each is run for Pando's tables or refused by name. Statements about `temp` and attached databases are
//! left to SQLite.

use crate::error::{Error, Result};
use crate::introspect::{PREFIX, View, view};
use crate::lexer::{self, Kind, Token, quote};

/// The way to handle a statement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    /// The statement is not about the database itself.
    Nothing,
    /// The replacement, which asks the same about Pando's tables.
    Text(String),
    /// `PRAGMA integrity_check`, or `quick_check`: its name, and the largest number of problems to list.
    Check(String, u64),
}

/// The default number of problems that a check lists.
const USUAL_PROBLEMS: u64 = 100;

/// Pragmas of properties that only an SQLite file has, and where to find the information instead.
const REFUSED: [(&str, &str); 15] = [
    ("application_id", "store it in a table of your own"),
    ("auto_vacuum", "run `pando compact`"),
    ("data_version", "compare the rows that you read"),
    ("foreign_key_check", "foreign keys are not enforced"),
    ("freelist_count", "run `pando stats`"),
    ("incremental_vacuum", "run `pando compact`"),
    ("max_page_count", "run `pando stats`"),
    ("page_count", "run `pando stats`"),
    ("page_size", "run `pando options`"),
    ("schema_version", "read sqlite_schema"),
    ("stats", "run `pando stats`"),
    ("user_version", "store it in a table of your own"),
    ("wal_checkpoint", "run `pando checkpoint`"),
    ("writable_schema", "use CREATE, ALTER and DROP"),
    ("legacy_file_format", "there is no SQLite file"),
];

/// Returns how to handle `sql`. `is_other` returns whether a name is one of SQLite's own temporary tables, which take
/// precedence.
pub(crate) fn asking(sql: &str, is_other: impl Fn(&str) -> bool) -> Result<Asking> {
    let first = lexer::tokens(sql).next();
    match first {
        Some(token) if token.is("PRAGMA") => pragma(sql, is_other),
        Some(token) if token.is("VACUUM") => vacuum(sql),
        Some(token) if token.is("REINDEX") => Err(Error::new(
            "not supported: REINDEX; drop the index and create it again, or check it with PRAGMA \
             integrity_check",
        )),
        Some(_) if names_any(sql) => names(sql),
        _ => Ok(Asking::Nothing),
    }
}

fn is_main(schema: Option<&String>) -> bool {
    schema.is_none_or(|schema| schema.eq_ignore_ascii_case("main"))
}

fn vacuum(sql: &str) -> Result<Asking> {
    let schema = lexer::tokens(sql).nth(1).filter(|token| !token.is("INTO")).and_then(|token| token.name());
    if !is_main(schema.as_ref()) {
        return Ok(Asking::Nothing);
    }
    Err(Error::new(
        "not supported: VACUUM; `pando compact` shrinks the files, and `pando backup` or `pando sql DIR \
         --to-sqlite FILE` copies the database",
    ))
}

/// Handles `PRAGMA schema.name = value` and `PRAGMA name(value)`.
fn pragma(sql: &str, is_other: impl Fn(&str) -> bool) -> Result<Asking> {
    let tokens: Vec<Token<'_>> = lexer::tokens(sql).skip(1).collect();
    let (schema, rest) = match &tokens[..] {
        [schema, dot, rest @ ..] if dot.is_mark('.') => (schema.name(), rest),
        rest => (None, rest),
    };
    let Some((Some(name), rest)) = rest.split_first().map(|(name, rest)| (name.name(), rest)) else {
        return Ok(Asking::Nothing);
    };
    if !is_main(schema.as_ref()) {
        return Ok(Asking::Nothing);
    }
    let argument = match rest {
        [] => None,
        [sign, value] if sign.is_mark('=') => Some(value),
        [open, value, close] if open.is_mark('(') && close.is_mark(')') => Some(value),
        // SQLite reports what is wrong with it, except for pragmas that it would execute.
        _ => return refuse(&name).map(|()| Asking::Nothing),
    };
    let argument = argument.map(|token| token.name().unwrap_or_else(|| token.text.to_owned()));
    if ["integrity_check", "quick_check"].iter().any(|check| name.eq_ignore_ascii_case(check)) {
        return match argument.map(|number| number.parse()) {
            None => Ok(Asking::Check(name, USUAL_PROBLEMS)),
            Some(Ok(most)) => Ok(Asking::Check(name, most)),
            Some(Err(_)) => Err(Error::new(format!(
                "not supported: PRAGMA {name} of a single table; leave the table's name out"
            ))),
        };
    }
    match view(&name).filter(|view| view.name != "schema") {
        Some(_) if schema.is_none() && argument.as_deref().is_some_and(is_other) => Ok(Asking::Nothing),
        Some(view) => Ok(Asking::Text(select(view, argument.as_deref()))),
        None => refuse(&name).map(|()| Asking::Nothing),
    }
}

fn refuse(name: &str) -> Result<()> {
    match REFUSED.iter().find(|(refused, _)| name.eq_ignore_ascii_case(refused)) {
        Some((name, instead)) => Err(Error::new(format!(
            "not supported: PRAGMA {name}, which applies to an SQLite file; {instead}"
        ))),
        None => Ok(()),
    }
}

fn select(view: &View, argument: Option<&str>) -> String {
    let columns: Vec<_> = view.columns.iter().map(|column| quote(column)).collect();
    let argument = argument.map_or(String::new(), |name| format!("('{}')", name.replace('\'', "''")));
    format!("SELECT {} FROM {PREFIX}{}{argument}", columns.join(", "), view.name)
}

/// Returns whether the text may contain one of the names that are handled.
fn names_any(sql: &str) -> bool {
    let has = |part: &[u8]| sql.as_bytes().windows(part.len()).any(|bytes| bytes.eq_ignore_ascii_case(part));
    has(b"sqlite_") || has(b"pragma_")
}

/// Handles a statement that names SQLite's schema or functions for pragmas: puts the views in their place.
fn names(sql: &str) -> Result<Asking> {
    let tokens: Vec<Token<'_>> = lexer::tokens(sql).collect();
    let mut text = String::new();
    let mut at = 0;
    for (place, token) in tokens.iter().enumerate() {
        let Some(name) = token.name().filter(|_| matches!(token.kind, Kind::Word | Kind::Quoted)) else {
            continue;
        };
        let is_schema =
            ["sqlite_schema", "sqlite_master"].iter().any(|known| name.eq_ignore_ascii_case(known));
        let function =
            name.get(..7).filter(|start| start.eq_ignore_ascii_case("pragma_")).map(|_| &name[7..]);
        let found = if is_schema { view("schema") } else { function.and_then(view) };
        if let Some(function) = function.filter(|_| found.is_none()) {
            refuse(function)?;
            if function.eq_ignore_ascii_case("integrity_check")
                || function.eq_ignore_ascii_case("quick_check")
            {
                return Err(Error::new(format!(
                    "not supported: pragma_{function} in a query; use PRAGMA {function}"
                )));
            }
        }
        let Some(found) = found else { continue };
        let is_behind = |places: usize, is: &dyn Fn(&Token<'_>) -> bool| {
            place.checked_sub(places).and_then(|place| tokens.get(place)).is_some_and(is)
        };
        let mut start = token.start;
        if is_behind(1, &|token| token.is_mark('.')) {
            if !is_behind(2, &|token| token.name().is_some_and(|name| name.eq_ignore_ascii_case("main"))) {
                continue;
            }
            start = tokens[place - 2].start;
        }
        text.push_str(&sql[at..start]);
        text.push_str(PREFIX);
        text.push_str(found.name);
        at = token.end();
    }
    if at == 0 {
        return Ok(Asking::Nothing);
    }
    text.push_str(&sql[at..]);
    Ok(Asking::Text(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(sql: &str) -> String {
        match asking(sql, |name| name == "mine").unwrap() {
            Asking::Text(text) => text,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn what_asks_about_tables_asks_the_views() {
        assert_eq!(text("SELECT * FROM Sqlite_Master m"), "SELECT * FROM pando_sqlite_schema m");
        assert_eq!(text("SELECT name FROM main . sqlite_schema"), "SELECT name FROM pando_sqlite_schema");
        assert_eq!(
            text("SELECT p.name FROM sqlite_master m, pragma_table_info(m.name) p"),
            "SELECT p.name FROM pando_sqlite_schema m, pando_sqlite_table_info(m.name) p"
        );
        assert_eq!(
            text("PRAGMA main.index_list('it''s')"),
            "SELECT \"seq\", \"name\", \"unique\", \"origin\", \"partial\" \
             FROM pando_sqlite_index_list('it''s')"
        );
        for own in [
            "SELECT * FROM o.sqlite_master",
            "SELECT 'sqlite_master'",
            "PRAGMA table_info(mine)",
            "PRAGMA temp.table_info(t)",
            "PRAGMA foreign_keys = ON",
            "PRAGMA",
            "PRAGMA temp.user_version = 5",
            "VACUUM temp",
        ] {
            assert_eq!(text(own), "Nothing", "{own}");
        }
        assert_eq!(text("PRAGMA quick_check(7)"), "Check(\"quick_check\", 7)");
    }

    #[test]
    fn what_only_a_file_of_sqlite_has_is_refused_by_name() {
        for (sql, name) in [
            ("vacuum", "VACUUM"),
            ("VACUUM INTO 'copy'", "VACUUM"),
            ("VACUUM main INTO 'copy'", "VACUUM"),
            ("REINDEX", "REINDEX"),
            ("PRAGMA user_version", "user_version"),
            ("PRAGMA user_version = -5", "user_version"),
            ("PRAGMA main.User_Version=5", "user_version"),
            ("SELECT * FROM pragma_user_version", "user_version"),
            ("SELECT * FROM pragma_integrity_check", "integrity_check"),
            ("PRAGMA integrity_check(t)", "integrity_check"),
        ] {
            let error = asking(sql, |_| false).unwrap_err();
            assert!(
                error.message().contains(name) && error.message().starts_with("not supported"),
                "{error}"
            );
        }
    }
}
