//! A table of the program's own in a connection: what is written to it and to SQL's tables is one transaction.
//!
//! The table has integers and texts, and keeps them in a table of Pando of the name `own`.

use crate::support::rows;
use pando::{Database, ReadTables, RecordCursor, Span, Table, WriteTables};
use pando_sqlite::ffi::{self, Joined, Source, join};
use pando_sqlite::{Connection, Error};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::slice;
use std::sync::Barrier;

#[repr(C)]
struct Own {
    base: ffi::sqlite3_vtab,
    db: *mut ffi::sqlite3,
    table: Table,
}

#[repr(C)]
struct Scan {
    base: ffi::sqlite3_vtab_cursor,
    rows: Vec<(i64, Vec<u8>)>,
    at: usize,
}

fn all(reader: &impl ReadTables, table: &Table) -> Vec<(i64, Vec<u8>)> {
    let mut cursor = reader.cursor(table, Span::all()).expect("it is there");
    let mut found = Vec::new();
    while let Some((key, value)) = cursor.next().expect("it can be read") {
        found.push((i64::from_be_bytes(key.try_into().expect("8 bytes")), value.to_vec()));
    }
    found
}

fn read(joined: &Joined<'_>, table: &Table) -> Result<Vec<(i64, Vec<u8>)>, Error> {
    Ok(match joined.source()?.expect("a statement is running") {
        Source::Snapshot(snapshot) => all(snapshot, table),
        Source::Transaction(transaction) => all(transaction, table),
    })
}

// SAFETY: SQLite alone calls it, with what its interface says.
unsafe extern "C" fn connect(
    db: *mut ffi::sqlite3,
    aux: *mut c_void,
    _count: c_int,
    _arguments: *const *const c_char,
    out: *mut *mut ffi::sqlite3_vtab,
    _message: *mut *mut c_char,
) -> c_int {
    let base = ffi::sqlite3_vtab { pModule: ptr::null(), nRef: 0, zErrMsg: ptr::null_mut() };
    // SAFETY: within `xConnect`; the context is the table that `register` passes, which lives until `destroy`.
    unsafe {
        ffi::sqlite3_declare_vtab(db, c"CREATE TABLE x(id INTEGER, name TEXT)".as_ptr());
        let table = (*aux.cast::<Table>()).clone();
        *out = Box::into_raw(Box::new(Own { base, db, table })).cast();
    }
    ffi::SQLITE_OK
}

// SAFETY: SQLite alone calls it, with what its interface says.
unsafe extern "C" fn disconnect(own: *mut ffi::sqlite3_vtab) -> c_int {
    // SAFETY: `connect` made it, and this is the last call with it.
    drop(unsafe { Box::from_raw(own.cast::<Own>()) });
    ffi::SQLITE_OK
}

// SAFETY: SQLite alone calls it, with what its interface says.
unsafe extern "C" fn destroy(aux: *mut c_void) {
    // SAFETY: `register` made it, and this is the last call with it.
    drop(unsafe { Box::from_raw(aux.cast::<Table>()) });
}

// SAFETY: SQLite alone calls it, with what its interface says.
unsafe extern "C" fn best_index(_own: *mut ffi::sqlite3_vtab, _info: *mut ffi::sqlite3_index_info) -> c_int {
    ffi::SQLITE_OK
}

// SAFETY: SQLite alone calls it, with what its interface says.
unsafe extern "C" fn open(_own: *mut ffi::sqlite3_vtab, out: *mut *mut ffi::sqlite3_vtab_cursor) -> c_int {
    let base = ffi::sqlite3_vtab_cursor { pVtab: ptr::null_mut() };
    // SAFETY: SQLite's place for the result.
    unsafe { *out = Box::into_raw(Box::new(Scan { base, rows: Vec::new(), at: 0 })).cast() };
    ffi::SQLITE_OK
}

// SAFETY: SQLite alone calls it, with what its interface says.
unsafe extern "C" fn close(scan: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: `open` made it, and this is the last call with it.
    drop(unsafe { Box::from_raw(scan.cast::<Scan>()) });
    ffi::SQLITE_OK
}

