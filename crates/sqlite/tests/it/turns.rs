//! Whose turn it is to write: `BEGIN IMMEDIATE`, busy timeouts, statements that are repeated, rowids of several
//! writers.

use crate::support::rows;
use pando::Database;
use pando_sqlite::Connection;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const BUSY: i32 = 5;
const BUSY_SNAPSHOT: i32 = 517;

fn several<const N: usize>(schema: &str) -> (Database, [Connection; N]) {
    let db = Database::builder().in_memory().expect("it opens");
    let connections = std::array::from_fn(|_| Connection::open(&db).expect("it opens"));
    connections[0].execute(schema).expect("it runs");
    (db, connections)
}

#[track_caller]
fn busy(connection: &Connection, sql: &str) {
    let error = connection.execute(sql).expect_err(sql);
    assert_eq!(error.code, BUSY, "{sql}: {error}");
    assert!(error.message.starts_with("database is locked: another connection excludes"), "{error}");
}

#[test]
fn begin_immediate_excludes_other_writers() {
    let (db, [one, two]) = several("CREATE TABLE t(a INTEGER PRIMARY KEY, b)");
    for begin in ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"] {
        two.execute("BEGIN; SELECT * FROM t").expect("it reads");
        one.execute(begin).expect("it begins");
        busy(&two, "INSERT INTO t VALUES (1, 'two')");
        busy(&two, "INSERT INTO t VALUES (1, 'two')");
        two.execute("COMMIT").expect("it has only read");
        for sql in
            ["INSERT INTO t VALUES (1, 'two')", "CREATE TABLE u(a)", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"]
        {
            busy(&two, sql);
        }
        assert_eq!(rows(&two, "SELECT count(*) FROM t"), ["0"], "readers are not excluded");
        assert!(!two.is_in_transaction());
        one.execute("INSERT INTO t VALUES (1, 'one'); DELETE FROM t; COMMIT").expect("it commits");
    }
    // By a rollback, and by the end of the connection, others get their turn.
    one.execute("BEGIN IMMEDIATE; ROLLBACK").expect("it ends");
    two.execute("BEGIN IMMEDIATE; INSERT INTO t VALUES (2, 'two'); COMMIT").expect("it is its turn");
    one.execute("BEGIN IMMEDIATE").expect("it begins");
    drop(one);
    two.execute("INSERT INTO t VALUES (3, 'two')").expect("it is its turn");
    // Writers that do not come through SQL wait, too.
    two.execute("BEGIN IMMEDIATE").expect("it begins");
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            db.create_table("other", &pando::TableOptions::default()).expect("it commits");
            is_done.store(true, Ordering::SeqCst);
        });
        thread::sleep(Duration::from_millis(30));
        assert!(!is_done.load(Ordering::SeqCst));
        two.execute("COMMIT").expect("it commits");
    });
    assert!(is_done.load(Ordering::SeqCst));
}

#[test]
fn a_transaction_that_meets_an_excluding_one_can_commit_after_it() {
    let (_, [one, two]) = several("CREATE TABLE t(a INTEGER PRIMARY KEY, b)");
    two.execute("BEGIN; INSERT INTO t VALUES (2, 'two')").expect("it writes");
    one.execute("BEGIN IMMEDIATE; INSERT INTO t VALUES (1, 'one')").expect("it writes");
    busy(&two, "COMMIT");
    assert!(two.is_in_transaction(), "nothing is lost");
    one.execute("COMMIT").expect("it commits");
    two.execute("COMMIT").expect("they do not conflict");
    assert_eq!(rows(&one, "SELECT * FROM t"), ["1|one", "2|two"]);
}

#[test]
fn a_busy_timeout_is_kept() {
    let (_, [one, two]) = several("CREATE TABLE t(a INTEGER PRIMARY KEY, b)");
    one.execute("BEGIN IMMEDIATE").expect("it begins");
    two.execute("PRAGMA busy_timeout = 200").expect("it is set");
    let begun = Instant::now();
    busy(&two, "INSERT INTO t VALUES (1, 1)");
    assert!(begun.elapsed() >= Duration::from_millis(190), "{:?}", begun.elapsed());
    thread::scope(|scope| {
        two.execute("PRAGMA busy_timeout = 10000").expect("it is set");
        scope.spawn(move || {
            thread::sleep(Duration::from_millis(100));
            one.execute("COMMIT").expect("it commits");
        });
        two.execute("INSERT INTO t VALUES (3, 3)").expect("it waits for its turn");
    });
}

