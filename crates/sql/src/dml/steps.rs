//! The steps of a statement, and their execution.

use super::numbers::Numbers;
use super::{Dml, Or, Verb, insert_source, with_defaults};
use crate::answer::to_owned;
use crate::catalog::{RowId, SqlTable};
use crate::change::{part_name, sqlite_value};
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::failure::Failure;
use crate::lexer::quote;
use crate::machine;
use crate::session::{Conflict, Conflicts};
use rows::Part;
use rusqlite::types::{Value, ValueRef};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// A statement in steps. Parameters are numbered: those of the statement from 1, and then those of a step.
#[derive(Debug)]
pub(crate) struct Steps {
    table: Arc<SqlTable>,
    parameters: Vec<Option<String>>,
    work: Work,
    /// The query that reads a row back by its key.
    returning: Option<String>,
    is_or_fail: bool,
}

#[derive(Debug)]
enum Work {
    /// A statement whose rows are then read back.
    Once(String),
    /// The keys of the rows to delete. Each row is read and then deleted by its key, because a condition that is not
    /// deterministic (`ORDER BY random() LIMIT 1`) must be evaluated once.
    Delete { keys: String, delete: String },
    /// The rows to insert one by one.
    Upsert(Upsert),
}

#[derive(Debug)]
struct Upsert {
    source: String,
    insert: String,
    columns: Vec<usize>,
    updates: Vec<Update>,
    or: Or,
    /// The statement that replaces, if [`Or::Replace`] applies after `ON CONFLICT`.
    replace: String,
}

/// The change of a conflicting row.
#[derive(Debug)]
struct Update {
    target: Option<Vec<String>>,
    /// The statement; `None`: do nothing.
    statement: Option<String>,
}

/// The values of a primary key.
type Key = Vec<rows::Value<'static>>;

/// The result of the steps.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Value>>,
    pub changes: u64,
}

impl Steps {
    pub(super) fn new(dml: &Dml<'_>, table: &Arc<SqlTable>, defaults: &[(String, String)]) -> Result<Self> {
        let numbers = Numbers::new(&dml.tokens)?;
        let own = |range: &Range<usize>| numbers.apply(dml, range.clone(), &[]);
        // The schema excludes a table of the same name that takes precedence.
        let name = format!("main.{}", quote(table.name()));
        let alias = dml.alias.as_deref().map_or(String::new(), |alias| format!(" AS {}", quote(alias)));
        let first_key = numbers.count() + table.columns.len() + 1;
        let key = key_condition(table, first_key)?;
        let with = own(&dml.with);
        let read_back = dml
            .returning
            .as_ref()
            .map(|shown| format!("{with} SELECT {} FROM {name}{alias} WHERE {key}", own(shown)));
        let work = match dml.verb {
            Verb::Delete => {
                let table_name = quote(dml.alias.as_deref().unwrap_or(table.name()));
                let names = key_names(table)?.into_iter().map(|key| format!("{table_name}.{key}"));
                let names = names.collect::<Vec<_>>().join(", ");
                let keys = format!("{with} SELECT {names} FROM {name}{alias} {}", own(&dml.body));
                Work::Delete { keys, delete: format!("DELETE FROM {name} WHERE {key}") }
            }
            Verb::Update => Work::Once(format!("{with} {} {}", own(&dml.head), own(&dml.body))),
            Verb::Insert if dml.conflicts.is_empty() && !replaces_known_columns(dml, table) => {
                let names_none = dml.columns.is_none() && (!dml.is_default_values() || defaults.is_empty());
                let text = match names_none {
                    true => format!("{with} {} {}", own(&dml.head), own(&dml.body)),
                    false => numbers.renumber(&with_defaults(dml, defaults))?,
                };
                Work::Once(text)
            }
            Verb::Insert => {
                let (_, source) = insert_source(dml, defaults);
                let source = numbers.renumber(&format!("{} {source}", dml.text(dml.with.clone())))?;
                Work::Upsert(upsert(dml, table, &numbers, source, defaults, &key)?)
            }
        };
        let (table, parameters, is_or_fail) = (Arc::clone(table), numbers.names, dml.is_or_fail);
        Ok(Steps { table, parameters, work, returning: read_back, is_or_fail })
    }

    /// Returns whether the statement is `OR FAIL`, so that a row that breaks a constraint leaves those before it.
    pub fn is_or_fail(&self) -> bool {
        self.is_or_fail
    }

    pub fn has_rows(&self) -> bool {
        self.returning.is_some()
    }

    pub fn parameter_count(&self) -> usize {
        self.parameters.len()
    }

    pub fn parameter_names(&self) -> &[Option<String>] {
        &self.parameters
    }

    /// Returns the query that reads a row back, if there are rows.
    pub fn returning(&self) -> Option<&str> {
        self.returning.as_deref()
    }

    pub fn parameter(&self, name: &str) -> Option<usize> {
        self.parameters.iter().position(|known| known.as_deref() == Some(name))
    }

