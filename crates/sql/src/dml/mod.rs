//! Runs what SQLite does not do for virtual tables, in steps of statements that it does:
//!
//! | part of a statement | how it is run |
//! |---|---|
//! | columns omitted from `INSERT` | they are added to it, with their defaults after the values |
//! | `RETURNING` of `INSERT`, `UPDATE` | the rows that were written are read back by their keys |
//! | `RETURNING` of `INSERT OR REPLACE` | each row is inserted, and read back before the next, which may replace it |
//! | `RETURNING` of `DELETE` | the rows' keys are read; by these the rows, which are then deleted |
//! | `ON CONFLICT` | each row is inserted; if another row conflicts, that is updated by its key |
//!
//! [`crate::Connection`] runs the steps in a savepoint or a transaction, so that they are atomic, except with
//! `OR FAIL`. A statement that needs none of this is passed to SQLite unchanged.

mod numbers;
mod steps;

pub(crate) use steps::{Done, Steps, all_rows};

use crate::catalog::{Catalog, SqlTable};
use crate::error::Result;
use crate::lexer::{self, Token, quote};
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Insert,
    Update,
    Delete,
}

/// The handling of a row of an `INSERT` that breaks a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Or {
    /// The statement fails.
    Fail,
    Ignore,
    Replace,
}

/// The parts of a statement that changes rows, as ranges of its text.
#[derive(Debug)]
pub(crate) struct Dml<'s> {
    sql: &'s str,
    tokens: Vec<Token<'s>>,
    verb: Verb,
    or: Or,
    /// Whether it is `OR FAIL`: a row that breaks a constraint ends the statement, and leaves those before it.
    is_or_fail: bool,
    /// `WITH ...`, if there is one.
    with: Range<usize>,
    /// The text from the verb through the table's name and alias.
    head: Range<usize>,
    pub table: String,
    /// Whether `main.` precedes the name.
    pub is_of_main: bool,
    alias: Option<String>,
    columns: Option<Vec<String>>,
    /// The text after the head and the columns, up to `ON CONFLICT` and `RETURNING`.
    body: Range<usize>,
    conflicts: Vec<OnConflict>,
    returning: Option<Range<usize>>,
}

/// An `ON CONFLICT` clause.
#[derive(Clone, Debug)]
struct OnConflict {
    target: Option<Vec<String>>,
    /// The text after `SET`, and after `WHERE`; `None`: `DO NOTHING`.
    update: Option<(Range<usize>, Option<Range<usize>>)>,
}

/// The way to run a statement.
pub(crate) enum Planned {
    /// Unchanged.
    Plain,
    /// As another statement, with the same parameters.
    Text(String),
    Steps(Steps),
}

