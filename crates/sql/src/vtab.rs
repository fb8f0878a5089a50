//! SQLite's interface for virtual tables, made safe: the one file of this crate that holds `unsafe`.
//!
//! [`register`] gives a connection a module; what the module does is a [`Table`] and its [`Cursor`], both safe.
//! rusqlite has traits for the same, but none of the hooks for savepoints, without which a statement that fails
//! half-way could not be undone (`iVersion` 2 of the interface).
//!
//! What makes the blocks below sound:
//! 1. SQLite calls back on the thread that called it, one call at a time on a connection; a call may nest in another.
//!    Tables are therefore only ever lent as `&T`. A cursor is lent as `&mut C`: SQLite never calls a cursor from
//!    within a call of the same cursor, and what a cursor calls (nested statements) cannot name it.
//! 2. A [`VTab`] and a [`VCursor`] begin with SQLite's own structure (`repr(C)`), so that a pointer to one is a pointer
//!    to the other. Each is made by `Box` in one callback and taken back by `Box` in the one that ends it.
//! 3. A [`Module`] lives in its box until SQLite calls `destroy`, which is after every table of it was disconnected.
//! 4. A panic in a callback ends the process: it says that an invariant is broken, and it cannot unwind through C.

use crate::failure::{Failure, Outcome};
use rows::Collation;
use rusqlite::ffi;
use rusqlite::types::ValueRef;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::{ptr, slice};

/// What to do with a row that breaks a constraint: `INSERT OR ...`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnConflict {
    Rollback,
    Ignore,
    Fail,
    Abort,
    Replace,
}

/// A table's side of a connection.
pub(crate) trait Table: Sized + 'static {
    type Cursor: Cursor;

    /// `CREATE TABLE x(...)`: the names, types and collations that SQLite is to know.
    fn declaration(&self) -> String;
    /// The cheapest way to answer a query.
    fn best_index(&self, query: &Query<'_>) -> Outcome<Choice>;
    /// A new cursor, which stands nowhere.
    fn open(&self) -> Self::Cursor;
    /// Carries out a change of one row. An insert answers the new row's id.
    fn update(&self, change: Change<'_>) -> Outcome<Option<i64>>;
    /// A statement is going to write, or a transaction to read.
    fn begin(&self) -> Outcome;
    /// The transaction is to be committed: the last moment to refuse.
    fn sync(&self) -> Outcome;
    /// The transaction is committed.
    fn commit(&self);
    /// The transaction is given up.
    fn rollback(&self);
    /// Savepoint `number` begins; a number that is taken already stands for several tables.
    fn savepoint(&self, number: i32) -> Outcome;
    /// Savepoint `number`, and all above, end; what was written stays.
    fn release(&self, number: i32) -> Outcome;
    /// What was written since savepoint `number` is undone; the savepoint stays.
    fn rollback_to(&self, number: i32) -> Outcome;
}

/// A scan of a table.
pub(crate) trait Cursor: 'static {
    /// Begins the scan that [`Table::best_index`] chose, at its first row.
    fn filter(&mut self, plan: i32, arguments: &Arguments<'_>) -> Outcome;
    /// Goes to the next row.
    fn next(&mut self) -> Outcome;
    /// Whether the scan is behind its last row.
    fn is_done(&self) -> bool;
    /// The current row's value in a column.
    fn column(&mut self, column: usize) -> Outcome<ValueRef<'_>>;
    /// The current row's id.
    fn row_id(&mut self) -> Outcome<i64>;
}

/// What makes tables: one a name.
pub(crate) trait Connect<T: Table>: 'static {
    /// The table, as of now.
    fn connect(&self, host: Host) -> Outcome<T>;
}

/// The connection that calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host(*mut ffi::sqlite3);

// SAFETY: a connection may be called from any thread, by one at a time; a `Host` is used within a call of its own
// connection only, and so by whoever has that connection.
unsafe impl Send for Host {}

// SAFETY: as above: shared or not, it is used by the thread alone that is in a call of its connection.
unsafe impl Sync for Host {}

