//! The bound on SQLite's memory, which is the process': so a test of its own.

use pando_sql::{Confines, Sql, Value};

#[test]
fn a_statement_that_takes_too_much_memory_is_undone() {
    pando_sql::limit_memory(16 << 20).unwrap();
    let sql = Sql::new(pando::Database::builder().in_memory().unwrap());
    let mut connection = sql.connect().unwrap();
    connection.confine(Confines::default(), || false).unwrap();
    connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)", &[]).unwrap();
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
}
