//! Tables whose rows are known by their key, as those that SQLite calls `WITHOUT ROWID`: whatever kind of key it is,
//! each row is changed once, by however many rows a statement goes. What it remembers of them is SQLite's to bound:
//! `memory_bound.rs`.

use crate::support::typed::{Connection, Sql};
use pando_sql::Value;

fn open() -> Connection {
    Sql::new(crate::support::database()).connect().unwrap()
}

fn rows(connection: &Connection, query: &str) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => format!("x{bytes:?}"),
    };
    let all = connection.query(query, &[]).unwrap_or_else(|error| panic!("{query}: {error}"));
    all.iter().map(|row| row.iter().map(text).collect::<Vec<_>>().join("|")).collect()
}

const KEYS: [&str; 6] = [
    "a TEXT PRIMARY KEY, b INTEGER",
    "a TEXT COLLATE NOCASE PRIMARY KEY, b INTEGER",
    "a PRIMARY KEY, b INTEGER",
    "a TEXT, b INTEGER, PRIMARY KEY (b DESC, a)",
    "a TEXT, b INTEGER, PRIMARY KEY (b, a)",
    "a BLOB PRIMARY KEY, b INTEGER",
];

/// What a statement writes lies before what it still has to read, in each of these: nothing is seen twice.
#[test]
fn every_row_is_changed_once() {
    for columns in KEYS {
        for index in ["", "CREATE INDEX by_b ON t(b)", "CREATE UNIQUE INDEX by_ab ON t(a, b)"] {
            let connection = open();
            connection.execute_batch(&format!("CREATE TABLE t({columns}); {index}")).unwrap();
            let number = if columns.contains("BLOB") {
                "CAST(printf('%04d', i) AS BLOB)"
            } else {
                "printf('%04d', i)"
            };
            let fill = format!(
                "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n LIMIT 1000)
                 INSERT INTO t(a, b) SELECT {number}, i FROM n"
            );
            connection.execute(&fill, &[]).unwrap();
            let changed =
                |sql: &str| connection.execute(sql, &[]).unwrap_or_else(|e| panic!("{columns}: {sql}: {e}"));
            assert_eq!(changed("UPDATE t SET b = b + 1"), 1000, "{columns}");
            assert_eq!(changed("UPDATE t SET b = b + 5000 WHERE b > 500"), 500, "{columns}");
            if !columns.contains("BLOB") {
                assert_eq!(changed("UPDATE t SET a = a || 'z' WHERE b > 5000"), 500, "{columns}");
                assert_eq!(
                    rows(&connection, "SELECT count(*) FROM t WHERE a LIKE '%zz'"),
                    ["0"],
                    "{columns}"
                );
            }
            assert_eq!(rows(&connection, "SELECT count(*), sum(b) FROM t"), ["1000|3000500"], "{columns}");
            let by_another = "UPDATE t SET b = n.b FROM (SELECT b AS was, -b AS b FROM t WHERE b <= 10) AS n
                              WHERE t.b = n.was";
            assert_eq!(changed(by_another), 10, "{columns}");
            assert_eq!(changed("DELETE FROM t WHERE b < 0 OR b = 11 OR b IN (12, 13, 13)"), 13, "{columns}");
            assert_eq!(changed("DELETE FROM t WHERE b IN (SELECT max(b) FROM t)"), 1, "{columns}");
            assert_eq!(rows(&connection, "SELECT count(*) FROM t"), ["986"], "{columns}");
            assert_eq!(changed("DELETE FROM t"), 986, "{columns}");
        }
    }
}

