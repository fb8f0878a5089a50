//! Connections for untrusted statements, such as those that a server runs.
//!
//! 1. Statements can use only the database: no `ATTACH` (on which `VACUUM INTO` is based), no extensions, no `CREATE
//!    VIRTUAL TABLE`, and only those pragmas that describe tables, concern foreign keys, or keep a program's number in
//!    the database. SQLite calls [`may`] for everything that a statement names when it is prepared; nothing has
//!    happened then.
//! 2. Their memory is bounded: texts, nesting and single values by `machine`; SQLite's memory for all connections of
//!    the process by [`limit_memory`], including what it would otherwise put into temporary files; and rows that are
//!    held for `RETURNING` and `ON CONFLICT` by [`Confines::held_bytes`]. Functions of SQLite's shell for files
//!    ([`OF_FILES`]) are refused in the same way, although they do not exist here.
//! 3. They end: a callback decides every [`STEPS`] steps whether to stop, and also between the parts of what SQLite
//!    runs as more than one statement (`stop.rs`).
//!
//! The database that parses definitions ([`alone`]) is bounded in the same way: a statement that is hidden in a
//! definition finds nothing there.

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::machine::{self, Named};
use rusqlite::limits::Limit;

/// Limits on the statements of a confined connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confines {
    /// The longest text or blob in bytes, including intermediate results.
    pub value_bytes: u32,
    /// The largest size in bytes of the rows that one statement may keep for `RETURNING` and `ON CONFLICT`.
    pub held_bytes: usize,
}

impl Default for Confines {
    fn default() -> Self {
        Confines { value_bytes: 16 << 20, held_bytes: 16 << 20 }
    }
}

/// The steps of a statement between two calls of the callback: tens of microseconds, or as many rows as are read from
/// the disk in some milliseconds.
const STEPS: i32 = 1000;

/// The pragmas that describe tables and the names that statements can use, those that say how a connection treats
/// foreign keys, and the numbers that a program keeps in the database. FTS5 asks for `data_version`.
const PRAGMAS: [&str; 17] = [
    "application_id",
    "collation_list",
    "compile_options",
    "data_version",
    "database_list",
    "defer_foreign_keys",
    "foreign_key_check",
    "foreign_key_list",
    "foreign_keys",
    "function_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "table_info",
    "table_list",
    "table_xinfo",
    "user_version",
];

/// The functions that access the process.
const FUNCTIONS: [&str; 2] = ["load_extension", "fts3_tokenizer"];

/// The functions and table-valued functions of SQLite's own shell that access files and processes.
const OF_FILES: [&str; 8] =
    ["edit", "fsdir", "load_extension", "readfile", "sqlar_compress", "writefile", "zipfile", "lsmode"];

impl Connection {
    /// Confines statements that are prepared from now on. Use it for clients that may use only the database: their
    /// statements cannot reach files or settings of the process, and their memory is limited. A statement that names
    /// something forbidden fails before it begins ([`crate::Error::is_refused`]).
    ///
    /// `stop` is called about every thousand steps of a statement. After it returns `true`, the statement stops
    /// ([`crate::Error::is_interrupted`]). A commit always runs to its end, whatever `stop` returns.
    ///
    /// ```
    /// # fn main() -> Result<(), pando_sql::Error> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// let mut connection = pando_sql::Sql::new(db).connect()?;
    /// connection.confine(pando_sql::Confines::default(), || false)?;
    /// let error = connection.execute("ATTACH DATABASE '/etc/passwd' AS p", &[]).unwrap_err();
    /// assert!(error.is_refused());
    /// # Ok(())
    /// # }
    /// ```
    pub fn confine(&mut self, confines: Confines, stop: impl FnMut() -> bool + Send + 'static) -> Result<()> {
        // It is set before it is forbidden: sorts and temporary tables stay in memory, which is bounded.
        machine::run_only(&self.sqlite, "PRAGMA temp_store = MEMORY")?;
        machine::limit(&self.sqlite, confines.value_bytes)?;
        self.ask(STEPS, Some(Box::new(stop)))?;
        self.host.protect()?;
        self.is_confined = true;
        machine::authorize(&mut self.sqlite, may)?;
        self.session().watch(|watch| watch.most_held_bytes = Some(confines.held_bytes));
        Ok(())
    }
}

/// Returns whether a statement may do or name this.
fn may(named: Named<'_>) -> bool {
    let is_one_of = |names: &[&str], name: &str| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    match named {
        Named::Outside => false,
        Named::Pragma(name) => is_one_of(&PRAGMAS, name),
        Named::Function(name) => !is_one_of(&FUNCTIONS, name),
        Named::Other => true,
    }
}

/// Converts an error of a confined connection. If the statement names something forbidden, the error says so
/// ([`Error::is_refused`]). SQLite has its own code for that, but does not use it for functions.
#[cold]
pub(crate) fn name_what_is_refused(error: Error) -> Error {
    let message = error.message();
    if ["not authorized", "unsafe use of "].iter().any(|words| message.starts_with(words)) {
        return Error::refused(message);
    }
    let name = ["no such function: ", "no such table: "].iter().find_map(|what| message.strip_prefix(what));
    match name {
        Some(name) if OF_FILES.iter().any(|known| known.eq_ignore_ascii_case(name)) => {
            Error::refused(format!("not authorized: {name} accesses files"))
        }
        _ => error,
    }
}

/// Opens an empty database in memory, for parsing definitions.
pub(crate) fn alone() -> rusqlite::Result<rusqlite::Connection> {
    let sqlite = rusqlite::Connection::open_in_memory()?;
    sqlite.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    Ok(sqlite)
}

/// Limits the memory that SQLite uses for all connections of this process, including sorts and temporary tables, to
/// `bytes`. A statement that needs more fails with `SQLITE_NOMEM` and is rolled back. A later call can lower the limit,
/// but not raise it.
///
/// The limit does not include the memory of Pando itself, which the database's own budget limits.
pub fn limit_memory(bytes: u64) -> Result<()> {
    // Definitions are parsed by another SQLite than the one that runs statements.
    #[cfg(not(feature = "loadable"))]
    let bytes = {
        let of_definitions = definitions_bytes(bytes);
        pando_sqlite::limit_memory(bytes - of_definitions)?;
        of_definitions
    };
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    let sqlite = rusqlite::Connection::open_in_memory()?;
    Ok(sqlite.pragma(None, "hard_heap_limit", bytes, |_| Ok(()))?)
}

/// Returns the part of SQLite's memory for parsing definitions. Each connection that does so needs about 100 KiB. Of
/// 16 MiB, little is taken: a single value can need nearly all of it.
#[cfg(not(feature = "loadable"))]
fn definitions_bytes(bytes: u64) -> u64 {
    ((1 << 20) + bytes.saturating_sub(16 << 20) / 8).min(bytes / 4)
}
