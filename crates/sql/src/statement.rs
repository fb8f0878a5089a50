//! Prepared statements: SQLite's own, and those that this crate runs in steps.

use crate::answer::{RowSource, Rows, to_owned};
use crate::connection::Connection;
use crate::ddl::{self, Ddl};
use crate::dml;
use crate::error::{Error, Result};
use crate::machine::{self, CachedStatement, column_infos, column_names, prepared_anew};
use rusqlite::types::{Value, ValueRef};
use std::borrow::Cow;
use std::fmt;

/// The number of times that a statement is planned.
pub(crate) const MOST_PLANS: u32 = 8;

/// A prepared statement.
pub struct Statement<'c> {
    connection: &'c Connection,
    kind: Kind<'c>,
    /// Whether it is a `SAVEPOINT`.
    is_savepoint: bool,
    /// Whether it makes, drops or attaches tables of SQLite's own.
    is_naming: bool,
    /// What SQLite is to make, whose name no typed table may have.
    makes: Option<Ddl>,
    /// Whether it describes tables. How that is done depends on whether there are typed ones, so that it is prepared
    /// again each time it runs.
    is_asking: bool,
    /// The text from which it was made, and the generation of the tables, if it depends on their definitions.
    plan: Option<(Box<str>, u64)>,
    /// The names of a query's columns, once it was run, and how often SQLite had prepared it again by then.
    columns: Option<(Vec<String>, i32)>,
}

/// A column of the rows that a statement returns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ColumnInfo {
    /// The name of the column.
    pub name: String,
    /// The declared type, such as `VARCHAR(20)`, or `None` if the column is an expression and not a column of a table.
    pub declared: Option<String>,
}

impl ColumnInfo {
    /// Describes a column.
    pub fn new(name: String, declared: Option<String>) -> Self {
        ColumnInfo { name, declared }
    }
}

/// The executor of a statement.
pub(crate) enum Kind<'c> {
    Sqlite(CachedStatement<'c>),
    Ddl(Ddl),
    Steps(dml::Steps),
    /// `PRAGMA integrity_check`, or `quick_check`: its name, and the largest number of problems to list.
    Check(String, u64),
}

impl fmt::Debug for Statement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Statement")
    }
}

impl<'c> Statement<'c> {
    /// Creates any statement except a `SAVEPOINT`.
    pub(crate) fn new(connection: &'c Connection, kind: Kind<'c>) -> Self {
        Statement {
            connection,
            kind,
            is_savepoint: false,
            is_naming: false,
            makes: None,
            is_asking: false,
            plan: None,
            columns: None,
        }
    }

    /// Notes that the statement was made from `sql` for the tables of a generation: [`crate::tables::Tables::by_plan`].
    pub(crate) fn planned(self, sql: &str, generation: u64) -> Self {
        Statement { plan: Some((sql.into(), generation)), ..self }
    }

    /// Marks the statement as one that makes, drops or attaches tables of SQLite's own.
    pub(crate) fn into_naming(self) -> Self {
        Statement { is_naming: true, ..self }
    }

    /// Marks the statement as one with which SQLite makes a table or a view of its own.
    pub(crate) fn into_making(self, ddl: Ddl) -> Self {
        Statement { makes: Some(ddl), ..self }
    }

    /// Marks the statement, made from `sql`, as one that describes tables.
    pub(crate) fn into_asking(self, sql: &str) -> Self {
        let generation = self.connection.tables.generation();
        Statement { is_asking: true, plan: self.plan.or_else(|| Some((sql.into(), generation))), ..self }
    }

    /// Marks the statement as a `SAVEPOINT`.
    pub(crate) fn into_savepoint(self) -> Self {
        Statement { is_savepoint: true, ..self }
    }
}

