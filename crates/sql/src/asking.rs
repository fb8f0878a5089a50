//! Statements about the database itself: its tables, its integrity, its file.
//!
//! SQLite knows its own tables, and has no file here. So what describes tables is left to SQLite where it made all of
//! them, and rewritten where there are typed tables, too; what only a file has is refused by name. Where SQLite is
//! another program's, its own statements are about its own database, and those of this crate about typed tables.
//! Statements about `temp` and attached databases are left to SQLite.

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
const REFUSED: [(&str, &str); 12] = [
    ("auto_vacuum", "run `pando compact`"),
    ("data_version", "compare the rows that you read"),
    ("freelist_count", "run `pando stats`"),
    ("incremental_vacuum", "run `pando compact`"),
    ("max_page_count", "run `pando stats`"),
    ("page_count", "run `pando stats`"),
    ("page_size", "run `pando options`"),
    ("schema_version", "read sqlite_schema"),
    ("stats", "run `pando stats`"),
    ("wal_checkpoint", "run `pando checkpoint`"),
    ("writable_schema", "use CREATE, ALTER and DROP"),
    ("legacy_file_format", "there is no SQLite file"),
];

/// Pragmas that are also refused if SQLite belongs to another program, because they would be about that program's file,
/// and what to do instead.
const REFUSED_OF_OTHERS: [(&str, &str); 3] = [
    ("application_id", "store it in a table of your own"),
    ("foreign_key_check", "foreign keys are not enforced"),
    ("user_version", "store it in a table of your own"),
];

/// What the handling of a statement depends on.
pub(crate) trait Facts {
    /// Returns whether a name is one of SQLite's own temporary tables, which take precedence.
    fn is_temporary(&self, name: &str) -> bool;
    /// Returns whether there are typed tables.
    fn has_typed(&self) -> Result<bool>;
    /// Returns whether SQLite's tables are Pando's, and not another program's.
    fn has_sqlite(&self) -> bool {
        cfg!(not(feature = "loadable"))
    }
}

/// Returns how to handle `sql`.
pub(crate) fn asking(sql: &str, facts: &impl Facts) -> Result<Asking> {
    let first = lexer::tokens(sql).next();
    match first {
        Some(token) if token.is("PRAGMA") => pragma(sql, facts),
        Some(token) if token.is("VACUUM") => vacuum(sql, facts),
        Some(token) if token.is("REINDEX") && !facts.has_sqlite() => Err(Error::new(
            "not supported: REINDEX; drop the index and create it again, or check it with PRAGMA \
             integrity_check",
        )),
        // A definition is stored as it is written, and outlives this connection.
        Some(token) if token.is("CREATE") && facts.has_sqlite() && !is_filled(sql) => {
            if names_any(sql) && is_query_kept(sql) {
                refuse_names(sql, facts)?;
            }
            Ok(Asking::Nothing)
        }
        Some(_) if names_any(sql) => {
            refuse_names(sql, facts)?;
            if facts.has_typed()? { names(sql) } else { Ok(Asking::Nothing) }
        }
        _ => Ok(Asking::Nothing),
    }
}

/// Returns whether it is a `CREATE TABLE ... AS`, which stores rows and no query.
pub(crate) fn is_filled(sql: &str) -> bool {
    let mut tokens = lexer::tokens(sql).skip(1).skip_while(|token| token.is("TEMP") || token.is("TEMPORARY"));
    let of_name = tokens
        .next()
        .filter(|token| token.is("TABLE"))
        .map(|_| tokens.take_while(|token| !token.is_mark('(')));
    of_name.is_some_and(|mut tokens| tokens.any(|token| token.is("AS")))
}

/// Returns whether a `CREATE` keeps queries, which views and triggers do.
fn is_query_kept(sql: &str) -> bool {
    lexer::tokens(sql).take(3).any(|token| token.is("VIEW") || token.is("TRIGGER"))
}

fn is_main(schema: Option<&String>) -> bool {
    schema.is_none_or(|schema| schema.eq_ignore_ascii_case("main"))
}

fn vacuum(sql: &str, facts: &impl Facts) -> Result<Asking> {
    let schema = lexer::tokens(sql).nth(1).filter(|token| !token.is("INTO")).and_then(|token| token.name());
    let copies = lexer::tokens(sql).any(|token| token.is("INTO"));
    if !is_main(schema.as_ref()) || facts.has_sqlite() && !(copies && facts.has_typed()?) {
        return Ok(Asking::Nothing);
    }
    Err(Error::new(match copies && facts.has_sqlite() {
        true => {
            "not supported: VACUUM INTO of a database that has typed tables, which it would leave out; \
             `pando sql DIR --to-sqlite FILE` copies them, too"
        }
        false => {
            "not supported: VACUUM; `pando compact` shrinks the files, and `pando backup` or `pando sql DIR \
             --to-sqlite FILE` copies the database"
        }
    }))
}

