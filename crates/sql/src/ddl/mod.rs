//! `CREATE`, `ALTER` and `DROP` of tables and indexes.
//!
//! SQLite makes tables, views and triggers itself ([`make`]), and changes them. The rest of this module is about typed
//! tables. They are made here only where SQLite is another program's. SQLite parses the statement in a database in
//! memory that has only the tables that the statement uses ([`Scratch`]). Pragmas then return the result, which becomes
//! a change of the typed table. The change is part of the connection's transaction, as in SQLite.

mod alter;
pub(crate) mod names;
mod scratch;

pub(crate) use scratch::Scratch;

use crate::answer::to_owned;
use crate::catalog::{AUTO_INDEX, Catalog, SqlTable};
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::given_ids;
use crate::introspect::PREFIX as VIEW_PREFIX;
use crate::lexer::{self, quote};
use crate::machine;
use crate::others::Others;
use crate::session::MARKER;
use alter::{Alteration, alter};
use pando::any::AnyTransaction;
use rows::{DynamicTable, IndexDefinition, KeyRange};
use rusqlite::types::{Value, ValueRef};

/// Whether SQLite makes tables. It does not where it is another program's: they would be in that program's database.
const MAKES: bool = cfg!(not(feature = "loadable"));

/// A statement that changes schemas of the main database.
#[derive(Debug)]
pub(crate) struct Ddl {
    sql: String,
    action: Action,
    /// `IF EXISTS`, `IF NOT EXISTS`.
    is_lenient: bool,
    name: String,
    /// Whether `main.` precedes the name.
    is_of_main: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Action {
    CreateTable,
    /// `CREATE TABLE ... AS`, with the query.
    CreateTableAs(String),
    /// `CREATE INDEX`, with the table's name.
    CreateIndex(String),
    AlterTable,
    DropTable,
    DropIndex,
    /// What SQLite makes: a table, a view or a virtual table.
    Make,
    /// `CREATE TRIGGER`, with the table's name unless `main` precedes it. SQLite makes it, too. Its name can be that of
    /// a table.
    MakeTrigger(Option<String>),
}

impl Ddl {
    /// Parses a statement that changes schemas; `None` for others. Statements about temporary tables are left to
    /// SQLite.
    pub fn parse(sql: &str) -> Result<Option<Self>> {
        let mut tokens = lexer::tokens(sql).peekable();
        let mut take = |keyword: &str| tokens.next_if(|token| token.is(keyword)).is_some();
        let verb = match () {
            () if take("CREATE") => "CREATE",
            () if take("ALTER") => "ALTER",
            () if take("DROP") => "DROP",
            () => return Ok(None),
        };
        if take("TEMP") || take("TEMPORARY") {
            return Ok(None);
        }
        let _unique = take("UNIQUE");
        let is_table = take("TABLE");
        let made =
            if is_table { None } else { ["VIEW", "TRIGGER", "VIRTUAL"].into_iter().find(|kind| take(kind)) };
        match made.filter(|_| verb == "CREATE") {
            Some(kind) if !MAKES => return Err(no_such_kind(kind)),
            Some("VIRTUAL") if !take("TABLE") => return Ok(None),
            Some(_) => {}
            None if !is_table && !take("INDEX") => return Ok(None),
            None => {}
        }
        let is_lenient = take("IF");
        if is_lenient {
            take("NOT");
            take("EXISTS");
        }
        let mut name = || tokens.next().and_then(|token| token.name());
        let Some(mut found) = name() else { return Ok(None) };
        let is_of_main = tokens.next_if(|token| token.is_mark('.')).is_some();
        if is_of_main {
            if !found.eq_ignore_ascii_case("main") {
                return Ok(None);
            }
            let Some(behind) = tokens.next().and_then(|token| token.name()) else { return Ok(None) };
            found = behind;
        }
        let action = match (verb, is_table) {
            ("CREATE", _) if made == Some("TRIGGER") => {
                let table = tokens.find(|token| token.is("ON")).and_then(|_| tokens.next());
                let Some(table) = table.and_then(|token| token.name()) else { return Ok(None) };
                match tokens.next_if(|token| token.is_mark('.')) {
                    None => Action::MakeTrigger(Some(table)),
                    Some(_) if table.eq_ignore_ascii_case("main") => Action::MakeTrigger(None),
                    // SQLite makes it in `temp`, or refuses it.
                    Some(_) => return Ok(None),
                }
            }
            ("CREATE", _) if MAKES && (is_table || made.is_some()) => Action::Make,
            ("CREATE", true) => match tokens.next_if(|token| token.is("AS")) {
                Some(token) => Action::CreateTableAs(sql[token.end()..].to_owned()),
                None => Action::CreateTable,
            },
            ("CREATE", false) => {
                let on = tokens.next().filter(|token| token.is("ON"));
                let Some(table) = on.and_then(|_| tokens.next()).and_then(|token| token.name()) else {
                    return Ok(None);
                };
                Action::CreateIndex(table)
            }
            ("ALTER", true) => Action::AlterTable,
            ("DROP", true) => Action::DropTable,
            ("DROP", false) => Action::DropIndex,
            _ => return Ok(None),
        };
        Ok(Some(Ddl { sql: sql.to_owned(), action, is_lenient, name: found, is_of_main }))
    }

