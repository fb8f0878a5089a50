//! SQL over typed tables: what a person types first.

use crate::support::typed::{Connection, Sql};
use pando_sql::Value;

fn open() -> Connection {
    Sql::new(crate::support::database()).connect().unwrap()
}

/// Rows as `a|b|c` lines, null as nothing.
fn rows(connection: &Connection, sql: &str) -> Vec<String> {
    let show = |value: &Value| match value {
        Value::Null => String::new(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => format!("{bytes:?}"),
    };
    let all = connection.query(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
    all.iter().map(|row| row.iter().map(show).collect::<Vec<_>>().join("|")).collect()
}

#[test]
fn tables_are_made_filled_and_asked() {
    let connection = open();
    connection
        .execute_batch(
            "CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
                 price REAL DEFAULT 1.5, note);
             INSERT INTO fruit(name) VALUES('apple'), ('lemon');
             INSERT INTO fruit VALUES(10, 'pear', 2, x'00');
             INSERT INTO fruit(name, price) VALUES('fig', '3');",
        )
        .unwrap();
    assert_eq!(
        rows(&connection, "SELECT * FROM fruit"),
        ["1|apple|1.5|", "2|lemon|1.5|", "10|pear|2|[0]", "11|fig|3|"]
    );
    assert_eq!(rows(&connection, "SELECT id FROM fruit WHERE name = 'pear'"), ["10"]);
    assert_eq!(connection.execute("UPDATE fruit SET price = price * 2 WHERE id > 2", &[]).unwrap(), 2);
    assert_eq!(connection.execute("DELETE FROM fruit WHERE name < 'fig'", &[]).unwrap(), 1);
    assert_eq!(rows(&connection, "SELECT sum(price), count(*) FROM fruit"), ["11.5|3"]);
    let error = connection.execute("INSERT INTO fruit(name) VALUES('pear')", &[]).unwrap_err();
    assert_eq!((error.code(), error.message()), (2067, "UNIQUE constraint failed: fruit.name"));
    let error = connection.execute("INSERT INTO fruit(id, name) VALUES(2, 'x')", &[]).unwrap_err();
    assert_eq!((error.code(), error.message()), (1555, "UNIQUE constraint failed: fruit.id"));
    let error = connection.execute("INSERT INTO fruit(id) VALUES(3)", &[]).unwrap_err();
    assert_eq!((error.code(), error.message()), (1299, "NOT NULL constraint failed: fruit.name"));
    assert_eq!(rows(&connection, "SELECT count(*) FROM fruit"), ["3"]);
}

#[test]
fn transactions_and_savepoints_are_ours() {
    let connection = open();
    connection
        .execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES(1, 'a')")
        .unwrap();
    connection
        .execute_batch(
            "BEGIN; INSERT INTO t VALUES(2, 'b'); SAVEPOINT s; INSERT INTO t VALUES(3, 'c');
             SAVEPOINT u; DELETE FROM t; ROLLBACK TO u; INSERT INTO t VALUES(4, 'd');
             ROLLBACK TO s; RELEASE s;",
        )
        .unwrap();
    // The second row of the statement fails: the first is undone, the transaction goes on.
    assert!(connection.execute("INSERT INTO t VALUES(5, 'e'), (1, 'f')", &[]).is_err());
    assert_eq!(rows(&connection, "SELECT id FROM t"), ["1", "2"]);
    connection.execute_batch("COMMIT").unwrap();
    assert_eq!(rows(&connection, "SELECT id FROM t"), ["1", "2"]);
    connection.execute_batch("BEGIN; DELETE FROM t; ROLLBACK").unwrap();
    assert_eq!(rows(&connection, "SELECT id FROM t"), ["1", "2"]);
    connection.execute_batch("BEGIN; CREATE TABLE u(a PRIMARY KEY); INSERT INTO u VALUES(1)").unwrap();
    assert_eq!(rows(&connection, "SELECT * FROM u"), ["1"]);
    connection.execute_batch("ROLLBACK").unwrap();
    assert!(connection.query("SELECT * FROM u", &[]).unwrap_err().message().contains("no such table"));
}

#[test]
fn a_conflict_is_busy_snapshot() {
    let sql = Sql::new(crate::support::database());
    let (a, b) = (sql.connect().unwrap(), sql.connect().unwrap());
    a.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES(1, 0)").unwrap();
    for connection in [&a, &b] {
        connection.execute_batch("BEGIN").unwrap();
        assert_eq!(rows(connection, "SELECT v FROM t WHERE id = 1"), ["0"]);
        connection.execute_batch("UPDATE t SET v = v + 1 WHERE id = 1").unwrap();
    }
    a.execute_batch("COMMIT").unwrap();
    let error = b.execute_batch("COMMIT").unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert!(error.message().contains('t'), "{error}");
    assert!(b.is_autocommit());
    b.execute_batch("UPDATE t SET v = v + 1 WHERE id = 1").unwrap();
    assert_eq!(rows(&a, "SELECT v FROM t"), ["2"]);
}

#[test]
fn the_rows_that_a_delete_returns_are_those_that_go() {
    for table in [
        "CREATE TABLE q(k INTEGER PRIMARY KEY, v TEXT)",
        "CREATE TABLE q(k INTEGER, v TEXT)",
        "CREATE TABLE q(k TEXT, v TEXT, PRIMARY KEY(v, k)) WITHOUT ROWID",
    ] {
        let connection = open();
        connection.execute_batch(table).unwrap();
        for k in 0..50 {
            connection.execute("INSERT INTO q VALUES(?1, 'v' || (?1 % 3))", &[k.into()]).unwrap();
        }
        let mut left: Vec<_> = rows(&connection, "SELECT k FROM q");
        while !left.is_empty() {
            let shown = rows(
                &connection,
                "WITH some AS (SELECT k AS one FROM q ORDER BY random() LIMIT 2) \
                 DELETE FROM q AS old WHERE k IN (SELECT one FROM some) \
                 RETURNING old.k, (SELECT count(*) FROM q)",
            );
            let count = format!("|{}", left.len());
            for row in &shown {
                let gone = row.strip_suffix(&count).unwrap();
                left.remove(left.iter().position(|k| k == gone).unwrap());
            }
            assert!(!shown.is_empty());
            let mut there: Vec<_> = rows(&connection, "SELECT k FROM q");
            there.sort_unstable();
            left.sort_unstable();
            assert_eq!(there, left, "{table}");
        }
        assert!(rows(&connection, "DELETE FROM q RETURNING *").is_empty());
    }
}

#[test]
fn what_sqlite_leaves_out_for_virtual_tables_works() {
    let connection = open();
    connection
        .execute_batch("CREATE TABLE t(a INTEGER, b TEXT, n INTEGER DEFAULT (3 + 4), PRIMARY KEY(a, b))")
        .unwrap();
    assert_eq!(
        rows(&connection, "INSERT INTO t(a, b) VALUES(1, 'x'), (2, 'y') RETURNING a, n + 1 AS m"),
        ["1|8", "2|8"]
    );
    assert_eq!(rows(&connection, "UPDATE t SET n = n + a WHERE a = 2 RETURNING *"), ["2|y|9"]);
    assert_eq!(
        rows(
            &connection,
            "INSERT INTO t(a, b) VALUES(2, 'y'), (3, 'z') 
             ON CONFLICT(a, b) DO UPDATE SET n = n + excluded.n RETURNING a, n"
        ),
        ["2|16", "3|7"]
    );
    connection.execute("INSERT INTO t VALUES(3, 'z', 0) ON CONFLICT DO NOTHING", &[]).unwrap();
    assert_eq!(rows(&connection, "DELETE FROM t WHERE a > 1 RETURNING b, n"), ["y|16", "z|7"]);
    let upsert =
        "INSERT INTO t VALUES(?, ?, ?) ON CONFLICT(b, a) DO UPDATE SET n = excluded.n * ?4 WHERE n < ?3";
    let values = |n: i64| [1.into(), "x".to_owned().into(), n.into(), 10.into()];
    assert_eq!(connection.execute(upsert, &values(100)).unwrap(), 1);
    assert_eq!(connection.execute(upsert, &values(100)).unwrap(), 0);
    assert_eq!(rows(&connection, "SELECT * FROM t"), ["1|x|1000"]);
    let error = connection.execute("INSERT INTO t(a) VALUES(1) ON CONFLICT DO NOTHING", &[]).unwrap_err();
    assert_eq!(error.message(), "NOT NULL constraint failed: t.b");
}

#[test]
fn schemas_change() {
    let sql = Sql::new(crate::support::database());
    let (a, b) = (sql.connect().unwrap(), sql.connect().unwrap());
    a.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t VALUES(1, 'one')")
        .unwrap();
    assert_eq!(rows(&b, "SELECT * FROM t"), ["1|one"]);
    a.execute_batch(
        "ALTER TABLE t ADD COLUMN n INTEGER NOT NULL DEFAULT 5; CREATE INDEX by_n ON t(n DESC, v)",
    )
    .unwrap();
    assert_eq!(rows(&b, "SELECT * FROM t"), ["1|one|5"]);
    assert_eq!(rows(&b, "EXPLAIN QUERY PLAN SELECT * FROM t WHERE n = 5")[0].split("INDEX 16777").count(), 2);
    b.execute_batch("ALTER TABLE t RENAME COLUMN v TO w; ALTER TABLE t RENAME TO u").unwrap();
    assert_eq!(rows(&a, "SELECT w FROM u WHERE n = 5"), ["one"]);
    assert!(a.query("SELECT * FROM t", &[]).is_err());
    a.execute_batch(
        "DROP INDEX by_n; ALTER TABLE u DROP COLUMN w; CREATE TABLE v AS SELECT id, n * 2 AS m FROM u",
    )
    .unwrap();
    assert_eq!(rows(&b, "SELECT * FROM u, v"), ["1|5|1|10"]);
    b.execute_batch("DROP TABLE u; DROP TABLE IF EXISTS u").unwrap();
    assert!(a.query("SELECT * FROM u", &[]).is_err());
}

/// As `docs/sql.md` says: tables of SQLite's own hide those of the same name, which are `main`'s.
#[test]
fn names_of_attached_tables_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let connection = open();
    connection.execute_batch("CREATE TABLE t(a INTEGER DEFAULT 5, b); INSERT INTO t(b) VALUES(1)").unwrap();
    let file = dir.path().join("own.db");
    let own = rusqlite::Connection::open(&file).unwrap();
    own.execute_batch("CREATE TABLE t(c); INSERT INTO t VALUES('own')").unwrap();
    connection.execute_batch(&format!("ATTACH '{}' AS own", file.display())).unwrap();
    // SQLite would take the attached one, as it finds virtual tables last.
    for ambiguous in ["SELECT * FROM t", "INSERT INTO t SELECT c FROM own.t", "DELETE FROM t RETURNING 1"] {
        let error = connection.query(ambiguous, &[]).unwrap_err();
        assert!(error.message().contains("write main.t or own.t"), "{error}");
    }
    assert_eq!(rows(&connection, "SELECT t.c FROM own.t"), ["own"]);
    assert_eq!(rows(&connection, "SELECT * FROM main.t"), ["5|1"]);
    connection.execute("INSERT INTO main.t(b) VALUES(2)", &[]).unwrap();
    assert_eq!(rows(&connection, "SELECT a, b FROM main.t ORDER BY b"), ["5|1", "5|2"]);
    connection.execute("DETACH own", &[]).unwrap();
    assert_eq!(rows(&connection, "SELECT count(*) FROM t"), ["2"]);
}
