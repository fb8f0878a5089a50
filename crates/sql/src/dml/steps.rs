//! A statement's steps: which they are, and running them.

use super::numbers::Numbers;
use super::{Dml, Verb, insert_source, with_defaults};
use crate::catalog::{RowId, SqlTable};
use crate::change::sqlite_value;
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::lexer::quote;
use crate::session::{Conflict, Conflicts};
use rusqlite::types::{Value, ValueRef};
use std::ops::Range;
use std::sync::Arc;

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
    /// The keys of the rows to be deleted, each of which is read and then deleted by its key: a condition that does not
    /// always say the same (`ORDER BY random() LIMIT 1`) is asked once.
    Delete { keys: String, delete: String },
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
    pub(super) fn new(dml: &Dml<'_>, table: &Arc<SqlTable>, defaults: &[(String, String)]) -> Result<Self> {
        let numbers = Numbers::of(&dml.tokens)?;
        let own = |range: &Range<usize>| numbers.apply(dml, range.clone(), &[]);
        let name = quote(table.name());
        let alias = dml.alias.as_deref().map_or(String::new(), |alias| format!(" AS {}", quote(alias)));
        let first_key = numbers.count() + table.columns.len() + 1;
        let key = key_condition(table, first_key);
        let with = own(&dml.with);
        let read_back = dml
            .returning
            .as_ref()
            .map(|shown| format!("{with} SELECT {} FROM {name}{alias} WHERE {key}", own(shown)));
        let work = match dml.verb {
            Verb::Delete => {
                let table_name = dml.alias.as_deref().map_or(name.clone(), quote);
                let names = key_names(table).into_iter().map(|key| format!("{table_name}.{key}"));
                let names = names.collect::<Vec<_>>().join(", ");
                let keys = format!("{with} SELECT {names} FROM {name}{alias} {}", own(&dml.body));
                Work::Delete { keys, delete: format!("DELETE FROM {name} WHERE {key}") }
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
        Ok(Steps { table: Arc::clone(table), parameters: numbers.names, work, returning: read_back })
    }

    pub fn has_rows(&self) -> bool {
        self.returning.is_some()
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
            Work::Delete { keys, delete } => vec![keys, delete],
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
            Work::Delete { keys, delete } => self.delete(connection, parameters, keys, delete),
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

    /// All rows are read before the first goes.
    fn delete(
        &self,
        connection: &Connection,
        parameters: &[Value],
        keys: &str,
        delete: &str,
    ) -> Result<Done> {
        let keys = rows_of(connection, keys, parameters)?;
        let values_of = |key: &[Value]| -> Result<Vec<Value>> {
            connection.go_on()?;
            let mut values = parameters.to_vec();
            values.resize(parameters.len() + self.table.columns.len(), Value::Null);
            values.extend_from_slice(key);
            Ok(values)
        };
        let mut done = Done::default();
        for key in &keys {
            let shown = self.returning.as_deref().expect("what is deleted in steps is shown");
            done.rows.extend(rows_of(connection, shown, &values_of(key)?)?);
        }
        let before = connection.sqlite.total_changes();
        keys.iter().try_for_each(|key| run_one(connection, delete, &values_of(key)?))?;
        if connection.sqlite.total_changes() - before != keys.len() as u64 {
            return Err(Error::new("SQL's numbers do not tell the rows to be deleted from others"));
        }
        Ok(done)
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
    let names = key_names(table);
    let parts = names.iter().enumerate().map(|(at, name)| format!("{name} = ?{}", first + at));
    parts.collect::<Vec<_>>().join(" AND ")
}

/// The columns of the primary key, as statements name them.
fn key_names(table: &SqlTable) -> Vec<String> {
    match table.row_id {
        RowId::Hidden => vec!["rowid".to_owned()],
        _ => table.rows.schema().key().iter().map(|part| quote(part.column())).collect(),
    }
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
