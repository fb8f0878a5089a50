//! Transactions, savepoints and statements that fail, of one connection.

use crate::support::{Both, database, fresh, is_over_a_store, rows};
use pando_sqlite::{Connection, Value};

#[test]
fn savepoints_nest_and_an_outermost_one_is_a_transaction() {
    let both = Both::new();
    both.execute("CREATE TABLE t(a PRIMARY KEY)");
    for sql in [
        "SAVEPOINT one",
        "INSERT INTO t VALUES (1)",
        "SAVEPOINT two",
        "INSERT INTO t VALUES (2)",
        "ROLLBACK TO two",
        "INSERT INTO t VALUES (3)",
        "RELEASE two",
        "SELECT * FROM t",
        "ROLLBACK TO one",
        "SELECT * FROM t",
        "INSERT INTO t VALUES (4)",
        "RELEASE one",
        "SELECT * FROM t",
        "BEGIN",
        "SAVEPOINT x",
        "SAVEPOINT x",
        "INSERT INTO t VALUES (5)",
        "RELEASE x",
        "INSERT INTO t VALUES (5)",
        "ROLLBACK TO x",
        "INSERT INTO t VALUES (6)",
        "CREATE TABLE u(b)",
        "INSERT INTO u VALUES (7)",
        "ROLLBACK TO x",
        "SELECT * FROM u",
        "CREATE TABLE u(c, d)",
        "INSERT INTO u VALUES (8, 9)",
        "COMMIT",
        "SELECT * FROM t, u",
        "ROLLBACK TO x",
    ] {
        both.query(sql);
    }
    assert_eq!(rows(&both.ours, "SELECT a FROM t"), ["4"]);
}

#[test]
fn a_statement_that_fails_leaves_nothing() {
    let both = Both::new();
    both.execute("CREATE TABLE t(a PRIMARY KEY, b UNIQUE); INSERT INTO t VALUES (1, 1), (5, 5)");
    for begin in ["", "BEGIN", "SAVEPOINT s"] {
        both.execute(begin);
        both.query("INSERT INTO t VALUES (2, 2), (3, 3), (4, 5), (6, 6)");
        both.query("UPDATE t SET b = b + 4");
        both.query("INSERT OR FAIL INTO t VALUES (7, 7), (8, 1)");
        both.query("SELECT * FROM t ORDER BY a");
        both.query(if begin == "BEGIN" { "ROLLBACK" } else { "SELECT 1" });
    }
}

#[test]
fn a_statement_reads_on_while_its_connection_writes() {
    let connection = fresh();
    connection
        .execute(
            "CREATE TABLE t(a INTEGER PRIMARY KEY, b);
             WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i+1 FROM n WHERE i<3000)
                INSERT INTO t SELECT i, 0 FROM n",
        )
        .expect("it runs");
    let mut reading = connection.prepare("SELECT a FROM t WHERE b = 0").expect("it is prepared");
    if is_over_a_store() {
        assert!(reading.step().expect("there is a row"));
        let error = connection.execute("UPDATE t SET b = 1 WHERE a = 1").expect_err("a statement is reading");
        assert!(error.message.contains("over a remote store"), "{error}");
        drop(reading);
        // Within `BEGIN`, both are one transaction.
        connection.execute("BEGIN").expect("it begins");
        reading = connection.prepare("SELECT a FROM t WHERE b = 0").expect("it is prepared");
    }
    let mut count = 0;
    while reading.step().expect("it reads on") {
        count += 1;
        let pando_sqlite::Value::Integer(id) = reading.value(0) else { panic!("an integer") };
        // The row itself, the next one, and one that is deleted.
        if id % 3 == 0 {
            let sql =
                format!("UPDATE t SET b = 1 WHERE a IN ({id}, {id} + 1); DELETE FROM t WHERE a = {id} - 1");
            connection.execute(&sql).expect("it writes");
        }
    }
    drop(reading);
    if connection.is_in_transaction() {
        connection.execute("COMMIT").expect("it commits");
    }
    assert_eq!(count, 2001, "of three rows, one was changed before it was read, but not the first one");
    assert_eq!(rows(&connection, "SELECT count(*), sum(b) FROM t"), ["2000|1999"]);
}

#[test]
fn a_rollback_ends_statements_that_read_what_is_gone() {
    let connection = fresh();
    connection
        .execute("CREATE TABLE t(a); INSERT INTO t VALUES (1), (2); BEGIN; CREATE TABLE u(b)")
        .expect("it runs");
    connection.execute("INSERT INTO u VALUES (1), (2), (3)").expect("it runs");
    let mut reading = connection.prepare("SELECT b FROM u").expect("it is prepared");
    assert!(reading.step().expect("it reads"));
    connection.execute("ROLLBACK").expect("it rolls back");
    assert_eq!(reading.step().expect_err("its table is gone").code & 0xff, 4);
    assert_eq!(connection.query("SELECT * FROM u").expect_err("it is gone").message, "no such table: u");
}

