//! What SQLite does not do for virtual tables, in steps of statements that it does:
//!
//! | of a statement | is done so |
//! |---|---|
//! | columns left out of `INSERT` | they are named in it, with their defaults behind the values |
//! | `RETURNING` of `INSERT`, `UPDATE` | the rows that were written are read back by their keys |
//! | `RETURNING` of `DELETE` | the rows are read, then deleted |
//! | `ON CONFLICT` | each row is inserted; where another is in its way, that is updated by its key |
//!
//! Steps are one statement to everybody else: [`crate::Connection`] runs them in a savepoint or a transaction.
//! A statement of which nothing here is needed goes to SQLite as it is.

use crate::catalog::{Catalog, RowId, SqlTable};
use crate::change::sqlite_value;
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::lexer::{self, Kind, Token, quote};
use crate::session::{Conflict, Conflicts};
use rusqlite::types::{Value, ValueRef};
use std::ops::Range;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Insert,
    Update,
    Delete,
}

/// A statement that changes rows, in its parts. Ranges are of its text.
#[derive(Debug)]
pub(crate) struct Dml<'s> {
    sql: &'s str,
    tokens: Vec<Token<'s>>,
    verb: Verb,
    /// `WITH ...`, if there is one.
    with: Range<usize>,
    /// From the verb through the table's name and alias.
    head: Range<usize>,
    pub table: String,
    alias: Option<String>,
    columns: Option<Vec<String>>,
    /// Behind the head and the columns, up to `ON CONFLICT` and `RETURNING`.
    body: Range<usize>,
    conflicts: Vec<OnConflict>,
    returning: Option<Range<usize>>,
}

/// An `ON CONFLICT` clause.
#[derive(Clone, Debug)]
struct OnConflict {
    target: Option<Vec<String>>,
    /// What is behind `SET`, and behind `WHERE`; `None`: `DO NOTHING`.
    update: Option<(Range<usize>, Option<Range<usize>>)>,
}

/// How a statement is run.
pub(crate) enum Planned {
    /// As it is.
    Plain,
    /// As another one, with the same parameters.
    Text(String),
    Steps(Steps),
}

impl<'s> Dml<'s> {
    /// The statement, if it is one that changes rows, of the main database.
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
        if reader.take_mark('.') {
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
        Some(Dml { sql, verb, with, head, table, alias, columns, body, conflicts, returning, tokens })
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

/// Tokens from `from` on that are in no parentheses.
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
        // `INSERT OR REPLACE INTO`: two words between at most.
        let found =
            (self.at..self.at + 3).find(|&at| self.tokens.get(at).is_some_and(|token| token.is(keyword)))?;
        self.at = found + 1;
        Some(())
    }

    fn name(&mut self) -> Option<String> {
        self.at += 1;
        self.tokens.get(self.at - 1)?.name()
    }

    /// The first names between commas, up to the closing parenthesis, which is passed.
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

    /// The end of the last token taken.
    fn end(&self) -> usize {
        self.tokens[self.at - 1].end()
    }
}

