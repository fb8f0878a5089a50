//! First statements of each kind.

use crate::support::{fresh, rows};
use pando_sqlite::Connection;

#[test]
fn sqlites_own_trees_still_work() {
    let connection = Connection::in_memory().expect("it opens");
    connection
        .execute(
            "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT UNIQUE); INSERT INTO t(b) VALUES ('x'), ('y');
             CREATE TEMP TABLE u AS SELECT * FROM t; UPDATE u SET b = b || '!';",
        )
        .expect("it runs");
    assert_eq!(
        rows(&connection, "SELECT t.b, u.b FROM t JOIN u USING(a) ORDER BY t.b DESC"),
        ["y|y!", "x|x!"]
    );
    assert_eq!(rows(&connection, "PRAGMA integrity_check"), ["ok"]);
}

#[test]
fn tables_have_rows_in_order() {
    let connection = fresh();
    connection.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)").expect("it runs");
    connection
        .execute(
            "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i+1 FROM n WHERE i<5000)
             INSERT INTO t SELECT i - 2500, i * 10 FROM n",
        )
        .expect("it runs");
    assert_eq!(
        rows(&connection, "SELECT count(*), sum(a), sum(b), min(a), max(a) FROM t"),
        ["5000|2500|125025000|-2499|2500"]
    );
    assert_eq!(rows(&connection, "SELECT a FROM t WHERE a BETWEEN -2 AND 2"), ["-2", "-1", "0", "1", "2"]);
    assert_eq!(rows(&connection, "SELECT a FROM t WHERE a <= 1 ORDER BY a DESC LIMIT 3"), ["1", "0", "-1"]);
    connection.execute("DELETE FROM t WHERE a % 2 = 0; UPDATE t SET b = -1 WHERE a > 2400").expect("it runs");
    assert_eq!(rows(&connection, "SELECT count(*), sum(b < 0), sum(a) FROM t"), ["2500|50|0"]);
    assert_eq!(rows(&connection, "PRAGMA integrity_check"), ["ok"]);
}