#[test]
fn immediate_transactions_of_several_threads_never_conflict() {
    let (db, [first]) = several("CREATE TABLE t(a INTEGER PRIMARY KEY, b); INSERT INTO t VALUES (1, 0)");
    thread::scope(|scope| {
        for at in 0..4 {
            let connection = Connection::open(&db).expect("it opens");
            scope.spawn(move || {
                connection.execute("PRAGMA busy_timeout = 60000").expect("it is set");
                for round in 0..50 {
                    // Statements outside of BEGIN come between them, and are repeated where they conflict.
                    let work = match (round + at) % 5 {
                        0 => "UPDATE t SET b = b + 1",
                        _ => "BEGIN IMMEDIATE; UPDATE t SET b = b + 1; COMMIT",
                    };
                    connection.execute(work).unwrap_or_else(|error| panic!("{work}: {error}"));
                }
            });
        }
    });
    assert_eq!(rows(&first, "SELECT b FROM t"), ["200"]);
}

#[test]
fn a_statement_outside_of_begin_is_repeated_after_a_conflict() {
    let (db, [first]) = several("CREATE TABLE t(a INTEGER PRIMARY KEY, b); INSERT INTO t VALUES (1, 0)");
    thread::scope(|scope| {
        for _ in 0..4 {
            let connection = Connection::open(&db).expect("it opens");
            scope.spawn(move || {
                for _ in 0..100 {
                    connection.execute("UPDATE t SET b = b + 1 WHERE a = 1").expect("it is repeated");
                }
            });
        }
    });
    assert_eq!(rows(&first, "SELECT b FROM t"), ["400"]);
}

/// Adds `meddle(b)` to the first connection: whenever a statement calls it, the second one changes the row first, and
/// `act` runs.
fn meddling(one: &Connection, two: Connection, mut act: impl FnMut() + Send + 'static) {
    let change = move |_: &[pando_sqlite::ValueRef<'_>]| {
        // In the end it is excluded.
        let _changed = two.execute("UPDATE t SET b = b + 1 WHERE a = 1").is_ok();
        act();
        Ok(pando_sqlite::Value::Integer(100))
    };
    one.create_function("meddle", 0, change).expect("it is added");
}

#[test]
fn an_interrupt_between_two_attempts_of_a_statement_stops_it() {
    let (_, [one, two, three]) =
        several("CREATE TABLE t(a INTEGER PRIMARY KEY, b); INSERT INTO t VALUES (1, 0)");
    let interrupt = one.interrupt_handle();
    // It arrives after the last instruction that looks at it, and before the commit that meets a conflict.
    meddling(&one, two, move || interrupt.interrupt());
    let error = one.execute("UPDATE t SET b = meddle() WHERE a = 1").expect_err("it is interrupted");
    assert!(error.is_interrupted(), "{error}");
    assert_eq!(rows(&three, "SELECT b FROM t"), ["1"]);
    // One that arrives while nothing runs is about nothing.
    one.interrupt_handle().interrupt();
    one.execute("UPDATE t SET b = 5").expect("it runs");
}

#[test]
fn a_write_beside_a_query_is_waited_for_without_a_busy_timeout() {
    let (_, [one, two]) = several(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b); CREATE TABLE many(a); INSERT INTO many VALUES (1), (2)",
    );
    let (sender, begun) = std::sync::mpsc::channel();
    let pause = move |_: &[pando_sqlite::ValueRef<'_>]| {
        sender.send(()).expect("it is waited for");
        thread::sleep(Duration::from_millis(100));
        Ok(pando_sqlite::Value::Integer(1))
    };
    one.create_function("pause", 0, pause).expect("it is added");
    let waited = thread::spawn(move || {
        begun.recv().expect("the write has begun");
        two.execute("INSERT INTO t(b) VALUES ('alone')").expect("it waits");
        // In a transaction the end is the program's, and it is not waited for without a busy timeout.
        begun.recv().expect("the write has begun");
        thread::sleep(Duration::from_millis(200));
        busy(&two, "INSERT INTO t(b) VALUES ('alone')");
    });
    let mut reading = one.prepare("SELECT a FROM many").expect("it is prepared");
    assert!(reading.step().expect("it reads"));
    one.execute("INSERT INTO t(b) VALUES (pause())").expect("it excludes others");
    reading.reset().expect("it only reads");
    while rows(&one, "SELECT count(*) FROM t") != ["2"] {
        thread::yield_now();
    }
    assert!(reading.step().expect("it reads"));
    one.execute("BEGIN; INSERT INTO t(b) VALUES (pause())").expect("it excludes others");
    waited.join().expect("it has ended");
    one.execute("COMMIT").expect("it commits");
    assert_eq!(rows(&one, "SELECT b FROM t ORDER BY b"), ["1", "1", "alone"]);
}