impl Statement<'_> {
    /// Runs the statement to its end. Returns the number of rows that it inserted, updated or deleted.
    pub fn execute(&mut self, parameters: &[Value]) -> Result<u64> {
        let connection = self.connection;
        connection.session().set_own(true);
        let done = self.execute_kind(parameters).map_err(|error| connection.in_own_words(error));
        connection.session().set_own(false);
        done
    }

    /// Runs the statement as [`Statement::execute`] does, with borrowed values, so that texts and blobs are not copied.
    ///
    /// ```
    /// # fn main() -> Result<(), pando_sql::Error> {
    /// # let connection = pando_sql::Sql::new(pando::Database::builder().in_memory()?).connect()?;
    /// # connection.execute("CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT)", &[])?;
    /// let names = String::from("apple lemon plum");
    /// let mut insert = connection.prepare("INSERT INTO fruit(name) VALUES (?)")?;
    /// for name in names.split(' ') {
    ///     insert.execute_lent(&[name.into()])?;
    /// }
    /// # assert_eq!(connection.query("SELECT count(*) FROM fruit", &[])?, [[3.into()]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn execute_lent(&mut self, parameters: &[ValueRef<'_>]) -> Result<u64> {
        let connection = self.connection;
        self.execute_kind(parameters).map_err(|error| connection.in_own_words(error))
    }

    /// Plans the statement again if the tables changed since it was planned: another kind of work may do it now.
    fn follow(&mut self) -> Result<()> {
        let Some((sql, generation)) = &self.plan else { return Ok(()) };
        self.connection.renew()?;
        if self.is_asking || *generation != self.connection.tables.generation() {
            let again = self.connection.prepare_one(sql)?;
            (self.kind, self.plan, self.columns) = (again.kind, again.plan, None);
        }
        Ok(())
    }

    fn execute_kind(&mut self, parameters: &[impl Parameter]) -> Result<u64> {
        self.follow()?;
        if matches!(self.kind, Kind::Steps(_)) {
            return self.run_steps(&Parameter::owned(parameters)).map(|done| done.changes);
        }
        self.by_plan(|statement| statement.execute_planned(parameters))
    }

    fn run_steps(&mut self, parameters: &[Value]) -> Result<dml::Done> {
        let done = self.by_plan(|statement| {
            let connection = statement.connection;
            match &statement.kind {
                Kind::Steps(steps) => connection.atomically_unless(
                    |error| steps.is_or_fail() && error.is_constraint(),
                    || steps.run(connection, parameters),
                ),
                _ => Err(Error::new("the table is another one since the statement was prepared")),
            }
        })?;
        self.connection.note_changes(Some(done.changes));
        Ok(done)
    }

    /// Runs the statement. It is planned again, a bounded number of times, if tables have changed since it was planned.
    fn by_plan<T>(&mut self, mut run: impl FnMut(&mut Self) -> Result<T>) -> Result<T> {
        for _ in 0..MOST_PLANS {
            let Some(generation) = self.plan.as_ref().map(|(_, generation)| *generation) else {
                return run(self);
            };
            if let Some(done) = self.connection.tables.by_plan(generation, || run(self)) {
                return done;
            }
            let Some((sql, _)) = &self.plan else { continue };
            let again = self.connection.prepare_one(sql)?;
            (self.kind, self.plan, self.columns) = (again.kind, again.plan, None);
        }
        Err(Error::new("the tables changed again each time the statement was planned; try again"))
    }

    fn execute_planned(&mut self, parameters: &[impl Parameter]) -> Result<u64> {
        let connection = self.connection;
        if self.makes.is_some() || matches!(self.kind, Kind::Ddl(_)) {
            // What it runs to begin its transaction is a `DELETE`, and changes no row for the program.
            let changes = connection.noted_changes();
            let done = self.execute_one(parameters);
            connection.note_changes(changes);
            return done;
        }
        self.execute_one(parameters)
    }

    fn execute_one(&mut self, parameters: &[impl Parameter]) -> Result<u64> {
        let connection = self.connection;
        match &mut self.kind {
            Kind::Ddl(ddl) => ddl::run(connection, ddl).map(|()| 0),
            Kind::Check(name, most) => check(connection, name, *most).map(|_| 0),
            Kind::Steps(_) => Err(Error::new("the table is another one since the statement was prepared")),
            Kind::Sqlite(statement) => {
                check_count(statement, parameters)?;
                let writes = !statement.readonly();
                let (is_query, makes) = (statement.column_count() > 0, &self.makes);
                if self.is_savepoint && connection.is_autocommit() {
                    connection.session().begins_by_savepoint();
                }
                let done = machine::with_bound(statement, parameters.iter().map(Parameter::lend), |bound| {
                    if is_query && !writes {
                        return machine::run_bound(bound).map(|()| 0);
                    }
                    let run = || {
                        let before = connection.sqlite.total_changes();
                        machine::run_bound(bound)?;
                        Ok(connection.changes_since(before))
                    };
                    match makes {
                        Some(ddl) => ddl::make(connection, ddl, run),
                        None => connection.repeating(run),
                    }
                });
                if self.is_naming {
                    connection.names_changed();
                }
                let changes = done?;
                if writes {
                    connection.note_changes(None);
                }
                Ok(changes)
            }
        }
    }

    /// Runs the statement and returns its rows one by one.
    pub fn query(&mut self, parameters: &[Value]) -> Result<Rows<'_>> {
        let connection = self.connection;
        self.follow().map_err(|error| connection.in_own_words(error))?;
        let is_query = match &self.kind {
            Kind::Sqlite(statement) => statement.column_count() > 0,
            Kind::Steps(steps) => steps.has_rows(),
            Kind::Check(..) => true,
            Kind::Ddl(_) => false,
        };
        if !is_query {
            let changes = self.execute(parameters)?;
            return Ok(Rows {
                columns: Cow::Borrowed(&[]),
                source: RowSource::Held(Vec::new().into_iter(), None),
                changes,
            });
        }
        if matches!(self.kind, Kind::Steps(_)) {
            let done = self.run_steps(parameters).map_err(|error| connection.in_own_words(error))?;
            let source = RowSource::Held(done.rows.into_iter(), None);
            return Ok(Rows { columns: Cow::Owned(done.columns), source, changes: done.changes });
        }
        match &mut self.kind {
            Kind::Check(name, most) => {
                let found = check(connection, name, *most).map_err(|error| connection.in_own_words(error))?;
                let source = RowSource::Held(found.into_iter(), None);
                Ok(Rows { columns: Cow::Owned(vec![name.clone()]), source, changes: 0 })
            }
            Kind::Sqlite(statement) if !statement.readonly() => {
                bind(statement, parameters)?;
                let done = held(connection, statement).map_err(|error| connection.in_own_words(error))?;
                connection.note_changes(None);
                let source = RowSource::Held(done.rows.into_iter(), None);
                Ok(Rows { columns: Cow::Owned(done.columns), source, changes: done.changes })
            }
            Kind::Sqlite(statement) => {
                bind(statement, parameters)?;
                let count = prepared_anew(statement);
                if self.columns.as_ref().is_none_or(|(_, known)| *known != count) {
                    self.columns = Some((column_names(statement), count));
                }
                let columns = self.columns.as_ref().map_or(&[][..], |(names, _)| names);
                let source = RowSource::Sqlite(statement.raw_query(), Some(count));
                Ok(Rows { columns: Cow::Borrowed(columns), source, changes: 0 })
            }
            Kind::Steps(_) | Kind::Ddl(_) => unreachable!("these have run, or have no rows"),
        }
    }

    /// Returns the place of a named parameter, counted from 0, or `None` if there is no parameter of this name. The
    /// name includes its `:`, `@` or `$`.
    pub fn parameter(&self, name: &str) -> Result<Option<usize>> {
        let found = match &self.kind {
            Kind::Sqlite(statement) => machine::parameter_index(statement, name)?.map(|index| index - 1),
            Kind::Steps(steps) => steps.parameter(name),
            Kind::Ddl(_) | Kind::Check(..) => None,
        };
        Ok(found)
    }

    /// Returns the number of parameters of the statement.
    pub fn parameter_count(&self) -> usize {
        match &self.kind {
            Kind::Sqlite(statement) => statement.parameter_count(),
            Kind::Steps(steps) => steps.parameter_count(),
            Kind::Ddl(_) | Kind::Check(..) => 0,
        }
    }

    /// Returns the name of each parameter, in order, with its `:`, `@`, `$` or `?`. A plain `?` has none.
    ///
    /// ```
    /// # fn main() -> Result<(), pando_sql::Error> {
    /// # let connection = pando_sql::Sql::new(pando::Database::builder().in_memory()?).connect()?;
    /// let statement = connection.prepare("SELECT :a, ?")?;
    /// assert_eq!(statement.parameter_names(), [Some(":a".to_owned()), None]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn parameter_names(&self) -> Vec<Option<String>> {
        match &self.kind {
            Kind::Sqlite(statement) => (1..=statement.parameter_count())
                .map(|index| machine::parameter_name(statement, index))
                .collect(),
            Kind::Steps(steps) => steps.parameter_names().to_vec(),
            Kind::Ddl(_) | Kind::Check(..) => Vec::new(),
        }
    }

    /// Returns the columns of the statement's rows as they are before it runs, or an empty list if it returns no rows.
    ///
    /// # Errors
    /// Those of [`Connection::prepare`].
    ///
    /// ```
    /// # fn main() -> Result<(), pando_sql::Error> {
    /// # let connection = pando_sql::Sql::new(pando::Database::builder().in_memory()?).connect()?;
    /// connection.execute("CREATE TABLE fruit(id INTEGER PRIMARY KEY, name VARCHAR(20))", &[])?;
    /// let columns = connection.prepare("SELECT name, count(*) AS n FROM fruit")?.columns()?;
    /// assert_eq!(columns[0].declared.as_deref(), Some("VARCHAR(20)"));
    /// assert_eq!((columns[1].name.as_str(), &columns[1].declared), ("n", &None));
    /// # Ok(())
    /// # }
    /// ```
    pub fn columns(&self) -> Result<Vec<ColumnInfo>> {
        let none = |name: &str| ColumnInfo { name: name.to_owned(), declared: None };
        Ok(match &self.kind {
            Kind::Sqlite(statement) => column_infos(statement),
            Kind::Steps(steps) => match steps.returning() {
                Some(query) => {
                    let statement = self.connection.prepare_sqlite(query)?;
                    column_infos(&statement)
                }
                None => Vec::new(),
            },
            Kind::Check(name, _) => vec![none(name)],
            Kind::Ddl(_) => Vec::new(),
        })
    }

    /// Returns whether the statement is an `EXPLAIN` or `EXPLAIN QUERY PLAN`.
    pub fn is_explain(&self) -> bool {
        matches!(&self.kind, Kind::Sqlite(statement) if statement.is_explain() != 0)
    }

    /// Returns whether the statement writes nothing, as a query does. `BEGIN`, `COMMIT` and `ROLLBACK` also count as
    /// writing nothing.
    pub fn is_read_only(&self) -> bool {
        match &self.kind {
            Kind::Sqlite(statement) => statement.readonly(),
            Kind::Check(..) => true,
            Kind::Ddl(_) | Kind::Steps(_) => false,
        }
    }
}