impl Host {
    /// The connection itself, for as long as it lives.
    pub fn of(connection: &rusqlite::Connection) -> Self {
        // SAFETY: the handle is kept within tables of the connection, and used while that is open.
        Host(unsafe { connection.handle() })
    }

    /// Whether no explicit transaction is open.
    pub fn is_autocommit(self) -> bool {
        // SAFETY: a host is handed out in callbacks, and kept by tables, which end before their connection.
        unsafe { ffi::sqlite3_get_autocommit(self.0) != 0 }
    }

    /// Runs statements on the connection, from within a call.
    pub fn execute(self, sql: &CStr) -> Outcome {
        // SAFETY: as above; `sql` ends with a NUL; no callback, and no message is asked for.
        let code = unsafe { ffi::sqlite3_exec(self.0, sql.as_ptr(), None, ptr::null_mut(), ptr::null_mut()) };
        if code == ffi::SQLITE_OK {
            return Ok(());
        }
        // SAFETY: as above; SQLite answers a string that is good until the next call, and it is copied.
        let message = unsafe { CStr::from_ptr(ffi::sqlite3_errmsg(self.0)) };
        Err(Failure::new(code, message.to_string_lossy()))
    }

    fn last_insert_row_id(self) -> i64 {
        // SAFETY: as above.
        unsafe { ffi::sqlite3_last_insert_rowid(self.0) }
    }

    fn on_conflict(self) -> OnConflict {
        // SAFETY: called within `xUpdate`, as the interface asks.
        match unsafe { ffi::sqlite3_vtab_on_conflict(self.0) } {
            ffi::SQLITE_ROLLBACK => OnConflict::Rollback,
            ffi::SQLITE_IGNORE => OnConflict::Ignore,
            ffi::SQLITE_FAIL => OnConflict::Fail,
            ffi::SQLITE_REPLACE => OnConflict::Replace,
            _ => OnConflict::Abort,
        }
    }
}

/// Values that SQLite hands in.
pub(crate) struct Arguments<'a> {
    values: &'a [*mut ffi::sqlite3_value],
}

impl<'a> Arguments<'a> {
    /// # Safety
    /// `values` points to `count` values that SQLite lends for `'a`.
    unsafe fn new(count: c_int, values: *mut *mut ffi::sqlite3_value) -> Self {
        let count = usize::try_from(count).unwrap_or(0);
        if count == 0 {
            return Arguments { values: &[] };
        }
        // SAFETY: as the caller promises; not null, since there is one.
        Arguments { values: unsafe { slice::from_raw_parts(values, count) } }
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// The value at `index`.
    pub fn get(&self, index: usize) -> ValueRef<'a> {
        let value = self.values[index];
        // SAFETY: a value that SQLite lends for `'a`. Text and blobs are asked for as what they are, so that nothing
        // is converted and the pointer stays good, and their length after their pointer, as the interface asks.
        unsafe {
            match ffi::sqlite3_value_type(value) {
                ffi::SQLITE_INTEGER => ValueRef::Integer(ffi::sqlite3_value_int64(value)),
                ffi::SQLITE_FLOAT => ValueRef::Real(ffi::sqlite3_value_double(value)),
                ffi::SQLITE_TEXT => {
                    let start = ffi::sqlite3_value_text(value);
                    ValueRef::Text(lent(start, ffi::sqlite3_value_bytes(value)))
                }
                ffi::SQLITE_BLOB => {
                    let start = ffi::sqlite3_value_blob(value).cast();
                    ValueRef::Blob(lent(start, ffi::sqlite3_value_bytes(value)))
                }
                _ => ValueRef::Null,
            }
        }
    }
}

/// # Safety
/// `start` is null, or `count` bytes that live for `'a`.
unsafe fn lent<'a>(start: *const u8, count: c_int) -> &'a [u8] {
    match usize::try_from(count) {
        // SAFETY: as the caller promises.
        Ok(count) if !start.is_null() => unsafe { slice::from_raw_parts(start, count) },
        _ => &[],
    }
}