// SAFETY: SQLite alone calls it, with what its interface says.
unsafe extern "C" fn filter(
    scan: *mut ffi::sqlite3_vtab_cursor,
    _plan: c_int,
    _label: *const c_char,
    _count: c_int,
    _values: *mut *mut ffi::sqlite3_value,
) -> c_int {
    // SAFETY: a live cursor of `open`, whose table SQLite has set; `read` calls no SQLite.
    let (scan, found) = unsafe {
        let own = &*(*scan).pVtab.cast::<Own>();
        (&mut *scan.cast::<Scan>(), join(own.db, |joined| read(&joined, &own.table)))
    };
    match found.and_then(|found| found) {
        Ok(rows) => (scan.rows, scan.at) = (rows, 0),
        Err(error) => return error.code,
    }
    ffi::SQLITE_OK
}

// SAFETY: SQLite alone calls it, with what its interface says.
unsafe extern "C" fn next(scan: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: a live cursor of `open`.
    unsafe { (*scan.cast::<Scan>()).at += 1 };
    ffi::SQLITE_OK
}

// SAFETY: SQLite alone calls it, with what its interface says.
unsafe extern "C" fn eof(scan: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: a live cursor of `open`.
    let scan = unsafe { &*scan.cast::<Scan>() };
    c_int::from(scan.at >= scan.rows.len())
}

// SAFETY: SQLite alone calls it, with what its interface says.
unsafe extern "C" fn column(
    scan: *mut ffi::sqlite3_vtab_cursor,
    context: *mut ffi::sqlite3_context,
    at: c_int,
) -> c_int {
    // SAFETY: a live cursor of `open`, on a row; SQLite copies the text.
    unsafe {
        let scan = &*scan.cast::<Scan>();
        let (id, name) = &scan.rows[scan.at];
        if at == 0 {
            ffi::sqlite3_result_int64(context, *id);
        } else {
            let (text, bytes) = (name.as_ptr().cast(), name.len() as u64);
            ffi::sqlite3_result_text64(context, text, bytes, ffi::SQLITE_TRANSIENT(), ffi::SQLITE_UTF8 as u8);
        }
    }
    ffi::SQLITE_OK
}

// SAFETY: SQLite alone calls it, with what its interface says.
unsafe extern "C" fn rowid(scan: *mut ffi::sqlite3_vtab_cursor, out: *mut ffi::sqlite3_int64) -> c_int {
    // SAFETY: a live cursor of `open`, on a row, and SQLite's place for the result.
    unsafe {
        let scan = &*scan.cast::<Scan>();
        *out = scan.rows[scan.at].0;
    }
    ffi::SQLITE_OK
}

// SAFETY: SQLite alone calls it, with what its interface says.
unsafe extern "C" fn update(
    own: *mut ffi::sqlite3_vtab,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
    out: *mut ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: a live table of `connect`, and values that live during the call. They are read before `join`, whose work
    // calls no SQLite.
    let (own, old, new) = unsafe {
        let values = slice::from_raw_parts(values, count as usize);
        let old = (ffi::sqlite3_value_type(values[0]) != ffi::SQLITE_NULL)
            .then(|| ffi::sqlite3_value_int64(values[0]));
        let new = (values.len() > 1).then(|| {
            let (id, name) = (ffi::sqlite3_value_int64(values[2]), ffi::sqlite3_value_text(values[3]));
            (id, CStr::from_ptr(name.cast()).to_bytes().to_vec())
        });
        (&*own.cast::<Own>(), old, new)
    };
    // SAFETY: the connection of a live table; the work calls no SQLite.
    let done = unsafe {
        join(own.db, |mut joined| {
            let transaction = joined.transaction()?;
            if let Some(old) = old {
                transaction.delete(&own.table, old.to_be_bytes()).expect("it can be written");
            }
            if let Some((id, name)) = new {
                transaction.put(&own.table, id.to_be_bytes(), name).expect("it can be written");
                *out = id;
            }
            Ok::<_, Error>(())
        })
    };
    match done.and_then(|done| done) {
        Ok(()) => ffi::SQLITE_OK,
        Err(error) => error.code,
    }
}

