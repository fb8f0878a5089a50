//! An extension for SQLite: `.load` it, and the tables of a Pando database are there as virtual tables.
//!
//! ```text
//! sqlite> .load ./libpando_sqlite
//! sqlite> SELECT pando_open('data');
//! sqlite> SELECT name FROM fruit WHERE id = 2;
//! ```
//! With `PANDO_DATABASE=data` in the environment, `.load` opens it by itself.
//!
//! | function | does |
//! |---|---|
//! | `pando_open(dir)` | opens a database, which must be there, and answers how many tables it has |
//! | `pando_open(dir, 'read')`, `pando_open(dir, 'create')` | the same, to read it alone; makes it if it is not there |
//! | `pando_schema()` | the tables and indexes, as statements |
//! | `pando_sql(statement)` | runs a statement as `pando sql` does, and answers how many rows changed |
//!
//! `pando_sql` is for what SQLite has no answer for where tables are virtual: `CREATE`, `ALTER`, `DROP`, `ON CONFLICT`,
//! defaults of columns left out. The program's own `CREATE TABLE`, `CREATE VIEW` and `CREATE VIRTUAL TABLE`, and a new
//! `user_version` or `application_id`, are refused (`not authorized`) where the program's database is in memory, as
//! they would be gone with it; so are its `INSERT ... RETURNING`, and an `INSERT` that leaves out a column with a
//! default. A connection opens one database, which is closed with it. What is different from SQLite's own tables is in
//! `docs/sql.md`.

use pando::Database;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, Error, Result, ffi};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::offset_of;
use std::sync::{Arc, Mutex, MutexGuard};

/// Where a program's SQLite has its functions.
type Routines = ffi::sqlite3_api_routines;

/// The variable that names the database to open at once.
const VARIABLE: &str = "PANDO_DATABASE";

/// The open database of a connection.
type Slot = Arc<Mutex<Option<sql::Connection>>>;

/// Where SQLite begins.
///
/// # Safety
/// Called by SQLite alone, as it calls the entry points of extensions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    db: *mut ffi::sqlite3,
    message: *mut *mut c_char,
    api: *mut Routines,
) -> c_int {
    // SAFETY: all three are SQLite's, as it hands them to an entry point.
    unsafe {
        let Some((mut whole, version)) = whole(api) else {
            if let Some(print) = (&raw const (*api).mprintf).read() {
                *message = print(c"Pando's extension needs SQLite 3.40 or newer".as_ptr());
            }
            return ffi::SQLITE_ERROR;
        };
        sql::loadable::set_api(&raw const whole, version);
        Connection::extension_init2(db, message, &raw mut whole, start)
    }
}

/// The version of Debian 12, the oldest that loads this.
const OLDEST: c_int = 3_040_000;

/// What the program's SQLite has, as the bindings know it: they are made for a newer one, read all that it has, and
/// refuse to begin with an older one. What that lacks is null here, and none of it is called. And the version that it
/// really has.
///
/// # Safety
/// `api` is what SQLite hands to an entry point.
unsafe fn whole(api: *const Routines) -> Option<(Routines, c_int)> {
    extern "C" fn built_for() -> c_int {
        ffi::SQLITE_VERSION_NUMBER
    }
    // SAFETY: every SQLite has this field. No reference is made: an older one's structure ends before ours.
    let version = unsafe { (&raw const (*api).libversion_number).read()?() };
    let known_bytes = match version {
        3_044_000.. => size_of::<Routines>(),
        3_043_000.. => offset_of!(Routines, get_clientdata),
        3_041_000.. => offset_of!(Routines, stmt_explain),
        OLDEST.. => offset_of!(Routines, is_interrupted),
        _ => return None,
    };
    // SAFETY: a structure of nullable function pointers; those before the first that this version lacks are copied.
    unsafe {
        let mut whole: Routines = std::mem::zeroed();
        std::ptr::copy_nonoverlapping(api.cast::<u8>(), (&raw mut whole).cast::<u8>(), known_bytes);
        whole.libversion_number = Some(built_for);
        Some((whole, version))
    }
}

fn start(connection: Connection) -> Result<bool> {
    let slot = Slot::default();
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DIRECTONLY;
    let own = Arc::clone(&slot);
    connection.create_scalar_function(c"pando_open", -1, flags, move |context| open_called(&own, context))?;
    let own = Arc::clone(&slot);
    connection.create_scalar_function(c"pando_schema", 0, flags, move |_| schema(&own))?;
    let own = Arc::clone(&slot);
    connection.create_scalar_function(c"pando_sql", 1, flags, move |context| {
        let statement: String = context.get(0)?;
        with(&own, |connection| connection.execute(&statement, &[]).map(|changes| changes as i64))
    })?;
    if let Some(dir) = std::env::var_os(VARIABLE) {
        open(&slot, connection, Database::open(&dir))?;
    }
    // It stays loaded: tables of it are there until the connection is closed.
    Ok(true)
}

/// A failure, in SQLite's words.
fn told(message: impl ToString) -> Error {
    Error::UserFunctionError(message.to_string().into())
}

