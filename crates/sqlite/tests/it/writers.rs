//! Several connections to one database.

use crate::support::{database, is_over_a_store, rows};
use pando::any::AnyDatabase;
use pando_sqlite::Connection;
use std::thread;

const BUSY_SNAPSHOT: i32 = 517;

fn two() -> (Connection, Connection) {
    let db = database();
    let one = Connection::open(&db).expect("it opens");
    one.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b UNIQUE)").expect("it runs");
    (one, Connection::open(&db).expect("it opens"))
}

#[test]
fn two_writers_of_different_rows_both_commit() {
    if is_over_a_store() {
        return; // PostgreSQL finds conflicts by pages of its index, and a small table is one.
    }
    let (one, two) = two();
    for connection in [&one, &two] {
        connection.execute("BEGIN").expect("it begins");
    }
    one.execute("INSERT INTO t VALUES (1, 'one')").expect("it writes");
    two.execute("INSERT INTO t VALUES (2, 'two')").expect("it writes beside the other");
    one.execute("COMMIT").expect("it commits");
    two.execute("COMMIT").expect("it commits, too");
    for connection in [&one, &two] {
        assert_eq!(rows(connection, "SELECT * FROM t"), ["1|one", "2|two"]);
    }
}

#[test]
fn a_conflict_is_reported_and_names_the_table_and_the_key() {
    let (one, two) = two();
    one.execute("INSERT INTO t VALUES (1, 'x')").expect("it writes");
    for (connection, name) in [(&one, "one"), (&two, "two")] {
        connection.execute("BEGIN").expect("it begins");
        let sql = format!("UPDATE t SET b = '{name}' WHERE a = 1");
        connection.execute(&sql).expect("it writes");
    }
    one.execute("COMMIT").expect("it commits");
    let error = two.execute("COMMIT").expect_err("the row was changed");
    assert_eq!(error.code, BUSY_SNAPSHOT);
    assert!(is_over_a_store() || error.message.contains("conflict in table t at rowid 1:"), "{error}");
    assert!(!two.is_in_transaction(), "the transaction is over, and can be run again");
    assert_eq!(rows(&two, "SELECT * FROM t"), ["1|one"]);
}

#[test]
fn a_phantom_is_a_conflict() {
    let (one, two) = two();
    for (connection, id) in [(&one, 1), (&two, 2)] {
        connection.execute("BEGIN").expect("it begins");
        assert_eq!(rows(connection, "SELECT count(*) FROM t"), ["0"]);
        connection.execute(&format!("INSERT INTO t VALUES ({id}, {id})")).expect("it writes");
    }
    one.execute("COMMIT").expect("it commits");
    assert_eq!(two.execute("COMMIT").expect_err("what it counted has changed").code, BUSY_SNAPSHOT);
}

#[test]
fn rows_beside_those_that_a_join_seeks_are_no_conflict() {
    if is_over_a_store() {
        return; // PostgreSQL finds conflicts by pages of its index, and a small table is one.
    }
    let (one, two) = two();
    one.execute("INSERT INTO t SELECT value, value FROM json_each('[1,2,3,4,5,6]')").expect("it writes");
    one.execute("BEGIN").expect("it begins");
    let join = "WITH v(a) AS (VALUES (1), (2), (3)) SELECT sum(t.b) FROM v CROSS JOIN t ON t.a = v.a";
    assert_eq!(rows(&one, join), ["6"]);
    one.execute("UPDATE t SET b = 7 WHERE a = 1").expect("it writes");
    two.execute("UPDATE t SET b = 9 WHERE a = 4").expect("it writes");
    one.execute("COMMIT").expect("nothing that it read has changed");
    let all = "WITH v(a) AS (VALUES (1), (2), (4), (5), (8), (9), (3))
               SELECT v.a, t.b FROM v LEFT JOIN t ON t.a = v.a";
    assert_eq!(rows(&one, all), ["1|7", "2|2", "4|9", "5|5", "8|NULL", "9|NULL", "3|3"]);
}