/// A change of one row. `row` has a value for each column. Rows are named as the cursor names them: by their id, or,
/// of a table that is declared `WITHOUT ROWID`, by their key.
pub(crate) enum Change<'a> {
    /// `id` is null if SQLite was told none.
    Insert {
        id: ValueRef<'a>,
        row: Row<'a>,
        on_conflict: OnConflict,
    },
    Update {
        old: ValueRef<'a>,
        new: ValueRef<'a>,
        row: Row<'a>,
        on_conflict: OnConflict,
    },
    Delete {
        id: ValueRef<'a>,
    },
}

/// The values of a row to be written.
pub(crate) struct Row<'a>(Arguments<'a>);

impl<'a> Row<'a> {
    /// The value of a column.
    pub fn get(&self, column: usize) -> ValueRef<'a> {
        self.0.get(column + 2)
    }
}

/// What a query asks of a table.
pub(crate) struct Query<'a> {
    info: *mut ffi::sqlite3_index_info,
    lent: PhantomData<&'a ()>,
}

/// `column op value`, the value not known yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Constraint {
    /// The column, `None` for the row's id.
    pub column: Option<usize>,
    pub op: Operator,
    /// How texts are compared; `None` if in a way that tables do not know.
    pub collation: Option<Collation>,
}

/// How a constraint compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    /// `IS`, `IS NULL`: as equal, and null is equal to null.
    Is,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Limit,
    Offset,
}

/// What [`Table::best_index`] chose.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    /// Handed to [`Cursor::filter`].
    pub plan: i32,
    /// Shown by `EXPLAIN QUERY PLAN`.
    pub label: String,
    /// The constraints, by their index, whose values `filter` gets, in this order.
    pub arguments: Vec<usize>,
    /// Those of them that every row shown is certain to meet: SQLite need not check.
    pub decided: Vec<usize>,
    /// Whether rows come in the order asked for.
    pub is_ordered: bool,
    /// Whether there is one row at most.
    pub is_unique: bool,
    /// In row look-ups, roughly.
    pub cost: f64,
    /// The rows expected.
    pub rows: f64,
}

impl Query<'_> {
    fn info(&self) -> &ffi::sqlite3_index_info {
        // SAFETY: SQLite lends it for the length of `xBestIndex`, during which this lives.
        unsafe { &*self.info }
    }

    /// The constraints that can be used, each with its index.
    pub fn constraints(&self) -> Vec<(usize, Constraint)> {
        let info = self.info();
        let count = usize::try_from(info.nConstraint).unwrap_or(0);
        (0..count).filter_map(|index| Some((index, self.constraint(index)?))).collect()
    }

    fn constraint(&self, index: usize) -> Option<Constraint> {
        // SAFETY: `index` is below `nConstraint`, the length of the array.
        let raw = unsafe { &*self.info().aConstraint.add(index) };
        let op = match c_int::from(raw.op) {
            ffi::SQLITE_INDEX_CONSTRAINT_EQ => Operator::Equal,
            ffi::SQLITE_INDEX_CONSTRAINT_IS | ffi::SQLITE_INDEX_CONSTRAINT_ISNULL => Operator::Is,
            ffi::SQLITE_INDEX_CONSTRAINT_GT => Operator::Greater,
            ffi::SQLITE_INDEX_CONSTRAINT_GE => Operator::GreaterOrEqual,
            ffi::SQLITE_INDEX_CONSTRAINT_LT => Operator::Less,
            ffi::SQLITE_INDEX_CONSTRAINT_LE => Operator::LessOrEqual,
            ffi::SQLITE_INDEX_CONSTRAINT_LIMIT => Operator::Limit,
            ffi::SQLITE_INDEX_CONSTRAINT_OFFSET => Operator::Offset,
            _ => return None,
        };
        let collation = match op {
            Operator::Limit | Operator::Offset => None,
            // SAFETY: within `xBestIndex`, with an index below `nConstraint`; SQLite answers a static string or null.
            _ => unsafe {
                let name = ffi::sqlite3_vtab_collation(self.info, index as c_int);
                if name.is_null() { None } else { collation_of(&CStr::from_ptr(name).to_string_lossy()) }
            },
        };
        let column = usize::try_from(raw.iColumn).ok();
        (raw.usable != 0).then_some(Constraint { column, op, collation })
    }

    /// The order asked for: columns, `None` for the row's id, and whether each descends.
    pub fn order(&self) -> Vec<(Option<usize>, bool)> {
        let info = self.info();
        let count = usize::try_from(info.nOrderBy).unwrap_or(0);
        // SAFETY: `index` is below `nOrderBy`, the length of the array.
        let terms = (0..count).map(|index| unsafe { &*info.aOrderBy.add(index) });
        terms.map(|term| (usize::try_from(term.iColumn).ok(), term.desc != 0)).collect()
    }

    /// Whether the query looks at a column. Those from the 64th on count as one.
    pub fn uses(&self, column: usize) -> bool {
        self.info().colUsed >> column.min(63) & 1 == 1
    }

    fn choose(self, choice: &Choice) {
        // SAFETY: SQLite lends it for the length of `xBestIndex`, and no other reference to it lives: `self` is gone.
        let info = unsafe { &mut *self.info };
        for (position, &index) in choice.arguments.iter().enumerate() {
            // SAFETY: indices come from `constraints`, so below `nConstraint`, the length of this array too.
            let usage = unsafe { &mut *info.aConstraintUsage.add(index) };
            usage.argvIndex = position as c_int + 1;
            usage.omit = u8::from(choice.decided.contains(&index));
        }
        info.idxNum = choice.plan;
        info.idxStr = owned_string(&choice.label);
        info.needToFreeIdxStr = c_int::from(!info.idxStr.is_null());
        info.orderByConsumed = c_int::from(choice.is_ordered);
        info.estimatedCost = choice.cost;
        info.estimatedRows = choice.rows.max(1.0) as i64;
        if choice.is_unique {
            info.idxFlags |= ffi::SQLITE_INDEX_SCAN_UNIQUE;
        }
    }
}

