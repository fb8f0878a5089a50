//! `sql`: runs statements from the command line, from standard input, or at a prompt.
//!
//! * [`shell`]: the prompt. [`script`]: texts are divided into statements and commands, and [`mod@run`] runs them.
//! * [`commands`]: those that begin with a dot. [`dump`], [`load`]: two of them. [`copies`]: files of SQLite.
//! * [`show`]: runs a statement, and writes its rows in a [`mode`] of which some use the words of SQL ([`literal`]).
//! * [`session`]: where statements run, in this process or on a server ([`remote`]). A store is opened by this process.

mod shell;
mod script;
mod run;
mod commands;
mod dump;
mod empty_lines;
mod load;
mod copies;
mod show;
mod mode;
mod literal;
mod session;
mod remote;

use crate::failure::{Failure, Outcome};
use crate::open::CreateArgs;
use crate::output::FormatArgs;
use crate::remote::Remote;
use crate::store;
use clap::Args;
use pando::any::AnyDatabase;
use pando::{Builder, Database, ErrorKind};
use script::failure;
use session::Session;
use show::Show;
use sql::{Sql, SqliteFile};
use std::io::{IsTerminal, Read, stdin};
use std::path::PathBuf;

const HELP: &str = "\
Without STATEMENTS, the command reads them from standard input: at a terminal with a prompt, otherwise until the end of
the input or the first statement that fails. A statement outside of BEGIN and COMMIT is a transaction by itself.
Commands of SQLite's shell, such as `.tables`, `.schema`, `.dump`, `.import` and `.mode`, can stand in the place of a
statement; `.help` lists them. docs/sql.md describes the differences from SQLite.

SQL does not see the tables of keys and values that `pando put` writes: a table of SQL with the same name is another
table. `SELECT name FROM sqlite_schema` lists the tables of SQL.

Examples:
  pando sql shop 'CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT UNIQUE)'
  pando sql shop 'SELECT * FROM fruit LIMIT 10' --json
  pando sql shop < schema.sql
  pando sql shop .schema
  pando sql shop .dump | sqlite3 copy.db
  pando sql shop --from-sqlite old.db";

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct SqlArgs {
    /// The directory of the database, created if it does not exist (not with --read-only), its address on a server
    /// (http://HOST:PORT/DATABASE), or that of a store (postgres://USER@HOST/NAME, in a build with the feature
    /// `postgres`)
    dir: PathBuf,
    /// Statements to run, in order [default: read from standard input]
    statements: Vec<String>,
    #[command(flatten)]
    create: CreateArgs,
    #[command(flatten)]
    format: FormatArgs,
    /// Open the database for reading only; other read-only processes can have it open at the same time
    #[arg(long)]
    read_only: bool,
    /// The schema of the database, if it is in a store [default: pando]
    #[arg(long, value_name = "NAME")]
    schema: Option<String>,
    /// Print on standard error how long each statement took
    #[arg(long)]
    timing: bool,
    /// Before the statements, copy this SQLite file into the database: tables, indexes, views, triggers and virtual
    /// tables; a failure copies nothing
    #[arg(long, value_name = "FILE")]
    from_sqlite: Option<PathBuf>,
    /// After the statements, write all tables, views and triggers to FILE, a new SQLite file
    #[arg(long, value_name = "FILE")]
    to_sqlite: Option<PathBuf>,
}

/// Runs `pando sql`.
pub fn run(args: &SqlArgs) -> Outcome {
    let mut show = Show::new(args.format.format(), args.timing);
    let is_of_store = store::is_of_store(&args.dir);
    if let Some(remote) = if is_of_store { None } else { Remote::find(&args.dir)? } {
        if args.from_sqlite.is_some() || args.to_sqlite.is_some() {
            let message = "--from-sqlite and --to-sqlite work on a directory, not on a server";
            return Err(Failure::Usage(message.to_owned()));
        }
        return statements(&Session::There { remote, read_only: args.read_only }, &mut show, args);
    }
    // It is opened before the database, which is not created for a file that cannot be read.
    let source = args.from_sqlite.as_ref().map(SqliteFile::open).transpose().map_err(refused)?;
    let db = open(args)?;
    let sql = Sql::new(&db);
    let mut connection = sql.connect().map_err(failure)?;
    if db.native().is_none() {
        connection.set_read_only(args.read_only);
    }
    show.watch(&mut connection).map_err(failure)?;
    if let Some(file) = source {
        copies::import_sqlite(&sql, &file)?;
    }
    let is_copy = args.from_sqlite.is_some() || args.to_sqlite.is_some();
    let session = Session::Here(connection);
    if !is_copy || !args.statements.is_empty() {
        statements(&session, &mut show, args)?;
    }
    if let Some(file) = &args.to_sqlite {
        copies::export_sqlite(&sql, file)?;
    }
    drop(session);
    match db {
        AnyDatabase::Native(db) => db.close()?,
        AnyDatabase::Remote(db) => db.close(),
    }
    Ok(())
}

/// Runs the statements of the command line, those of standard input, or those that are typed.
fn statements(session: &Session, show: &mut Show, args: &SqlArgs) -> Outcome {
    if args.statements.is_empty() && stdin().is_terminal() {
        return shell::prompt(session, show);
    }
    if !args.statements.is_empty() {
        for text in &args.statements {
            if !run::script(session, show, text)? {
                break;
            }
        }
        return Ok(());
    }
    let mut text = String::new();
    let refused = |cause| Failure::system("read standard input", cause);
    stdin().lock().read_to_string(&mut text).map_err(refused)?;
    run::script(session, show, &text).map(drop)
}

/// Returns the failure of a file of SQLite that cannot be read. The advice for these kinds of errors is about databases
/// of Pando.
fn refused(error: sql::Error) -> Failure {
    match error.kind() {
        ErrorKind::Corruption | ErrorKind::Foreign => Failure::Damaged(error.to_string()),
        _ => failure(error),
    }
}

fn open(args: &SqlArgs) -> Outcome<AnyDatabase> {
    if let (true, Some(url)) = (store::is_of_store(&args.dir), args.dir.to_str()) {
        let schema = args.schema.as_deref().unwrap_or(store::SCHEMA);
        return Ok(store::open(url, schema, !args.read_only)?.into());
    }
    if args.schema.is_some() {
        return Err(Failure::Usage("--schema works on the address of a store (postgres://...)".to_owned()));
    }
    let builder = args.create.builder();
    let db = match args.read_only {
        true => builder.read_only(true).open(&args.dir)?,
        false => create_or_read(builder, args)?,
    };
    Ok(db.into())
}

/// Opens the database for writing. If another process has it open for writing, or the directory cannot be written,
/// opens it for reading; statements that write then fail with that reason.
fn create_or_read(builder: Builder, args: &SqlArgs) -> Outcome<Database> {
    let error = match builder.clone().create(&args.dir) {
        Ok(db) => return Ok(db),
        Err(error) => error,
    };
    let why = match error.kind() {
        _ if args.from_sqlite.is_some() => return Err(error.into()),
        ErrorKind::Locked => "another process has the database open for writing",
        _ if is_not_writable(&error) => "the directory cannot be written",
        _ => return Err(error.into()),
    };
    let db = builder.read_only(true).open(&args.dir).map_err(|_| error)?;
    eprintln!("note: {why}, so statements can only read");
    Ok(db)
}

/// Returns whether the file system or its permissions do not let this process write.
fn is_not_writable(error: &pando::Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
    cause.is_some_and(|cause| matches!(cause.kind(), PermissionDenied | ReadOnlyFilesystem))
}
