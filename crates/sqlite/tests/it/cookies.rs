//! The schema cookie, which a connection reads once for a transaction.

use crate::support::database;
use pando_sqlite::{Connection, ffi};

fn cookie(connection: &Connection) -> u32 {
    // SAFETY: the connection is open, and nothing else uses it.
    unsafe { ffi::schema_cookie(connection.as_ptr()) }.unwrap()
}

#[test]
fn it_is_that_of_the_transaction_or_of_the_last_commit() {
    println!("seed 0");
    let db = database();
    let (one, two) = (Connection::open(&db).unwrap(), Connection::open(&db).unwrap());
    let first = cookie(&one);
    two.execute("CREATE TABLE t(a)").unwrap();
    let second = cookie(&one);
    assert!(second != first && second == cookie(&two));

    one.execute("BEGIN; INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(cookie(&one), second);
    two.execute("CREATE TABLE u(a)").unwrap();
    assert_eq!(cookie(&one), second, "the transaction began before");
    assert_ne!(cookie(&two), second);
    one.execute("ROLLBACK").unwrap();
    let third = cookie(&one);
    assert_eq!(third, cookie(&two));

    one.execute("BEGIN; CREATE TABLE v(a)").unwrap();
    let within = cookie(&one);
    assert_ne!(within, third);
    one.execute("SAVEPOINT s; CREATE TABLE w(a)").unwrap();
    assert_ne!(cookie(&one), within);
    one.execute("ROLLBACK TO s").unwrap();
    assert_eq!(cookie(&one), within);
    assert_eq!(cookie(&two), third, "it is not committed");
    one.execute("ROLLBACK").unwrap();
    assert_eq!(cookie(&one), third);
}

/// A definition that was changed through the transaction that is lent counts at once.
#[test]
fn a_lent_transaction_that_writes_makes_it_read_again() {
    let db = database();
    let connection = Connection::open(&db).unwrap();
    connection.execute("CREATE TABLE t(a); BEGIN; INSERT INTO t VALUES (1)").unwrap();
    let before = cookie(&connection);
    // SAFETY: as above.
    let put = unsafe {
        ffi::join(connection.as_ptr(), |mut joined| {
            use pando::{ReadTables, WriteTables};
            let transaction = joined.transaction().unwrap();
            let meta = transaction.table(sqlite_format::names::META).unwrap().unwrap();
            transaction.put(&meta, sqlite_format::names::COOKIE, (before + 7).to_be_bytes()).unwrap();
        })
    };
    put.unwrap();
    assert_eq!(cookie(&connection), before + 7);
}