/// Runs a statement that writes and returns rows, to its end: the commit comes after the last row, and a program that
/// has seen a row relies on it. A conflict repeats the statement.
fn held(connection: &Connection, statement: &mut CachedStatement<'_>) -> Result<dml::Done> {
    let forget = || {
        connection.session().watch(|watch| {
            (watch.held_bytes, watch.is_full) = (0, false);
            watch.reserved.clear();
        });
    };
    let run = || {
        forget();
        let before = connection.sqlite.total_changes();
        let rows = dml::all_rows(connection, statement)?;
        let changes = connection.changes_since(before);
        Ok(dml::Done { columns: column_names(statement), rows, changes })
    };
    // SQLite has undone what a statement that fails must not leave; with `OR FAIL` it leaves some rows. One that is
    // stopped here has not failed: all of its rows are written.
    let keeps = |_: &Error| !connection.session().watch(|watch| watch.is_full);
    let done = match connection.is_autocommit() {
        true => connection.repeating(run),
        false => connection.atomically_unless(keeps, run),
    };
    forget();
    done
}

/// Checks the database as of the last commit: its pages, and its tables against their indexes. Returns a row for each
/// problem, or `ok`.
fn check(connection: &Connection, name: &str, most: u64) -> Result<Vec<Vec<Value>>> {
    let db = &connection.tables.engine.db;
    let pages = match name.eq_ignore_ascii_case("quick_check") {
        true => Vec::new(),
        // A remote store checks its pages itself.
        false => db.native().map(|db| db.check_all(|_| {})).transpose()?.unwrap_or_default().wrong,
    };
    let mut problems: Vec<_> = pages.iter().map(ToString::to_string).collect();
    problems.extend(machine::check_own(&connection.sqlite, name, most)?);
    let typed = rows::check(&db.snapshot()?, |_| {})?;
    problems.extend(typed.problems.iter().map(ToString::to_string));
    problems.truncate(usize::try_from(most).unwrap_or(usize::MAX).max(1));
    if problems.is_empty() {
        problems.push("ok".to_owned());
    }
    Ok(problems.into_iter().map(|problem| vec![Value::Text(problem)]).collect())
}