#[test]
fn what_was_committed_is_there_after_opening_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = "CREATE TABLE t(a INTEGER PRIMARY KEY AUTOINCREMENT, b UNIQUE);
                  INSERT INTO t(b) VALUES ('x'), ('y'); DELETE FROM t WHERE b = 'y';
                  PRAGMA user_version = 7; PRAGMA application_id = 9; CREATE VIEW v AS SELECT b FROM t;";
    {
        let db = pando::Database::create(dir.path()).expect("it is created");
        pando_sqlite::Connection::open(&db)
            .and_then(|connection| connection.execute(script))
            .expect("it runs");
        db.close().expect("it closes");
    }
    let db = pando::Database::open(dir.path()).expect("it opens");
    let connection = pando_sqlite::Connection::open(&db).expect("it opens");
    connection.execute("INSERT INTO t(b) VALUES ('z')").expect("it runs");
    assert_eq!(rows(&connection, "SELECT * FROM t"), ["1|x", "3|z"]);
    assert_eq!(rows(&connection, "SELECT * FROM v"), ["x", "z"]);
    assert_eq!(rows(&connection, "PRAGMA user_version"), ["7"]);
    assert_eq!(rows(&connection, "PRAGMA application_id"), ["9"]);
    assert_eq!(rows(&connection, "PRAGMA integrity_check"), ["ok"]);
}

/// Steps a query to its end while the statements of `between` run after its first row, on these connections.
fn read_beside(query: &str, on: &Connection, between: &[(&Connection, &str)]) -> Vec<String> {
    let mut statement = on.prepare(query).unwrap();
    let mut rows = Vec::new();
    while statement.step().unwrap() {
        rows.push((0..statement.columns()).map(|at| format!("{:?}", statement.value(at))).collect());
        if rows.len() == 1 {
            between.iter().for_each(|(on, sql)| on.execute(sql).unwrap());
        }
    }
    rows
}

#[test]
fn a_query_reads_on_in_its_state_after_a_transaction_that_wrote_nothing_has_ended() {
    if is_over_a_store() {
        return; // It cannot read on there, and says so.
    }
    let db = database();
    let [one, other] = [(), ()].map(|()| Connection::open(&db).unwrap());
    one.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)").unwrap();
    let fill = "WITH n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 2000) \
                INSERT INTO t SELECT i, 1 FROM n";
    one.execute(fill).unwrap();
    for end in ["COMMIT", "ROLLBACK"] {
        let drop = "DROP TABLE t; CREATE TABLE t(a INTEGER PRIMARY KEY, b)";
        for write in ["UPDATE t SET b = 2", "DELETE FROM t", drop] {
            one.execute("BEGIN").unwrap();
            let all = rows(&one, "SELECT * FROM t");
            let read = read_beside("SELECT * FROM t", &one, &[(&other, write), (&one, end)]);
            assert_eq!(read.len(), all.len(), "{write}, {end}");
            assert!(read.iter().all(|row| row.ends_with("Integer(1)")), "{write}, {end}: {:?}", read.last());
            other.execute("DELETE FROM t").unwrap();
            other.execute(fill).unwrap();
        }
    }
}

#[test]
fn a_table_that_a_rollback_to_a_savepoint_gave_back_is_forgotten_with_its_transaction() {
    let db = database();
    let [one, other] = [(), ()].map(|()| Connection::open(&db).unwrap());
    for object in ["TABLE made", "INDEX made_x"] {
        one.execute("BEGIN IMMEDIATE; CREATE TABLE made(x); CREATE INDEX made_x ON made(x)").unwrap();
        one.execute("SAVEPOINT s").unwrap();
        one.execute(&format!("DROP {object}; ROLLBACK TO s")).unwrap();
        assert_eq!(rows(&one, "SELECT * FROM made WHERE x = 1"), [""; 0]);
        one.execute("ROLLBACK").unwrap();
        other.execute("CREATE TABLE later(x UNIQUE); INSERT INTO later VALUES ('a row')").unwrap();
        assert_eq!(rows(&one, "SELECT * FROM later"), ["a row"]);
        one.execute("INSERT INTO later VALUES ('of one')").unwrap();
        assert_eq!(rows(&one, "PRAGMA integrity_check"), ["ok"]);
        other.execute("DROP TABLE later").unwrap();
    }
}

#[test]
fn a_query_whose_tables_are_rolled_back_ends_with_sqlites_words() {
    for connection in [fresh(), Connection::in_memory().expect("it opens")] {
        connection.execute("CREATE TABLE t(a); INSERT INTO t VALUES (1), (2), (3)").expect("it runs");
        connection.execute("BEGIN; CREATE TABLE u(a); INSERT INTO t VALUES (4)").expect("it runs");
        let mut reading = connection.prepare("SELECT * FROM t").expect("it is prepared");
        assert!(reading.step().expect("there is a row"));
        connection.execute("ROLLBACK").expect("it rolls back");
        let error = reading.step().expect_err("a table is gone");
        assert_eq!((error.code, &*error.message), (516, "abort due to ROLLBACK"));
    }
}

/// A table of 60 rows.
const SIXTY: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE u(a);
    WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 60)
        INSERT INTO t SELECT i, i FROM r";