impl<'s> Dml<'s> {
    /// Parses a statement that changes rows of the main database; `None` for others.
    pub fn parse(sql: &'s str) -> Option<Self> {
        let tokens: Vec<_> = lexer::tokens(sql).collect();
        let first = tokens.first()?;
        let verb_of = |token: &Token<'_>| match () {
            () if token.is("INSERT") || token.is("REPLACE") => Some(Verb::Insert),
            () if token.is("UPDATE") => Some(Verb::Update),
            () if token.is("DELETE") => Some(Verb::Delete),
            () => None,
        };
        let at = match first.is("WITH") {
            true => position_at_top(&tokens, 1, |token| verb_of(token).is_some() || token.is("SELECT"))?,
            false => 0,
        };
        let verb = verb_of(&tokens[at])?;
        let is_or = tokens.get(at + 1).is_some_and(|token| token.is("OR"));
        let or = match tokens.get(at + 2).filter(|_| is_or) {
            _ if tokens[at].is("REPLACE") => Or::Replace,
            Some(word) if word.is("REPLACE") => Or::Replace,
            Some(word) if word.is("IGNORE") => Or::Ignore,
            _ => Or::Fail,
        };
        let is_or_fail = is_or && tokens.get(at + 2).is_some_and(|word| word.is("FAIL"));
        let mut reader = Reader { tokens: &tokens, at: at + 1 };
        match verb {
            Verb::Insert => reader.skip_through("INTO")?,
            Verb::Delete => reader.skip_through("FROM")?,
            Verb::Update => {
                if reader.take("OR") {
                    reader.at += 1;
                }
            }
        }
        let mut table = reader.name()?;
        let is_of_main = reader.take_mark('.');
        if is_of_main {
            if !table.eq_ignore_ascii_case("main") {
                return None;
            }
            table = reader.name()?;
        }
        let alias = if reader.take("AS") { Some(reader.name()?) } else { None };
        let head = tokens[at].start..reader.end();
        let columns =
            if verb == Verb::Insert && reader.take_mark('(') { Some(reader.names()?) } else { None };
        let start = reader.at;
        let is_clause = |index: usize| {
            tokens[index].is("RETURNING")
                || tokens[index].is("ON") && tokens.get(index + 1).is_some_and(|token| token.is("CONFLICT"))
        };
        let clause =
            |from: usize| top_level(&tokens, from).find(|&index| is_clause(index)).unwrap_or(tokens.len());
        let offset = |index: usize| tokens.get(index).map_or(sql.len(), |token| token.start);
        let mut end = clause(start);
        let body = offset(start)..offset(end);
        let mut conflicts = Vec::new();
        while tokens.get(end).is_some_and(|token| token.is("ON")) {
            let next = clause(end + 1);
            conflicts.push(OnConflict::parse(&tokens, end + 2, next, &offset)?);
            end = next;
        }
        let returning = (end < tokens.len()).then(|| offset(end + 1)..sql.len());
        let with = 0..tokens[at].start;
        Some(Dml {
            sql,
            verb,
            or,
            is_or_fail,
            with,
            head,
            table,
            is_of_main,
            alias,
            columns,
            body,
            conflicts,
            returning,
            tokens,
        })
    }

    fn text(&self, range: Range<usize>) -> &'s str {
        self.sql[range].trim()
    }

    fn is_default_values(&self) -> bool {
        self.body_token().is_some_and(|token| token.is("DEFAULT"))
    }

    fn body_token(&self) -> Option<&Token<'s>> {
        self.tokens.iter().find(|token| token.start >= self.body.start)
    }
}

/// Returns the tokens from `from` on that are not in parentheses.
fn top_level<'t>(tokens: &'t [Token<'_>], from: usize) -> impl Iterator<Item = usize> + 't {
    let mut depth = 0i32;
    tokens.iter().enumerate().skip(from).filter_map(move |(index, token)| {
        depth -= i32::from(token.is_mark(')'));
        let is_top = depth == 0;
        depth += i32::from(token.is_mark('('));
        is_top.then_some(index)
    })
}

fn position_at_top(tokens: &[Token<'_>], from: usize, wanted: impl Fn(&Token<'_>) -> bool) -> Option<usize> {
    top_level(tokens, from).find(|&index| wanted(&tokens[index]))
}

struct Reader<'t, 's> {
    tokens: &'t [Token<'s>],
    at: usize,
}

impl Reader<'_, '_> {
    fn take(&mut self, keyword: &str) -> bool {
        let found = self.tokens.get(self.at).is_some_and(|token| token.is(keyword));
        self.at += usize::from(found);
        found
    }

    fn take_mark(&mut self, mark: char) -> bool {
        let found = self.tokens.get(self.at).is_some_and(|token| token.is_mark(mark));
        self.at += usize::from(found);
        found
    }

    fn skip_through(&mut self, keyword: &str) -> Option<()> {
        // `INSERT OR REPLACE INTO` has at most two words between.
        let found =
            (self.at..self.at + 3).find(|&at| self.tokens.get(at).is_some_and(|token| token.is(keyword)))?;
        self.at = found + 1;
        Some(())
    }

    fn name(&mut self) -> Option<String> {
        self.at += 1;
        self.tokens.get(self.at - 1)?.name()
    }

    /// Returns the first names between commas, up to the closing parenthesis, which is skipped.
    fn names(&mut self) -> Option<Vec<String>> {
        let mut names = vec![self.name()?];
        loop {
            let token = self.tokens.get(self.at)?;
            self.at += 1;
            if token.is_mark(')') {
                return Some(names);
            }
            if token.is_mark(',') {
                names.push(self.name()?);
            }
        }
    }