impl OnConflict {
    fn parse(tokens: &[Token<'_>], from: usize, to: usize, offset: &impl Fn(usize) -> usize) -> Option<Self> {
        let mut reader = Reader { tokens, at: from };
        let target = if reader.take_mark('(') { Some(reader.names()?) } else { None };
        let action = position_at_top(tokens, reader.at, |token| token.is("DO"))?;
        if tokens.get(action + 1)?.is("NOTHING") {
            return Some(OnConflict { target, update: None });
        }
        let set = position_at_top(tokens, action, |token| token.is("SET"))?;
        let condition = position_at_top(tokens, set, |token| token.is("WHERE")).filter(|&at| at < to);
        let assignments = offset(set + 1)..offset(condition.unwrap_or(to));
        let condition = condition.map(|at| offset(at + 1)..offset(to));
        Some(OnConflict { target, update: Some((assignments, condition)) })
    }
}

/// How the statement is to be run.
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

/// The columns that an `INSERT` leaves out, and that have a default: names and expressions.
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

/// The same `INSERT` with the columns that it leaves out.
fn with_defaults(dml: &Dml<'_>, defaults: &[(String, String)]) -> String {
    let (with, head) = (dml.text(dml.with.clone()), dml.text(dml.head.clone()));
    let (names, source) = insert_source(dml, defaults);
    format!("{with} {head} ({}) {source}", names.join(", "))
}

/// Names and rows of an `INSERT`, defaults with them.
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

/// A statement in steps. Parameters are numbered: those of the statement, from 1; then those of a step.
#[derive(Debug)]
pub(crate) struct Steps {
    table: Arc<SqlTable>,
    parameters: Vec<Option<String>>,
    work: Work,
    /// Reads a row back by its key.
    returning: Option<String>,
}

#[derive(Debug)]
enum Work {
    /// A statement, whose rows are then read back.
    Once(String),
    /// The rows to be shown, and the statement.
    ReadThen(String, String),
    /// The rows to be inserted one by one.
    Upsert { source: String, insert: Option<String>, columns: Vec<usize>, updates: Vec<Update> },
}

/// What is done to a row that is in the way.
#[derive(Debug)]
struct Update {
    target: Option<Vec<String>>,
    /// `None`: nothing.
    statement: Option<String>,
}

/// What the steps did.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Value>>,
    pub changes: u64,
}

impl Steps {
    fn new(dml: &Dml<'_>, table: &Arc<SqlTable>, defaults: &[(String, String)]) -> Result<Self> {
        let numbers = Numbers::of(&dml.tokens)?;
        let own = |range: &Range<usize>| numbers.apply(dml, range.clone(), &[]);
        let name = quote(table.name());
        let alias = dml.alias.as_deref().map_or(String::new(), |alias| format!(" AS {}", quote(alias)));
        let first_key = numbers.count() + table.columns.len() + 1;
        let key = key_condition(table, first_key);
        let with = own(&dml.with);
        let returning = dml.returning.as_ref().map(own);
        let read_back =
            returning.as_ref().map(|shown| format!("SELECT {shown} FROM {name}{alias} WHERE {key}"));
        let work = match dml.verb {
            Verb::Delete => {
                let body = own(&dml.body);
                let shown = returning.unwrap_or_default();
                let read = format!("{with} SELECT {shown} FROM {name}{alias} {body}");
                Work::ReadThen(read, format!("{with} {} {body}", own(&dml.head)))
            }
            Verb::Update => Work::Once(format!("{with} {} {}", own(&dml.head), own(&dml.body))),
            Verb::Insert if dml.conflicts.is_empty() => {
                let text = match dml.columns.is_none() && !dml.is_default_values() {
                    true => format!("{with} {} {}", own(&dml.head), own(&dml.body)),
                    false => numbers.renumber(&with_defaults(dml, defaults))?,
                };
                Work::Once(text)
            }
            Verb::Insert => {
                let (_, source) = insert_source(dml, defaults);
                let source = numbers.renumber(&format!("{} {source}", dml.text(dml.with.clone())))?;
                upsert(dml, table, &numbers, source, defaults, &key)?
            }
        };
        let returning = if dml.verb == Verb::Delete { None } else { read_back };
        Ok(Steps { table: Arc::clone(table), parameters: numbers.names, work, returning })
    }

    pub fn has_rows(&self) -> bool {
        self.returning.is_some() || matches!(self.work, Work::ReadThen(..))
    }

    pub fn parameter_count(&self) -> usize {
        self.parameters.len()
    }

    pub fn parameter(&self, name: &str) -> Option<usize> {
        self.parameters.iter().position(|known| known.as_deref() == Some(name))
    }