/// What a statement looks up by an index are the entries with one value, whichever way it goes through them.
#[test]
fn entries_beside_those_with_a_value_are_no_conflict() {
    if is_over_a_store() {
        return; // As above.
    }
    let by_index = [
        "SELECT count(c) FROM t WHERE b = 3",
        "SELECT c FROM t WHERE b = 3 ORDER BY a DESC",
        "UPDATE t SET c = c + 1 WHERE b = 3",
        "DELETE FROM t WHERE b = 3",
        "DELETE FROM parent WHERE id = 3",
        "SELECT c FROM w WHERE b = 3",
        "SELECT c FROM w WHERE b = 3 AND a = 1",
        "SELECT c FROM w WHERE b = 3 AND a = 1 ORDER BY b DESC, a DESC",
        "UPDATE w SET c = c + 1 WHERE b = 3 AND a = 1",
    ];
    let others = [(true, "b = 2"), (true, "b = 4"), (false, "b = 3")];
    for (look_up, rows_of_a_value) in
        by_index.into_iter().flat_map(|sql| [1, 4, 5, 40].map(|rows| (sql, rows)))
    {
        for (is_beside, changed) in others {
            let (one, two) = two();
            let fill = format!(
                "DROP TABLE t; PRAGMA foreign_keys = ON; CREATE TABLE parent(id INTEGER PRIMARY KEY);
                 CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER REFERENCES parent ON DELETE CASCADE, c);
                 CREATE INDEX by_b ON t(b); INSERT INTO parent VALUES (2), (3), (4), (9);
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3 * {rows_of_a_value})
                     INSERT INTO t SELECT i, 2 + i % 3, i FROM n;
                 CREATE TABLE w(b INTEGER, a INTEGER, c, PRIMARY KEY (b, a)) WITHOUT ROWID;
                 INSERT INTO w SELECT b, a, c FROM t"
            );
            one.execute(&fill).expect("it writes");
            one.execute("BEGIN").expect("it begins");
            one.execute(look_up).expect(look_up);
            one.execute("INSERT INTO parent VALUES (11)").expect("it writes");
            for table in ["t", "w"] {
                two.execute(&format!("UPDATE {table} SET b = 9 WHERE {changed}")).expect("it writes");
            }
            let committed = one.execute("COMMIT").map_err(|error| error.code);
            let expected = if is_beside { Ok(()) } else { Err(BUSY_SNAPSHOT) };
            assert_eq!(
                committed, expected,
                "{look_up}, {rows_of_a_value} rows, beside a change of {changed}"
            );
        }
    }
}

#[test]
fn different_values_of_a_unique_column_are_no_conflict() {
    if is_over_a_store() {
        return; // PostgreSQL finds conflicts by pages of its index, and a small table is one.
    }
    let long = "x".repeat(3000);
    for (definition, is_found_by) in [
        ("CREATE TABLE u(a INTEGER PRIMARY KEY, b UNIQUE)", "b ="),
        ("CREATE TABLE u(a INTEGER PRIMARY KEY, b UNIQUE COLLATE NOCASE)", "b ="),
        ("CREATE TABLE u(a, b PRIMARY KEY) WITHOUT ROWID", "b ="),
        ("CREATE TABLE u(a, c DEFAULT 'c', b, PRIMARY KEY(c, b)) WITHOUT ROWID", "c = 'c' AND b ="),
    ] {
        let (one, two) = two();
        one.execute(definition).expect("it runs");
        let first = format!("INSERT INTO u(a, b) VALUES (1, 'a'), (9, 'z'), (10, '{long}')");
        one.execute(&first).expect("it writes");
        for (connection, id) in [(&one, 2), (&two, 3)] {
            connection.execute("BEGIN").expect("it begins");
            let count = format!("SELECT count(*) FROM u WHERE {is_found_by} 'm{id}'");
            assert_eq!(rows(connection, &count), ["0"]);
            connection.execute(&format!("INSERT INTO u(a, b) VALUES ({id}, 'm{id}')")).expect("it writes");
        }
        one.execute("COMMIT").expect("it commits");
        two.execute("COMMIT").unwrap_or_else(|error| panic!("{definition}: {error}"));
        assert_eq!(rows(&two, "SELECT a FROM u ORDER BY b"), ["1", "2", "3", "10", "9"]);
        for connection in [&one, &two] {
            connection.execute("BEGIN; INSERT INTO u(a, b) VALUES (4, 'same')").expect("it writes");
        }
        one.execute("COMMIT").expect("it commits");
        assert_eq!(two.execute("COMMIT").expect_err("the value is taken").code, BUSY_SNAPSHOT);
        assert_eq!(rows(&two, "PRAGMA integrity_check"), ["ok"]);
    }
}