    /// Checks that SQLite can prepare every step.
    pub fn check(&self, connection: &Connection) -> Result<()> {
        let texts: Vec<&String> = match &self.work {
            Work::Once(text) => vec![text],
            Work::Delete { keys, delete } => vec![keys, delete],
            Work::Upsert(upsert) => {
                let updates = upsert.updates.iter().filter_map(|update| update.statement.as_ref());
                [&upsert.source, &upsert.insert].into_iter().chain(updates).collect()
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
            watch.reserved.clear();
        });
        let ran = self.run_watched(connection, parameters);
        let done = ran.and_then(|done| self.read_back(connection, parameters, done));
        connection.session().watch(|watch| {
            watch.conflicts = None;
            watch.written = None;
            watch.reserved.clear();
        });
        let mut done = done?;
        done.changes = connection.sqlite.total_changes() - before;
        if let Some(returning) = &self.returning {
            done.columns = column_names(connection, returning)?;
        }
        Ok(done)
    }

    /// Adds the rows that were written since the last call, with their current values, each once.
    fn read_back(&self, connection: &Connection, parameters: &[Value], mut done: Done) -> Result<Done> {
        let Some(returning) = &self.returning else { return Ok(done) };
        let written = connection.session().watch(|watch| watch.written.as_mut().map(std::mem::take));
        let keys = without_repeats(written.unwrap_or_default());
        let mut values = parameters.to_vec();
        values.resize(parameters.len() + self.table.columns.len(), Value::Null);
        let first_key = values.len();
        for key in keys {
            connection.go_on()?;
            values.truncate(first_key);
            values.extend(key.iter().map(sqlite_value));
            done.rows.extend(rows_of(connection, returning, &values)?);
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
            Work::Upsert(upsert) => {
                let rows = rows_of(connection, &upsert.source, parameters)?;
                let mut done = Done::default();
                for row in rows {
                    connection.go_on()?;
                    if row.len() != upsert.columns.len() {
                        let (is, wanted) = (row.len(), upsert.columns.len());
                        return Err(Error::new(format!("{is} values for {wanted} columns")));
                    }
                    self.upsert(connection, parameters, &row, upsert)?;
                    // This happens before the next step, which may change the row again.
                    done = self.read_back(connection, parameters, done)?;
                }
                Ok(done)
            }
        }
    }

    /// All rows are read before the first one is deleted.
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
            return Err(Error::new("the statement cannot identify the rows to delete by their ids"));
        }
        Ok(done)
    }

    fn upsert(
        &self,
        connection: &Connection,
        parameters: &[Value],
        row: &[Value],
        upsert: &Upsert,
    ) -> Result<()> {
        connection.session().watch(|watch| watch.conflicts = Some(Conflicts::default()));
        let inserted = run_one(connection, &upsert.insert, row);
        let conflicts = connection.session().watch(|watch| watch.conflicts.take());
        inserted?;
        let conflicts = conflicts.unwrap_or_default();
        let otherwise = |failure: Failure| match upsert.or {
            Or::Fail => Err(failure.into()),
            Or::Ignore => Ok(()),
            Or::Replace => run_one(connection, &upsert.replace, row),
        };
        if let Some(refused) = conflicts.refused {
            return otherwise(refused);
        }
        // The first clause whose constraint is broken applies. Other constraints count only if there is no such clause.
        let matching = upsert.updates.iter().find_map(|update| {
            let is_meant = |found: &&Conflict| {
                update.target.as_ref().is_none_or(|target| are_same(&found.columns, target))
            };
            Some((update, conflicts.found.iter().find(is_meant)?))
        });
        let Some((update, found)) = matching else {
            let first = conflicts.found.into_iter().next();
            return first.map_or(Ok(()), |found| otherwise(found.failure));
        };
        let Some(statement) = &update.statement else { return Ok(()) };
        let mut values = parameters.to_vec();
        let first = values.len();
        values.resize(first + self.table.columns.len(), Value::Null);
        for (value, &column) in row.iter().zip(&upsert.columns) {
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
) -> Result<Upsert> {
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
    let (names, marks) = (names.join(", "), marks.join(", "));
    let table_name = format!("main.{}", quote(table.name()));
    let insert_or = |or: &str| format!("INSERT OR {or} INTO {table_name}({names}) VALUES ({marks})");
    // Without `ON CONFLICT` it is a statement that replaces.
    let insert = insert_or(if dml.conflicts.is_empty() { "REPLACE" } else { "IGNORE" });
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
        Ok(Update { target: target_of(clause.target.as_deref(), table)?, statement })
    });
    let (updates, replace) = (updates.collect::<Result<_>>()?, insert_or("REPLACE"));
    Ok(Upsert { source, insert, columns, updates, or: dml.or, replace })
}