    /// That SQLite understands every step.
    pub fn check(&self, connection: &Connection) -> Result<()> {
        let texts: Vec<&String> = match &self.work {
            Work::Once(text) => vec![text],
            Work::ReadThen(read, text) => vec![read, text],
            Work::Upsert { source, insert, updates, .. } => {
                let updates = updates.iter().filter_map(|update| update.statement.as_ref());
                [source].into_iter().chain(insert).chain(updates).collect()
            }
        };
        texts
            .into_iter()
            .chain(&self.returning)
            .try_for_each(|text| connection.prepare_sqlite(text).map(drop))
    }

    /// Runs the steps.
    pub fn run(&self, connection: &Connection, parameters: &[Value]) -> Result<Done> {
        if parameters.len() != self.parameters.len() {
            let (wanted, given) = (self.parameters.len(), parameters.len());
            return Err(Error::new(format!(
                "the statement has {wanted} parameters, {given} values were given"
            )));
        }
        let before = connection.sqlite.total_changes();
        let watched = self.returning.is_some();
        connection.session().watch(|watch| {
            watch.written = watched.then(Vec::new);
            watch.held_bytes = 0;
        });
        let ran = self.run_watched(connection, parameters);
        let written = connection.session().watch(|watch| {
            watch.conflicts = None;
            watch.written.take()
        });
        let mut done = ran?;
        done.changes = connection.sqlite.total_changes() - before;
        if let Some(returning) = &self.returning {
            let mut values = parameters.to_vec();
            values.resize(parameters.len() + self.table.columns.len(), Value::Null);
            let first_key = values.len();
            for key in written.unwrap_or_default() {
                connection.go_on()?;
                values.truncate(first_key);
                values.extend(key.iter().map(sqlite_value));
                done.rows.extend(rows_of(connection, returning, &values)?);
            }
            done.columns = column_names(connection, returning)?;
        }
        Ok(done)
    }

    fn run_watched(&self, connection: &Connection, parameters: &[Value]) -> Result<Done> {
        match &self.work {
            Work::Once(text) => {
                run_one(connection, text, parameters)?;
                Ok(Done::default())
            }
            Work::ReadThen(read, text) => {
                let rows = rows_of(connection, read, parameters)?;
                run_one(connection, text, parameters)?;
                Ok(Done { columns: column_names(connection, read)?, rows, changes: 0 })
            }
            Work::Upsert { source, insert, columns, updates } => {
                let rows = rows_of(connection, source, parameters)?;
                for row in rows {
                    connection.go_on()?;
                    if row.len() != columns.len() {
                        let (is, wanted) = (row.len(), columns.len());
                        return Err(Error::new(format!("{is} values for {wanted} columns")));
                    }
                    self.upsert(connection, parameters, &row, (insert.as_deref(), columns, updates))?;
                }
                Ok(Done::default())
            }
        }
    }

    fn upsert(
        &self,
        connection: &Connection,
        parameters: &[Value],
        row: &[Value],
        (insert, columns, updates): (Option<&str>, &[usize], &[Update]),
    ) -> Result<()> {
        connection.session().watch(|watch| watch.conflicts = Some(Conflicts::default()));
        let inserted = insert.map_or(Ok(()), |insert| run_one(connection, insert, row));
        let conflicts = connection.session().watch(|watch| watch.conflicts.take());
        inserted?;
        let conflicts = conflicts.unwrap_or_default();
        if let Some(refused) = conflicts.refused {
            return Err(refused.into());
        }
        let is_target = |found: &Conflict, target: &Vec<String>| {
            let is_in = |column: &String| target.iter().any(|name| name.eq_ignore_ascii_case(column));
            target.len() == found.columns.len() && found.columns.iter().all(is_in)
        };
        // The first clause that is about a constraint broken; other constraints count only if there is none.
        let matching = updates.iter().find_map(|update| {
            let is_meant =
                |found: &&Conflict| update.target.as_ref().is_none_or(|target| is_target(found, target));
            Some((update, conflicts.found.iter().find(is_meant)?))
        });
        let Some((update, found)) = matching else {
            let first = conflicts.found.into_iter().next();
            return first.map_or(Ok(()), |found| Err(found.failure.into()));
        };
        let Some(statement) = &update.statement else { return Ok(()) };
        let mut values = parameters.to_vec();
        let first = values.len();
        values.resize(first + self.table.columns.len(), Value::Null);
        for (value, &column) in row.iter().zip(columns) {
            let stored = self.table.columns[column].affinity.apply(ValueRef::from(value));
            values[first + column] = stored.as_ref().map_or(Value::Null, sqlite_value);
        }
        values.extend(found.key.iter().map(sqlite_value));
        run_one(connection, statement, &values)
    }
}

