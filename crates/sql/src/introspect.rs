//! Descriptions of tables for programs: `sqlite_schema`, and the pragmas that describe tables.
//!
//! SQLite describes its own tables, and knows nothing of typed ones. Where there are typed tables, such statements are
//! rewritten (`asking.rs`) to read a [`View`], a virtual table with the same columns:
//!
//! * Rows about typed tables come from a database in memory that has the same tables without their rows ([`Shadow`]),
//!   where SQLite itself describes them.
//! * Rows about tables that SQLite made come from SQLite, by the same question to the connection (`native`). Where
//!   SQLite is another program's there are none: its own statements describe its own tables.

use crate::catalog::Catalog;
use crate::confine;
use crate::failure::{Failure, Outcome};
use crate::lexer::quote;
use crate::session::with_reader;
use crate::tables::Tables;
use crate::vtab::{Arguments, Change, Choice, Connect, Cursor, Host, Operator, Query, Table};
use rows::Batch;
use rusqlite::ffi;
use rusqlite::types::{Value, ValueRef};
use std::sync::{Arc, Mutex, PoisonError};

/// A description of tables that SQLite provides.
#[derive(Debug)]
pub(crate) struct View {
    /// The name: `table_info` of `pragma_table_info`; `schema` for `sqlite_schema`.
    pub name: &'static str,
    pub columns: &'static [&'static str],
    /// The query on the shadow; `?1` is the argument, or null.
    query: &'static str,
    /// Whether there are no rows without an argument.
    needs_argument: bool,
}

/// The prefix of a view's name in the connection: one that no table has, because SQLite looks up its own tables first.
/// Where SQLite is another program's, that program also uses the views by their names.
pub(crate) const PREFIX: &str = if cfg!(feature = "loadable") { "pando_sqlite_" } else { "sqlite_pando_" };

/// All views.
pub(crate) const VIEWS: [View; 8] = [
    View {
        name: "schema",
        columns: &["type", "name", "tbl_name", "rootpage", "sql"],
        query: "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema
                WHERE ?1 IS NULL AND name <> 'sqlite_sequence'",
        needs_argument: false,
    },
    View {
        name: "table_list",
        columns: &["schema", "name", "type", "ncol", "wr", "strict"],
        query: "SELECT schema, name, type, ncol, wr, strict FROM pragma_table_list
                WHERE schema = 'main' AND name <> 'sqlite_sequence'
                    AND (?1 IS NULL OR name = ?1 COLLATE NOCASE)",
        needs_argument: false,
    },
    View {
        name: "table_info",
        columns: &["cid", "name", "type", "notnull", "dflt_value", "pk"],
        query: "SELECT * FROM pragma_table_info(?1)",
        needs_argument: true,
    },
    View {
        name: "table_xinfo",
        columns: &["cid", "name", "type", "notnull", "dflt_value", "pk", "hidden"],
        query: "SELECT * FROM pragma_table_xinfo(?1)",
        needs_argument: true,
    },
    View {
        name: "index_list",
        columns: &["seq", "name", "unique", "origin", "partial"],
        query: "SELECT * FROM pragma_index_list(?1)",
        needs_argument: true,
    },
    View {
        name: "index_info",
        columns: &["seqno", "cid", "name"],
        query: "SELECT * FROM pragma_index_info(?1)",
        needs_argument: true,
    },
    View {
        name: "index_xinfo",
        columns: &["seqno", "cid", "name", "desc", "coll", "key"],
        query: "SELECT * FROM pragma_index_xinfo(?1)",
        needs_argument: true,
    },
    View {
        name: "foreign_key_list",
        columns: &["id", "seq", "table", "from", "to", "on_update", "on_delete", "match"],
        query: "SELECT * FROM pragma_foreign_key_list(?1)",
        needs_argument: true,
    },
];

/// The columns of views whose values are integers. The values of all others are texts.
#[cfg(not(feature = "loadable"))]
const INTEGERS: [&str; 15] = [
    "cid", "desc", "hidden", "id", "key", "ncol", "notnull", "partial", "pk", "rootpage", "seq", "seqno",
    "strict", "unique", "wr",
];

/// Returns the view of that name, without its prefix.
pub(crate) fn view(name: &str) -> Option<&'static View> {
    VIEWS.iter().find(|view| view.name.eq_ignore_ascii_case(name))
}