/// Handles `PRAGMA schema.name = value` and `PRAGMA name(value)`.
fn pragma(sql: &str, facts: &impl Facts) -> Result<Asking> {
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
    let is_check = CHECKS.iter().any(|check| name.eq_ignore_ascii_case(check));
    let argument = match rest {
        [] => None,
        // SQLite takes what begins as a number does for a number: no name of a table.
        [_, number, ..] if is_check && !is_named(number) => {
            return Ok(Asking::Check(name, number.text.parse().unwrap_or(USUAL_PROBLEMS)));
        }
        [sign, value] if sign.is_mark('=') => Some(value),
        [open, value, close] if open.is_mark('(') && close.is_mark(')') => Some(value),
        // SQLite reports what is wrong with it, except for pragmas that it would execute.
        _ => return refuse(&name, facts).map(|()| Asking::Nothing),
    };
    let argument = argument.map(|token| token.name().unwrap_or_else(|| token.text.to_owned()));
    if is_check {
        return check(name, argument.as_deref(), facts);
    }
    let Some(view) = view(&name).filter(|view| view.name != "schema") else {
        return refuse(&name, facts).map(|()| Asking::Nothing);
    };
    let is_temporary = schema.is_none() && argument.as_deref().is_some_and(|name| facts.is_temporary(name));
    match is_temporary || !facts.has_typed()? {
        true => Ok(Asking::Nothing),
        false => Ok(Asking::Text(select(view, argument.as_deref(), schema.is_some()))),
    }
}

/// Returns whether a token can be the name of a table.
fn is_named(token: &Token<'_>) -> bool {
    matches!(token.kind, Kind::Word | Kind::Quoted | Kind::Literal)
        && !token.text.starts_with(|first: char| first.is_ascii_digit() || first == '.')
}

/// The pragmas that check the database.
const CHECKS: [&str; 2] = ["integrity_check", "quick_check"];

/// Handles a check, with the largest number of problems or the name of a table as its argument.
fn check(name: String, argument: Option<&str>, facts: &impl Facts) -> Result<Asking> {
    match argument.map(str::parse) {
        None => Ok(Asking::Check(name, USUAL_PROBLEMS)),
        Some(Ok(most)) => Ok(Asking::Check(name, most)),
        // A typed table of that name is a virtual one to SQLite, and SQLite would check nothing of it.
        Some(Err(_)) if facts.has_sqlite() && !facts.has_typed()? => Ok(Asking::Nothing),
        Some(Err(_)) => Err(Error::new(format!(
            "not supported: PRAGMA {name} of a single table; leave the table's name out"
        ))),
    }
}

fn refuse(name: &str, facts: &impl Facts) -> Result<()> {
    let of_others = REFUSED_OF_OTHERS.iter().filter(|_| !facts.has_sqlite());
    match REFUSED.iter().chain(of_others).find(|(refused, _)| name.eq_ignore_ascii_case(refused)) {
        Some((name, instead)) => Err(Error::new(format!(
            "not supported: PRAGMA {name}, which applies to an SQLite file; {instead}"
        ))),
        None => Ok(()),
    }
}

fn select(view: &View, argument: Option<&str>, is_of_main: bool) -> String {
    let columns: Vec<_> = view.columns.iter().map(|column| quote(column)).collect();
    let argument = argument.map_or(String::new(), |name| format!("('{}')", name.replace('\'', "''")));
    let schema = if is_of_main { " WHERE pando_schema = 'main'" } else { "" };
    format!("SELECT {} FROM {PREFIX}{}{argument}{schema}", columns.join(", "), view.name)
}

/// Returns whether a statement describes tables, or copies all of them, and so depends on whether there are typed ones.
pub(crate) fn is_about_tables(sql: &str) -> bool {
    let mut tokens = lexer::tokens(sql);
    match tokens.next() {
        Some(token) if token.is("VACUUM") => true,
        Some(token) if token.is("PRAGMA") => {
            tokens.take(3).filter_map(|token| token.name()).any(|name| view(&name).is_some())
        }
        _ => names_any(sql),
    }
}

/// Returns whether the text may contain one of the names that are handled. How such a statement is handled depends on
/// whether there are typed tables.
pub(crate) fn names_any(sql: &str) -> bool {
    let has = |part: &[u8]| sql.as_bytes().windows(part.len()).any(|bytes| bytes.eq_ignore_ascii_case(part));
    has(b"sqlite_") || has(b"pragma_")
}

/// Refuses the functions for those pragmas that are refused.
fn refuse_names(sql: &str, facts: &impl Facts) -> Result<()> {
    for token in lexer::tokens(sql).filter(|token| matches!(token.kind, Kind::Word | Kind::Quoted)) {
        let Some(name) = token.name() else { continue };
        let Some(function) = pragma_function(&name) else { continue };
        refuse(function, facts)?;
        if CHECKS.iter().any(|check| function.eq_ignore_ascii_case(check)) {
            return Err(Error::new(format!(
                "not supported: pragma_{function} in a query; use PRAGMA {function}"
            )));
        }
    }
    Ok(())
}