fn upsert(
    dml: &Dml<'_>,
    table: &SqlTable,
    numbers: &Numbers,
    source: String,
    defaults: &[(String, String)],
    key: &str,
) -> Result<Work> {
    let place = |name: &String| {
        let found = table.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| Error::new(format!("table {} has no column named {name}", table.name())))
    };
    let columns = match &dml.columns {
        None if !dml.is_default_values() => (0..table.columns.len()).collect(),
        named => {
            let names = named.iter().flatten().chain(defaults.iter().map(|(name, _)| name));
            names.map(place).collect::<Result<Vec<_>>>()?
        }
    };
    let names: Vec<_> = columns.iter().map(|&column| quote(&table.columns[column].name)).collect();
    let marks: Vec<_> = (1..=columns.len()).map(|number| format!("?{number}")).collect();
    let (names, marks, table_name) = (names.join(", "), marks.join(", "), quote(table.name()));
    let insert = format!("INSERT OR IGNORE INTO {table_name}({names}) VALUES ({marks})");
    let excluded: Vec<_> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let alias = dml.alias.as_deref().map_or(String::new(), |alias| format!(" AS {}", quote(alias)));
    let updates = dml.conflicts.iter().map(|clause| {
        let statement = clause.update.as_ref().map(|(set, condition)| {
            let set = numbers.apply(dml, set.clone(), &excluded);
            let condition = condition.as_ref().map_or(String::new(), |condition| {
                format!(" AND ({})", numbers.apply(dml, condition.clone(), &excluded))
            });
            format!("UPDATE {table_name}{alias} SET {set} WHERE {key}{condition}")
        });
        Update { target: clause.target.clone(), statement }
    });
    Ok(Work::Upsert { source, insert: Some(insert), columns, updates: updates.collect() })
}

/// That a row has the key whose values are parameters from `first` on.
fn key_condition(table: &SqlTable, first: usize) -> String {
    let names = match table.row_id {
        RowId::Hidden => vec!["rowid".to_owned()],
        _ => table.rows.schema().key().iter().map(|part| quote(part.column())).collect(),
    };
    let parts = names.iter().enumerate().map(|(at, name)| format!("{name} = ?{}", first + at));
    parts.collect::<Vec<_>>().join(" AND ")
}

/// The statement's parameters, each with a number.
struct Numbers {
    names: Vec<Option<String>>,
    /// Of each parameter in the text, in order.
    numbers: Vec<usize>,
}

/// The most parameters of a statement: SQLite's own limit.
const MOST_PARAMETERS: usize = 32766;

