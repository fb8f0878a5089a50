//! What is not supported yet is refused by name, and changes nothing.

use crate::support::{fresh, is_over_a_store, rows};
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
    match is_over_a_store() {
        true => refused(&connection, "VACUUM", "the capability `maintenance` belongs to Pando's own engine"),
        false => connection.execute("VACUUM").expect("it compacts"),
    }
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

#[test]
fn a_text_with_a_nul_is_refused_as_a_whole() {
    let connection = fresh();
    connection
        .execute("CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
        .expect("it runs");
    for sql in ["DELETE FROM t\0 WHERE id = 1", "DELETE FROM t; \0", "\0", "SELECT 1 -- \0"] {
        let errors = [
            connection.execute(sql).expect_err(sql),
            connection.query(sql).expect_err(sql),
            connection.prepare_only(sql).map(drop).expect_err(sql),
            connection.prepare_kept(sql).map(drop).expect_err(sql),
        ];
        assert!(errors.iter().all(|error| error.message.contains("zero byte")), "{errors:?}");
    }
    assert_eq!(rows(&connection, "SELECT count(*) FROM t"), ["2"]);
}