/// The collation of that name.
pub(crate) fn collation_of(name: &str) -> Option<Collation> {
    match name.to_ascii_uppercase().as_str() {
        "BINARY" => Some(Collation::Binary),
        "NOCASE" => Some(Collation::NoCase),
        "RTRIM" => Some(Collation::RTrim),
        _ => None,
    }
}

/// A copy of `text` that SQLite frees; null if there is no memory.
fn owned_string(text: &str) -> *mut c_char {
    let text = text.split('\0').next().unwrap_or_default();
    let Ok(count) = u64::try_from(text.len() + 1) else { return ptr::null_mut() };
    // SAFETY: the copy is as long as what was allocated, and ends with a NUL.
    unsafe {
        let copy: *mut u8 = ffi::sqlite3_malloc64(count).cast();
        if !copy.is_null() {
            ptr::copy_nonoverlapping(text.as_ptr(), copy, text.len());
            *copy.add(text.len()) = 0;
        }
        copy.cast()
    }
}

/// What a connection knows a module by.
struct Module<T: Table> {
    /// First, so that SQLite's pointer to its functions is one to this.
    functions: ffi::sqlite3_module,
    connect: Box<dyn Connect<T>>,
}

#[repr(C)]
struct VTab<T> {
    base: ffi::sqlite3_vtab,
    host: Host,
    table: T,
}

#[repr(C)]
struct VCursor<T: Table> {
    base: ffi::sqlite3_vtab_cursor,
    cursor: T::Cursor,
    lent: PhantomData<T>,
}

/// Makes `name` a table of the connection, without an entry in its schema, in place of one of that name.
pub(crate) fn register<T: Table>(host: Host, name: &str, connect: Box<dyn Connect<T>>) -> Outcome {
    let name = CString::new(name).map_err(|_| Failure::new(ffi::SQLITE_ERROR, "a NUL in a table's name"))?;
    let module = Box::into_raw(Box::new(Module::<T> { functions: functions::<T>(), connect }));
    // SAFETY: the connection is open, see `Host`. The functions lie in the module, which lives until SQLite calls
    // `destroy`, also if this call fails.
    let code = unsafe {
        let functions = &raw const (*module).functions;
        ffi::sqlite3_create_module_v2(host.0, name.as_ptr(), functions, module.cast(), Some(destroy::<T>))
    };
    Failure::check(code, "registering a table")
}