static MODULE: ffi::sqlite3_module = ffi::sqlite3_module {
    iVersion: 1,
    xCreate: None,
    xConnect: Some(connect),
    xBestIndex: Some(best_index),
    xDisconnect: Some(disconnect),
    xDestroy: Some(disconnect),
    xOpen: Some(open),
    xClose: Some(close),
    xFilter: Some(filter),
    xNext: Some(next),
    xEof: Some(eof),
    xColumn: Some(column),
    xRowid: Some(rowid),
    xUpdate: Some(update),
    xBegin: None,
    xSync: None,
    xCommit: None,
    xRollback: None,
    xFindFunction: None,
    xRename: None,
    xSavepoint: None,
    xRelease: None,
    xRollbackTo: None,
    xShadowName: None,
    xIntegrity: None,
};

fn connected(db: &Database) -> Connection {
    let table = db.ensure_table("own").expect("it can be created");
    let connection = Connection::open(db).expect("it opens");
    let context = Box::into_raw(Box::new(table)).cast();
    // SAFETY: the connection is open, the module is static, and `destroy` frees the context.
    let code = unsafe {
        let (db, name) = (connection.as_ptr(), c"own".as_ptr());
        ffi::sqlite3_create_module_v2(db, name, &raw const MODULE, context, Some(destroy))
    };
    assert_eq!(code, ffi::SQLITE_OK);
    connection
}

fn fresh() -> (Database, Connection) {
    let db = Database::builder().in_memory().expect("it opens");
    let connection = connected(&db);
    let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
        CREATE TRIGGER also AFTER INSERT ON t BEGIN INSERT INTO own VALUES (new.id, new.name); END";
    connection.execute(schema).expect("it runs");
    (db, connection)
}

#[test]
fn one_commit_has_both_tables() {
    let (db, connection) = fresh();
    let before = db.stats().expect("they are counted").commits;
    connection.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')").expect("the trigger writes, too");
    assert_eq!(db.stats().expect("they are counted").commits - before, 1);
    let join = "SELECT id, t.name FROM t JOIN own USING (id) WHERE own.name = t.name";
    assert_eq!(rows(&connection, join), ["1|a", "2|b"]);

    connection
        .execute("BEGIN; INSERT INTO t VALUES (3, 'c'); UPDATE own SET name = 'x' WHERE id = 1")
        .expect("it runs");
    assert_eq!(rows(&connection, "SELECT name FROM own"), ["x", "b", "c"], "it sees its own writes");
    let other = connected(&db);
    assert_eq!(rows(&other, "SELECT name FROM own"), ["a", "b"], "they are not committed");
    connection.execute("ROLLBACK").expect("it runs");
    assert_eq!(rows(&connection, join), ["1|a", "2|b"]);
}

#[test]
fn savepoints_and_statements_that_fail_are_undone_in_both() {
    let (_db, connection) = fresh();
    connection.execute("INSERT INTO t VALUES (1, 'a')").expect("it runs");
    // The second row is refused after the trigger of the first one has written.
    let error = connection.execute("INSERT INTO t VALUES (2, 'b'), (3, 'a')").expect_err("it is not unique");
    assert_eq!(error.code, 2067, "{error}");
    assert_eq!(rows(&connection, "SELECT * FROM own"), ["1|a"]);

    connection
        .execute("BEGIN; SAVEPOINT one; INSERT INTO t VALUES (2, 'b'); SAVEPOINT two")
        .expect("it runs");
    connection.execute("DELETE FROM own; INSERT INTO own VALUES (9, 'z')").expect("it runs");
    assert_eq!(rows(&connection, "SELECT * FROM own"), ["9|z"]);
    connection.execute("ROLLBACK TO two").expect("it runs");
    assert_eq!(rows(&connection, "SELECT * FROM own"), ["1|a", "2|b"]);
    connection.execute("INSERT INTO t VALUES (5, 'b')").expect_err("it is not unique");
    assert_eq!(rows(&connection, "SELECT * FROM own"), ["1|a", "2|b"]);
    connection.execute("ROLLBACK TO one; INSERT INTO own VALUES (3, 'c'); COMMIT").expect("it runs");
    assert_eq!(rows(&connection, "SELECT * FROM own"), ["1|a", "3|c"]);
    assert_eq!(rows(&connection, "SELECT * FROM t"), ["1|a"]);
}

