//! Scans that read ahead, decode late and leave out what nobody asks for: the same rows as if they did not.

use crate::support::typed::{Connection, Sql};
use pando_sql::Value;
use std::sync::atomic::{AtomicBool, Ordering};

const MANY: &str = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1999)
     INSERT INTO t(id, a) SELECT i, -i FROM n";

/// A table of 2000 rows: `a` is `-id`, and has an index.
fn filled() -> Sql {
    let sql = Sql::new(crate::support::database());
    let connection = sql.connect().unwrap();
    connection
        .execute_batch(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER NOT NULL); CREATE INDEX by_a ON t(a)",
        )
        .unwrap();
    connection.execute(MANY, &[]).unwrap();
    sql
}

fn integer(value: pando_sql::ValueRef<'_>) -> i64 {
    value.as_i64().unwrap()
}

fn ints(connection: &Connection, sql: &str, parameters: &[Value]) -> Vec<i64> {
    let mut statement = connection.prepare(sql).unwrap();
    let mut rows = statement.query(parameters).unwrap();
    let mut found = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        found.push(integer(row.get(0)));
    }
    found
}

/// Ranges of lengths around those of batches, one after the other: what the scan before wanted changes how much is read
/// at first, not what is shown.
#[test]
fn ranges_of_all_lengths_have_their_rows() {
    let connection = filled().connect().unwrap();
    for (step, count) in [1, 7, 8, 9, 600, 0, 128, 129, 3, 513, 64, 1].into_iter().enumerate() {
        let start = 37 * step as i64;
        let bounds = [start.into(), (start + count).into()];
        let by_key = ints(&connection, "SELECT id FROM t WHERE id >= ?1 AND id < ?2", &bounds);
        assert_eq!(by_key, (start..start + count).collect::<Vec<_>>());
        let by_index = "SELECT id FROM t WHERE a > -?2 AND a <= -?1 ORDER BY a";
        assert_eq!(ints(&connection, by_index, &bounds), (start..start + count).rev().collect::<Vec<_>>());
        let rows_by_index =
            "SELECT a + id + length(id || a) * 0 + id FROM t WHERE a BETWEEN 1 - ?2 AND -?1 ORDER BY a";
        assert_eq!(
            ints(&connection, rows_by_index, &bounds),
            (start..start + count).rev().collect::<Vec<_>>()
        );
    }
}

/// A scan that has read ahead goes on in the same snapshot, whatever others write; the next one sees it.
#[test]
fn a_scan_keeps_its_snapshot() {
    let sql = filled();
    let (reader, writer) = (sql.connect().unwrap(), sql.connect().unwrap());
    for read in [1, 8, 9, 100, 1000] {
        let mut statement = reader.prepare("SELECT id FROM t WHERE id < 2000").unwrap();
        let mut rows = statement.query(&[]).unwrap();
        for id in 0..read {
            assert_eq!(integer(rows.next().unwrap().unwrap().get(0)), id);
        }
        writer.execute("DELETE FROM t WHERE id >= ?", &[read.into()]).unwrap();
        let mut left = read;
        while let Some(row) = rows.next().unwrap() {
            assert_eq!(integer(row.get(0)), left);
            left += 1;
        }
        assert_eq!(left, 2000);
        drop(rows);
        assert_eq!(ints(&reader, "SELECT count(*) FROM t", &[]), [read]);
        writer.execute("DELETE FROM t", &[]).unwrap();
        writer.execute(MANY, &[]).unwrap();
    }
}

/// The schema changes between two steps of a scan: the scan goes on, the next one has the new columns.
#[test]
fn a_scan_outlives_a_change_of_its_schema() {
    let sql = filled();
    let (reader, other) = (sql.connect().unwrap(), sql.connect().unwrap());
    let mut statement = reader.prepare("SELECT id, * FROM t ORDER BY id").unwrap();
    let mut rows = statement.query(&[]).unwrap();
    for id in 0..10 {
        assert_eq!(integer(rows.next().unwrap().unwrap().get(2)), -id);
    }
    other
        .execute_batch("ALTER TABLE t ADD COLUMN b TEXT DEFAULT 'new'; INSERT INTO t VALUES(5000, 1, 'own')")
        .unwrap();
    let mut count = 10;
    while let Some(row) = rows.next().unwrap() {
        assert_eq!((integer(row.get(0)), row.len()), (count, 3));
        count += 1;
    }
    assert_eq!(count, 2000);
    drop(rows);
    drop(statement);
    let rows = reader.query("SELECT b, count(*), min(a), max(id) FROM t GROUP BY b ORDER BY b", &[]).unwrap();
    let text = |text: &str| Value::Text(text.to_owned());
    assert_eq!(rows[0], [text("new"), 2000.into(), (-1999).into(), 1999.into()]);
    assert_eq!(rows[1], [text("own"), 1.into(), 1.into(), 5000.into()]);
}