/// Makes `name` no table any more.
pub(crate) fn unregister(host: Host, name: &str) -> Outcome {
    let name = CString::new(name).map_err(|_| Failure::new(ffi::SQLITE_ERROR, "a NUL in a table's name"))?;
    // SAFETY: the connection is open, see `Host`; a null module takes the one of that name away.
    let code =
        unsafe { ffi::sqlite3_create_module_v2(host.0, name.as_ptr(), ptr::null(), ptr::null_mut(), None) };
    Failure::check(code, "taking a table away")
}

fn functions<T: Table>() -> ffi::sqlite3_module {
    ffi::sqlite3_module {
        // Savepoints came with 2; 3 and 4 add what is left out here.
        iVersion: 2,
        // The same as `xConnect`: the table is there without `CREATE VIRTUAL TABLE`.
        xCreate: None,
        xConnect: Some(connect::<T>),
        xBestIndex: Some(best_index::<T>),
        xDisconnect: Some(disconnect::<T>),
        xDestroy: Some(disconnect::<T>),
        xOpen: Some(open::<T>),
        xClose: Some(close::<T>),
        xFilter: Some(filter::<T>),
        xNext: Some(next::<T>),
        xEof: Some(eof::<T>),
        xColumn: Some(column::<T>),
        xRowid: Some(row_id::<T>),
        xUpdate: Some(update::<T>),
        xBegin: Some(begin::<T>),
        xSync: Some(sync::<T>),
        xCommit: Some(commit::<T>),
        xRollback: Some(rollback::<T>),
        xFindFunction: None,
        xRename: None,
        xSavepoint: Some(savepoint::<T>),
        xRelease: Some(release::<T>),
        xRollbackTo: Some(rollback_to::<T>),
        xShadowName: None,
        xIntegrity: None,
    }
}

/// Says that the table being connected answers for constraints.
///
/// # Safety
/// Called within `xConnect` of this connection.
unsafe fn has_constraints(db: *mut ffi::sqlite3) -> c_int {
    #[cfg(not(feature = "loadable"))]
    let config = ffi::sqlite3_vtab_config;
    // The one that the bindings have for extensions cannot hand on the third argument.
    #[cfg(feature = "loadable")]
    let Some(config) = loadable::VTAB_CONFIG.get().copied() else { return ffi::SQLITE_MISUSE };
    // SAFETY: as the caller promises; this operation takes an `int`.
    unsafe { config(db, ffi::SQLITE_VTAB_CONSTRAINT_SUPPORT, 1 as c_int) }
}

/// The version of the SQLite that runs this: what it can and cannot do.
pub(crate) fn version_number() -> c_int {
    #[cfg(feature = "loadable")]
    if let Some(version) = loadable::VERSION.get() {
        return *version;
    }
    rusqlite::version_number()
}

/// What an extension is told by the process that loads it.
#[cfg(feature = "loadable")]
pub mod loadable {
    use super::{c_int, ffi};
    use std::sync::OnceLock;

    /// `sqlite3_vtab_config`.
    ///
    /// # Safety
    /// Called within `xConnect`, with what its operation asks for.
    type VtabConfig = unsafe extern "C" fn(*mut ffi::sqlite3, c_int, ...) -> c_int;

    pub(super) static VTAB_CONFIG: OnceLock<VtabConfig> = OnceLock::new();
    pub(super) static VERSION: OnceLock<c_int> = OnceLock::new();

    /// Takes over what [`crate::Sql::attach`] needs beyond what `rusqlite` takes over; and the version of the SQLite
    /// that loads the extension, which `api` may say to be newer than it is.
    ///
    /// # Safety
    /// `api` is what SQLite hands to an extension's entry point.
    pub unsafe fn set_api(api: *const ffi::sqlite3_api_routines, version: c_int) {
        VERSION.get_or_init(|| version);
        // SAFETY: as the caller promises.
        if let Some(config) = unsafe { api.as_ref() }.and_then(|api| api.vtab_config) {
            VTAB_CONFIG.get_or_init(|| config);
        }
    }
}