#[test]
fn conflicts_in_either_table_refuse_both_and_name_the_place() {
    let (db, one) = fresh();
    let two = connected(&db);
    one.execute("INSERT INTO t VALUES (1, 'a')").expect("it runs");
    // What is read by the program's own table is part of the read set.
    for (connection, id) in [(&one, 2), (&two, 3)] {
        let sql = format!("BEGIN; INSERT INTO t SELECT {id}, 'n' || count(*) || {id} FROM own");
        connection.execute(&sql).expect("it runs");
    }
    one.execute("COMMIT").expect("nobody was before it");
    let error = two.execute("COMMIT").expect_err("the count is another one");
    assert!(error.is_conflict(), "{error}");
    let conflict = error.conflict().expect("it names a place");
    assert_eq!((conflict.table(), conflict.rowid(), conflict.key().is_some()), ("own", None, true));
    assert_eq!(rows(&two, "SELECT id FROM t"), ["1", "2"]);

    // A statement outside of BEGIN is repeated.
    let before = db.stats().expect("they are counted").conflicts;
    let begin = Barrier::new(2);
    std::thread::scope(|scope| {
        for connection in [one, two] {
            scope.spawn(|| {
                let connection = connection;
                begin.wait();
                for _ in 0..500 {
                    let add = "INSERT INTO own SELECT 100 + count(*), 'n' FROM own";
                    connection.execute(add).expect("it is repeated");
                }
            });
        }
    });
    let three = connected(&db);
    assert_eq!(rows(&three, "SELECT count(*) FROM own"), ["1002"]);
    assert!(db.stats().expect("they are counted").conflicts > before, "the two did not meet");
}

#[test]
fn a_connection_whose_transaction_is_lent_runs_nothing() {
    let (_db, connection) = fresh();
    connection
        .execute("INSERT INTO t VALUES (1, 'a'); BEGIN; INSERT INTO t VALUES (2, 'b')")
        .expect("it runs");
    for sql in [
        "SELECT * FROM t",
        "INSERT INTO t VALUES (3, 'c')",
        "SELECT * FROM own",
        "SAVEPOINT s; DELETE FROM t",
    ] {
        // SAFETY: the connection is open, and this thread alone uses it.
        let failed =
            unsafe { join(connection.as_ptr(), |_| connection.execute(sql)) }.expect("it is Pando's");
        assert!(failed.is_err(), "{sql}");
    }
    connection.execute("COMMIT").expect("it is given back");
    assert_eq!(rows(&connection, "SELECT name FROM t"), ["a", "b"]);

    connection.execute("BEGIN; INSERT INTO t VALUES (3, 'c')").expect("it runs");
    // SAFETY: as above.
    let ended = unsafe { join(connection.as_ptr(), |_| connection.execute("ROLLBACK")) };
    ended.expect("it is Pando's").expect("nothing is to be kept");
    assert!(!connection.is_in_transaction());
    assert_eq!(rows(&connection, "SELECT name FROM t"), ["a", "b"]);
}

#[test]
fn a_connection_that_reads_only_refuses_writes_to_both() {
    let (_db, connection) = fresh();
    connection.set_read_only(true);
    assert_eq!(connection.execute("INSERT INTO own VALUES (1, 'a')").expect_err("it reads only").code, 8);
    assert!(rows(&connection, "SELECT * FROM own").is_empty());
}

#[test]
fn a_database_without_tables_of_sql_can_be_read_only() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("db");
    let db = Database::create(&path).expect("it opens");
    let table = db.ensure_table("own").expect("it can be created");
    db.write(|transaction| transaction.put(&table, 7_i64.to_be_bytes(), "g")).expect("it can be written");
    drop((db, table));

    let db = Database::open_read_only(&path).expect("it opens");
    let connection = Connection::open(&db).expect("it opens");
    assert!(rows(&connection, "SELECT * FROM sqlite_schema").is_empty());
    assert_eq!(rows(&connection, "PRAGMA integrity_check"), ["ok"]);
    assert_eq!(connection.execute("CREATE TABLE t(a)").expect_err("it reads only").code, 8);
    connection
        .execute("BEGIN; SELECT 1; COMMIT; CREATE TEMP TABLE u(a); INSERT INTO u VALUES (1)")
        .expect("it runs");
    assert_eq!(rows(&connection, "SELECT a FROM u"), ["1"]);
}