/// A database in memory with the tables of a catalog and none of their rows.
pub(crate) struct Shadow {
    /// The id and version of each table's schema.
    of: Vec<(u32, u32)>,
    sqlite: Mutex<rusqlite::Connection>,
}

fn versions(catalog: &Catalog) -> Vec<(u32, u32)> {
    let version = |table: &Arc<crate::catalog::SqlTable>| {
        let schema = table.rows.schema();
        (schema.id(), schema.version())
    };
    catalog.tables.iter().map(version).collect()
}

impl Shadow {
    fn read(catalog: &Catalog) -> Outcome<Self> {
        let sqlite = confine::alone()?;
        sqlite.execute_batch("BEGIN")?;
        for table in &catalog.tables {
            let statements = [table.create_statement()].into_iter().chain(table.index_statements());
            for statement in statements {
                let made = sqlite.execute_batch(&statement);
                made.map_err(|error| {
                    Failure::error(format!("table {} cannot be described: {error}", table.name()))
                })?;
            }
        }
        sqlite.execute_batch("COMMIT")?;
        Ok(Shadow { of: versions(catalog), sqlite: Mutex::new(sqlite) })
    }

    /// Returns whether a typed table or an index of one has this name. The index of a primary key that is the table
    /// itself is not in `sqlite_schema`, and known to the view alone.
    #[cfg(not(feature = "loadable"))]
    fn has(&self, view: &View, name: &str) -> Outcome<bool> {
        {
            let sqlite = self.sqlite.lock().unwrap_or_else(PoisonError::into_inner);
            let find = "SELECT 1 FROM sqlite_schema WHERE name = ? COLLATE NOCASE";
            if sqlite.prepare_cached(find)?.exists([name])? {
                return Ok(true);
            }
        }
        Ok(!self.rows(view, &Value::Text(name.to_owned()))?.is_empty())
    }

    fn rows(&self, view: &View, argument: &Value) -> Outcome<Vec<Vec<Value>>> {
        let sqlite = self.sqlite.lock().unwrap_or_else(PoisonError::into_inner);
        let mut statement = sqlite.prepare_cached(view.query)?;
        let mut found = statement.query([argument])?;
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            let row = (0..view.columns.len()).map(|column| row.get(column));
            rows.push(row.collect::<rusqlite::Result<Vec<Value>>>()?);
        }
        Ok(rows)
    }
}

impl Tables {
    /// Returns the shadow with the tables that the current transaction sees.
    fn shadow(&self) -> Outcome<Arc<Shadow>> {
        let catalog =
            self.session.read(|source| Ok(with_reader!(source, reader => self.engine.load(reader))?))?;
        let mut kept = self.shadow.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some(shadow) if shadow.of == versions(&catalog) => Ok(Arc::clone(shadow)),
            _ => {
                let shadow = Arc::new(Shadow::read(&catalog)?);
                *kept = Some(Arc::clone(&shadow));
                Ok(shadow)
            }
        }
    }
}

/// The question of a scan of a view.
#[derive(Clone, Copy)]
struct Question<'a> {
    /// The name of a table or an index, if one was given, and that of a database.
    argument: Option<&'a str>,
    schema: Option<&'a str>,
}

impl Question<'_> {
    fn is_of_main(self) -> bool {
        self.schema.is_none_or(|schema| schema.eq_ignore_ascii_case("main"))
    }
}

impl View {
    /// Returns what SQLite says about its own tables.
    #[cfg(not(feature = "loadable"))]
    fn native(&self, host: Host, question: Question<'_>) -> Outcome<Vec<Vec<Value>>> {
        let literal = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let columns: Vec<_> = self.columns.iter().map(|column| quote(column)).collect();
        let from = match (self.name, question.argument, question.schema) {
            ("schema", ..) => "main.sqlite_schema".to_owned(),
            (name, None, None) => format!("pragma_{name}"),
            (name, None, Some(schema)) => format!("pragma_{name} WHERE schema = {}", literal(schema)),
            (name, Some(argument), None) => format!("pragma_{name}({})", literal(argument)),
            // This one has the database's name as a column.
            ("table_list", Some(argument), Some(schema)) => {
                format!("pragma_table_list({}) WHERE schema = {}", literal(argument), literal(schema))
            }
            (name, Some(argument), Some(schema)) => {
                format!("pragma_{name}({}, {})", literal(argument), literal(schema))
            }
        };
        let sql = format!("SELECT {} FROM {from}", columns.join(", "));
        // Nothing has a name with a NUL.
        let Ok(sql) = std::ffi::CString::new(sql) else { return Ok(Vec::new()) };
        let value = |(text, column): (Option<String>, &&str)| match text {
            None => Value::Null,
            Some(text) if INTEGERS.contains(column) => text.parse().map_or(Value::Text(text), Value::Integer),
            Some(text) => Value::Text(text),
        };
        let typed = |row: Vec<_>| row.into_iter().zip(self.columns).map(value).collect();
        Ok(host.query(&sql)?.into_iter().map(typed).collect())
    }