/// Turns a failure into SQLite's: a code, and a message where SQLite looks for it.
///
/// # Safety
/// `vtab` is a table of ours.
#[inline]
unsafe fn answer(vtab: *mut ffi::sqlite3_vtab, outcome: Outcome) -> c_int {
    match outcome {
        Ok(()) => ffi::SQLITE_OK,
        // SAFETY: as the caller promises.
        Err(failure) => unsafe { refuse(vtab, failure) },
    }
}

/// # Safety
/// `vtab` is a table of ours.
#[cold]
unsafe fn refuse(vtab: *mut ffi::sqlite3_vtab, failure: Failure) -> c_int {
    // SAFETY: a live table; the message is null or was allocated by SQLite, which takes over the new one.
    unsafe {
        ffi::sqlite3_free((*vtab).zErrMsg.cast());
        (*vtab).zErrMsg = owned_string(&failure.message);
    }
    failure.code
}

/// # Safety
/// `vtab` is a `VTab<T>`, alive for `'a`.
unsafe fn table<'a, T: Table>(vtab: *mut ffi::sqlite3_vtab) -> &'a T {
    // SAFETY: as the caller promises. No reference to the base is made: SQLite writes to that in nested calls too.
    unsafe { &(*vtab.cast::<VTab<T>>()).table }
}

/// # Safety
/// `cursor` is a `VCursor<T>`, alive for `'a`, and lent to nobody else.
unsafe fn cursor<'a, T: Table>(cursor: *mut ffi::sqlite3_vtab_cursor) -> &'a mut T::Cursor {
    // SAFETY: as the caller promises; see 1 at the top of the file.
    unsafe { &mut (*cursor.cast::<VCursor<T>>()).cursor }
}

/// # Safety
/// `cursor` is a live cursor of ours.
unsafe fn answer_of_cursor(cursor: *mut ffi::sqlite3_vtab_cursor, outcome: Outcome) -> c_int {
    // SAFETY: SQLite has set the table of an open cursor, and keeps that longer.
    unsafe { answer((*cursor).pVtab, outcome) }
}

/// # Safety
/// Called by SQLite, once, with the pointer that `register` gave it.
unsafe extern "C" fn destroy<T: Table>(module: *mut c_void) {
    // SAFETY: made by `Box` in `register`; SQLite calls this once, after the last table of it is gone.
    drop(unsafe { Box::from_raw(module.cast::<Module<T>>()) });
}

/// # Safety
/// Called by SQLite as `xConnect`.
unsafe extern "C" fn connect<T: Table>(
    db: *mut ffi::sqlite3,
    aux: *mut c_void,
    _count: c_int,
    _arguments: *const *const c_char,
    out: *mut *mut ffi::sqlite3_vtab,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: what `register` gave SQLite, and lives until `destroy`.
    let module = unsafe { &*aux.cast::<Module<T>>() };
    let host = Host(db);
    let made = module.connect.connect(host).and_then(|table| {
        let declaration = CString::new(table.declaration())
            .map_err(|_| Failure::new(ffi::SQLITE_ERROR, "a NUL in a table's definition"))?;
        // SAFETY: within `xConnect`, as both calls ask; the declaration ends with a NUL.
        unsafe {
            Failure::check(ffi::sqlite3_declare_vtab(db, declaration.as_ptr()), "declaring a table")?;
            Failure::check(has_constraints(db), "configuring a table")?;
        }
        Ok(table)
    });
    match made {
        Ok(table) => {
            let base = ffi::sqlite3_vtab { pModule: ptr::null(), nRef: 0, zErrMsg: ptr::null_mut() };
            let vtab = Box::into_raw(Box::new(VTab { base, host, table }));
            // SAFETY: SQLite's place for the result.
            unsafe { *out = vtab.cast() };
            ffi::SQLITE_OK
        }
        Err(failure) => {
            // SAFETY: SQLite's place for the message, which it frees.
            unsafe { *message = owned_string(&failure.message) };
            failure.code
        }
    }
}

