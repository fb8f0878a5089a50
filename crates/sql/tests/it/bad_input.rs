//! What must not be stored, is not: a clear error, and every table and index as it was.

use crate::support::is_over_a_store;
use crate::support::typed::{Connection, Sql};
use pando_sql::Value;
use rows::CheckReport;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SCHEMA: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER NOT NULL, b TEXT UNIQUE, c REAL);
     CREATE INDEX by_a ON t(a, b DESC);
     CREATE TABLE k(name TEXT PRIMARY KEY, v);
     INSERT INTO t VALUES(1, 10, 'x', 0.5), (2, 20, 'y', NULL), (3, 30, NULL, 1e300);
     INSERT INTO k VALUES('one', 1), ('two', x'02');";

fn open() -> Sql {
    let sql = Sql::new(crate::support::database());
    sql.connect().unwrap().execute_batch(SCHEMA).unwrap();
    sql
}

/// All rows of all tables; indexes agree with them.
fn state(sql: &Sql) -> Vec<(String, Vec<Vec<Value>>)> {
    let report: CheckReport = rows::check(&sql.database().snapshot().unwrap(), |_| {}).unwrap();
    assert_eq!(report.problems, []);
    let connection = sql.connect().unwrap();
    let tables = connection.tables().unwrap();
    let all = |table: &pando_sql::TableSchema| {
        let rows = connection.query(&format!("SELECT * FROM \"{}\" ORDER BY 1", table.name), &[]).unwrap();
        (format!("{} {:?}", table.create, table.indexes), rows)
    };
    tables.iter().map(all).collect()
}

/// Runs a statement that must fail, by itself and within a transaction that goes on and is committed.
fn refused(sql: &Sql, statement: &str, parameters: &[Value], says: &str) {
    let before = state(sql);
    for in_transaction in [false, true] {
        let connection = sql.connect().unwrap();
        if in_transaction {
            connection.execute("BEGIN", &[]).unwrap();
        }
        let error = connection.execute(statement, parameters).unwrap_err();
        assert!(error.message().contains(says), "{statement}: {error}");
        if in_transaction {
            connection.execute("COMMIT", &[]).unwrap();
        }
        assert_eq!(state(sql), before, "{statement}");
    }
}

#[test]
fn what_does_not_fit_is_refused_whole() {
    let sql = open();
    let long = "l".repeat(5000);
    let cases: &[(&str, &str)] = &[
        ("INSERT INTO t VALUES(7, 1, 'q', 1), (8, 'eight', 'r', 1)", "cannot store TEXT value in INTEGER"),
        ("UPDATE t SET c = 'much'", "cannot store TEXT value in REAL"),
        ("INSERT INTO t VALUES(7, x'00', 'q', 1)", "cannot store BLOB value in INTEGER"),
        ("INSERT INTO t VALUES('seven', 1, 'q', 1)", "datatype mismatch"),
        ("INSERT INTO t VALUES(7, 1, 'q', 1), (8, NULL, 'r', 1)", "NOT NULL constraint failed: t.a"),
        ("INSERT INTO k VALUES('three', 3), (NULL, 4)", "NOT NULL constraint failed: k.name"),
        ("INSERT INTO t VALUES(7, 1, 'q', 1), (8, 1, 'y', 1)", "UNIQUE constraint failed: t.b"),
        ("UPDATE t SET b = 'same'", "UNIQUE constraint failed: t.b"),
        ("INSERT INTO t SELECT id + 5, a, NULL, c FROM t UNION ALL SELECT 1, 1, NULL, 1", "t.id"),
        ("CREATE UNIQUE INDEX one ON t(c IS NULL)", "expression"),
        ("ALTER TABLE t ADD COLUMN o INTEGER REFERENCES t(id)", "foreign keys are not enforced"),
        ("INSERT INTO t VALUES(1", "incomplete input"),
        ("INSERT INTO t VALUES(?, ?, ?, ?)", "the statement has 4 parameters, 0 values were given"),
    ];
    for (statement, says) in cases {
        refused(&sql, statement, &[], says);
    }
    let two = "INSERT INTO k VALUES('before', 0), (?, 1)";
    refused(&sql, two, &[long.clone().into()], "table \"k\"");
    // In an index, too: the row's own key is short.
    refused(&sql, "INSERT INTO t VALUES(9, 9, ?, 9)", &[long.into()], "is too long");
    refused(&sql, "INSERT INTO k VALUES(CAST(x'ff' AS TEXT), 1)", &[], "text that is not UTF-8");
}

