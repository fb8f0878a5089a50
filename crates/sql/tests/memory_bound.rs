//! The bound on SQLite's memory, which is the process': so a test of its own.

#[path = "it/support/typed.rs"]
#[allow(dead_code, reason = "others need more of it")]
mod typed;

use pando_sql::{Confines, Value};
use typed::Sql;

fn pando_sqlite_limit() -> i64 {
    let connection = pando_sqlite::Connection::in_memory().unwrap();
    match connection.query("PRAGMA hard_heap_limit").unwrap()[..] {
        [ref row] => match row[..] {
            [pando_sqlite::Value::Integer(limit)] => limit,
            _ => panic!("{row:?}"),
        },
        _ => panic!("it has one row"),
    }
}

#[test]
fn a_statement_that_takes_too_much_memory_is_undone() {
    pando_sql::limit_memory(16 << 20).unwrap();
    // Both SQLites together, of which each has its part.
    let limits = [
        pando_sqlite_limit(),
        rusqlite::Connection::open_in_memory()
            .unwrap()
            .query_row("PRAGMA hard_heap_limit", [], |row| row.get::<_, i64>(0))
            .unwrap(),
    ];
    assert_eq!(limits.iter().sum::<i64>(), 16 << 20);
    assert!(limits.iter().all(|&limit| limit >= 1 << 20), "{limits:?}");
    let sql = Sql::new(pando::Database::builder().in_memory().unwrap());
    let mut connection = sql.connect().unwrap();
    connection.confine(Confines::default(), || false).unwrap();
    // One of SQLite's own, and later typed ones.
    (*connection).execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)", &[]).unwrap();
    let rows =
        |count: u32| format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {count})");
    for statement in [
        format!("{} SELECT i, hex(randomblob(500)) AS x FROM n ORDER BY x", rows(100_000)),
        format!("{} SELECT count(DISTINCT hex(randomblob(500))) FROM n", rows(100_000)),
        format!(
            "{} INSERT INTO t SELECT i, x FROM (SELECT i, hex(randomblob(500)) AS x FROM n ORDER BY x)",
            rows(100_000)
        ),
    ] {
        let error = connection.query(&statement, &[]).unwrap_err();
        assert_eq!(error.kind(), pando::ErrorKind::Full, "{error}");
        assert_eq!(connection.query("SELECT count(*) FROM t", &[]).unwrap(), [[Value::Integer(0)]]);
    }
    // What a statement in steps holds counts, too, on every connection.
    let unconfined = sql.connect().unwrap();
    let returning =
        format!("{} INSERT INTO t SELECT i, hex(randomblob(500)) FROM n RETURNING a", rows(40_000));
    let error = unconfined.query(&returning, &[]).unwrap_err();
    assert_eq!(error.kind(), pando::ErrorKind::Full, "{error}");
    assert_eq!(connection.query("SELECT count(*) FROM t", &[]).unwrap(), [[Value::Integer(0)]]);
    // The keys of rows that are to be changed are SQLite's to remember: bounded here, and else in a file of its own.
    let other = sql.connect().unwrap();
    other.execute("CREATE TABLE k(a TEXT PRIMARY KEY)", &[]).unwrap();
    let fill = format!("{} INSERT INTO k SELECT printf('%0400d', i) FROM n", rows(60_000));
    other.execute(&fill, &[]).unwrap();
    for statement in ["DELETE FROM k", "UPDATE k SET a = a || 'x'"] {
        let error = connection.execute(statement, &[]).unwrap_err();
        assert_eq!(error.kind(), pando::ErrorKind::Full, "{statement}: {error}");
        assert_eq!(connection.query("SELECT count(*) FROM k", &[]).unwrap(), [[Value::Integer(60_000)]]);
    }
    assert_eq!(other.execute("DELETE FROM k", &[]).unwrap(), 60_000);
    let few = format!("{} SELECT i, hex(randomblob(500)) AS x FROM n ORDER BY x LIMIT 10", rows(100_000));
    assert_eq!(connection.query(&few, &[]).unwrap().len(), 10, "of which it holds only so many");
    large_rows_are_checked_and_not_kept(&sql);
}

/// `CHECK` needs one copy of a row, which counts with the memory of statements, and idle connections keep none.
fn large_rows_are_checked_and_not_kept(sql: &Sql) {
    let connections: Vec<_> = (0..6).map(|_| sql.connect().unwrap()).collect();
    connections[0].execute("CREATE TABLE checked(a BLOB CHECK(length(a) > 0))", &[]).unwrap();
    for connection in &connections {
        connection.execute("INSERT INTO checked VALUES (zeroblob(4000000))", &[]).unwrap();
        connection.execute("INSERT INTO checked VALUES (?)", &[Value::Blob(vec![1; 4_000_000])]).unwrap();
        let error = connection.execute("INSERT INTO checked VALUES (x'')", &[]).unwrap_err();
        assert_eq!(error.message(), "CHECK constraint failed: length(a) > 0");
    }
    assert_eq!(connections[0].query("SELECT count(*) FROM checked", &[]).unwrap(), [[Value::Integer(12)]]);
}