/// A parameter's value, owned or lent.
trait Parameter: Sized {
    fn owned(all: &[Self]) -> Cow<'_, [Value]>;
    fn lend(&self) -> ValueRef<'_>;
}

impl Parameter for Value {
    fn owned(all: &[Self]) -> Cow<'_, [Value]> {
        Cow::Borrowed(all)
    }

    fn lend(&self) -> ValueRef<'_> {
        self.into()
    }
}

impl Parameter for ValueRef<'_> {
    fn owned(all: &[Self]) -> Cow<'_, [Value]> {
        all.iter().map(|value| to_owned(*value)).collect()
    }

    fn lend(&self) -> ValueRef<'_> {
        *self
    }
}

/// Checks that there is a value for each parameter.
fn check_count(statement: &CachedStatement<'_>, parameters: &[impl Parameter]) -> Result<()> {
    let (wanted, given) = (statement.parameter_count(), parameters.len());
    if wanted == given {
        return Ok(());
    }
    Err(Error::new(format!("the statement has {wanted} parameters, {given} values were given")))
}

fn bind(statement: &mut CachedStatement<'_>, parameters: &[impl Parameter]) -> Result<()> {
    check_count(statement, parameters)?;
    for (place, value) in parameters.iter().enumerate() {
        machine::bind(statement, place + 1, value.lend())?;
    }
    Ok(())
}