impl Numbers {
    fn of(tokens: &[Token<'_>]) -> Result<Self> {
        let mut numbers = Numbers { names: Vec::new(), numbers: Vec::new() };
        for token in tokens.iter().filter(|token| token.kind == Kind::Parameter) {
            let known = numbers.names.iter().position(|name| name.as_deref() == Some(token.text));
            let number = match token.text.strip_prefix('?') {
                Some("") => numbers.names.len() + 1,
                Some(digits) => digits.parse().unwrap_or(0),
                None => known.map_or(numbers.names.len() + 1, |place| place + 1),
            };
            if number == 0 || number > MOST_PARAMETERS {
                return Err(Error::new(format!("there is no parameter {}", token.text)));
            }
            if numbers.names.len() < number {
                numbers.names.resize(number, None);
            }
            if !token.text.starts_with('?') {
                numbers.names[number - 1] = Some(token.text.to_owned());
            }
            numbers.numbers.push(number);
        }
        Ok(numbers)
    }

    fn count(&self) -> usize {
        self.names.len()
    }

    /// A part of the statement with numbered parameters. `excluded.x` of these columns becomes one too.
    fn apply(&self, dml: &Dml<'_>, range: Range<usize>, excluded: &[&str]) -> String {
        let all = dml.tokens.iter().filter(|token| token.kind == Kind::Parameter);
        let numbers = all.zip(&self.numbers).filter(|(token, _)| range.contains(&token.start));
        let mut changes: Vec<_> =
            numbers.map(|(token, number)| (token.start..token.end(), *number)).collect();
        for three in dml.tokens.windows(3).filter(|three| range.contains(&three[0].start)) {
            let is_excluded = three[0].name().is_some_and(|name| name.eq_ignore_ascii_case("excluded"));
            let Some(column) = three[2].name().filter(|_| is_excluded && three[1].is_mark('.')) else {
                continue;
            };
            if let Some(place) = excluded.iter().position(|name| name.eq_ignore_ascii_case(&column)) {
                changes.push((three[0].start..three[2].end(), self.count() + place + 1));
            }
        }
        changes.sort_by_key(|(range, _)| range.start);
        replaced(dml.sql, range, &changes)
    }

    /// A statement made of parts that have all parameters up to where it ends, in their order.
    fn renumber(&self, text: &str) -> Result<String> {
        let tokens = lexer::tokens(text).filter(|token| token.kind == Kind::Parameter);
        let changes: Vec<_> =
            tokens.zip(&self.numbers).map(|(token, n)| (token.start..token.end(), *n)).collect();
        Ok(replaced(text, 0..text.len(), &changes))
    }
}

fn replaced(sql: &str, range: Range<usize>, changes: &[(Range<usize>, usize)]) -> String {
    let mut text = String::new();
    let mut at = range.start;
    for (place, number) in changes {
        text.push_str(&sql[at..place.start]);
        text.push_str(&format!("?{number}"));
        at = place.end;
    }
    text.push_str(&sql[at..range.end]);
    text.trim().to_owned()
}

fn run_one(connection: &Connection, sql: &str, values: &[Value]) -> Result<()> {
    let mut statement = connection.prepare_sqlite(sql)?;
    for (place, value) in values.iter().enumerate().take(statement.parameter_count()) {
        statement.raw_bind_parameter(place + 1, value)?;
    }
    statement.raw_execute()?;
    Ok(())
}

/// About the memory that a value takes.
fn held_bytes(value: &Value) -> usize {
    let outside = match value {
        Value::Text(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
        _ => 0,
    };
    size_of::<Value>() + outside
}

fn rows_of(connection: &Connection, sql: &str, values: &[Value]) -> Result<Vec<Vec<Value>>> {
    let mut statement = connection.prepare_sqlite(sql)?;
    for (place, value) in values.iter().enumerate().take(statement.parameter_count()) {
        statement.raw_bind_parameter(place + 1, value)?;
    }
    let count = statement.column_count();
    let mut found = statement.raw_query();
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let row = (0..count).map(|column| row.get(column)).collect::<rusqlite::Result<Vec<Value>>>()?;
        connection.session().watch(|watch| watch.hold(row.iter().map(held_bytes).sum()))?;
        rows.push(row);
    }
    Ok(rows)
}

fn column_names(connection: &Connection, sql: &str) -> Result<Vec<String>> {
    let statement = connection.prepare_sqlite(sql)?;
    Ok(statement.column_names().map(str::to_owned).collect())
}