/// # Safety
/// Called by SQLite as `xDisconnect`: the last call with this table.
unsafe extern "C" fn disconnect<T: Table>(vtab: *mut ffi::sqlite3_vtab) -> c_int {
    // SAFETY: made by `Box` in `connect`, and given back once.
    let vtab = unsafe { Box::from_raw(vtab.cast::<VTab<T>>()) };
    // SAFETY: null, or allocated by SQLite.
    unsafe { ffi::sqlite3_free(vtab.base.zErrMsg.cast()) };
    ffi::SQLITE_OK
}

/// # Safety
/// Called by SQLite as `xBestIndex`.
unsafe extern "C" fn best_index<T: Table>(
    vtab: *mut ffi::sqlite3_vtab,
    info: *mut ffi::sqlite3_index_info,
) -> c_int {
    let query = Query { info, lent: PhantomData };
    // SAFETY: a live table of this type.
    unsafe {
        let chosen = table::<T>(vtab).best_index(&query).map(|choice| query.choose(&choice));
        answer(vtab, chosen)
    }
}

/// # Safety
/// Called by SQLite as `xOpen`.
unsafe extern "C" fn open<T: Table>(
    vtab: *mut ffi::sqlite3_vtab,
    out: *mut *mut ffi::sqlite3_vtab_cursor,
) -> c_int {
    // SAFETY: a live table of this type.
    let cursor = unsafe { table::<T>(vtab) }.open();
    let base = ffi::sqlite3_vtab_cursor { pVtab: ptr::null_mut() };
    let opened = Box::into_raw(Box::new(VCursor::<T> { base, cursor, lent: PhantomData }));
    // SAFETY: SQLite's place for the result.
    unsafe { *out = opened.cast() };
    ffi::SQLITE_OK
}

/// # Safety
/// Called by SQLite as `xClose`: the last call with this cursor.
unsafe extern "C" fn close<T: Table>(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: made by `Box` in `open`, and given back once.
    drop(unsafe { Box::from_raw(cursor.cast::<VCursor<T>>()) });
    ffi::SQLITE_OK
}

/// # Safety
/// Called by SQLite as `xFilter`.
unsafe extern "C" fn filter<T: Table>(
    at: *mut ffi::sqlite3_vtab_cursor,
    plan: c_int,
    _label: *const c_char,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
) -> c_int {
    // SAFETY: a live cursor of this type, and values lent for this call.
    unsafe { answer_of_cursor(at, cursor::<T>(at).filter(plan, &Arguments::new(count, values))) }
}

/// # Safety
/// Called by SQLite as `xNext`.
unsafe extern "C" fn next<T: Table>(at: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: a live cursor of this type.
    unsafe { answer_of_cursor(at, cursor::<T>(at).next()) }
}

/// # Safety
/// Called by SQLite as `xEof`.
unsafe extern "C" fn eof<T: Table>(at: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: a live cursor of this type.
    c_int::from(unsafe { cursor::<T>(at) }.is_done())
}

/// # Safety
/// Called by SQLite as `xColumn`.
unsafe extern "C" fn column<T: Table>(
    at: *mut ffi::sqlite3_vtab_cursor,
    context: *mut ffi::sqlite3_context,
    index: c_int,
) -> c_int {
    // SAFETY: a live cursor of this type; SQLite asks for columns that were declared.
    let value = unsafe { cursor::<T>(at) }.column(index as usize);
    // SAFETY: the context of this call. SQLite copies text and blobs at once (SQLITE_TRANSIENT).
    unsafe {
        match value {
            Ok(ValueRef::Null) => ffi::sqlite3_result_null(context),
            Ok(ValueRef::Integer(number)) => ffi::sqlite3_result_int64(context, number),
            Ok(ValueRef::Real(number)) => ffi::sqlite3_result_double(context, number),
            Ok(ValueRef::Text(text)) => {
                let (start, count) = (text.as_ptr().cast(), text.len() as u64);
                let encoding = ffi::SQLITE_UTF8 as u8;
                ffi::sqlite3_result_text64(context, start, count, ffi::SQLITE_TRANSIENT(), encoding);
            }
            Ok(ValueRef::Blob(blob)) => {
                // A null pointer would be a null; an empty slice's is not.
                let (start, count) = (blob.as_ptr().cast(), blob.len() as u64);
                ffi::sqlite3_result_blob64(context, start, count, ffi::SQLITE_TRANSIENT());
            }
            Err(failure) => return answer_of_cursor(at, Err(failure)),
        }
    }
    ffi::SQLITE_OK
}