#[test]
fn the_key_is_one_value_that_nobody_sees_or_sets() {
    let connection = open();
    connection
        .execute_batch("CREATE TABLE t(a TEXT PRIMARY KEY, b INTEGER); INSERT INTO t VALUES('x', 1)")
        .unwrap();
    assert_eq!(rows(&connection, "SELECT * FROM t NATURAL JOIN t AS u"), ["x|1"]);
    assert_eq!(rows(&connection, "SELECT name FROM pragma_table_info('t')"), ["a", "b"]);
    assert_eq!(rows(&connection, "SELECT t.*, length(pando_key) FROM t"), ["x|1|3"]);
    assert_eq!(rows(&connection, "EXPLAIN QUERY PLAN SELECT * FROM t WHERE a = 'x'").len(), 1);
    for (statement, says) in [
        ("SELECT rowid FROM t", "no such column: rowid"),
        ("UPDATE t SET pando_key = x'00'", "has no row ids that can be set"),
        ("INSERT INTO t(pando_key, a) VALUES (x'00', 'y')", "has no row ids that can be set"),
        ("INSERT INTO t VALUES ('y', 2, x'00')", "2 columns but 3 values"),
    ] {
        let error = connection.execute(statement, &[]).unwrap_err();
        assert!(error.message().contains(says), "{statement}: {error}");
    }
    // A column of that name is the table's own.
    connection
        .execute_batch("CREATE TABLE u(pando_key TEXT PRIMARY KEY, b); INSERT INTO u VALUES('k', 1)")
        .unwrap();
    assert_eq!(connection.execute("UPDATE u SET pando_key = 'l'", &[]).unwrap(), 1);
    assert_eq!(rows(&connection, "SELECT * FROM u"), ["l|1"]);
}

/// SQLite's bound on columns counts the one that is the key.
#[test]
fn a_table_with_too_many_columns_is_refused_when_it_is_made() {
    let columns = |from: u32, to: u32| (from..to).map(|n| format!(", c{n}")).collect::<String>();
    let connection = open();
    let error = connection
        .execute_batch(&format!("CREATE TABLE t(a TEXT PRIMARY KEY{})", columns(1, 2000)))
        .unwrap_err();
    assert!(error.message().contains("columns"), "{error}");
    assert_eq!(rows(&connection, "SELECT count(*) FROM pragma_table_info('t')"), ["0"]);
    connection.execute_batch(&format!("CREATE TABLE t(a TEXT PRIMARY KEY{})", columns(1, 1999))).unwrap();
    connection.execute("INSERT INTO t(a, c1998) VALUES ('k', 1)", &[]).unwrap();
    connection.execute("UPDATE t SET c1997 = c1998 + 1", &[]).unwrap();
    assert_eq!(rows(&connection, "SELECT a, c1997, c1998 FROM t"), ["k|2|1"]);
    let error = connection.execute("ALTER TABLE t ADD COLUMN more", &[]).unwrap_err();
    assert!(error.message().contains("columns"), "{error}");
    assert_eq!(connection.execute("DELETE FROM t", &[]).unwrap(), 1);
    // A table with ids has one more.
    connection.execute_batch(&format!("CREATE TABLE u(id INTEGER PRIMARY KEY{})", columns(1, 2000))).unwrap();
    connection.execute("INSERT INTO u(c1999) VALUES (1)", &[]).unwrap();
}

/// As in SQLite: a row without an id is no row that the last id could be of.
#[test]
fn the_last_id_is_that_of_a_row_that_has_one() {
    let connection = open();
    connection
        .execute_batch(
            "CREATE TABLE numbered(id INTEGER PRIMARY KEY); CREATE TABLE keyed(a TEXT PRIMARY KEY)",
        )
        .unwrap();
    connection.execute("INSERT INTO numbered VALUES (7)", &[]).unwrap();
    connection.execute("INSERT INTO keyed VALUES ('a')", &[]).unwrap();
    assert_eq!(connection.last_insert_row_id(), 7);
    connection.execute("UPDATE numbered SET id = 9", &[]).unwrap();
    connection.execute("DELETE FROM keyed", &[]).unwrap();
    assert_eq!(connection.last_insert_row_id(), 7);
    connection.execute("INSERT INTO numbered DEFAULT VALUES", &[]).unwrap();
    assert_eq!(connection.last_insert_row_id(), 10);
}
