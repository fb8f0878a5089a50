//! The limit on SQLite's memory, in a process of its own, because it holds for all connections.

use pando_sqlite::{Connection, limit_memory};

#[test]
fn sqlite_stops_at_its_limit_and_the_connection_goes_on() {
    limit_memory(16 << 20).expect("no connection was opened");
    let db = pando::Database::builder().in_memory().expect("it opens");
    let connection = Connection::open(&db).expect("it opens");
    connection.execute("CREATE TABLE t(a); PRAGMA temp_store = MEMORY").expect("it runs");
    let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000)
                SELECT hex(randomblob(500)) FROM n";
    let error = connection.query(&format!("SELECT count(*) FROM ({rows} ORDER BY 1)")).expect_err("40 MB");
    assert_eq!(error.code, 7, "{error}");
    let error =
        connection.execute("INSERT INTO t VALUES (1); INSERT INTO t VALUES (zeroblob(20000000) || 'x')");
    assert_eq!(error.expect_err("20 MB").code, 7);
    let rows = connection.query("SELECT a FROM t").expect("it goes on");
    assert_eq!(rows, [[pando_sqlite::Value::Integer(1)]]);

    limit_memory(64 << 20).expect("it is not raised");
    let many = "SELECT length(hex(zeroblob(9000000)))";
    assert_eq!(connection.query(many).expect_err("18 MB").code, 7);
    limit_memory(8 << 20).expect("it is lowered");
    assert_eq!(connection.query("SELECT length(hex(zeroblob(5000000)))").expect_err("10 MB").code, 7);
}