/// # Safety
/// Called by SQLite as `xRowid`.
unsafe extern "C" fn row_id<T: Table>(
    at: *mut ffi::sqlite3_vtab_cursor,
    out: *mut ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: a live cursor of this type, and SQLite's place for the result.
    unsafe { answer_of_cursor(at, cursor::<T>(at).row_id().map(|id| *out = id)) }
}

/// # Safety
/// Called by SQLite as `xUpdate`.
unsafe extern "C" fn update<T: Table>(
    vtab: *mut ffi::sqlite3_vtab,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
    out: *mut ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: a live table of this type, and values lent for this call.
    let (host, arguments) = unsafe { ((*vtab.cast::<VTab<T>>()).host, Arguments::new(count, values)) };
    let change = if arguments.len() == 1 {
        Change::Delete { id: arguments.get(0) }
    } else {
        let (old, id, row) = (arguments.get(0), arguments.get(1), Row(arguments));
        let on_conflict = host.on_conflict();
        match old {
            ValueRef::Null => Change::Insert { id, row, on_conflict },
            old => Change::Update { old, new: id, row, on_conflict },
        }
    };
    // Without an id of its own, a row leaves the last one's as it was: SQLite takes whatever is here.
    // SAFETY: SQLite's place for the new row's id; a live table.
    unsafe {
        let id = table::<T>(vtab).update(change);
        answer(vtab, id.map(|id| *out = id.unwrap_or_else(|| host.last_insert_row_id())))
    }
}

/// # Safety
/// Called by SQLite as `xBegin`.
unsafe extern "C" fn begin<T: Table>(vtab: *mut ffi::sqlite3_vtab) -> c_int {
    // SAFETY: a live table of this type.
    unsafe { answer(vtab, table::<T>(vtab).begin()) }
}

/// # Safety
/// Called by SQLite as `xSync`.
unsafe extern "C" fn sync<T: Table>(vtab: *mut ffi::sqlite3_vtab) -> c_int {
    // SAFETY: a live table of this type.
    unsafe { answer(vtab, table::<T>(vtab).sync()) }
}

/// # Safety
/// Called by SQLite as `xCommit`.
unsafe extern "C" fn commit<T: Table>(vtab: *mut ffi::sqlite3_vtab) -> c_int {
    // SAFETY: a live table of this type.
    unsafe { table::<T>(vtab) }.commit();
    ffi::SQLITE_OK
}

/// # Safety
/// Called by SQLite as `xRollback`.
unsafe extern "C" fn rollback<T: Table>(vtab: *mut ffi::sqlite3_vtab) -> c_int {
    // SAFETY: a live table of this type.
    unsafe { table::<T>(vtab) }.rollback();
    ffi::SQLITE_OK
}

/// # Safety
/// Called by SQLite as `xSavepoint`.
unsafe extern "C" fn savepoint<T: Table>(vtab: *mut ffi::sqlite3_vtab, number: c_int) -> c_int {
    // SAFETY: a live table of this type.
    unsafe { answer(vtab, table::<T>(vtab).savepoint(number)) }
}

/// # Safety
/// Called by SQLite as `xRelease`.
unsafe extern "C" fn release<T: Table>(vtab: *mut ffi::sqlite3_vtab, number: c_int) -> c_int {
    // SAFETY: a live table of this type.
    unsafe { answer(vtab, table::<T>(vtab).release(number)) }
}

/// # Safety
/// Called by SQLite as `xRollbackTo`.
unsafe extern "C" fn rollback_to<T: Table>(vtab: *mut ffi::sqlite3_vtab, number: c_int) -> c_int {
    // SAFETY: a live table of this type.
    unsafe { answer(vtab, table::<T>(vtab).rollback_to(number)) }
}