#[test]
fn of_two_that_insert_the_same_one_is_told() {
    let sql = open();
    let (one, two) = (sql.connect().unwrap(), sql.connect().unwrap());
    for (connection, id) in [(&one, 7), (&two, 8)] {
        connection.execute("BEGIN", &[]).unwrap();
        let row = format!("INSERT INTO t VALUES({id}, 1, 'the same', 1)");
        connection.execute(&row, &[]).unwrap();
    }
    one.execute("COMMIT", &[]).unwrap();
    let after_one = state(&sql);
    let error = two.execute("COMMIT", &[]).unwrap_err();
    assert!(error.is_conflict(), "{error}");
    let place = error.conflict().map(|conflict| (conflict.table(), conflict.key().is_some()));
    // A store does not say where it was.
    if !is_over_a_store() {
        assert_eq!(place, Some(("t", true)));
        assert!(error.message().contains("index"), "{error}");
    }
    assert_eq!(state(&sql), after_one);
    refused(&sql, "INSERT INTO t VALUES(8, 1, 'the same', 1)", &[], "UNIQUE constraint failed: t.b");
    // Many threads, one value: one of them has it.
    let before = state(&sql)[1].1.len();
    let inserted: usize = std::thread::scope(|scope| {
        let insert = |id: i64| {
            let connection = sql.connect().unwrap();
            let row = format!("INSERT INTO t VALUES({id}, 1, 'contended', 1)");
            let inserted = connection.execute(&row, &[]);
            if let Err(error) = &inserted {
                assert!(error.is_constraint(), "{error}");
            }
            usize::from(inserted.is_ok())
        };
        let threads: Vec<_> = (100..108).map(|id| scope.spawn(move || insert(id))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((inserted, state(&sql)[1].1.len()), (1, before + 1));
}

#[test]
fn a_schema_changed_meanwhile_is_told_at_commit() {
    let sql = open();
    let (one, two) = (sql.connect().unwrap(), sql.connect().unwrap());
    one.execute("BEGIN", &[]).unwrap();
    one.execute("INSERT INTO t VALUES(7, 70, 'late', 7)", &[]).unwrap();
    two.execute("ALTER TABLE t ADD COLUMN more INTEGER DEFAULT 1", &[]).unwrap();
    let changed = state(&sql);
    let error = one.execute("COMMIT", &[]).unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert_eq!(state(&sql), changed);
    // What was prepared before is prepared anew.
    let mut statement = one.prepare("SELECT count(*) FROM t WHERE a = 20").unwrap();
    two.execute("DROP INDEX by_a", &[]).unwrap();
    let mut rows = statement.query(&[]).unwrap();
    assert_eq!(rows.next().unwrap().unwrap().get(0).as_i64().unwrap(), 1);
    drop(rows);
    two.execute("DROP TABLE t", &[]).unwrap();
    let error = statement.query(&[]).and_then(|mut rows| rows.next().map(drop)).unwrap_err();
    assert!(error.message().contains("no such table: t"), "{error}");
}

/// A statement that would go on for minutes.
fn endless(connection: &Connection) -> pando_sql::Error {
    let sql = "INSERT INTO t(a) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
               SELECT i FROM n LIMIT 1000000000";
    connection.execute(sql, &[]).unwrap_err()
}

#[test]
fn an_interrupted_statement_leaves_nothing() {
    let sql = open();
    let before = state(&sql);
    let mut connection = sql.connect().unwrap();
    let interrupt = connection.interrupt_handle();
    let is_over = AtomicBool::new(false);
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(20));
                interrupt.interrupt();
            }
        });
        let error = endless(&connection);
        is_over.store(true, Ordering::SeqCst);
        error
    });
    assert!(error.is_interrupted(), "{error}");
    assert_eq!(state(&sql), before);
    let mut calls = 0;
    let stop = move || {
        calls += 1;
        calls > 3
    };
    connection.on_progress(Some(stop)).unwrap();
    connection.execute("BEGIN", &[]).unwrap();
    let error = endless(&connection);
    assert!(error.is_interrupted(), "{error}");
    connection.on_progress(None::<fn() -> bool>).unwrap();
    // SQLite ends the transaction of an interrupted write.
    assert!(connection.is_autocommit() || connection.execute("ROLLBACK", &[]).is_ok());
    assert_eq!(state(&sql), before);
}