    /// Returns what is known of a question: about typed tables from the shadow, about all others from SQLite.
    #[cfg(not(feature = "loadable"))]
    fn rows(&self, host: Host, shadow: &Shadow, question: Question<'_>) -> Outcome<Vec<Vec<Value>>> {
        let Question { argument, schema } = question;
        let is_typed = match argument {
            Some(name) if question.is_of_main() && shadow.has(self, name)? => {
                // A name without a schema is that of a temporary table first.
                let find = format!(
                    "SELECT 1 FROM temp.sqlite_schema WHERE name = '{}' COLLATE NOCASE",
                    name.replace('\'', "''")
                );
                let find = std::ffi::CString::new(find).map_err(|_| Failure::error("a NUL in a name"))?;
                schema.is_some() || host.query(&find)?.is_empty()
            }
            _ => false,
        };
        let of_shadow = |name: Value| shadow.rows(self, &name);
        match argument {
            Some(name) if is_typed => of_shadow(Value::Text(name.to_owned())),
            Some(_) => self.native(host, question),
            None if !question.is_of_main() => self.native(host, question),
            None => {
                let mut rows = self.native(host, question)?;
                // SQLite has described the table of definitions, which is in each database.
                let is_new = |row: &Vec<Value>| row.get(1) != Some(&Value::Text("sqlite_schema".to_owned()));
                rows.extend(of_shadow(Value::Null)?.into_iter().filter(is_new));
                Ok(rows)
            }
        }
    }

    /// Returns what is known of a question about typed tables, from the shadow; nothing about SQLite's own tables.
    #[cfg(feature = "loadable")]
    fn rows(&self, _host: Host, shadow: &Shadow, question: Question<'_>) -> Outcome<Vec<Vec<Value>>> {
        if !question.is_of_main() {
            return Ok(Vec::new());
        }
        let argument = question.argument.map_or(Value::Null, |name| Value::Text(name.to_owned()));
        shadow.rows(self, &argument)
    }
}

/// A view of a connection.
pub(crate) struct ViewTable {
    tables: Arc<Tables>,
    view: &'static View,
    host: Host,
}

pub(crate) struct ViewConnector {
    pub tables: Arc<Tables>,
    pub view: &'static View,
}

impl Connect<ViewTable> for ViewConnector {
    fn connect(&self, host: Host) -> Outcome<ViewTable> {
        Ok(ViewTable { tables: Arc::clone(&self.tables), view: self.view, host })
    }
}

/// The bit of a plan that says that an argument is passed, and the bit for the name of a schema.
const HAS_ARGUMENT: i32 = 1;
const HAS_SCHEMA: i32 = 2;
/// The cost of a plan without an argument in look-ups, as SQLite estimates it for its own.
const WITHOUT_ARGUMENT: f64 = 2_147_483_647.0;

impl Table for ViewTable {
    type Cursor = ViewCursor;

    fn declaration(&self) -> String {
        let shown = self.view.columns.iter().map(|column| quote(column));
        // The parameters are the same as in SQLite's own functions: `table_info('t', 'main')`.
        let hidden = ["arg HIDDEN".to_owned(), "pando_schema HIDDEN".to_owned()];
        format!("CREATE TABLE x({})", shown.chain(hidden).collect::<Vec<_>>().join(", "))
    }