fn open_called(slot: &Slot, context: &Context<'_>) -> Result<i64> {
    let how: String = if context.len() == 2 { context.get(1)? } else { String::new() };
    let open_it: fn(String) -> pando::Result<Database> = match (context.len(), how.as_str()) {
        (1, _) => |dir| Database::open(dir),
        (2, "read") => |dir| Database::open_read_only(dir),
        (2, "create") => |dir| Database::create(dir),
        _ => return Err(told("pando_open takes a directory, and perhaps 'read' or 'create'")),
    };
    // SAFETY: the connection that calls; it is used within its calls alone, and outlives its functions.
    let connection = unsafe {
        let handle = context.get_connection()?.handle();
        Connection::from_handle(handle)?
    };
    open(slot, connection, open_it(context.get(0)?))
}

fn open(slot: &Slot, connection: Connection, db: pando::Result<Database>) -> Result<i64> {
    let mut slot = held(slot)?;
    if slot.is_some() {
        return Err(told("this connection has a Pando database already"));
    }
    let db = db.map_err(told)?;
    refuse_lost_tables(&connection)?;
    let attached = sql::Sql::new(db).attach(connection).map_err(told)?;
    let tables = attached.tables().map_err(told)?.len();
    *slot = Some(attached);
    Ok(tables as i64)
}

/// Where the program's own database is in memory, what it keeps there would be gone with it, and a program that says
/// `CREATE TABLE` means one of Pando's: SQLite refuses it, as not authorized. `CREATE TEMP TABLE` makes one of the
/// program's own.
fn refuse_lost_tables(connection: &Connection) -> Result<()> {
    if connection.path().is_some_and(|path| !path.is_empty()) && !is_named_in_memory(connection) {
        return Ok(());
    }
    // SAFETY: an open connection, and a function that lives as long as the extension, which stays loaded. Not by way of
    // `rusqlite`, whose hooks need a newer SQLite than the oldest that loads this.
    let code =
        unsafe { ffi::sqlite3_set_authorizer(connection.handle(), Some(authorize), std::ptr::null_mut()) };
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(told("the authorizer cannot be set")) }
}

/// Whether the program's database is in memory although it has a name, by SQLite's VFS for that.
fn is_named_in_memory(connection: &Connection) -> bool {
    let mut name: *mut c_char = std::ptr::null_mut();
    // SAFETY: an open connection. SQLite writes a pointer to a text that ends with a NUL, or leaves the null, and the
    // text is freed as SQLite wants it.
    unsafe {
        let out = (&raw mut name).cast::<c_void>();
        ffi::sqlite3_file_control(connection.handle(), c"main".as_ptr(), ffi::SQLITE_FCNTL_VFSNAME, out);
        // The name is followed by figures in brackets, and begins with those of VFSes around it.
        let is_memory = text(name).is_some_and(|name| name.to_string_lossy().contains("memdb("));
        ffi::sqlite3_free(name.cast());
        is_memory
    }
}

/// No table and no view is made in `main`, and no number is kept there.
///
/// # Safety
/// Called by SQLite, with the names of what a statement is about, each null or ended by a NUL.
unsafe extern "C" fn authorize(
    _data: *mut c_void,
    action: c_int,
    first: *const c_char,
    second: *const c_char,
    database: *const c_char,
    _inside: *const c_char,
) -> c_int {
    // SAFETY: as the caller promises.
    let [first, second, database] = unsafe { [text(first), text(second), text(database)] };
    let is_lost = match action {
        ffi::SQLITE_CREATE_TABLE | ffi::SQLITE_CREATE_VIEW | ffi::SQLITE_CREATE_VTABLE => {
            database == Some(c"main")
        }
        // Without a database it is that of `main`. Without a value it is a question.
        ffi::SQLITE_PRAGMA => {
            let keeps = |name: &CStr| {
                ["user_version", "application_id"]
                    .iter()
                    .any(|kept| name.to_bytes().eq_ignore_ascii_case(kept.as_bytes()))
            };
            second.is_some() && first.is_some_and(keeps) && database.is_none_or(|name| name == c"main")
        }
        _ => false,
    };
    if is_lost { ffi::SQLITE_DENY } else { ffi::SQLITE_OK }
}

/// # Safety
/// It is null, or ended by a NUL and there for `'a`.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: as the caller promises.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

fn schema(slot: &Slot) -> Result<String> {
    with(slot, |connection| {
        let tables = connection.tables()?;
        let statements = tables.iter().flat_map(|table| [&table.create].into_iter().chain(&table.indexes));
        Ok(statements.map(|statement| format!("{statement};\n")).collect())
    })
}

/// The open database. A statement that `pando_sql` runs cannot call these functions in its turn.
fn held(slot: &Slot) -> Result<MutexGuard<'_, Option<sql::Connection>>> {
    slot.try_lock().map_err(|_| told("the functions of Pando cannot be called within pando_sql"))
}

/// Runs `work` on the open database.
fn with<T>(slot: &Slot, work: impl FnOnce(&sql::Connection) -> sql::Result<T>) -> Result<T> {
    let slot = held(slot)?;
    let none = || told(format!("no Pando database is open: SELECT pando_open('DIR'), or set {VARIABLE}"));
    work(slot.as_ref().ok_or_else(none)?).map_err(told)
}