#[test]
fn an_index_is_built_beside_writers() {
    let sql = open();
    let first = sql.connect().unwrap();
    first
        .execute(
            "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
             INSERT INTO t SELECT i, i % 100, 'b' || i, i FROM n",
            &[],
        )
        .unwrap();
    let (is_over, has_begun) = (AtomicBool::new(false), AtomicBool::new(false));
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let connection = sql.connect().unwrap();
            let mut written = 0;
            while !is_over.load(Ordering::SeqCst) {
                let id = 100 + written * 37 % 11_000;
                let change = format!("UPDATE t SET c = c + 0.5, a = a + 1 WHERE id = {id}");
                match connection.execute(&change, &[]) {
                    Ok(changed) => assert_eq!(changed, 1),
                    Err(error) => assert!(error.is_conflict(), "{error}"),
                }
                written += 1;
                has_begun.store(true, Ordering::SeqCst);
            }
            written
        });
        while !has_begun.load(Ordering::SeqCst) && !writer.is_finished() {
            std::thread::yield_now();
        }
        first.execute("CREATE INDEX by_c ON t(c)", &[]).unwrap();
        is_over.store(true, Ordering::SeqCst);
        writer.join().unwrap()
    });
    assert!(written > 0, "nobody wrote beside it");
    state(&sql);
    let plan = first.query("EXPLAIN QUERY PLAN SELECT id FROM t WHERE c > 11990", &[]).unwrap();
    assert!(format!("{plan:?}").contains("by_c"), "{plan:?}");
    // One that is not unique is not there afterwards.
    refused_online(&sql, "CREATE UNIQUE INDEX one ON t(a)");
    first.execute("BEGIN; ", &[]).unwrap();
    first.execute("CREATE INDEX in_transaction ON t(a)", &[]).unwrap();
    first.execute("ROLLBACK", &[]).unwrap();
    assert!(
        first
            .tables()
            .unwrap()
            .iter()
            .all(|table| table.indexes.iter().all(|index| !index.contains("in_tr")))
    );
}

fn refused_online(sql: &Sql, statement: &str) {
    let before = state(sql);
    let error = sql.connect().unwrap().execute(statement, &[]).unwrap_err();
    assert!(error.message().contains("UNIQUE constraint failed: t.a"), "{error}");
    assert_eq!(state(sql), before);
}

/// A row that replaces another, and then cannot be written for all that, leaves the other where it was.
#[test]
fn a_row_that_cannot_replace_another_leaves_it() {
    let sql = open();
    let long = "l".repeat(5000);
    for statement in [
        "INSERT OR REPLACE INTO t VALUES(1, 9, ?, 9)",
        "REPLACE INTO t(id, a, b) VALUES(2, 9, ?)",
        "UPDATE OR REPLACE t SET id = 1, b = ? WHERE id = 2",
    ] {
        refused(&sql, statement, &[long.clone().into()], "is too long");
    }
}

/// Comparisons with numbers that no float is, and with text that is none, by an index as without.
#[test]
fn odd_bounds_leave_nothing_out() {
    let sql = open();
    let connection = sql.connect().unwrap();
    connection
        .execute_batch(
            "CREATE TABLE r(id INTEGER PRIMARY KEY, r REAL, s TEXT, i INTEGER);
             INSERT INTO r VALUES(1, 9007199254740992.0, 'a', 1), (2, 9007199254740994.0, 'z', 2),
                 (3, -9007199254740992.0, NULL, NULL), (4, NULL, '', -9223372036854775808)",
        )
        .unwrap();
    let bounds = [
        "9007199254740993",
        "-9007199254740993",
        "-9223372036854775808.0",
        "'9007199254740993'",
        "CAST(x'ff' AS TEXT)",
    ];
    let all = || -> Vec<_> {
        let columns = ["r", "s", "i"];
        let conditions = columns.iter().flat_map(|column| {
            let compared =
                ["<", "<=", "=", ">=", ">"].iter().flat_map(|op| bounds.map(|b| format!("{op} {b}")));
            compared.map(|rest| format!("{column} {rest}")).collect::<Vec<_>>()
        });
        let ids = |condition: String| {
            let found = connection.query(&format!("SELECT id FROM r WHERE {condition} ORDER BY id"), &[]);
            (condition, found.unwrap())
        };
        conditions.map(ids).collect()
    };
    let scanned = all();
    assert!(scanned.iter().any(|(_, ids)| ids.len() == 3));
    connection
        .execute_batch("CREATE INDEX by_r ON r(r); CREATE INDEX by_s ON r(s); CREATE INDEX by_i ON r(i DESC)")
        .unwrap();
    let plan = connection.query("EXPLAIN QUERY PLAN SELECT id FROM r WHERE r < 5", &[]).unwrap();
    assert!(format!("{plan:?}").contains("by_r"), "{plan:?}");
    assert_eq!(all(), scanned);
}