#[test]
fn only_a_full_synchronous_setting_waits_for_the_disk() {
    let (db, [connection]) = several("CREATE TABLE t(a INTEGER PRIMARY KEY, b)");
    let count = || db.stats().expect("it is open").log_flushes;
    let flushes = |sql: &str| {
        let before = count();
        connection.execute(sql).expect("it commits");
        count() - before
    };
    for (setting, expected) in [("FULL", 1), ("EXTRA", 1), ("NORMAL", 0), ("OFF", 0)] {
        connection.execute(&format!("PRAGMA synchronous = {setting}")).expect("it is set");
        assert_eq!(flushes("INSERT INTO t(b) VALUES (1)"), expected, "{setting}");
        assert_eq!(flushes("BEGIN; INSERT INTO t(b) VALUES (2); COMMIT"), expected, "{setting}");
    }
}

#[test]
fn a_conflict_is_named_in_sqls_words() {
    let (_, [one, two]) = several(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b UNIQUE); CREATE INDEX \"by b\" ON t(b DESC, a);
         CREATE TABLE k(a TEXT PRIMARY KEY, b) WITHOUT ROWID; INSERT INTO t VALUES (7, 'seven')",
    );
    for (first, second, place) in [
        ("UPDATE t SET b = 'x' WHERE a = 7", "UPDATE t SET b = 'y' WHERE a = 7", "table t at rowid 7:"),
        (
            "INSERT INTO t VALUES (8, 'it''s')",
            "INSERT INTO t VALUES (9, 'it''s')",
            "index sqlite_autoindex_t_1 of table t at key ('it's', 8):",
        ),
        ("INSERT INTO k VALUES ('a', 1)", "INSERT INTO k VALUES ('a', 2)", "table k at key ('a'):"),
        (
            "INSERT INTO t VALUES (20, 9007199254740993)",
            "UPDATE t SET b = b WHERE b BETWEEN 9e15 AND 9.1e15 OR a = 1",
            "at key (9007199254740993, 20):",
        ),
        ("CREATE TABLE u(a)", "CREATE TABLE v(a)", "table v:"),
    ] {
        two.execute("BEGIN").expect("it begins");
        two.execute(second).expect("it writes");
        one.execute(first).expect("it writes");
        let error = two.execute("INSERT INTO k VALUES (random(), 0); COMMIT").expect_err(second);
        assert_eq!(error.code, BUSY_SNAPSHOT, "{error}");
        let expected = format!("database is locked: conflict in {place}");
        assert!(
            error.message.contains(place) && error.message.starts_with(&expected[..31]),
            "{error}, not {expected}"
        );
        assert!(!two.is_in_transaction());
    }
    // An error of another kind has its own words.
    let error = two.execute("SELECT * FROM absent").expect_err("there is no such table");
    assert_eq!(error.message, "no such table: absent");
}

#[test]
fn rows_without_an_id_are_inserted_side_by_side() {
    let (_, [one, two, three]) =
        several("CREATE TABLE t(a INTEGER PRIMARY KEY, b); INSERT INTO t(b) VALUES ('x')");
    for connection in [&one, &two, &three] {
        connection.execute("BEGIN; INSERT INTO t(b) VALUES ('p'), ('q'), ('r')").expect("it writes");
    }
    three.execute("ROLLBACK").expect("it rolls back");
    one.execute("INSERT INTO t(b) VALUES ('s'); COMMIT").expect("it commits");
    two.execute("COMMIT").expect("it does not conflict");
    assert_eq!(rows(&one, "SELECT count(*), count(DISTINCT a) FROM t"), ["8|8"]);
    // With one writer, numbers are SQLite's again.
    let last: i64 = rows(&one, "SELECT max(a) FROM t")[0].parse().expect("a number");
    one.execute("INSERT INTO t(b) VALUES ('y')").expect("it writes");
    assert_eq!(one.last_insert_rowid(), last + 1);
    one.execute("DELETE FROM t WHERE a > 1; INSERT INTO t(b) VALUES ('z')").expect("it writes");
    assert_eq!(rows(&one, "SELECT * FROM t"), ["1|x", "2|z"]);
}