/// Changes some of them that a query has read ahead.
const CHANGE: &str = "DELETE FROM t WHERE id BETWEEN 10 AND 30; UPDATE t SET v = 100 WHERE id = 8";

/// Reads a row of a table, ends the transaction, reads some rows on, changes the table, and reads the rest.
fn read_through(on: &Connection, end: impl Fn(), change: &str) -> Vec<(i64, i64)> {
    let mut query = on.prepare("SELECT id, v FROM t").unwrap();
    let mut rows = Vec::new();
    while query.step().unwrap() {
        let [Value::Integer(id), Value::Integer(v)] = [query.value(0), query.value(1)] else { panic!() };
        rows.push((id, v));
        match rows.len() {
            1 => end(),
            5 => on.execute(change).unwrap(),
            _ => {}
        }
    }
    rows
}

#[test]
fn a_query_that_outlives_a_rollback_sees_what_its_connection_writes() {
    if is_over_a_store() {
        return; // It cannot read on there, and says so.
    }
    let db = database();
    Connection::open(&db).unwrap().execute(SIXTY).unwrap();
    // The connection uses the table for the first time within its transaction.
    let [ours, theirs] = [Connection::open(&db), Connection::in_memory()].map(Result::unwrap);
    theirs.execute(SIXTY).unwrap();
    let read = |on: &Connection| {
        on.execute("BEGIN").unwrap();
        read_through(on, || on.execute("ROLLBACK").unwrap(), CHANGE)
    };
    let ours = read(&ours);
    assert_eq!(ours, read(&theirs));
    assert_eq!(ours.len(), 39);
}

#[test]
fn a_query_that_outlives_a_commit_that_failed_sees_what_its_connection_writes() {
    if is_over_a_store() {
        return; // It cannot read on there, and says so.
    }
    let db = database();
    let other = Connection::open(&db).unwrap();
    other.execute(SIXTY).unwrap();
    let one = Connection::open(&db).unwrap();
    one.execute("BEGIN; INSERT INTO u VALUES (1)").unwrap();
    let end = || {
        other.execute("UPDATE t SET v = 50 WHERE id = 5").unwrap();
        assert_eq!(one.execute("COMMIT").expect_err("what it has read changed").code, 517);
    };
    let read = read_through(&one, end, CHANGE);
    let shown: Vec<_> = read.iter().map(|(id, v)| format!("{id}|{v}")).collect();
    assert_eq!(shown, rows(&other, "SELECT id, v FROM t"));
    assert_eq!(read.len(), 39);
}

#[test]
fn an_outermost_release_that_meets_a_conflict_ends_its_transaction_as_a_commit_does() {
    let db = database();
    let [one, other] = [(), ()].map(|()| Connection::open(&db).expect("it opens"));
    one.execute("CREATE TABLE t(a)").expect("it is created");
    for (at, inner) in ["", "SAVEPOINT inner", "SAVEPOINT s"].into_iter().enumerate() {
        one.execute("SAVEPOINT s").expect("it begins");
        one.execute(inner).expect("it nests");
        rows(&one, "SELECT count(*) FROM t");
        other.execute("INSERT INTO t VALUES ('other')").expect("nothing excludes it");
        one.execute("INSERT INTO t VALUES ('lost')").expect("it writes");
        if inner == "SAVEPOINT s" {
            one.execute("RELEASE s").expect("it is not the outermost one");
        }
        assert_eq!(one.execute("RELEASE s").expect_err("what it has read changed").code, 517);
        assert!(!one.is_in_transaction(), "{inner}");
        let error = one.execute("RELEASE s").expect_err("it has ended");
        assert_eq!(error.message, "no such savepoint: s");
        one.execute("SAVEPOINT s; INSERT INTO t VALUES ('kept'); RELEASE s").expect("nothing conflicts");
        let count = rows(&other, "SELECT count(*) FROM t WHERE a = 'kept'");
        assert_eq!(count, [(at + 1).to_string()], "{inner}");
    }
    assert_eq!(rows(&other, "SELECT count(*) FROM t WHERE a = 'lost'"), ["0"]);
}

#[test]
fn what_a_deferred_foreign_key_holds_up_stays_open() {
    let both = Both::new();
    both.execute(
        "PRAGMA foreign_keys = ON;
         CREATE TABLE p(a PRIMARY KEY);
         CREATE TABLE c(a REFERENCES p DEFERRABLE INITIALLY DEFERRED)",
    );
    for (begin, end) in [("SAVEPOINT s", "RELEASE s"), ("BEGIN", "COMMIT")] {
        both.execute(begin);
        both.execute("INSERT INTO c VALUES (1)");
        for _ in 0..2 {
            both.execute(end);
            assert!(both.ours.is_in_transaction() && both.theirs.is_in_transaction(), "{end}");
        }
        both.execute("INSERT INTO p VALUES (1)");
        both.execute(end);
        assert!(!both.ours.is_in_transaction() && !both.theirs.is_in_transaction(), "{end}");
        assert_eq!(both.query("SELECT * FROM c, p"), 1, "{end}");
        both.execute("DELETE FROM c; DELETE FROM p");
    }
}
