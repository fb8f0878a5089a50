//! What is not supported yet is refused by name, and changes nothing.

use crate::support::{fresh, rows};
use pando_sqlite::Connection;

#[track_caller]
fn refused(connection: &Connection, sql: &str, words: &str) {
    let error = connection.execute(sql).expect_err(sql);
    assert!(error.message.contains(words), "{sql}: {error}");
}

#[test]
fn utf16_is_refused_and_vacuum_compacts_only_outside_of_transactions() {
    let connection = fresh();
    connection
        .execute("CREATE TABLE t(a, b); CREATE INDEX i ON t(b); INSERT INTO t VALUES (1, 2)")
        .expect("it runs");
    connection.execute("VACUUM").expect("it compacts");
    refused(&connection, "BEGIN; VACUUM", "cannot VACUUM from within a transaction");
    connection.execute("ROLLBACK").expect("it ends");
    assert_eq!(rows(&connection, "SELECT * FROM t"), ["1|2"]);
    assert_eq!(rows(&connection, "PRAGMA integrity_check"), ["ok"]);
    connection.execute("INSERT INTO t VALUES (zeroblob(3000000), 4)").expect("it runs");
    assert_eq!(rows(&connection, "SELECT length(a) FROM t WHERE b = 4"), ["3000000"]);
    assert!(rows(&connection, "SELECT a FROM t WHERE b = hex(zeroblob(5000))").is_empty());
    assert_eq!(
        rows(&connection, "SELECT b FROM t WHERE b < hex(zeroblob(5000)) ORDER BY b DESC"),
        ["4", "2"]
    );

    let other = fresh();
    other.execute("PRAGMA encoding = 'UTF-16le'").expect("it is only noted");
    refused(&other, "CREATE TABLE t(a)", "UTF-16 is not supported");
}