/// What was committed after a transaction began is not visible to it, and its numbers are passed over all the same.
#[test]
fn ids_of_a_transaction_that_has_ended_are_passed_over() {
    let (_, [one, two]) = several("CREATE TABLE t(a INTEGER PRIMARY KEY, b); CREATE TABLE other(a)");
    two.execute("BEGIN; SELECT * FROM other").expect("it begins");
    one.execute("INSERT INTO t(b) VALUES ('one')").expect("it commits");
    two.execute("INSERT INTO t(b) VALUES ('two'); COMMIT").expect("it does not conflict");
    assert_eq!(rows(&two, "SELECT * FROM t"), ["1|one", "2|two"]);
}

#[test]
fn a_row_with_an_id_of_another_transaction_is_never_overwritten() {
    let (_, [one, two]) = several("CREATE TABLE t(a INTEGER PRIMARY KEY, b)");
    two.execute("BEGIN; INSERT INTO t(b) VALUES ('two')").expect("it writes");
    assert_eq!(two.last_insert_rowid(), 1);
    one.execute("INSERT INTO t VALUES (1, 'one')").expect("it writes the same id");
    assert_eq!(two.execute("COMMIT").expect_err("the id is taken").code, BUSY_SNAPSHOT);
    assert_eq!(rows(&two, "SELECT * FROM t"), ["1|one"]);
}

#[test]
fn numbers_of_autoincrement_are_never_given_twice() {
    let (db, [first]) =
        several("CREATE TABLE t(a INTEGER PRIMARY KEY AUTOINCREMENT, b); CREATE TABLE given(a UNIQUE)");
    thread::scope(|scope| {
        for _ in 0..3 {
            let connection = Connection::open(&db).expect("it opens");
            scope.spawn(move || {
                for _ in 0..40 {
                    connection.execute("INSERT INTO t(b) VALUES ('x')").expect("it is repeated");
                    let id = connection.last_insert_rowid();
                    connection.execute(&format!("DELETE FROM t WHERE a = {id}")).expect("it deletes");
                    connection
                        .execute(&format!("INSERT INTO given VALUES ({id})"))
                        .expect("it was not given before");
                }
            });
        }
    });
    // A statement that is repeated after a conflict passes over the number of its first attempt.
    assert_eq!(rows(&first, "SELECT count(*), max(a) >= 120 FROM given"), ["120|1"]);
    assert_eq!(rows(&first, "SELECT seq = (SELECT max(a) FROM given) FROM sqlite_sequence"), ["1"]);
}

#[test]
fn a_write_beside_a_running_query_is_a_transaction_with_it() {
    let (_, [one, two]) =
        several("CREATE TABLE t(a INTEGER PRIMARY KEY, b); INSERT INTO t VALUES (1, 10), (2, 20)");
    let mut reading = one.prepare("SELECT b FROM t").expect("it is prepared");
    assert!(reading.step().expect("it reads"));
    two.execute("UPDATE t SET b = 11 WHERE a = 1").expect("it writes");
    let error = one.execute("INSERT INTO t VALUES (3, 30)").expect_err("what was read has changed");
    assert_eq!(error.code, BUSY_SNAPSHOT, "{error}");
    drop(reading);
    // From the write on, nobody else changes what was read.
    let mut reading = one.prepare("SELECT b FROM t").expect("it is prepared");
    assert!(reading.step().expect("it reads"));
    one.execute("BEGIN; INSERT INTO t VALUES (3, 30)").expect("nothing has changed");
    busy(&two, "UPDATE t SET b = 12 WHERE a = 1");
    one.execute("COMMIT").expect("it commits");
    two.execute("UPDATE t SET b = 12 WHERE a = 1").expect("it is its turn");
}

#[test]
fn a_statement_is_not_stopped_after_its_commit() {
    let (_, [mut one, two]) = several("CREATE TABLE t(a INTEGER PRIMARY KEY, b)");
    // Asked at every opportunity, it stops what it finds committed.
    let stop = move || rows(&two, "SELECT count(*) FROM t") != ["0"];
    one.set_progress_handler(1, Some(stop)).expect("it is set");
    one.execute("INSERT INTO t VALUES (1, 1)").expect("it is committed");
}