#[test]
fn uniqueness_holds_between_writers() {
    let (one, two) = two();
    for (connection, id) in [(&one, 1), (&two, 2)] {
        connection.execute("BEGIN").expect("it begins");
        connection.execute(&format!("INSERT INTO t VALUES ({id}, 'same')")).expect("it writes");
    }
    one.execute("COMMIT").expect("it commits");
    assert_eq!(two.execute("COMMIT").expect_err("the value is taken").code, BUSY_SNAPSHOT);
    assert_eq!(rows(&two, "SELECT a FROM t"), ["1"]);
}

#[test]
fn a_changed_schema_is_seen_and_conflicts_with_writers() {
    let (one, two) = two();
    two.execute("BEGIN; INSERT INTO t VALUES (2, 2)").expect("it writes");
    one.execute("ALTER TABLE t ADD COLUMN c DEFAULT 5").expect("it alters");
    assert_eq!(two.execute("COMMIT").expect_err("the schema has changed").code, BUSY_SNAPSHOT);
    two.execute("INSERT INTO t(a) VALUES (3)").expect("it sees the new schema");
    assert_eq!(rows(&two, "SELECT a, c FROM t"), ["3|5"]);
    one.execute("DROP TABLE t").expect("it drops");
    assert_eq!(two.query("SELECT * FROM t").expect_err("it is gone").message, "no such table: t");
}

#[test]
fn transfers_by_several_threads_keep_the_sum() {
    const ACCOUNTS: u64 = 20;
    let db = database();
    let connection = Connection::open(&db).expect("it opens");
    connection.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b); CREATE INDEX i ON t(b)").expect("it runs");
    for id in 0..ACCOUNTS {
        connection.execute(&format!("INSERT INTO t VALUES ({id}, 100)")).expect("it runs");
    }
    let committed: u64 = thread::scope(|scope| {
        let db = &db;
        let spawn = |seed| scope.spawn(move || transfers(db, seed, ACCOUNTS));
        let threads: Vec<_> = (0..4).map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends")).sum()
    });
    assert!(committed > 0);
    assert_eq!(rows(&connection, "SELECT sum(b), count(*) FROM t"), ["2000|20"]);
    assert_eq!(rows(&connection, "PRAGMA integrity_check"), ["ok"]);
}

/// Moves 1 from an account to another 100 times, and returns how often that was committed.
fn transfers(db: &AnyDatabase, seed: u64, accounts: u64) -> u64 {
    let connection = Connection::open(db).expect("it opens");
    let mut random = base::env::Random::seeded(seed);
    let mut committed = 0;
    for _ in 0..100 {
        let (from, to) = (random.below(accounts), random.below(accounts));
        let work = format!(
            "BEGIN; UPDATE t SET b = b - 1 WHERE a = {from}; UPDATE t SET b = b + 1 WHERE a = {to}; COMMIT;"
        );
        match connection.execute(&work) {
            Ok(()) => committed += 1,
            Err(error) => assert_eq!(error.code, BUSY_SNAPSHOT, "{error}"),
        }
    }
    committed
}