    /// Returns the columns of a conflict target, which may be qualified by the table, up to the closing parenthesis.
    fn columns(&mut self) -> Option<Vec<String>> {
        let mut names = vec![self.name()?];
        loop {
            let token = self.tokens.get(self.at)?;
            self.at += 1;
            match () {
                () if token.is_mark(')') => return Some(names),
                () if token.is_mark('.') => *names.last_mut()? = self.name()?,
                () if token.is_mark(',') => names.push(self.name()?),
                () => {}
            }
        }
    }

    /// Returns the end of the last token taken.
    fn end(&self) -> usize {
        self.at.checked_sub(1).and_then(|last| self.tokens.get(last)).map_or(0, Token::end)
    }
}

impl OnConflict {
    fn parse(tokens: &[Token<'_>], from: usize, to: usize, offset: &impl Fn(usize) -> usize) -> Option<Self> {
        // What follows belongs to the next clause.
        let tokens = tokens.get(..to)?;
        let mut reader = Reader { tokens, at: from };
        let target = if reader.take_mark('(') { Some(reader.columns()?) } else { None };
        let action = position_at_top(tokens, reader.at, |token| token.is("DO"))?;
        if tokens.get(action + 1)?.is("NOTHING") {
            return Some(OnConflict { target, update: None });
        }
        if !tokens.get(action + 1)?.is("UPDATE") || !tokens.get(action + 2)?.is("SET") {
            return None;
        }
        let set = action + 2;
        let condition = position_at_top(tokens, set, |token| token.is("WHERE"));
        let assignments = offset(set + 1)..offset(condition.unwrap_or(to));
        let condition = condition.map(|at| offset(at + 1)..offset(to));
        Some(OnConflict { target, update: Some((assignments, condition)) })
    }
}

/// Returns how to run the statement.
pub(crate) fn plan(dml: Dml<'_>, catalog: &Catalog) -> Result<Planned> {
    let Some(table) = catalog.find(&dml.table) else { return Ok(Planned::Plain) };
    let defaults = omitted(&dml, table);
    if dml.returning.is_none() && dml.conflicts.is_empty() {
        return Ok(if defaults.is_empty() {
            Planned::Plain
        } else {
            Planned::Text(with_defaults(&dml, &defaults))
        });
    }
    Ok(Planned::Steps(Steps::new(&dml, table, &defaults)?))
}

/// Returns the columns that an `INSERT` omits and that have a default: names and expressions.
fn omitted(dml: &Dml<'_>, table: &SqlTable) -> Vec<(String, String)> {
    if dml.verb != Verb::Insert || dml.columns.is_none() && !dml.is_default_values() {
        return Vec::new();
    }
    let named = dml.columns.as_deref().unwrap_or_default();
    let left_out = table
        .columns
        .iter()
        .filter(|column| !named.iter().any(|name| name.eq_ignore_ascii_case(&column.name)));
    left_out.filter_map(|column| Some((column.name.clone(), column.default.clone()?))).collect()
}

/// Returns the `INSERT` with the columns that it omits.
fn with_defaults(dml: &Dml<'_>, defaults: &[(String, String)]) -> String {
    let (with, head) = (dml.text(dml.with.clone()), dml.text(dml.head.clone()));
    let (names, source) = insert_source(dml, defaults);
    format!("{with} {head} ({}) {source}", names.join(", "))
}

/// Returns the names and rows of an `INSERT`, including defaults.
fn insert_source(dml: &Dml<'_>, defaults: &[(String, String)]) -> (Vec<String>, String) {
    let named = dml.columns.iter().flatten();
    let names = named.chain(defaults.iter().map(|(name, _)| name)).map(|name| quote(name)).collect();
    let expressions: Vec<_> = defaults.iter().map(|(_, expression)| format!("({expression})")).collect();
    let body = dml.text(dml.body.clone());
    let source = match (dml.is_default_values(), expressions.is_empty()) {
        (true, _) => format!("VALUES ({})", expressions.join(", ")),
        (false, true) => body.to_owned(),
        (false, false) => format!("SELECT *, {} FROM ({body})", expressions.join(", ")),
    };
    (names, source)
}