/// Returns the columns that an `ON CONFLICT` names, which must be unique together.
fn target_of(named: Option<&[String]>, table: &SqlTable) -> Result<Option<Vec<String>>> {
    let Some(named) = named else { return Ok(None) };
    let schema = table.rows.schema();
    let columns = |parts: &[Part]| parts.iter().map(part_name).collect::<Vec<_>>();
    // The name is a row id, by another name than its column's.
    let is_id = |name: &String| table.row_id_name().is_some_and(|id| name.eq_ignore_ascii_case(id));
    let target = match (named, table.row_id) {
        ([name], RowId::Column(_) | RowId::Hidden) if is_id(name) => columns(schema.key()),
        _ => named.to_vec(),
    };
    let unique = schema.indexes().iter().filter(|index| index.is_unique());
    let mut unique = unique.map(|index| columns(index.parts())).chain([columns(schema.key())]);
    if unique.any(|unique| are_same(&unique, &target)) {
        return Ok(Some(target));
    }
    Err(Error::new("ON CONFLICT clause does not match any PRIMARY KEY or UNIQUE constraint"))
}

/// Returns whether these are the same columns, in any order.
fn are_same(columns: &[String], target: &[String]) -> bool {
    let is_in = |column: &String| target.iter().any(|name| name.eq_ignore_ascii_case(column));
    target.len() == columns.len() && columns.iter().all(is_in)
}

/// Returns whether it is an `INSERT OR REPLACE` of columns only, and not of a row id.
fn replaces_known_columns(dml: &Dml<'_>, table: &SqlTable) -> bool {
    let is_column = |name: &String| table.columns.iter().any(|column| column.name.eq_ignore_ascii_case(name));
    dml.or == Or::Replace && !dml.is_default_values() && dml.columns.iter().flatten().all(is_column)
}

/// Returns the keys without duplicates: `UPDATE ... FROM` can find a row twice.
fn without_repeats(keys: Vec<Key>) -> Vec<Key> {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by(|&a, &b| keys[a].cmp(&keys[b]));
    let repeats = order.windows(2).filter(|pair| keys[pair[0]] == keys[pair[1]]).map(|pair| pair[1]);
    let repeats: HashSet<usize> = repeats.collect();
    let numbered = keys.into_iter().enumerate();
    numbered.filter(|(at, _)| !repeats.contains(at)).map(|(_, key)| key).collect()
}

/// Returns the condition that a row has the key whose values are parameters from `first` on.
fn key_condition(table: &SqlTable, first: usize) -> Result<String> {
    let names = key_names(table)?;
    let collations = table.rows.schema().key().iter().map(|part| table.key_collation(part));
    let parts = names.iter().zip(collations).enumerate();
    let parts = parts.map(|(at, (name, collation))| format!("{name}{collation} = ?{}", first + at));
    Ok(parts.collect::<Vec<_>>().join(" AND "))
}

/// Returns the columns of the primary key, as statements name them.
fn key_names(table: &SqlTable) -> Result<Vec<String>> {
    let no_name = || {
        let name = table.name();
        Error::new(format!(
            "RETURNING and ON CONFLICT: the columns of {name} use all names of the row id (rowid, oid, \
             _rowid_); rename one"
        ))
    };
    Ok(match table.row_id {
        RowId::Hidden => vec![table.row_id_name().ok_or_else(no_name)?.to_owned()],
        _ => table.rows.schema().key().iter().map(|part| quote(part.column())).collect(),
    })
}

fn run_one(connection: &Connection, sql: &str, values: &[Value]) -> Result<()> {
    let mut statement = connection.prepare_sqlite(sql)?;
    for (place, value) in values.iter().enumerate().take(statement.parameter_count()) {
        machine::bind(&mut statement, place + 1, value.into())?;
    }
    machine::run(&mut statement)
}

/// Returns the approximate memory of a value.
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
        machine::bind(&mut statement, place + 1, value.into())?;
    }
    all_rows(connection, &mut statement)
}

/// Runs a statement, and returns its rows. Their memory is noted as held by the statement. If there is no room for
/// them, what it wrote outside of `BEGIN` is undone, which ending it before its last row would commit.
pub(crate) fn all_rows(
    connection: &Connection,
    statement: &mut machine::CachedStatement<'_>,
) -> Result<Vec<Vec<Value>>> {
    let count = statement.column_count();
    let mut found = statement.raw_query();
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let row =
            (0..count).map(|column| Ok(to_owned(row.get_ref(column)?))).collect::<Result<Vec<Value>>>()?;
        let held = connection.session().watch(|watch| watch.hold(row.iter().map(held_bytes).sum()));
        if let Err(full) = held {
            if connection.is_autocommit() {
                connection.interrupt_handle().interrupt();
                let _interrupted = found.next().is_err();
                #[cfg(not(feature = "loadable"))]
                connection.sqlite.forget_interrupt();
            }
            return Err(full.into());
        }
        rows.push(row);
    }
    Ok(rows)
}

fn column_names(connection: &Connection, sql: &str) -> Result<Vec<String>> {
    let statement = connection.prepare_sqlite(sql)?;
    Ok(machine::column_names(&statement))
}