/// Rows that the transaction itself has written, changed and taken back are what its scans show, those of keys too.
#[test]
fn scans_see_what_their_transaction_wrote() {
    let connection = filled().connect().unwrap();
    let both = |connection: &Connection| {
        let rows = ints(connection, "SELECT count(*) FROM t WHERE a + id IS NOT NULL", &[]);
        let keys = ints(connection, "SELECT count(*) FROM t", &[]);
        let entries = ints(connection, "SELECT count(a) FROM t WHERE a < 100000", &[]);
        assert_eq!((&rows, &rows), (&keys, &entries));
        rows[0]
    };
    connection
        .execute_batch("BEGIN; INSERT INTO t VALUES(-1, 7); DELETE FROM t WHERE id IN (3, 1500)")
        .unwrap();
    assert_eq!(both(&connection), 1999);
    connection
        .execute_batch("SAVEPOINT s; DELETE FROM t WHERE id > 99; UPDATE t SET id = id + 5000 WHERE id < 50")
        .unwrap();
    assert_eq!(both(&connection), 100);
    assert_eq!(ints(&connection, "SELECT max(id) FROM t", &[]), [5049]);
    assert!(connection.execute("UPDATE t SET id = 60 WHERE id > 70", &[]).is_err());
    assert_eq!(both(&connection), 100);
    connection.execute_batch("ROLLBACK TO s").unwrap();
    assert_eq!(both(&connection), 1999);
    connection.execute_batch("ROLLBACK").unwrap();
    assert_eq!(both(&connection), 2000);
}

/// A table whose key says nothing of its values is counted without them: also where they are megabytes long. What is
/// changed or deleted by such a scan is found all the same.
#[test]
fn keys_alone_suffice_where_nothing_else_is_asked_for() {
    let schemas = [
        "CREATE TABLE t(id INTEGER PRIMARY KEY, b BLOB)",
        "CREATE TABLE t(id INTEGER, b BLOB)",
        "CREATE TABLE t(id INTEGER, b BLOB, PRIMARY KEY(id DESC))",
        "CREATE TABLE t(id TEXT PRIMARY KEY COLLATE NOCASE, b BLOB)",
        "CREATE TABLE t(id TEXT, n REAL DEFAULT 0.5, b BLOB, PRIMARY KEY(n, id))",
    ];
    for schema in schemas {
        let connection = Sql::new(crate::support::database()).connect().unwrap();
        connection.execute(schema, &[]).unwrap();
        for id in 1..=20 {
            connection
                .execute("INSERT INTO t(id, b) VALUES(?, zeroblob(2000000 / ?))", &[id.into(), id.into()])
                .unwrap();
        }
        assert_eq!(ints(&connection, "SELECT count(*) FROM t", &[]), [20], "{schema}");
        assert_eq!(ints(&connection, "SELECT max(CAST(id AS INTEGER)) FROM t", &[]), [20], "{schema}");
        assert_eq!(ints(&connection, "SELECT sum(length(b) > 0) FROM t", &[]), [20], "{schema}");
        assert_eq!(
            connection.execute("DELETE FROM t WHERE CAST(id AS INTEGER) > 10", &[]).unwrap(),
            10,
            "{schema}"
        );
        assert_eq!(connection.execute("UPDATE t SET id = id", &[]).unwrap(), 10, "{schema}");
        assert_eq!(ints(&connection, "SELECT sum(length(b) > 0) FROM t", &[]), [10], "{schema}");
        assert_eq!(connection.execute("DELETE FROM t", &[]).unwrap(), 10, "{schema}");
        assert_eq!(ints(&connection, "SELECT count(*) FROM t", &[]), [0], "{schema}");
    }
}

/// A scan that nothing is asked of stops all the same.
#[test]
fn a_count_can_be_interrupted() {
    let connection = filled().connect().unwrap();
    let handle = connection.interrupt_handle();
    let mut statement = connection.prepare("SELECT count(*) FROM t, t AS u, t AS v").unwrap();
    let is_over = AtomicBool::new(false);
    let stopped = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Again and again: what comes before the statement has begun is of no effect.
            while !is_over.load(Ordering::SeqCst) {
                std::thread::sleep(std::time::Duration::from_millis(30));
                handle.interrupt();
            }
        });
        let stopped = statement.query(&[]).and_then(|mut rows| rows.next().map(drop));
        is_over.store(true, Ordering::SeqCst);
        stopped.unwrap_err()
    });
    assert!(stopped.is_interrupted(), "{stopped}");
    drop(statement);
    assert_eq!(ints(&connection, "SELECT count(*) FROM t", &[]), [2000]);
}