    /// Returns whether SQLite runs it, as it was prepared: see [`make`].
    pub fn is_sqlites(&self) -> bool {
        matches!(self.action, Action::Make | Action::MakeTrigger(_))
    }

    /// Returns whether it is about a table or an index of `temp`, which take precedence over Pando's.
    pub fn is_temporary(&self, others: &Others) -> bool {
        match &self.action {
            Action::CreateTable | Action::CreateTableAs(_) | Action::Make => false,
            _ if self.is_of_main => false,
            Action::CreateIndex(table) | Action::MakeTrigger(Some(table)) => others.is_temporary(table),
            Action::MakeTrigger(None) => false,
            Action::AlterTable | Action::DropTable => others.is_temporary(&self.name),
            Action::DropIndex => others.is_temporary_index(&self.name),
        }
    }
}

/// Returns the error of something that SQLite cannot make of typed tables alone.
fn no_such_kind(kind: &str) -> Error {
    match kind {
        "VIRTUAL" => Error::refused("not authorized: virtual tables of SQLite are not available here"),
        "TRIGGER" => Error::new("not supported: triggers on tables of the database, TEMP ones included"),
        _ => Error::new(format!(
            "not supported: {}s are not stored in the database; use CREATE TEMP {kind}, which lasts as \
             long as the connection",
            kind.to_lowercase()
        )),
    }
}

/// Runs a statement with which SQLite makes a table or a view, which `run` does, if no typed table has its name.
pub(crate) fn make(connection: &Connection, ddl: &Ddl, mut run: impl FnMut() -> Result<u64>) -> Result<u64> {
    if let Err(failure) = connection.session().check_writable() {
        return if has_nothing_to_do(connection, ddl)? { Ok(0) } else { Err(failure.into()) };
    }
    connection.atomically(|| {
        connection.session().enter_writing(connection.host)?;
        let shared_before = names::shared(connection)?;
        let is_table = ddl.action == Action::Make;
        let is_reserved = is_reserved(&ddl.name);
        if is_reserved || is_table && names::is_typed_table(connection.session(), &ddl.name)? {
            return if ddl.is_lenient && !is_reserved { Ok(0) } else { Err(exists(ddl)) };
        }
        connection.session().write(|tx| Ok(rows::exclude_new_tables(tx)?))?;
        let changes = run()?;
        names::check_new(connection, &shared_before)?;
        Ok(changes)
    })
}

/// Runs a statement atomically. A `CREATE INDEX` outside of a transaction is many transactions, which run beside
/// writers.
pub(crate) fn run(connection: &Connection, ddl: &Ddl) -> Result<()> {
    let others = connection.others()?;
    if ddl.is_temporary(&others) {
        let done = machine::run_only(&connection.sqlite, &ddl.sql);
        connection.names_changed();
        return done;
    }
    if let Err(failure) = connection.session().check_writable() {
        return if has_nothing_to_do(connection, ddl)? { Ok(()) } else { Err(failure.into()) };
    }
    if let Action::CreateIndex(table) = &ddl.action
        && connection.is_autocommit()
    {
        connection.begin_uninterrupted()?;
        connection.reload()?;
        if build_beside_writers(connection, ddl, table)? {
            return connection.reload();
        }
    }
    connection.atomically(|| {
        connection.session().enter_writing(connection.host)?;
        connection.session().changes_schemas();
        // Everything is read again here, so an earlier undo does not matter.
        connection.session().take_undone();
        connection.tables.reload(connection.host)?;
        let catalog = connection.tables.known();
        let shared_before = names::shared(connection)?;
        if let Action::CreateTableAs(query) = &ddl.action {
            create_as(connection, ddl, &catalog, query)?;
            return names::check_new(connection, &shared_before);
        }
        if !apply(connection, ddl, &catalog)? {
            // The name is that of a table of SQLite's own, or unknown.
            machine::run_only(&connection.sqlite, &ddl.sql)?;
        }
        names::check_new(connection, &shared_before)
    })?;
    // A prepared statement may name a table that was dropped. Preparing it again detects that.
    connection.sqlite.flush_prepared_statement_cache();
    connection.reload()
}

/// Returns whether a statement makes what there is already, or drops what there is not, and says that this may be so.
/// It succeeds then, also where nothing can be written.
fn has_nothing_to_do(connection: &Connection, ddl: &Ddl) -> Result<bool> {
    if !ddl.is_lenient || !MAKES {
        return Ok(false);
    }
    connection.reload()?;
    let known = connection.tables.known();
    let has_table =
        || Ok(known.find(&ddl.name).is_some() || machine::has_own_table(&connection.sqlite, &ddl.name)?);
    let has_own = |kind: &str| names::has_own(&connection.sqlite, kind, &ddl.name);
    let has_index = || Ok(known.find_index(&ddl.name).is_some() || has_own("index")?);
    match &ddl.action {
        Action::Make => has_table(),
        Action::MakeTrigger(_) => has_own("trigger"),
        Action::CreateIndex(_) => has_index(),
        Action::DropTable => has_table().map(|has| !has),
        Action::DropIndex => has_index().map(|has| !has),
        _ => Ok(false),
    }
}

/// Changes typed tables. Returns whether the statement is about one.
fn apply(connection: &Connection, ddl: &Ddl, catalog: &Catalog) -> Result<bool> {
    let write = |work: &mut dyn FnMut(&mut AnyTransaction) -> Result<()>| {
        connection.session().write(|tx| Ok(work(tx)))?
    };
    match &ddl.action {
        Action::CreateTable => {
            if !is_free(connection, ddl, catalog)? {
                return Ok(true);
            }
            let scratch = Scratch::new()?;
            scratch.run(&ddl.sql)?;
            let mut read = scratch.read_table(&ddl.name)?;
            if enforces_foreign_keys(connection)? {
                read.refuse_foreign_keys(0)?;
            }
            if read.has_serial_key() {
                read.hide_key();
            }
            let definition = read.into_definition()?;
            write(&mut |tx| Ok(DynamicTable::create(tx, &definition).map(drop)?))?;
        }
        Action::CreateTableAs(_) | Action::Make | Action::MakeTrigger(_) => {
            unreachable!("these are run elsewhere")
        }
        Action::CreateIndex(table) => {
            let Some(table) = catalog.find(table) else { return Ok(false) };
            if catalog.find_index(&ddl.name).is_some() {
                return if ddl.is_lenient { Ok(true) } else { Err(index_exists(ddl)) };
            }
            let added = index_definition(ddl, table)?;
            write(&mut |tx| {
                let go_on = || connection.go_on().map_err(pando::Error::from);
                Ok(table.rows.clone().create_index_while(tx, added.clone(), go_on).map(drop)?)
            })?;
        }
        Action::AlterTable => {
            let Some(table) = catalog.find(&ddl.name) else { return Ok(false) };
            let changes = alter(connection, ddl, table, catalog)?;
            if changes.iter().any(Alteration::leaves_rows_without) && has_rows(connection, table)? {
                return Err(Error::new("Cannot add a column with non-constant default"));
            }
            if changes.iter().any(Alteration::takes_a_name_away)
                && let [first, ..] = &names::naming(&connection.sqlite, table.name())?[..]
            {
                // SQLite would write it anew for a table of its own. It takes a name in quotes that is gone for a text.
                return Err(Error::new(format!(
                    "not supported: this change of table {} while the {first} names it; drop that first",
                    table.name()
                )));
            }
            write(&mut |tx| {
                changes.iter().try_fold(table.rows.clone(), |rows, change| change.apply(rows, tx)).map(drop)
            })?;
        }
        Action::DropTable => {
            let Some(table) = catalog.find(&ddl.name) else { return Ok(false) };
            write(&mut |tx| {
                given_ids::forget(tx, table.rows.schema().id())?;
                Ok(table.rows.clone().drop(tx)?)
            })?;
        }
        Action::DropIndex => {
            let Some((table, index)) = catalog.find_index(&ddl.name) else { return Ok(false) };
            if index.starts_with(AUTO_INDEX) {
                return Err(Error::new("an index that is part of a UNIQUE constraint cannot be dropped"));
            }
            write(&mut |tx| Ok(table.rows.clone().drop_index(tx, index).map(drop)?))?;
        }
    }
    Ok(true)
}

/// Returns whether the connection expects foreign keys to be enforced. After `PRAGMA foreign_keys = OFF` it does not,
/// and those of a definition are kept as those from an SQLite file are. The connection of another program has its own
/// default, from which nothing follows.
fn enforces_foreign_keys(connection: &Connection) -> Result<bool> {
    Ok(machine::enforces_foreign_keys(&connection.sqlite)? || cfg!(feature = "loadable"))
}

fn has_rows(connection: &Connection, table: &SqlTable) -> Result<bool> {
    let first = connection.session().write(|tx| {
        let scan = table.rows.scan(tx, &KeyRange::all());
        Ok(scan.and_then(|mut scan| scan.next_with(|_| ())))
    })?;
    Ok(first?.is_some())
}

fn index_exists(ddl: &Ddl) -> Error {
    Error::new(format!("index {} already exists", ddl.name))
}

/// Returns the definition of a `CREATE INDEX`.
fn index_definition(ddl: &Ddl, table: &SqlTable) -> Result<IndexDefinition> {
    let scratch = Scratch::with(table)?;
    scratch.run(&ddl.sql)?;
    let read = scratch.read_table(table.name())?;
    read.refuse_left_out()?;
    let added = read.indexes.iter().find(|index| index.name.eq_ignore_ascii_case(&ddl.name));
    Ok(read.index(added.expect("SQLite has just made it")))
}

/// Builds an index beside writers. If a process was killed while it built an index of that name, the build is finished.
/// Returns whether the statement is about a typed table. If it is stopped, nothing of the index stays.
fn build_beside_writers(connection: &Connection, ddl: &Ddl, table: &str) -> Result<bool> {
    let catalog = connection.tables.known();
    let Some(table) = catalog.find(table) else { return Ok(false) };
    let db = &connection.tables.engine.db;
    let go_on = |_| connection.go_on().map_err(pando::Error::from);
    if let Some((owner, name)) = catalog.find_index(&ddl.name) {
        let is_unfinished = owner.rows.schema().index(name).is_some_and(rows::Index::is_building);
        if is_unfinished && owner.name() == table.name() {
            rows::finish_index(db, table.name(), name, go_on)?;
            return Ok(true);
        }
        return if ddl.is_lenient { Ok(true) } else { Err(index_exists(ddl)) };
    }
    // The build is several transactions, so that no single one can undo it.
    if names::made_by_sqlite(&connection.sqlite)?.contains(&ddl.name.to_ascii_lowercase()) {
        return Err(names::taken(&ddl.name));
    }
    rows::build_index(db, table.name(), index_definition(ddl, table)?, go_on)?;
    Ok(true)
}

/// Returns whether there is no table of the name yet.
fn is_free(connection: &Connection, ddl: &Ddl, catalog: &Catalog) -> Result<bool> {
    if is_reserved(&ddl.name) {
        return Err(exists(ddl));
    }
    if catalog.find(&ddl.name).is_none() && !machine::has_own_table(&connection.sqlite, &ddl.name)? {
        return Ok(true);
    }
    if ddl.is_lenient { Ok(false) } else { Err(exists(ddl)) }
}

/// Returns whether a name is that of a virtual table of this crate's own.
fn is_reserved(name: &str) -> bool {
    name.to_ascii_lowercase().starts_with(VIEW_PREFIX) || name.eq_ignore_ascii_case(MARKER)
}

/// Returns the error of a table's name that cannot be given.
fn exists(ddl: &Ddl) -> Error {
    match is_reserved(&ddl.name) {
        true => reserved(&ddl.name),
        false => Error::new(format!("table {} already exists", ddl.name)),
    }
}

fn reserved(name: &str) -> Error {
    Error::new(format!("object name reserved for internal use: {name}"))
}

/// Runs `CREATE TABLE ... AS`: SQLite determines the columns; then the table is created and filled.
fn create_as(connection: &Connection, ddl: &Ddl, catalog: &Catalog, query: &str) -> Result<()> {
    const SHAPE: &str = "pando_shape";
    if !is_free(connection, ddl, catalog)? {
        return Ok(());
    }
    machine::run_only(
        &connection.sqlite,
        &format!("CREATE TEMP TABLE {SHAPE} AS SELECT * FROM ({query}) LIMIT 0"),
    )?;
    let columns = {
        let mut info =
            machine::prepare_kept(&connection.sqlite, "SELECT name, type FROM pragma_table_info(?, 'temp')")?;
        machine::bind(&mut info, 1, ValueRef::Text(SHAPE.as_bytes()))?;
        let (mut rows, mut columns) = (info.raw_query(), Vec::new());
        while let Some(row) = rows.next()? {
            if let (Value::Text(name), Value::Text(declared)) =
                (to_owned(row.get_ref(0)?), to_owned(row.get_ref(1)?))
            {
                columns.push(format!("{} {declared}", quote(&name)));
            }
        }
        columns
    };
    machine::run_only(&connection.sqlite, &format!("DROP TABLE temp.{SHAPE}"))?;
    let name = quote(&ddl.name);
    let sql = format!("CREATE TABLE {name} ({})", columns.join(", "));
    let create =
        Ddl { sql, action: Action::CreateTable, is_lenient: false, name: ddl.name.clone(), is_of_main: true };
    apply(connection, &create, catalog)?;
    connection.tables.reload(connection.host)?;
    let mut insert = connection.prepare_sqlite(&format!("INSERT INTO main.{name} {query}"))?;
    machine::run(&mut insert)
}