    fn best_index(&self, query: &Query<'_>) -> Outcome<Choice> {
        let first = self.view.columns.len();
        let mut choice = Choice { cost: 10.0, rows: 10.0, ..Choice::default() };
        for (column, flag) in [(first, HAS_ARGUMENT), (first + 1, HAS_SCHEMA)] {
            if query.is_out_of_reach(column) {
                // Another order of the tables provides the argument.
                return Err(Failure::new(
                    ffi::SQLITE_CONSTRAINT,
                    "the value of the argument is not known at this point",
                ));
            }
            let constraints = query.constraints();
            let found = constraints.iter().find(|(_, constraint)| {
                constraint.column == Some(column) && constraint.op == Operator::Equal
            });
            if let Some((index, _)) = found {
                choice.plan |= flag;
                choice.arguments.push(*index);
                choice.decided.push(*index);
            } else if flag == HAS_ARGUMENT && self.view.needs_argument {
                choice.cost = WITHOUT_ARGUMENT;
            }
        }
        choice.label = self.view.name.to_owned();
        Ok(choice)
    }

    fn open(&self) -> ViewCursor {
        let memory = self.tables.session.cursor_opened();
        let (tables, view, host) = (Arc::clone(&self.tables), self.view, self.host);
        ViewCursor { tables, view, host, memory, shadow: None, rows: Vec::new(), at: 0 }
    }

    fn update(&self, _change: Change<'_>) -> Outcome<Option<i64>> {
        Err(Failure::error("sqlite_schema may not be modified: use CREATE, ALTER and DROP"))
    }

    fn begin(&self) -> Outcome {
        self.tables.session.begin()
    }

    fn sync(&self) -> Outcome {
        self.tables.sync()
    }

    fn commit(&self) {
        self.tables.session.committed();
    }

    fn rollback(&self) {
        self.tables.session.end();
    }

    fn savepoint(&self, number: i32) -> Outcome {
        self.tables.session.savepoint(number);
        Ok(())
    }

    fn release(&self, number: i32) -> Outcome {
        self.tables.session.release(number)
    }

    fn rollback_to(&self, number: i32) -> Outcome {
        self.tables.session.rollback_to(number)
    }
}

/// A scan of a view, whose rows are all computed at the start.
pub(crate) struct ViewCursor {
    tables: Arc<Tables>,
    view: &'static View,
    host: Host,
    /// Nothing is read into it; it counts this cursor as one that needs a snapshot.
    memory: Batch,
    /// The shadow that all scans of a statement share.
    shadow: Option<Arc<Shadow>>,
    rows: Vec<Vec<Value>>,
    at: usize,
}

impl Drop for ViewCursor {
    fn drop(&mut self) {
        self.tables.session.cursor_closed(self.host, std::mem::take(&mut self.memory));
    }
}

impl Cursor for ViewCursor {
    fn filter(&mut self, plan: i32, arguments: &Arguments<'_>) -> Outcome {
        (self.at, self.rows) = (0, Vec::new());
        self.tables.session.enter(self.host)?;
        let mut values = (0..arguments.len()).map(|at| crate::answer::to_owned(arguments.get(at)));
        let mut value_of = |flag| if plan & flag == 0 { None } else { values.next() };
        let (argument, schema) = (value_of(HAS_ARGUMENT), value_of(HAS_SCHEMA));
        let texts = [&argument, &schema].map(|given| match given {
            Some(Value::Text(text)) => Some(text.as_str()),
            _ => None,
        });
        let [name, schema_name] = texts;
        // No table has a name that is null or a number.
        if argument.is_some() && name.is_none() || schema.is_some() && schema_name.is_none() {
            return Ok(());
        }
        if name.is_none() && self.view.needs_argument {
            return Ok(());
        }
        let shadow = match &self.shadow {
            Some(shadow) => Arc::clone(shadow),
            None => self.tables.shadow()?,
        };
        let question = Question { argument: name, schema: schema_name };
        self.rows = self.view.rows(self.host, &shadow, question)?;
        self.shadow = Some(shadow);
        Ok(())
    }

    fn next(&mut self) -> Outcome {
        self.at += 1;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.at >= self.rows.len()
    }

    fn column(&mut self, column: usize) -> Outcome<ValueRef<'_>> {
        let value = self.rows.get(self.at).and_then(|row| row.get(column));
        Ok(value.map_or(ValueRef::Null, ValueRef::from))
    }

    fn row_id(&mut self) -> Outcome<i64> {
        Ok(self.at as i64 + 1)
    }
}