/// A transaction that began on a connection that only reads goes on so.
#[test]
fn a_transaction_begun_to_read_writes_only_if_nothing_was_committed_since() {
    if is_over_a_store() {
        return; // It does not begin to write there.
    }
    let sql = open();
    let (connection, other) = (sql.connect().unwrap(), sql.connect().unwrap());
    let insert = "INSERT INTO k VALUES('three', 3)";
    for is_alone in [false, true] {
        connection.set_read_only(true);
        connection.execute("BEGIN", &[]).unwrap();
        assert_eq!(connection.execute(insert, &[]).unwrap_err().code(), 8);
        connection.query("SELECT * FROM k", &[]).unwrap();
        connection.set_read_only(false);
        if is_alone {
            connection.execute(insert, &[]).unwrap();
        } else {
            other.execute("INSERT INTO k VALUES('four', 4)", &[]).unwrap();
            assert!(connection.execute(insert, &[]).unwrap_err().is_conflict());
        }
        connection.execute("ROLLBACK", &[]).unwrap();
    }
    connection.execute(insert, &[]).unwrap();
}

#[test]
fn an_index_that_a_row_is_too_long_for_is_refused() {
    let sql = open();
    let connection = sql.connect().unwrap();
    connection.execute_batch("CREATE TABLE longs(id INTEGER PRIMARY KEY, b TEXT)").unwrap();
    connection.execute("INSERT INTO longs(b) VALUES('short'), (?)", &["l".repeat(5000).into()]).unwrap();
    refused(&sql, "CREATE INDEX by_b ON longs(b)", &[], "too long");
    connection.execute("INSERT INTO longs(b) VALUES(?)", &["m".repeat(5000).into()]).unwrap();
    // Nor is anything found by what is no key.
    for query in
        ["SELECT * FROM k WHERE name = ?", "SELECT * FROM k WHERE name > ?", "SELECT * FROM t WHERE b = ?"]
    {
        let found = connection.query(query, &["z".repeat(5000).into()]).unwrap();
        assert!(found.is_empty(), "{query}");
    }
}

#[test]
fn a_text_with_a_nul_is_refused_as_a_whole() {
    let db = pando::Database::builder().in_memory().unwrap();
    let made = pando_sqlite::Connection::open(&db).unwrap();
    made.execute("CREATE TABLE s(id INTEGER PRIMARY KEY)").unwrap();
    let connection = Sql::new(db).connect().unwrap();
    connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)", &[]).unwrap();
    for table in ["s", "t"] {
        connection.execute(&format!("INSERT INTO {table} VALUES (1), (2)"), &[]).unwrap();
        for sql in [
            format!("DELETE FROM {table}\0 WHERE id = 1"),
            format!("DELETE FROM {table} -- \0\n WHERE id = 1"),
            format!("\0 DELETE FROM {table}"),
            "CREATE TABLE u(a, b \0 CHECK (a > 0))".to_owned(),
            format!("CREATE INDEX by_id ON {table}(id) \0 WHERE id > 5"),
            format!("INSERT INTO {table} VALUES (3) \0 RETURNING id"),
        ] {
            let error = connection.execute(&sql, &[]).unwrap_err();
            assert!(error.message().contains("zero byte"), "{sql:?}: {error}");
            assert!(connection.query(&sql, &[]).is_err());
            assert!(connection.execute_batch(&sql).is_err());
        }
        let count = connection.query(&format!("SELECT count(*) FROM {table}"), &[]).unwrap();
        assert_eq!(count, [[2.into()]]);
    }
    assert!(connection.prepare("SELECT * FROM u").is_err());
    // A value can have one.
    let value = Value::Text("a\0b".to_owned());
    assert_eq!(connection.query("SELECT ?", std::slice::from_ref(&value)).unwrap(), [[value]]);
}