/// Returns the pragma whose function has this name.
fn pragma_function(name: &str) -> Option<&str> {
    name.get(..7).filter(|start| start.eq_ignore_ascii_case("pragma_")).map(|_| &name[7..])
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
        let found = if is_schema { view("schema") } else { pragma_function(&name).and_then(view) };
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

    /// Whether there are typed tables, and whether SQLite's are Pando's.
    struct Known(bool, bool);

    impl Facts for Known {
        fn is_temporary(&self, name: &str) -> bool {
            name == "mine"
        }

        fn has_typed(&self) -> Result<bool> {
            Ok(self.0)
        }

        fn has_sqlite(&self) -> bool {
            self.1
        }
    }

    const BOTH: Known = Known(true, true);
    const ONLY_SQLITE: Known = Known(false, true);
    const OF_OTHERS: Known = Known(true, false);

    fn text(sql: &str) -> String {
        match asking(sql, &BOTH).unwrap() {
            Asking::Text(text) => text,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn what_asks_about_tables_asks_the_views() {
        assert_eq!(text("SELECT * FROM Sqlite_Master m"), "SELECT * FROM sqlite_pando_schema m");
        assert_eq!(text("SELECT name FROM main . sqlite_schema"), "SELECT name FROM sqlite_pando_schema");
        assert_eq!(
            text("SELECT p.name FROM sqlite_master m, pragma_table_info(m.name) p"),
            "SELECT p.name FROM sqlite_pando_schema m, sqlite_pando_table_info(m.name) p"
        );
        assert_eq!(
            text("PRAGMA main.index_list('it''s')"),
            "SELECT \"seq\", \"name\", \"unique\", \"origin\", \"partial\" \
             FROM sqlite_pando_index_list('it''s') WHERE pando_schema = 'main'"
        );
        assert_eq!(
            text("CREATE TEMP TABLE t AS SELECT name FROM sqlite_schema"),
            "CREATE TEMP TABLE t AS SELECT name FROM sqlite_pando_schema"
        );
        for own in [
            "SELECT * FROM o.sqlite_master",
            "SELECT 'sqlite_master'",
            "PRAGMA table_info(mine)",
            "PRAGMA temp.table_info(t)",
            "PRAGMA foreign_keys = ON",
            "PRAGMA",
            "PRAGMA temp.user_version = 5",
            "PRAGMA user_version = 5",
            "PRAGMA foreign_key_check",
            "CREATE VIEW v AS SELECT name FROM sqlite_schema",
            "VACUUM",
            "VACUUM temp",
            "REINDEX",
        ] {
            assert_eq!(text(own), "Nothing", "{own}");
        }
        assert_eq!(text("PRAGMA quick_check(7)"), "Check(\"quick_check\", 7)");
    }

    #[test]
    fn what_asks_about_tables_of_sqlite_alone_is_left_to_sqlite() {
        for sql in [
            "SELECT * FROM sqlite_master",
            "PRAGMA main.table_info(t)",
            "SELECT * FROM pragma_index_list('t')",
            "VACUUM INTO 'copy'",
            "PRAGMA integrity_check(t)",
        ] {
            assert_eq!(asking(sql, &ONLY_SQLITE).unwrap(), Asking::Nothing, "{sql}");
        }
        assert_eq!(
            asking("PRAGMA integrity_check", &ONLY_SQLITE).unwrap(),
            Asking::Check("integrity_check".to_owned(), USUAL_PROBLEMS)
        );
    }

    #[test]
    fn what_only_a_file_of_sqlite_has_is_refused_by_name() {
        for (sql, name, facts) in [
            ("vacuum", "VACUUM", OF_OTHERS),
            ("VACUUM INTO 'copy'", "VACUUM", OF_OTHERS),
            ("VACUUM main INTO 'copy'", "VACUUM INTO", BOTH),
            ("REINDEX", "REINDEX", OF_OTHERS),
            ("PRAGMA user_version", "user_version", OF_OTHERS),
            ("PRAGMA user_version = -5", "user_version", OF_OTHERS),
            ("SELECT * FROM pragma_user_version", "user_version", OF_OTHERS),
            ("PRAGMA main.Page_Count", "page_count", ONLY_SQLITE),
            ("PRAGMA schema_version = -5", "schema_version", ONLY_SQLITE),
            ("SELECT * FROM pragma_page_size", "page_size", ONLY_SQLITE),
            ("SELECT * FROM pragma_integrity_check", "integrity_check", BOTH),
            ("PRAGMA integrity_check(t)", "integrity_check", BOTH),
            ("CREATE VIEW v AS SELECT * FROM pragma_page_count", "page_count", ONLY_SQLITE),
            ("CREATE TEMP VIEW v AS SELECT * FROM Pragma_Page_Count", "page_count", ONLY_SQLITE),
        ] {
            let error = asking(sql, &facts).unwrap_err();
            assert!(
                error.message().contains(name) && error.message().starts_with("not supported"),
                "{error}"
            );
        }
    }
}
